/* format: what its own files share. */
#ifndef LS_FORMAT_IMPL_H
#define LS_FORMAT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* LS_IO: "cannot <action> <path>: <reason of error_number>". */
ls_status ls_file_error(const char *action, const char *path, int error_number);

/* Writes all bytes at `offset` of the open file, continuing after interruptions and short writes. */
LS_MUST_USE ls_status ls_file_write_at(int fd, const char *path, const void *data, size_t bytes,
                                       int64_t offset);

/* Opens a regular file for reading. */
LS_MUST_USE ls_status ls_file_open_regular(const char *path, int *fd, size_t *bytes);

/* a * b, or false when it does not fit; neither is negative. */
static inline bool ls_multiply(int64_t a, int64_t b, int64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* A JSON document with its numbers as jansson takes them, to be freed (json_numbers.c). */
LS_MUST_USE ls_status ls_json_rewrite_numbers(const char *name, const char *text, size_t bytes, char **out,
                                              size_t *out_bytes);
/* Whether a string stands for a number that is not finite; its name is behind the first byte. */
bool ls_json_is_rewritten(const char *string, size_t bytes);

/* "[2, 3]" for error messages; cut when it does not fit. */
void ls_shape_text(int ndim, const int64_t *shape, char *out, size_t room);

#endif
