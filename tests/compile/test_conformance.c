/*
 * Conformance of attention strategies (support/conformance.h) over a third of a covering set of cases, in which every
 * pair occurs of strategy on a mesh, mask, layout, numbers of heads, type, transfers, shape, size of logits, sink or
 * soft cap, and instruction set; long_conformance.c runs the matrix. Also checked in the programs: bytes sent equal the
 * published formulas, and slots do not grow with the ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/comm.h"
#include "support/attention_spread.h"
#include "support/conformance.h"
#include "support/covering.h"
#include "support/meshes.h"
#include "support/traffic.h"

_Static_assert((int)CONFORM_AXES <= (int)COVERING_AXES, "a row of a covering set holds a case");

/* --- every pair --------------------------------------------------------------------------------------------------- */

/* Cases of one problem behind each other. */
static int by_problem(const void *a, const void *b) {
    static const int order[] = {CONFORM_MASK,   CONFORM_HEADS, CONFORM_SHAPE, CONFORM_LOGITS,
                                CONFORM_EXTRAS, CONFORM_DTYPE, CONFORM_ISA};
    const covering_row *x = a, *y = b;
    for (size_t i = 0; i < LS_COUNT(order); i++) {
        if (x->at[order[i]] != y->at[order[i]]) return x->at[order[i]] < y->at[order[i]] ? -1 : 1;
    }
    return 0;
}

/* Rows in which every pair occurs. */
static covering_row *make_rows(const conformance_axes *axes, int *n) {
    covering_axes cover = {.n = CONFORM_AXES, .allowed = conformance_allowed, .context = axes, .seed = 1};
    memcpy(cover.size, axes->size, sizeof axes->size);
    int pairs;
    covering_row *rows = covering_make(&cover, n, &pairs);
    assert_int_equal(covering_count(&cover, rows, *n), pairs);
    print_message("%d cases cover %d pairs\n", *n, pairs);
    qsort(rows, (size_t)*n, sizeof *rows, by_problem);
    return rows;
}

/*
 * The matrix is for the long tier. Under a sanitizer every row takes many times as long, and pairs of axes that only
 * change numbers take the same way.
 */
static int stride(void) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    return sanitizer != NULL && sanitizer[0] != 0 ? 16 : 3;
}

static void test_a_third_of_the_pairs(void **state) {
    (void)state;
    static conformance_axes axes;
    static conformance_account account;
    conformance_axes_make(&axes);
    int n;
    covering_row *rows = make_rows(&axes, &n);
    conformance *c = conformance_open(&axes, &account);
    for (int r = 0; r < n; r += stride()) {
        conformance_case it;
        memcpy(it.at, rows[r].at, sizeof it.at);
        conformance_check(c, &it);
    }
    conformance_close(c);
    free(rows);
    conformance_report(&axes, &account);
}

/* --- digests ------------------------------------------------------------------------------------------------------ */

/*
 * What the ranks of a case do with blocks: put, where this process starts them; where somebody else has launched them,
 * what the case says, as far as ranks can read each other's heaps.
 */
static ls_target digest_target(const conformance_axes *axes, const conformance_case *it, const ls_hosts *hosts) {
    const conformance_place *place = &axes->place[it->at[CONFORM_PLACE]];
    ls_target target = {.mesh = place->mesh,
                        .strategy = place->strategy,
                        .layout = (ls_layout_kind)it->at[CONFORM_LAYOUT],
                        .isa = axes->isa[it->at[CONFORM_ISA]],
                        .threads = 1};
    (void)conformance_transfers(it->at[CONFORM_TRANSFERS], place, &target);
    if (hosts == NULL || hosts->block == 1) target.transfers = LS_TRANSFERS_PUT;
    target.host_ranks = hosts == NULL || hosts->block == ls_mesh_ranks(&place->mesh) ? LS_ONE_HOST : hosts->block;
    return target;
}

