/* Element types, shapes and views. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"

typedef struct dtype_row {
    const char *name;
    size_t bytes;
    ls_dtype accumulator;
    int64_t values; /* numbers in an element */
} dtype_row;

static const dtype_row dtypes[LS_DTYPES] = {
    [LS_F32] = {"f32", 4, LS_F32, 1},       [LS_F64] = {"f64", 8, LS_F64, 1},
    [LS_BF16] = {"bf16", 2, LS_F32, 1},     [LS_I32] = {"i32", 4, LS_F32, 1},
    [LS_NF4] = {"nf4", 32 + 4, LS_F32, 64}, [LS_INT8] = {"int8", 64 + 4, LS_F32, 64},
    [LS_FP8] = {"fp8", 64 + 4, LS_F32, 64}, [LS_MXFP4] = {"mxfp4", 16 + 1, LS_F32, 32},
};

static const dtype_row *row_of(ls_dtype dtype) {
    LS_ASSERT((unsigned)dtype < LS_DTYPES);
    return &dtypes[dtype];
}

size_t ls_dtype_bytes(ls_dtype dtype) { return row_of(dtype)->bytes; }

int64_t ls_dtype_values(ls_dtype dtype) { return row_of(dtype)->values; }

const char *ls_dtype_name(ls_dtype dtype) { return row_of(dtype)->name; }

ls_dtype ls_dtype_accumulator(ls_dtype dtype) { return row_of(dtype)->accumulator; }

double ls_number_at(const void *elements, ls_dtype dtype, int64_t i) {
    switch (dtype) {
    case LS_F64:
        return ((const double *)elements)[i];
    case LS_F32:
        return (double)((const float *)elements)[i];
    case LS_BF16:
        return (double)ls_bf16_to_f32(((const ls_bf16 *)elements)[i]);
    default:
        return (double)((const int32_t *)elements)[i];
    }
}

int64_t ls_shape_elements(const ls_shape *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++) n *= shape->dim[d].size;
    return n;
}

void ls_shape_print(const ls_shape *shape, char *out, size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "[");
    for (int d = 0; d < shape->ndim && used < bytes; d++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld", d > 0 ? "," : "", (long long)shape->dim[d].size);
    if (used < bytes) snprintf(out + used, bytes - used, "]");
}

/* ---- views ---- */

ls_view ls_view_dense(void *data, ls_dtype dtype, int ndim, const int64_t *size) {
    LS_ASSERT(ndim >= 0 && ndim <= LS_MAX_DIMS);
    ls_view view = {.data = data, .dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        view.size[d] = size[d];
        view.stride[d] = stride;
        stride *= size[d];
    }
    return view;
}

int64_t ls_view_elements(const ls_view *view) {
    int64_t n = 1;
    for (int d = 0; d < view->ndim; d++) n *= view->size[d];
    return n;
}

/* The stride of a dimension of size 1 does not matter, and a view without elements is dense. */
bool ls_view_is_dense(const ls_view *view) {
    if (ls_view_elements(view) == 0) return true;
    int64_t stride = 1;
    for (int d = view->ndim - 1; d >= 0; d--) {
        if (view->size[d] != 1 && view->stride[d] != stride) return false;
        stride *= view->size[d];
    }
    return true;
}

bool ls_view_same_form(const ls_view *a, const ls_view *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->size[d] == b->size[d] && a->stride[d] == b->stride[d];
    return same;
}

ls_view ls_view_slice(ls_view view, int dim, int64_t start, int64_t count) {
    LS_ASSERT(dim >= 0 && dim < view.ndim);
    LS_ASSERT(start >= 0 && count >= 0 && start + count <= view.size[dim]);
    if (view.data != NULL) {
        int64_t bytes = start * view.stride[dim] * (int64_t)ls_dtype_bytes(view.dtype);
        view.data = (char *)view.data + bytes;
    }
    view.size[dim] = count;
    return view;
}

ls_view ls_view_rows(ls_view view) {
    LS_ASSERT(ls_view_is_dense(&view));
    int64_t columns = view.ndim > 0 ? view.size[view.ndim - 1] : 1;
    int64_t rows = 1;
    for (int d = 0; d + 1 < view.ndim; d++) rows *= view.size[d];
    return ls_view_dense(view.data, view.dtype, 2, (int64_t[]){rows, columns});
}

size_t ls_view_bytes(const ls_view *view) { return (size_t)ls_view_elements(view) * ls_dtype_bytes(view->dtype); }

/*
 * Orders the dimensions of a view by ascending stride, the inner one first where strides are equal, and returns their
 * number. A dimension of size 1, and one with stride 0 (which repeats the same bytes), is left out.
 */
static int by_stride(const ls_view *view, int order[LS_MAX_DIMS]) {
    int n = 0;
    for (int d = view->ndim - 1; d >= 0; d--) {
        if (view->size[d] == 1 || view->stride[d] == 0) continue;
        int at = n++;
        for (; at > 0 && view->stride[order[at - 1]] > view->stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

ls_range ls_view_range(const ls_view *view, size_t offset) {
    int64_t element = (int64_t)ls_dtype_bytes(view->dtype);
    ls_range range = ls_range_flat(offset, 0);
    if (ls_view_elements(view) == 0) return range;

    /* Smallest strides first; `dims` counts the range's dimensions in use. */
    int dims = 0, order[LS_MAX_DIMS];
    range.length = (size_t)element;
    for (int i = 0, n = by_stride(view, order); i < n; i++) {
        const int64_t count = view->size[order[i]], stride = view->stride[order[i]] * element;
        if (dims == 0 && stride == (int64_t)range.length) {
            range.length *= (size_t)count;
        } else if (dims > 0 && stride == range.count[dims - 1] * range.stride[dims - 1]) {
            range.count[dims - 1] *= count;
        } else {
            LS_ASSERT(dims < LS_RANGE_DIMS);
            range.count[dims] = count;
            range.stride[dims] = stride;
            dims++;
        }
    }
    return range;
}

void ls_view_fill(const ls_view *view, uint32_t seed) {
    const int64_t n = ls_view_elements(view);
    const bool blocks = ls_dtype_is_block(view->dtype);
    if (blocks) memset(view->data, 0x22, ls_view_bytes(view)); /* blocks of these bytes hold finite numbers */
    for (int64_t i = 0; i < n && !blocks; i++) {
        seed = seed * 1664525u + 1013904223u; /* the generator of Numerical Recipes */
        const float x = (float)(int32_t)seed * 0x1p-31f;
        if (view->dtype == LS_BF16)
            ((ls_bf16 *)view->data)[i] = ls_bf16_from_f32(x);
        else if (view->dtype == LS_F32)
            ((float *)view->data)[i] = x;
        else
            ((double *)view->data)[i] = (double)x;
    }
}
