/* weights: what its own files share. */
#ifndef LS_WEIGHTS_IMPL_H
#define LS_WEIGHTS_IMPL_H

#include "format/format.h"
#include "weights/weights.h"

/* What random weights are made of. */
typedef struct ls_random_rule {
    uint64_t seed;
    double deviation; /* of matrices */
    double norm;      /* what the weights of norms are */
} ls_random_rule;

/* Numbers that depend on (seed, name of the parameter, index) alone; out[0, count). */
void ls_weights_random(const ls_flat *flat, const ls_random_rule *rule, int64_t start, int64_t count,
                       double *out);

/* ---- which files (listing.c) ---- */

/* What an index says: the tensor is in files.name[file]. */
typedef struct ls_indexed {
    const char *tensor, *name; /* name: of the file, without its folder */
    int file;
} ls_indexed;

/* The safetensors files that a directory offers. */
typedef struct ls_weight_listing {
    ls_file_names files; /* paths; count 0: there are none */
    ls_indexed *indexed; /* by file, then by tensor */
    size_t n_indexed;    /* 0: there is no index */
    ls_json *index;      /* texts live here */
} ls_weight_listing;

/*
 * One file, the shards of an index, or all that end in .safetensors. Every file is there. LS_UNSUPPORTED when there are weights of
 * other formats alone.
 */
LS_MUST_USE ls_status ls_weight_listing_make(const char *directory, ls_weight_listing *out);
LS_MUST_USE ls_status ls_weight_listing_of_file(const char *path, ls_weight_listing *out);
void ls_weight_listing_free(ls_weight_listing *listing); /* a zeroed one is allowed */

/* ---- files that are open (files.c) ---- */

typedef struct ls_weight_files {
    const char *bare; /* the prefix that parameters' names lack in these files; NULL: none */
    int n;
    ls_st_file *file[]; /* n */
} ls_weight_files;

/*
 * Opens all files and checks that together they hold each parameter of the image once. `what` is what errors call them. rules may be
 * NULL.
 */
LS_MUST_USE ls_status ls_weight_files_open(const char *what, const ls_weight_listing *listing,
                                           const ls_image *image, const ls_weight_rules *rules,
                                           ls_weight_files **out);
void ls_weight_files_close(ls_weight_files *files); /* NULL is allowed */
/* The name of a parameter in the files: a part of it. */
const char *ls_weight_files_name(const ls_weight_files *files, const char *parameter);
/* By the name that the files use. times (may be NULL): how many have it. */
const ls_st_tensor *ls_weight_files_find(const ls_weight_files *files, const char *name, int *times);
/* That of a parameter. */
const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat);

/* ---- what is wrong with them (check.c) ---- */

/* Names of one kind of mistake; what does not fit is counted only. */
typedef struct ls_complaint {
    const char *kind;
    int count;
    char list[128];
} ls_complaint;

void ls_complain(ls_complaint *complaint, const char *format, ...) LS_PRINTF(2, 3);

/* LS_INVALID that lists everything at once, by kind. */
LS_MUST_USE ls_status ls_weight_files_check(const ls_weight_files *files, const char *what,
                                            const ls_weight_listing *listing, const ls_image *image,
                                            const ls_weight_rules *rules);

#endif
