/* The values of a page: the encodings, one row each. */
#include "parquet/parquet_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct parquet_encoding {
    const char *name;
    unsigned types; /* bits: the physical types that it stores */
    bool (*begin)(parquet_values *values);
    bool (*next)(parquet_values *values, parquet_bytes *out);
} parquet_encoding;

static size_t left_of(const parquet_values *v) { return (size_t)(v->end - v->at); }

/* ---- plain ---- */

static bool take(parquet_values *v, size_t n, parquet_bytes *out) {
    if (n > left_of(v)) return false;
    *out = (parquet_bytes){v->at, n};
    v->at += n;
    return true;
}

static bool next_bit(parquet_values *v, parquet_bytes *out) {
    if (v->next / 8 >= left_of(v)) return false;
    v->scratch[0] = v->at[v->next / 8] >> v->next % 8 & 1;
    v->next++;
    *out = (parquet_bytes){v->scratch, 1};
    return true;
}

static bool plain_next(parquet_values *v, parquet_bytes *out) {
    uint32_t n;
    if (v->type == PARQUET_BOOLEAN) return next_bit(v, out);
    if (v->size > 0) return take(v, v->size, out);
    if (left_of(v) < sizeof n) return false;
    memcpy(&n, v->at, sizeof n);
    v->at += sizeof n;
    return take(v, n, out);
}

/* ---- runs: booleans, indices of a dictionary ---- */

static bool runs_begin(parquet_values *v) {
    uint32_t n;
    if (left_of(v) < sizeof n) return false;
    memcpy(&n, v->at, sizeof n);
    if (n > left_of(v) - sizeof n) return false;
    v->runs = parquet_runs_of(v->at + sizeof n, v->at + sizeof n + n, 1);
    return true;
}

static bool runs_next(parquet_values *v, parquet_bytes *out) {
    uint32_t bit;
    if (!parquet_runs_next(&v->runs, &bit)) return false;
    v->scratch[0] = bit & 1;
    *out = (parquet_bytes){v->scratch, 1};
    return true;
}

/* A page without values may have no byte for the width. */
static bool indices_begin(parquet_values *v) {
    const unsigned width = left_of(v) > 0 ? *v->at++ : 0;
    v->runs = parquet_runs_of(v->at, v->end, width);
    return width <= 32;
}

static bool indices_next(parquet_values *v, parquet_bytes *out) {
    uint32_t i;
    if (!parquet_runs_next(&v->runs, &i) || i >= v->dictionary->n) return false;
    *out = v->dictionary->value[i];
    return true;
}

/* ---- differences ---- */

static bool deltas_begin(parquet_values *v) { return parquet_deltas_begin(&v->deltas, v->at, v->end); }

/* Sums wrap around, so that the low bytes are right for both widths. */
static bool deltas_next(parquet_values *v, parquet_bytes *out) {
    int64_t value;
    if (!parquet_deltas_next(&v->deltas, &value)) return false;
    memcpy(v->scratch, &value, sizeof value);
    *out = (parquet_bytes){v->scratch, v->size};
    return true;
}

static bool lengths_begin(parquet_values *v) {
    return parquet_deltas_begin(&v->lengths, v->at, v->end) && parquet_deltas_end(v->lengths, &v->at);
}

static bool lengths_next(parquet_values *v, parquet_bytes *out) {
    int64_t n;
    return parquet_deltas_next(&v->lengths, &n) && n >= 0 && take(v, (size_t)n, out);
}

static bool shared_begin(parquet_values *v) {
    return deltas_begin(v) && parquet_deltas_end(v->deltas, &v->at) && lengths_begin(v);
}

/* A value is a prefix of the last value, and its own suffix. */
static bool shared_next(parquet_values *v, parquet_bytes *out) {
    parquet_bytes rest;
    int64_t shared;
    if (!parquet_deltas_next(&v->deltas, &shared) || shared < 0 || (uint64_t)shared > v->whole_n) return false;
    if (!lengths_next(v, &rest)) return false;
    const size_t n = (size_t)shared + rest.n;
    if (n > v->whole_capacity) {
        uint8_t *grown = realloc(v->whole, 2 * n);
        if (grown == NULL) return false;
        v->whole = grown;
        v->whole_capacity = 2 * n;
    }
    if (rest.n > 0) memcpy(v->whole + shared, rest.at, rest.n);
    v->whole_n = n;
    *out = (parquet_bytes){v->whole, n};
    return v->size == 0 || n == v->size;
}

