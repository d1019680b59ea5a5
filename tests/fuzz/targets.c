/* Every fuzz target. */
#include "fuzz/targets.h"

const fuzz_target *const fuzz_targets[] = {
    &fuzz_checkpoint, &fuzz_config,    &fuzz_data_text, &fuzz_host_rates,   &fuzz_json,     &fuzz_json_edit,
    &fuzz_jsonl,      &fuzz_mask,      &fuzz_npy,       &fuzz_options,      &fuzz_run_json, &fuzz_safetensors,
    &fuzz_shard,      &fuzz_tokenizer, &fuzz_utf8,      &fuzz_weight_index,
};
const int fuzz_target_count = LS_COUNT(fuzz_targets);
