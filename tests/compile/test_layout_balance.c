/*
 * How even the work of 8 ranks is, by attention's pairs and by the clock of the programs, for causal masks, windows
 * and packed documents of long-tailed lengths. Prints the figures.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "simulate/simulate.h"
#include "support/emulated.h"
#include "support/meshes.h"

enum { P = 8, MOST_S = 65536 };

/* --- pairs -------------------------------------------------------------------------------------------------------- */

/* What the rank with most to do has over the mean. */
static double excess(const ls_layout *layout, const ls_mask *mask) {
    int32_t *positions = malloc(sizeof *positions * (size_t)ls_layout_most(layout));
    double most = 0, sum = 0;
    for (int p = 0; p < layout->P; p++) {
        double mine = 0;
        ls_layout_positions(layout, p, positions);
        for (int64_t i = 0; i < ls_layout_count(layout, p); i++) {
            ls_span spans[LS_MASK_SPANS];
            const int n = ls_mask_spans(mask, layout->S, positions[i], spans);
            for (int s = 0; s < n; s++) mine += spans[s].hi - spans[s].lo;
        }
        most = fmax(most, mine);
        sum += mine;
    }
    free(positions);
    return most * layout->P / sum - 1;
}

static ls_layout make(ls_arena *arena, ls_layout_kind kind, int64_t S, const ls_mask *mask) {
    const ls_layout_mask masks[] = {{mask, 1}};
    return ls_layout_make(&(ls_layout_need){.kind = kind, .S = S, .P = P, .masks = masks, .n_masks = 1}, arena);
}

