/* The memory of the interpreter: a hash per unit of memory. */
#ifndef LS_INTERPRET_IMPL_H
#define LS_INTERPRET_IMPL_H

#include "run/interpret.h"

#define LS_POISON UINT64_MAX
#define LS_NO_ROW 1 /* the value of units behind the rows that were put: no kernel uses them */

/* An operand as units of its arena, in the order of its elements. */
typedef struct ls_units {
    ls_space space;
    int n;
    bool outside; /* some units are outside of the arena, and were left out */
    uint32_t *at;
} ls_units;

/* One rank's memory. */
typedef struct ls_hashes {
    const ls_image *image;
    int rank;
    size_t unit; /* bytes */
    size_t n[LS_SPACES];
    uint64_t *value[LS_SPACES];
} ls_hashes;

/* The largest unit for all these images, in bytes. */
size_t ls_hashes_unit(const ls_image *const *images, int ranks);
void ls_hashes_create(ls_hashes *store, const ls_image *image, int rank, size_t unit, ls_arena *arena);

ls_units ls_hashes_units(const ls_hashes *store, const ls_operand *operand, ls_arena *arena);
ls_units ls_hashes_units_of(const ls_hashes *store, ls_space space, const ls_range *range, ls_arena *arena);

/*
 * Reset restores the state before the first program; set_inputs writes what the host writes before program number
 * `run`.
 */
void ls_hashes_reset(ls_hashes *store);
void ls_hashes_set_inputs(ls_hashes *store, uint64_t run);

/* Continues `hash` with the values of the units; the result is never 0. Sets *poison if some value is poison. */
uint64_t ls_hashes_read(const ls_hashes *store, const ls_units *units, uint64_t hash, bool *poison);
/* Writes to each unit a value of its own, made from `hash`. */
void ls_hashes_write(ls_hashes *store, const ls_units *units, uint64_t hash);
void ls_hashes_poison(ls_hashes *store, const ls_units *units);
/* Gives LS_NO_ROW to the units from `first` on, to which nothing is put. */
void ls_hashes_leave_out(ls_hashes *store, const ls_units *units, int first);
/* A hash of everything that persists. */
uint64_t ls_hashes_left(const ls_hashes *store);

uint64_t ls_hash_mix(uint64_t hash, uint64_t value);

#endif
