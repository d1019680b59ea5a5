/*
 * Sums in which nothing is rounded before the end, as in ref/exact.c: a number is added to words of 32 bits. Terms that
 * are f32 (numbers, or sums of the squares of a unit) reach only WORDS of all the words. Each thread adds its terms to
 * its own words in shared memory, where the words of a warp are in different banks. A block adds up the words of its
 * threads, then one block adds up those of all blocks.
 */
#include "kernel/cuda/cuda_impl.h"

#include <math.h>

static constexpr int WORD_BITS = 32;
static constexpr int LEAST_EXPONENT = -1074;       /* exponent of bit 0 of word 0 */
static constexpr int MANTISSA_BITS = 52;           /* of a double, without the leading 1 */
static constexpr int REST = LS_EXACT_WORDS - 1;    /* not a word: the sum of the terms that are not finite */
static constexpr int TOP = REST - 1;               /* the word that has the sign after a carry */
static constexpr int FIRST = 24;                   /* the word of the smallest square, 2^-298 */
static constexpr int WORDS = 18;                   /* from FIRST on; the last is for 32 squares of 2^128 */
static constexpr int TERMS = 64;                   /* of a thread; more if there would be too many blocks */
static constexpr int MOST_PARTS = 1024;            /* blocks */
static constexpr int LANES = 4;                    /* threads that square a unit */
static constexpr int UNITS = CUDA_THREADS / LANES; /* that a block squares at a time */

/*
 * The sum of a block: words of 32 bits, the last of which has the sign; and the sum of the terms that are not finite.
 */
struct part_sum {
    int64_t word[WORDS];
    double rest;
};

/* Adds the term to the words of this thread, which are CUDA_THREADS apart. */
static __device__ __forceinline__ void add_term(int64_t *words, double *rest, double x) {
    if (!(fabs(x) < INFINITY)) {
        *rest += x;
        return;
    }
    uint64_t bits;
    const double size = fabs(x);
    memcpy(&bits, &size, sizeof bits);
    if (bits == 0) return;
    const uint64_t mantissa = (bits & ((1ULL << MANTISSA_BITS) - 1)) | 1ULL << MANTISSA_BITS;
    const int at = (int)(bits >> MANTISSA_BITS) - 1; /* of the mantissa's last bit; no term is subnormal in f64 */
    const int shift = at % WORD_BITS;
    const uint32_t digits[3] = {(uint32_t)(mantissa << shift), (uint32_t)(mantissa >> (WORD_BITS - shift)),
                                (uint32_t)(mantissa >> WORD_BITS >> (WORD_BITS - shift))};
    for (int k = 0; k < 3; k++) { /* words that a term does not reach get the digit 0 */
        const int64_t digit = digits[k];
        if (digit != 0) words[(at / WORD_BITS + k - FIRST) * CUDA_THREADS] += x < 0 ? -digit : digit;
    }
}

static __device__ void add_numbers(const float *x, int64_t n, int64_t *words, double *rest) {
    for (EACH(i, n)) add_term(words, rest, (double)x[i]);
}

/* Adds the sums of the squares of units, in the order of ref/exact.c: lane l has elements l, l + 4 and so on. */
static __device__ void add_squares(const float *x, int64_t n, int64_t *words, double *rest) {
    const int64_t units = (n + LS_FLAT_UNIT - 1) / LS_FLAT_UNIT;
    const int lane = threadIdx.x % LANES;
    for (int64_t first = (int64_t)blockIdx.x * UNITS; first < units; first += (int64_t)gridDim.x * UNITS) {
        const int64_t unit = first + threadIdx.x / LANES;
        double sum = 0;
        for (int k = lane; k < LS_FLAT_UNIT; k += LANES) {
            const int64_t i = unit * LS_FLAT_UNIT + k;
            const double number = i < n ? (double)x[i] : 0;
            sum += number * number;
        }
        sum += __shfl_xor_sync(~0U, sum, 1);
        sum += __shfl_xor_sync(~0U, sum, 2);
        if (lane == 0) add_term(words, rest, sum);
    }
}

