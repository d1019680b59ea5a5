/*
 * A rank's image of one program that a test emits by the builder's calls, without a graph. Ranks are along dp.
 */
#ifndef TESTS_EMISSION_H
#define TESTS_EMISSION_H

#include "compile/compile_impl.h"

enum { EMISSION_BUFFERS = 8 }; /* persistent ones, at most */

typedef struct emission {
    ls_builder builder;
    ls_target target;
    ls_image *image;
    ls_effect effect[EMISSION_BUFFERS];
} emission;

/* In the order of these calls: what the host finds by name is bound, the program begins, its instructions are emitted,
   and what it does to what is bound is declared. It must not move. */
void emission_begin(emission *e, int ranks, int rank);
ls_operand emission_bind(emission *e, const char *name, ls_buffer_kind kind, ls_dtype dtype, int64_t n);
void emission_program(emission *e);
void emission_declare(emission *e, ls_operand bound, ls_effect effect);
/* Names, schedules, places and orders; fails the test where the builder has failed. */
ls_image *emission_end(emission *e);

#endif
