/* rope_table: cosines and sines of rotary positions. rotate: rotates heads by them. */
#include "kernel/cuda/pack.h"

/* --- rope_table --------------------------------------------------------------------------------------------------- */

/* The frequencies of some pairs of a head, computed on the host: an argument of the kernel, whose size is limited. */
enum { MOST_PAIRS = 512 };
struct frequencies {
    float at[MOST_PAIRS];
};

/* Angles are f32, as ls_rope_frequency says. Cosines and sines are computed in f64, because angles may be large. */
static __global__ void __launch_bounds__(CUDA_THREADS)
    fill_table(ls_rope_params p, double magnitude, bool grows, frequencies usual, int64_t first, int64_t pairs,
               const int32_t *positions, int64_t n, int64_t D, float *table) {
    for (EACH(k, n * pairs)) {
        const int64_t row = k / pairs, i = k % pairs;
        const int32_t position = positions[row];
        float frequency = usual.at[i];
        if (grows && (double)position >= p.length) {
            ls_rope_params grown = p;
            grown.length = (double)position + 1;
            frequency = ls_rope_dynamic(&grown, ls_rope_power((float)p.theta, first + i, D), first + i, D);
        }
        double cosine, sine;
        sincos((double)((float)position * frequency), &sine, &cosine);
        table[row * D + first + i] = (float)(magnitude * cosine);
        table[row * D + D / 2 + first + i] = (float)(magnitude * sine);
    }
}

static ls_status launch_table(const ls_kernel_call *call, void *, void *stream) {
    const ls_rope_params *p = (const ls_rope_params *)call->params;
    const int64_t n = ls_view_elements(&call->in[0]), D = columns_of(&call->out[0]);
    for (int64_t first = 0; first < D / 2; first += MOST_PAIRS) {
        const int64_t pairs = ls_min(D / 2 - first, (int64_t)MOST_PAIRS);
        frequencies usual = {};
        for (int64_t i = 0; i < pairs; i++) usual.at[i] = ls_rope_frequency(p, first + i, D);
        LS_TRY(launch("rope_table", stream, blocks_for(n * pairs), 0, fill_table, *p, ls_rope_magnitude(p),
                      ls_rope_grows(p), usual, first, pairs, input<int32_t>(call, 0), n, D, output<float>(call, 0)));
    }
    return ls_ok();
}

/* --- rotate ------------------------------------------------------------------------------------------------------- */

/*
 * Rotates pairs of elements i and i + half of each head; H heads have the same row of the table. A thread reads both
 * elements before it writes them, so y may overwrite x.
 */
template <typename T, int N>
static __global__ void __launch_bounds__(CUDA_THREADS)
    rotate_pairs(const T *x, const float *table, T *y, int64_t heads, int64_t H, int64_t half, float direction) {
    const int64_t packs = half / N;
    for (EACH(k, heads * packs)) {
        const int64_t head = k / packs, i = k % packs * N, at = head * 2 * half + i;
        const float *cosines = table + head / H * 2 * half + i;
        const pack<float, N> c = load_pack<N>(cosines), s = load_pack<N>(cosines + half);
        const pack<float, N> a = load_floats<N>(x + at), b = load_floats<N>(x + at + half);
        pack<float, N> lower, upper;
#pragma unroll
        for (int j = 0; j < N; j++) {
            lower.at[j] = a.at[j] * c.at[j] - b.at[j] * direction * s.at[j];
            upper.at[j] = b.at[j] * c.at[j] + a.at[j] * direction * s.at[j];
        }
        store_floats<N>(y + at, lower);
        store_floats<N>(y + at + half, upper);
    }
}

template <typename T> static ls_status launch_rotate(const ls_kernel_call *call, void *, void *stream) {
    constexpr int N = pack_size<T>();
    const ls_view *v = &call->in[0];
    const int64_t heads = rows_of(v), H = v->size[v->ndim - 2], half = columns_of(v) / 2;
    const float direction = ((const ls_rotate_params *)call->params)->inverse ? -1.0f : 1.0f;
    const T *x = input<T>(call, 0);
    const float *table = input<float>(call, 1);
    T *y = output<T>(call, 0);
    if (half % N == 0 && is_aligned(x) && is_aligned(table) && is_aligned(y))
        return launch("rotate", stream, blocks_for(heads * half / N), 0, rotate_pairs<T, N>, x, table, y, heads, H,
                      half, direction);
    return launch("rotate", stream, blocks_for(heads * half), 0, rotate_pairs<T, 1>, x, table, y, heads, H, half,
                  direction);
}

/* The operands of rope_table are f32 for bf16 too. */
CUDA_ROW(ls_cuda_f32_rope_table, ROPE_TABLE, LS_F32, launch_table, nullptr)
CUDA_ROW(ls_cuda_bf16_rope_table, ROPE_TABLE, LS_BF16, launch_table, nullptr)
CUDA_ROWS(ROTATE, rotate, launch_rotate, nullptr)
