/*
 * Attention alone (longspan/attention.h): every strategy and number of ranks against one rank, by threads and by
 * processes; when arrays may be overwritten; what backward reads; refusals.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "compile/compile.h"
#include "longspan/attention.h"
#include "support/kernel_call.h"
#include "support/spread.h"
#include "tensor/tensor.h"

enum { B = 2, S = 41, HQ = 4, HKV = 2, D = 8, E = 11, STEPS = 2 };
enum { ROWS = B * HQ * S, KV_ROWS = B * HKV * S, MOST = ROWS * E };
enum { O, LSE, DQ, DK, DV, DSINK, RESULTS };

static const int64_t counts[RESULTS] = {ROWS * E, ROWS, ROWS *D, KV_ROWS *D, KV_ROWS *E, HQ};
static const char *const names[RESULTS] = {"o", "lse", "dq", "dk", "dv", "dsink"};

/* Of every step, as f64, in the order of the sequence. */
typedef struct results {
    double all[STEPS][RESULTS][MOST];
} results;

/* --- one rank ----------------------------------------------------------------------------------------------------- */

static double element(const void *data, ls_dtype dtype, int64_t i) {
    if (dtype == LS_F64) return ((const double *)data)[i];
    if (dtype == LS_F32) return (double)((const float *)data)[i];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
}

static double get(const ls_attention_array *a, int64_t i) { return element(a->data, a->dtype, i); }

static void put(const ls_attention_array *a, int64_t i, double x) {
    if (a->dtype == LS_F64)
        ((double *)a->data)[i] = x;
    else if (a->dtype == LS_F32)
        ((float *)a->data)[i] = (float)x;
    else
        ((ls_bf16 *)a->data)[i] = ls_bf16_from_f32((float)x);
}

static int64_t elements(const ls_attention_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->ndim; i++) n *= a->size[i];
    return n;
}

/*
 * Where element i of a local [batch,n,H,size], or [batch,H,n], stands in the array of all; a vector of heads is whole
 * everywhere.
 */
static int64_t global_index(const ls_attention_rank *r, const ls_attention_array *a, int64_t i) {
    if (a->ndim == 1) return i;
    if (a->ndim == 3) {
        const int64_t b = i / (a->size[1] * r->n), h = i / r->n % a->size[1];
        return ((r->first_batch + b) * HQ + h) * S + r->positions[i % r->n];
    }
    const int64_t width = a->size[2] * a->size[3], row = i / width;
    return ((r->first_batch + row / r->n) * S + r->positions[row % r->n]) * width + i % width;
}

