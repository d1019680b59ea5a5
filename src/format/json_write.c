/* The writer of json.h: builds a jansson tree and prints it when its root is closed. */
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
    json_t *open[MOST_DEPTH]; /* the root and what is open in it; borrowed, but for open[0] */
    int depth;
    size_t flags; /* of jansson's printer */
    char *text;   /* once the root is complete */
};

/* Memory for small objects. As for arenas (base/arena.h), a failure ends the process. */
static void *got(void *memory) {
    if (!memory) ls_panic(__FILE__, __LINE__, "no memory to write JSON");
    return memory;
}

ls_json_writer *ls_json_writer_create(int indent) {
    LS_ASSERT(indent >= 0 && indent <= 8);
    ls_json_writer *writer = got(calloc(1, sizeof *writer));
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
    writer->text = got(json_dumps(root, writer->flags));
    json_decref(root);
}

/* Puts the value, which is taken over, where the writer stands. Returns it, or NULL when it was a root that
 * is no container. */
static json_t *put(ls_json_writer *writer, const char *key, json_t *value) {
    got(value);
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

void ls_json_open_object(ls_json_writer *writer, const char *key) {
    open_container(writer, key, json_object());
}
void ls_json_open_array(ls_json_writer *writer, const char *key) {
    open_container(writer, key, json_array());
}

void ls_json_close(ls_json_writer *writer) {
    LS_ASSERT(writer->depth > 0);
    if (--writer->depth == 0) print_root(writer, writer->open[0]);
}

void ls_json_put_int(ls_json_writer *writer, const char *key, int64_t value) {
    put(writer, key, json_integer(value));
}

void ls_json_put_double(ls_json_writer *writer, const char *key, double value) {
    put(writer, key, isfinite(value) ? json_real(value) : json_null());
}

void ls_json_put_bool(ls_json_writer *writer, const char *key, bool value) {
    put(writer, key, json_boolean(value));
}

void ls_json_put_null(ls_json_writer *writer, const char *key) { put(writer, key, json_null()); }

/* Length of the UTF-8 character at text, or 0 when its first byte begins none. jansson is the judge. */
static size_t character(const char *text, size_t left) {
    for (size_t n = 1; n <= 4 && n <= left; n++) {
        json_t *valid = json_stringn(text, n);
        if (!valid) continue;
        json_decref(valid);
        return n;
    }
    return 0;
}

static json_t *repaired(const char *text) {
    size_t left = strlen(text), n = 0;
    char *copy = got(malloc(3 * left + 1));
    while (left > 0) {
        size_t length = character(text, left);
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
    json_t *json = json_string(value);
    put(writer, key, json ? json : repaired(value));
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
