/*
 * This machine's rates (program/cost.h): measured once by `longspan bench machine`, kept in the user's cache directory,
 * $XDG_CACHE_HOME/longspan or ~/.cache/longspan, one file for each processor, number of cores and instruction set.
 */
#ifndef LS_PLAN_HOST_FILE_H
#define LS_PLAN_HOST_FILE_H

#include "format/format.h"
#include "program/cost.h"

/* Where the file is or would be. LS_IO when the user has no home. */
LS_MUST_USE ls_status ls_host_path(ls_isa isa, char **out);

/* As fields of an open object. */
void ls_host_put(const ls_host *host, ls_json_writer *writer);

/* Makes the folder where it is missing. */
LS_MUST_USE ls_status ls_host_save(ls_isa isa, const ls_host *host);

/*
 * The measured rates where there are some, else the nominal ones; returns whether they were measured. A file that is there and
 * wrong, or was measured by another version, is passed over with one line that says why.
 */
bool ls_host_load(ls_isa isa, ls_host *out);

/*
 * Measures, on all cores at once: attention, its gradient and a matrix product of each type, kernels bound by memory in a cache and past
 * it, and puts between ranks. Takes half a minute of an otherwise idle machine. Prints nothing. LS_NO_MEMORY, LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_host_measure(ls_isa isa, ls_host *out);

#endif
