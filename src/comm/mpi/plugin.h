/*
 * What a plug-in over MPI offers to the program that loads it: the boot `mpi`, and the transport `mpi`. The libraries
 * of Open MPI and MPICH are not binary compatible, so the program itself calls neither: the files in plugin/ are
 * compiled once with each `mpicc` into shared objects, and loader.c loads the one whose mpirun started this process.
 *
 * A plug-in contains its own copy of the few files of base/ and comm/ that it needs, and calls no function of the
 * program.
 */
#ifndef LS_COMM_MPI_PLUGIN_H
#define LS_COMM_MPI_PLUGIN_H

#include "comm/transport_impl.h"

/* Program and plug-in share these structures: a plug-in whose sizes differ comes from another version. */
typedef struct ls_mpi_layout {
    size_t boot, endpoint, line, put, range, status;
} ls_mpi_layout;

#define LS_MPI_LAYOUT \
    { sizeof(ls_boot), sizeof(ls_endpoint), sizeof(ls_rank_line), sizeof(ls_put), sizeof(ls_range), sizeof(ls_status) }

/* How the launcher of an MPI tells a process which rank it is. */
typedef struct ls_mpi_launcher {
    const char *plugin;      /* NAME of the plug-in's file, mpi-NAME.so */
    const char *rank, *size; /* environment variables; both are set in a process that the launcher started */
    const char *also;        /* one more that must be set, because other programs set the first two too; NULL: none */
} ls_mpi_launcher;

/* The symbol that a plug-in exports, of type ls_mpi_plugin. */
#define LS_MPI_SYMBOL "ls_mpi_plugin_1"

typedef struct ls_mpi_plugin {
    ls_mpi_layout layout; /* first, in every version */
    /* `open` expects boot->state to be the ls_mpi_launcher of this process, and replaces it. */
    const ls_boot_kind *boot;
} ls_mpi_plugin;

#endif