static ls_status digest_of(const conformance_axes *axes, const conformance_case *it, const ls_hosts *hosts,
                           uint64_t *digest) {
    const int *at = it->at;
    const plain_sizes n = conformance_sizes(at[CONFORM_SHAPE], at[CONFORM_HEADS]);
    const ls_mask mask = conformance_mask(at[CONFORM_MASK], at[CONFORM_SHAPE]);
    plain_attention problem = plain_attention_make(n, &mask, conformance_extras(at[CONFORM_EXTRAS]),
                                                   conformance_spread(at[CONFORM_LOGITS]), (uint64_t)n.S);
    ls_target target = digest_target(axes, it, hosts);
    const ls_dtype dtype = conformance_dtype(at[CONFORM_DTYPE]);
    ls_status refused;
    *digest = 0;
    ls_status status = attention_digest(&problem, &target, dtype, digest, &refused);
    if (status.code == LS_OK && refused.code != LS_OK && target.transfers != LS_TRANSFERS_PUT) {
        target.transfers = LS_TRANSFERS_PUT;
        status = attention_digest(&problem, &target, dtype, digest, &refused);
    }
    plain_attention_free(&problem);
    return status;
}

/*
 * Not a test, but the ground of comm/long_transport_matrix.sh: every nth row of a covering set on so many ranks, and
 * the digest of its results, printed by rank 0. Ranks may have been launched, on any transports.
 */
