/* Where a rank's memory peaks: the instruction at which most bytes are live, and what is live there. */
#ifndef LS_PROGRAM_PEAK_H
#define LS_PROGRAM_PEAK_H

#include "program/image.h"

typedef struct ls_peak {
    int program, instr;                 /* -1, -1: there are only persistent buffers */
    size_t bytes;                       /* live bytes there, persistent buffers included */
    size_t kind_bytes[LS_BUFFER_KINDS]; /* these bytes by kind; their sum is `bytes` */
} ls_peak;

/* Whether the buffer is live at that instruction: persistent buffers always are. */
bool ls_buffer_is_live(const ls_buffer *buffer, int program, int instr);

/* The peak of one arena over all programs; of equal peaks the first. */
ls_peak ls_image_peak(const ls_image *image, ls_space space);

/*
 * The largest buffers of the arena that are live at the peak, largest first: indices into image->buffers. Returns their
 * number, at most n.
 */
int ls_image_largest(const ls_image *image, ls_space space, const ls_peak *peak, int *out, int n);

#endif