static __global__ void __launch_bounds__(CUDA_THREADS)
    sum_exactly(const float *x, int64_t n, bool squares, part_sum *parts) {
    __shared__ int64_t words[WORDS * CUDA_THREADS];
    int64_t *own = words + threadIdx.x;
    double rest = 0;
    for (int w = 0; w < WORDS; w++) own[w * CUDA_THREADS] = 0;
    if (squares)
        add_squares(x, n, own, &rest);
    else
        add_numbers(x, n, own, &rest);
    rest = block_sum(rest);
    int64_t above = 0;
    for (int w = 0; w < WORDS; w++) {
        const int64_t sum = block_sum(own[w * CUDA_THREADS]) + above;
        above = w + 1 < WORDS ? sum >> WORD_BITS : 0;
        if (threadIdx.x == 0) parts[blockIdx.x].word[w] = sum - above * (1LL << WORD_BITS);
    }
    if (threadIdx.x == 0) parts[blockIdx.x].rest = rest;
}

/* Each word but the top one becomes 0 .. 2^32 - 1. */
static __device__ void carry(double *word) {
    constexpr double base = 1LL << WORD_BITS;
    double above = 0;
    for (int k = 0; k < TOP; k++) {
        const double sum = word[k] + above;
        above = floor(sum / base);
        word[k] = sum - above * base;
    }
    word[TOP] += above;
}

/* Adds the parts to y; launched as one block. */
static __global__ void __launch_bounds__(CUDA_THREADS) add_parts(const part_sum *parts, int64_t n_parts, double *y) {
    __shared__ double word[LS_EXACT_WORDS];
    int64_t sum[WORDS] = {0};
    double rest = 0;
    for (int64_t p = threadIdx.x; p < n_parts; p += CUDA_THREADS) {
#pragma unroll
        for (int w = 0; w < WORDS; w++) sum[w] += parts[p].word[w];
        rest += parts[p].rest;
    }
    for (int k = threadIdx.x; k < LS_EXACT_WORDS; k += CUDA_THREADS) word[k] = y[k];
    rest = block_sum(rest);
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        const int64_t of_block = block_sum(sum[w]);
        if (threadIdx.x == 0) word[FIRST + w] += (double)of_block;
    }
    if (threadIdx.x == 0) {
        word[REST] += rest;
        carry(word);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < LS_EXACT_WORDS; k += CUDA_THREADS) y[k] = word[k];
}

static int64_t count_parts(const ls_kernel_call *call) {
    return ls_min(MOST_PARTS, ls_ceil_div(ls_view_elements(&call->in[0]), (int64_t)TERMS * CUDA_THREADS));
}
static size_t parts_bytes(const ls_kernel_call *call) { return sizeof(part_sum) * (size_t)count_parts(call); }

static ls_status launch_sum(const ls_kernel_call *call, void *, void *stream) {
    const bool squares = ((const ls_exact_params *)call->params)->squares;
    const int64_t parts = count_parts(call);
    LS_TRY(launch("exact_sum", stream, parts, 0, sum_exactly, input<float>(call, 0), ls_view_elements(&call->in[0]),
                  squares, (part_sum *)call->workspace));
    return launch("exact_sum", stream, 1, 0, add_parts, (const part_sum *)call->workspace, parts,
                  output<double>(call, 0));
}

/* --- what the words hold ------------------------------------------------------------------------------------------ */

/* Adds the most significant words first, so that the sum is rounded less. */
static __global__ void __launch_bounds__(CUDA_THREADS) round_words(const double *words, double *y, int64_t n) {
    for (EACH(i, n)) {
        double word[LS_EXACT_WORDS], value = 0;
        for (int k = 0; k < LS_EXACT_WORDS; k++) word[k] = words[i * LS_EXACT_WORDS + k];
        carry(word);
        const double sign = word[TOP] < 0 ? -1 : 1;
        for (int k = 0; k <= TOP; k++) word[k] *= sign;
        carry(word);
        for (int k = TOP; k >= 0; k--) value += ldexp(word[k], k * WORD_BITS + LEAST_EXPONENT);
        y[i] = sign * value + word[REST];
    }
}

static ls_status launch_value(const ls_kernel_call *call, void *, void *stream) {
    const int64_t n = ls_view_elements(&call->out[0]);
    return launch("exact_value", stream, blocks_for(n), 0, round_words, input<double>(call, 0), output<double>(call, 0),
                  n);
}

/* Registered for the type of the sums' terms. */
CUDA_ROW(ls_cuda_f32_exact_sum, EXACT_SUM, LS_F32, launch_sum, parts_bytes)
CUDA_ROW(ls_cuda_f32_exact_value, EXACT_VALUE, LS_F32, launch_value, nullptr)