static int print_digests(int ranks, int every) {
    static conformance_axes axes;
    ls_launched job;
    ls_hosts hosts;
    ls_status status = ls_launched_find(&job);
    if (status.code == LS_OK && job.ranks > 0) status = ls_hosts_find(ranks, &hosts);
    conformance_axes_of(&axes, ranks);
    int n, pairs;
    covering_axes cover = {.n = CONFORM_AXES, .allowed = conformance_allowed, .context = &axes, .seed = 1};
    memcpy(cover.size, axes.size, sizeof axes.size);
    covering_row *rows = covering_make(&cover, &n, &pairs);
    for (int r = 0; r < n && status.code == LS_OK; r += every) {
        conformance_case it;
        uint64_t digest;
        memcpy(it.at, rows[r].at, sizeof it.at);
        status = digest_of(&axes, &it, job.ranks > 0 ? &hosts : NULL, &digest);
        if (status.code == LS_OK && job.rank == 0) printf("%d of %d %016llx\n", r, n, (unsigned long long)digest);
    }
    free(rows);
    if (status.code != LS_OK) fprintf(stderr, "rank %d: %s\n", job.rank, status.text);
    return status.code != LS_OK;
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static plain_attention dense_problem(int64_t S, int64_t Hq, int64_t Hkv) {
    return (plain_attention){.n = {.B = 1, .S = S, .Hq = Hq, .Hkv = Hkv, .D = 16}, .scale = 0.25};
}

static ls_target target_at(const conformance_place *place, ls_transfers transfers) {
    ls_machine machine;
    ls_machine_detect(&machine);
    return (ls_target){.mesh = place->mesh,
                       .strategy = place->strategy,
                       .isa = machine.isa,
                       .threads = 1,
                       .transfers = transfers,
                       .host_ranks = LS_ONE_HOST};
}

static attention_traffic traffic_at(const conformance_place *place, const plain_attention *problem, ls_dtype dtype,
                                    ls_transfers transfers) {
    const ls_target target = target_at(place, transfers);
    attention_traffic t;
    const ls_status status = attention_traffic_of(problem, &target, dtype, &t);
    if (status.code != LS_OK) fail_msg("%s: %s", place->strategy, status.text);
    return t;
}

/* False: there is no formula. */
static bool check_bytes(const conformance_place *place, int64_t Hkv, ls_dtype dtype) {
    enum { TOKENS = 4, HQ = 8 };
    const int R = mesh_ring(&place->mesh), U = mesh_ulysses(&place->mesh);
    const plain_attention problem = dense_problem(TOKENS * R * U, HQ, Hkv);
    const attention_traffic t = traffic_at(place, &problem, dtype, LS_TRANSFERS_PUT);
    const traffic_problem p = {.strategy = place->strategy,
                               .R = R,
                               .U = U,
                               .d = (double)(HQ * problem.n.D),
                               .e = (double)(Hkv * problem.n.D),
                               .h = HQ,
                               .T = dtype,
                               .G = ls_dtype_accumulator(dtype),
                               .lse = true};
    traffic each;
    if (!traffic_published(&p, &each)) return false;
    if (t.sent_forward != TOKENS * each.forward || t.sent_backward != TOKENS * each.backward)
        fail_msg("%s of ring %d ulysses %d, Hkv %lld, %s: sends %g bytes forward and %g backward, expected "
                 "%g and %g",
                 place->strategy, R, U, (long long)Hkv, ls_dtype_name(dtype), t.sent_forward, t.sent_backward,
                 TOKENS * each.forward, TOKENS * each.backward);
    return true;
}

static void test_bytes_of_the_full_mask(void **state) {
    (void)state;
    static conformance_axes axes;
    conformance_axes_make(&axes);
    int checked = 0;
    for (int p = 0; p < axes.size[CONFORM_PLACE]; p++) {
        const conformance_place *place = &axes.place[p];
        for (int64_t Hkv = 1; Hkv <= 8; Hkv *= 2) {
            if (Hkv % mesh_ulysses(&place->mesh) != 0) continue;
            checked += check_bytes(place, Hkv, LS_F32) + check_bytes(place, Hkv, LS_BF16);
        }
    }
    print_message("%d programs send what the formulas say\n", checked);
    assert_true(checked > 100);
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

/* What rotates has two slots for each direction, so that bytes do not grow with the ranks; few ranks may need fewer. */
static void test_slots_do_not_grow(void **state) {
    (void)state;
    static const char *const rotating[] = {"ring", "usp", "tokenring", "burst", "rsa"};
    enum { TOKENS = 4 };
    for (size_t s = 0; s < LS_COUNT(rotating); s++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            double bytes = -1;
            for (int R = 4; R <= 16; R *= 2) {
                const conformance_place place = {.strategy = rotating[s], .mesh = mesh_of(1, R, 1)};
                bool can;
                if (ls_strategy_reads_in_place(rotating[s], &can).code != LS_OK || (in_place > 0 && !can)) continue;
                const plain_attention problem = dense_problem(TOKENS * R, 8, 2);
                const attention_traffic t =
                    traffic_at(&place, &problem, LS_BF16, in_place ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT);
                if (bytes >= 0 && t.slot_bytes != bytes)
                    fail_msg("%s: %g bytes of slots on %d ranks, %g on 4", rotating[s], t.slot_bytes, R, bytes);
                bytes = t.slot_bytes;
                assert_int_equal(t.sent_forward + t.sent_backward > 0, !in_place);
            }
        }
    }
}

/* With two rings there are as many, whatever their sizes are. */
static void test_slots_of_two_rings(void **state) {
    (void)state;
    enum { TOKENS = 4 };
    double bytes = -1;
    for (int outer = 3; outer <= 4; outer++) {
        for (int ring = 3; ring <= 4; ring++) {
            const conformance_place place = {.strategy = "double-ring", .mesh = mesh_of_outer(1, outer, ring, 1)};
            const plain_attention problem = dense_problem(TOKENS * outer * ring, 8, 2);
            const attention_traffic t = traffic_at(&place, &problem, LS_BF16, LS_TRANSFERS_PUT);
            if (bytes >= 0 && t.slot_bytes != bytes)
                fail_msg("%d rings of %d: %g bytes of slots, %g with 3 of 3", outer, ring, t.slot_bytes, bytes);
            bytes = t.slot_bytes;
        }
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "digests") == 0) return print_digests(atoi(argv[2]), atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_the_full_mask),
        cmocka_unit_test(test_slots_do_not_grow),
        cmocka_unit_test(test_slots_of_two_rings),
        cmocka_unit_test(test_a_third_of_the_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
