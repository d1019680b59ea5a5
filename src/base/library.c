#include "base/base.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folders of libraries that the dynamic linker does not search. Found once, by find_places_once. */
static struct {
    char **folder;
    int n;
} places;

/* --- folders ------------------------------------------------------------------------------------------------------ */

/*
 * Where libraries lie below a prefix: in the packages of a Python; in those of the Pythons of pyenv, whose python3 is a
 * script; in the lib64 of a CUDA toolkit; in the lib of conda.
 */
static const char *const patterns[] = {"lib*/python3*/*-packages/nvidia/*/lib",
                                       "versions/*/lib*/python3*/*-packages/nvidia/*/lib", "lib64", "lib"};

/* Escapes a name, so that glob takes each of its characters literally. */
static void quote(const char *name, char out[2 * LS_PATH_ROOM]) {
    size_t used = 0;
    for (; *name != 0 && used + 2 < 2 * LS_PATH_ROOM; name++) {
        if (strchr("*?[]\\", *name) != NULL) out[used++] = '\\';
        out[used++] = *name;
    }
    out[used] = 0;
}

static void add_folder(const char *folder) {
    for (int i = 0; i < places.n; i++)
        if (strcmp(places.folder[i], folder) == 0) return;
    places.folder = realloc(places.folder, (size_t)(places.n + 1) * sizeof *places.folder);
    char *const copy = strdup(folder);
    LS_ASSERT(places.folder != NULL && copy != NULL);
    places.folder[places.n++] = copy;
}

/* Adds the folders that exist below a prefix. A prefix that is not an absolute path, NULL included, adds none. */
static void add_prefix(const char *prefix) {
    char quoted[2 * LS_PATH_ROOM], pattern[2 * LS_PATH_ROOM + 64];
    if (prefix == NULL || prefix[0] != '/') return;
    quote(prefix, quoted);
    for (size_t i = 0; i < LS_COUNT(patterns); i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", quoted, patterns[i]);
        const bool any = glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0;
        for (size_t f = 0; any && f < found.gl_pathc; f++) add_folder(found.gl_pathv[f]);
        globfree(&found);
    }
}

/* PREFIX/bin/FILE becomes PREFIX. false: the path has no such form. */
static bool cut_to_prefix(char *path) {
    for (int i = 0; i < 2; i++) {
        char *const slash = strrchr(path, '/');
        if (slash == NULL) return false;
        *slash = 0;
    }
    return path[0] != 0;
}

/* The python3 that a shell would start. false: there is none. */
static bool find_python(char out[LS_PATH_ROOM]) {
    const char *from = getenv("PATH");
    while (from != NULL && *from != 0) {
        const size_t length = strcspn(from, ":");
        const int n = snprintf(out, LS_PATH_ROOM, "%.*s/python3", (int)length, from);
        if (n < LS_PATH_ROOM && access(out, X_OK) == 0) return true;
        from += length + (from[length] != 0);
    }
    return false;
}

/*
 * Adds the prefix of python3, and of the file that python3 links to, unless python3 is that of a virtual environment:
 * the packages of the Python that it links to are not those of the environment.
 */
static void add_python(void) {
    char python[LS_PATH_ROOM], real[LS_PATH_ROOM], mark[LS_PATH_ROOM + 16];
    if (!find_python(python)) return;
    const bool linked = realpath(python, real) != NULL;
    if (!cut_to_prefix(python)) return;
    add_prefix(python);
    snprintf(mark, sizeof mark, "%s/pyvenv.cfg", python);
    if (linked && access(mark, F_OK) != 0 && cut_to_prefix(real)) add_prefix(real);
}

static void find_places(void) {
    char user[LS_PATH_ROOM];
    const char *const home = getenv("HOME");
    snprintf(user, sizeof user, "%s/.local", home != NULL ? home : "");
    add_prefix(getenv("VIRTUAL_ENV"));
    add_python();
    add_prefix(user);
    add_prefix("/usr/local");
    add_prefix(getenv("CUDA_HOME"));
    add_prefix(getenv("CUDA_PATH"));
    add_prefix("/usr/local/cuda");
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

/* The handle of the shared object; NULL: *why is the error. */
static void *load(const char *file, ls_status *why) {
    void *const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) *why = ls_error(LS_UNSUPPORTED, "it cannot be loaded: %s", dlerror());
    return handle;
}

