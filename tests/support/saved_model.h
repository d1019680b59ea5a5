/* A model's folder, and a checkpoint of its own weights in a run's folder: for tests of exporting and inspecting. */
#ifndef TESTS_SAVED_MODEL_H
#define TESTS_SAVED_MODEL_H

#include "format/format.h"
#include "tensor/tensor.h"

/* A small Llama of 21 tensors, whose config has odd spacing and unknown fields: both must survive. */
extern const char saved_config[];

typedef struct saving {
    const char *model; /* folder */
    const char *run;   /* folder that checkpoints go to */
    ls_dtype dtype;
    int ranks;
} saving;

/* A path in the scratch folder (state of support/scratch.h), kept for the whole test. */
typedef struct kept_path {
    char text[4096];
} kept_path;
kept_path path_in(void **state, const char *path);

/*
 * FOLDER/config.json and FOLDER/model.safetensors: all kinds of numbers of that type, zeros of both signs, subnormals,
 * infinities and quiet NaN.
 */
void make_model(const char *folder, const char *config, ls_st_dtype dtype);
/*
 * RUN/checkpoint-00000012, by ranks that are threads: the model's own weights, no step done; loss 2.5, seed 3, 48
 * sequences.
 */
void save_model(const saving *s);

/* A model, a run of it and the checkpoint in it, for the tests that follow. */
typedef struct scene {
    kept_path model, run, checkpoint, out;
} scene;
/* Folders model, run and its checkpoint, saved by one rank in f32; out is not there yet. */
scene make_scene(void **state, const char *config);

/* The whole file, to be freed. */
char *read_whole(const char *folder, const char *file);
void assert_same_file(const char *a, const char *b);
/* Names in the folder that hold `part`. */
int count_names(const char *folder, const char *part);
/* Changes a bit of the file; offset < 0: from its end. */
void flip_byte(const char *path, int64_t offset);

#endif
