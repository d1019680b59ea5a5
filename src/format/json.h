/*
 * JSON. Reading takes at most ten bytes of memory for each byte of a document, whatever stands in it; jansson, whose types stay inside
 * this folder, writes.
 *
 *     ls_json *doc;
 *     LS_TRY(ls_json_read("config.json", LS_JSON_MOST_BYTES, &doc));
 *     ls_json_value config = ls_json_root(doc);
 *     ls_status s = ls_json_int(config, "hidden_size", 1, 1 << 20, &hidden);
 *     ...
 *     ls_json_free(doc);
 *
 * A getter's error reads like "config.json: hidden_size is "big", expected an integer from 1 to 1048576".
 * A field that is null counts as missing, as in Hugging Face configurations. NaN and infinities may stand where numbers do, as Python's json
 * writes them; whoever asks for such a number gets an error by name. A name that occurs twice in an object, NUL characters, text after
 * the document, bytes that are not UTF-8, numbers out of range and nesting deeper than 2048 are errors of reading, with line and column.
 */
#ifndef LS_FORMAT_JSON_H
#define LS_FORMAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/status.h"

typedef struct ls_json ls_json;
struct ls_json_node;

#define LS_JSON_MOST_BYTES ((size_t)64 << 20)
#define LS_JSON_PATH 128

/* A place in a document; a plain value, good until ls_json_free of the document. */
typedef struct ls_json_value {
    const char *file;                /* named by errors */
    const struct ls_json_node *json; /* NULL: it is not there, or null */
    bool null;                       /* it is there, and null */
    char path[LS_JSON_PATH]; /* "rope_scaling.factor", "layers[2]"; empty for the root; cut when long */
} ls_json_value;

LS_MUST_USE ls_status ls_json_read(const char *file, size_t most_bytes, ls_json **out);
/* The same for text in memory; `name` is what errors call it. An integer of more than 64 bits is a real number. */
LS_MUST_USE ls_status ls_json_parse(const char *name, const char *text, size_t bytes, ls_json **out);
/* How many values a text has, if it is JSON: each takes 16 bytes when it is read, and as many for its name in an object. */
int64_t ls_json_values(const char *text, size_t bytes);
/* The same for records that others made, read as Python does: of a name that occurs twice the last value counts, and texts may hold NUL. */
LS_MUST_USE ls_status ls_json_parse_record(const char *name, const char *text, size_t bytes, ls_json **out);
void ls_json_free(ls_json *document); /* NULL is allowed */
ls_json_value ls_json_root(const ls_json *document);

/*
 * Fields of an object. Limits are inclusive. The ..._or forms set *out to `initial` when the field is
 * missing or null. Doubles must be finite; an integer is accepted for a double, not the other way round.
 * Texts are borrowed from the document, UTF-8, without embedded NUL: one that has it is an error.
 */
LS_MUST_USE ls_status ls_json_int(ls_json_value object, const char *key, int64_t least, int64_t most,
                                  int64_t *out);
LS_MUST_USE ls_status ls_json_int_or(ls_json_value object, const char *key, int64_t initial, int64_t least,
                                     int64_t most, int64_t *out);
LS_MUST_USE ls_status ls_json_double(ls_json_value object, const char *key, double least, double most,
                                     double *out);
LS_MUST_USE ls_status ls_json_double_or(ls_json_value object, const char *key, double initial, double least,
                                        double most, double *out);
LS_MUST_USE ls_status ls_json_bool(ls_json_value object, const char *key, bool *out);
LS_MUST_USE ls_status ls_json_bool_or(ls_json_value object, const char *key, bool initial, bool *out);
LS_MUST_USE ls_status ls_json_text(ls_json_value object, const char *key, const char **out);
LS_MUST_USE ls_status ls_json_text_or(ls_json_value object, const char *key, const char *initial,
                                      const char **out);
LS_MUST_USE ls_status ls_json_object(ls_json_value object, const char *key, ls_json_value *out);
LS_MUST_USE ls_status ls_json_array(ls_json_value object, const char *key, ls_json_value *out);

bool ls_json_has(ls_json_value object, const char *key); /* there and not null; false for what is no object */
size_t ls_json_count(ls_json_value value);               /* items or members; 0 for what is neither */

