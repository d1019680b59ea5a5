/* weights: what its own files share. */
#ifndef LS_WEIGHTS_IMPL_H
#define LS_WEIGHTS_IMPL_H

#include "format/format.h"
#include "weights/weights.h"

/* Numbers that depend on (seed, name of the parameter, index) alone; out[0, count). */
void ls_weights_random(const ls_flat *flat, uint64_t seed, double deviation, int64_t start, int64_t count,
                       double *out);

/* Weights in files: opened and checked against the parameters of an image. */
typedef struct ls_weight_files ls_weight_files;

/*
 * paths: n safetensors files that together hold each parameter once. `what` is what errors call them all. derived: endings of
 * names that files may hold and that are not trained, ended by NULL; or NULL.
 */
LS_MUST_USE ls_status ls_weight_files_open(const char *what, const char *const *paths, int n,
                                           const ls_image *image, const char *const *derived,
                                           ls_weight_files **out);
void ls_weight_files_close(ls_weight_files *files); /* NULL is allowed */
LS_MUST_USE ls_status ls_weight_files_read(const ls_weight_files *files, const ls_flat *flat, int64_t start,
                                           int64_t count, double *out);

/* The safetensors files that a directory offers, as paths; n 0: none. Free with ls_file_names_free. */
LS_MUST_USE ls_status ls_weight_files_list(const char *directory, ls_file_names *out);

#endif
