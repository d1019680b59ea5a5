/*
 * The bytes that attention sends and reads in place, and the pairs that it computes, on every rank, forward and
 * backward, equal a count from the mask over all pairs of a query and a key. No program runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "graph/graph.h"
#include "support/meshes.h"
#include "support/plain_attention.h"

/* D, E: elements of a head of keys, and of values. */
enum { HQ = 4, HKV = 2, D = 4, E = 7, B = 2, MOST = 64, RANKS = 8 };

/* --- the independent count ---------------------------------------------------------------------------------------- */

/* Which tokens of each block the queries of each see, and how many pairs. */
typedef struct sight {
    int R;
    int64_t tokens[RANKS]; /* of a block */
    bool sees[RANKS][RANKS][MOST];
    double pairs[RANKS][RANKS];
} sight;

static sight look(const ls_mask *mask, const ls_layout *layout, int U) {
    sight s = {.R = layout->P / U};
    int32_t positions[RANKS][MOST];
    for (int p = 0; p < layout->P; p++) {
        const int block = p / U;
        ls_layout_positions(layout, p, positions[block] + s.tokens[block]);
        s.tokens[block] += ls_layout_count(layout, p);
    }
    for (int i = 0; i < s.R; i++) {
        for (int j = 0; j < s.R; j++) {
            for (int64_t q = 0; q < s.tokens[i]; q++) {
                for (int64_t k = 0; k < s.tokens[j]; k++) {
                    if (!plain_sees(mask, positions[i][q], positions[j][k])) continue;
                    s.sees[i][j][k] = true;
                    s.pairs[i][j]++;
                }
            }
        }
    }
    return s;
}

/* Tokens of block j that one of n blocks, i and those behind it in the ring, sees. */
static double count(const sight *s, int i, int n, int j) {
    double tokens = 0;
    for (int64_t k = 0; k < s->tokens[j]; k++) {
        bool seen = false;
        for (int a = 0; a < n; a++) seen |= s->sees[(i + a) % s->R][j][k];
        tokens += seen;
    }
    return tokens;
}

static int around(const sight *s, int i) { return (i % s->R + s->R) % s->R; }

/*
 * Tokens of keys (and as many of values): that index r of a ring sends on, sees of others, and that others see of its
 * own.
 */
static double sends(const sight *s, int r) {
    double tokens = 0;
    for (int h = 1; h < s->R; h++) tokens += count(s, around(s, r + 1), s->R - h, around(s, r + 1 - h));
    return tokens;
}

static double sees_of_others(const sight *s, int r) {
    double tokens = 0;
    for (int j = 0; j < s->R; j++) tokens += j == r ? 0 : count(s, r, 1, j);
    return tokens;
}

static double is_seen_by_others(const sight *s, int r) {
    double tokens = 0;
    for (int i = 0; i < s->R; i++) tokens += i == r ? 0 : count(s, i, 1, r);
    return tokens;
}

/* --- what the programs do ----------------------------------------------------------------------------------------- */

typedef struct cost {
    ls_program_cost forward, both;
    double keys, pairs;     /* that attention was called with, forward, for all heads together */
    size_t slots;           /* bytes, of both passes */
    double away, both_away; /* bytes sent to ranks of another inner ring */
} cost;

/* Of what a program puts, the bytes for ranks that differ along other axes of blocks than the innermost. */
static double sent_away(const ls_image *image, int program, int rank) {
    const ls_program *p = &image->programs[program];
    const int near = mesh_inner(&image->mesh) * mesh_ulysses(&image->mesh);
    double bytes = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *put = &p->instrs[i];
        if (put->kind != LS_INSTR_PUT) continue;
        const int peer = ls_peer_rank(image, put->peer, rank);
        bytes += peer / near != rank / near ? ls_operand_bytes(&put->in[0]) : 0;
    }
    return bytes;
}

static double keys_of(const ls_image *image, double *pairs) {
    const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_EVALUATE)];
    double keys = 0;
    *pairs = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        if (strcmp(p->instrs[i].op, "attention") != 0) continue;
        const int64_t *k = p->instrs[i].in[1].view.size;
        keys += (double)(k[1] * k[2]) / HKV;
        *pairs += p->instrs[i].flops / (2 * (D + E) * HQ * B);
    }
    return keys;
}

static size_t slots_of(const ls_image *image) {
    const int micro = ls_program_find(image, LS_PROGRAM_MICRO);
    size_t bytes = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        bytes += b->kind == LS_BUFFER_SLOT && b->program == micro ? b->bytes : 0;
    }
    return bytes;
}

