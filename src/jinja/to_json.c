/*
 * The filter tojson as `transformers` defines it: Python's json.dumps, without escapes for HTML and with
 * ensure_ascii=False.
 */
#include "jinja/run_impl.h"

#include <math.h>
#include <stdlib.h>

typedef struct dump {
    jinja_run *r;
    jinja_buffer *out;
    jinja_text item, key; /* separators: between items, and after a key */
    jinja_text indent;    /* for one level */
    bool lines, ascii, sort;
} dump;

static void put(const dump *d, const char *ascii) { jinja_put_ascii(d->r, d->out, ascii); }

static void put_unit(const dump *d, uint32_t unit) {
    char text[16];
    snprintf(text, sizeof text, "\\u%04x", unit);
    put(d, text);
}

static void put_text(const dump *d, jinja_text text) {
    put(d, "\"");
    for (size_t i = 0; i < text.n && !d->r->failed; i++) {
        static const char *const escapes[] = {['"'] = "\\\"", ['\\'] = "\\\\", ['\n'] = "\\n", ['\r'] = "\\r",
                                              ['\t'] = "\\t", ['\f'] = "\\f",  ['\b'] = "\\b"};
        const uint32_t code = text.at[i] & JINJA_CODE;
        if (code < LS_COUNT(escapes) && escapes[code] != NULL) {
            put(d, escapes[code]);
        } else if (code < 0x20 || (d->ascii && code > 0x7e && code < 0x10000 && code != 0x7f)) {
            put_unit(d, code);
        } else if (d->ascii && code >= 0x10000) {
            put_unit(d, 0xd800 + ((code - 0x10000) >> 10));
            put_unit(d, 0xdc00 + ((code - 0x10000) & 0x3ff));
        } else {
            jinja_put_char(d->r, d->out, text.at[i]);
        }
    }
    put(d, "\"");
}

static void put_line(const dump *d, int level) {
    if (!d->lines) return;
    put(d, "\n");
    for (int i = 0; i < level && d->indent.n > 0 && !d->r->failed; i++) jinja_put(d->r, d->out, d->indent);
}

static void put_value(const dump *d, jinja_value v, int level);

static void put_list(const dump *d, const jinja_list *list, int level) {
    put(d, "[");
    for (size_t i = 0; i < list->n && jinja_step(d->r, 1); i++) {
        if (i > 0) jinja_put(d->r, d->out, d->item);
        put_line(d, level + 1);
        put_value(d, list->item[i], level + 1);
    }
    if (list->n > 0) put_line(d, level);
    put(d, "]");
}

static const jinja_dict *sorted(const dump *d, const jinja_dict *dict) {
    jinja_dict *copy = jinja_dict_new(d->r->arena);
    if (!jinja_has_room(d->r, dict->n, sizeof *dict->pair)) return copy;
    copy->pair = ls_arena_copy(d->r->arena, dict->pair, dict->n * sizeof *dict->pair);
    copy->n = dict->n;
    for (size_t i = 0; i < dict->n && jinja_step(d->r, 1); i++)
        if (dict->pair[i].key.kind != JINJA_TEXT) {
            jinja_fail(d->r, LS_UNSUPPORTED, "tojson with sort_keys is not supported for keys that are not texts");
            return copy;
        }
    jinja_sort(d->r, copy->pair, copy->n, false);
    return copy;
}

/* JSON's keys are texts: a key of another type is written as the text of its JSON. */
static void put_key(const dump *d, jinja_value key) {
    if (key.kind == JINJA_TEXT) {
        put_text(d, key.text);
    } else if (jinja_is_number(key) || key.kind == JINJA_NONE) {
        put(d, "\"");
        put_value(d, key, 0);
        put(d, "\"");
    } else {
        jinja_fail(d->r, LS_INVALID, "tojson of a dict with a key of type %s is not possible", jinja_type_name(key));
    }
}

static void put_dict(const dump *d, const jinja_dict *dict, int level) {
    if (d->sort) dict = sorted(d, dict);
    put(d, "{");
    for (size_t i = 0; i < dict->n && jinja_step(d->r, 1); i++) {
        if (i > 0) jinja_put(d->r, d->out, d->item);
        put_line(d, level + 1);
        put_key(d, dict->pair[i].key);
        jinja_put(d->r, d->out, d->key);
        put_value(d, dict->pair[i].value, level + 1);
    }
    if (dict->n > 0) put_line(d, level);
    put(d, "}");
}

static void put_value(const dump *d, jinja_value v, int level) {
    switch (v.kind) {
    case JINJA_NONE:
        put(d, "null");
        break;
    case JINJA_BOOL:
        put(d, v.truth ? "true" : "false");
        break;
    case JINJA_FLOAT:
        if (isnan(v.real) || isinf(v.real))
            put(d, isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity");
        else
            jinja_put_number(d->r, d->out, v);
        break;
    case JINJA_INT:
        jinja_put_number(d->r, d->out, v);
        break;
    case JINJA_TEXT:
        put_text(d, v.text);
        break;
    case JINJA_LIST:
    case JINJA_TUPLE:
        put_list(d, v.list, level);
        break;
    case JINJA_DICT:
        put_dict(d, v.dict, level);
        break;
    default:
        jinja_fail(d->r, LS_INVALID, "tojson of a %s is not possible", jinja_type_name(v));
    }
}

static jinja_text spaces(jinja_run *r, int64_t n) {
    jinja_buffer b = {0};
    for (int64_t i = 0; i < n && !r->failed; i++) jinja_put_char(r, &b, ' ');
    return jinja_buffer_value(&b).text;
}

jinja_value jinja_to_json(JINJA_ARGUMENTS) {
    const jinja_value ascii = arg[0], indent = arg[1], separators = arg[2], sort = arg[3];
    jinja_buffer out = {0};
    dump d = {.r = r, .out = &out, .ascii = jinja_true(ascii), .sort = jinja_true(sort)};
    d.lines = indent.kind != JINJA_MISSING && indent.kind != JINJA_NONE;
    if (indent.kind == JINJA_TEXT)
        d.indent = indent.text;
    else if (d.lines)
        d.indent = spaces(r, jinja_need_int(r, indent, "tojson's indent"));
    d.item = jinja_text_of_ascii(r->arena, d.lines ? "," : ", ");
    d.key = jinja_text_of_ascii(r->arena, ": ");
    if (separators.kind != JINJA_MISSING && separators.kind != JINJA_NONE) {
        const jinja_list *pair = jinja_iterate(r, separators);
        if (pair->n != 2) return jinja_fail(r, LS_INVALID, "tojson has %zu separators, expected 2", pair->n);
        d.item = jinja_need_text(r, pair->item[0], "tojson's separator");
        d.key = jinja_need_text(r, pair->item[1], "tojson's separator");
    }
    put_value(&d, of, 0);
    return jinja_buffer_value(&out);
}
