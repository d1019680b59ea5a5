/*
 * Data: text to token shards, what is in shards, and text to token ids. Paths and texts are borrowed for the call.
 */
#ifndef LONGSPAN_DATA_H
#define LONGSPAN_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/*
 * How texts become documents: the flags of every command that reads texts. Zero and NULL mean the default that the
 * command's help shows.
 */
typedef struct ls_text_form {
    const char *format;  /* "auto", "text", "jsonl", "json" */
    const char *field;   /* of JSON: where the text is */
    const char *records; /* of JSON: what a record is: "text", "messages" and so on (the command's help) */
    const char
        *chat; /* of messages: a published form, a template of the tokenizer, or a file; NULL: the tokenizer's own */
    const char *system;     /* of messages: system message for conversations without one; NULL: none is added */
    const char *today;      /* of messages: YYYY-MM-DD, the day that templates write; NULL: the current day */
    const char *begin;      /* a token before each document, "none", or "auto": what the tokenizer's files say */
    const char *end;        /* a token after each document, "none", or "auto": the tokenizer's end of document */
    int64_t longest_record; /* most bytes of a record */
    bool skip_bad;          /* records that cannot be read are left out and counted, not errors */
    /*
     * What becomes of a document that is too long: "drop", "cut" (its beginning is kept), "split" (into several), or
     * "auto": conversations and completions are cut, since their later parts would lack the question; texts are split.
     */
    const char *too_long;
    const char *encoding; /* of the files: "utf-8" or "latin-1" */
} ls_text_form;

/* Likeliest words of a teacher that records may have for a token, at most. */
enum { LS_MOST_TEACHER = 64 };

/* What of the records is not learnt, or left out. */
typedef struct ls_left_out {
    int64_t silent;  /* answers that are not learnt: their weight is 0, their train false, or they are in the prompt */
    int64_t detail;  /* characters of answers that are not learnt, as their train_detail says */
    int64_t changed; /* answers that are not learnt: the template writes them otherwise once the conversation goes on */
    int64_t reduced; /* answers that are learnt without what the template adds where an answer is the last message */
    int64_t thinking;  /* characters of the messages' reasoning that the template does not write */
    int64_t unwritten; /* characters of the messages' contents that it does not write */
    int64_t padding;   /* tokens whose attention_mask is 0 */
    int64_t longer;    /* documents that are longer than allowed, of which too_long says what becomes */
    int64_t unlearnt;  /* of these, those that are dropped, or would have nothing to learn once they are cut */
    int64_t tokens;    /* that cutting and dropping left out */
} ls_left_out;

/* Fields are the flags of `longspan data build`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_data_build_job {
    const char *tokenizer;    /* folder of a tokenizer.json; NULL: bytes */
    const char *const *paths; /* files, folders, patterns */
    int n_paths;
    const char *out;
    ls_text_form form;
    int64_t shard_tokens, threads;
    int64_t longest; /* most tokens of a document, without the token after it; 0: any number */
    bool resume;
} ls_data_build_job;

typedef struct ls_data_build_result {
    int64_t inputs, input_bytes;
    int64_t documents, tokens, longest; /* longest: tokens of the longest document */
    int64_t learnt;                     /* tokens that count as labels */
    int64_t empty, bad;                 /* records left out */
    ls_left_out left_out;
    int64_t shards, resumed;   /* resumed: shards that an earlier build had written */
    char begin[100], end[100]; /* what stands around each document: texts of tokens, or "none" */
    double seconds;
} ls_data_build_result;

/* Returns when the shards are written, or on an error. src/data/shard.h describes the folder. */
LS_MUST_USE ls_status ls_run_data_build(const ls_data_build_job *job, ls_data_build_result *result);

LS_PUBLIC_END

#endif
