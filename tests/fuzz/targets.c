/* Every fuzz target. */
#include "fuzz/targets.h"

const fuzz_target *const fuzz_targets[] = {
    &fuzz_checkpoint,
    &fuzz_config,
    &fuzz_data_text,
    &fuzz_export,
    &fuzz_host_rates,
    &fuzz_jinja,
    &fuzz_journal,
    &fuzz_json,
    &fuzz_json_edit,
    &fuzz_jsonl,
    &fuzz_mask,
    &fuzz_npy,
    &fuzz_options,
    &fuzz_records,
    &fuzz_rope_change,
    &fuzz_run_json,
    &fuzz_safetensors,
    &fuzz_shard,
    &fuzz_shards,
    &fuzz_source,
    &fuzz_stream,
    &fuzz_tokenizer,
    &fuzz_tokenizer_config,
    &fuzz_utf8,
    &fuzz_vocabulary_files,
    &fuzz_weight_index,
    &fuzz_weights,
};
const int fuzz_target_count = LS_COUNT(fuzz_targets);