/* The numbers of a step, which are exact in all types. */
static void fill(const ls_attention_rank *r, const ls_attention_array *a, int step, int which) {
    for (int64_t i = 0; i < elements(a); i++) {
        uint64_t x = (uint64_t)global_index(r, a, i) * 8 + (uint64_t)(step * 4 + which);
        x = (x + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
        put(a, i, (double)((int)(x >> 40) % 64 - 32) / 16);
    }
}

static void fill_inputs(const ls_attention_rank *r, int step) {
    fill(r, &r->q, step, 0);
    fill(r, &r->k, step, 1);
    fill(r, &r->v, step, 2);
    if (r->sink.data != NULL) fill(r, &r->sink, step, 5);
}

static void spoil(const ls_attention_rank *r) {
    const ls_attention_array *const in[] = {&r->q, &r->k, &r->v, &r->sink};
    for (size_t a = 0; a < LS_COUNT(in); a++) {
        for (int64_t i = 0; in[a]->data != NULL && i < elements(in[a]); i++) put(in[a], i, NAN);
    }
}

/* Reads the whole arrays, in which every rank finds its own part where its positions say. */
static ls_status collect(ls_attention_rank *r, int step, int from, int to, results *out) {
    const ls_attention_array *const arrays[RESULTS] = {&r->o, &r->lse, &r->dq, &r->dk, &r->dv, &r->dsink};
    double whole[MOST];
    for (int a = from; a <= to; a++) {
        if (arrays[a]->data == NULL) continue;
        LS_TRY(ls_attention_get(r, names[a], whole));
        for (int64_t i = 0; i < counts[a]; i++) out->all[step][a][i] = element(whole, arrays[a]->dtype, i);
        for (int64_t i = 0; i < elements(arrays[a]); i++) {
            const int64_t at = global_index(r, arrays[a], i);
            const double is = get(arrays[a], i), read = out->all[step][a][at];
            if (memcmp(&is, &read, sizeof is) != 0)
                return ls_error(LS_INVALID, "%s[%d] is %g; read as %g", names[a], (int)at, is, read);
        }
    }
    return ls_ok();
}

/* Inputs are overwritten as soon as a call returns: no rank may read them after that. */
static ls_status two_steps(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    for (int step = 0; step < STEPS; step++) {
        fill_inputs(r, step);
        LS_TRY(ls_attention_forward(r));
        spoil(r);
        LS_TRY(collect(r, step, O, LSE, result));
        fill_inputs(r, step);
        fill(r, &r->grad_o, step, 3);
        LS_TRY(ls_attention_backward(r));
        spoil(r);
        LS_TRY(collect(r, step, DQ, DSINK, result));
    }
    return ls_ok();
}

static ls_status forward_only(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    if (r->grad_o.data != NULL || r->dq.data != NULL || r->dk.ndim != 0)
        return ls_error(LS_INVALID, "arrays for gradients that nobody asked for");
    for (int step = 0; step < STEPS; step++) {
        fill_inputs(r, step);
        LS_TRY(ls_attention_forward(r));
        spoil(r);
        LS_TRY(collect(r, step, O, LSE, result));
    }
    return ls_ok();
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

static const int32_t document_ends[] = {0, 1, 20, 20, S};
static const ls_mask masks[] = {
    {.n = 0},
    {.n = 1, .term = {{.kind = LS_MASK_CAUSAL}}},
    {.n = 2,
     .term = {{.kind = LS_MASK_WINDOW, .window = 9, .first = 2},
              {.kind = LS_MASK_DOCUMENTS, .ends = document_ends, .n_ends = 5}}},
};

static ls_attention_options options_for(ls_dtype dtype, int mask, ls_spread spread) {
    return (ls_attention_options){.batch = B,
                                  .seq = S,
                                  .heads = HQ,
                                  .kv_heads = HKV,
                                  .head_size = D,
                                  .value_size = E,
                                  .dtype = dtype,
                                  .mask = &masks[mask],
                                  .softcap = mask == 1 ? 3 : 0,
                                  .sink = mask == 2,
                                  .gradients = true,
                                  .spread = spread};
}

static ls_status run(const ls_attention_options *options, ls_attention_work work, results *out) {
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(options, &attention));
    const ls_status status = ls_shared_attention_run(attention, work, NULL, out, sizeof *out);
    ls_shared_attention_close(attention);
    return status;
}

#define assert_ok(call)                                          \
    do {                                                         \
        const ls_status status_ = (call);                        \
        if (status_.code != LS_OK) fail_msg("%s", status_.text); \
    } while (0)

static void assert_close(const results *a, const results *b, double tolerance, const char *what) {
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < RESULTS; i++) {
            const double error = relative_error(a->all[step][i], b->all[step][i], counts[i], 1e-30);
            if (!(error <= tolerance)) fail_msg("%s: step %d, %s: %.3e", what, step, names[i], error);
        }
    }
}

static results *new_results(void) {
    results *r = calloc(1, sizeof *r);
    assert_non_null(r);
    return r;
}

/* Every strategy that applies, in f64 to rounding, twice in the same session. Counts the cases. */
static int run_strategies(int mask, int64_t ranks, const char *transfers, bool threads, const results *one) {
    results *many = new_results();
    int ran = 0;
    for (int i = 0; ls_strategy_name(i) != NULL; i++) {
        const ls_spread spread = {.ranks = ranks,
                                  .threads = 1,
                                  .strategy = ls_strategy_name(i),
                                  .transfers = transfers,
                                  .as_threads = threads,
                                  .wait_timeout = 60};
        const ls_attention_options options = options_for(LS_F64, mask, spread);
        const ls_status status = run(&options, two_steps, many);
        if (status.code == LS_USAGE || status.code == LS_UNSUPPORTED) continue; /* and says why */
        if (status.code != LS_OK) fail_msg("%s: %s", spread.strategy, status.text);
        char what[96];
        snprintf(what, sizeof what, "%s, %d ranks, %s, mask %d", spread.strategy, (int)ranks, transfers, mask);
        assert_close(many, one, 1e-12, what);
        ran++;
    }
    free(many);
    return ran;
}

