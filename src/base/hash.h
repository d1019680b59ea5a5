/*
 * XXH64 (Collet, the xxHash specification), seed 0: for files and for telling arrays apart, not against malice. And SipHash-1-3 (Aumasson,
 * Bernstein 2012) for tables of names that others chose: who does not know the key cannot choose names that meet.
 */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ls_hash_bytes(const void *data, size_t bytes);
uint64_t ls_hash_keyed(const void *data, size_t bytes, uint64_t key);

#endif
