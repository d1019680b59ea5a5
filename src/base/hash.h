/* XXH64 (Collet, the xxHash specification), seed 0: for files and for telling arrays apart, not against malice. */
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ls_hash_bytes(const void *data, size_t bytes);

#endif
