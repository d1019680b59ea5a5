/* XXH64, as its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) says; input of one go. */
#include "base/hash.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t read64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x); /* all machines that are supported are little-endian, like the files' numbers */
    return x;
}

static uint32_t read32(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t mix_lane(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge_lane(uint64_t hash, uint64_t lane) { return (hash ^ mix_lane(0, lane)) * P1 + P4; }

/* Four lanes over blocks of 32 bytes; *p is moved on. */
static uint64_t hash_blocks(const unsigned char **p, size_t blocks) {
    uint64_t lane[4] = {P1 + P2, P2, 0, 0 - P1};
    for (; blocks > 0; blocks--, *p += 32)
        for (int i = 0; i < 4; i++) lane[i] = mix_lane(lane[i], read64(*p + 8 * i));
    uint64_t hash = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    for (int i = 0; i < 4; i++) hash = merge_lane(hash, lane[i]);
    return hash;
}

uint64_t ls_hash_bytes(const void *data, size_t bytes) {
    const unsigned char *p = data;
    size_t left = bytes % 32;
    uint64_t hash = bytes >= 32 ? hash_blocks(&p, bytes / 32) : P5;
    hash += bytes;
    for (; left >= 8; left -= 8, p += 8) hash = rotate(hash ^ mix_lane(0, read64(p)), 27) * P1 + P4;
    for (; left >= 4; left -= 4, p += 4) hash = rotate(hash ^ (uint64_t)read32(p) * P1, 23) * P2 + P3;
    for (; left >= 1; left--, p++) hash = rotate(hash ^ *p * P5, 11) * P1;
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}
