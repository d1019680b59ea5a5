/*
 * Text to a folder of token shards.
 *
 *   DIR/shard-000000.tokens ...   documents in the order of the inputs; a shard ends with the document that fills it
 *   DIR/shards.json               written last: the tokenizer, the totals, the shards with their checksums
 *   DIR/build.jsonl               while it is being built: what was asked for, then a line per shard and where the next one begins
 *
 * Shards are written whole and renamed, so that a build that was killed goes on behind its last shard; the same inputs give the same
 * bytes, however often it was killed and whatever the number of threads.
 */
#ifndef LS_DATA_BUILD_H
#define LS_DATA_BUILD_H

#include <signal.h>

#include "longspan/data.h"
#include "text/text.h"

#define LS_SHARDS_FILE "shards.json"
#define LS_SHARDS_JOURNAL "build.jsonl"
#define LS_SHARDS_FORMAT "longspan token shards 1"

typedef struct ls_build_options {
    const char *const *paths; /* files, folders, patterns */
    int n_paths;
    const char *out;
    const ls_tokenizer *tokenizer; /* borrowed */
    const char *folder;            /* its own; NULL: it has none */
    ls_text_form form;             /* how texts become documents */
    int64_t shard_tokens;          /* a shard is full with this many */
    int threads;
    bool resume;
    const volatile sig_atomic_t *stop; /* not 0: end soon, to be gone on with; NULL: never */
} ls_build_options;

typedef struct ls_build_summary {
    int64_t inputs, input_bytes;
    int64_t documents, tokens, longest;
    int64_t empty, bad; /* records left out */
    int64_t shards;
    int64_t resumed;           /* shards that an earlier build had written */
    char begin[100], end[100]; /* what was put around each document: tokens' texts, or "none" */
    double seconds;
} ls_build_summary;

/*
 * Memory: some 100 MiB beside the tokenizer, and some ten times the longest record.
 * LS_INTERRUPTED says what is complete. Errors name the file and the line. A folder that holds shards already, or a build that was not finished (without resume) or was
 * asked for something else (with resume), is LS_USAGE.
 */
LS_MUST_USE ls_status ls_shards_build(const ls_build_options *options, ls_build_summary *out);

#endif
