/*
 * A table of the files that this process has mapped. Reading a mapping reads the file: when the file has become shorter
 * or its disk fails, the process receives SIGBUS, which by default ends the process without a message. With the table
 * the process can print a message that names the file.
 */
#ifndef LS_BASE_MAPPED_H
#define LS_BASE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Adds the mapping of a file; call it after mmap. False: no memory for an entry. */
bool ls_mapped_add(const void *data, size_t bytes, const char *path);
/* Removes the mapping that starts at data; call it before munmap. */
void ls_mapped_remove(const void *data);

/*
 * Installs a handler of SIGBUS. When a byte of a file in the table cannot be read, the handler calls `report` with one
 * line that names the file, and ends the process with exit code 1. report runs in the signal handler; NULL prints the
 * line on standard error. Any other SIGBUS is left to the handler that was installed before. A later call replaces
 * report and context. For processes that belong to Longspan: commands, and ranks that are processes.
 */
typedef void ls_mapped_fault(void *context, const char *text);
void ls_mapped_watch(ls_mapped_fault *report, void *context);

#endif
