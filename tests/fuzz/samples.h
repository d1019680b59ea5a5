/* Training sequences, for the targets of texts and of token shards. */
#ifndef FUZZ_SAMPLES_H
#define FUZZ_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "fuzz/fuzz.h"

enum { FUZZ_LONGEST_SEQUENCE = 64, FUZZ_SHARDS = 2 };
#define FUZZ_REQUEST 0xf022 /* of journals and lists of shards */

/* Opens a path as every packer's data and checks what is read: ids and labels in range, documents that cover the sequence. */
void fuzz_check_samples(const char *path, int64_t sequence, bool shuffle);
/* shard-000000.tokens: "one" and "two"; shard-000001.tokens: "three". */
void fuzz_put_shards(const fuzz_folder *folder);
uint64_t fuzz_bytes_fingerprint(void); /* of the tokenizer that the data is opened with */

#endif
