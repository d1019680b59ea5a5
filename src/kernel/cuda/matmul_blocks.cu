/*
 * decode: decodes blocks of numbers (kernel/blocks.h), one thread for each number. matmul_blocks: as in
 * cpu/matmul_blocks.c, some columns of C at a time, the part of the matrix that they need is decoded into the workspace
 * and multiplied.
 */
#include "kernel/cuda/cuda_impl.h"

extern "C" {
extern const ls_kernel ls_cuda_f32_matmul, ls_cuda_bf16_matmul;
}

/* Rows of blocks, which are `row` bytes apart; `numbers` numbers of each row are decoded. */
struct decoding {
    const unsigned char *from;
    int64_t row, rows, numbers;
    float table[16]; /* for types of 4 bits */
};

static __device__ __forceinline__ float scale_at(const unsigned char *at) {
    return __int_as_float(
        (int)((unsigned)at[0] | (unsigned)at[1] << 8 | (unsigned)at[2] << 16 | (unsigned)at[3] << 24));
}

/* The types: each returns number i of a block. */
struct nf4 {
    static constexpr int NUMBERS = 64, BYTES = 36;
    static __device__ __forceinline__ float number(const float *table, const unsigned char *block, int i) {
        return table[block[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15] * scale_at(block + 32);
    }
};
struct int8 {
    static constexpr int NUMBERS = 64, BYTES = 68;
    static __device__ __forceinline__ float number(const float *, const unsigned char *block, int i) {
        return (float)(signed char)block[i] * scale_at(block + 64) * (1 / 127.0f);
    }
};
struct fp8 {
    static constexpr int NUMBERS = 64, BYTES = 68;
    static __device__ __forceinline__ float number(const float *, const unsigned char *block, int i) {
        const unsigned code = block[i], size = code & 0x7f;
        const unsigned bits = size == 0x7f ? 0x7fc00000u : size << 20;
        const float number = __int_as_float((int)bits) * 0x1p120f;
        return (code & 0x80 ? -number : number) * scale_at(block + 64);
    }
};
struct mxfp4 {
    static constexpr int NUMBERS = 32, BYTES = 17;
    static __device__ __forceinline__ float number(const float *table, const unsigned char *block, int i) {
        const unsigned exponent = block[16];
        const unsigned scale = exponent == 255 ? 0x7fc00000u : exponent == 0 ? 0x00400000u : exponent << 23;
        return table[block[i / 2] >> (i % 2 == 0 ? 0 : 4) & 15] * __int_as_float((int)scale);
    }
};

template <typename Q, typename T> static __global__ void __launch_bounds__(CUDA_THREADS) decode(decoding d, T *to) {
    for (EACH(i, d.rows * d.numbers)) {
        const int64_t row = i / d.numbers, at = i % d.numbers;
        const unsigned char *block = d.from + row * d.row + at / Q::NUMBERS * Q::BYTES;
        to[i] = from_float<T>(Q::number(d.table, block, (int)(at % Q::NUMBERS)));
    }
}

template <typename Q, typename T> static ls_status launch_decoding(const decoding &d, void *to, void *stream) {
    return launch("decode", stream, blocks_for(d.rows * d.numbers), 0, decode<Q, T>, d, (T *)to);
}

typedef ls_status (*decoder)(const decoding &d, void *to, void *stream);
/* In the order of ls_dtype, from LS_NF4 on. */
template <typename T>
static constexpr decoder decoders[] = {launch_decoding<nf4, T>, launch_decoding<int8, T>, launch_decoding<fp8, T>,
                                       launch_decoding<mxfp4, T>};
static_assert(LS_INT8 == LS_NF4 + 1 && LS_FP8 == LS_NF4 + 2 && LS_MXFP4 == LS_NF4 + 3, "the order of decoders");

/* Numbers first .. first + n - 1 of rows row .. row + rows - 1 of a matrix. */
template <typename T>
static ls_status decode_part(const ls_view &matrix, int64_t row, int64_t rows, int64_t first, int64_t n, void *to,
                             void *stream) {
    const int64_t bytes = (int64_t)ls_dtype_bytes(matrix.dtype), across = columns_of(&matrix) * bytes;
    decoding d = {.from =
                      (const unsigned char *)matrix.data + row * across + first / ls_dtype_values(matrix.dtype) * bytes,
                  .row = across,
                  .rows = rows,
                  .numbers = n};
    const float *const table = matrix.dtype == LS_NF4 ? ls_nf4_values : ls_e2m1_values;
    for (int i = 0; i < 16; i++) d.table[i] = table[i];
    return decoders<T>[matrix.dtype - LS_NF4](d, to, stream);
}

/* --- decode ------------------------------------------------------------------------------------------------------- */

template <typename T> static ls_status launch_decode(const ls_kernel_call *call, void *, void *stream) {
    const ls_view *blocks = &call->in[0];
    return decode_part<T>(*blocks, 0, rows_of(blocks), 0, columns_of(blocks) * ls_dtype_values(blocks->dtype),
                          call->out[0].data, stream);
}

CUDA_ROWS(DECODE, decode, launch_decode, nullptr)

/* --- matmul_blocks ------------------------------------------------------------------------------------------------ */

static constexpr int64_t PART_BYTES = 32 << 20, UNIT = 512; /* decoded, about; columns */

template <typename T> struct parts {
    const ls_kernel *matmul;
    int64_t columns, step, depth;
    bool by_rows;
    size_t bytes; /* of a decoded part */
};

template <typename T> static parts<T> parts_of(const ls_kernel_call *call) {
    const ls_view *B = &call->in[1];
    const int64_t across = columns_of(B) * ls_dtype_values(B->dtype);
    parts<T> p = {.matmul = sizeof(T) == 2 ? &ls_cuda_bf16_matmul : &ls_cuda_f32_matmul,
                  .by_rows = ((const ls_matmul_params *)call->params)->transpose_b};
    p.columns = p.by_rows ? rows_of(B) : across;
    p.depth = p.by_rows ? across : rows_of(B);
    const int64_t row = ls_max(1, p.depth) * (int64_t)sizeof(T);
    p.step = ls_max(1, ls_min(ls_max(UNIT, PART_BYTES / row / UNIT * UNIT), p.columns));
    p.bytes = ls_round_up((size_t)(p.step * row), 256);
    return p;
}

template <typename T>
static ls_kernel_call part_of(const ls_kernel_call *call, const parts<T> &p, int64_t first, int64_t n) {
    ls_kernel_call part = *call;
    const int64_t size[] = {p.by_rows ? n : p.depth, p.by_rows ? p.depth : n};
    part.in[1] = ls_view_dense(call->workspace, sizeof(T) == 2 ? LS_BF16 : LS_F32, 2, size);
    if (call->n_in > 2) part.in[2] = ls_view_slice(call->in[2], 0, first, n);
    part.out[0] = ls_view_slice(ls_view_rows(call->out[0]), 1, first, n);
    part.workspace = call->workspace != nullptr ? (char *)call->workspace + p.bytes : nullptr;
    return part;
}

template <typename T> static size_t blocks_workspace(const ls_kernel_call *call) {
    const parts<T> p = parts_of<T>(call);
    size_t most = 0;
    for (int64_t first = 0; first < p.columns; first += p.step) {
        const ls_kernel_call part = part_of<T>(call, p, first, ls_min(p.step, p.columns - first));
        const size_t bytes = p.matmul->workspace(&part);
        most = bytes > most ? bytes : most;
    }
    return p.bytes + most;
}

template <typename T> static ls_status launch_blocks(const ls_kernel_call *call, void *, void *stream) {
    const parts<T> p = parts_of<T>(call);
    for (int64_t first = 0; first < p.columns; first += p.step) {
        const int64_t n = ls_min(p.step, p.columns - first);
        const ls_kernel_call part = part_of<T>(call, p, first, n);
        LS_TRY(p.by_rows ? decode_part<T>(call->in[1], first, n, 0, p.depth, call->workspace, stream)
                         : decode_part<T>(call->in[1], 0, p.depth, first, n, call->workspace, stream));
        LS_TRY(p.matmul->launch(&part, nullptr, stream));
    }
    return ls_ok();
}

CUDA_ROW(ls_cuda_f32_matmul_blocks, MATMUL_BLOCKS, LS_F32, launch_blocks<float>, blocks_workspace<float>)
CUDA_ROW(ls_cuda_bf16_matmul_blocks, MATMUL_BLOCKS, LS_BF16, launch_blocks<bf16>, blocks_workspace<bf16>)
