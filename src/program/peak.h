/*
 * Where a rank's memory peaks: the instruction at which most bytes are live, and what lives there.
 */
#ifndef LS_PROGRAM_PEAK_H
#define LS_PROGRAM_PEAK_H

#include "program/image.h"

typedef struct ls_peak {
    int program, instr;                 /* -1, -1: nothing but persistent buffers */
    size_t bytes;                       /* live there, persistent ones included */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* of these, by kind; their sum is `bytes` */
} ls_peak;

/* Whether the buffer holds its bytes at that instruction: persistent ones always do. */
bool ls_buffer_is_live(const ls_buffer *buffer, int program, int instr);

/* The peak of one arena over all programs; the earliest of equals. */
ls_peak ls_image_peak(const ls_image *image, ls_space space);

/*
 * The largest buffers of the arena that are live there, largest first: indices into image->buffers. Returns how many,
 * at most n.
 */
int ls_image_largest(const ls_image *image, ls_space space, const ls_peak *peak, int *out, int n);

#endif
