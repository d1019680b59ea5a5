/* Any token shard is refused, or its documents cover its tokens, and every packer makes sequences of it. */
#include "data/data.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void check_shard(const ls_shard *shard) {
    const ls_shard_header *h = shard->header;
    uint64_t at = 0;
    for (uint64_t d = 0; d < h->documents; d++) {
        LS_ASSERT(shard->ends[d] > at && shard->ends[d] <= h->tokens);
        at = shard->ends[d];
    }
    LS_ASSERT(at == h->tokens);
    fuzz_touch(shard->tokens, h->tokens * h->width);
    fuzz_read(ls_shard_verify(shard, NULL), shard->path);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_folder folder = fuzz_folder_make();
    LS_PATH path = NULL;
    ls_shard shard;
    fuzz_folder_put(&folder, "a.tokens", data, bytes);
    fuzz_folder_path(&folder, "a.tokens", &path);
    const bool good = fuzz_read(ls_shard_open(path, &shard), path);
    if (good) {
        check_shard(&shard);
        ls_shard_close(&shard);
    }
    fuzz_check_samples(path, 8, good);
    fuzz_folder_remove(&folder);
}

/* Sets the fingerprint of the tokenizer that reads the shard, and both checksums. */
static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    ls_shard_header header;
    (void)room;
    if (bytes < sizeof header) return bytes;
    memcpy(&header, data, sizeof header);
    header.tokenizer = fuzz_bytes_fingerprint();
    header.checksum = 0;
    if (bytes - sizeof header <= LS_SHARD_BLOCK) {
        const uint64_t block = ls_hash_bytes(data + sizeof header, bytes - sizeof header);
        header.checksum = ls_hash_bytes(&block, bytes > sizeof header ? sizeof block : 0);
    }
    header.header_checksum = ls_hash_bytes(&header, offsetof(ls_shard_header, header_checksum));
    memcpy(data, &header, sizeof header);
    return bytes;
}

const fuzz_target fuzz_shard = {.name = "shard", .run = run, .repair = repair};
