/* Reading JSON: getters that name file, field, value and what was expected. */
#include "format/json.h"
#include "format/file.h"
#include "format/format_impl.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_json {
    json_t *root;
    char *file;
};

/* jansson quotes the input in its messages; ours are one line. */
static void one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = ' ';
}

enum { STRICT = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, RECORD = JSON_DECODE_ANY | JSON_ALLOW_NUL };

/* The same for numbers that Python writes and jansson refuses. */
static json_t *load_rewritten(const char *name, const char *text, size_t bytes, size_t flags,
                              json_error_t *error) {
    char *rewritten;
    size_t length;
    if (ls_json_rewrite_numbers(name, text, bytes, &rewritten, &length).code != LS_OK) return NULL;
    json_t *root = length > bytes ? json_loadb(rewritten, length, flags | JSON_ALLOW_NUL, error) : NULL;
    free(rewritten);
    return root;
}

static ls_status parse(const char *name, const char *text, size_t bytes, size_t flags, ls_json **out) {
    ls_json *document = malloc(sizeof *document);
    char *file = strdup(name);
    if (!document || !file) {
        free(document);
        free(file);
        return ls_error(LS_NO_MEMORY, "no memory to read %s", name);
    }
    json_error_t error;
    json_t *root = json_loadb(text, bytes, flags, &error);
    if (!root) root = load_rewritten(name, text, bytes, flags, &error);
    if (!root) {
        free(document);
        free(file);
        one_line(error.text);
        bool utf8 = json_error_code(&error) == json_error_invalid_utf8;
        return ls_error(LS_INVALID, "%s: not valid JSON%s, line %d column %d: %s", name,
                        utf8 ? " (not UTF-8)" : "", error.line, error.column, error.text);
    }
    *document = (ls_json){root, file};
    *out = document;
    return ls_ok();
}

ls_status ls_json_parse(const char *name, const char *text, size_t bytes, ls_json **out) {
    return parse(name, text, bytes, STRICT, out);
}

ls_status ls_json_parse_record(const char *name, const char *text, size_t bytes, ls_json **out) {
    return parse(name, text, bytes, RECORD, out);
}

ls_status ls_json_read(const char *file, size_t most_bytes, ls_json **out) {
    char *text;
    size_t bytes;
    LS_TRY(ls_file_read(file, most_bytes, &text, &bytes));
    ls_status status = ls_json_parse(file, text, bytes, out);
    free(text);
    return status;
}

void ls_json_free(ls_json *document) {
    if (!document) return;
    json_decref(document->root);
    free(document->file);
    free(document);
}

ls_json_value ls_json_root(const ls_json *document) {
    return (ls_json_value){.file = document->file, .json = document->root, .path = ""};
}

static bool has_nul(const json_t *json) {
    return memchr(json_string_value(json), 0, json_string_length(json));
}

/* The value as an error shows it. */
static void show(ls_json_value value, char *out, size_t room) {
    const json_t *json = value.json;
    if (!json) {
        snprintf(out, room, value.null ? "null" : "missing");
    } else if (json_is_string(json) &&
               ls_json_is_rewritten(json_string_value(json), json_string_length(json))) {
        snprintf(out, room, "%s", json_string_value(json) + 1);
    } else if (json_is_object(json)) {
        snprintf(out, room, "an object");
    } else if (json_is_array(json)) {
        snprintf(out, room, "an array of %zu", json_array_size(json));
    } else {
        char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        bool cut = text && strlen(text) > 60;
        snprintf(out, room, "%.60s%s", text ? text : "?", cut ? "..." : "");
        free(text);
    }
}

static ls_status expected(ls_json_value value, const char *what) {
    char shown[80];
    show(value, shown, sizeof shown);
    return ls_error(LS_INVALID, "%s: %s is %s, expected %s", value.file,
                    value.path[0] ? value.path : "the document", shown, what);
}

ls_status ls_json_error(ls_json_value value, const char *expected_format, ...) {
    char what[256];
    va_list arguments;
    va_start(arguments, expected_format);
    vsnprintf(what, sizeof what, expected_format, arguments);
    va_end(arguments);
    return expected(value, what);
}

