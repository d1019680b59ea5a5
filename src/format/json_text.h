/*
 * JSON as text of any size and depth, built piece by piece in a growing buffer: for records that are rewritten, or made
 * from the rows of a table. (json.h has a writer for small documents.) The errors are LS_NO_MEMORY.
 */
#ifndef LS_FORMAT_JSON_TEXT_H
#define LS_FORMAT_JSON_TEXT_H

#include "format/json.h"

typedef struct ls_json_buffer {
    char *at;
    size_t n, capacity;
} ls_json_buffer;

/* Appends bytes as they are. */
LS_MUST_USE ls_status ls_json_buffer_add(ls_json_buffer *buffer, const char *bytes, size_t n);
/* Appends a short text as printf makes it. */
LS_MUST_USE ls_status ls_json_buffer_print(ls_json_buffer *buffer, const char *format, ...) LS_PRINTF(2, 3);
/* Appends a text in quotes, escaped where JSON demands it. */
LS_MUST_USE ls_status ls_json_buffer_text(ls_json_buffer *buffer, const char *text, size_t n);
/* Appends a value of a document; a missing one is null. */
LS_MUST_USE ls_status ls_json_buffer_value(ls_json_buffer *buffer, ls_json_value value);
void ls_json_buffer_free(ls_json_buffer *buffer);

#endif
