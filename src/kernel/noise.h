/*
 * The random numbers of the kernel noise, for all of its implementations: a function of a token's key and an element's
 * index, by the finaliser of MurmurHash3 (Appleby). NOISE_FUNCTION: the specifiers of a function, such as static
 * inline, or those for a device.
 */
#ifndef LS_KERNEL_NOISE_H
#define LS_KERNEL_NOISE_H

#include <stdint.h>

/* Uniform in [-1, 1), a multiple of 2^-23: exact in f32. */
NOISE_FUNCTION float noise_of(uint32_t key, uint32_t of) {
    uint32_t h = key ^ (of * 0x9e3779b9u + 0x85ebca6bu);
    h = (h ^ (h >> 16)) * 0x85ebca6bu;
    h = (h ^ (h >> 13)) * 0xc2b2ae35u;
    h ^= h >> 16;
    return (float)((int32_t)(h >> 8) - (1 << 23)) * 0x1p-23f;
}

#endif
