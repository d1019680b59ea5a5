/*
 * Files with one JSON object per line, such as metrics.jsonl. A process that is killed while it writes may leave a last
 * line without its newline: ls_jsonl_columns ignores that line, ls_jsonl_truncate removes it. Call the latter before
 * appending to an older file.
 */
#ifndef LS_FORMAT_JSONL_H
#define LS_FORMAT_JSONL_H

#include "format/json.h"

/*
 * Ends a writer made by ls_json_begin(0) and appends its object as one line, with one write: readers see the whole line
 * or nothing of it. Creates the file if it does not exist. When the disk is full, the file is unchanged. The writer is
 * always destroyed.
 */
LS_MUST_USE ls_status ls_jsonl_append(const char *path, ls_json_writer *writer);

/*
 * Keeps the lines whose integer field `key` is <= most and drops the others, atomically. *dropped is their number;
 * dropped may be NULL. A missing file is no error. A complete line that is not an object with an integer `key` is an
 * LS_INVALID error with the number of the line if `strange` is NULL. Otherwise such lines are kept, and *strange is the
 * number of the first (0: there is none).
 */
LS_MUST_USE ls_status ls_jsonl_truncate(const char *path, const char *key, int64_t most, int64_t *dropped,
                                        int64_t *strange);

/*
 * Reads numeric fields as columns: (*out)[c * *rows + r] is field keys[c] of line r, or NaN if it is missing, null or
 * no number. Lines that are not JSON are ignored. The caller frees *out.
 */
LS_MUST_USE ls_status ls_jsonl_columns(const char *path, const char *const *keys, int n_keys, double **out,
                                       int64_t *rows);

#endif
