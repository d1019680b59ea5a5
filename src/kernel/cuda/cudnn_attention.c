#include "kernel/cuda/cudnn_attention.h"

#include <math.h>

enum { MOST_D = 128 };

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* A band in the library's terms. */
typedef struct diagonal {
    bool right, left; /* whether keys behind the diagonal, and keys before the window, are hidden */
    bool at_end;      /* the diagonal ends at the last key; else it begins at the first */
    int64_t window;   /* if left: how many keys a query sees, up to the diagonal */
} diagonal;

/* false: the library has no such band, or some query sees no key, for which the library has no lse. */
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

/*
 * Returns the number of KV heads that the query heads read, from *first on; 0: the library would pair query heads with
 * them in another way.
 */
static int64_t read_heads(const ls_kernel_call *call, int64_t *first) {
    const ls_attention_params *p = call->params;
    const int64_t heads = call->in[0].size[2];
    *first = p->first_q / p->group - p->first_kv;
    const int64_t n = (p->first_q + heads - 1) / p->group - p->first_kv - *first + 1;
    for (int64_t h = 0; h < heads && heads % n == 0; h++)
        if ((p->first_q + h) / p->group - p->first_kv - *first != h / (heads / n)) return 0;
    return heads % n == 0 ? n : 0;
}

bool ls_cudnn_is_aligned(const ls_view *v) {
    const int64_t unit = LS_CUDNN_ALIGNMENT / (int64_t)ls_dtype_bytes(v->dtype);
    return v->stride[3] == 1 && v->stride[0] % unit == 0 && v->stride[1] % unit == 0 && v->stride[2] % unit == 0;
}

bool ls_cudnn_attends(const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const int64_t *size = call->in[0].size, keys = call->in[1].size[1];
    diagonal d;
    int64_t first;
    if (ls_view_elements(&call->in[0]) == 0 || keys == 0 || !diagonal_of(&p->band, size[1], keys, &d)) return false;
    if (!(p->scale > 0) || p->softcap > 0 || size[3] > MOST_D || size[3] % 8 != 0 || call->in[2].size[3] != size[3] ||
        read_heads(call, &first) == 0)
        return false;
    for (int i = 0; i < 3; i++)
        if (!ls_cudnn_is_aligned(&call->in[i])) return false;
    return ls_cudnn_version() > 0;
}

ls_view ls_cudnn_read_part(const ls_kernel_call *call, int input) {
    int64_t first;
    const int64_t heads = read_heads(call, &first);
    return ls_view_slice(call->in[input], 2, first, heads);
}

