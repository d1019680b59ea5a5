/* library: third-party shared objects, which the program loads when it needs them. */
#ifndef LS_BASE_LIBRARY_H
#define LS_BASE_LIBRARY_H

#include "base/plugin.h"
#include "longspan/status.h"

/*
 * Loads a shared object for the rest of the process; its symbols are local to it (RTLD_LOCAL). *out is its handle, for
 * dlsym. path becomes the path of the loaded file; NULL is allowed. A `file` that contains '/' is a path. Any other
 * name is searched for by the dynamic linker, then where libraries of NVIDIA are installed: in nvidia/.../lib or lib of
 * the Python that VIRTUAL_ENV and PATH name, of the user and of the machine; in lib64 or lib of CUDA_HOME, CUDA_PATH
 * and /usr/local/cuda. LS_UNSUPPORTED: there is none, or it cannot be loaded. May block on disk; any thread may call
 * it.
 */
LS_MUST_USE ls_status ls_library_open(const char *file, void **out, char path[LS_PATH_ROOM]);

/*
 * The same for a library that may have several file names, each of which may exist in several places. `files` has the
 * names, the preferred one first, and ends with NULL. A file that the process has loaded already is taken. Otherwise
 * the newest of all is taken: each file is loaded in a separate process, which calls its function `version`, size_t
 * f(void).
 */
LS_MUST_USE ls_status ls_library_open_newest(const char *const *files, const char *version, void **out,
                                             char path[LS_PATH_ROOM]);

#endif
