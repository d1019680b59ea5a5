/* Rotary positions: the frequencies of a head's dimensions, and how each kind of context extension changes them. */
#ifndef LS_TENSOR_ROPE_H
#define LS_TENSOR_ROPE_H

#include <stdbool.h>
#include <stddef.h>

#include "longspan/status.h"
#include "tensor/params.h"

/*
 * A kind of scaling: one row of the visible table in rope.c. frequency changes the inverse frequency `plain` of dimension pair
 * i of D/2; magnitude multiplies cosines and sines. NULL: nothing to check, no change, 1.
 */
typedef struct ls_rope_kind {
    const char *name; /* as configs call it */
    ls_status (*check)(const ls_rope_params *p);
    double (*frequency)(const ls_rope_params *p, double plain, int64_t i, int64_t D);
    double (*magnitude)(const ls_rope_params *p);
    bool by_length; /* the frequency depends on the sequence's length */
} ls_rope_kind;

/* The row of a kind by its name, for ls_rope_params.scaling; LS_UNSUPPORTED error listing those there are. */
LS_MUST_USE ls_status ls_rope_find(const char *name, ls_rope_scaling *out);
/* Names of all kinds: "default, linear, ..." */
void ls_rope_names(char *out, size_t room);
/* Theta, and what the kind needs, are numbers that make sense. */
LS_MUST_USE ls_status ls_rope_check(const ls_rope_params *p);

/* Inverse frequency i of D/2, rounded to f32 before and after scaling, as the published models hold it. */
float ls_rope_frequency(const ls_rope_params *p, int64_t i, int64_t D);
double ls_rope_magnitude(const ls_rope_params *p);
/*
 * The frequency of a token at that position, whatever the length: one that lies beyond the sequence is the last of one that has grown
 * up to it. `usual` is ls_rope_frequency's.
 */
float ls_rope_frequency_at(const ls_rope_params *p, float usual, int64_t position, int64_t i, int64_t D);

#endif
