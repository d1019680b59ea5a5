/* Data: text to token shards. Paths and texts are borrowed for the call. */
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
    const char *format;     /* "auto", "text", "jsonl", "json" */
    const char *field;      /* JSON: the field that has the text */
    const char *records;    /* JSON: what a record is: "text", "messages" and so on (see the command's help) */
    const char *chat;       /* messages: a known form, a template of the tokenizer, or a file; NULL: its own */
    const char *system;     /* messages: system message for conversations without one; NULL: none is added */
    const char *today;      /* messages: YYYY-MM-DD, the day that templates write; NULL: the current day */
    const char *begin;      /* a token before each document, "none", or "auto": as the tokenizer's files say */
    const char *end;        /* a token after each document, "none", or "auto": the tokenizer's end of document */
    int64_t longest_record; /* largest number of bytes of a record */
    bool skip_bad;          /* leave out and count records that cannot be read, instead of failing */
    /*
     * What to do with a document that is too long: "drop", "cut" (keep its beginning), "split" (into several
     * documents), or "auto": conversations and completions are cut, since their later parts would lack the question;
     * texts are split.
     */
    const char *too_long;
    const char *encoding; /* of the files: "utf-8" or "latin-1" */
} ls_text_form;

/* The most words of a teacher (the likeliest ones) that a record may have for a token. */
enum { LS_MOST_TEACHER = 64 };

/* What is left out of the records, or is not learnt. */
typedef struct ls_left_out {
    int64_t silent;    /* answers not learnt: their weight is 0, their train false, or they are in the prompt */
    int64_t detail;    /* characters of answers not learnt, as their train_detail says */
    int64_t changed;   /* answers not learnt: the template writes them differently once the conversation goes on */
    int64_t reduced;   /* answers learnt without what the template adds if an answer is the last message */
    int64_t thinking;  /* characters of the messages' reasoning that the template leaves out */
    int64_t unwritten; /* characters of the messages' contents that the template leaves out */
    int64_t padding;   /* tokens whose attention_mask is 0 */
    int64_t longer;    /* documents longer than allowed; too_long says what happens to them */
    int64_t unlearnt;  /* those of them that are dropped, or would have no label left after cutting */
    int64_t tokens;    /* tokens left out by cutting and dropping */
} ls_left_out;

/* The fields are the flags of `longspan data build`; zero and NULL mean the default that the command's help shows. */
typedef struct ls_data_build_job {
    const char *tokenizer;    /* folder with a tokenizer.json; NULL: bytes are tokens */
    const char *const *paths; /* files, folders, patterns */
    int n_paths;
    const char *out;
    ls_text_form form;
    int64_t shard_tokens, threads;
    int64_t longest; /* largest number of tokens of a document, without the token after it; 0: no limit */
    bool resume;
} ls_data_build_job;

typedef struct ls_data_build_result {
    int64_t inputs, input_bytes;
    int64_t documents, tokens, longest; /* longest: tokens of the longest document */
    int64_t learnt;                     /* tokens that count as labels */
    int64_t empty, bad;                 /* records left out */
    ls_left_out left_out;
    int64_t shards, resumed;   /* resumed: shards that an earlier build had already written */
    char begin[100], end[100]; /* the tokens before and after each document as text, or "none" */
    double seconds;
} ls_data_build_result;

/*
 * Writes token shards to the folder job->out (src/data/shard.h describes it). Blocks until they are written, or an
 * error occurs.
 */
LS_MUST_USE ls_status ls_run_data_build(const ls_data_build_job *job, ls_data_build_result *result);

LS_PUBLIC_END

#endif
