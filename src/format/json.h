/*
 * JSON. Reading takes at most ten bytes of memory for each byte of a document, whatever its contents. Writing uses
 * jansson, whose types are visible inside this folder only.
 *
 *     ls_json *doc;
 *     LS_TRY(ls_json_read("config.json", LS_JSON_MOST_BYTES, &doc));
 *     ls_json_value config = ls_json_root(doc);
 *     ls_status s = ls_json_int(config, "hidden_size", 1, 1 << 20, &hidden);
 *     ...
 *     ls_json_free(doc);
 *
 * A getter's error reads like "config.json: hidden_size is "big", expected an integer from 1 to 1048576". A field that
 * is null counts as missing, as in Hugging Face configurations. NaN, Infinity and -Infinity, which Python's json
 * writes, are accepted by the parser, but a getter of a number returns an error for them. A name that occurs twice in
 * an object, NUL characters, text after the document, bytes that are not UTF-8, numbers out of range and nesting deeper
 * than 2048 are errors of the parser, which name line and column.
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

/* A value in a document, valid until ls_json_free of the document. It is passed by value. */
typedef struct ls_json_value {
    const char *file;                /* for error messages */
    const struct ls_json_node *json; /* NULL: the value is missing or null */
    bool null;                       /* the value is null */
    char path[LS_JSON_PATH];         /* "rope_scaling.factor", "layers[2]"; empty for the root; cut when long */
} ls_json_value;

LS_MUST_USE ls_status ls_json_read(const char *file, size_t most_bytes, ls_json **out);
/*
 * The same for text in memory; `name` stands for the file in errors. An integer of more than 64 bits becomes a real
 * number.
 */
LS_MUST_USE ls_status ls_json_parse(const char *name, const char *text, size_t bytes, ls_json **out);
/*
 * The number of values in a text, if the text is JSON. A parsed document takes 16 bytes for each value, and 16 more for
 * each name of a member.
 */
int64_t ls_json_values(const char *text, size_t bytes);
/*
 * Parses a record of training data as Python does: if a name occurs twice, the last value counts, and texts may contain
 * NUL.
 */
LS_MUST_USE ls_status ls_json_parse_record(const char *name, const char *text, size_t bytes, ls_json **out);
void ls_json_free(ls_json *document); /* NULL is allowed */
ls_json_value ls_json_root(const ls_json *document);

/*
 * Fields of an object. Limits are inclusive. The functions ..._or set *out to `initial` when the field is missing or
 * null. Doubles must be finite. An integer is accepted as a double, but a real number is not accepted as an integer.
 * Texts are UTF-8 and borrowed from the document; a text that contains NUL is an error.
 */
LS_MUST_USE ls_status ls_json_int(ls_json_value object, const char *key, int64_t least, int64_t most, int64_t *out);
LS_MUST_USE ls_status ls_json_int_or(ls_json_value object, const char *key, int64_t initial, int64_t least,
                                     int64_t most, int64_t *out);
LS_MUST_USE ls_status ls_json_double(ls_json_value object, const char *key, double least, double most, double *out);
LS_MUST_USE ls_status ls_json_double_or(ls_json_value object, const char *key, double initial, double least,
                                        double most, double *out);
LS_MUST_USE ls_status ls_json_bool(ls_json_value object, const char *key, bool *out);
LS_MUST_USE ls_status ls_json_bool_or(ls_json_value object, const char *key, bool initial, bool *out);
LS_MUST_USE ls_status ls_json_text(ls_json_value object, const char *key, const char **out);
LS_MUST_USE ls_status ls_json_text_or(ls_json_value object, const char *key, const char *initial, const char **out);
LS_MUST_USE ls_status ls_json_object(ls_json_value object, const char *key, ls_json_value *out);
LS_MUST_USE ls_status ls_json_array(ls_json_value object, const char *key, ls_json_value *out);

bool ls_json_has(ls_json_value object,
                 const char *key);         /* whether the field exists and is not null; false if there is no object */
size_t ls_json_count(ls_json_value value); /* items of an array, members of an object; 0 for other values */

