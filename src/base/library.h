/* library: shared objects of others, which the program loads when it needs them. */
#ifndef LS_BASE_LIBRARY_H
#define LS_BASE_LIBRARY_H

#include "base/plugin.h"
#include "longspan/status.h"

/*
 * Loads a shared object, with symbols of its own, for the rest of the process. *out: its handle, for dlsym; path: the
 * file that it is, NULL where nobody wants it. A file with a '/' in it is a path. Any other is what the dynamic linker
 * finds under that name, else what lies where libraries of NVIDIA are installed: in nvidia/.../lib or lib of the Python
 * that VIRTUAL_ENV and PATH name, of the user and of the machine; in lib64 or lib of CUDA_HOME, CUDA_PATH and
 * /usr/local/cuda. LS_UNSUPPORTED: there is none, or it cannot be loaded. May block on disks; any thread.
 */
LS_MUST_USE ls_status ls_library_open(const char *file, void **out, char path[LS_PATH_ROOM]);

/*
 * The same, of files under several names, the one preferred first, where each name may be a file in several places. One
 * that the process has loaded is taken. Of several the newest is: each is loaded by a process of its own, which calls
 * its function `version`, size_t f(void). `files` ends with NULL.
 */
LS_MUST_USE ls_status ls_library_open_newest(const char *const *files, const char *version, void **out,
                                             char path[LS_PATH_ROOM]);

#endif
