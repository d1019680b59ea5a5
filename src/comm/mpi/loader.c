/*
 * The boot `mpi`, as the program sees it: which MPI's launcher started this process, by the environment, and the
 * plug-in over that MPI, which it loads. Without the plug-in the boot is not found, and others may know the launcher's
 * variables.
 */
#include "comm/mpi/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Open MPI's launchers have set these since its version 1.3. Hydra (MPICH, Intel MPI) and slurmstepd (`srun
 * --mpi=pmi2`) set PMI_RANK and PMI_SIZE and a socket, PMI_FD; others set the first two without speaking MPICH's
 * protocol.
 */
static const ls_mpi_launcher launchers[] = {
    {.plugin = "openmpi", .rank = "OMPI_COMM_WORLD_RANK", .size = "OMPI_COMM_WORLD_SIZE"},
    {.plugin = "mpich", .rank = "PMI_RANK", .size = "PMI_SIZE", .also = "PMI_FD"},
};

static const ls_mpi_launcher *find_launcher(void) {
    for (size_t i = 0; i < LS_COUNT(launchers); i++) {
        const ls_mpi_launcher *l = &launchers[i];
        if (getenv(l->rank) && getenv(l->size) && (l->also == NULL || getenv(l->also))) return l;
    }
    return NULL;
}

/* The path of the launcher's plug-in. */
static bool find_file(const ls_mpi_launcher *launcher, char path[LS_PATH_ROOM]) {
    char file[64];
    snprintf(file, sizeof file, "mpi-%s.so", launcher->plugin);
    return ls_plugin_find(file, path);
}

static bool found(void) {
    char path[LS_PATH_ROOM];
    const ls_mpi_launcher *launcher = find_launcher();
    return launcher != NULL && find_file(launcher, path);
}

/* Parts of an MPI look for its symbols among those of the whole process, hence RTLD_GLOBAL. It is never unloaded. */
static ls_status load(const char *path, const ls_mpi_plugin **out) {
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) return ls_error(LS_UNSUPPORTED, "cannot load the plug-in for MPI: %s", dlerror());
    const ls_mpi_plugin *plugin = dlsym(library, LS_MPI_SYMBOL);
    const ls_mpi_layout expected = LS_MPI_LAYOUT;
    if (plugin == NULL || memcmp(&plugin->layout, &expected, sizeof expected) != 0)
        return ls_error(LS_UNSUPPORTED, "%s belongs to another version of Longspan; expected one of the same build",
                        path);
    *out = plugin;
    return ls_ok();
}

static ls_status open(ls_boot *boot) {
    char path[LS_PATH_ROOM];
    const ls_mpi_launcher *launcher = find_launcher();
    const ls_mpi_plugin *plugin;
    if (launcher == NULL)
        return ls_error(LS_INVALID, "the environment names no rank of an MPI job; expected %s and %s, or %s, %s and %s",
                        launchers[0].rank, launchers[0].size, launchers[1].rank, launchers[1].size, launchers[1].also);
    if (!find_file(launcher, path))
        return ls_error(LS_UNSUPPORTED, "the plug-in mpi-%s.so is not there; expected it in lib/longspan",
                        launcher->plugin);
    LS_TRY(load(path, &plugin));
    boot->state = (void *)launcher;
    boot->kind = plugin->boot;
    return boot->kind->open(boot);
}

const ls_boot_kind ls_boot_mpi = {.name = "mpi", .found = found, .open = open};