static cost measure_heads(const ls_mask *mask, int64_t S, int64_t Hq, int64_t Hkv, ls_target target, ls_dtype dtype) {
    ls_graph *g = ls_graph_create(dtype);
    const ls_shape qs = {4, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {Hq, 0}, {D, 0}}};
    const ls_shape ks = {4, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {Hkv, 0}, {D, 0}}};
    const ls_shape vs = {4, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {Hkv, 0}, {E, 0}}};
    const ls_shape os = {4, {{B, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {Hq, 0}, {E, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", dtype, &qs),
                    k = ls_graph_leaf(g, LS_ROLE_INPUT, "k", dtype, &ks),
                    v = ls_graph_leaf(g, LS_ROLE_INPUT, "v", dtype, &vs),
                    go = ls_graph_leaf(g, LS_ROLE_INPUT, "do", dtype, &os);
    const ls_tensor o = ls_attention(g, q, k, v, mask, 0.3);
    const int forward = g->n_nodes;
    ls_derivative d = {.n_roots = 1, .root = {o}, .seed = {go}, .n_wanted = 3, .wanted = {q, k, v}};
    assert_int_equal(ls_differentiate(g, &d).code, LS_OK);
    const ls_job job = {.graph = g,
                        .programs = ls_plain_programs(g, forward),
                        .fetch = (ls_tensor[]){o, d.gradient[0], d.gradient[1], d.gradient[2]},
                        .n_fetch = 4};
    ls_image *image;
    const ls_status status = ls_compile(&job, &target, &image);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    cost c = {.forward = ls_program_measure(image, ls_program_find(image, LS_PROGRAM_EVALUATE)),
              .both = ls_program_measure(image, ls_program_find(image, LS_PROGRAM_MICRO))};
    c.keys = keys_of(image, &c.pairs);
    c.away = sent_away(image, ls_program_find(image, LS_PROGRAM_EVALUATE), target.rank);
    c.both_away = sent_away(image, ls_program_find(image, LS_PROGRAM_MICRO), target.rank);
    c.slots = slots_of(image);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    return c;
}

static cost measure(const ls_mask *mask, int64_t S, ls_target target, ls_dtype dtype) {
    return measure_heads(mask, S, HQ, HKV, target, dtype);
}

static void equal(const char *what, const ls_mask *mask, const ls_target *t, double is, double expected) {
    char name[200];
    ls_mask_print(mask, name, sizeof name);
    if (is != expected)
        fail_msg("%s, %s, %s, ring %d x ulysses %d, rank %d: %s: %g, expected %g", t->strategy, name,
                 ls_layout_name(t->layout), mesh_ring(&t->mesh), mesh_ulysses(&t->mesh), t->rank, what, is, expected);
}

static ls_target target_of(const char *strategy, ls_layout_kind layout, int R, int U, int rank,
                           ls_transfers transfers) {
    return (ls_target){.mesh = mesh_of(1, R, U),
                       .rank = rank,
                       .strategy = strategy,
                       .layout = layout,
                       .isa = LS_ISA_BASE,
                       .threads = 1,
                       .transfers = transfers,
                       .host_ranks = LS_ONE_HOST};
}

/* Bytes of keys and values of one token, of so many heads. */
static double pair_bytes(double heads, ls_dtype dtype) { return B * heads * (D + E) * (double)ls_dtype_bytes(dtype); }

/*
 * A strategy that moves keys: what it sends forward, by the index in a ring. In place a rank reads what it sees and no
 * more.
 */
typedef struct mover {
    const char *strategy;
    double (*sends)(const sight *s, int r);
    bool reads_in_place;
    bool counted; /* attention is called for the pairs that are seen, and for no others */
} mover;

static const mover movers[] = {
    {"ring", sends, true, true}, {"gather", is_seen_by_others, false, true}, {"rsa", sends, true, false}};

static ls_layout layout_of(const ls_mask *mask, int64_t S, ls_layout_kind kind, int R, int U, ls_arena *arena) {
    const ls_layout_mask masks[] = {{mask, 1}};
    return ls_layout_make(
        &(ls_layout_need){.kind = kind, .S = S, .P = R * U, .members = U, .masks = masks, .n_masks = 1}, arena);
}

static void check(const mover *m, const ls_mask *mask, int64_t S, ls_layout_kind kind, int R) {
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = layout_of(mask, S, kind, R, 1, arena);
    const sight s = look(mask, &layout, 1);
    ls_arena_destroy(arena);
    const double kv = pair_bytes(HKV, LS_BF16), dkv = pair_bytes(HKV, LS_F32);
    for (int r = 0; r < R; r++) {
        const ls_target put = target_of(m->strategy, kind, R, 1, r, LS_TRANSFERS_PUT);
        cost c = measure(mask, S, put, LS_BF16);
        equal("sent forward", mask, &put, c.forward.bytes_sent, kv * m->sends(&s, r));
        equal("sent backward", mask, &put, c.both.bytes_sent - c.forward.bytes_sent,
              kv * m->sends(&s, r) + dkv * sees_of_others(&s, r));
        double pairs = 0;
        for (int j = 0; j < R; j++) pairs += s.pairs[r][j];
        if (m->counted) equal("keys", mask, &put, c.keys, (double)s.tokens[r] + sees_of_others(&s, r));
        if (m->counted) equal("pairs", mask, &put, c.pairs, pairs);
        if (!m->reads_in_place) continue;

        const ls_target in_place = target_of(m->strategy, kind, R, 1, r, LS_TRANSFERS_IN_PLACE);
        c = measure(mask, S, in_place, LS_BF16);
        equal("sent in place", mask, &in_place, c.both.bytes_sent, 0);
        equal("read forward", mask, &in_place, c.forward.bytes_read, kv * sees_of_others(&s, r));
        equal("read backward", mask, &in_place, c.both.bytes_read - c.forward.bytes_read,
              kv * sees_of_others(&s, r) + dkv * is_seen_by_others(&s, r));
    }
}

static ls_mask mask_of(const char *a, const char *b) {
    ls_mask mask = {0};
    assert_int_equal(ls_mask_add_term(&mask, a).code, LS_OK);
    if (b != NULL) assert_int_equal(ls_mask_add_term(&mask, b).code, LS_OK);
    return mask;
}

static const int32_t ends[] = {0, 1, 9, 10, 22, 33, 41};

static ls_mask with_documents(ls_mask mask) {
    mask.term[mask.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = LS_COUNT(ends)};
    return mask;
}

static void test_masks(void **state) {
    (void)state;
    const ls_mask masks[] = {mask_of("full", NULL),
                             mask_of("causal", NULL),
                             mask_of("window:5", NULL),
                             mask_of("window:5:2", NULL),
                             mask_of("prefix:9", NULL),
                             with_documents(mask_of("full", NULL)),
                             with_documents(mask_of("causal", NULL)),
                             with_documents(mask_of("window:4", NULL)),
                             mask_of("window:7:3", "prefix:20"),
                             with_documents(mask_of("window:9:12", "window:3:20"))};
    static const int rings[] = {2, 3, 4, 5, 8};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        for (size_t r = 0; r < LS_COUNT(rings); r++) {
            for (int layout = 0; layout < LS_LAYOUTS; layout++)
                for (size_t i = 0; i < LS_COUNT(movers); i++)
                    check(&movers[i], &masks[m], 41, (ls_layout_kind)layout, rings[r]);
        }
    }
}

/*
 * What is published of the full mask: (P-1)n·2e for keys and values, here of different sizes. Gradients come home over
 * P-1 hops and not P: a rank's own part stays where it is made.
 */
static void test_full(void **state) {
    (void)state;
    const ls_mask full = mask_of("full", NULL), causal = mask_of("causal", NULL), window = mask_of("window:5", NULL);
    const int P = 4;
    const double n = 10, kv = pair_bytes(HKV, LS_BF16), dkv = pair_bytes(HKV, LS_F32);
    double of_causal = 0;
    for (int r = 0; r < P; r++) {
        const ls_target t = target_of("ring", LS_LAYOUT_CONTIGUOUS, P, 1, r, LS_TRANSFERS_PUT);
        cost c = measure(&full, P * 10, t, LS_BF16);
        equal("sent forward", &full, &t, c.forward.bytes_sent, (P - 1) * n * kv);
        equal("sent", &full, &t, c.both.bytes_sent, (P - 1) * n * (2 * kv + dkv));
        of_causal += measure(&causal, P * 10, t, LS_BF16).both.bytes_sent;
        c = measure(&window, P * 10, t, LS_BF16);
        equal("sent forward", &window, &t, c.forward.bytes_sent, r + 1 < P ? 4 * kv : 0);
        equal("transfers", &window, &t, c.forward.transfers, r + 1 < P ? 2 : 0);
        equal("sent backward", &window, &t, c.both.bytes_sent - c.forward.bytes_sent,
              (r + 1 < P ? 4 * kv : 0) + (r > 0 ? 4 * dkv : 0));
    }
    /* Contiguous causal: half of it. */
    assert_true(of_causal == P * (P - 1) * n * (2 * kv + dkv) / 2);
}

/*
 * With two rings as many bytes go round as with one, and of these each rank sends what it must once to each other inner
 * ring. LoongTrain sends gradients R/W times across, and W more messages of them within each.
 */
static void test_two_rings(void **state) {
    (void)state;
    static const int meshes[][2] = {{2, 2}, {2, 4}, {4, 2}, {2, 3}, {3, 2}};
    const ls_mask full = mask_of("full", NULL);
    const double n = 6, kv = pair_bytes(HKV, LS_BF16), dkv = pair_bytes(HKV, LS_F32);
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        const int O = meshes[m][0], R = O * meshes[m][1];
        for (int r = 0; r < R; r++) {
            ls_target t = target_of("double-ring", LS_LAYOUT_CONTIGUOUS, R, 1, r, LS_TRANSFERS_PUT);
            t.mesh = mesh_of_outer(1, O, R / O, 1);
            const cost c = measure(&full, R * 6, t, LS_BF16);
            equal("sent forward", &full, &t, c.forward.bytes_sent, (R - 1) * n * kv);
            equal("sent", &full, &t, c.both.bytes_sent, (R - 1) * n * (2 * kv + dkv));
            equal("sent away forward", &full, &t, c.away, (O - 1) * n * kv);
            equal("sent away", &full, &t, c.both_away, (O - 1) * n * (2 * kv + dkv));
        }
    }
}

/*
 * Masks: of a block a rank gets what is wanted of it further along its way, and of a sum what its ring sees. Nothing is
 * sent across that nobody sees there.
 */
static void test_masks_of_two_rings(void **state) {
    (void)state;
    const ls_mask masks[] = {mask_of("causal", NULL), mask_of("window:5", NULL),
                             with_documents(mask_of("causal", NULL))};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        for (int kind = 0; kind < LS_LAYOUTS; kind++) {
            ls_arena *arena = ls_arena_create();
            const ls_layout layout = layout_of(&masks[m], 41, (ls_layout_kind)kind, 6, 1, arena);
            const sight s = look(&masks[m], &layout, 1);
            for (int r = 0; r < 6; r++) {
                ls_target t = target_of("double-ring", (ls_layout_kind)kind, 6, 1, r, LS_TRANSFERS_PUT);
                t.mesh = mesh_of_outer(1, 2, 3, 1);
                const cost c = measure(&masks[m], 41, t, LS_BF16);
                equal("sent away forward", &masks[m], &t, c.away,
                      count(&s, r < 3 ? 3 : 0, 3, r) * pair_bytes(HKV, LS_BF16));
                equal("sums sent away", &masks[m], &t, c.both_away - 2 * c.away,
                      count(&s, r < 3 ? 0 : 3, 3, (r + 3) % 6) * pair_bytes(HKV, LS_F32));
            }
            ls_arena_destroy(arena);
        }
    }
}

