/*
 * Files of one JSON object per line (metrics.jsonl). A process killed in mid-write may leave a last line
 * without its newline; readers here pass over it.
 */
#ifndef LS_FORMAT_JSONL_H
#define LS_FORMAT_JSONL_H

#include "format/json.h"

/*
 * Ends a writer that ls_json_begin(0) began: its object is appended as one line, by one write(): other
 * readers see the whole line or nothing of it. Makes the file when it is missing. When the disk is full the
 * file is left as it was. The writer is destroyed in any case.
 */
LS_MUST_USE ls_status ls_jsonl_append(const char *path, ls_json_writer *writer);

/*
 * Keeps the lines whose integer field `key` is <= most, and drops the rest, atomically. *dropped may be
 * NULL. A missing file has nothing to drop. A complete line that is no object with an integer `key` is
 * LS_INVALID with its number; unless strange is not NULL: then it is kept, and *strange is the number of the first (0: none is).
 */
LS_MUST_USE ls_status ls_jsonl_truncate(const char *path, const char *key, int64_t most, int64_t *dropped,
                                        int64_t *strange);

/*
 * Reads numeric fields as columns: (*out)[c * *rows + r] is field keys[c] of line r; NaN where it is
 * missing, null or not a number. Lines that are no JSON are passed over. *out is for the caller to free().
 */
LS_MUST_USE ls_status ls_jsonl_columns(const char *path, const char *const *keys, int n_keys, double **out,
                                       int64_t *rows);

#endif
