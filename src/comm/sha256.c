#include "comm/sha256_impl.h"

#include <string.h>

/* ---- SHA-256, as in FIPS 180-4 ---- */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static uint32_t read_big(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_big(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void take_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], v[8]; /* v: a to h of the standard */
    for (int t = 0; t < 16; t++) w[t] = read_big(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        const uint32_t s0 = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3;
        const uint32_t s1 = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    memcpy(v, state, sizeof v);
    for (int t = 0; t < 64; t++) {
        const uint32_t s1 = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
        const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        const uint32_t s0 = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
        const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        const uint32_t t1 = v[7] + s1 + choice + K[t] + w[t], t2 = s0 + majority;
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void ls_sha256_begin(ls_sha256 *hash) {
    /* The first 32 bits of the fractional parts of the square roots of the first 8 primes. */
    *hash = (ls_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void ls_sha256_add(ls_sha256 *hash, const void *data, size_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        const size_t at = hash->bytes % LS_SHA256_BLOCK, room = LS_SHA256_BLOCK - at;
        const size_t some = bytes < room ? bytes : room;
        memcpy(hash->block + at, from, some);
        hash->bytes += some;
        from += some;
        bytes -= some;
        if (some == room) take_block(hash->state, hash->block);
    }
}

void ls_sha256_end(ls_sha256 *hash, uint8_t out[LS_SHA256_BYTES]) {
    static const uint8_t padding[LS_SHA256_BLOCK] = {0x80};
    const uint64_t bits = hash->bytes * 8;
    const size_t at = hash->bytes % LS_SHA256_BLOCK;
    uint8_t length[8];
    write_big(length, (uint32_t)(bits >> 32));
    write_big(length + 4, (uint32_t)bits);
    ls_sha256_add(hash, padding, (at < 56 ? 56 : 120) - at);
    ls_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) write_big(out + 4 * i, hash->state[i]);
}

/* ---- HMAC, as in RFC 2104 ---- */

void ls_hmac_begin(ls_hmac *mac, const void *key, size_t bytes) {
    uint8_t block[LS_SHA256_BLOCK] = {0}, inner[LS_SHA256_BLOCK], outer[LS_SHA256_BLOCK];
    if (bytes > sizeof block) {
        ls_sha256_begin(&mac->inner);
        ls_sha256_add(&mac->inner, key, bytes);
        ls_sha256_end(&mac->inner, block);
    } else if (bytes > 0) {
        memcpy(block, key, bytes);
    }
    for (size_t i = 0; i < sizeof block; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    ls_sha256_begin(&mac->inner);
    ls_sha256_add(&mac->inner, inner, sizeof inner);
    ls_sha256_begin(&mac->outer);
    ls_sha256_add(&mac->outer, outer, sizeof outer);
}

void ls_hmac_add(ls_hmac *mac, const void *data, size_t bytes) { ls_sha256_add(&mac->inner, data, bytes); }

void ls_hmac_end(ls_hmac *mac, uint8_t out[LS_SHA256_BYTES]) {
    uint8_t inner[LS_SHA256_BYTES];
    ls_sha256_end(&mac->inner, inner);
    ls_sha256_add(&mac->outer, inner, sizeof inner);
    ls_sha256_end(&mac->outer, out);
}

bool ls_is_same_code(const uint8_t a[LS_SHA256_BYTES], const uint8_t b[LS_SHA256_BYTES]) {
    volatile uint8_t differ = 0;
    for (int i = 0; i < LS_SHA256_BYTES; i++) differ |= a[i] ^ b[i];
    return differ == 0;
}
