/* Values of a JSON document: getters whose errors name file, field, value and what was expected. */
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
    struct ls_json_node *nodes; /* the root first */
    char *pool, *file;
};

static ls_status parse(const char *name, const char *text, size_t bytes, bool record, ls_json **out) {
    ls_json *document = calloc(1, sizeof *document);
    if (document == NULL || (document->file = strdup(name)) == NULL) {
        free(document);
        return ls_error(LS_NO_MEMORY, "no memory to read %s", name);
    }
    const ls_status status = ls_json_parse_nodes(name, text, bytes, record, &document->nodes, &document->pool);
    if (status.code == LS_OK)
        *out = document;
    else
        ls_json_free(document);
    return status;
}

ls_status ls_json_parse(const char *name, const char *text, size_t bytes, ls_json **out) {
    return parse(name, text, bytes, false, out);
}

ls_status ls_json_parse_record(const char *name, const char *text, size_t bytes, ls_json **out) {
    return parse(name, text, bytes, true, out);
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
    free(document->nodes);
    free(document->pool);
    free(document->file);
    free(document);
}

ls_json_value ls_json_root(const ls_json *document) {
    return (ls_json_value){.file = document->file, .json = document->nodes, .path = ""};
}

static bool is_kind(ls_json_value value, ls_json_node_kind kind) {
    return value.json != NULL && value.json->kind == kind;
}

/* The value as a jansson value, for printing; of a text, only its beginning. */
static json_t *beginning(const struct ls_json_node *node) {
    enum { SHOWN = 240 };
    size_t n = node->count;
    switch ((ls_json_node_kind)node->kind) {
    case LS_NODE_TEXT:
        for (n = n > SHOWN ? SHOWN : n; n < node->count && (node->text[n] & 0xc0) == 0x80; n--) {
        }
        return json_stringn(node->text, n);
    case LS_NODE_INTEGER:
        return json_integer(node->integer);
    case LS_NODE_REAL:
        return json_real(node->real);
    case LS_NODE_NULL:
        return json_null();
    default:
        return json_boolean(node->kind == LS_NODE_TRUE);
    }
}

/* Prints a value for error messages. */
static void print_value(ls_json_value value, char *out, size_t room) {
    if (value.json == NULL) {
        snprintf(out, room, value.null ? "null" : "missing");
    } else if (is_kind(value, LS_NODE_NOT_FINITE)) {
        snprintf(out, room, "%s", value.json->text + 1);
    } else if (is_kind(value, LS_NODE_OBJECT)) {
        snprintf(out, room, "an object");
    } else if (is_kind(value, LS_NODE_ARRAY)) {
        snprintf(out, room, "an array of %u", (unsigned)value.json->count);
    } else {
        json_t *json = beginning(value.json);
        char *text = json_dumps(json, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        const bool cut = text && strlen(text) > 60;
        snprintf(out, room, "%.60s%s", text ? text : "?", cut ? "..." : "");
        free(text);
        json_decref(json);
    }
}

static ls_status error_expected(ls_json_value value, const char *what) {
    char shown[80];
    print_value(value, shown, sizeof shown);
    return ls_error(LS_INVALID, "%s: %s is %s, expected %s", value.file, value.path[0] ? value.path : "the document",
                    shown, what);
}

ls_status ls_json_error(ls_json_value value, const char *expected_format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, expected_format);
    ls_vprint(what, sizeof what, expected_format, arguments);
    va_end(arguments);
    return error_expected(value, what);
}

/* Appends to the path of a value, which is cut when it is too long. */
static void extend(ls_json_value *value, const char *format, ...) LS_PRINTF(2, 3);
static void extend(ls_json_value *value, const char *format, ...) {
    size_t used = strlen(value->path);
    va_list arguments;
    va_start(arguments, format);
    ls_vprint(value->path + used, sizeof value->path - used, format, arguments);
    va_end(arguments);
}

