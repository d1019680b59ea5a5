/*
 * tensor: how tensors are described. No arithmetic. This header is the one that other folders include.
 */
#ifndef LS_TENSOR_H
#define LS_TENSOR_H

#include "longspan/tensor.h"

#include "tensor/layout.h"
#include "tensor/mask.h"
#include "tensor/params.h"
#include "tensor/rope.h"
#include "tensor/view.h"

#include <stddef.h>

size_t ls_dtype_bytes(ls_dtype dtype);
const char *ls_dtype_name(ls_dtype dtype); /* "f32", "f64", "bf16", "i32" */

/* The type that sums over `dtype` are kept in: f64 for f64, otherwise f32. */
ls_dtype ls_dtype_accumulator(ls_dtype dtype);

/* Number of elements (1 for no dimensions), and "[2,16,64]". */
int64_t ls_shape_elements(const ls_shape *shape);
void ls_shape_print(const ls_shape *shape, char *out, size_t bytes);

#endif
