/*
 * safetensors files: 8 bytes with the length of the header (little-endian), a JSON header, then the bytes of the
 * tensors without gaps.
 *
 * Opening a file checks the whole header. Writing has stages, so that several processes can fill one file: all make the
 * same plan (a pure function of its inputs); one of them creates the file and the others join it; each writes ranges at
 * the offsets of the plan; each finishes.
 */
#ifndef LS_FORMAT_SAFETENSORS_H
#define LS_FORMAT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"
#include "longspan/tensor.h"

typedef enum ls_st_dtype {
    LS_ST_F64,
    LS_ST_F32,
    LS_ST_F16,
    LS_ST_BF16,
    LS_ST_I64,
    LS_ST_I32,
    LS_ST_I16,
    LS_ST_I8,
    LS_ST_U64,
    LS_ST_U32,
    LS_ST_U16,
    LS_ST_U8,
    LS_ST_BOOL,
    LS_ST_F8_E4M3,
    LS_ST_F8_E5M2,
    LS_ST_DTYPES
} ls_st_dtype;

const char *ls_st_dtype_name(ls_st_dtype dtype); /* "F32" ... */
size_t ls_st_dtype_bytes(ls_st_dtype dtype);
ls_st_dtype ls_st_dtype_of(ls_dtype dtype);

#define LS_ST_DIMS 8

typedef struct ls_st_tensor {
    const char *name; /* UTF-8 */
    ls_st_dtype dtype;
    int ndim; /* 0..LS_ST_DIMS */
    int64_t shape[LS_ST_DIMS];
    int64_t count;    /* elements */
    size_t bytes;     /* of its data */
    const void *data; /* in the mapped file, with any alignment: to be read by memcpy or ls_st_convert */
} ls_st_tensor;

/* ---- reading ---- */

typedef struct ls_st_file ls_st_file;

/* Maps the file and checks its whole header. The bytes of the tensors are read when they are touched. */
LS_MUST_USE ls_status ls_st_open(const char *path, ls_st_file **out);
void ls_st_close(ls_st_file *file); /* NULL is allowed; frees every ls_st_tensor of the file */
const char *ls_st_path(const ls_st_file *file);
int64_t ls_st_count(const ls_st_file *file);
const ls_st_tensor *ls_st_at(const ls_st_file *file, int64_t i);          /* in the order of the data */
const ls_st_tensor *ls_st_find(const ls_st_file *file, const char *name); /* NULL: there is no such tensor */
const char *ls_st_metadata(const ls_st_file *file, const char *key);      /* NULL: there is no such key */
/* Finds a tensor with this shape. A missing tensor and another shape are LS_INVALID errors that name the file. */
LS_MUST_USE ls_status ls_st_need(const ls_st_file *file, const char *name, int ndim, const int64_t *shape,
                                 const ls_st_tensor **out);

/*
 * Converts elements [first, first + count) of a floating-point tensor (F64, F32, F16, BF16) to LS_F32, LS_F64 or
 * LS_BF16, into out[0, count), rounded to nearest, ties to even. Other dtypes are LS_UNSUPPORTED errors.
 */
LS_MUST_USE ls_status ls_st_convert(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_dtype to, void *out);
/* The same for any of the four dtypes; numbers beyond the range of F16 become infinite. */
LS_MUST_USE ls_status ls_st_convert_to(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_st_dtype to,
                                       void *out);
/* Calls ls_file_forget for these elements of a mapped file. */
void ls_st_forget(const ls_st_tensor *tensor, int64_t first, int64_t count);

/* ---- writing ---- */

typedef struct ls_st_entry {
    const char *name;
    ls_st_dtype dtype;
    int ndim;
    int64_t shape[LS_ST_DIMS];
} ls_st_entry;

typedef struct ls_st_pair {
    const char *key, *value;
} ls_st_pair;

typedef struct ls_st_plan ls_st_plan;

/*
 * Plans a file: tensors in the given order, and the data at a multiple of 64 bytes (the header is padded with spaces).
 * The arguments are copied. A name that is empty, given twice or not UTF-8, and a size that overflows, are LS_INVALID
 * errors.
 */
LS_MUST_USE ls_status ls_st_plan_create(const ls_st_entry *entries, int64_t n, const ls_st_pair *metadata,
                                        int64_t n_metadata, ls_st_plan **out);
void ls_st_plan_destroy(ls_st_plan *plan); /* NULL is allowed */
int64_t ls_st_plan_offset(const ls_st_plan *plan,
                          int64_t i); /* of the first byte of tensor i, from the start of the file */
int64_t ls_st_plan_bytes(const ls_st_plan *plan, int64_t i); /* of tensor i */
int64_t ls_st_plan_file_bytes(const ls_st_plan *plan);

/* A file that is written according to a plan. It borrows the plan until it is finished or abandoned. */
typedef struct ls_st_writer ls_st_writer;

/*
 * Creates the file, or truncates an existing one, writes the header and reserves space for the whole file. When the
 * disk has too little space, the file is removed and the LS_IO error names the file and its size.
 */
LS_MUST_USE ls_status ls_st_create(const char *path, const ls_st_plan *plan, ls_st_writer **out);
/* Opens a file that another process created by the same plan; checks its size and header. */
LS_MUST_USE ls_status ls_st_join(const char *path, const ls_st_plan *plan, ls_st_writer **out);
/* Writes bytes [from, from + bytes) of tensor i. Ranges of different writers must not overlap. */
LS_MUST_USE ls_status ls_st_write(ls_st_writer *writer, int64_t i, int64_t from, const void *data, int64_t bytes);
/* Makes the bytes of this writer durable (fsync) and closes it, even on error. */
LS_MUST_USE ls_status ls_st_finish(ls_st_writer *writer);
/* Closes the writer without fsync, after an error. NULL is allowed. The caller removes the file. */
void ls_st_abandon(ls_st_writer *writer);

#endif
