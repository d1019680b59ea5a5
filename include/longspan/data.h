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
    const char *records; /* of JSON: what a record is: "text", "completion", "messages" */
    const char
        *chat; /* of messages: a published form, a template of the tokenizer, or a file; NULL: the tokenizer's own */
    const char *system;     /* of messages: system message for conversations without one; NULL: none is added */
    const char *today;      /* of messages: YYYY-MM-DD, the day that templates write; NULL: the current day */
    const char *begin;      /* a token before each document, "none", or "auto": what the tokenizer's files say */
    const char *end;        /* a token after each document, "none", or "auto": the tokenizer's end of document */
    int64_t longest_record; /* most bytes of a record */
    bool skip_bad;          /* records that cannot be read are left out and counted, not errors */
} ls_text_form;

/* Fields are the flags of `longspan data build`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_data_build_job {
    const char *tokenizer;    /* folder of a tokenizer.json; NULL: bytes */
    const char *const *paths; /* files, folders, patterns */
    int n_paths;
    const char *out;
    ls_text_form form;
    int64_t shard_tokens, threads;
    bool resume;
} ls_data_build_job;

typedef struct ls_data_build_result {
    int64_t inputs, input_bytes;
    int64_t documents, tokens, longest; /* longest: tokens of the longest document */
    int64_t empty, bad;                 /* records left out */
    int64_t shards, resumed;            /* resumed: shards that an earlier build had written */
    char begin[100], end[100];          /* what stands around each document: texts of tokens, or "none" */
    double seconds;
} ls_data_build_result;

/* Returns when the shards are written, or on an error. src/data/shard.h describes the folder. */
LS_MUST_USE ls_status ls_run_data_build(const ls_data_build_job *job, ls_data_build_result *result);

LS_PUBLIC_END

#endif
