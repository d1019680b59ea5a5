/*
 * Which file a mapped address belongs to. What is read of a mapping is read from the file: where that has become shorter, or its disk fails, the process
 * gets SIGBUS, which by default ends it without a word.
 */
#ifndef LS_BASE_MAPPED_H
#define LS_BASE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* A file is mapped at these addresses, until they are removed, before they are unmapped. False: no memory for an entry. */
bool ls_mapped_add(const void *data, size_t bytes, const char *path);
void ls_mapped_remove(const void *data);

/*
 * From this call on a byte of such a file that cannot be brought ends the process with exit code 1, after `tell` was given one line that names the
 * file; tell NULL: it goes to standard error. tell runs in a signal handler. Any other SIGBUS goes on to the handler that was there
 * before. The last call counts. For processes that are Longspan's own: commands, and ranks that are processes.
 */
typedef void ls_mapped_fault(void *context, const char *text);
void ls_mapped_watch(ls_mapped_fault *tell, void *context);

#endif
