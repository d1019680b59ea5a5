/*
 * attention_grad by cuDNN, for calls whose attention it supports (cudnn_attention.h). Its engines compute delta from o
 * and do, so a kernel of our own makes an o in bf16 whose product with do is delta. The library rounds dk and dv to
 * bf16; kernels of our own add them to f32.
 *
 * Most of the library's engines add up dq in the order in which blocks of keys happen to finish. Only engines that add
 * in a fixed order, and that need no workspace which grows with queries times keys, are requested, by their numbers.
 * NVIDIA's frontend requests the same engines (cudnn-frontend 1.32, its node of the gradient). If the GPU and the
 * version have none of them, prepare returns an error.
 */
#include "kernel/cuda/attention_parts.h"
#include "kernel/cuda/cudnn_attention.h"

#include <stdlib.h>

typedef struct route {
    int capability; /* major compute capability of the GPUs that have the engine */
    size_t oldest;  /* oldest version of the library that has the engine */
    ls_cudnn_engine engine;
} route;

#define KNOBS(tile_m, tile_n, stages)                                                                        \
    {                                                                                                        \
        {CUDNN_KNOB_TYPE_TILE_M, tile_m}, {CUDNN_KNOB_TYPE_TILE_N, tile_n}, {CUDNN_KNOB_TYPE_KERNEL_CFG, 2}, \
            {CUDNN_KNOB_TYPE_STREAM_K, 0}, {CUDNN_KNOB_TYPE_TILE_CGA_M, 0}, {                                \
            CUDNN_KNOB_TYPE_STAGES, stages                                                                   \
        }                                                                                                    \
    }
/*
 * There is no route for compute capability 9: the engine that adds in order (6, from version 9.25 on) makes a plan with
 * dq in f32, which fails with "nullptr == dq_ptr" when it is executed (9.26 on an H200); with dq in bf16 it makes none.
 */
static const route routes[] = {{10, 92300, {5, KNOBS(3, 2, 2)}}}; /* dq by a kernel of its own */

/* The operands, in the order in which the graph's operands are made and a launch passes them. */
enum { Q, K, V, DO, O, LSE, DELTA, DQ, DK, DV, OPERANDS };

/* --- calls and their workspace ------------------------------------------------------------------------------------ */

/* The library does not support a single query or a single key, or KV heads that no query head reads. */
static bool supports(const ls_kernel_call *call) {
    return ls_cudnn_attends(call) && ls_cudnn_version() >= routes[LS_COUNT(routes) - 1].oldest &&
           ls_cudnn_is_aligned(&call->in[5]) && ls_cudnn_read_part(call, 1).size[2] == call->in[1].size[2] &&
           (call->in[0].size[1] > 1 || call->in[1].size[1] > 1);
}

/*
 * The workspace of a plan: counters for blocks of 64 queries, and dk and dv of each query head if several share a KV
 * head.
 */
static size_t plan_bytes(const ls_kernel_call *call) {
    const int64_t *q = call->in[0].size, keys = call->in[1].size[1];
    const int64_t shared = q[2] == call->in[1].size[2] ? 0 : 8 * q[0] * q[2] * keys * q[3];
    return (size_t)ls_round_up((size_t)(shared + 16 * q[0] * q[2] * ls_ceil_div(q[1], (int64_t)64) + (64 << 10)),
                               LS_CUDNN_PLACE);
}

/*
 * Places the operands that are in the workspace, which begins at `begin` with the plan's part. Returns the bytes used.
 * begin NULL: only counts bytes.
 */