bool ls_cudnn_same_attention(const ls_kernel_call *one, const ls_kernel_call *other) {
    const ls_attention_params *a = one->params, *b = other->params;
    return ls_kernel_same_forms(one, other) && a->scale == b->scale && a->group == b->group &&
           a->first_q == b->first_q && a->first_kv == b->first_kv && a->band.low == b->band.low &&
           a->band.high == b->band.high;
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

void ls_cudnn_attention_begin(ls_cudnn_attention *a, const char *kernel, const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const int64_t queries = call->in[0].size[1], keys = call->in[1].size[1];
    diagonal d;
    (void)diagonal_of(&p->band, queries, keys, &d);
    *a = (ls_cudnn_attention){.scale = (float)p->scale,
                              .hidden = -INFINITY,
                              .window = (float)(d.window - (d.at_end ? keys - queries : 0)),
                              .one = 1,
                              .keys = (int32_t)keys,
                              .queries = (int32_t)queries};
    ls_cudnn_begin(&a->graph, kernel);
}

ls_cudnn_tensor ls_cudnn_heads(ls_cudnn_attention *a, const ls_view *v, bool turned) {
    const int row = turned ? 3 : 2, element = turned ? 2 : 3;
    int64_t size[4] = {v->size[0], v->size[2]}, stride[4] = {v->stride[0], v->stride[2]};
    size[row] = v->size[1];
    size[element] = v->size[3];
    stride[row] = v->stride[1];
    stride[element] = 1;
    const cudnnDataType_t type = v->dtype == LS_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    return ls_cudnn_operand(&a->graph, type, size, stride, LS_CUDNN_ALIGNMENT);
}

static ls_cudnn_tensor like(ls_cudnn_attention *a, const ls_cudnn_tensor *x, cudnnDataType_t type) {
    return ls_cudnn_between(&a->graph, type, x->size);
}

ls_cudnn_tensor ls_cudnn_apply(ls_cudnn_attention *a, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                               const ls_cudnn_tensor *x, const ls_cudnn_tensor *b) {
    const ls_cudnn_tensor y = like(a, x, type);
    ls_cudnn_pointwise(&a->graph, mode, type, x, b, NULL, &y);
    return y;
}

/* x where `seen` is true, else -inf. */
static ls_cudnn_tensor hide(ls_cudnn_attention *a, const ls_cudnn_tensor *x, const ls_cudnn_tensor *seen) {
    const ls_cudnn_tensor hidden = ls_cudnn_value(&a->graph, CUDNN_DATA_FLOAT, &a->hidden);
    const ls_cudnn_tensor y = like(a, x, CUDNN_DATA_FLOAT);
    ls_cudnn_pointwise(&a->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, &hidden, seen, &y);
    return y;
}

static ls_cudnn_tensor index_along(ls_cudnn_attention *a, int64_t axis, const ls_cudnn_tensor *x) {
    const ls_cudnn_tensor y = like(a, x, CUDNN_DATA_INT32);
    ls_cudnn_index(&a->graph, axis, x, &y);
    return y;
}

/*
 * Hides keys behind the diagonal: visible are query >= key, with queries shifted if the diagonal ends at the last key.
 */
static ls_cudnn_tensor hide_right(ls_cudnn_attention *a, const ls_cudnn_tensor *x, bool at_end) {
    ls_cudnn_tensor query = index_along(a, 2, x), key = index_along(a, 3, x);
    if (at_end) {
        const ls_cudnn_tensor keys = ls_cudnn_value(&a->graph, CUDNN_DATA_INT32, &a->keys),
                              queries = ls_cudnn_value(&a->graph, CUDNN_DATA_INT32, &a->queries);
        query = ls_cudnn_apply(a, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, &query, &keys);
        query = ls_cudnn_apply(a, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, &query, &queries);
    }
    const ls_cudnn_tensor seen = ls_cudnn_apply(a, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, &query, &key);
    return hide(a, x, &seen);
}

/* Hides keys before the window: visible are key + window > query. */
static ls_cudnn_tensor hide_left(ls_cudnn_attention *a, const ls_cudnn_tensor *x) {
    const ls_cudnn_tensor query = index_along(a, 2, x), key = index_along(a, 3, x),
                          window = ls_cudnn_value(&a->graph, CUDNN_DATA_FLOAT, &a->window);
    const ls_cudnn_tensor reach = ls_cudnn_apply(a, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &key, &window);
    const ls_cudnn_tensor seen = ls_cudnn_apply(a, CUDNN_POINTWISE_CMP_GT, CUDNN_DATA_BOOLEAN, &reach, &query);
    return hide(a, x, &seen);
}

ls_cudnn_tensor ls_cudnn_rows(ls_cudnn_attention *a, const ls_view *v) {
    const int64_t size[] = {v->size[0], v->size[1], v->size[2], 1},
                  stride[] = {v->stride[0], v->stride[1], v->stride[2], 1};
    return ls_cudnn_operand(&a->graph, CUDNN_DATA_FLOAT, size, stride, sizeof(float));
}

ls_cudnn_tensor ls_cudnn_hide(ls_cudnn_attention *a, const ls_kernel_call *call, ls_cudnn_tensor x) {
    const ls_attention_params *p = call->params;
    diagonal d;
    (void)diagonal_of(&p->band, a->queries, a->keys, &d);
    if (d.right) x = hide_right(a, &x, d.at_end);
    if (d.left) x = hide_left(a, &x);
    return x;
}