/* ---- the first bytes of all values, then the second ones, and so on ---- */

static bool split_begin(parquet_values *v) {
    v->count = left_of(v) / v->size;
    return left_of(v) % v->size == 0;
}

static bool split_next(parquet_values *v, parquet_bytes *out) {
    if (v->next == v->count) return false;
    if (v->whole_capacity < v->size) {
        free(v->whole);
        v->whole = malloc(v->size);
        v->whole_capacity = v->whole != NULL ? v->size : 0;
        if (v->whole == NULL) return false;
    }
    for (size_t i = 0; i < v->size; i++) v->whole[i] = v->at[i * v->count + v->next];
    v->next++;
    *out = (parquet_bytes){v->whole, v->size};
    return true;
}

/* ---- the table ---- */

#define BIT(type) (1u << (type))
#define ALL (BIT(PARQUET_TYPES) - 1)
#define INTEGERS (BIT(PARQUET_INT32) | BIT(PARQUET_INT64))
#define STRINGS (BIT(PARQUET_BYTES) | BIT(PARQUET_FIXED))
/* By their numbers in files. */
enum { PLAIN_DICTIONARY = 2, RLE_DICTIONARY = 8 };
static const parquet_encoding encodings[] = {
    [0] = {"PLAIN", ALL, NULL, plain_next},
    [PLAIN_DICTIONARY] = {"PLAIN_DICTIONARY", ALL, indices_begin, indices_next},
    [3] = {"RLE", BIT(PARQUET_BOOLEAN), runs_begin, runs_next},
    [4] = {"BIT_PACKED", 0, NULL, NULL},
    [5] = {"DELTA_BINARY_PACKED", INTEGERS, deltas_begin, deltas_next},
    [6] = {"DELTA_LENGTH_BYTE_ARRAY", BIT(PARQUET_BYTES), lengths_begin, lengths_next},
    [7] = {"DELTA_BYTE_ARRAY", STRINGS, shared_begin, shared_next},
    [RLE_DICTIONARY] = {"RLE_DICTIONARY", ALL, indices_begin, indices_next},
    [9] = {"BYTE_STREAM_SPLIT", INTEGERS | BIT(PARQUET_FLOAT) | BIT(PARQUET_DOUBLE) | BIT(PARQUET_FIXED), split_begin,
           split_next},
};
static const size_t sizes[] = {[PARQUET_BOOLEAN] = 1, [PARQUET_INT32] = 4,  [PARQUET_INT64] = 8, [PARQUET_INT96] = 12,
                               [PARQUET_FLOAT] = 4,   [PARQUET_DOUBLE] = 8, [PARQUET_BYTES] = 0, [PARQUET_FIXED] = 0};

bool parquet_values_begin(parquet_values *v, const parquet_node *leaf, int64_t encoding, const uint8_t *at, size_t n,
                          const parquet_dictionary *dictionary, parquet_error *error) {
    if (encoding < 0 || (size_t)encoding >= LS_COUNT(encodings) || encodings[encoding].name == NULL)
        return parquet_fail(error, "a page has encoding %lld, which is unknown", (long long)encoding);
    const parquet_encoding *e = &encodings[encoding];
    uint8_t *whole = v->whole;
    const size_t capacity = v->whole_capacity;
    if (!(e->types & BIT(leaf->type)))
        return parquet_fail(error, "a page has encoding %s, which is not read for its type", e->name);
    if (e->begin == indices_begin && dictionary->value == NULL)
        return parquet_fail(error, "a page refers to a dictionary, but there is none before it");
    *v = (parquet_values){.encoding = e,
                          .type = leaf->type,
                          .size = leaf->type == PARQUET_FIXED ? (size_t)leaf->length : sizes[leaf->type],
                          .at = at,
                          .end = at + n,
                          .whole = whole,
                          .whole_capacity = capacity,
                          .dictionary = dictionary};
    if (e->begin == NULL || e->begin(v)) return true;
    return parquet_fail(error, "a page of encoding %s is damaged", e->name);
}

bool parquet_values_next(parquet_values *v, parquet_bytes *out, parquet_error *error) {
    if (v->encoding != NULL && v->encoding->next(v, out)) return true;
    return parquet_fail(error, "a page of encoding %s is damaged, or has fewer values than it says",
                        v->encoding != NULL ? v->encoding->name : "PLAIN");
}

void parquet_values_free(parquet_values *v) {
    free(v->whole);
    *v = (parquet_values){0};
}