static size_t place(const ls_kernel_call *call, char *begin, ls_view out[OPERANDS]) {
    const struct {
        int operand;
        ls_dtype type;
        const ls_view *like;
    } parts[] = {{O, LS_BF16, &call->in[0]},   {LSE, LS_F32, &call->in[6]},  {DELTA, LS_F32, &call->in[6]},
                 {DQ, LS_BF16, &call->out[0]}, {DK, LS_BF16, &call->out[1]}, {DV, LS_BF16, &call->out[2]}};
    size_t at = plan_bytes(call);
    for (size_t i = 0; i < LS_COUNT(parts); i++) {
        ls_view *const view = &out[parts[i].operand];
        *view =
            ls_view_dense(begin != NULL ? begin + at : NULL, parts[i].type, parts[i].like->ndim, parts[i].like->size);
        at += ls_round_up(ls_view_bytes(view), LS_CUDNN_PLACE);
    }
    return at;
}

static size_t workspace(const ls_kernel_call *call) {
    ls_view unused[OPERANDS];
    return LS_CUDNN_PLACE + place(call, NULL, unused);
}

/* Sets all operands of a call. Returns the plan's workspace. */
static char *operands_of(const ls_kernel_call *call, ls_view out[OPERANDS]) {
    char *const begin = (char *)ls_round_up((size_t)call->workspace, LS_CUDNN_PLACE);
    (void)place(call, begin, out);
    for (int i = Q; i <= V; i++) out[i] = call->in[i];
    out[DO] = call->in[5];
    return begin;
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static ls_cudnn_tensor f32(ls_cudnn_attention *a, cudnnPointwiseMode_t mode, const ls_cudnn_tensor *x,
                           const ls_cudnn_tensor *b) {
    return ls_cudnn_apply(a, mode, CUDNN_DATA_FLOAT, x, b);
}

/* to = transposed weights times x, summed over the query heads that share a KV head. */
static void add_up_keys(ls_cudnn_attention *a, const ls_cudnn_tensor *weights, const ls_cudnn_tensor *x,
                        const ls_cudnn_tensor *to) {
    const ls_cudnn_tensor turned = ls_cudnn_turned(&a->graph, CUDNN_DATA_BFLOAT16, weights);
    if (turned.size[1] == to->size[1]) {
        ls_cudnn_multiply(&a->graph, &turned, x, to);
        return;
    }
    const int64_t size[] = {to->size[0], turned.size[1], to->size[2], to->size[3]};
    const ls_cudnn_tensor each = ls_cudnn_between(&a->graph, CUDNN_DATA_BFLOAT16, size);
    ls_cudnn_multiply(&a->graph, &turned, x, &each);
    ls_cudnn_reduce(&a->graph, CUDNN_REDUCE_TENSOR_ADD, &each, to);
}

static void describe(ls_cudnn_attention *a, const ls_kernel_call *call) {
    ls_view view[OPERANDS];
    ls_cudnn_tensor t[OPERANDS];
    (void)operands_of(call, view);
    for (int i = 0; i < OPERANDS; i++)
        t[i] = view[i].ndim == 3 ? ls_cudnn_rows(a, &view[i]) : ls_cudnn_heads(a, &view[i], i == K || i == V);
    const int64_t pairs[] = {t[Q].size[0], t[Q].size[1], t[Q].size[2], t[K].size[3]};
    ls_cudnn_graph *const g = &a->graph;
    const ls_cudnn_tensor scale = ls_cudnn_value(g, CUDNN_DATA_FLOAT, &a->scale),
                          one = ls_cudnn_value(g, CUDNN_DATA_FLOAT, &a->one),
                          sum = ls_cudnn_between(g, CUDNN_DATA_FLOAT, t[LSE].size),
                          product = ls_cudnn_between(g, CUDNN_DATA_FLOAT, pairs),
                          gradient = ls_cudnn_between(g, CUDNN_DATA_FLOAT, pairs);
    const ls_cudnn_tensor each = f32(a, CUDNN_POINTWISE_MUL, &t[DO], &t[O]);
    ls_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, &each, &sum);
    ls_cudnn_pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, &sum, &one, NULL, &t[DELTA]);
    ls_cudnn_multiply(g, &t[Q], &t[K], &product);
    const ls_cudnn_tensor scaled = f32(a, CUDNN_POINTWISE_MUL, &product, &scale),
                          below = f32(a, CUDNN_POINTWISE_SUB, &scaled, &t[LSE]), seen = ls_cudnn_hide(a, call, below),
                          weights = f32(a, CUDNN_POINTWISE_EXP, &seen, NULL);
    add_up_keys(a, &weights, &t[DO], &t[DV]);
    ls_cudnn_multiply(g, &t[DO], &t[V], &gradient);
    const ls_cudnn_tensor centred = f32(a, CUDNN_POINTWISE_SUB, &gradient, &t[DELTA]),
                          weighted = f32(a, CUDNN_POINTWISE_MUL, &centred, &weights),
                          of_product = f32(a, CUDNN_POINTWISE_MUL, &weighted, &scale);
    add_up_keys(a, &of_product, &t[Q], &t[DK]);
    const ls_cudnn_tensor keys = ls_cudnn_turned(g, CUDNN_DATA_BFLOAT16, &t[K]);
    ls_cudnn_multiply(g, &of_product, &keys, &t[DQ]);
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static void release(void *p) {
    ls_cudnn_attention *a = p;
    if (a == NULL) return;
    ls_cudnn_end(&a->graph);
    free(a);
}