static void test_strategies(void **state) {
    (void)state;
    results *one = new_results();
    int ran = 0;
    for (int mask = 0; mask < (int)LS_COUNT(masks); mask++) {
        const ls_attention_options alone = options_for(LS_F64, mask, (ls_spread){.ranks = 1, .threads = 1});
        assert_ok(run(&alone, two_steps, one));
        for (int64_t ranks = 1; ranks <= 5; ranks++) {
            const int puts = run_strategies(mask, ranks, "put", true, one);
            assert_true(puts >= (ranks == 1 ? 1 : ranks <= HQ ? 3 : 1)); /* ring, ulysses, usp; a ring of 5 */
            ran += puts;
            if (ranks > 1) ran += run_strategies(mask, ranks, "in-place", true, one);
        }
        ran += run_strategies(mask, 3, "put", false, one) + run_strategies(mask, 2, "in-place", false, one);
    }
    print_message("%d runs of two steps agree with one rank\n", ran);
    free(one);
}

/*
 * The narrow types against one rank of f64 on the same inputs, which all types hold exactly; and a mesh with two halves
 * of a batch.
 */
static void test_types(void **state) {
    (void)state;
    static const struct {
        ls_dtype dtype;
        double tolerance; /* f32 1e-5; bf16 results are rounded to 2^-9, and dq, dk, dv read a rounded o */
    } types[] = {{LS_F32, 1e-5}, {LS_BF16, 0x1p-7}};
    results *one = new_results(), *many = new_results();
    const ls_attention_options exact = options_for(LS_F64, 1, (ls_spread){.ranks = 1});
    assert_ok(run(&exact, two_steps, one));
    for (size_t i = 0; i < LS_COUNT(types); i++) {
        const ls_attention_options options = options_for(types[i].dtype, 1, (ls_spread){.ranks = 4});
        assert_ok(run(&options, two_steps, many));
        assert_close(many, one, types[i].tolerance, i == 0 ? "f32" : "bf16");
    }
    const ls_attention_options halves = options_for(LS_F64, 1, (ls_spread){.mesh = "dp=2,ring=2", .layout = "striped"});
    assert_ok(run(&halves, two_steps, many));
    assert_close(many, one, 1e-12, "dp=2,ring=2");
    free(one);
    free(many);
}

static void test_forward_only(void **state) {
    (void)state;
    results *one = new_results(), *many = new_results();
    ls_attention_options options = options_for(LS_F64, 2, (ls_spread){.ranks = 1});
    assert_ok(run(&options, two_steps, one));
    options.gradients = false;
    options.spread.ranks = 3;
    assert_ok(run(&options, forward_only, many));
    for (int step = 0; step < STEPS; step++) {
        for (int i = DQ; i <= DSINK; i++) memcpy(many->all[step][i], one->all[step][i], sizeof many->all[0][0]);
    }
    assert_close(many, one, 1e-12, "forward alone");
    free(one);
    free(many);
}

/* --- what backward reads ------------------------------------------------------------------------------------------ */

static void keep(const ls_attention_array *a, void **copy) {
    const size_t bytes = (size_t)elements(a) * ls_dtype_bytes(a->dtype);
    *copy = malloc(bytes + 1);
    LS_ASSERT(*copy != NULL);
    memcpy(*copy, a->data, bytes);
}

static void restore(const ls_attention_array *a, void *copy) {
    memcpy(a->data, copy, (size_t)elements(a) * ls_dtype_bytes(a->dtype));
    free(copy);
}

/* Two forward passes, then their gradients in reverse, as of two layers. */
static ls_status in_reverse(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    const ls_attention_array *const kept[] = {&r->q, &r->k, &r->v, &r->sink, &r->o, &r->lse};
    void *copies[STEPS][LS_COUNT(kept)];
    for (int step = 0; step < STEPS; step++) {
        fill_inputs(r, step);
        LS_TRY(ls_attention_forward(r));
        LS_TRY(collect(r, step, O, LSE, result));
        for (size_t i = 0; i < LS_COUNT(kept); i++) keep(kept[i], &copies[step][i]);
    }
    for (int step = STEPS - 1; step >= 0; step--) {
        for (size_t i = 0; i < LS_COUNT(kept); i++) restore(kept[i], copies[step][i]);
        fill(r, &r->grad_o, step, 3);
        LS_TRY(ls_attention_backward(r));
        LS_TRY(collect(r, step, DQ, DSINK, result));
    }
    return ls_ok();
}

/*
 * Were the forward pass computed again, lse would be what it was. With ln 2 more every probability is half, and so is
 * dv.
 */
static ls_status with_other_lse(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    fill_inputs(r, 0);
    LS_TRY(ls_attention_forward(r));
    fill(r, &r->grad_o, 0, 3);
    for (int64_t i = 0; i < elements(&r->lse); i++) put(&r->lse, i, get(&r->lse, i) + log(2));
    LS_TRY(ls_attention_backward(r));
    return collect(r, 0, DV, DV, result);
}

