/*
 * attention by cuDNN, if params say that the spans are a band which the library supports: all keys, a causal diagonal
 * that begins at the first key or ends at the last, or a window along one of these diagonals. The graph is what the
 * library's engines recognise as attention: products of queries and keys, scaled, -inf if the query does not see the
 * key, softmax with its log sum exp, products with the values. The engines write o in bf16 whatever type the graph has,
 * so a kernel of our own converts o from the workspace to f32, and merges it with the results of other keys.
 */
#include "kernel/cuda/attention_parts.h"
#include "kernel/cuda/cudnn_attention.h"

#include <stdlib.h>

/* PLAN: workspace of a plan; forward plans of version 9.19 need at most 256 bytes, or 8.4 KiB with a few queries. */
enum { PLAN = 64 << 10 };

/* The workspace of the plan, and the results as the library writes them. */
static size_t workspace(const ls_kernel_call *call) {
    return LS_CUDNN_PLACE + PLAN + sizeof(ls_bf16) * (size_t)ls_view_elements(&call->out[0]) +
           sizeof(float) * (size_t)ls_view_elements(&call->out[1]);
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

/* Returns the weights of the keys, and sets their log sum exp. */
static ls_cudnn_tensor softmax(ls_cudnn_attention *a, const ls_cudnn_tensor *x, const ls_cudnn_tensor *lse) {
    const int64_t size[] = {x->size[0], x->size[1], x->size[2], 1};
    const ls_cudnn_tensor most = ls_cudnn_between(&a->graph, CUDNN_DATA_FLOAT, size),
                          sum = ls_cudnn_between(&a->graph, CUDNN_DATA_FLOAT, size);
    ls_cudnn_reduce(&a->graph, CUDNN_REDUCE_TENSOR_MAX, x, &most);
    const ls_cudnn_tensor below = ls_cudnn_apply(a, CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, x, &most),
                          power = ls_cudnn_apply(a, CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, &below, NULL);
    ls_cudnn_reduce(&a->graph, CUDNN_REDUCE_TENSOR_ADD, &power, &sum);
    const ls_cudnn_tensor log = ls_cudnn_apply(a, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, &sum, NULL);
    ls_cudnn_pointwise(&a->graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &most, &log, NULL, lse);
    const ls_cudnn_tensor weights = ls_cudnn_between(&a->graph, CUDNN_DATA_BFLOAT16, x->size);
    ls_cudnn_pointwise(&a->graph, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, &power, &sum, NULL, &weights);
    return weights;
}

/* The parts of the workspace: that of the plan, and o and lse as the library writes them. */
static void place(const ls_kernel_call *call, void **of_plan, ls_view *o, ls_view *lse) {
    char *const begin = (char *)ls_round_up((size_t)call->workspace, LS_CUDNN_PLACE);
    *of_plan = begin;
    *o = ls_view_dense(begin + PLAN, LS_BF16, 4, call->out[0].size);
    *lse = ls_view_dense(begin + PLAN + ls_view_bytes(o), LS_F32, 3, call->out[1].size);
}

/* The operands, in the order in which the graph's operands are made and a launch passes them. */
enum { Q, K, V, O, LSE, OPERANDS };

static void describe(ls_cudnn_attention *a, const ls_kernel_call *call) {
    const ls_view *q = &call->in[0], keys = ls_cudnn_read_part(call, 1), values = ls_cudnn_read_part(call, 2);
    void *of_plan;
    ls_view o, lse;
    place(call, &of_plan, &o, &lse);
    ls_cudnn_tensor operand[OPERANDS];
    operand[Q] = ls_cudnn_heads(a, q, false);
    operand[K] = ls_cudnn_heads(a, &keys, true);
    operand[V] = ls_cudnn_heads(a, &values, false);
    operand[O] = ls_cudnn_heads(a, &o, false);
    operand[LSE] = ls_cudnn_rows(a, &lse);
    const int64_t size[] = {q->size[0], q->size[2], q->size[1], keys.size[1]};
    const ls_cudnn_tensor scale = ls_cudnn_value(&a->graph, CUDNN_DATA_FLOAT, &a->scale),
                          product = ls_cudnn_between(&a->graph, CUDNN_DATA_FLOAT, size);
    ls_cudnn_multiply(&a->graph, &operand[Q], &operand[K], &product);
    const ls_cudnn_tensor scaled = ls_cudnn_apply(a, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, &product, &scale),
                          logits = ls_cudnn_hide(a, call, scaled);
    const ls_cudnn_tensor weights = softmax(a, &logits, &operand[LSE]);
    ls_cudnn_multiply(&a->graph, &weights, &operand[V], &operand[O]);
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static void release(void *p) {
    ls_cudnn_attention *a = p;
    if (a == NULL) return;
    ls_cudnn_end(&a->graph);
    free(a);
}

static ls_status prepare(const ls_kernel_call *call, void **out) {
    LS_TRY(ls_kernel_check(LS_KERNEL_ATTENTION, LS_BF16, call));
    ls_cudnn_attention *a = calloc(1, sizeof *a);
    if (a == NULL) return ls_error(LS_NO_MEMORY, "kernel attention: no memory for the description of a call");
    ls_cudnn_attention_begin(a, "attention", call);
    describe(a, call);
    ls_cudnn_plan(&a->graph, PLAN);
    const ls_status status = a->graph.status;
    if (status.code == LS_OK)
        *out = a;
    else
        release(a);
    return status;
}

static ls_status launch(const ls_kernel_call *call, void *p, void *stream) {
    const ls_cudnn_attention *a = p;
    void *of_plan;
    ls_view o, lse;
    place(call, &of_plan, &o, &lse);
    void *const data[OPERANDS] = {[Q] = call->in[0].data,
                                  [K] = ls_cudnn_read_part(call, 1).data,
                                  [V] = ls_cudnn_read_part(call, 2).data,
                                  [O] = o.data,
                                  [LSE] = lse.data};
    LS_TRY(ls_cudnn_execute(&a->graph, data, of_plan, stream));
    return ls_cuda_take_part(call, &o, &lse, stream);
}

extern const ls_kernel ls_cuda_bf16_attention_cudnn;
const ls_kernel ls_cuda_bf16_attention_cudnn = {.id = LS_KERNEL_ATTENTION,
                                                .dtype = LS_BF16,
                                                .device = LS_DEVICE_CUDA,
                                                .row = "cudnn",
                                                .refuses = true,
                                                .supports = ls_cudnn_attends,
                                                .workspace = workspace,
                                                .prepare = prepare,
                                                .release = release,
                                                .shares = ls_cudnn_same_attention,
                                                .launch = launch};
