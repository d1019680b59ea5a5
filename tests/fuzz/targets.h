/* The rows of fuzz_targets, one in each file. */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include "fuzz/fuzz.h"

extern const fuzz_target fuzz_checkpoint, fuzz_config, fuzz_data_text, fuzz_host_rates, fuzz_json,
    fuzz_json_edit, fuzz_jsonl, fuzz_mask, fuzz_npy, fuzz_options, fuzz_run_json, fuzz_safetensors,
    fuzz_shard, fuzz_tokenizer, fuzz_utf8, fuzz_weight_index;

#endif