/* The route of the current device and the library's version. */
static ls_status find_route(const route **out) {
    int capability;
    LS_TRY(ls_cuda_capability("attention_grad", &capability));
    for (size_t i = 0; i < LS_COUNT(routes); i++) {
        *out = &routes[i];
        if (routes[i].capability == capability && ls_cudnn_version() >= routes[i].oldest) return ls_ok();
    }
    return ls_error(LS_UNSUPPORTED, "kernel attention_grad: cuDNN %zu adds in any order on compute capability %d",
                    ls_cudnn_version(), capability);
}

static ls_status prepare(const ls_kernel_call *call, void **out) {
    const route *by;
    LS_TRY(ls_kernel_check(LS_KERNEL_ATTENTION_GRAD, LS_BF16, call));
    LS_TRY(find_route(&by));
    ls_cudnn_attention *a = calloc(1, sizeof *a);
    if (a == NULL) return ls_error(LS_NO_MEMORY, "kernel attention_grad: no memory for the description of a call");
    ls_cudnn_attention_begin(a, "attention_grad", call);
    describe(a, call);
    ls_cudnn_plan_by(&a->graph, &by->engine, (int64_t)plan_bytes(call));
    const ls_status status = a->graph.status;
    if (status.code == LS_OK)
        *out = a;
    else
        release(a);
    return status;
}

static ls_status launch(const ls_kernel_call *call, void *p, void *stream) {
    const ls_cudnn_attention *a = p;
    const ls_attention_params *params = call->params;
    ls_view view[OPERANDS];
    void *data[OPERANDS], *const of_plan = operands_of(call, view);
    for (int i = 0; i < OPERANDS; i++) data[i] = view[i].data;
    LS_TRY(ls_cuda_make_result(call, &view[O], &view[LSE], stream));
    LS_TRY(ls_cudnn_execute(&a->graph, data, of_plan, stream));
    LS_TRY(ls_cuda_take_gradient(&view[DQ], &call->out[0], params->accumulate_dq, stream));
    LS_TRY(ls_cuda_take_gradient(&view[DK], &call->out[1], params->accumulate_dkv, stream));
    return ls_cuda_take_gradient(&view[DV], &call->out[2], params->accumulate_dkv, stream);
}

extern const ls_kernel ls_cuda_bf16_attention_grad_cudnn;
const ls_kernel ls_cuda_bf16_attention_grad_cudnn = {.id = LS_KERNEL_ATTENTION_GRAD,
                                                     .dtype = LS_BF16,
                                                     .device = LS_DEVICE_CUDA,
                                                     .row = "cudnn",
                                                     .refuses = true,
                                                     .supports = supports,
                                                     .workspace = workspace,
                                                     .prepare = prepare,
                                                     .release = release,
                                                     .shares = ls_cudnn_same_attention,
                                                     .launch = launch};
