/*
 * ls_hash_bytes is XXH64 (Collet, the xxHash specification) with seed 0. It detects damaged files and different arrays,
 * not malice. ls_hash_keyed is SipHash-1-3 (Aumasson, Bernstein 2012), for tables of names from files: nobody who does
 * not know the key can choose names that collide.
 */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ls_hash_bytes(const void *data, size_t bytes);
uint64_t ls_hash_keyed(const void *data, size_t bytes, uint64_t key);

#endif
