/*
 * A view: elements of one type at strides, as a kernel receives them. Up to four dimensions, outermost first.
 */
#ifndef LS_TENSOR_VIEW_H
#define LS_TENSOR_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "longspan/tensor.h"

typedef struct ls_view {
    void *data; /* first element; NULL while a program is only described */
    ls_dtype dtype;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS]; /* elements */
} ls_view;

/* Numbers in (-1, 1) into a dense view of a floating-point type: what is measured must not be zeros. The same for the same seed. */
void ls_view_scribble(const ls_view *view, uint32_t seed);

/* A dense view, strides from sizes. */
ls_view ls_view_dense(void *data, ls_dtype dtype, int ndim, const int64_t *size);

int64_t ls_view_elements(const ls_view *view);
/* Of its elements: what it takes when it is dense. */
size_t ls_view_bytes(const ls_view *view);
bool ls_view_is_dense(const ls_view *view);
/* Of one type, sizes and strides, wherever their data lie. */
bool ls_view_is_alike(const ls_view *a, const ls_view *b);

/* Elements [start, start+count) along dimension `dim`: same strides, data moved. */
ls_view ls_view_slice(ls_view view, int dim, int64_t start, int64_t count);

/* Dense view as a matrix [rows, last dimension]; one dimension gives [1, n]. */
ls_view ls_view_rows(ls_view view);

/*
 * The bytes of the view, with `offset` for its first element. Dimensions that touch are merged, so that equal
 * byte sets are written alike. A view of four dimensions always fits: its innermost stride is 1.
 */
ls_range ls_view_range(const ls_view *view, size_t offset);

#endif