static double excess_of(ls_layout_kind kind, int64_t S, const ls_mask *mask) {
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = make(arena, kind, S, mask);
    const double over = excess(&layout, mask);
    ls_arena_destroy(arena);
    return over;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static ls_graph *attention_graph(int64_t S, const ls_mask *mask) {
    ls_graph *g = ls_graph_create(LS_BF16);
    const ls_shape qs = {4, {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {8, 0}, {128, 0}}};
    const ls_shape ks = {4, {{1, LS_FACTOR_BATCH}, {S, LS_FACTOR_SEQUENCE}, {2, 0}, {128, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", LS_BF16, &qs),
                    k = ls_graph_leaf(g, LS_ROLE_INPUT, "k", LS_BF16, &ks),
                    v = ls_graph_leaf(g, LS_ROLE_INPUT, "v", LS_BF16, &ks),
                    go = ls_graph_leaf(g, LS_ROLE_INPUT, "do", LS_BF16, &qs);
    const ls_tensor o = ls_attention(g, q, k, v, mask, 0.1);
    ls_derivative d = {.n_roots = 1, .root = {o}, .seed = {go}, .n_wanted = 3, .wanted = {q, k, v}};
    assert_int_equal(ls_differentiate(g, &d).code, LS_OK);
    return g;
}

/* The time of the programs over the mean of what the ranks do in it. */
typedef struct excesses {
    double work;    /* where transfers take no time: who waits for whom at every hop */
    double nominal; /* where they take what they do on a host of that kind */
} excesses;

static double play(const ls_image *const *images, const ls_rates *rates) {
    ls_simulated_rank times[P];
    assert_int_equal(ls_simulate(images, P, ls_program_find(images[0], LS_PROGRAM_MICRO), rates, NULL, times).code,
                     LS_OK);
    double busy = 0;
    for (int p = 0; p < P; p++) busy += (times[p].computing + times[p].sending) / P;
    return ls_simulated_seconds(times, P) / busy - 1;
}

/* Of a ring, forward and backward. */
static excesses time_excess(ls_layout_kind kind, int64_t S, const ls_mask *mask) {
    ls_graph *g = attention_graph(S, mask);
    const ls_job job = {.graph = g, .programs = ls_plain_programs(g, 0)};
    ls_target target = {.mesh = mesh_of(1, P, 1),
                        .strategy = "ring",
                        .layout = kind,
                        .threads = 1,
                        .isa = LS_ISA_BASE,
                        .transfers = LS_TRANSFERS_PUT};
    ls_image *images[P];
    for (int p = 0; p < P; p++) {
        target.rank = p;
        assert_int_equal(ls_compile(&job, &target, &images[p]).code, LS_OK);
        assert_true(ls_image_frame(images[p]) == ls_image_frame(images[0]));
    }
    const ls_rates rates = ls_rates_of(LS_DEVICE_CPU, LS_ISA_AVX512, LS_BF16, 1);
    ls_rates free_transfers = rates;
    free_transfers.put = (ls_byte_cost){0, 0};
    memset(free_transfers.core.bytes, 0, sizeof free_transfers.core.bytes);
    free_transfers.latency = free_transfers.overhead = 0;
    const excesses over = {play((const ls_image *const *)images, &free_transfers),
                           play((const ls_image *const *)images, &rates)};
    for (int p = 0; p < P; p++) ls_image_destroy(images[p]);
    ls_graph_destroy(g);
    return over;
}

/* --- the cases ---------------------------------------------------------------------------------------------------- */

static void test_causal(void **state) {
    (void)state;
    static const ls_layout_kind even[] = {LS_LAYOUT_ZIGZAG, LS_LAYOUT_STRIPED, LS_LAYOUT_DOCUMENTS, LS_LAYOUT_BALANCED};
    const ls_mask causal = ls_mask_causal();
    for (size_t i = 0; i < LS_COUNT(even); i++) {
        for (int64_t S = 16384; S <= 16384 + 5; S += 5) {
            const double pairs = excess_of(even[i], S, &causal);
            const excesses time = time_excess(even[i], S, &causal);
            printf("causal, S %lld, %s: pairs of the busiest rank %.2f %% over the mean, makespan %.2f %%, with "
                   "transfers %.2f %%\n",
                   (long long)S, ls_layout_name(even[i]), pairs * 100, time.work * 100, time.nominal * 100);
            assert_true(pairs <= 0.02);
            assert_true(time.work <= 0.07 && time.nominal <= 0.07);
        }
    }
    assert_true(excess_of(LS_LAYOUT_CONTIGUOUS, 16384, &causal) > 0.8); /* the test can tell */
    assert_true(time_excess(LS_LAYOUT_CONTIGUOUS, 16384, &causal).work > 0.5);
}

static void test_window(void **state) {
    (void)state;
    for (int64_t S = 16384; S <= MOST_S; S *= 2) {
        ls_mask mask = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = S / 16}}};
        const double pairs = excess_of(LS_LAYOUT_BALANCED, S, &mask);
        const excesses time = time_excess(LS_LAYOUT_BALANCED, S, &mask);
        printf("window of S/16, S %lld, balanced: pairs %.2f %%, makespan %.2f %%, with transfers %.2f %%\n",
               (long long)S, pairs * 100, time.work * 100, time.nominal * 100);
        assert_true(pairs <= 0.05);
        assert_true(time.work <= 0.07 && time.nominal <= 0.07);
    }
}

/* Lengths: log-normal, or Pareto. */
static int draw_documents(int draw, int64_t S, int32_t *ends) {
    const uint64_t stream = ls_rng_stream("documents") + (uint64_t)draw;
    int n = 0;
    ends[n++] = 0;
    while (ends[n - 1] < S) {
        const uint64_t i = (uint64_t)n;
        const double length = draw % 2 == 0 ? exp(6.2 + 1.3 * ls_rng_normal(7, stream, i))
                                            : 150 * pow(1 - ls_rng_uniform(7, stream, i), -1 / 1.2);
        ends[n] = (int32_t)fmin((double)S, ends[n - 1] + fmax(1, floor(length)));
        n++;
    }
    return n;
}

static void test_packed_documents(void **state) {
    (void)state;
    const int draws = is_repeated() ? 6 : 100, played = is_repeated() ? 1 : 12;
    static int32_t ends[MOST_S + 1];
    double worst[LS_LAYOUTS] = {0}, mean[LS_LAYOUTS] = {0};
    excesses slowest = {0, 0};
    int most_runs = 0;
    for (int draw = 0; draw < draws; draw++) {
        const int64_t S = draw < played ? 16384 : (int64_t)16384 << draw % 3;
        ls_mask mask = ls_mask_causal();
        mask.term[mask.n++] =
            (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = draw_documents(draw, S, ends)};
        ls_arena *arena = ls_arena_create();
        for (int kind = 0; kind < LS_LAYOUTS; kind++) {
            const ls_layout layout = make(arena, (ls_layout_kind)kind, S, &mask);
            const double over = excess(&layout, &mask);
            worst[kind] = fmax(worst[kind], over);
            mean[kind] += over / draws;
            if (kind == LS_LAYOUT_BALANCED) most_runs = (int)ls_max(most_runs, ls_layout_most_runs(&layout));
        }
        ls_arena_destroy(arena);
        if (draw >= played) continue;
        const excesses time = time_excess(LS_LAYOUT_BALANCED, S, &mask);
        slowest.work = fmax(slowest.work, time.work);
        slowest.nominal = fmax(slowest.nominal, time.nominal);
    }
    for (int kind = 0; kind < LS_LAYOUTS; kind++)
        printf("%d draws of packed documents, %s: pairs at worst %.2f %% over the mean, %.2f %% on average\n", draws,
               ls_layout_name((ls_layout_kind)kind), worst[kind] * 100, mean[kind] * 100);
    printf("balanced: %d runs at most; makespan of %d of them at worst %.2f %%, with transfers %.2f %%\n", most_runs,
           played, slowest.work * 100, slowest.nominal * 100);
    assert_true(worst[LS_LAYOUT_BALANCED] <= 0.05);
    assert_true(worst[LS_LAYOUT_DOCUMENTS] <= 0.05);
    assert_true(slowest.work <= 0.07);
    assert_true(slowest.nominal <= 0.1); /* many short ranges: latency, which no deal evens out */
    assert_true(worst[LS_LAYOUT_ZIGZAG] > 0.2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_packed_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
