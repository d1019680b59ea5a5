/*
 * Measures the cost of attention on this machine, with four calls in each direction: heads of size 32 and 128, each
 * with a long causal call and a short call without a mask. The cost of a pair follows from the long calls, that of rows
 * and bytes from the short calls; the two head sizes separate flops from pairs, and bytes from rows. The calls
 * alternate, so that a slow period of the machine affects all of them.
 */
#include "plan/plan_impl.h"

#include <math.h>

enum { SMALL_HEAD, LARGE_HEAD, HEADS };
enum { LONG, SHORT, LENGTHS };

static const int64_t head_size[HEADS] = {32, 128};

/* A timed call in one direction, and the amounts of its work. */
typedef struct probe {
    ls_timed_calls timed;
    bool open;
    double pairs, rows, bytes;             /* over all query heads */
    double run[LS_MEASURED_RUNS], seconds; /* of each run; their median */
} probe;

/*
 * On a GPU each multiprocessor gets several blocks of a head's queries, so that none is idle for long; a small GPU
 * fewer.
 */
ls_attention_shape ls_long_attention(const ls_timed_place *place, ls_dtype T, int64_t D) {
    enum {
        TOKENS = 2048,
        REFERENCE_TOKENS = 192,
        HEADS_OF_CORE = 4,
        EACH = 32,
        MOST = 8192,
        MOST_F32 = 2048,
        SHARE = 8
    };
    const int64_t width = ls_timed_place_width(place), heads = width > 0 ? 2 * ls_max(1, width / SHARE) : HEADS_OF_CORE;
    const int64_t of_core = T == LS_F64 ? REFERENCE_TOKENS : TOKENS, most = T == LS_F32 ? MOST_F32 : MOST;
    return (ls_attention_shape){
        .S = width > 0 ? ls_min(most, EACH * width * width) : of_core, .Hq = heads, .Hkv = heads / 2, .D = D, .E = D};
}

static ls_attention_shape short_attention(const ls_timed_place *place, const ls_attention_shape *whole) {
    enum { TOKENS = 128, HEADS_OF_CORE = 16, EACH = 4, SHARE = 4 };
    const int64_t width = ls_timed_place_width(place), heads = width > 0 ? EACH * width : HEADS_OF_CORE;
    const int64_t tokens = width > 0 ? whole->S / SHARE : whole->S;
    return (ls_attention_shape){
        .S = ls_min(tokens, TOKENS), .Hq = heads, .Hkv = heads / 2, .D = whole->D, .E = whole->E};
}

static ls_status probe_open(ls_arena *arena, ls_timed_place *place, ls_dtype T, int direction, int length, int64_t D,
                            probe *out) {
    const ls_attention_shape whole = ls_long_attention(place, T, D),
                             shape = length == LONG ? whole : short_attention(place, &whole);
    const ls_mask mask = length == LONG ? ls_mask_causal() : (ls_mask){.n = 0};
    const ls_kernel_call call = ls_attention_call_make(arena, T, direction, &shape, &mask);
    *out = (probe){.pairs = ls_attention_call_pairs(&call), .rows = (double)(shape.S * shape.Hq)};
    for (int i = 0; i < call.n_in; i++) out->bytes += (double)ls_view_bytes(&call.in[i]);
    for (int i = 0; i < call.n_out; i++) out->bytes += (double)ls_view_bytes(&call.out[i]);
    LS_TRY(ls_timed_calls_open(place, direction == LS_FORWARD ? LS_KERNEL_ATTENTION : LS_KERNEL_ATTENTION_GRAD, T,
                               &call, &out->timed));
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

/* Seconds per pair, and per row with its bytes: two unknowns, from the long and the short call with one head size. */
static void pair_and_row(const probe *p, double *pair, double *row) {
    const probe *a = &p[LONG], *b = &p[SHORT];
    *pair = (a->seconds * b->rows - b->seconds * a->rows) / (a->pairs * b->rows - b->pairs * a->rows);
    *pair = fmin(fmax(*pair, 0.1 * a->seconds / a->pairs), a->seconds / a->pairs); /* limits the effect of noise */
    *row = fmax(0, (b->seconds - *pair * b->pairs) / b->rows);
}

static ls_attention_cost cost_of(const probe p[HEADS][LENGTHS], int direction) {
    double pair[HEADS], row[HEADS], bytes[HEADS];
    for (int h = 0; h < HEADS; h++) {
        pair_and_row(p[h], &pair[h], &row[h]);
        bytes[h] = p[h][SHORT].bytes / p[h][SHORT].rows;
    }
    double flops[HEADS];
    for (int h = 0; h < HEADS; h++)
        flops[h] = ls_attention_flops(direction, (double)head_size[h], (double)head_size[h]);
    const line pairs = line_through(flops[SMALL_HEAD], pair[SMALL_HEAD], flops[LARGE_HEAD], pair[LARGE_HEAD]);
    const line rows = line_through(bytes[SMALL_HEAD], row[SMALL_HEAD], bytes[LARGE_HEAD], row[LARGE_HEAD]);
    return (ls_attention_cost){.flop = pairs.slope, .pair = pairs.constant, .row = rows.constant, .byte = rows.slope};
}

typedef probe probes[LS_DIRECTIONS][HEADS][LENGTHS];

static ls_status time_probes(ls_arena *arena, ls_timed_place *place, ls_dtype T, probes all) {
    enum { N = LS_DIRECTIONS * HEADS * LENGTHS };
    probe *each = &all[0][0][0];
    for (int i = 0; i < N; i++)
        LS_TRY(
            probe_open(arena, place, T, i / (HEADS * LENGTHS), i % LENGTHS, head_size[i / LENGTHS % HEADS], &each[i]));
    for (int run = -1; run < LS_MEASURED_RUNS; run++) { /* run -1 warms up */
        for (int i = 0; i < N; i++) LS_TRY(ls_timed_calls_run(&each[i].timed, &each[i].run[ls_max(run, 0)]));
    }
    for (int i = 0; i < N; i++) each[i].seconds = ls_median(each[i].run, LS_MEASURED_RUNS);
    return ls_ok();
}

ls_status ls_measure_attention(ls_arena *arena, ls_timed_place *place, ls_dtype T,
                               ls_attention_cost out[LS_DIRECTIONS]) {
    probes all = {0};
    const ls_status status = time_probes(arena, place, T, all);
    for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
        if (status.code == LS_OK) out[direction] = cost_of(all[direction], direction);
        for (int i = 0; i < HEADS * LENGTHS; i++) {
            probe *p = &all[direction][0][0] + i;
            if (p->open) ls_timed_calls_close(&p->timed);
        }
    }
    return status;
}
