/* plugin: shared objects of this build, which the program loads when it needs one. */
#ifndef LS_BASE_PLUGIN_H
#define LS_BASE_PLUGIN_H

#include <stdbool.h>

/* The most bytes of a path, with the zero at its end. */
enum { LS_PATH_ROOM = 4096 };

/*
 * The path of lib/longspan/FILE beside the program or library that this code is in. False: it is not there, or cannot
 * be read.
 */
bool ls_plugin_find(const char *file, char path[LS_PATH_ROOM]);

#endif
