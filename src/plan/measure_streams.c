/*
 * Measures the cost of kernels by their bytes, on all cores at once: each kernel with a sample, on operands that fit in
 * a cache, and on operands much larger than it.
 */
#include "plan/plan_impl.h"

#include <math.h>
#include <string.h>

enum { E = 768, D = 64, H = E / D, TAPS = 4 }; /* sizes of a token; the taps of a convolution */
enum { WIDE = 16 };                            /* a row of logits is as wide as WIDE tokens */

/* The call to make: on n tokens, of element type T and accumulator type G. */
typedef struct maker {
    ls_arena *arena;
    ls_dtype T, G;
    int64_t n;
} maker;

static ls_view matrix(ls_dtype type, int64_t n, int64_t width) {
    const int64_t size[] = {n, width};
    return ls_view_dense(NULL, type, 2, size);
}

static ls_view vector(ls_dtype type, int64_t n) { return ls_view_dense(NULL, type, 1, &n); }

static ls_view cube(ls_dtype type, int64_t a, int64_t b, int64_t c) {
    const int64_t size[] = {a, b, c};
    return ls_view_dense(NULL, type, 3, size);
}

static ls_view heads(ls_dtype type, int64_t n) {
    const int64_t size[] = {1, n, H, D};
    return ls_view_dense(NULL, type, 4, size);
}

/* n random integers in 0 .. below - 1. */
static ls_view numbers(const maker *m, int64_t n, int64_t below) {
    ls_view view = vector(LS_I32, n);
    int32_t *to = LS_NEW_ARRAY(m->arena, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (int32_t)ls_rng_below(0, ls_rng_stream("measure"), (uint64_t)i, (uint64_t)below);
    view.data = to;
    return view;
}

/* The control values of an update that is applied. */
static ls_view control(const maker *m) {
    ls_view view = vector(LS_F64, LS_CONTROLS);
    double *to = LS_NEW_ARRAY(m->arena, double, LS_CONTROLS);
    for (int i = 0; i < LS_CONTROLS; i++) to[i] = 0.5;
    to[LS_CONTROL_APPLY] = 1;
    view.data = to;
    return view;
}

/* The settings of one group of parameters. */
static ls_view settings(const maker *m) {
    ls_view view = matrix(LS_F64, 1, 2);
    ls_update_settings *to = LS_NEW(m->arena, ls_update_settings);
    *to = (ls_update_settings){.rate = 1, .weight_decay = 0.1};
    view.data = to;
    return view;
}

/* The operand that a letter of ls_kernel_sample stands for. */
static ls_view operand(const maker *m, char letter) {
    switch (letter) {
    case 'x':
        return matrix(m->T, m->n, E);
    case 'g':
        return matrix(m->G, m->n, E);
    case 'w':
        return vector(m->T, E);
    case 's':
        return vector(m->G, E);
    case 'r':
        return vector(m->G, m->n);
    case 'i':
        return numbers(m, m->n, m->n);
    case 'l':
        return numbers(m, m->n / WIDE, WIDE * E);
    case 'v':
        return matrix(m->T, m->n / WIDE, WIDE * E);
    case 'k':
        return vector(m->G, m->n / WIDE);
    case 'q':
        return vector(LS_F64, 1);
    case 'c':
        return control(m);
    case 'o':
        return settings(m);
    case 'u':
        return vector(LS_I32, m->n * E / LS_FLAT_UNIT); /* zeros: all units are of that group */
    case 't':
        return cube(m->T, m->n, H, D);
    case 'a':
        return matrix(m->G, m->n, D);
    case 'h':
        return heads(m->T, m->n);
    case 'p':
        return cube(m->G, 1, H, m->n);
    case 'z':
        return cube(m->T, 1, m->n + TAPS - 1, E);
    case 'y':
        return cube(m->T, 1, m->n, E);
    case 'm':
        return matrix(m->T, TAPS, E);
    case 'd':
        return matrix(m->G, TAPS, E);
    case 'e':
        return cube(m->T, 1, m->n, 0);
    default:
        LS_ASSERT(false);
    }
}

static ls_kernel_call make_call(const maker *m, const ls_kernel_sample *sample, double *bytes) {
    ls_kernel_call call = {.params = sample->params};
    *bytes = 0;
    for (const char *c = sample->in; *c != 0; c++) {
        call.in[call.n_in] = operand(m, *c);
        *bytes += (double)ls_view_bytes(&call.in[call.n_in++]);
    }
    for (const char *c = sample->out; *c != 0; c++) {
        call.out[call.n_out] = operand(m, *c);
        *bytes += (double)ls_view_bytes(&call.out[call.n_out++]);
    }
    return call;
}

/* *out becomes the seconds per byte of calls of about `wanted` bytes. */
static ls_status measure(const maker *any, ls_kernel_id id, ls_timed_place *place, double wanted, double overhead,
                         double *out) {
    const ls_kernel_sample *sample = &ls_contracts[id].sample;
    maker m = *any;
    double bytes, seconds;
    m.n = WIDE;
    (void)make_call(&m, sample, &bytes);
    m.n = (int64_t)ceil(wanted / bytes) * m.n;
    const ls_kernel_call call = make_call(&m, sample, &bytes);
    LS_TRY(ls_measure_call(place, id, sample->of_accumulator ? m.G : m.T, &call, &seconds));
    *out = fmax(seconds - overhead, seconds / 4) / bytes;
    return ls_ok();
}

ls_status ls_measure_streams(ls_arena *arena, ls_timed_place *place, ls_dtype T, double cache, double overhead,
                             ls_byte_cost out[LS_KERNEL_IDS]) {
    const maker m = {.arena = arena, .T = T, .G = ls_dtype_accumulator(T)};
    const bool gpu = ls_timed_place_width(place) > 0; /* its larger cache serves one kernel at a time */
    const double near = fmin(cache / 4, gpu ? INFINITY : 0x1p22),
                 far = fmin(fmax(4 * cache, 0x1p16), gpu ? 0x1p28 : 0x1p27);
    for (int i = 0; i < LS_KERNEL_IDS; i++) {
        if (ls_measured_as((ls_kernel_id)i) != (ls_kernel_id)i) continue;
        LS_TRY(measure(&m, (ls_kernel_id)i, place, near, overhead, &out[i].near));
        LS_TRY(measure(&m, (ls_kernel_id)i, place, far, overhead, &out[i].far));
        out[i].far = fmax(out[i].far, out[i].near); /* lower only by noise */
    }
    return ls_ok();
}
