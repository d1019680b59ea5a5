/* The .npy files of NumPy, versions 1, 2 and 3: C order, little-endian f4, f8, i4 and i8, up to 4 dimensions. */
#ifndef LS_FORMAT_NPY_H
#define LS_FORMAT_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef enum ls_npy_type { LS_NPY_F4, LS_NPY_F8, LS_NPY_I4, LS_NPY_I8, LS_NPY_TYPES } ls_npy_type;

#define LS_NPY_DIMS 4

/* An array in a mapped file. data is aligned for its type: if it is not aligned in the file, it is copied. */
typedef struct ls_npy {
    ls_npy_type type;
    int ndim; /* 0..LS_NPY_DIMS; 0: a single number */
    int64_t shape[LS_NPY_DIMS];
    int64_t count;    /* elements */
    const void *data; /* read-only, [shape...] in C order */
    void *owned;      /* private: the mapping or the copy */
    size_t owned_bytes;
} ls_npy;

const char *ls_npy_type_name(ls_npy_type type); /* "f4" ... */
size_t ls_npy_type_bytes(ls_npy_type type);

LS_MUST_USE ls_status ls_npy_open(const char *path, ls_npy *out);
void ls_npy_close(ls_npy *array); /* NULL and a zeroed array are allowed */

/* Writes the array as version 1, atomically. data: [shape...], C order. */
LS_MUST_USE ls_status ls_npy_write(const char *path, ls_npy_type type, int ndim, const int64_t *shape,
                                   const void *data);

#endif
