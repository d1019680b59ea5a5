/* The bytes of a file from its first to its last, decompressed if it is compressed (codec.h): its first bytes tell, or its name. */
#ifndef LS_DATA_STREAM_H
#define LS_DATA_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

/* Text that is compressed further than this is none: no text is that regular, and a small file must not fill a disk. */
#define LS_STREAM_MOST_RATIO 1024

typedef struct ls_byte_stream ls_byte_stream;

/* What this build cannot decompress is LS_UNSUPPORTED. The path is borrowed. */
LS_MUST_USE ls_status ls_stream_open(const char *path, ls_byte_stream **out);
/*
 * Up to `room` bytes, fewer at the end alone. Errors name the file; *bytes is set all the same, to what was read before. LS_INVALID: what
 * follows cannot be decompressed, and ls_stream_broken says why without the name.
 */
LS_MUST_USE ls_status ls_stream_read(ls_byte_stream *stream, char *out, size_t room, size_t *bytes);
const char *ls_stream_broken(const ls_byte_stream *stream); /* NULL: it is not */
/* Passes over so many bytes; LS_INVALID when there are fewer. */
LS_MUST_USE ls_status ls_stream_skip(ls_byte_stream *stream, int64_t bytes);
void ls_stream_close(ls_byte_stream *stream); /* NULL is allowed */

#endif
