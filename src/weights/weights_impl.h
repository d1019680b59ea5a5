/* weights: what the files of this folder share. */
#ifndef LS_WEIGHTS_IMPL_H
#define LS_WEIGHTS_IMPL_H

#include "format/format.h"
#include "weights/stored.h"
#include "weights/weights.h"

/* Open safetensors files that were checked: together they hold each parameter of an image exactly once. */
typedef struct ls_weight_files ls_weight_files;

/* See ls_weights_open_folder. *out is NULL when the folder has no safetensors file. */
LS_MUST_USE ls_status ls_weight_files_open_folder(const char *folder, const ls_image *image,
                                                  const ls_weight_rules *rules, ls_weight_files **out);
LS_MUST_USE ls_status ls_weight_files_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                                                ls_weight_files **out);
void ls_weight_files_close(ls_weight_files *files); /* NULL is allowed */
/* What the files hold that the rules leave out: "3 tensors (mtp.a, ...)"; NULL: nothing. */
const char *ls_weight_files_left_out(const ls_weight_files *files);
/* A parameter that the files hold in few bytes; NULL: they hold it in a tensor of its own. */
const ls_stored *ls_weight_files_stored(const ls_weight_files *files, const ls_flat *flat);
/* The tensor of a parameter that they hold in one. */
const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat);
/*
 * Where the files hold a tensor a second time (ls_weight_rules): LS_INVALID unless these elements are equal in both. So
 * whoever reads a part of it checks that part. The bytes that are read are added to *bytes.
 */
LS_MUST_USE ls_status ls_weight_files_check_copy(const ls_weight_files *files, const ls_st_tensor *tensor,
                                                 int64_t start, int64_t count, int64_t *bytes);

#endif
