/* data: shared by building (build.c) and its journal (journal.c). */
#ifndef LS_DATA_BUILD_IMPL_H
#define LS_DATA_BUILD_IMPL_H

#include "data/build.h"
#include "data/documents_impl.h"
#include "data/shard.h"

typedef struct ls_built_shard {
    uint64_t checksum;
    int64_t tokens, documents;
} ls_built_shard;

/* The state of a build after its last complete shard. */
typedef struct ls_build_state {
    uint64_t request; /* hash of what the shards depend on: options, tokenizer, inputs */
    ls_document_form form;
    ls_place place; /* where the next shard begins */
    ls_document_counts count;
    ls_built_shard *shards;
    int64_t n_shards, shard_capacity;
} ls_build_state;

uint64_t ls_build_request(const ls_build_options *options, const ls_build_state *state, const ls_input_list *inputs);
LS_MUST_USE ls_status ls_build_path(const ls_build_options *options, const char *name, char **out);
LS_MUST_USE ls_status ls_build_shard_path(const ls_build_options *options, int64_t shard, char **out);

/* Reads the journal into *state, or begins a new one. *done: shards.json exists already, with the same request. */
LS_MUST_USE ls_status ls_journal_begin(const ls_build_options *options, ls_build_state *state, bool *done);
/* Adds a complete shard to the state, and a line to the journal. */
LS_MUST_USE ls_status ls_journal_add(const ls_build_options *options, ls_build_state *state,
                                     const ls_shard_header *shard);
/* Removes the journal. */
LS_MUST_USE ls_status ls_journal_drop(const ls_build_options *options);
/* Writes shards.json and removes the journal. */
LS_MUST_USE ls_status ls_journal_end(const ls_build_options *options, const ls_build_state *state,
                                     const ls_input_list *inputs);

#endif
