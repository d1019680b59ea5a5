/* format, for this folder alone: parts of files, and JSON in memory. */
#ifndef LS_FORMAT_IMPL_H
#define LS_FORMAT_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* LS_IO: "cannot <action> <path>: <reason of error_number>". */
ls_status ls_file_error(const char *action, const char *path, int error_number);

/* Writes all bytes at `offset` of the open file, continuing after interruptions and short writes. */
LS_MUST_USE ls_status ls_file_write_at(int fd, const char *path, const void *data, size_t bytes, int64_t offset);

/* Opens a regular file for reading; *bytes is its size. Other kinds of files are errors. */
LS_MUST_USE ls_status ls_file_open_regular(const char *path, int *fd, size_t *bytes);

/* Sets *out to a * b, both >= 0; false when the product does not fit. */
static inline bool ls_multiply(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

/* ---- JSON in memory (json_parse.c) ---- */

/* The first eight values are hashed, and the hashes are stored in files: their order must not change. */
typedef enum ls_json_node_kind {
    LS_NODE_OBJECT,
    LS_NODE_ARRAY,
    LS_NODE_TEXT,
    LS_NODE_INTEGER,
    LS_NODE_REAL,
    LS_NODE_TRUE,
    LS_NODE_FALSE,
    LS_NODE_NULL,
    LS_NODE_NOT_FINITE, /* NaN, Infinity or -Infinity, as Python writes them; text holds a NUL and the name */
} ls_json_node_kind;

struct ls_json_node {
    uint32_t kind : 4;
    uint32_t link : 28; /* a link of the hash table of an object: see json_parse.c */
    uint32_t count;     /* bytes of a text; items of an array; members of an object */
    union {
        int64_t integer;
        double real;
        const char *text;           /* followed by a 0 */
        struct ls_json_node *child; /* [count] items, or [2 * count]: a name, its value, ... */
    };
};
_Static_assert(sizeof(struct ls_json_node) == 16, "a node is 16 bytes");

/*
 * Parses a document: (*nodes)[0] is its root, and *pool holds the texts. The caller frees both, also after an error.
 * record: as in ls_json_parse_record. Errors name line and column.
 */
LS_MUST_USE ls_status ls_json_parse_nodes(const char *name, const char *text, size_t bytes, bool record,
                                          struct ls_json_node **nodes, char **pool);
/* The value of a member; NULL when there is no such member, or the node is no object. */
struct ls_json_node *ls_json_member(const struct ls_json_node *object, const char *key, size_t bytes);

/* npy.c: prints "[2, 3]" for error messages; cut when it does not fit. */
void ls_shape_text(int ndim, const int64_t *shape, char *out, size_t room);

#endif
