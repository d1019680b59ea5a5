/* parquet, for this folder alone: the file's description, columns, values, lines. */
#ifndef LS_PARQUET_IMPL_H
#define LS_PARQUET_IMPL_H

#include "base/base.h"
#include "format/format.h"
#include "parquet/parquet.h"
#include "parquet/thrift_impl.h"
#include "text/text.h"

static inline uint64_t parquet_smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The first error of a file, as text without the file's name. */
typedef struct parquet_error {
    char text[200];
    const char *column; /* the column being read, whose name begins the text; NULL: none */
    bool no_memory;
} parquet_error;
/* Sets the text, unless there is one already. Always false. */
bool parquet_fail(parquet_error *error, const char *format, ...) LS_PRINTF(2, 3);

/* ---- the description at the end of a file (describe.c) ---- */

/* Physical types, with their numbers in files. */
typedef enum parquet_type {
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTES,
    PARQUET_FIXED, /* bytes of one length */
    PARQUET_TYPES
} parquet_type;

/* What values mean. */
typedef enum parquet_meaning {
    PARQUET_AS_IS,
    PARQUET_TEXT,
    PARQUET_UNSIGNED,
    PARQUET_DECIMAL, /* with a scale */
    PARQUET_DATE,    /* days since 1970 */
    PARQUET_TIME,    /* since midnight, in parts of a second: scale is 3, 6 or 9 */
    PARQUET_TIMESTAMP,
    PARQUET_HALF,
    PARQUET_UUID
} parquet_meaning;

typedef enum parquet_shape { PARQUET_SCALAR, PARQUET_STRUCT, PARQUET_LIST, PARQUET_MAP } parquet_shape;

/*
 * A node of the schema. `def`: the definition level of a value for which the node is present; one more than the
 * parent's if the node is optional or repeated. `rep`: the repetition level of its values.
 */
typedef struct parquet_node {
    thrift_text name;
    parquet_shape shape;
    bool optional, repeated; /* repeated: its values are a list, whatever its shape */
    int def, rep;
    struct parquet_node **child; /* [n]; of a list: the node of its items; of a map: its key and value */
    int n;
    int first, leaves; /* columns below it */
    /* For a scalar: */
    parquet_type type;
    parquet_meaning meaning;
    int64_t length, scale; /* length: of PARQUET_FIXED */
} parquet_node;

/* A column of a row group. */
typedef struct parquet_chunk {
    int64_t codec, values, from, bytes; /* from: in the file */
} parquet_chunk;

typedef struct parquet_group {
    int64_t rows;
    parquet_chunk *chunk; /* [columns] */
} parquet_group;

typedef struct parquet_file {
    const char *path;
    ls_file_map map;
    ls_arena *arena;
    parquet_node *root;
    parquet_node **leaf; /* [columns] */
    char **name;         /* [columns] with the names of the nodes above, for errors */
    int columns;
    parquet_group *group;
    int64_t groups;
} parquet_file;

/* Reads the description of a mapped file. The arena must exist; it still belongs to the file. */
bool parquet_describe(parquet_file *file, parquet_error *error);

/* ---- codecs: a row and a file for each ---- */

typedef struct parquet_codec {
    const char *name;
    const char *package; /* Debian package that a build without this codec lacks; NULL: no build has it */
    /*
     * Decompresses to exactly `room` bytes. Returns NULL, or why it cannot. A NULL pointer: this build lacks the codec.
     */
    const char *(*decompress)(const uint8_t *in, size_t n, uint8_t *out, size_t room);
} parquet_codec;

extern const parquet_codec parquet_snappy, parquet_gzip, parquet_zstd, parquet_lz4;
/* A codec by its number in files; NULL: unknown. The codec of uncompressed bytes has no name. */
const parquet_codec *parquet_codec_of(int64_t number);

/* ---- runs of small numbers (runs.c) ---- */

/* Levels and indices: runs of one repeated number, and packed numbers of `width` bits. */
typedef struct parquet_runs {
    const uint8_t *at, *end;
    unsigned width;
    uint64_t left; /* of the run under way */
    bool packed;
    uint32_t number;  /* of a run of one number */
    unsigned bit;     /* packed: of the byte at `at` */
    uint64_t to_skip; /* packed: bytes from `at` to the next run */
} parquet_runs;

