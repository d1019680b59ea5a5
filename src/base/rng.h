/*
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011). A draw is a pure function of (seed, stream, index): it is the same for any number of ranks and threads,
 * and a checkpoint needs to hold only the seed.
 */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

/* Maps a 64-bit key and a 128-bit counter to four random 32-bit words. */
void ls_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* 64 uniform bits, a uniform number in [0, 1), and a standard normal (Box-Muller, in f64). */
uint64_t ls_rng_bits(uint64_t seed, uint64_t stream, uint64_t index);
double ls_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
double ls_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* A uniform integer in [0, n) without bias; n > 0. */
uint64_t ls_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n);

/* The stream number of a name: its 64-bit FNV-1a hash. */
uint64_t ls_rng_stream(const char *name);

#endif
