/*
 * How files of published models hold a matrix in few bytes: its codes, under the parameter's name or a similar one, and
 * tensors of scales beside it. It is read as blocks of an element type (kernel/blocks.h), which decode to the same
 * numbers as in the libraries that wrote the file.
 */
#ifndef LS_WEIGHTS_STORED_H
#define LS_WEIGHTS_STORED_H

#include "format/format.h"
#include "tensor/tensor.h"

/* Finds a tensor by its name; returns NULL if there is none. */
typedef struct ls_stored_lookup {
    const ls_st_tensor *(*find)(const void *files, const char *name, const char **path);
    const void *files;
} ls_stored_lookup;

typedef struct ls_stored ls_stored;

/*
 * Opens the matrix of this name in the files; *out is NULL if they do not hold it in few bytes. shape: that of the
 * parameter. LS_INVALID and LS_UNSUPPORTED name file, tensor, value and what was expected.
 */
LS_MUST_USE ls_status ls_stored_open(const ls_stored_lookup *lookup, const char *name, const ls_shape *shape,
                                     ls_stored **out);
void ls_stored_close(ls_stored *stored);             /* NULL is allowed */
const char *ls_stored_name(const ls_stored *stored); /* of the parameter */
ls_dtype ls_stored_dtype(const ls_stored *stored);   /* the type of its blocks */
int64_t ls_stored_bytes(const ls_stored *stored);    /* bytes of all its tensors */

/*
 * Whether a tensor of the files belongs, by one of the rules, to a matrix of another name that the files may hold in
 * few bytes. Writes that name to `of`.
 */
bool ls_stored_belongs(const char *tensor, char *of, size_t room, int rule);
int ls_stored_rules(void); /* rule: 0 .. this - 1 */

/* Reads blocks [first, first + n), in the order of the matrix' rows. Any thread may call it. */
void ls_stored_blocks(const ls_stored *stored, int64_t first, int64_t n, void *blocks);
/* Reads numbers [start, start + count). Any thread may call it. */
void ls_stored_numbers(const ls_stored *stored, int64_t start, int64_t count, float *numbers);

#endif
