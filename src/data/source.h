/*
 * What a corpus is read from: files, one after the other, in batches of whole records. A record is a line of a JSONL file, a value of
 * a JSON file, or a text file, or a part of a long one.
 */
#ifndef LS_DATA_SOURCE_H
#define LS_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"
#include "text/text.h"

/* A line, a value, or a text that must be encoded at once, is at most this long unless told otherwise. */
#define LS_RECORD_MOST ((int64_t)1 << 30)

typedef enum ls_input_kind {
    LS_INPUT_TEXT,  /* the whole file is one text */
    LS_INPUT_LINES, /* a JSON value per line */
    LS_INPUT_VALUES /* the items of a JSON array, or JSON values one after the other */
} ls_input_kind;

typedef struct ls_input {
    const char *path;
    ls_input_kind kind;
    const char *refused;    /* why it is not read at all; NULL: it is */
    bool compressed;        /* by its name */
    int64_t bytes, changed; /* of the file: size; when it was last written, in ns */
} ls_input;

/* A place in the inputs: where a record begins. */
typedef struct ls_place {
    int64_t input;
    int64_t offset; /* in its decompressed bytes */
    int64_t line;   /* from 1: where it begins; of texts: 1 */
} ls_place;

typedef struct ls_text_record {
    const char *text;
    size_t bytes;
    ls_place at;
    bool last;       /* of its document */
    const char *bad; /* why it cannot be read; NULL: it can */
    bool rest;       /* bad: the rest of the file is passed over with it */
    bool binary;     /* bad: the file is of a format that is no text at all */
} ls_text_record;

typedef struct ls_source ls_source;

/*
 * Texts that are longer than a batch come in parts which give the ids of the whole: cut at multiples of ls_tokenizer_piece, or where it
 * may be (cut.h); one that does not begin at offset 0 is for ls_tokenizer_encode_rest. All is borrowed. most: bytes of a record; 0:
 * LS_RECORD_MOST.
 */
LS_MUST_USE ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer,
                                     ls_place from, int64_t most, ls_source **out);
void ls_source_close(ls_source *source); /* NULL is allowed */

/*
 * The next records, some 16 MiB of them or one that is longer, good until the next call; *n 0: there are no more. Blank lines are
 * passed over. Memory: 32 MiB, or twice the longest record.
 */
LS_MUST_USE ls_status ls_source_next(ls_source *source, const ls_text_record **records, size_t *n);
/* Where the record behind those of the last batch begins. */
ls_place ls_source_place(const ls_source *source);

/*
 * The inputs of files, folders and patterns (*, ?, [...]), in the order given. Their names say what is in them: .jsonl, .ndjson, .json, each
 * also with .gz or .zst behind it; all else is text. Formats that are not read are errors by name, or, below a folder, inputs that
 * are refused.
 */
typedef struct ls_input_list {
    ls_input *input;
    int64_t n;
    struct ls_data_files *files; /* holds the paths */
} ls_input_list;
/* format: "auto", "text", "jsonl" or "json". */
LS_MUST_USE ls_status ls_inputs_find(const char *const *paths, int n, const char *format, ls_input_list *out);
void ls_inputs_free(ls_input_list *list);

#endif
