/* The interpreter's inside: memory in units, shared by its files. */
#ifndef LS_INTERPRET_IMPL_H
#define LS_INTERPRET_IMPL_H

#include "run/interpret.h"

#define LS_POISON UINT64_MAX

/* An operand as units of its arena, in the order of its elements. */
typedef struct ls_units {
    ls_space space;
    int n;
    bool outside; /* some lay outside of the arena and are left out */
    uint32_t *at;
} ls_units;

/* One instruction, ready to be interpreted. */
typedef struct ls_interpreted {
    ls_units in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS], workspace;
} ls_interpreted;

/* One rank's memory. */
typedef struct ls_store {
    const ls_image *image;
    size_t unit; /* bytes */
    size_t n[LS_SPACES];
    uint64_t *value[LS_SPACES];
} ls_store;

/* The largest unit for all these images, in bytes. */
size_t ls_store_unit(const ls_image *const *images, int ranks);
void ls_store_create(ls_store *store, const ls_image *image, size_t unit, ls_arena *arena);

ls_units ls_store_units(const ls_store *store, const ls_operand *operand, ls_arena *arena);

/* Everything as before the first program; and the host's inputs of run `run`. */
void ls_store_reset(ls_store *store);
void ls_store_set_inputs(ls_store *store, uint64_t run);

/* A hash of what lies there, never 0, with `hash` before it; *poison is set when some is poison. */
uint64_t ls_store_read(const ls_store *store, const ls_units *units, uint64_t hash, bool *poison);
/* Writes the value of that hash: each unit its own. */
void ls_store_write(ls_store *store, const ls_units *units, uint64_t hash);
void ls_store_poison(ls_store *store, const ls_units *units);
/* A hash of everything that persists. */
uint64_t ls_store_left(const ls_store *store);

uint64_t ls_hash_mix(uint64_t hash, uint64_t value);

#endif
