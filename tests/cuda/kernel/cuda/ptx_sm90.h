/* The instructions of src/kernel/cuda/ptx_sm90.h, for a host without a GPU (cuda_runtime.h). */
#ifndef LS_CUDA_PTX_SM90_H
#define LS_CUDA_PTX_SM90_H

#include "kernel/cuda/ptx.h"
#include "products.h"

#define LS_HAS_WARP_GROUPS true

enum ls_order { LS_SUMMED_SIDE_BY_SIDE = 0, LS_OTHERS_SIDE_BY_SIDE = 1 };

static inline uint64_t ls_descriptor(const void *at, unsigned leading, unsigned stride) {
    const uint64_t address = (uint64_t)((const char *)at - emulation::shared_memory);
    return (address & 0x3ffffU) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ULL << 62;
}

template <ls_order B, int TILES>
static inline void ls_multiply(float (&d)[TILES][4], const unsigned (&a)[4], uint64_t b, bool adds,
                               emulation::place at = emulation::place::current()) {
    emulation::multiply({d[0], TILES, a, 0, b, false, B == LS_OTHERS_SIDE_BY_SIDE, adds}, at);
}
template <ls_order A, ls_order B, int TILES>
static inline void ls_multiply(float (&d)[TILES][4], uint64_t a, uint64_t b, bool adds,
                               emulation::place at = emulation::place::current()) {
    emulation::multiply({d[0], TILES, nullptr, a, b, A == LS_OTHERS_SIDE_BY_SIDE, B == LS_OTHERS_SIDE_BY_SIDE, adds},
                        at);
}

template <typename... T> static inline void ls_products_fence(T &...used) {
    const emulation::registers all[] = {{&used, sizeof used}...};
    emulation::fence_products(all, sizeof...(used));
}
static inline void ls_products_commit() { emulation::commit_products(); }
template <int MOST_OPEN, typename... T> static inline void ls_products_wait(T &...done) {
    const emulation::registers all[] = {{&done, sizeof done}...};
    emulation::wait_products(MOST_OPEN, all, sizeof...(done));
}

static inline void ls_shared_fence() { emulation::fence_shared(); }

static inline float ls_exp2(float x) {
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0 : y;
}

#endif
