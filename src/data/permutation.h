/* A shuffle without a table: a bijection of [0, n) that any rank can evaluate at any index. */
#ifndef LS_DATA_PERMUTATION_H
#define LS_DATA_PERMUTATION_H

#include <stdint.h>

/*
 * Where index < n goes, in 0 .. n - 1; n from 1 to 2^62. A pure function of its arguments: a balanced
 * Feistel network of Philox rounds over the next power of four, walked until it lands below n (fewer than 4
 * walks on average).
 */
uint64_t ls_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t index);

#endif
