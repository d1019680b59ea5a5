/* The rows of fuzz_targets, one in each file. */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include "fuzz/fuzz.h"
#include "text/text.h"

extern const fuzz_target fuzz_added, fuzz_checkpoint, fuzz_config, fuzz_data_text, fuzz_export, fuzz_graph,
    fuzz_host_rates, fuzz_jinja, fuzz_journal, fuzz_json, fuzz_json_edit, fuzz_jsonl, fuzz_mask, fuzz_npy,
    fuzz_options, fuzz_records, fuzz_rope_change, fuzz_run_json, fuzz_safetensors, fuzz_shard, fuzz_shards,
    fuzz_source, fuzz_stream, fuzz_tokenizer, fuzz_tokenizer_config, fuzz_utf8, fuzz_vocabulary_files,
    fuzz_weight_index, fuzz_weights;

/* Of safetensors, for all targets that read them: the length of the header. */
size_t fuzz_safetensors_repair(uint8_t *data, size_t bytes, size_t room);

/* What a tokenizer promises of a text: the same ids again, and in parts where it may be cut; text from them at once and one by one. */
void fuzz_check_text(const ls_tokenizer *tokenizer, const char *text, size_t bytes);

#endif
