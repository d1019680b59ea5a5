/*
 * parquet: the rows of a Parquet file as lines of JSON, in the order of the file. The header for other folders.
 *
 * Columns are read page by page, so memory depends on the largest pages and the longest row. Supported are data pages
 * of both versions, dictionaries, all encodings but the deprecated BIT_PACKED, nested lists, maps and structs, and the
 * codecs whose libraries the build found. A map becomes an object if its keys are texts, else an array of objects with
 * key and value. Dates, times and timestamps become texts (ISO 8601), decimals become numbers, and bytes that are not
 * UTF-8 text become a text in base64.
 *
 * The file may be hostile: no number in it causes an allocation that the file's size does not justify.
 */
#ifndef LS_PARQUET_H
#define LS_PARQUET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_parquet ls_parquet;

/* Whether these are the first bytes (at least 4) of a Parquet file. */
bool ls_parquet_begins(const unsigned char *bytes, size_t n);

/* Maps the file; its contents are first read by ls_parquet_read. The path is borrowed. */
LS_MUST_USE ls_status ls_parquet_open(const char *path, ls_parquet **out);
/*
 * Reads `room` bytes of the lines, or fewer at the end. On an error *bytes is the number of bytes read before it.
 * LS_INVALID: the rest cannot be read, and ls_parquet_broken says why.
 */
LS_MUST_USE ls_status ls_parquet_read(ls_parquet *parquet, char *out, size_t room, size_t *bytes);
const char *ls_parquet_broken(const ls_parquet *parquet); /* without the file's name; NULL: it is intact so far */
void ls_parquet_close(ls_parquet *parquet);               /* NULL is allowed */

#endif