/* Inside a ulysses dimension the ring carries each rank's share of the heads for its whole block. */
static void test_inside_ulysses(void **state) {
    (void)state;
    const int U = 2, R = 3;
    const int64_t S = 36;
    const ls_mask masks[] = {mask_of("causal", NULL), mask_of("window:5", NULL)};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        for (int kind = 0; kind < LS_LAYOUTS; kind++) {
            ls_arena *arena = ls_arena_create();
            const ls_layout layout = layout_of(&masks[m], S, (ls_layout_kind)kind, R, U, arena);
            const sight s = look(&masks[m], &layout, U);
            ls_arena_destroy(arena);
            const double kv = pair_bytes((double)HKV / U, LS_F64);
            for (int r = 0; r < R * U; r++) {
                const ls_target t = target_of("usp", (ls_layout_kind)kind, R, U, r, LS_TRANSFERS_PUT);
                const cost c = measure(&masks[m], S, t, LS_F64);
                const double n = (double)S / (R * U), exchanged = n / U * pair_bytes(HQ + HKV, LS_F64);
                equal("sent forward", &masks[m], &t, c.forward.bytes_sent, exchanged + kv * sends(&s, r / U));
            }
        }
    }
}

/*
 * What a group takes does not depend on how many there are: all keys and values of two heads, and as much of others'
 * parts.
 */
static void test_groups(void **state) {
    (void)state;
    const ls_mask full = mask_of("full", NULL);
    const ls_target t = target_of("gather", LS_LAYOUT_CONTIGUOUS, 4, 1, 1, LS_TRANSFERS_PUT);
    const size_t token = 2 * B * (D + E), bytes = 40 * token * (2 * sizeof(ls_bf16)) + 30 * token * sizeof(float);
    for (int64_t Hkv = 2; Hkv <= 8; Hkv *= 2)
        assert_int_equal(measure_heads(&full, 40, 8, Hkv, t, LS_BF16).slots, bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),          cmocka_unit_test(test_full),
        cmocka_unit_test(test_two_rings),      cmocka_unit_test(test_masks_of_two_rings),
        cmocka_unit_test(test_inside_ulysses), cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