/* Appends to a path; what does not fit is cut. */
static void extend(ls_json_value *value, const char *format, ...) LS_PRINTF(2, 3);
static void extend(ls_json_value *value, const char *format, ...) {
    size_t used = strlen(value->path);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value->path + used, sizeof value->path - used, format, arguments);
    va_end(arguments);
}

ls_json_value ls_json_field(ls_json_value object, const char *key) {
    ls_json_value field = object;
    extend(&field, "%s%s", object.path[0] ? "." : "", key);
    field.json = json_object_get(object.json, key); /* NULL when object is none */
    field.null = json_is_null(field.json);
    if (field.null) field.json = NULL;
    return field;
}

bool ls_json_has(ls_json_value object, const char *key) { return ls_json_field(object, key).json != NULL; }

size_t ls_json_count(ls_json_value value) {
    return json_is_array(value.json) ? json_array_size(value.json) : json_object_size(value.json);
}

ls_json_value ls_json_item(ls_json_value array, size_t i) {
    ls_json_value item = array;
    extend(&item, "[%zu]", i);
    item.json = json_array_get(array.json, i);
    return item;
}

bool ls_json_next(ls_json_value object, void **cursor, const char **key, ls_json_value *value) {
    void *next = *cursor ? json_object_iter_next(object.json, *cursor) : json_object_iter(object.json);
    if (!next) return false;
    *cursor = next;
    *key = json_object_iter_key(next);
    *value = object;
    extend(value, "%s%s", object.path[0] ? "." : "", *key);
    value->json = json_object_iter_value(next);
    return true;
}

/* ---- values ---- */

static ls_status int_expected(ls_json_value value, int64_t least, int64_t most) {
    if (least == INT64_MIN && most == INT64_MAX) return expected(value, "an integer");
    if (least == most) return ls_json_error(value, "%lld", (long long)least);
    if (most == INT64_MAX) return ls_json_error(value, "an integer of at least %lld", (long long)least);
    return ls_json_error(value, "an integer from %lld to %lld", (long long)least, (long long)most);
}

static ls_status double_expected(ls_json_value value, double least, double most) {
    if (isinf(least) && isinf(most)) return expected(value, "a number");
    if (isinf(most)) return ls_json_error(value, "a number of at least %g", least);
    return ls_json_error(value, "a number from %g to %g", least, most);
}

ls_status ls_json_as_int(ls_json_value value, int64_t least, int64_t most, int64_t *out) {
    if (!json_is_integer(value.json)) return int_expected(value, least, most);
    int64_t number = json_integer_value(value.json);
    if (number < least || number > most) return int_expected(value, least, most);
    *out = number;
    return ls_ok();
}

ls_status ls_json_as_double(ls_json_value value, double least, double most, double *out) {
    if (!json_is_number(value.json)) return double_expected(value, least, most);
    double number = json_number_value(value.json); /* jansson has refused what is not finite */
    if (!(number >= least && number <= most)) return double_expected(value, least, most);
    *out = number;
    return ls_ok();
}

static ls_status as_bool(ls_json_value value, bool *out) {
    if (!json_is_boolean(value.json)) return expected(value, "true or false");
    *out = json_is_true(value.json);
    return ls_ok();
}

ls_status ls_json_as_text(ls_json_value value, const char **out) {
    if (!json_is_string(value.json)) return expected(value, "a text");
    if (has_nul(value.json)) return expected(value, "a text without NUL characters");
    *out = json_string_value(value.json);
    return ls_ok();
}

ls_status ls_json_as_bytes(ls_json_value value, const char **out, size_t *bytes) {
    if (!ls_json_is_text(value)) return expected(value, "a text");
    *out = json_string_value(value.json);
    *bytes = json_string_length(value.json);
    return ls_ok();
}

ls_status ls_json_as_object(ls_json_value value) {
    return json_is_object(value.json) ? ls_ok() : expected(value, "an object");
}

bool ls_json_is_text(ls_json_value value) {
    return json_is_string(value.json) &&
           !ls_json_is_rewritten(json_string_value(value.json), json_string_length(value.json));
}

bool ls_json_is_array(ls_json_value value) { return json_is_array(value.json); }

