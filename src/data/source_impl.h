/*
 * data: records from paths. Inputs are the files that the paths mean; a byte stream reads one file and decompresses it;
 * a source reads all files and cuts them into records.
 */
#ifndef LS_DATA_SOURCE_IMPL_H
#define LS_DATA_SOURCE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "format/format.h"
#include "longspan/status.h"
#include "text/text.h"

/* ---- inputs (inputs.c) ---- */

typedef enum ls_input_kind {
    LS_INPUT_TEXT,  /* the file is one text */
    LS_INPUT_LINES, /* a JSON value per line */
    LS_INPUT_VALUES /* a JSON array, or several JSON values */
} ls_input_kind;

typedef struct ls_input {
    const char *path;
    ls_input_kind kind;
    const char *refused;    /* why the file is not read at all; NULL: it is read */
    bool compressed;        /* by its name: the file's size is not that of its text */
    int64_t bytes, changed; /* of the file: size, and time of the last change in ns */
} ls_input;

typedef struct ls_input_list {
    ls_input *input;
    int64_t n;
    struct ls_path_list *paths; /* owns the paths */
} ls_input_list;

/*
 * Finds the files that paths mean, in the order given: files, folders with everything below them, patterns (*, ?,
 * [...]). format is "text", "jsonl" or "json" for all files, or "auto": names that end in .jsonl, .ndjson or .json,
 * also with .gz or .zst appended, are JSON, all others text. A format that cannot be read is an error if the user named
 * the file, and a refused input if the file lies below a folder.
 */
LS_MUST_USE ls_status ls_inputs_find(const char *const *paths, int n, const char *format, ls_input_list *out);
void ls_inputs_free(ls_input_list *list);

/* ---- codecs: a row and a file for each compressed format ---- */

/*
 * One step of decoding consumes bytes at the front of `in` and produces bytes at the front of `out`; both are advanced.
 */
typedef struct ls_codec_step {
    const unsigned char *in;
    size_t in_bytes;
    char *out;
    size_t room;
    bool between; /* the file may end here: no frame or member is incomplete */
} ls_codec_step;

typedef struct ls_codec {
    const char *suffix, *name;
    const char *part;       /* the word for the units that a file consists of: frame, member */
    unsigned char magic[4]; /* the first bytes of a file */
    size_t magic_bytes;
    const char *package;   /* Debian package that is missing in a build without this codec */
    void *(*create)(void); /* NULL: this build lacks the codec. Returns NULL when out of memory */
    /* Returns why the bytes cannot be decoded, or NULL. */
    const char *(*decode)(void *state, ls_codec_step *step);
    void (*destroy)(void *state); /* NULL is allowed */
} ls_codec;

extern const ls_codec ls_codec_zstd, ls_codec_gzip;

/* Finds a codec by the ending of a name; NULL: none. *stem: length of the name without the ending. */
const ls_codec *ls_codec_of_name(const char *name, size_t *stem);
/* Finds a codec by the first bytes of a file; NULL: none. */
const ls_codec *ls_codec_of_bytes(const unsigned char *bytes, size_t n);

/* Whether a file is Parquet, by its name. */
bool ls_name_is_table(const char *name);

/* ---- byte streams (stream.c) ---- */

/*
 * A larger ratio of decompressed to compressed bytes is an error: no text compresses that well, and a small file must
 * not fill the memory.
 */
#define LS_STREAM_MOST_RATIO 1024

typedef struct ls_byte_stream ls_byte_stream;

/* How the files store characters. */
typedef enum ls_encoding { LS_UTF_8, LS_LATIN_1 } ls_encoding;
/* NULL: utf-8. LS_USAGE lists the known names. */
LS_MUST_USE ls_status ls_encoding_find(const char *name, ls_encoding *out);

/*
 * Opens a file, whose bytes are read as UTF-8, whatever its encoding is. It is decompressed if its first bytes or,
 * failing these, its name say that it is compressed. The bytes of Parquet are its rows as lines of JSON. LS_UNSUPPORTED
 * if this build lacks the codec. The path is borrowed.
 */
LS_MUST_USE ls_status ls_stream_open(const char *path, ls_encoding encoding, ls_byte_stream **out);
/*
 * Reads `room` bytes, or fewer at the end of the file. After an error, *bytes is the number that was read before it.
 * LS_INVALID: the rest cannot be decompressed, and ls_stream_broken says why.
 */
LS_MUST_USE ls_status ls_stream_read(ls_byte_stream *stream, char *out, size_t room, size_t *bytes);
/* the reason, without the file's name; NULL: the file is intact so far */
const char *ls_stream_broken(const ls_byte_stream *stream);
/* Skips bytes of the decompressed UTF-8 text. LS_INVALID if there are fewer. */
LS_MUST_USE ls_status ls_stream_skip(ls_byte_stream *stream, int64_t bytes);
void ls_stream_close(ls_byte_stream *stream); /* NULL is allowed */

/* ---- records (source.c) ---- */

/* Default of the most bytes of a record, which must be in memory at once. */
#define LS_RECORD_MOST ((int64_t)1 << 30)

/* Where a record begins. */
typedef struct ls_place {
    int64_t input;
    int64_t offset; /* in the decompressed UTF-8 bytes of the input */
    int64_t line;   /* from 1; always 1 in text inputs */
} ls_place;

/* A line of JSON, a JSON value, or a text or a part of one. */
typedef struct ls_text_record {
    const char *text;
    size_t bytes;
    ls_place at;
    bool last;       /* the record ends its document */
    const char *bad; /* why it cannot be read; NULL: it can */
    bool rest;       /* bad: the rest of the file is skipped too */
    bool binary;     /* bad: the file is not text */
} ls_text_record;

typedef struct ls_source ls_source;

/*
 * Reads the inputs from a place on. A text longer than a batch is returned in parts, cut so that the ids of the parts
 * together are those of the whole: at multiples of ls_tokenizer_piece, or by ls_text_cut. A part with at.offset > 0 is
 * for ls_tokenizer_encode_rest. All arguments are borrowed. most: bytes of a record; 0: LS_RECORD_MOST.
 */
LS_MUST_USE ls_status ls_source_open(const ls_input *inputs, int64_t n, const ls_tokenizer *tokenizer, ls_place from,
                                     int64_t most, ls_encoding encoding, ls_source **out);
void ls_source_close(ls_source *source); /* NULL is allowed */

/*
 * The next batch of records: about 16 MiB, or a single longer record. Valid until the next call. *n is 0 at the end.
 * Blank lines are skipped. Uses 32 MiB of memory, or twice the longest record.
 */
LS_MUST_USE ls_status ls_source_next(ls_source *source, const ls_text_record **records, size_t *n);
/* Where the record after the last batch begins. */
ls_place ls_source_place(const ls_source *source);

/*
 * Finds where to cut a long text so that the ids of its two parts together are those of the whole. *out: bytes of the
 * first part, about `wanted` or more; the second part is for ls_tokenizer_encode_rest. If the tokenizer does not know
 * such places (ls_tokenizer_cut), searches for the end of a line around which the text has the same ids encoded as one
 * and as two parts. 0: no place was found.
 */
LS_MUST_USE ls_status ls_text_cut(const ls_tokenizer *tokenizer, const char *text, size_t bytes, size_t wanted,
                                  size_t *out);

#endif