ls_json_value ls_json_field(ls_json_value object, const char *key) {
    ls_json_value field = object;
    extend(&field, "%s%s", object.path[0] ? "." : "", key);
    field.json = ls_json_member(object.json, key, strlen(key)); /* NULL when `object` is no object */
    field.null = is_kind(field, LS_NODE_NULL);
    if (field.null) field.json = NULL;
    return field;
}

bool ls_json_has(ls_json_value object, const char *key) { return ls_json_field(object, key).json != NULL; }

size_t ls_json_count(ls_json_value value) {
    return is_kind(value, LS_NODE_ARRAY) || is_kind(value, LS_NODE_OBJECT) ? value.json->count : 0;
}

ls_json_value ls_json_item(ls_json_value array, size_t i) {
    ls_json_value item = array;
    extend(&item, "[%zu]", i);
    item.json = is_kind(array, LS_NODE_ARRAY) && i < array.json->count ? &array.json->child[i] : NULL;
    return item;
}

bool ls_json_next(ls_json_value object, void **cursor, const char **key, ls_json_value *value) {
    if (!is_kind(object, LS_NODE_OBJECT)) return false;
    struct ls_json_node *member = *cursor != NULL ? (struct ls_json_node *)*cursor + 2 : object.json->child;
    if (member == object.json->child + 2 * (size_t)object.json->count) return false;
    *cursor = member;
    *key = member->text;
    *value = object;
    extend(value, "%s%s", object.path[0] ? "." : "", *key);
    value->json = &member[1];
    return true;
}

/* ---- values ---- */

static ls_status int_expected(ls_json_value value, int64_t least, int64_t most) {
    if (least == INT64_MIN && most == INT64_MAX) return error_expected(value, "an integer");
    if (least == most) return ls_json_error(value, "%lld", (long long)least);
    if (most == INT64_MAX) return ls_json_error(value, "an integer of at least %lld", (long long)least);
    return ls_json_error(value, "an integer from %lld to %lld", (long long)least, (long long)most);
}

static ls_status double_expected(ls_json_value value, double least, double most) {
    if (isinf(least) && isinf(most)) return error_expected(value, "a number");
    if (isinf(most)) return ls_json_error(value, "a number of at least %g", least);
    return ls_json_error(value, "a number from %g to %g", least, most);
}

ls_status ls_json_as_int(ls_json_value value, int64_t least, int64_t most, int64_t *out) {
    if (!is_kind(value, LS_NODE_INTEGER)) return int_expected(value, least, most);
    const int64_t number = value.json->integer;
    if (number < least || number > most) return int_expected(value, least, most);
    *out = number;
    return ls_ok();
}

ls_status ls_json_as_double(ls_json_value value, double least, double most, double *out) {
    if (!is_kind(value, LS_NODE_INTEGER) && !is_kind(value, LS_NODE_REAL)) return double_expected(value, least, most);
    const double number = is_kind(value, LS_NODE_INTEGER) ? (double)value.json->integer : value.json->real; /* finite */
    if (!(number >= least && number <= most)) return double_expected(value, least, most);
    *out = number;
    return ls_ok();
}

static ls_status as_bool(ls_json_value value, bool *out) {
    if (!is_kind(value, LS_NODE_TRUE) && !is_kind(value, LS_NODE_FALSE)) return error_expected(value, "true or false");
    *out = is_kind(value, LS_NODE_TRUE);
    return ls_ok();
}

ls_status ls_json_as_text(ls_json_value value, const char **out) {
    if (!ls_json_is_text(value)) return error_expected(value, "a text");
    if (memchr(value.json->text, 0, value.json->count) != NULL)
        return error_expected(value, "a text without NUL characters");
    *out = value.json->text;
    return ls_ok();
}

ls_status ls_json_as_bytes(ls_json_value value, const char **out, size_t *bytes) {
    if (!ls_json_is_text(value)) return error_expected(value, "a text");
    *out = value.json->text;
    *bytes = value.json->count;
    return ls_ok();
}

