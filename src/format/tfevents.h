/*
 * TensorBoard event files: scalars by step. A file is a sequence of TFRecords (length, its checksum, bytes, their
 * checksum). Each holds an Event in the wire format of Protocol Buffers.
 */
#ifndef LS_FORMAT_TFEVENTS_H
#define LS_FORMAT_TFEVENTS_H

#include "longspan/status.h"

#include <stdint.h>

typedef struct ls_tfevents_scalar {
    const char *tag; /* "train/loss" */
    double value;    /* stored as float; a value that is not finite is skipped */
} ls_tfevents_scalar;

enum {
    LS_TFEVENTS_MOST = 16,
    LS_TFEVENTS_TAG = 64
}; /* limits: scalars of a step; bytes of a tag with its terminating 0 */

/*
 * Appends the first records of a file. step > 0: a run continues at this step; TensorBoard then ignores this step and
 * later ones in the other files of the folder. wall: seconds since 1970.
 */
LS_MUST_USE ls_status ls_tfevents_begin(const char *path, double wall, int64_t step);
/* Appends the scalars of a step. */
LS_MUST_USE ls_status ls_tfevents_append(const char *path, double wall, int64_t step, const ls_tfevents_scalar *scalars,
                                         int n);

#endif
