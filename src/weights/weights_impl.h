/* weights: what the files of this folder share. */
#ifndef LS_WEIGHTS_IMPL_H
#define LS_WEIGHTS_IMPL_H

#include "format/format.h"
#include "weights/weights.h"

/* Open safetensors files that were checked: together they hold each parameter of an image exactly once. */
typedef struct ls_weight_files ls_weight_files;

/* See ls_weights_open_folder. *out is NULL when the folder has no safetensors file. */
LS_MUST_USE ls_status ls_weight_files_open_folder(const char *folder, const ls_image *image,
                                                  const ls_weight_rules *rules, ls_weight_files **out);
LS_MUST_USE ls_status ls_weight_files_open_file(const char *path, const ls_image *image, ls_weight_files **out);
void ls_weight_files_close(ls_weight_files *files); /* NULL is allowed */
/* The tensor of a parameter. */
const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat);

#endif
