/* Thrift's compact protocol: reading described structs. */
#include "parquet/thrift_impl.h"

#include <string.h>

enum { MOST_DEPTH = 24 };
/* Types of fields in the protocol. */
enum { STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT };

static bool fail(thrift_reader *r, const char *why) {
    if (r->wrong == NULL) r->wrong = why;
    return false;
}

static bool read_byte(thrift_reader *r, uint8_t *out) {
    if (r->at == r->end) return fail(r, "ends inside of a field");
    *out = *r->at++;
    return true;
}

static bool read_number(thrift_reader *r, uint64_t *out) {
    return thrift_varint(&r->at, r->end, out) || fail(r, "holds a number that does not end");
}

static bool read_text(thrift_reader *r, thrift_text *out) {
    uint64_t n;
    if (!read_number(r, &n)) return false;
    if (n > (uint64_t)(r->end - r->at)) return fail(r, "holds a text that does not end");
    *out = (thrift_text){(const char *)r->at, (size_t)n};
    r->at += n;
    return true;
}

/* The head of a list: its items and their type. Each item takes at least one byte. */
static bool read_head(thrift_reader *r, uint64_t *n, int *type) {
    uint8_t head = 0;
    if (!read_byte(r, &head)) return false;
    *n = head >> 4;
    *type = head & 15;
    if (*n == 15 && !read_number(r, n)) return false;
    return *n <= (uint64_t)(r->end - r->at) || fail(r, "holds a list with more items than bytes");
}

/* ---- skipping ---- */

static bool skip(thrift_reader *r, int type, int depth);

static bool skip_items(thrift_reader *r, uint64_t n, int type, int depth) {
    for (uint64_t i = 0; i < n; i++) {
        uint8_t byte;
        const bool truth = type == TRUE || type == FALSE; /* in a list each takes a byte */
        if (truth ? !read_byte(r, &byte) : !skip(r, type, depth)) return false;
    }
    return true;
}

static bool skip_map(thrift_reader *r, int depth) {
    uint64_t n;
    uint8_t types = 0;
    if (!read_number(r, &n)) return false;
    if (n == 0) return true;
    if (!read_byte(r, &types)) return false;
    if (n > (uint64_t)(r->end - r->at)) return fail(r, "holds a map with more items than bytes");
    for (uint64_t i = 0; i < n; i++)
        if (!skip_items(r, 1, types >> 4, depth) || !skip_items(r, 1, types & 15, depth)) return false;
    return true;
}

/* The type and number of the next field; STOP: there is none. */
static bool next_field(thrift_reader *r, int *type, int *id) {
    uint8_t head = 0;
    uint64_t number;
    if (!read_byte(r, &head)) return false;
    *type = head & 15;
    if (*type == STOP) return true;
    if (head >> 4) {
        *id += head >> 4;
        return true;
    }
    if (!read_number(r, &number)) return false;
    *id = (int)(int16_t)thrift_zigzag(number);
    return true;
}

static bool skip(thrift_reader *r, int type, int depth) {
    uint64_t number;
    thrift_text text;
    int field = 0, id = 0;
    if (depth >= MOST_DEPTH) return fail(r, "is nested too deeply");
    switch (type) {
    case TRUE:
    case FALSE:
        return true;
    case I16:
    case I32:
    case I64:
        return read_number(r, &number);
    case BYTE:
    case DOUBLE:
        number = type == BYTE ? 1 : 8;
        if (number > (uint64_t)(r->end - r->at)) return fail(r, "ends inside of a field");
        r->at += number;
        return true;
    case BINARY:
        return read_text(r, &text);
    case LIST:
    case SET:
        return read_head(r, &number, &field) && skip_items(r, number, field, depth + 1);
    case MAP:
        return skip_map(r, depth + 1);
    case STRUCT:
        while (next_field(r, &field, &id)) {
            if (field == STOP) return true;
            if (!skip(r, field, depth + 1)) return false;
        }
        return false;
    default:
        return fail(r, "holds a field of an unknown type");
    }
}

/* ---- described structs ---- */

static bool read_struct(thrift_reader *r, const thrift_struct *of, void *out, int depth);

static bool read_list(thrift_reader *r, const thrift_struct *of, thrift_list *out, int depth) {
    uint64_t n;
    int type;
    if (!read_head(r, &n, &type)) return false;
    if (type != STRUCT) return fail(r, "holds a list of another type than expected");
    for (uint64_t i = 0; i < n; i++) {
        out->items = ls_arena_grow(r->arena, out->items, out->n, &out->capacity, of->size);
        if (!read_struct(r, of, (char *)out->items + out->n++ * of->size, depth)) return false;
    }
    return true;
}

static bool read_integer(thrift_reader *r, int type, int64_t *out) {
    uint64_t number;
    uint8_t byte = 0;
    if (type == BYTE) {
        if (!read_byte(r, &byte)) return false;
        *out = byte < 128 ? byte : byte - 256;
        return true;
    }
    if (!read_number(r, &number)) return false;
    *out = thrift_zigzag(number);
    return true;
}

static bool read_value(thrift_reader *r, const thrift_field *field, int type, void *at, int depth) {
    int64_t *number = at;
    const bool integer = type >= BYTE && type <= I64;
    if (field->kind == THRIFT_INT && integer) return read_integer(r, type, number);
    if (field->kind == THRIFT_TRUTH && (type == TRUE || type == FALSE)) {
        *number = type == TRUE;
        return true;
    }
    if (field->kind == THRIFT_TEXT && type == BINARY) return read_text(r, at);
    if (field->kind == THRIFT_STRUCT && type == STRUCT) return read_struct(r, field->of, at, depth + 1);
    if (field->kind == THRIFT_LIST && type == LIST) return read_list(r, field->of, at, depth + 1);
    return fail(r, "holds a field of another type than expected");
}

static bool read_struct(thrift_reader *r, const thrift_struct *of, void *out, int depth) {
    int type = STOP, id = 0;
    if (depth >= MOST_DEPTH) return fail(r, "is nested too deeply");
    memset(out, 0, of->size);
    *(bool *)out = true;
    for (int i = 0; i < of->n; i++)
        if (of->fields[i].kind == THRIFT_INT || of->fields[i].kind == THRIFT_TRUTH)
            *(int64_t *)(void *)((char *)out + of->fields[i].at) = THRIFT_MISSING;
    while (next_field(r, &type, &id)) {
        const thrift_field *field = NULL;
        if (type == STOP) return true;
        for (int i = 0; i < of->n && field == NULL; i++)
            if (of->fields[i].id == id) field = &of->fields[i];
        const bool read =
            field != NULL ? read_value(r, field, type, (char *)out + field->at, depth) : skip(r, type, depth + 1);
        if (!read) return false;
    }
    return false;
}

bool thrift_read(thrift_reader *r, const thrift_struct *of, void *out) { return read_struct(r, of, out, 0); }
