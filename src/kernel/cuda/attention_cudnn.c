/*
 * attention by cuDNN, where params say that the spans are a band which the library has: all keys, a causal diagonal
 * from the first or to the last key, a window along one of these. The graph is what the library's engines recognise as
 * attention: products of queries and keys, scaled, -inf where a query does not see a key, softmax with its log sum exp,
 * products with the values. The engines write o in bf16 whatever type the graph says, so a kernel of our own takes it
 * from the workspace, as f32, and merges it with results of other keys.
 */
#include "kernel/cuda/attention_parts.h"
#include "kernel/cuda/cudnn_graph.h"

#include <math.h>
#include <stdlib.h>

/* PLAN: workspace of a plan; forward plans of version 9.19 need 256 bytes at most. */
enum { PLAN = 64 << 10, PLACE = 256, MOST_D = 128, ALIGNMENT = 16 };

/* Without addresses: it serves all calls of its form. */
typedef struct state {
    ls_cudnn_graph graph;
    float scale, hidden, window;
    int32_t keys, queries;
} state;

/* --- what is supported -------------------------------------------------------------------------------------------- */

/* The band as the library has it. */
typedef struct diagonal {
    bool right, left; /* whether keys behind it, and keys long before it, are hidden */
    bool at_end;      /* it ends at the last key; else it begins at the first */
    int64_t window;   /* of `left`: query i on the diagonal sees so many keys */
} diagonal;

/* false: the library has no such band, or some query sees nothing, of which it has no lse. */
static bool diagonal_of(const ls_attention_band *band, int64_t queries, int64_t keys, diagonal *out) {
    diagonal d = {.right = band->high<keys - 1, .left = band->low> 1 - queries};
    const bool all_see = band->high >= 0 && band->low + queries - 1 <= keys - 1 && band->low <= band->high;
    d.at_end = d.right && band->high != 0;
    d.window = band->high - band->low + 1;
    *out = d;
    if (!band->known || !all_see) return false;
    if (d.at_end && band->high != keys - queries) return false;
    return !d.left || (d.right && queries <= keys);
}

/* The KV heads that the query heads read: from *first on so many; 0: the library would pair them otherwise. */
static int64_t read_heads(const ls_kernel_call *call, int64_t *first) {
    const ls_attention_params *p = call->params;
    const int64_t heads = call->in[0].size[2];
    *first = p->first_q / p->group - p->first_kv;
    const int64_t n = (p->first_q + heads - 1) / p->group - p->first_kv - *first + 1;
    for (int64_t h = 0; h < heads && heads % n == 0; h++)
        if ((p->first_q + h) / p->group - p->first_kv - *first != h / (heads / n)) return 0;
    return heads % n == 0 ? n : 0;
}

static bool is_aligned(const ls_view *v) {
    const int64_t unit = ALIGNMENT / (int64_t)ls_dtype_bytes(v->dtype);
    return v->stride[3] == 1 && v->stride[0] % unit == 0 && v->stride[1] % unit == 0 && v->stride[2] % unit == 0;
}

static bool supports(const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const int64_t *size = call->in[0].size, keys = call->in[1].size[1];
    diagonal d;
    int64_t first;
    if (ls_view_elements(&call->in[0]) == 0 || keys == 0 || !diagonal_of(&p->band, size[1], keys, &d)) return false;
    if (!(p->scale > 0) || p->softcap > 0 || size[3] > MOST_D || size[3] % 8 != 0 || read_heads(call, &first) == 0)
        return false;
    for (int i = 0; i < 3; i++)
        if (!is_aligned(&call->in[i])) return false;
    return ls_cudnn_is_there();
}

