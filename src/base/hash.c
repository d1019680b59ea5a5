#include "base/base.h"

#include <string.h>

/* ---- XXH64, as in github.com/Cyan4973/xxHash, doc/xxhash_spec.md ---- */

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t read64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x); /* every supported machine is little-endian, as the specification is */
    return x;
}

static uint32_t read32(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint64_t mix_lane(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge_lane(uint64_t hash, uint64_t lane) { return (hash ^ mix_lane(0, lane)) * P1 + P4; }

/* Hashes blocks of 32 bytes in four lanes, and moves *p past them. */
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

/* ---- SipHash-1-3 ---- */

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t ls_hash_keyed(const void *data, size_t bytes, uint64_t key) {
    const unsigned char *p = data;
    const uint64_t second = key * P1; /* the algorithm has two keys of 64 bits: `key` and this one */
    uint64_t v[4] = {0x736f6d6570736575u ^ key, 0x646f72616e646f6du ^ second, 0x6c7967656e657261u ^ key,
                     0x7465646279746573u ^ second},
             last = (uint64_t)bytes << 56;
    for (; bytes >= 8; p += 8, bytes -= 8) sip_word(v, read64(p));
    for (size_t i = 0; i < bytes; i++) last |= (uint64_t)p[i] << (8 * i);
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
