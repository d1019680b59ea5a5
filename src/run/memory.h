/* The private arena: one anonymous mapping, made once. */
#ifndef LS_RUN_MEMORY_H
#define LS_RUN_MEMORY_H

#include <stddef.h>

#include "longspan/status.h"

/* Zeroed memory, huge pages asked for, named "longspan" in the system's map where it can be. LS_NO_MEMORY names the bytes. */
LS_MUST_USE ls_status ls_memory_map(size_t bytes, void **out);
void ls_memory_unmap(void *memory, size_t bytes);

#endif
