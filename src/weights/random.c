/*
 * First weights: norms 1 (or as the rule says), biases 0, matrices normal. Numbers 4b .. 4b+3 of a parameter come from one Philox block with the
 * key (seed) and the counter (b, the parameter's name), by two Box-Muller pairs: any part can be made by itself.
 */
#include "weights/weights_impl.h"

#include <math.h>
#include <string.h>

/* In (0, 1): the logarithm of both ends is finite. */
static double to_unit(uint32_t word) { return ((double)word + 0.5) * 0x1p-32; }

static void normal_pair(uint32_t a, uint32_t b, double deviation, double out[2]) {
    const double two_pi = 6.283185307179586476925286766559;
    const double radius = deviation * sqrt(-2.0 * log(to_unit(a)));
    double sine, cosine;
    sincos(two_pi * to_unit(b), &sine, &cosine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

static void normal_block(uint64_t seed, uint64_t stream, uint64_t block, double deviation, double out[4]) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
    uint32_t words[4];
    ls_philox(key, counter, words);
    normal_pair(words[0], words[1], deviation, out);
    normal_pair(words[2], words[3], deviation, out + 2);
}

static void fill_constant(double value, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) out[i] = value;
}

void ls_weights_random(const ls_flat *flat, const ls_random_rule *rule, int64_t start, int64_t count,
                       double *out) {
    if (flat->shape.ndim < 2) {
        const size_t length = strlen(flat->name), n = strlen(".bias");
        const bool bias = length >= n && strcmp(flat->name + length - n, ".bias") == 0;
        fill_constant(bias ? 0.0 : rule->norm, count, out);
        return;
    }
    const uint64_t stream = ls_rng_stream(flat->name);
    for (int64_t i = 0; i < count;) {
        const int64_t at = start + i, within = at % 4;
        double four[4];
        normal_block(rule->seed, stream, (uint64_t)(at / 4), rule->deviation, four);
        const int64_t n = ls_min(4 - within, count - i);
        memcpy(out + i, four + within, sizeof *out * (size_t)n);
        i += n;
    }
}