ls_status ls_json_as_object(ls_json_value value) {
    return is_kind(value, LS_NODE_OBJECT) ? ls_ok() : error_expected(value, "an object");
}

bool ls_json_is_text(ls_json_value value) { return is_kind(value, LS_NODE_TEXT); }

bool ls_json_is_infinity(ls_json_value value) {
    return is_kind(value, LS_NODE_NOT_FINITE) && strcmp(value.json->text + 1, "Infinity") == 0;
}

bool ls_json_is_array(ls_json_value value) { return is_kind(value, LS_NODE_ARRAY); }

ls_json_plain ls_json_plain_of(ls_json_value value) {
    static const ls_json_kind kinds[] = {
        [LS_NODE_OBJECT] = LS_JSON_OBJECT, [LS_NODE_ARRAY] = LS_JSON_ARRAY,     [LS_NODE_TEXT] = LS_JSON_TEXT,
        [LS_NODE_INTEGER] = LS_JSON_INT,   [LS_NODE_REAL] = LS_JSON_REAL,       [LS_NODE_TRUE] = LS_JSON_BOOL,
        [LS_NODE_FALSE] = LS_JSON_BOOL,    [LS_NODE_NOT_FINITE] = LS_JSON_TEXT, [LS_NODE_NULL] = LS_JSON_NULL};
    const struct ls_json_node *node = value.json;
    if (node == NULL) return (ls_json_plain){.kind = LS_JSON_NULL};
    ls_json_plain plain = {.kind = kinds[node->kind], .truth = node->kind == LS_NODE_TRUE};
    if (plain.kind == LS_JSON_INT) plain.integer = node->integer;
    if (plain.kind == LS_JSON_REAL) plain.real = node->real;
    if (plain.kind == LS_JSON_TEXT) {
        plain.text = node->text;
        plain.bytes = node->count;
    }
    return plain;
}

ls_json_plain ls_json_item_plain(ls_json_value array, size_t i) {
    LS_ASSERT(is_kind(array, LS_NODE_ARRAY) && i < array.json->count);
    return ls_json_plain_of((ls_json_value){.json = &array.json->child[i]});
}

ls_status ls_json_as_array(ls_json_value value) {
    return ls_json_is_array(value) ? ls_ok() : error_expected(value, "an array");
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

static uint64_t hash_node(const struct ls_json_node *node) {
    if (node == NULL) return 0;
    const bool text = node->kind == LS_NODE_TEXT || node->kind == LS_NODE_NOT_FINITE;
    const int type = text ? LS_NODE_TEXT : (int)node->kind;
    uint64_t hash = hash_bytes(0xcbf29ce484222325u, &type, sizeof type);
    const int64_t number = node->kind == LS_NODE_INTEGER ? node->integer : 0;
    const double real = node->kind == LS_NODE_REAL ? node->real : 0;
    hash = hash_bytes(hash_bytes(hash, &number, sizeof number), &real, sizeof real);
    if (text) hash = hash_bytes(hash, node->text, node->count);
    for (uint32_t i = 0; node->kind == LS_NODE_ARRAY && i < node->count; i++) {
        const uint64_t item = hash_node(&node->child[i]);
        hash = hash_bytes(hash, &item, sizeof item);
    }
    uint64_t members = 0; /* a sum of hashes, so that the order does not matter */
    for (uint32_t i = 0; node->kind == LS_NODE_OBJECT && i < node->count; i++) {
        const struct ls_json_node *key = &node->child[2 * (size_t)i];
        const uint64_t value = hash_node(&key[1]);
        members += hash_bytes(hash_bytes(0xcbf29ce484222325u, key->text, key->count), &value, sizeof value);
    }
    return hash_bytes(hash, &members, sizeof members);
}

uint64_t ls_json_hash(ls_json_value value) { return hash_node(value.json); }
