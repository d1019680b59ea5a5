/*
 * parquet: the headers of a file are structs in Thrift's compact protocol. A description says which fields of a struct
 * are kept, and where; all others are skipped.
 */
#ifndef LS_PARQUET_THRIFT_IMPL_H
#define LS_PARQUET_THRIFT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

typedef struct thrift_text {
    const char *at;
    size_t n;
} thrift_text;

typedef struct thrift_list {
    void *items; /* [n] of the described struct, in the arena */
    size_t n, capacity;
} thrift_list;

typedef enum thrift_kind {
    THRIFT_INT,    /* int64_t, THRIFT_MISSING if it is not there */
    THRIFT_TRUTH,  /* int64_t as well: 0, 1 or THRIFT_MISSING */
    THRIFT_TEXT,   /* thrift_text, its `at` NULL if it is not there */
    THRIFT_STRUCT, /* the described struct */
    THRIFT_LIST    /* thrift_list of the described struct */
} thrift_kind;
#define THRIFT_MISSING INT64_MIN

typedef struct thrift_field {
    int id;
    thrift_kind kind;
    size_t at;                      /* offset in the struct */
    const struct thrift_struct *of; /* of a struct or list */
} thrift_field;

/* A described struct begins with a bool that says whether it is there. */
typedef struct thrift_struct {
    size_t size;
    const thrift_field *fields;
    int n;
} thrift_struct;

typedef struct thrift_reader {
    const uint8_t *at, *end;
    ls_arena *arena;   /* for lists */
    const char *wrong; /* why the bytes cannot be read; NULL: they can */
} thrift_reader;

/* Reads a struct, whose texts are borrowed from the bytes. False on an error; `wrong` then says why. */
bool thrift_read(thrift_reader *reader, const thrift_struct *of, void *out);

/* An unsigned number with 7 bits in each byte, lowest first. False if it is cut off or longer than 64 bits. */
static inline bool thrift_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        if (shift == 63 && byte > 1) return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Signed numbers: 0, -1, 1, -2, ... are 0, 1, 2, 3, ... */
static inline int64_t thrift_zigzag(uint64_t n) { return (int64_t)(n >> 1) ^ -(int64_t)(n & 1); }

#endif