ls_json_plain ls_json_plain_of(ls_json_value value) {
    const json_t *json = value.json;
    if (json_is_object(json)) return (ls_json_plain){.kind = LS_JSON_OBJECT};
    if (json_is_array(json)) return (ls_json_plain){.kind = LS_JSON_ARRAY};
    if (json_is_boolean(json)) return (ls_json_plain){.kind = LS_JSON_BOOL, .truth = json_is_true(json)};
    if (json_is_integer(json))
        return (ls_json_plain){.kind = LS_JSON_INT, .integer = json_integer_value(json)};
    if (json_is_real(json)) return (ls_json_plain){.kind = LS_JSON_REAL, .real = json_real_value(json)};
    if (json_is_string(json))
        return (ls_json_plain){
            .kind = LS_JSON_TEXT, .text = json_string_value(json), .bytes = json_string_length(json)};
    return (ls_json_plain){.kind = LS_JSON_NULL};
}

ls_status ls_json_as_array(ls_json_value value) {
    return ls_json_is_array(value) ? ls_ok() : expected(value, "an array");
}

/* ---- fields ---- */

static ls_status field_of(ls_json_value object, const char *key, ls_json_value *out) {
    LS_TRY(ls_json_as_object(object));
    *out = ls_json_field(object, key);
    return ls_ok();
}

ls_status ls_json_int(ls_json_value object, const char *key, int64_t least, int64_t most, int64_t *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    return ls_json_as_int(field, least, most, out);
}

ls_status ls_json_int_or(ls_json_value object, const char *key, int64_t initial, int64_t least, int64_t most,
                         int64_t *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    if (field.json) return ls_json_as_int(field, least, most, out);
    *out = initial;
    return ls_ok();
}

ls_status ls_json_double(ls_json_value object, const char *key, double least, double most, double *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    return ls_json_as_double(field, least, most, out);
}

ls_status ls_json_double_or(ls_json_value object, const char *key, double initial, double least, double most,
                            double *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    if (field.json) return ls_json_as_double(field, least, most, out);
    *out = initial;
    return ls_ok();
}

ls_status ls_json_bool(ls_json_value object, const char *key, bool *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    return as_bool(field, out);
}

ls_status ls_json_bool_or(ls_json_value object, const char *key, bool initial, bool *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    if (field.json) return as_bool(field, out);
    *out = initial;
    return ls_ok();
}

ls_status ls_json_text(ls_json_value object, const char *key, const char **out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    return ls_json_as_text(field, out);
}

ls_status ls_json_text_or(ls_json_value object, const char *key, const char *initial, const char **out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    if (field.json) return ls_json_as_text(field, out);
    *out = initial;
    return ls_ok();
}

ls_status ls_json_object(ls_json_value object, const char *key, ls_json_value *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    LS_TRY(ls_json_as_object(field));
    *out = field;
    return ls_ok();
}

ls_status ls_json_array(ls_json_value object, const char *key, ls_json_value *out) {
    ls_json_value field;
    LS_TRY(field_of(object, key, &field));
    LS_TRY(ls_json_as_array(field));
    *out = field;
    return ls_ok();
}

/* ---- hash ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_json(const json_t *json) {
    if (!json) return 0;
    const int type = json_typeof(json);
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, &type, sizeof type);
    const int64_t number = json_integer_value(json); /* 0 for what is none */
    const double real = json_real_value(json);
    hash = hash_bytes(hash_bytes(hash, &number, sizeof number), &real, sizeof real);
    if (json_is_string(json)) hash = hash_bytes(hash, json_string_value(json), json_string_length(json));
    for (size_t i = 0; i < json_array_size(json); i++) {
        const uint64_t item = hash_json(json_array_get(json, i));
        hash = hash_bytes(hash, &item, sizeof item);
    }
    uint64_t members = 0; /* a sum, so that their order does not matter */
    for (void *at = json_object_iter((json_t *)(uintptr_t)json); at;
         at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
        const uint64_t value = hash_json(json_object_iter_value(at));
        const char *key = json_object_iter_key(at);
        members += hash_bytes(hash_bytes(0xcbf29ce484222325u, key, strlen(key)), &value, sizeof value);
    }
    return hash_bytes(hash, &members, sizeof members);
}

uint64_t ls_json_hash(ls_json_value value) { return hash_json(value.json); }
