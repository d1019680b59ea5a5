/* tensor: descriptions of tensors, without arithmetic on their elements. Other folders include this header alone. */
#ifndef LS_TENSOR_H
#define LS_TENSOR_H

#include "longspan/tensor.h"

#include "base/base.h"
#include "tensor/layout.h"
#include "tensor/mask.h"
#include "tensor/mesh.h"
#include "tensor/params.h"
#include "tensor/rope.h"
#include "tensor/units.h"

#include <stdbool.h>
#include <stddef.h>

size_t ls_dtype_bytes(ls_dtype dtype);
const char *ls_dtype_name(ls_dtype dtype); /* "f32", "f64", "bf16", "i32", "nf4" ... */
/* Numbers in an element: 1, or as many as a block has. */
int64_t ls_dtype_values(ls_dtype dtype);
static inline bool ls_dtype_is_block(ls_dtype dtype) { return ls_dtype_values(dtype) > 1; }

/* Element i of an array, of any type but the block types. */
double ls_number_at(const void *elements, ls_dtype dtype, int64_t i);

/* The type of sums over elements of `dtype`: f64 for f64, otherwise f32. */
ls_dtype ls_dtype_accumulator(ls_dtype dtype);

/* The number of elements; 1 for a shape without dimensions. */
int64_t ls_shape_elements(const ls_shape *shape);
/* Prints "[2,16,64]". */
void ls_shape_print(const ls_shape *shape, char *out, size_t bytes);

/* A view: elements of one type at strides, as a kernel receives them. Up to four dimensions, outermost first. */
typedef struct ls_view {
    void *data; /* the first element; NULL in a program that is not prepared yet */
    ls_dtype dtype;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS]; /* elements */
} ls_view;

/*
 * Fills a dense view of a floating-point type with numbers in [-1, 1) that depend on the seed only, as input of
 * measurements: zeros would not be representative. With a block type, all blocks get the same numbers.
 */
void ls_view_fill(const ls_view *view, uint32_t seed);

/* A dense view: the strides follow from the sizes. */
ls_view ls_view_dense(void *data, ls_dtype dtype, int ndim, const int64_t *size);

int64_t ls_view_elements(const ls_view *view);
/* The number of elements times the bytes of each, whatever the strides. */
size_t ls_view_bytes(const ls_view *view);
bool ls_view_is_dense(const ls_view *view);
/* Whether two views have the same type, sizes and strides. */
bool ls_view_same_form(const ls_view *a, const ls_view *b);

/* The part of a view with the elements [start, start+count) along dimension `dim`. */
ls_view ls_view_slice(ls_view view, int dim, int64_t start, int64_t count);

/* A dense view as a matrix [rows, last dimension]; one dimension gives [1, n]. */
ls_view ls_view_rows(ls_view view);

/*
 * The bytes of the view when its first element is at `offset`. Dimensions whose pieces touch are merged, so that equal
 * sets of bytes give equal ranges, whatever the order of the dimensions. A range has three dimensions: in a view with
 * more, the pieces of some dimensions must touch.
 */
ls_range ls_view_range(const ls_view *view, size_t offset);

#endif
