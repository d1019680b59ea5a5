/*
 * Writing JSON: a writer that builds a jansson tree and prints it when its root is closed; and setting or
 * dropping one member of a text.
 */
#include "format/file.h"
#include "format/format_impl.h"
#include "format/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 32

struct ls_json_writer {
    json_t *open[MOST_DEPTH]; /* the open containers, outermost first; open[0] owns the others */
    int depth;
    size_t flags; /* of jansson's printer */
    char *text;   /* once the root is complete */
};

/* Memory for small objects. As for arenas (base/arena.h), a failure ends the process. */
static void *not_null(void *memory) {
    if (!memory) ls_panic(__FILE__, __LINE__, "no memory to write JSON");
    return memory;
}

ls_json_writer *ls_json_writer_create(int indent) {
    LS_ASSERT(indent >= 0 && indent <= 8);
    ls_json_writer *writer = not_null(calloc(1, sizeof *writer));
    writer->flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | (indent ? JSON_INDENT((size_t)indent) : 0);
    return writer;
}

void ls_json_writer_destroy(ls_json_writer *writer) {
    if (!writer) return;
    if (writer->depth > 0) json_decref(writer->open[0]);
    free(writer->text);
    free(writer);
}

static void print_root(ls_json_writer *writer, json_t *root) {
    writer->text = not_null(json_dumps(root, writer->flags));
    json_decref(root);
}

/*
 * Adds a value to the innermost open container and takes over the caller's reference to it. Returns the value,
 * borrowed; NULL when it is a root that is not a container.
 */
static json_t *put(ls_json_writer *writer, const char *key, json_t *value) {
    not_null(value);
    LS_ASSERT(!writer->text);
    if (writer->depth == 0) {
        LS_ASSERT(!key);
        if (json_is_object(value) || json_is_array(value)) return value;
        print_root(writer, value);
        return NULL;
    }
    json_t *parent = writer->open[writer->depth - 1];
    if (json_is_array(parent)) {
        LS_ASSERT(!key);
        LS_ASSERT(json_array_append_new(parent, value) == 0);
    } else {
        LS_ASSERT(key && !json_object_get(parent, key));
        LS_ASSERT(json_object_set_new(parent, key, value) == 0);
    }
    return value;
}

static void open_container(ls_json_writer *writer, const char *key, json_t *container) {
    LS_ASSERT(writer->depth < MOST_DEPTH);
    json_t *placed = put(writer, key, container);
    writer->open[writer->depth++] = placed;
}

void ls_json_open_object(ls_json_writer *writer, const char *key) { open_container(writer, key, json_object()); }
void ls_json_open_array(ls_json_writer *writer, const char *key) { open_container(writer, key, json_array()); }

void ls_json_close(ls_json_writer *writer) {
    LS_ASSERT(writer->depth > 0);
    if (--writer->depth == 0) print_root(writer, writer->open[0]);
}

void ls_json_put_int(ls_json_writer *writer, const char *key, int64_t value) { put(writer, key, json_integer(value)); }

void ls_json_put_double(ls_json_writer *writer, const char *key, double value) {
    put(writer, key, isfinite(value) ? json_real(value) : json_null());
}

void ls_json_put_bool(ls_json_writer *writer, const char *key, bool value) { put(writer, key, json_boolean(value)); }

void ls_json_put_null(ls_json_writer *writer, const char *key) { put(writer, key, json_null()); }

/* The length of the UTF-8 character at text that jansson accepts; 0: there is none. */
static size_t character_bytes(const char *text, size_t left) {
    for (size_t n = 1; n <= 4 && n <= left; n++) {
        json_t *valid = json_stringn(text, n);
        if (!valid) continue;
        json_decref(valid);
        return n;
    }
    return 0;
}

/* The text as a JSON string, with U+FFFD for each byte that is not UTF-8. */
static json_t *repaired(const char *text, size_t left) {
    size_t n = 0;
    char *copy = not_null(malloc(3 * left + 1));
    while (left > 0) {
        size_t length = character_bytes(text, left);
        if (length == 0) {
            memcpy(copy + n, "\xef\xbf\xbd", 3);
            n += 3;
            length = 1;
        } else {
            memcpy(copy + n, text, length);
            n += length;
        }
        text += length;
        left -= length;
    }
    json_t *json = json_stringn(copy, n);
    free(copy);
    return json;
}

void ls_json_put_text(ls_json_writer *writer, const char *key, const char *value) {
    if (!value) {
        ls_json_put_null(writer, key);
        return;
    }
    ls_json_put_bytes(writer, key, value, strlen(value));
}

void ls_json_put_bytes(ls_json_writer *writer, const char *key, const char *text, size_t bytes) {
    json_t *json = json_stringn(text, bytes);
    put(writer, key, json ? json : repaired(text, bytes));
}

void ls_json_put_hex(ls_json_writer *writer, const char *key, uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    ls_json_put_text(writer, key, text);
}

const char *ls_json_written(const ls_json_writer *writer, size_t *bytes) {
    LS_ASSERT(writer->text);
    if (bytes) *bytes = strlen(writer->text);
    return writer->text;
}

ls_json_writer *ls_json_begin(int indent) {
    ls_json_writer *writer = ls_json_writer_create(indent);
    ls_json_open_object(writer, NULL);
    return writer;
}

