/* Kernels that move data: copy, cast, accumulate and fill. */
#include "kernel/cpu/cpu_impl.h"

/* --- two strided views of one shape, as runs of elements that are contiguous in both ------------------------------ */

/* The views have the same sizes; ndim dimensions are around a run, outermost first. */
typedef struct runs {
    int64_t length; /* elements of a run */
    int ndim;
    int64_t size[LS_MAX_DIMS], stride_a[LS_MAX_DIMS], stride_b[LS_MAX_DIMS];
} runs;

static runs runs_of(const ls_view *a, const ls_view *b) {
    runs out = {.length = 1};
    int dims = a->ndim;
    while (dims > 0 &&
           (a->size[dims - 1] == 1 || (a->stride[dims - 1] == out.length && b->stride[dims - 1] == out.length))) {
        out.length *= a->size[--dims];
    }
    out.ndim = dims;
    for (int d = 0; d < dims; d++) {
        out.size[d] = a->size[d];
        out.stride_a[d] = a->stride[d];
        out.stride_b[d] = b->stride[d];
    }
    return out;
}

/* Works on `count` contiguous elements, at offsets at_a and at_b from the two views' data. */
typedef void (*piece_body)(const ls_kernel_call *call, int64_t at_a, int64_t at_b, int64_t count);

/* Calls the body for the contiguous pieces of elements [start, end), in order. */
static void for_each_piece(const runs *r, int64_t start, int64_t end, piece_body body, const ls_kernel_call *call) {
    while (start < end) {
        int64_t run = start / r->length;
        const int64_t inside = start % r->length, count = ls_min(r->length - inside, end - start);
        int64_t at_a = inside, at_b = inside;
        for (int d = r->ndim - 1; d >= 0; d--) {
            at_a += run % r->size[d] * r->stride_a[d];
            at_b += run % r->size[d] * r->stride_b[d];
            run /= r->size[d];
        }
        body(call, at_a, at_b, count);
        start += count;
    }
}

/* --- the kernels -------------------------------------------------------------------------------------------------- */

typedef struct strided {
    const ls_kernel_call *call;
    runs runs;
    piece_body body;
} strided;

static void strided_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const strided *s = context;
    for_each_piece(&s->runs, start, end, s->body, s->call);
}

static void strided_run(const ls_kernel_call *call, ls_pool *pool, piece_body body) {
    const strided s = {call, runs_of(&call->in[0], &call->out[0]), body};
    const int64_t n = ls_view_elements(&call->in[0]);
    ls_cpu_split(pool, n, ls_cpu_parts(n, 16384, call->threads), strided_part, &s);
}

static void copy_piece(const ls_kernel_call *call, int64_t from, int64_t to, int64_t count) {
    memcpy((element *)call->out[0].data + to, (const element *)call->in[0].data + from,
           sizeof(element) * (size_t)count);
}

static void accumulate_piece(const ls_kernel_call *call, int64_t from, int64_t to, int64_t count) {
    const bool wide = call->in[0].dtype == LS_F32;
    float *out = (float *)call->out[0].data + to;
    for (int64_t i = 0; i < count; i += V_LANES) {
        const v_f32 x = v_load_either(call->in[0].data, wide, from + i, count - i);
        v_store_f32(out + i, v_load_f32(out + i, count - i) + x, count - i);
    }
}

static void cast_piece_f32(const ls_kernel_call *call, int64_t from, int64_t to, int64_t count) {
    const element *x = (const element *)call->in[0].data + from;
    float *out = (float *)call->out[0].data + to;
    for (int64_t i = 0; i < count; i += V_LANES) v_store_f32(out + i, v_load(x + i, count - i), count - i);
}

static void cast_piece_bf16(const ls_kernel_call *call, int64_t from, int64_t to, int64_t count) {
    const element *x = (const element *)call->in[0].data + from;
    ls_bf16 *out = (ls_bf16 *)call->out[0].data + to;
    for (int64_t i = 0; i < count; i += V_LANES) v_store_bf16(out + i, v_load(x + i, count - i), count - i);
}

static void cast_piece_f64(const ls_kernel_call *call, int64_t from, int64_t to, int64_t count) {
    const element *x = (const element *)call->in[0].data + from;
    double *out = (double *)call->out[0].data + to;
    for (int64_t i = 0; i < count; i++) out[i] = (double)element_to_f32(x[i]);
}

static void fill_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const size_t size = ls_dtype_bytes(call->out[0].dtype);
    memset((char *)call->out[0].data + (size_t)start * size, 0, (size_t)(end - start) * size);
}

static void copy_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    strided_run(call, pool, copy_piece);
}

static void cast_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    static const piece_body to[LS_DTYPES] = {
        [LS_F32] = cast_piece_f32, [LS_F64] = cast_piece_f64, [LS_BF16] = cast_piece_bf16};
    (void)state;
    strided_run(call, pool, to[call->out[0].dtype]);
}

static void accumulate_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    strided_run(call, pool, accumulate_piece);
}

static void fill_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->out[0]), 1, fill_part);
}

static ls_status prepare_copy(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_COPY, call, state);
}

static ls_status prepare_cast(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CAST, call, state);
}

static ls_status prepare_accumulate(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_ACCUMULATE, call, state);
}

static ls_status prepare_fill(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_FILL, call, state);
}

const ls_kernel LS_CPU_NAME(copy) = {.id = LS_KERNEL_COPY, LS_CPU_VARIANT, .prepare = prepare_copy, .run = copy_run};
const ls_kernel LS_CPU_NAME(cast) = {.id = LS_KERNEL_CAST, LS_CPU_VARIANT, .prepare = prepare_cast, .run = cast_run};
const ls_kernel LS_CPU_NAME(accumulate) = {
    .id = LS_KERNEL_ACCUMULATE, LS_CPU_VARIANT, .prepare = prepare_accumulate, .run = accumulate_run};
const ls_kernel LS_CPU_NAME(fill) = {.id = LS_KERNEL_FILL, LS_CPU_VARIANT, .prepare = prepare_fill, .run = fill_run};
