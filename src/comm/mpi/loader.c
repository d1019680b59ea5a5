/*
 * The boot `mpi`, in the program: finds in the environment which MPI's launcher started this process, and loads the
 * plug-in over that MPI. Without the plug-in this boot is not found, and another boot may know the launcher's
 * variables.
 */
#include "comm/mpi/plugin.h"
#include "comm/starter_impl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Open MPI's launchers have set these since its version 1.3. Hydra (MPICH, Intel MPI) and slurmstepd (`srun
 * --mpi=pmi2`) set PMI_RANK, PMI_SIZE and PMI_FD, a socket; other programs set the first two without speaking MPICH's
 * protocol.
 */
static const ls_mpi_launcher launchers[] = {
    {.plugin = "openmpi", .rank = "OMPI_COMM_WORLD_RANK", .size = "OMPI_COMM_WORLD_SIZE"},
    {.plugin = "mpich", .rank = "PMI_RANK", .size = "PMI_SIZE", .also = "PMI_FD"},
};

/*
 * The MPI launcher that the starter belongs to; NULL: it belongs to none. Without a starter, the launcher of a single
 * rank, for LONGSPAN_BOOT=mpi.
 */
static const ls_mpi_launcher *launcher_of(const ls_starter *starter) {
    for (size_t i = 0; i < LS_COUNT(launchers); i++) {
        const ls_mpi_launcher *l = &launchers[i];
        const bool is_it = starter != NULL ? strcmp(l->rank, starter->rank) == 0 : ls_variable_number(l->size, 1) == 1;
        if (is_it && (l->also == NULL || getenv(l->also) != NULL)) return l;
    }
    return NULL;
}

/*
 * Checks that the launcher's socket is open: if the launcher has ended, the file is closed, or its number now belongs
 * to something else.
 */
static ls_status check_socket(const ls_mpi_launcher *launcher) {
    struct stat found;
    const int fd = launcher->also != NULL ? ls_variable_number(launcher->also, 0) : -1;
    if (launcher->also == NULL || (fd >= 0 && fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode))) return ls_ok();
    return ls_error(LS_USAGE,
                    "%s=%s is no open connection to a launcher, which has ended; unset %s, %s and %s, or start this "
                    "process with mpirun",
                    launcher->also, ls_variable_text(launcher->also), launcher->rank, launcher->size, launcher->also);
}

/* The path of the launcher's plug-in. */
static bool find_file(const ls_mpi_launcher *launcher, char path[LS_PATH_ROOM]) {
    char file[64];
    snprintf(file, sizeof file, "mpi-%s.so", launcher->plugin);
    return ls_plugin_find(file, path);
}

static bool found(const ls_starter *starter) {
    char path[LS_PATH_ROOM];
    const ls_mpi_launcher *launcher = starter != NULL ? launcher_of(starter) : NULL;
    return launcher != NULL && find_file(launcher, path);
}

/*
 * RTLD_GLOBAL, because parts of an MPI look for its symbols among those of the whole process. The plug-in is never
 * unloaded.
 */
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
    const ls_mpi_plugin *plugin;
    const ls_starter *starter;
    int rank, ranks;
    LS_TRY(ls_starter_find(&starter));
    const ls_mpi_launcher *launcher = launcher_of(starter);
    if (launcher == NULL)
        return ls_error(LS_USAGE, "the environment names no rank of an MPI job; expected %s and %s, or %s, %s and %s",
                        launchers[0].rank, launchers[0].size, launchers[1].rank, launchers[1].size, launchers[1].also);
    if (!find_file(launcher, path))
        return ls_error(LS_UNSUPPORTED, "the plug-in mpi-%s.so is not there; expected it in lib/longspan",
                        launcher->plugin);
    if (starter != NULL) LS_TRY(ls_starter_read(starter, &rank, &ranks));
    LS_TRY(check_socket(launcher));
    LS_TRY(load(path, &plugin));
    boot->state = (void *)launcher;
    boot->kind = plugin->boot;
    return boot->kind->open(boot);
}

const ls_boot_kind ls_boot_mpi = {.name = "mpi", .found = found, .open = open};