parquet_runs parquet_runs_of(const uint8_t *at, const uint8_t *end, unsigned width);
/* The next number. False when there is none left. */
bool parquet_runs_next(parquet_runs *runs, uint32_t *out);

/* Integers as differences (DELTA_BINARY_PACKED). */
typedef struct parquet_deltas {
    const uint8_t *at, *end;
    uint64_t per_block, blocks, left, per_mini; /* blocks: miniblocks of a block; left: values that follow */
    const uint8_t *widths;                      /* of the block's miniblocks */
    uint64_t mini, mini_left, bit;              /* the next miniblock; values left in this one */
    unsigned width;
    int64_t least;
    uint64_t value;
    bool first;
} parquet_deltas;

bool parquet_deltas_begin(parquet_deltas *deltas, const uint8_t *at, const uint8_t *end);
bool parquet_deltas_next(parquet_deltas *deltas, int64_t *out);
/* Finds where the bytes of all values end. */
bool parquet_deltas_end(parquet_deltas deltas, const uint8_t **end);

/* ---- values of a page (values.c) ---- */

typedef struct parquet_bytes {
    const uint8_t *at;
    size_t n;
} parquet_bytes;

/* The values of a page by its encoding. */
typedef struct parquet_values {
    const struct parquet_encoding *encoding;
    parquet_type type;
    size_t size; /* bytes of a value; 0: they differ */
    const uint8_t *at, *end;
    parquet_runs runs;
    parquet_deltas deltas, lengths; /* for DELTA_BYTE_ARRAY: lengths of the shared prefixes; lengths of the suffixes */
    size_t next, count;             /* for values in streams of bytes; next: also the next bit of booleans */
    uint8_t scratch[16];
    uint8_t *whole; /* the last value of DELTA_BYTE_ARRAY */
    size_t whole_n, whole_capacity;
    const struct parquet_dictionary *dictionary;
} parquet_values;

typedef struct parquet_dictionary {
    uint8_t *data;
    parquet_bytes *value; /* [n] */
    size_t n;
} parquet_dictionary;

/* Begins to read n bytes with values of a leaf. */
bool parquet_values_begin(parquet_values *values, const parquet_node *leaf, int64_t encoding, const uint8_t *at,
                          size_t n, const parquet_dictionary *dictionary, parquet_error *error);
/* The next value, valid until the next call. */
bool parquet_values_next(parquet_values *values, parquet_bytes *out, parquet_error *error);
void parquet_values_free(parquet_values *values);

/* ---- columns of a row group (column.c) ---- */

typedef struct parquet_column {
    const parquet_file *file;
    const parquet_node *leaf;
    const char *name;
    const parquet_codec *codec;
    const uint8_t *at, *end; /* pages of the chunk that are not read yet */
    int64_t left, page_left; /* entries of the chunk, and of the page, that are not read yet */
    uint8_t *page;           /* decompressed; NULL: the page lies in the file */
    parquet_runs rep, def;
    parquet_values values;
    parquet_dictionary dictionary;
    /* The repetition and definition level of the next entry. */
    bool ready;
    int entry_rep, entry_def;
} parquet_column;

bool parquet_column_begin(parquet_column *column, const parquet_file *file, int number, const parquet_chunk *chunk,
                          parquet_error *error);
/* Makes the next entry ready if it is not ready yet. */
bool parquet_column_peek(parquet_column *column, parquet_error *error);
/* Takes the entry that is ready, with its value if it has one (value not NULL). */
bool parquet_column_take(parquet_column *column, parquet_bytes *value, parquet_error *error);
/* Whether all entries are read. */
bool parquet_column_ended(const parquet_column *column);
void parquet_column_end(parquet_column *column);

/* ---- values as JSON (scalar.c) ---- */

LS_MUST_USE ls_status parquet_scalar_write(const parquet_node *leaf, parquet_bytes value, ls_json_buffer *out);

#endif
