/* cache_write: new keys or values to their places in a cache that holds some of the positions of a sequence. */
#include <string.h>

#include "kernel/ref/ref_impl.h"

static ls_status prepare_write(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check("cache_write", call->n_in > 0 ? call->in[0].dtype : LS_REAL, call);
}

/* Where the position is among n ascending ones; -1: nowhere. */
static int64_t find(const int32_t *positions, int64_t n, int32_t wanted) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (positions[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && positions[low] == wanted ? low : -1;
}

static void run_write(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_view *x = &call->in[0], *cache = &call->out[0];
    const int32_t *positions = call->in[1].data, *kpos = call->in[2].data;
    const int64_t m = x->size[1], t = cache->size[1];
    const size_t row = (size_t)(x->size[2] * x->size[3]) * ls_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < x->size[0] * m; i++) {
        const int64_t at = find(kpos, t, positions[i]);
        if (at >= 0)
            memcpy((char *)cache->data + (size_t)(i / m * t + at) * row,
                   (const char *)x->data + (size_t)i * row, row);
    }
}

const ls_kernel REF(cache_write) = {
    .name = "cache_write", .dtype = LS_REAL, .prepare = prepare_write, .run = run_write};
#if !LS_REAL_IS_F64
const ls_kernel REF(cache_write_bf16) = {
    .name = "cache_write", .dtype = LS_BF16, .prepare = prepare_write, .run = run_write};
#endif
