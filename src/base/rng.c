#include "base/base.h"

#include <math.h>

/* The constants of Philox4x32 (Random123). */
static const uint32_t MULTIPLIER[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t WEYL[2] = {0x9E3779B9u, 0xBB67AE85u};

void ls_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]) {
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)MULTIPLIER[0] * c0;
        const uint64_t p1 = (uint64_t)MULTIPLIER[1] * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += WEYL[0];
        k1 += WEYL[1];
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The four words of (seed, stream, index). */
static void draw_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    ls_philox(key, counter, out);
}

static uint64_t join_words(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

/* A number in [0, 1) from the upper 53 bits. */
static double to_unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

uint64_t ls_rng_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    draw_block(seed, stream, index, words);
    return join_words(words[0], words[1]);
}

double ls_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    return to_unit(ls_rng_bits(seed, stream, index));
}

double ls_rng_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    const double two_pi = 6.283185307179586476925286766559;
    uint32_t words[4];
    draw_block(seed, stream, index, words);
    const double u = 1.0 - to_unit(join_words(words[0], words[1])); /* (0, 1]: its logarithm is finite */
    const double v = to_unit(join_words(words[2], words[3]));
    return sqrt(-2.0 * log(u)) * cos(two_pi * v);
}

uint64_t ls_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n) {
    LS_ASSERT(n > 0);
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    draw_block(seed, stream, index, words);
    /*
     * The lowest 2^64 mod n values are rejected, so that n divides the number of accepted values. When a block holds
     * only rejected values, it becomes the counter of the next block.
     */
    const uint64_t rejected = -n % n;
    for (;;) {
        for (int half = 0; half < 2; half++) {
            const uint64_t bits = join_words(words[2 * half], words[2 * half + 1]);
            if (bits >= rejected) return bits % n;
        }
        uint32_t next[4];
        ls_philox(key, words, next);
        for (int i = 0; i < 4; i++) words[i] = next[i];
    }
}

uint64_t ls_rng_stream(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}