/* The plan's, and the result as the library makes it. */
static size_t workspace(const ls_kernel_call *call) {
    return PLACE + PLAN + sizeof(ls_bf16) * (size_t)ls_view_elements(&call->out[0]) +
           sizeof(float) * (size_t)ls_view_elements(&call->out[1]);
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

/* A view [B,N,H,D] as the library has it, [B,H,N,D]; with `turned` [B,H,D,N]. */
static ls_cudnn_tensor heads_of(state *s, const ls_view *v, bool turned) {
    const int row = turned ? 3 : 2, element = turned ? 2 : 3;
    int64_t size[4] = {v->size[0], v->size[2]}, stride[4] = {v->stride[0], v->stride[2]};
    size[row] = v->size[1];
    size[element] = v->size[3];
    stride[row] = v->stride[1];
    stride[element] = 1;
    const cudnnDataType_t type = v->dtype == LS_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    return ls_cudnn_operand(&s->graph, type, size, stride, ALIGNMENT);
}

static ls_cudnn_tensor like(state *s, const ls_cudnn_tensor *x, cudnnDataType_t type) {
    return ls_cudnn_between(&s->graph, type, x->size);
}

/* A new tensor of the form of x. */
static ls_cudnn_tensor apply(state *s, cudnnPointwiseMode_t mode, cudnnDataType_t type, const ls_cudnn_tensor *x,
                             const ls_cudnn_tensor *b) {
    const ls_cudnn_tensor y = like(s, x, type);
    ls_cudnn_pointwise(&s->graph, mode, type, x, b, NULL, &y);
    return y;
}

/* x where `seen` is true, else -inf. */
static ls_cudnn_tensor hide(state *s, const ls_cudnn_tensor *x, const ls_cudnn_tensor *seen) {
    const ls_cudnn_tensor hidden = ls_cudnn_value(&s->graph, CUDNN_DATA_FLOAT, &s->hidden);
    const ls_cudnn_tensor y = like(s, x, CUDNN_DATA_FLOAT);
    ls_cudnn_pointwise(&s->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, &hidden, seen, &y);
    return y;
}

static ls_cudnn_tensor index_along(state *s, int64_t axis, const ls_cudnn_tensor *x) {
    const ls_cudnn_tensor y = like(s, x, CUDNN_DATA_INT32);
    ls_cudnn_index(&s->graph, axis, x, &y);
    return y;
}

/* Keys behind the diagonal: query >= key, with the query counted from the end if the diagonal ends there. */
static ls_cudnn_tensor hide_right(state *s, const ls_cudnn_tensor *x, bool at_end) {
    ls_cudnn_tensor query = index_along(s, 2, x), key = index_along(s, 3, x);
    if (at_end) {
        const ls_cudnn_tensor keys = ls_cudnn_value(&s->graph, CUDNN_DATA_INT32, &s->keys),
                              queries = ls_cudnn_value(&s->graph, CUDNN_DATA_INT32, &s->queries);
        query = apply(s, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, &query, &keys);
        query = apply(s, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, &query, &queries);
    }
    const ls_cudnn_tensor seen = apply(s, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, &query, &key);
    return hide(s, x, &seen);
}

/* Keys before the window: key + window > query. */
static ls_cudnn_tensor hide_left(state *s, const ls_cudnn_tensor *x) {
    const ls_cudnn_tensor query = index_along(s, 2, x), key = index_along(s, 3, x),
                          window = ls_cudnn_value(&s->graph, CUDNN_DATA_FLOAT, &s->window);
    const ls_cudnn_tensor reach = apply(s, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &key, &window);
    const ls_cudnn_tensor seen = apply(s, CUDNN_POINTWISE_CMP_GT, CUDNN_DATA_BOOLEAN, &reach, &query);
    return hide(s, x, &seen);
}

/* An lse [B,H,N] as the library has it, [B,H,N,1]. */
static ls_cudnn_tensor rows_of(state *s, const ls_view *v) {
    const int64_t size[] = {v->size[0], v->size[1], v->size[2], 1},
                  stride[] = {v->stride[0], v->stride[1], v->stride[2], 1};
    return ls_cudnn_operand(&s->graph, CUDNN_DATA_FLOAT, size, stride, sizeof(float));
}

/* The weights of the keys, and their log sum exp. */
static ls_cudnn_tensor softmax(state *s, const ls_cudnn_tensor *x, const ls_cudnn_tensor *lse) {
    const int64_t size[] = {x->size[0], x->size[1], x->size[2], 1};
    const ls_cudnn_tensor most = ls_cudnn_between(&s->graph, CUDNN_DATA_FLOAT, size),
                          sum = ls_cudnn_between(&s->graph, CUDNN_DATA_FLOAT, size);
    ls_cudnn_reduce(&s->graph, CUDNN_REDUCE_TENSOR_MAX, x, &most);
    const ls_cudnn_tensor below = apply(s, CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, x, &most),
                          power = apply(s, CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, &below, NULL);
    ls_cudnn_reduce(&s->graph, CUDNN_REDUCE_TENSOR_ADD, &power, &sum);
    const ls_cudnn_tensor log = apply(s, CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, &sum, NULL);
    ls_cudnn_pointwise(&s->graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &most, &log, NULL, lse);
    const ls_cudnn_tensor weights = like(s, x, CUDNN_DATA_BFLOAT16);
    ls_cudnn_pointwise(&s->graph, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, &power, &sum, NULL, &weights);
    return weights;
}

/* The keys or values that the query heads read. */
static ls_view read_part(const ls_kernel_call *call, int input) {
    int64_t first;
    const int64_t heads = read_heads(call, &first);
    return ls_view_slice(call->in[input], 2, first, heads);
}

/* The parts of the workspace: the plan's, and o and lse as the library makes them. */
static void place(const ls_kernel_call *call, void **of_plan, ls_view *o, ls_view *lse) {
    char *const begin = (char *)ls_round_up((size_t)call->workspace, PLACE);
    *of_plan = begin;
    *o = ls_view_dense(begin + PLAN, LS_BF16, 4, call->out[0].size);
    *lse = ls_view_dense(begin + PLAN + ls_view_bytes(o), LS_F32, 3, call->out[1].size);
}

/* The operands, in the order in which they are made here, and in a launch. */
enum { Q, K, V, O, LSE, OPERANDS };

static void describe(state *s, const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const ls_view *q = &call->in[0], keys = read_part(call, 1), values = read_part(call, 2);
    void *of_plan;
    ls_view o, lse;
    diagonal d;
    place(call, &of_plan, &o, &lse);
    (void)diagonal_of(&p->band, q->size[1], keys.size[1], &d);
    s->scale = (float)p->scale;
    s->hidden = -INFINITY;
    s->keys = (int32_t)keys.size[1];
    s->queries = (int32_t)q->size[1];
    s->window = (float)(d.window - (d.at_end ? keys.size[1] - q->size[1] : 0));
    ls_cudnn_tensor operand[OPERANDS];
    operand[Q] = heads_of(s, q, false);
    operand[K] = heads_of(s, &keys, true);
    operand[V] = heads_of(s, &values, false);
    operand[O] = heads_of(s, &o, false);
    operand[LSE] = rows_of(s, &lse);
    const int64_t size[] = {q->size[0], q->size[2], q->size[1], keys.size[1]};
    const ls_cudnn_tensor scale = ls_cudnn_value(&s->graph, CUDNN_DATA_FLOAT, &s->scale),
                          product = ls_cudnn_between(&s->graph, CUDNN_DATA_FLOAT, size);
    ls_cudnn_multiply(&s->graph, &operand[Q], &operand[K], &product);
    ls_cudnn_tensor logits = apply(s, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, &product, &scale);
    if (d.right) logits = hide_right(s, &logits, d.at_end);
    if (d.left) logits = hide_left(s, &logits);
    const ls_cudnn_tensor weights = softmax(s, &logits, &operand[LSE]);
    ls_cudnn_multiply(&s->graph, &weights, &operand[V], &operand[O]);
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static void release(void *p) {
    state *s = p;
    if (s == NULL) return;
    ls_cudnn_end(&s->graph);
    free(s);
}

static ls_status prepare(const ls_kernel_call *call, void **out) {
    LS_TRY(ls_kernel_check(LS_KERNEL_ATTENTION, LS_BF16, call));
    state *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "kernel attention: no memory for the description of a call");
    ls_cudnn_begin(&s->graph, "attention");
    describe(s, call);
    ls_cudnn_plan(&s->graph, PLAN);
    const ls_status status = s->graph.status;
    if (status.code == LS_OK)
        *out = s;
    else
        release(s);
    return status;
}

/* All that the graph is made of; spans, positions and whether the result is merged are not. */
static bool shares(const ls_kernel_call *one, const ls_kernel_call *other) {
    const ls_attention_params *a = one->params, *b = other->params;
    return ls_kernel_same_forms(one, other) && a->scale == b->scale && a->group == b->group &&
           a->first_q == b->first_q && a->first_kv == b->first_kv && a->band.low == b->band.low &&
           a->band.high == b->band.high;
}

static ls_status launch(const ls_kernel_call *call, void *p, void *stream) {
    const state *s = p;
    void *of_plan;
    ls_view o, lse;
    place(call, &of_plan, &o, &lse);
    void *const data[OPERANDS] = {[Q] = call->in[0].data,
                                  [K] = read_part(call, 1).data,
                                  [V] = read_part(call, 2).data,
                                  [O] = o.data,
                                  [LSE] = lse.data};
    LS_TRY(ls_cudnn_execute(&s->graph, data, of_plan, stream));
    return ls_cuda_take_part(call, &o, &lse, stream);
}

extern const ls_kernel ls_cuda_bf16_attention_cudnn;
const ls_kernel ls_cuda_bf16_attention_cudnn = {.id = LS_KERNEL_ATTENTION,
                                                .dtype = LS_BF16,
                                                .device = LS_DEVICE_CUDA,
                                                .row = "cudnn",
                                                .refuses = true,
                                                .supports = supports,
                                                .workspace = workspace,
                                                .prepare = prepare,
                                                .release = release,
                                                .shares = shares,
                                                .launch = launch};
