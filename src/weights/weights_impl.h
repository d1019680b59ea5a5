/* weights: shared by the files of this folder. */
#ifndef LS_WEIGHTS_IMPL_H
#define LS_WEIGHTS_IMPL_H

#include "format/format.h"
#include "weights/stored.h"
#include "weights/weights.h"

/* Open safetensors files that were checked: together they hold each parameter of an image exactly once. */
typedef struct ls_weight_files ls_weight_files;

/* See ls_weights_open_folder. *out is NULL if the folder has no safetensors file. */
LS_MUST_USE ls_status ls_weight_files_open_folder(const char *folder, const ls_image *image,
                                                  const ls_weight_rules *rules, ls_weight_files **out);
LS_MUST_USE ls_status ls_weight_files_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                                                ls_weight_files **out);
void ls_weight_files_close(ls_weight_files *files); /* NULL is allowed */
/* The tensors in the files that the rules leave out: "3 tensors (mtp.a, ...)"; NULL: none. */
const char *ls_weight_files_left_out(const ls_weight_files *files);
/* The parameter's matrix in few bytes; NULL: the files hold it in an ordinary tensor. */
const ls_stored *ls_weight_files_stored(const ls_weight_files *files, const ls_flat *flat);
/* The tensor of a parameter that the files hold in an ordinary tensor. */
const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat);
/*
 * If the files hold a tensor a second time (ls_weight_rules): LS_INVALID unless these elements are equal in both. So
 * every reader of a part of it also checks that part. The bytes that are read are added to *bytes.
 */
LS_MUST_USE ls_status ls_weight_files_check_copy(const ls_weight_files *files, const ls_st_tensor *tensor,
                                                 int64_t start, int64_t count, int64_t *bytes);

#endif
