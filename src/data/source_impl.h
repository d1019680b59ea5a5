/* What the files of source share: a file's bytes in a buffer, from which records are taken. */
#ifndef LS_DATA_SOURCE_IMPL_H
#define LS_DATA_SOURCE_IMPL_H

#include "base/base.h"
#include "data/source.h"
#include "data/stream.h"

enum { LS_SOURCE_RECORDS = 1 << 18 }; /* of a batch */

struct ls_source {
    const ls_input *inputs;
    int64_t n_inputs;
    size_t piece; /* of the tokenizer */
    const ls_tokenizer *tokenizer;
    size_t most;    /* bytes of a record */
    ls_place place; /* of buffer[begin]: where the next record begins */
    ls_byte_stream *stream;
    bool ended;       /* nothing is left of the stream */
    char broken[200]; /* why it ended too early; empty: it did not */
    bool dropped;     /* the rest of the file */
    bool array;       /* of values: they are the items of an array */
    int64_t from;     /* of values: those that begin before this offset were read by another build */
    enum { LS_OPENING, LS_VALUE_OR_END, LS_VALUE, LS_COMMA_OR_END, LS_CLOSED } next;
    char *buffer;
    size_t room, begin, filled;
    ls_text_record *records; /* [LS_SOURCE_RECORDS] */
    size_t n;
    char why[160]; /* of a record that is too long */
};

static inline const ls_input *ls_source_input(const ls_source *s) { return &s->inputs[s->place.input]; }

/* --- source.c --- */

/* More of the stream into the buffer. */
LS_MUST_USE ls_status ls_source_fill(ls_source *source);
/* The next bytes of the buffer are a record, and `skip` behind them are passed over. */
void ls_source_take(ls_source *source, size_t bytes, size_t skip, bool last);
/* The next bytes of the buffer are none. */
void ls_source_pass(ls_source *source, size_t bytes);
/* A byte order mark at the beginning of a file is no part of it. */
void ls_source_pass_mark(ls_source *source);
/* A bad record at a place, with the rest of the file. */
void ls_source_drop(ls_source *source, ls_place at, const char *why, bool binary);

/* --- what records of each kind are: source_lines.c, source_values.c, source_text.c --- */

typedef struct ls_source_kind {
    ls_status (*begin)(ls_source *source);    /* of a file, at any place in it; NULL: nothing to do */
    ls_status (*take)(ls_source *source);     /* the records that lie in the buffer as a whole */
    ls_status (*too_long)(ls_source *source); /* the buffer holds less than one, and may not grow */
} ls_source_kind;

extern const ls_source_kind ls_source_lines, ls_source_values, ls_source_text;

#endif