static void find_places_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_places);
}

/* Whether the folder has a file of that name; sets its path. */
static bool is_in(const char *folder, const char *file, char path[LS_PATH_ROOM]) {
    return snprintf(path, LS_PATH_ROOM, "%s/%s", folder, file) < LS_PATH_ROOM && access(path, F_OK) == 0;
}

/*
 * Looks in the folders of `places` for what the dynamic linker has not found. A file that is there but cannot be loaded
 * gives the error.
 */
static void *load_from_places(const char *file, ls_status *why) {
    char path[LS_PATH_ROOM];
    void *handle = NULL;
    find_places_once();
    for (int i = 0; i < places.n && handle == NULL; i++)
        if (is_in(places.folder[i], file, path)) handle = load(path, why);
    return handle;
}

static ls_status describe(void *handle, const char *file, void **out, char path[LS_PATH_ROOM]) {
    struct link_map *map;
    if (path != NULL)
        snprintf(path, LS_PATH_ROOM, "%s", dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : file);
    *out = handle;
    return ls_ok();
}

ls_status ls_library_open(const char *file, void **out, char path[LS_PATH_ROOM]) {
    ls_status why = ls_ok();
    void *handle = load(file, &why);
    if (handle == NULL && strchr(file, '/') == NULL) handle = load_from_places(file, &why);
    return handle != NULL ? describe(handle, file, out, path) : why;
}

/* --- the newest of several ---------------------------------------------------------------------------------------- */

/* A file, and its version, which another process finds out. */
typedef struct candidate {
    const char *file, *function;
    size_t version;
} candidate;

/*
 * Runs in a separate process: a library that is not chosen must leave nothing behind in this one, and some libraries
 * load others to find out their version.
 */
static ls_status ask_version(void *context) {
    candidate *c = context;
    size_t (*version)(void);
    ls_status why = ls_ok();
    void *const handle = load(c->file, &why);
    void *const address = handle != NULL ? dlsym(handle, c->function) : NULL;
    if (address == NULL) return ls_error(LS_UNSUPPORTED, "%s has no %s", c->file, c->function);
    memcpy(&version, &address, sizeof version);
    c->version = version();
    return ls_ok();
}

/* Sets *best and `out` to this file's if it is newer than *best. */
static void compare(const char *file, const char *function, size_t *best, char out[LS_PATH_ROOM]) {
    candidate c = {file, function, 0};
    if (ls_apart(ask_version, &c, &c.version, sizeof c.version).code != LS_OK || c.version <= *best) return;
    *best = c.version;
    snprintf(out, LS_PATH_ROOM, "%s", file);
}

/* The newest of all that can be loaded; false: there is none, or nothing to compare. */
static bool find_newest(const char *const *files, const char *function, char out[LS_PATH_ROOM]) {
    char path[LS_PATH_ROOM];
    size_t best = 0;
    int elsewhere = 0;
    find_places_once();
    for (int f = 0; files[f] != NULL; f++)
        for (int i = 0; i < places.n; i++) elsewhere += is_in(places.folder[i], files[f], path);
    if (elsewhere == 0) return false;
    for (int f = 0; files[f] != NULL; f++) {
        compare(files[f], function, &best, out);
        for (int i = 0; i < places.n; i++)
            if (is_in(places.folder[i], files[f], path)) compare(path, function, &best, out);
    }
    return best > 0;
}

ls_status ls_library_open_newest(const char *const *files, const char *version, void **out, char path[LS_PATH_ROOM]) {
    char newest[LS_PATH_ROOM];
    ls_status first = ls_ok(); /* if none can be loaded, the error is that of the first file */
    for (int f = 0; files[f] != NULL; f++) {
        void *const loaded = dlopen(files[f], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
        if (loaded != NULL) return describe(loaded, files[f], out, path);
    }
    if (find_newest(files, version, newest)) return ls_library_open(newest, out, path);
    for (int f = 0; files[f] != NULL; f++) {
        const ls_status why = ls_library_open(files[f], out, path);
        if (why.code == LS_OK) return why;
        if (f == 0) first = why;
    }
    return first;
}
