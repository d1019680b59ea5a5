/*
 * The matrix of example graphs (examples/graphs) × meshes × layouts × savings of memory × types: loss and every
 * gradient against one rank in f64 on the same rounded parameters. test_examples.c runs a covering part of it,
 * long_examples.c all of it.
 *
 * The error of a gradient is |g - g*| / max(|g*|, 1e-3 of the norm of its kind over the layers): see network_error.
 * Bounds: f64 1e-12; f32 and bf16 twice the error of one rank under any instruction set (network_own_errors) plus a
 * floor (f32: 4e-6; bf16: half a rounding, 2^-9), for each kind of gradient over all places and layers and for all
 * gradients of each place (roots of mean squares); for a single gradient at a single place four times.
 */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include "compile/compile.h"

/* A place in the matrix, by row of each table. */
typedef struct matrix_place {
    int network, mesh, layout, saving;
} matrix_place;

/* Whether a place is to be tested. */
typedef bool (*matrix_choice)(const matrix_place *place);

/* Fails the test (fail_msg) with names and figures; prints a line per network. Returns the number of places. */
int matrix_compare(ls_dtype dtype, matrix_choice choice);
/* The programs of all ranks pass the verifier; up to four ranks also the interpreter. */
int matrix_verify(matrix_choice choice);

#endif