/* Items of an array, i < ls_json_count; and getters of a value itself, for items and members. */
ls_json_value ls_json_item(ls_json_value array, size_t i);
LS_MUST_USE ls_status ls_json_as_int(ls_json_value value, int64_t least, int64_t most, int64_t *out);
LS_MUST_USE ls_status ls_json_as_double(ls_json_value value, double least, double most, double *out);
LS_MUST_USE ls_status ls_json_as_text(ls_json_value value, const char **out);
/* The same for a text that may contain NUL; its length is *bytes. */
LS_MUST_USE ls_status ls_json_as_bytes(ls_json_value value, const char **out, size_t *bytes);
LS_MUST_USE ls_status ls_json_as_object(ls_json_value value); /* checks only */
LS_MUST_USE ls_status ls_json_as_array(ls_json_value value);
bool ls_json_is_array(ls_json_value value);
bool ls_json_is_text(ls_json_value value);
bool ls_json_is_infinity(ls_json_value value); /* Infinity, as Python's json writes it */

/* A value of any kind, for callers that accept all kinds. A missing value is of kind LS_JSON_NULL. */
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
/* The same for item i < ls_json_count of an array. Suits long arrays, because no path is written. */
ls_json_plain ls_json_item_plain(ls_json_value array, size_t i);

/*
 * Members of an object in the document's order; *cursor starts as NULL. Returns false at the end.
 *
 *     void *cursor = NULL;
 *     while (ls_json_next(object, &cursor, &key, &value)) ...
 */
bool ls_json_next(ls_json_value object, void **cursor, const char **key, ls_json_value *value);

/* A hash of a value: equal for equal values, whatever the order of an object's members. 0 for a missing value. */
uint64_t ls_json_hash(ls_json_value value);

/*
 * An LS_INVALID error about a value, for checks of a caller: "file: path is <value>, expected <text of
 * expected_format>".
 */
ls_status ls_json_error(ls_json_value value, const char *expected_format, ...) LS_PRINTF(2, 3);
/* A field as a value, e.g. for such an error. If it does not exist, its json is NULL and errors print "missing". */
ls_json_value ls_json_field(ls_json_value object, const char *key);

/*
 * Editing. Sets a member of the outermost object of a text to `value`, which is JSON itself: replaces the old value, or
 * inserts the member as the first. All other bytes stay as they are. The text must be an object that ls_json_parse
 * accepts. The caller frees *out.
 */
LS_MUST_USE ls_status ls_json_set_member(const char *text, const char *key, const char *value, char **out);
/*
 * The text without that member, if the text has it. All other bytes stay as they are, except for one comma. The caller
 * frees *out.
 */
LS_MUST_USE ls_status ls_json_drop_member(const char *text, const char *key, char **out);
/* Finds the value of a member of the outermost object: text[*from, *to). False when there is no such member. */
bool ls_json_find_member(const char *text, const char *key, size_t *from, size_t *to);

/*
 * Writer. Builds text in memory. key is NULL for the root and for items of an array. Doubles are printed with 17
 * digits, so that reading them gives the same bits; NaN and infinities become null. In text, each byte that is not
 * UTF-8 is replaced by U+FFFD. Misuse (a key in an array, close without open) is a broken invariant.
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
/* Writes a text that may contain NUL, as \u0000. */
void ls_json_put_bytes(ls_json_writer *writer, const char *key, const char *text, size_t bytes);
/* Writes 64 bits as text of 16 hexadecimal digits: many readers would round a number. */
void ls_json_put_hex(ls_json_writer *writer, const char *key, uint64_t value);
void ls_json_put_null(ls_json_writer *writer, const char *key);
/* The text, once everything is closed: *bytes bytes and a 0; bytes may be NULL. Borrowed from the writer. */
const char *ls_json_written(const ls_json_writer *writer, size_t *bytes);

/* Creates a writer and opens its outermost object. */
ls_json_writer *ls_json_begin(int indent);
/* Closes the outermost object, prints the text and a newline, and destroys the writer. */
void ls_json_end(ls_json_writer *writer, FILE *out);
/* The same into a file, which is written atomically (ls_file_write). */
LS_MUST_USE ls_status ls_json_end_file(ls_json_writer *writer, const char *path);

#endif
