/* What the files of building share. */
#ifndef LS_DATA_BUILD_IMPL_H
#define LS_DATA_BUILD_IMPL_H

#include "data/build.h"
#include "data/documents.h"
#include "data/shard.h"

typedef struct ls_built_shard {
    uint64_t checksum;
    int64_t tokens, documents;
} ls_built_shard;

/* A build as far as it is, and where it goes on. */
typedef struct ls_build_state {
    uint64_t request; /* of what was asked for: options, tokenizer, inputs */
    ls_document_form form;
    ls_place place;
    ls_document_counts count;
    ls_built_shard *shards;
    int64_t n_shards, shard_capacity;
} ls_build_state;

uint64_t ls_build_request(const ls_build_options *options, const ls_build_state *state,
                          const ls_input_list *inputs);
LS_MUST_USE ls_status ls_build_path(const ls_build_options *options, const char *name, char **out);
LS_MUST_USE ls_status ls_build_shard_path(const ls_build_options *options, int64_t shard, char **out);

/* The journal as found: *state goes on from it. done: shards.json is there, of the same request. */
LS_MUST_USE ls_status ls_journal_begin(const ls_build_options *options, ls_build_state *state, bool *done);
LS_MUST_USE ls_status ls_journal_add(const ls_build_options *options, ls_build_state *state,
                                     const ls_shard_header *shard);
/* Of a build that failed before a shard was complete: there is nothing to go on from. */
LS_MUST_USE ls_status ls_journal_drop(const ls_build_options *options);
/* shards.json; then the journal goes. */
LS_MUST_USE ls_status ls_journal_end(const ls_build_options *options, const ls_build_state *state,
                                     const ls_input_list *inputs);

#endif
