/*
 * Event files of TensorBoard: scalars by step. A file is a run of TFRecords (length, its checksum, bytes, their checksum), each of which
 * holds an Event in the wire format of Protocol Buffers.
 */
#ifndef LS_FORMAT_TFEVENTS_H
#define LS_FORMAT_TFEVENTS_H

#include "longspan/status.h"

#include <stdint.h>

typedef struct ls_tfevents_scalar {
    const char *tag; /* "train/loss" */
    double value;    /* kept as float; one that is not finite is left out */
} ls_tfevents_scalar;

enum { LS_TFEVENTS_MOST = 16, LS_TFEVENTS_TAG = 64 }; /* scalars of a step; bytes of a tag with its end */

/*
 * Appends what a file begins with. step > 0: other files of the folder have steps before it, and what they have from it on counts no
 * longer. wall: seconds since 1970.
 */
LS_MUST_USE ls_status ls_tfevents_begin(const char *path, double wall, int64_t step);
/* Appends the scalars of a step. */
LS_MUST_USE ls_status ls_tfevents_append(const char *path, double wall, int64_t step,
                                         const ls_tfevents_scalar *scalars, int n);

#endif