static void test_backward_reads(void **state) {
    (void)state;
    static const char *const meshes[] = {"ring=2", "ulysses=2", "ring=2,ulysses=2"};
    results *plain = new_results(), *other = new_results();
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            const ls_spread spread = {.mesh = meshes[i], .transfers = in_place ? "in-place" : "put"};
            const ls_attention_options options = options_for(LS_F64, 2, spread);
            assert_ok(run(&options, two_steps, plain));
            assert_ok(run(&options, in_reverse, other));
            assert_memory_equal(plain->all, other->all, sizeof plain->all);
            assert_ok(run(&options, with_other_lse, other));
            for (int k = 0; k < KV_ROWS * E; k++) other->all[0][DV][k] *= 2;
            assert_true(relative_error(other->all[0][DV], plain->all[0][DV], KV_ROWS * E, 1e-30) < 1e-12);
        }
    }
    free(plain);
    free(other);
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static void test_description(void **state) {
    (void)state;
    enum { ELEMENTS = B * (S + 1) / 2 * HKV * (D + E), RANKS = 2 }; /* of keys and values */
    ls_attention_options options =
        options_for(LS_BF16, 0, (ls_spread){.ranks = RANKS, .strategy = "ring", .transfers = "put"});
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(&options, &attention));
    const ls_spread_result put = ls_shared_attention_describe(attention);
    ls_shared_attention_close(attention);
    assert_string_equal(put.strategy, "ring");
    assert_int_equal(put.bytes_sent_forward, 2 * ELEMENTS); /* k and v, bf16, one hop */
    assert_true(put.bytes_sent_backward <=
                2 * ELEMENTS + 4 * ELEMENTS); /* and dk, dv in f32, one hop: what is seen of them */
    assert_true(put.bytes_sent_backward > 2 * ELEMENTS);
    options.spread.transfers = "in-place";
    assert_ok(ls_shared_attention_open(&options, &attention));
    const ls_spread_result in_place = ls_shared_attention_describe(attention);
    ls_shared_attention_close(attention);
    assert_int_equal(in_place.bytes_sent_forward + in_place.bytes_sent_backward, 0);
    assert_true(in_place.bytes_read_forward > 0 && in_place.bytes_read_backward > 0);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static void assert_refused(const ls_attention_options *options, ls_code code, const char *part) {
    ls_shared_attention *untouched = NULL;
    const ls_status status = ls_shared_attention_open(options, &untouched);
    if (status.code != code || strstr(status.text, part) == NULL)
        fail_msg("%s: %s; expected %s with \"%s\"", ls_code_name(status.code), status.text, ls_code_name(code), part);
    assert_null(untouched);
}

static void test_refused_options(void **state) {
    (void)state;
    static const int32_t wrong_ends[] = {0, 30, 20, S};
    const ls_mask wrong = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .ends = wrong_ends, .n_ends = 4}}};
    const ls_mask no_ends = {.n = 1, .term = {{.kind = LS_MASK_DOCUMENTS}}};
    const ls_mask no_window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW}}};
    const ls_mask too_many = {.n = LS_MASK_TERMS + 1};
    const ls_attention_options good = options_for(LS_F32, 1, (ls_spread){.ranks = 2});
#define WITH(field, wanted)             \
    __extension__({                     \
        ls_attention_options o_ = good; \
        o_.field = (wanted);            \
        o_;                             \
    })
    const struct {
        ls_attention_options options;
        ls_code code;
        const char *part;
    } cases[] = {
        {WITH(batch, 0), LS_INVALID, "batch is 0"},
        {WITH(seq, -5), LS_INVALID, "seq is -5"},
        {WITH(seq, (int64_t)1 << 40), LS_INVALID, "seq is 1099511627776"},
        {WITH(head_size, 0), LS_INVALID, "head_size is 0"},
        {WITH(value_size, -3), LS_INVALID, "value_size is -3; expected 1 to 2147483647"},
        {WITH(value_size, INT64_MAX), LS_INVALID, "value_size is 9223372036854775807"},
        {WITH(value_size, INT32_MAX), LS_NO_MEMORY, "this machine allows"},
        {WITH(kv_heads, 3), LS_INVALID, "4 query heads and 3 KV heads"},
        {WITH(dtype, LS_I32), LS_INVALID, "i32"},
        {WITH(dtype, (ls_dtype)77), LS_INVALID, "element type 77"},
        {WITH(scale, -1.0), LS_INVALID, "scale is -1"},
        {WITH(softcap, NAN), LS_INVALID, "softcap"},
        {WITH(mask, &wrong), LS_INVALID, "20"},
        {WITH(mask, &no_ends), LS_INVALID, "no ends"},
        {WITH(mask, &no_window), LS_INVALID, "window 0"},
        {WITH(mask, &too_many), LS_INVALID, "5 terms"},
        {WITH(spread.ranks, 2000), LS_USAGE, "2000 ranks"},
        {WITH(spread.ranks, S + 1), LS_USAGE, "41 tokens"},
        {WITH(spread.strategy, "none"), LS_USAGE, "\"none\" is not known"},
        {WITH(spread.strategy, "local"), LS_USAGE, "strategy local"},
        {WITH(spread.mesh, "ulysses=8"), LS_USAGE, "8"},
        {WITH(spread.layout, "round"), LS_USAGE, "round"},
        {WITH(spread.memory, 100), LS_NO_MEMORY, "memory"},
    };
