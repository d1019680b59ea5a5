/* The bytes of a file from its first to its last, plain or under zstd. */
#ifndef LS_DATA_STREAM_H
#define LS_DATA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_stream ls_stream;

/* compressed without zstd built in is LS_UNSUPPORTED. The path is borrowed. */
LS_MUST_USE ls_status ls_stream_open(const char *path, bool compressed, ls_stream **out);
/* Up to `room` bytes, fewer at the end alone. Errors name the file. */
LS_MUST_USE ls_status ls_stream_read(ls_stream *stream, char *out, size_t room, size_t *bytes);
/* Passes over so many bytes; LS_INVALID when there are fewer. */
LS_MUST_USE ls_status ls_stream_skip(ls_stream *stream, int64_t bytes);
void ls_stream_close(ls_stream *stream); /* NULL is allowed */

#endif
