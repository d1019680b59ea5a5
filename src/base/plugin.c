/* Finds the plug-ins of this build. */
#include "base/base.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The folders of plug-ins, relative to the folder of the program or library that this code is in: the programs and the
 * library of a build lie in the build folder or one level below it, installed ones in bin/ and lib/.
 */
static const char *const folders[] = {"lib/longspan", "../lib/longspan", "longspan"};

bool ls_plugin_find(const char *file, char path[LS_PATH_ROOM]) {
    Dl_info info;
    struct link_map *own;
    char home[LS_PATH_ROOM];
    if (dladdr1(folders, &info, (void **)&own, RTLD_DL_LINKMAP) == 0) return false;
    if (realpath(own->l_name[0] != 0 ? own->l_name : "/proc/self/exe", home) == NULL) return false;
    char *const name = strrchr(home, '/');
    if (name != NULL) *name = 0;
    for (size_t i = 0; i < LS_COUNT(folders); i++) {
        const int n = snprintf(path, LS_PATH_ROOM, "%s/%s/%s", home, folders[i], file);
        if (n < LS_PATH_ROOM && access(path, R_OK) == 0) return true;
    }
    return false;
}
