/* The rows of fuzz_targets, one in each file. */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include "fuzz/fuzz.h"

extern const fuzz_target fuzz_checkpoint, fuzz_config, fuzz_data_text, fuzz_export, fuzz_host_rates,
    fuzz_jinja, fuzz_journal, fuzz_json, fuzz_json_edit, fuzz_jsonl, fuzz_mask, fuzz_npy, fuzz_options,
    fuzz_records, fuzz_rope_change, fuzz_run_json, fuzz_safetensors, fuzz_shard, fuzz_shards, fuzz_source,
    fuzz_stream, fuzz_tokenizer, fuzz_tokenizer_config, fuzz_utf8, fuzz_vocabulary_files, fuzz_weight_index,
    fuzz_weights;

/* Of safetensors, for all targets that read them: the length of the header. */
size_t fuzz_safetensors_repair(uint8_t *data, size_t bytes, size_t room);

#endif
