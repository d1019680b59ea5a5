/*
 * Phases: the programs of an image by name, and the orders in which they may run. An image's phase table (ls_phase)
 * says which program may follow which; training, evaluation, generation and attention alone each have such a table. A
 * program that may follow itself may run any number of times in a row.
 */
#ifndef LS_PROGRAM_PHASE_H
#define LS_PROGRAM_PHASE_H

#include "program/image.h"

/* The index of the program with that name; -1: the image has none. Callers ask once and keep the index. */
int ls_program_find(const ls_image *image, const char *name);

/* Whether the program may follow `before`, the one that ran last (LS_FIRST: none has run). */
bool ls_phase_exists(const ls_image *image, int before, int program);

/* Whether two images have the same phase table. */
bool ls_phases_equal(const ls_image *a, const ls_image *b);

/*
 * Lists programs in an allowed order that takes every row of the phase table which any order can take: this order is
 * proved and interpreted. A program that may follow itself is in it twice in a row. The list lies in the arena. Returns
 * its length.
 */
int ls_phase_walk(const ls_image *image, ls_arena *arena, int **out);

/* LS_INVALID: a row names a program that the image does not have. */
LS_MUST_USE ls_status ls_phase_rows_check(const ls_image *image);

/*
 * LS_INVALID unless one order takes every row of the table; the error names the two programs of a row that is not
 * taken.
 */
LS_MUST_USE ls_status ls_phases_check(const ls_image *image);

#endif
