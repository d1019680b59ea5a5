/*
 * The memory map: a picture of one rank's two arenas over its programs, as they were placed.
 */
#ifndef LS_PLAN_MEMORY_MAP_H
#define LS_PLAN_MEMORY_MAP_H

#include "program/program.h"

/*
 * Draws bytes (upwards) over instructions (to the right) for each program of the image: a box per buffer, coloured by
 * kind; persistent ones as bands over all programs; the bytes mapped and the lower bound as lines; the peak with the
 * largest buffers that are live there. model: for the title. Writes the SVG atomically; LS_IO errors name the file.
 */
LS_MUST_USE ls_status ls_memory_map_write(const ls_image *image, const char *model, const char *path);

#endif