void ls_json_end(ls_json_writer *writer, FILE *out) {
    ls_json_close(writer);
    fprintf(out, "%s\n", ls_json_written(writer, NULL));
    ls_json_writer_destroy(writer);
}

ls_status ls_json_end_file(ls_json_writer *writer, const char *path) {
    size_t bytes;
    ls_json_close(writer);
    const char *text = ls_json_written(writer, &bytes);
    const ls_file_piece pieces[] = {{text, bytes}, {"\n", 1}};
    const ls_status status = ls_file_write_pieces(path, pieces, 2);
    ls_json_writer_destroy(writer);
    return status;
}

/* ---- setting a member of a text ---- */

/* The text is valid JSON by contract. Even if it is not, these functions stop at its end. */
static const char *skip_space(const char *p) { return p + strspn(p, " \t\r\n"); }

/* Returns the position after the string that begins with a quote at p. */
static const char *skip_string(const char *p) {
    for (p++; *p != 0 && *p != '"'; p++)
        if (*p == '\\' && p[1] != 0) p++;
    return *p == 0 ? p : p + 1;
}

static const char *skip_value(const char *p) {
    int depth = 0;
    do {
        if (*p == '"')
            p = skip_string(p);
        else if (*p == '{' || *p == '[')
            depth++, p++;
        else if (*p == '}' || *p == ']')
            depth--, p++;
        else if (depth > 0)
            p += 1 + strcspn(p + 1, "\"{}[]");
        else
            p += strcspn(p, ",}] \t\r\n");
    } while (depth > 0 && *p != 0);
    return p;
}

/* Whether the string at p, quotes and escapes included, is `key`. */
static bool is_key(const char *p, const char *end, const char *key) {
    json_t *string = json_loadb(p, (size_t)(end - p), JSON_DECODE_ANY, NULL);
    const bool same = json_is_string(string) && strcmp(json_string_value(string), key) == 0;
    json_decref(string);
    return same;
}

bool ls_json_find_member(const char *text, const char *key, size_t *from, size_t *to) {
    const char *p = skip_space(text);
    if (*p != '{') return false;
    for (p = skip_space(p + 1); *p == '"'; p = skip_space(p)) {
        const char *name = p, *name_end = skip_string(p);
        p = skip_space(name_end);
        if (*p != ':') return false;
        const char *value = skip_space(p + 1), *end = skip_value(value);
        if (is_key(name, name_end, key)) {
            *from = (size_t)(value - text);
            *to = (size_t)(end - text);
            return true;
        }
        p = skip_space(end);
        if (*p != ',') return false;
        p = skip_space(p + 1);
    }
    return false;
}

/* Concatenates the first first_bytes of `first`, `middle` and `rest`. */
static ls_status join(const char *first, size_t first_bytes, const char *middle, const char *rest, char **out) {
    const size_t n = strlen(middle), m = strlen(rest);
    char *joined = malloc(first_bytes + n + m + 1);
    if (joined == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu bytes of JSON", first_bytes + n + m);
    memcpy(joined, first, first_bytes);
    memcpy(joined + first_bytes, middle, n);
    memcpy(joined + first_bytes + n, rest, m + 1);
    *out = joined;
    return ls_ok();
}

/* Inserts a member after the opening brace, with the white space that follows the brace. */
static ls_status insert(const char *text, const char *key, const char *value, char **out) {
    const char *brace = strchr(text, '{');
    if (brace == NULL) return ls_error(LS_INVALID, "\"%s\" cannot be set in a text that is no JSON object", key);
    json_t *name = json_string(key);
    char *quoted = name == NULL ? NULL : json_dumps(name, JSON_ENCODE_ANY);
    json_decref(name);
    const char *next = skip_space(brace + 1);
    const int space = (int)(next - brace - 1);
    char *member = NULL;
    const bool made = quoted != NULL &&
                      asprintf(&member, "%.*s%s: %s%s", space, brace + 1, quoted, value, *next == '}' ? "" : ",") >= 0;
    free(quoted);
    if (!made) return ls_error(LS_NO_MEMORY, "no memory for \"%s\", or it is not UTF-8", key);
    const ls_status status = join(text, (size_t)(brace + 1 - text), member, brace + 1, out);
    free(member);
    return status;
}

ls_status ls_json_set_member(const char *text, const char *key, const char *value, char **out) {
    size_t from = 0, to = 0;
    if (!ls_json_find_member(text, key, &from, &to)) return insert(text, key, value, out);
    return join(text, from, value, text + to, out);
}

ls_status ls_json_drop_member(const char *text, const char *key, char **out) {
    size_t from = 0, to = 0;
    if (!ls_json_find_member(text, key, &from, &to)) return join(text, strlen(text), "", "", out);
    while (text[from - 1] != ':') from--;
    while (text[from - 1] != '"') from--;                                  /* just after the name */
    for (from--; text[from - 1] != '"' || text[from - 2] == '\\';) from--; /* just after its opening quote */
    from--;
    const char *next = skip_space(text + to);
    if (*next == ',') return join(text, from, "", skip_space(next + 1), out);
    while (from > 0 && text[from - 1] != ',' && text[from - 1] != '{') from--;
    return join(text, text[from - 1] == ',' ? from - 1 : from, "", next, out);
}
