/* Files of weights with known numbers, and one rank that they are read into. */
#ifndef TESTS_WEIGHT_FILES_H
#define TESTS_WEIGHT_FILES_H

#include "format/format.h"
#include "model/model.h"

/* One rank of several, with compiled programs and mapped memory; its world has no other members. */
typedef struct place {
    ls_model *model;
    ls_graph *graph;
    ls_image *image;
    ls_world *world;
    ls_comm *comm;
    ls_executor *executor;
} place;

/* Group set-up: the scratch folder with the config.json of a small Llama. */
int make_weights_scene(void **state);

/* Of the config.json in the scratch folder; 3 threads. */
void open_place(void **state, ls_dtype dtype, int ranks, int rank, place *out);
void close_place(place *p);

double element(const void *data, ls_dtype dtype, int64_t i);
/* x as it is after rounding to the type. */
double to_type(double x, ls_dtype dtype);
/* NULL: the image has none of that name. */
const ls_flat *find_flat(const ls_image *image, const char *name);
/* Element i of a parameter in the rank's memory. */
double parameter(const place *p, const char *name, int64_t i);

/* Loads the model's own weights into the rank's memory; asserts where they come from. */
ls_status fill_own(place *p, uint64_t seed, bool from_file);

typedef struct file_case {
    const char *drop, *add, *reshape; /* a tensor that is left out, one too many, one with another shape */
    ls_st_dtype dtype;
    int from, to; /* which of the parameters; to 0: all */
} file_case;

/* Element i of parameter number f in a file: exact in every type. */
double file_value(int f, int64_t i);
/*
 * Writes tensors of these names, types and shapes. The elements of entry t are those of parameter number[t]; the last
 * element of all is larger by `change`.
 */
void write_entries(const char *path, const ls_st_entry *entries, const int *number, int n, double change);
void write_weights(const ls_image *image, const char *path, file_case c);
/* Asserts that the rank's parameters are those of write_weights, rounded to its type. */
void check_filled(const place *p);

#endif
