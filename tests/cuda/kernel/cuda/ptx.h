/* The instructions of src/kernel/cuda/ptx.h, for a host without a GPU (cuda_runtime.h). */
#ifndef LS_CUDA_PTX_H
#define LS_CUDA_PTX_H

#include "cuda_bf16.h"

#define LS_DYNAMIC_SHARED(name) unsigned char *const name = (unsigned char *)emulation::shared_memory

static inline float emulated_half(unsigned pair, int which) {
    return __bfloat162float({(uint16_t)(which ? pair >> 16 : pair & 0xffffU)});
}

static inline void ls_mma(float d[4], const unsigned a[4], const unsigned b[2],
                          emulation::place at = emulation::place::current()) {
    const unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const char *all = emulation::exchange("mma", emulation::ALL_LANES, mine, sizeof mine, at);
    const int lane = (int)(emulation::number % 32), g = lane / 4, t = lane % 4;
    float rows[2][16], columns[2][16];
    for (int k = 0; k < 16; k++) {
        for (int i = 0; i < 2; i++) {
            unsigned of_a[6], of_b[6];
            memcpy(of_a, all + (g * 4 + k % 8 / 2) * emulation::EXCHANGE, sizeof of_a);
            memcpy(of_b, all + ((2 * t + i) * 4 + k % 8 / 2) * emulation::EXCHANGE, sizeof of_b);
            rows[i][k] = emulated_half(of_a[i + 2 * (k / 8)], k % 2);
            columns[i][k] = emulated_half(of_b[4 + k / 8], k % 2);
        }
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) d[i] += rows[i / 2][k] * columns[i % 2][k];
}

static inline void emulated_load(unsigned r[4], const void *row, bool transposed, const emulation::place &at) {
    const char *all = emulation::exchange("ldmatrix", emulation::ALL_LANES, &row, sizeof row, at);
    const int lane = (int)(emulation::number % 32), g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (int h = 0; h < 2; h++) {
            const uint16_t *from;
            memcpy(&from, all + (8 * i + (transposed ? 2 * t + h : g)) * emulation::EXCHANGE, sizeof from);
            pair[h] = from[transposed ? g : 2 * t + h];
        }
        r[i] = (unsigned)pair[0] | (unsigned)pair[1] << 16;
    }
    emulation::meet("ldmatrix", emulation::ALL_LANES, at);
}
static inline void ls_load_matrices(unsigned r[4], const void *row, emulation::place at = emulation::place::current()) {
    emulated_load(r, row, false, at);
}
static inline void ls_load_transposed(unsigned r[4], const void *row,
                                      emulation::place at = emulation::place::current()) {
    emulated_load(r, row, true, at);
}

static inline void ls_copy_16(void *shared, const void *global, bool is) {
    static const char zeros[16] = {0};
    if (((uintptr_t)shared | (uintptr_t)global) % 16 != 0) {
        fprintf(stderr, "emulation of CUDA: cp.async of unaligned addresses\n");
        abort();
    }
    emulation::copy_later(shared, is ? global : zeros, 16);
}
static inline void ls_copy_commit() { emulation::commit_copies(); }
template <int MOST_OPEN> static inline void ls_copy_wait() { emulation::wait_copies(MOST_OPEN); }

#endif
