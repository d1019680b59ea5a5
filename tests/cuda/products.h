/*
 * What the instructions of src/kernel/cuda/ptx_sm90.h do, for the emulation of CUDA. A product reads its operands when
 * it is given, and they must be the same when it is waited for. Until then its sums are NaN and must not be written.
 */
#ifndef LS_TESTS_CUDA_PRODUCTS_H
#define LS_TESTS_CUDA_PRODUCTS_H

#include "warps.h"

#include <cstddef>
#include <cstdint>

namespace emulation {

/* Registers of a thread that an instruction names. */
struct registers {
    const void *at;
    size_t bytes;
};

/* By all lanes of a warp. Sums of the thread: d [tiles][4]. a: its registers, or nullptr where a's descriptor is given.
 */
struct product {
    float *d;
    int tiles;
    const unsigned *a;
    uint64_t a_descriptor, b_descriptor;
    bool a_others, b_others; /* lie side by side */
    bool adds;
};
void multiply(const product &p, const place &at);
void fence_products(const registers *used, size_t n);
void commit_products();
void wait_products(int most_open, const registers *done, size_t n);

/* Of shared memory: the thread wrote it; what it wrote is there for products. */
void note_written(const void *at, size_t bytes);
void fence_shared();

/* Around a block of n threads that has so much shared memory. */
void begin_products(unsigned n, size_t shared);
void end_products(unsigned n);

} // namespace emulation

#endif