#undef WITH
    for (size_t i = 0; i < LS_COUNT(cases); i++) assert_refused(&cases[i].options, cases[i].code, cases[i].part);
}

static ls_status get_unknown(ls_attention_rank *r, const void *input, void *result) {
    (void)input, (void)result;
    return ls_attention_get(r, "do", NULL);
}

static ls_status backward_first(ls_attention_rank *r, const void *input, void *result) {
    (void)input, (void)result;
    return ls_attention_backward(r);
}

static ls_status one_gives_up(ls_attention_rank *r, const void *input, void *result) {
    (void)input, (void)result;
    if (r->rank == 1) return ls_error(LS_IO, "my own reason");
    fill_inputs(r, 0);
    LS_TRY(ls_attention_forward(r));
    return ls_error(LS_INVALID, "the forward pass ended without its other rank");
}

static void assert_fails(bool gradients, bool threads, ls_attention_work work, ls_code code, const char *part) {
    ls_attention_options options =
        options_for(LS_F32, 0, (ls_spread){.ranks = 2, .strategy = "ring", .as_threads = threads, .wait_timeout = 60});
    options.gradients = gradients;
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(&options, &attention));
    ls_status status = ls_shared_attention_run(attention, work, NULL, NULL, 0);
    if (status.code != code || strstr(status.text, part) == NULL)
        fail_msg("%s: %s", ls_code_name(status.code), status.text);
    status = ls_shared_attention_run(attention, work, NULL, NULL, 0);
    assert_int_equal(status.code, LS_USAGE); /* once only */
    ls_shared_attention_close(attention);
}

static void test_refused_calls(void **state) {
    (void)state;
    for (int threads = 0; threads < 2; threads++) {
        assert_fails(true, threads, backward_first, LS_USAGE, "before any forward");
        assert_fails(false, threads, backward_first, LS_USAGE, "without gradients");
        assert_fails(false, threads, get_unknown, LS_USAGE, "no array \"do\"; expected one of q, k, v, o, lse");
        assert_fails(true, threads, one_gives_up, LS_IO, "my own reason");
    }
    setenv("LONGSPAN_DEVICE", "delayed:1", 1); /* users of this interface need addresses */
    assert_fails(true, true, one_gives_up, LS_UNSUPPORTED, "the host cannot address");
    unsetenv("LONGSPAN_DEVICE");
    ls_shared_attention_close(NULL);
}

/* Ranks are threads: all count in the one number that *input points to. */
static ls_status count_together(ls_attention_rank *r, const void *input, void *result) {
    (void)result;
    _Atomic int *count = *(_Atomic int *const *)input;
    for (int i = 1; i <= 50; i++) {
        bool stop = true;
        (*count)++;
        LS_TRY(ls_attention_barrier(r, i % 2 == 0 ? &stop : NULL));
        if (*count < i * r->ranks) return ls_error(LS_INVALID, "%d at turn %d", *count, i);
        if (i % 2 == 0 && stop) return ls_error(LS_INVALID, "nobody asked to stop");
    }
    return ls_ok();
}

static void test_barrier(void **state) {
    (void)state;
    const ls_attention_options options = options_for(LS_F32, 0, (ls_spread){.ranks = 3, .as_threads = true});
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(&options, &attention));
    _Atomic int count = 0, *const shared = &count;
    assert_ok(ls_shared_attention_run(attention, count_together, &shared, NULL, 0));
    ls_shared_attention_close(attention);
    assert_int_equal(count, 150);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strategies),    cmocka_unit_test(test_types),
        cmocka_unit_test(test_forward_only),  cmocka_unit_test(test_backward_reads),
        cmocka_unit_test(test_description),   cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_refused_calls), cmocka_unit_test(test_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