/* Items of an array: i < ls_json_count. And values by themselves, for items and members. */
ls_json_value ls_json_item(ls_json_value array, size_t i);
LS_MUST_USE ls_status ls_json_as_int(ls_json_value value, int64_t least, int64_t most, int64_t *out);
LS_MUST_USE ls_status ls_json_as_double(ls_json_value value, double least, double most, double *out);
LS_MUST_USE ls_status ls_json_as_text(ls_json_value value, const char **out);
/* The same for a text that may have NUL characters inside; its length is *bytes. */
LS_MUST_USE ls_status ls_json_as_bytes(ls_json_value value, const char **out, size_t *bytes);
LS_MUST_USE ls_status ls_json_as_object(ls_json_value value); /* checks only */
LS_MUST_USE ls_status ls_json_as_array(ls_json_value value);
bool ls_json_is_array(ls_json_value value); /* where something else is as welcome: makes no error */
bool ls_json_is_text(ls_json_value value);

/* Any value, where each kind is as welcome: what it is and, for all but arrays and objects, what it says. A missing one is null. */
typedef enum ls_json_kind {
    LS_JSON_NULL,
    LS_JSON_BOOL,
    LS_JSON_INT,
    LS_JSON_REAL,
    LS_JSON_TEXT,
    LS_JSON_ARRAY,
    LS_JSON_OBJECT
} ls_json_kind;
typedef struct ls_json_plain {
    ls_json_kind kind;
    bool truth;
    int64_t integer;
    double real;
    const char *text; /* borrowed from the document */
    size_t bytes;
} ls_json_plain;
ls_json_plain ls_json_plain_of(ls_json_value value);

/*
 * Members of an object in the document's order; *cursor starts as NULL. Returns false at the end.
 *
 *     void *cursor = NULL;
 *     while (ls_json_next(object, &cursor, &key, &value)) ...
 */
bool ls_json_next(ls_json_value object, void **cursor, const char **key, ls_json_value *value);

/* A hash of a value: equal for equal values, whatever the order of an object's members. 0 for a missing one. */
uint64_t ls_json_hash(ls_json_value value);

/* An LS_INVALID error about a value: "file: path is <value>, expected <what you say>". For checks of one's
 * own. */
ls_status ls_json_error(ls_json_value value, const char *expected_format, ...) LS_PRINTF(2, 3);
/* The field itself, to make such an error about it (json is NULL, printed as "missing", when it is not
 * there). */
ls_json_value ls_json_field(ls_json_value object, const char *key);

/*
 * Editing: the text of a document that ls_json_parse took, an object, with one member of its outermost level set to `value` (itself
 * JSON): replaced where it stands, else put first. All other bytes stay as they are, unknown fields and their order included.
 * *out is for the caller to free().
 */
LS_MUST_USE ls_status ls_json_set_member(const char *text, const char *key, const char *value, char **out);
/* Where the value of a member of the outermost object stands: text[*from, *to). False when there is no such member. */
bool ls_json_find_member(const char *text, const char *key, size_t *from, size_t *to);

/*
 * Writer. Builds text in memory; key is NULL for the root and for items of an array. Doubles are printed with
 * 17 digits (they read back to the same bits); NaN and infinities become null. Text that is not UTF-8 has
 * each wrong byte replaced by U+FFFD. Misuse (a key in an array, close without open) is a broken invariant.
 */
typedef struct ls_json_writer ls_json_writer;

/* indent 0: all on one line. */
ls_json_writer *ls_json_writer_create(int indent);
void ls_json_writer_destroy(ls_json_writer *writer); /* NULL is allowed */
void ls_json_open_object(ls_json_writer *writer, const char *key);
void ls_json_open_array(ls_json_writer *writer, const char *key);
void ls_json_close(ls_json_writer *writer); /* the innermost object or array */
void ls_json_put_int(ls_json_writer *writer, const char *key, int64_t value);
void ls_json_put_double(ls_json_writer *writer, const char *key, double value);
void ls_json_put_bool(ls_json_writer *writer, const char *key, bool value);
void ls_json_put_text(ls_json_writer *writer, const char *key, const char *value); /* NULL value: null */
/* 64 bits as text of 16 hexadecimal digits: as a number most readers would round them. */
void ls_json_put_hex(ls_json_writer *writer, const char *key, uint64_t value);
void ls_json_put_null(ls_json_writer *writer, const char *key);
/* What was written, with a 0 byte after *bytes (bytes may be NULL); complete once everything is closed.
 * Borrowed. */
const char *ls_json_written(const ls_json_writer *writer, size_t *bytes);

/* A result, from its opening to its end: a writer whose outermost object is open; ... */
ls_json_writer *ls_json_begin(int indent);
/* ... that object is closed, the text and a newline are printed, and the writer is destroyed; ... */
void ls_json_end(ls_json_writer *writer, FILE *out);
/* ... or they are written as a whole file, atomically (ls_file_write). */
LS_MUST_USE ls_status ls_json_end_file(ls_json_writer *writer, const char *path);

#endif
