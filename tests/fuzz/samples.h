/* Training sequences, for the targets of texts and of token shards. */
#ifndef FUZZ_SAMPLES_H
#define FUZZ_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

enum { FUZZ_LONGEST_SEQUENCE = 64 };

/* Opens a path as every packer's data and checks what is read: ids and labels in range, documents that cover the sequence. */
void fuzz_check_samples(const char *path, int64_t sequence, bool shuffle);
uint64_t fuzz_bytes_fingerprint(void); /* of the tokenizer that the data is opened with */

#endif
