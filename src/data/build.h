/*
 * Builds a folder of token shards from text (shard.h describes the folder).
 *
 * A shard is renamed when it is complete, so an interrupted build can be resumed after its last complete shard. The
 * same inputs give the same bytes, however often the build was interrupted and whatever the number of threads.
 */
#ifndef LS_DATA_BUILD_H
#define LS_DATA_BUILD_H

#include <signal.h>

#include "longspan/data.h"
#include "text/text.h"

typedef struct ls_build_options {
    const char *const *paths; /* files, folders, patterns */
    int n_paths;
    const char *out;
    const ls_tokenizer *tokenizer; /* borrowed */
    const char *folder;            /* folder of the tokenizer; NULL: none */
    ls_text_form form;             /* how texts become documents */
    int64_t longest;               /* most tokens of a document, without its end; 0: no limit */
    int64_t shard_tokens;          /* a shard with this many tokens is full */
    int threads;
    bool resume;
    const volatile sig_atomic_t *stop; /* if this becomes not 0, the build ends soon and can be resumed; NULL: never */
} ls_build_options;

typedef struct ls_build_summary {
    int64_t inputs, input_bytes;
    int64_t documents, tokens, longest; /* longest: tokens of the longest document */
    int64_t learnt;
    int64_t empty, bad; /* records left out */
    ls_left_out left_out;
    int64_t shards;
    int64_t resumed;           /* shards written by an earlier build */
    char begin[100], end[100]; /* the frame around each document: the texts of tokens, or "none" */
    double seconds;
} ls_build_summary;

/*
 * Uses about 100 MiB of memory besides the tokenizer, plus about ten times the longest record. Errors name the file and
 * the line. LS_INTERRUPTED: the message says what is complete. LS_USAGE: the folder holds complete shards, an
 * unfinished build (without resume), or the build of another request (with resume).
 */
LS_MUST_USE ls_status ls_shards_build(const ls_build_options *options, ls_build_summary *out);

#endif
