/* The .npy files of NumPy. */
#include "format/npy.h"
#include "format/file.h"
#include "format/format_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Longspan supports little-endian machines only, because its files are little-endian"
#endif

typedef struct type_row {
    const char *name;
    size_t bytes;
} type_row;

static const type_row types[LS_NPY_TYPES] = {
    [LS_NPY_F4] = {"f4", 4},
    [LS_NPY_F8] = {"f8", 8},
    [LS_NPY_I4] = {"i4", 4},
    [LS_NPY_I8] = {"i8", 8},
};

const char *ls_npy_type_name(ls_npy_type type) { return types[type].name; }
size_t ls_npy_type_bytes(ls_npy_type type) { return types[type].bytes; }

void ls_shape_text(int ndim, const int64_t *shape, char *out, size_t room) {
    size_t n = (size_t)snprintf(out, room, "[");
    for (int i = 0; i < ndim && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (n < room) snprintf(out + n, room - n, "]");
}

/* ---- the header: a Python dictionary literal with three known keys ---- */

typedef struct cursor {
    const char *path, *at, *end;
} cursor;

static ls_status malformed(const cursor *c, const char *expected) {
    char near[24];
    size_t n = 0;
    for (const char *p = c->at; p < c->end && n < sizeof near - 1; p++) near[n++] = *p < 0x20 || *p > 0x7e ? '?' : *p;
    near[n] = 0;
    return ls_error(LS_INVALID, "%s: malformed .npy header at \"%s\", expected %s", c->path, near, expected);
}

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Reads the character `wanted` if it is the next one after white space. */
static bool accept(cursor *c, char wanted) {
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static ls_status read_text(cursor *c, char *out, size_t room, const char *what) {
    skip_space(c);
    cursor start = *c;
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return malformed(&start, what);
    char quote = *c->at++;
    size_t n = 0;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (n + 1 >= room) return malformed(&start, what);
        out[n++] = *c->at;
    }
    if (c->at == c->end) return malformed(&start, what);
    c->at++;
    out[n] = 0;
    return ls_ok();
}

static ls_status read_type(cursor *c, ls_npy *array) {
    char text[32] = "";
    LS_TRY(read_text(c, text, sizeof text, "a simple type such as '<f4'"));
    for (int t = 0; t < LS_NPY_TYPES; t++) {
        if (strcmp(text + (text[0] != 0), types[t].name) != 0) continue;
        if (text[0] == '<') {
            array->type = (ls_npy_type)t;
            return ls_ok();
        }
        if (text[0] == '>')
            return ls_error(LS_UNSUPPORTED, "%s: elements are '%s' (big-endian), expected '<%s'", c->path, text,
                            types[t].name);
    }
    for (char *p = text; *p; p++)
        if (*p < 0x20 || *p > 0x7e) *p = '?';
    return ls_error(LS_UNSUPPORTED, "%s: elements are '%s', expected '<f4', '<f8', '<i4' or '<i8'", c->path, text);
}

static ls_status read_order(cursor *c) {
    skip_space(c);
    size_t left = (size_t)(c->end - c->at);
    if (left >= 5 && memcmp(c->at, "False", 5) == 0) {
        c->at += 5;
        return ls_ok();
    }
    if (left >= 4 && memcmp(c->at, "True", 4) == 0)
        return ls_error(LS_UNSUPPORTED, "%s: the array is in Fortran order, expected C order", c->path);
    return malformed(c, "True or False for fortran_order");
}

static ls_status read_shape(cursor *c, ls_npy *array) {
    if (!accept(c, '(')) return malformed(c, "a shape such as (2, 3)");
    array->ndim = 0;
    while (!accept(c, ')')) {
        const char *digits = c->at; /* accept has skipped white space */
        int64_t size = 0;
        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
            if (!ls_multiply(size, 10, &size) || __builtin_add_overflow(size, *c->at - '0', &size))
                return ls_error(LS_INVALID, "%s: dimension %d does not fit 63 bits", c->path, array->ndim);
        if (c->at == digits) return malformed(c, "a dimension of at least 0");
        if (array->ndim == LS_NPY_DIMS)
            return ls_error(LS_UNSUPPORTED, "%s: the array has more than %d dimensions", c->path, LS_NPY_DIMS);
        array->shape[array->ndim++] = size;
        bool comma = accept(c, ',');
        skip_space(c);
        bool closes = c->at < c->end && *c->at == ')';
        if (!comma && !(closes && array->ndim > 1)) return malformed(c, "a comma or the end of the shape");
    }
    return ls_ok();
}

enum { SEEN_TYPE = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

static ls_status read_member(cursor *c, ls_npy *array, int *seen) {
    char key[32];
    cursor start = *c;
    LS_TRY(read_text(c, key, sizeof key, "a key"));
    if (!accept(c, ':')) return malformed(c, "a colon");
    int which = strcmp(key, "descr") == 0           ? SEEN_TYPE
                : strcmp(key, "fortran_order") == 0 ? SEEN_ORDER
                : strcmp(key, "shape") == 0         ? SEEN_SHAPE
                                                    : 0;
    if (which == 0 || (*seen & which)) return malformed(&start, "descr, fortran_order and shape, each once");
    *seen |= which;
    if (which == SEEN_TYPE) return read_type(c, array);
    return which == SEEN_ORDER ? read_order(c) : read_shape(c, array);
}

static ls_status parse_dictionary(cursor *c, ls_npy *array) {
    int seen = 0;
    if (!accept(c, '{')) return malformed(c, "{");
    while (!accept(c, '}')) {
        LS_TRY(read_member(c, array, &seen));
        if (!accept(c, ',')) {
            if (accept(c, '}')) break;
            return malformed(c, "a comma or }");
        }
    }
    if (seen != SEEN_ALL) return malformed(c, "descr, fortran_order and shape, each once");
    skip_space(c);
    return c->at == c->end ? ls_ok() : malformed(c, "the end of the header");
}

/* Reads magic, version, length and dictionary; *start is the offset of the data. */
static ls_status parse_header(const char *path, const uint8_t *data, size_t bytes, ls_npy *array, size_t *start) {
    if (bytes < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return ls_error(LS_INVALID, "%s: not an .npy file (%zu bytes, without its first eight and a length)", path,
                        bytes);
    int version = data[6];
    if (version < 1 || version > 3)
        return ls_error(LS_UNSUPPORTED, "%s: .npy version %d.%d, expected 1, 2 or 3", path, version, data[7]);
    size_t begin = version == 1 ? 10 : 12, length = 0;
    if (bytes < begin) return ls_error(LS_INVALID, "%s: ends inside the .npy header length", path);
    for (size_t i = begin; i-- > 8;) length = length << 8 | data[i];
    if (length > bytes - begin)
        return ls_error(LS_INVALID, "%s: the .npy header says %zu bytes, but %zu are left in the file", path, length,
                        bytes - begin);
    const char *text = (const char *)data + begin;
    cursor c = {path, text, text + length};
    LS_TRY(parse_dictionary(&c, array));
    *start = begin + length;
    return ls_ok();
}

static ls_status check_size(const char *path, size_t left, ls_npy *array) {
    char shape[100];
    int64_t bytes = (int64_t)types[array->type].bytes;
    bool fits = true;
    array->count = 1;
    for (int i = 0; i < array->ndim; i++) fits = fits && ls_multiply(array->count, array->shape[i], &array->count);
    fits = fits && ls_multiply(array->count, bytes, &bytes);
    ls_shape_text(array->ndim, array->shape, shape, sizeof shape);
    if (!fits) return ls_error(LS_INVALID, "%s: the bytes of shape %s do not fit 63 bits", path, shape);
    if (left != (size_t)bytes)
        return ls_error(LS_INVALID, "%s: shape %s of %s needs %lld bytes of data, but the file has %zu", path, shape,
                        types[array->type].name, (long long)bytes, left);
    return ls_ok();
}

static ls_status read_mapped(const char *path, ls_file_map *map, ls_npy *array) {
    size_t start = 0;
    LS_TRY(parse_header(path, map->data, map->bytes, array, &start));
    LS_TRY(check_size(path, map->bytes - start, array));
    const uint8_t *data = map->data + start;
    if ((uintptr_t)data % types[array->type].bytes == 0) {
        array->data = data;
        array->owned = (void *)(uintptr_t)map->data;
        array->owned_bytes = map->bytes;
        return ls_ok();
    }
    size_t bytes = map->bytes - start;
    void *copy = malloc(bytes + 1);
    if (!copy) return ls_error(LS_NO_MEMORY, "no memory for the %zu bytes of %s", bytes, path);
    memcpy(copy, data, bytes);
    ls_file_map_close(map);
    array->data = array->owned = copy;
    array->owned_bytes = 0; /* marks a copy: a mapping has more than 0 bytes */
    return ls_ok();
}

ls_status ls_npy_open(const char *path, ls_npy *out) {
    ls_file_map map;
    ls_npy array = {0};
    LS_TRY(ls_file_map_open(path, &map));
    ls_status status = read_mapped(path, &map, &array);
    if (status.code == LS_OK)
        *out = array;
    else
        ls_file_map_close(&map);
    return status;
}

void ls_npy_close(ls_npy *array) {
    if (!array) return;
    if (array->owned_bytes > 0)
        ls_file_map_close(&(ls_file_map){array->owned, array->owned_bytes});
    else
        free(array->owned);
    *array = (ls_npy){0};
}

ls_status ls_npy_write(const char *path, ls_npy_type type, int ndim, const int64_t *shape, const void *data) {
    LS_ASSERT(ndim >= 0 && ndim <= LS_NPY_DIMS);
    char header[256];
    int64_t count = 1;
    int n = snprintf(header + 10, sizeof header - 10, "{'descr': '<%s', 'fortran_order': False, 'shape': (",
                     types[type].name);
    for (int i = 0; i < ndim; i++) {
        count *= shape[i];
        n += snprintf(header + 10 + n, sizeof header - 10 - (size_t)n, "%s%lld%s", i ? ", " : "", (long long)shape[i],
                      ndim == 1 ? "," : "");
    }
    n += snprintf(header + 10 + n, sizeof header - 10 - (size_t)n, "), }");
    size_t total = ls_round_up((size_t)n + 11, 64); /* with the newline */
    LS_ASSERT(total <= sizeof header);
    memset(header + 10 + n, ' ', total - 10 - (size_t)n);
    header[total - 1] = '\n';
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 0xff);
    header[9] = (char)((total - 10) >> 8);
    const ls_file_piece pieces[] = {{header, total}, {data, (size_t)count * types[type].bytes}};
    return ls_file_write_pieces(path, pieces, 2);
}
