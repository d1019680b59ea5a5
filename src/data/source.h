/*
 * What a corpus is read from: files, one after the other, in batches of whole records. A record is a line of a JSONL file, or a text
 * file, or a part of a long one.
 */
#ifndef LS_DATA_SOURCE_H
#define LS_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"
#include "text/text.h"

/* A line, or a text that must be encoded at once, is at most this long. */
#define LS_RECORD_MOST ((size_t)64 << 20)

typedef struct ls_input {
    const char *path;
    bool lines;             /* a record per line; else the whole file is one text */
    bool compressed;        /* with zstd */
    int64_t bytes, changed; /* of the file: size; when it was last written, in ns */
} ls_input;

/* A place in the inputs: where a record begins. */
typedef struct ls_place {
    int64_t input;
    int64_t offset; /* in its decompressed bytes */
    int64_t line;   /* from 1; of texts: 1 */
} ls_place;

typedef struct ls_record {
    const char *text;
    size_t bytes;
    ls_place at;
    bool last;       /* of its document */
    const char *bad; /* why it cannot be read; NULL: it can */
} ls_record;

typedef struct ls_source ls_source;

/*
 * Texts that are longer than a batch come in parts which give the ids of the whole: cut at multiples of ls_tokenizer_piece, or where it
 * may be (cut.h); one that does not begin at offset 0 is for ls_tokenizer_encode_rest. All is borrowed.
 */
LS_MUST_USE ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer,
                                     ls_place from, ls_source **out);
void ls_source_close(ls_source *source); /* NULL is allowed */

/*
 * The next records, some 16 MiB of them or one that is longer, good until the next call; *n 0: there are no more. Blank lines are
 * passed over. Memory: 64 MiB at most.
 */
LS_MUST_USE ls_status ls_source_next(ls_source *source, const ls_record **records, size_t *n);
/* Where the record behind those of the last batch begins. */
ls_place ls_source_place(const ls_source *source);

/* The inputs of files, folders and patterns (*, ?, [...]), in the order given; suffixes .jsonl .ndjson .zst say what is in them. */
typedef struct ls_input_list {
    ls_input *input;
    int64_t n;
    struct ls_data_files *files; /* holds the paths */
} ls_input_list;
/* format: "auto", "text" or "jsonl". */
LS_MUST_USE ls_status ls_inputs_find(const char *const *paths, int n, const char *format, ls_input_list *out);
void ls_inputs_free(ls_input_list *list);

#endif
