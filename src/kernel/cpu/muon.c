/*
 * The kernels of Muon besides products: Nesterov's momentum, a step in a given direction, and the division of a matrix
 * by its norm.
 */
#include "kernel/cpu/update.h"

#include <math.h>

/* --- momentum ----------------------------------------------------------------------------------------------------- */

static void momentum_run(const update_run *run) {
    const ls_kernel_call *call = run->call;
    const float scale = run->scale, momentum = (float)((const ls_momentum_params *)call->params)->momentum;
    const float *gradient = call->in[0].data;
    float *m = call->out[0].data;
    element *direction = call->out[1].data;
    for (int64_t i = run->start; i < run->end; i += V_LANES) {
        __builtin_prefetch(gradient + i + AHEAD);
        __builtin_prefetch(m + i + AHEAD);
        const v_f32 g = v_load_f32(gradient + i, V_LANES) * scale;
        const v_f32 mi = v_load_f32(m + i, V_LANES) * momentum + g;
        v_store_f32(m + i, mi, V_LANES);
        v_store(direction + i, g + momentum * mi, V_LANES);
    }
}

UPDATE_KERNEL(MOMENTUM, momentum);

/* --- descend ------------------------------------------------------------------------------------------------------ */

static void descend_run(const update_run *run) {
    const ls_kernel_call *call = run->call;
    const float factor = (float)((const ls_descend_params *)call->params)->factor, lr = run->lr, decay = run->decay;
    const element *direction = call->in[0].data;
    float *master = call->out[0].data;
    element *param = call->out[1].data;
    for (int64_t i = run->start; i < run->end; i += V_LANES) {
        __builtin_prefetch(direction + i + AHEAD);
        __builtin_prefetch(master + i + AHEAD);
        const v_f32 old = v_load_f32(master + i, V_LANES);
        const v_f32 next = old - lr * (factor * v_load(direction + i, V_LANES) + decay * old);
        v_store_f32(master + i, next, V_LANES);
        store_param(param + i, next, run->streamed);
    }
}

UPDATE_KERNEL(DESCEND, descend);

/* --- normalize ---------------------------------------------------------------------------------------------------- */

enum { LEAST = 65536, FLUSHED = 4096 }; /* elements of a part; of a sum in f32, before it is added in f64 */

static int parts_of(const ls_kernel_call *call) {
    return ls_cpu_parts(ls_view_elements(&call->in[0]), LEAST, call->threads);
}

static size_t workspace(const ls_kernel_call *call) { return sizeof(double) * (size_t)parts_of(call); }

static void squares_part(const void *context, int part, int64_t start, int64_t end) {
    const ls_kernel_call *call = context;
    const element *x = call->in[0].data;
    double total = 0;
    for (int64_t from = start; from < end; from += FLUSHED) {
        const int64_t to = ls_min(from + FLUSHED, end);
        v_f32 sum = {0};
        for (int64_t i = from; i < to; i += V_LANES) {
            const v_f32 v = v_load(x + i, to - i);
            sum += v * v;
        }
        for (int l = 0; l < V_LANES; l++) total += (double)sum[l];
    }
    ((double *)call->workspace)[part] = total;
}

typedef struct division {
    const ls_kernel_call *call;
    float factor;
} division;

static void divide_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const division *d = context;
    const element *x = d->call->in[0].data;
    element *y = d->call->out[0].data;
    for (int64_t i = start; i < end; i += V_LANES) v_store(y + i, v_load(x + i, end - i) * d->factor, end - i);
}

static void run_normalize(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t n = ls_view_elements(&call->in[0]);
    const int parts = parts_of(call);
    double squares = 0;
    ls_cpu_split(pool, n, parts, squares_part, call);
    for (int i = 0; i < parts; i++) squares += ((const double *)call->workspace)[i];
    const double norm = sqrt(squares);
    ls_cpu_split(pool, n, parts, divide_part, &(division){call, norm < 1e-30 ? 0 : (float)(1 / norm)});
}

static ls_status prepare_normalize(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_NORMALIZE, call, state);
}

const ls_kernel LS_CPU_NAME(normalize) = {.id = LS_KERNEL_NORMALIZE,
                                          LS_CPU_VARIANT,
                                          .workspace = workspace,
                                          .prepare = prepare_normalize,
                                          .run = run_normalize};
