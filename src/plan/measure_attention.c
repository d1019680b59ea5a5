/*
 * Measures what attention costs on this machine, with four calls of each pass: heads of size 32 and 128, each with a
 * long causal call and a short call without a mask. The cost of a pair follows from the long calls, that of rows and
 * bytes from the short ones; the two sizes of heads separate flops from pairs, and bytes from rows. The calls
 * alternate, so that a slow period of the machine affects all of them.
 */
#include "plan/plan_impl.h"

#include <math.h>

enum { SMALL_HEAD, LARGE_HEAD, HEADS };
enum { LONG, SHORT, LENGTHS };

static const int64_t head_size[HEADS] = {32, 128};

/* A timed call of one pass, and its amounts of work. */
typedef struct probe {
    ls_timed_calls timed;
    bool open;
    double pairs, rows, bytes;             /* pairs and rows of query heads */
    double run[LS_MEASURED_RUNS], seconds; /* of each run; their median */
} probe;

static ls_status probe_open(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, int pass, int length,
                            int64_t tokens, int64_t D, probe *out) {
    enum { LONG_HEADS = 4, SHORT_HEADS = 16, SHORT_TOKENS = 128 };
    const bool is_long = length == LONG;
    const int64_t S = is_long ? tokens : ls_min(tokens, SHORT_TOKENS), Hq = is_long ? LONG_HEADS : SHORT_HEADS;
    const ls_mask mask = is_long ? ls_mask_causal() : (ls_mask){.n = 0};
    const ls_attention_shape shape = {.S = S, .Hq = Hq, .Hkv = Hq / 2, .D = D};
    const ls_kernel_call call = ls_attention_call_make(arena, T, pass, &shape, &mask);
    *out = (probe){.pairs = ls_attention_call_pairs(&call), .rows = (double)(S * Hq)};
    for (int i = 0; i < call.n_in; i++) out->bytes += (double)ls_view_bytes(&call.in[i]);
    for (int i = 0; i < call.n_out; i++) out->bytes += (double)ls_view_bytes(&call.out[i]);
    LS_TRY(ls_timed_calls_open(pass == LS_FORWARD ? LS_KERNEL_ATTENTION : LS_KERNEL_ATTENTION_GRAD, T, isa, pool, &call,
                               &out->timed));
    out->open = true;
    return ls_ok();
}

/* y = constant + slope x, neither below 0. If the two points contradict that, because of noise, the constant is 0. */
typedef struct line {
    double constant, slope;
} line;

static line line_through(double x0, double y0, double x1, double y1) {
    const double slope = y1 > y0 ? fmin((y1 - y0) / (x1 - x0), y1 / x1) : y1 / x1;
    return (line){fmax(0, y1 - slope * x1), slope};
}

/*
 * Seconds of a pair and of a row with its bytes: two unknowns, from the long and the short call with one size of head.
 */
static void pair_and_row(const probe *p, double *pair, double *row) {
    const probe *a = &p[LONG], *b = &p[SHORT];
    *pair = (a->seconds * b->rows - b->seconds * a->rows) / (a->pairs * b->rows - b->pairs * a->rows);
    *pair = fmin(fmax(*pair, 0.1 * a->seconds / a->pairs), a->seconds / a->pairs); /* bounds against noise */
    *row = fmax(0, (b->seconds - *pair * b->pairs) / b->rows);
}

static ls_attention_cost cost_of(const probe p[HEADS][LENGTHS], int pass) {
    double pair[HEADS], row[HEADS], bytes[HEADS];
    for (int h = 0; h < HEADS; h++) {
        pair_and_row(p[h], &pair[h], &row[h]);
        bytes[h] = p[h][SHORT].bytes / p[h][SHORT].rows;
    }
    const double flops = ls_attention_flops(pass);
    const line pairs = line_through(flops * (double)head_size[SMALL_HEAD], pair[SMALL_HEAD],
                                    flops * (double)head_size[LARGE_HEAD], pair[LARGE_HEAD]);
    const line rows = line_through(bytes[SMALL_HEAD], row[SMALL_HEAD], bytes[LARGE_HEAD], row[LARGE_HEAD]);
    return (ls_attention_cost){.flop = pairs.slope, .pair = pairs.constant, .row = rows.constant, .byte = rows.slope};
}

typedef probe probes[LS_PASSES][HEADS][LENGTHS];

static ls_status time_probes(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, int64_t tokens, probes all) {
    enum { N = LS_PASSES * HEADS * LENGTHS };
    probe *each = &all[0][0][0];
    for (int i = 0; i < N; i++)
        LS_TRY(probe_open(arena, T, isa, pool, i / (HEADS * LENGTHS), i % LENGTHS, tokens,
                          head_size[i / LENGTHS % HEADS], &each[i]));
    for (int run = -1; run < LS_MEASURED_RUNS; run++) { /* run -1 warms up */
        for (int i = 0; i < N; i++) {
            const double seconds = ls_timed_calls_run(&each[i].timed);
            if (run >= 0) each[i].run[run] = seconds;
        }
    }
    for (int i = 0; i < N; i++) each[i].seconds = ls_median(each[i].run, LS_MEASURED_RUNS);
    return ls_ok();
}

ls_status ls_measure_attention(ls_arena *arena, ls_dtype T, ls_isa isa, ls_pool *pool, int64_t tokens,
                               ls_attention_cost out[LS_PASSES]) {
    probes all = {0};
    const ls_status status = time_probes(arena, T, isa, pool, tokens, all);
    for (int pass = 0; pass < LS_PASSES; pass++) {
        if (status.code == LS_OK) out[pass] = cost_of(all[pass], pass);
        for (int i = 0; i < HEADS * LENGTHS; i++) {
            probe *p = &all[pass][0][0] + i;
            if (p->open) ls_timed_calls_close(&p->timed);
        }
    }
    return status;
}
