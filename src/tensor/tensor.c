/* Element types and shapes. */
#include "tensor/tensor.h"

#include <stdio.h>

#include "base/base.h"

typedef struct dtype_row {
    const char *name;
    size_t bytes;
    ls_dtype accumulator;
} dtype_row;

static const dtype_row dtypes[LS_DTYPES] = {
    [LS_F32] = {"f32", 4, LS_F32},
    [LS_F64] = {"f64", 8, LS_F64},
    [LS_BF16] = {"bf16", 2, LS_F32},
    [LS_I32] = {"i32", 4, LS_F32},
};

static const dtype_row *row_of(ls_dtype dtype) {
    LS_ASSERT((unsigned)dtype < LS_DTYPES);
    return &dtypes[dtype];
}

size_t ls_dtype_bytes(ls_dtype dtype) { return row_of(dtype)->bytes; }

const char *ls_dtype_name(ls_dtype dtype) { return row_of(dtype)->name; }

ls_dtype ls_dtype_accumulator(ls_dtype dtype) { return row_of(dtype)->accumulator; }

int64_t ls_shape_elements(const ls_shape *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->ndim; d++) n *= shape->dim[d].size;
    return n;
}

void ls_shape_print(const ls_shape *shape, char *out, size_t bytes) {
    size_t used = (size_t)snprintf(out, bytes, "[");
    for (int d = 0; d < shape->ndim && used < bytes; d++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)shape->dim[d].size);
    if (used < bytes) snprintf(out + used, bytes - used, "]");
}
