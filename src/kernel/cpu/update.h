/*
 * Shared by the kernels of optimisers. Masters are f32 and may be the parameters themselves; bf16 parameters are
 * rounded masters. A kernel has a body for elements with the same settings; UPDATE_KERNEL makes the rest of it.
 */
#ifndef LS_KERNEL_CPU_UPDATE_H
#define LS_KERNEL_CPU_UPDATE_H

#include "kernel/cpu/cpu_impl.h"

/*
 * AHEAD: prefetch distance in elements, because the processor's prefetcher stops at the end of a page. Calls with
 * parameters of at least STREAMED bytes write them past the caches, because they are not read before the next step.
 */
enum { AHEAD = 256, STREAMED = 1 << 20 };
_Static_assert(LS_FLAT_UNIT % V_LANES == 0, "a unit is whole vectors");

#if LS_CPU_ELEMENT_BF16 && defined __AVX512F__
V_INLINE void store_param(element *p, v_f32 v, bool streamed) {
    if (streamed)
        _mm256_stream_si256((__m256i *)(void *)p, (__m256i)v_round_bf16(v));
    else
        v_store(p, v, V_LANES);
}
V_INLINE void end_stores(void) { _mm_sfence(); }
#else
V_INLINE void store_param(element *p, v_f32 v, bool streamed) {
    (void)streamed;
    v_store(p, v, V_LANES);
}
V_INLINE void end_stores(void) {}
#endif

/* Elements start..end - 1 of a call, which have the same settings. */
typedef struct update_run {
    const ls_kernel_call *call;
    int64_t start, end;
    float scale, lr, decay; /* of the gradient; control's rate times the settings'; the settings' decay */
    bool streamed;
} update_run;

typedef void (*update_body)(const update_run *run);

/*
 * Calls the body for each run of units among first..last - 1 with one row of settings. The last output is the
 * parameters.
 */
V_INLINE void update_units(const ls_kernel_call *call, int64_t first, int64_t last, update_body body) {
    const double *control = call->in[1].data;
    const int32_t *group = call->in[2].data;
    const ls_update_settings *settings = call->in[3].data;
    const ls_view *param = &call->out[call->n_out - 1];
    update_run run = {.call = call, .scale = (float)control[LS_CONTROL_SCALE]};
    run.streamed = ls_view_bytes(param) >= STREAMED && (uintptr_t)param->data % (sizeof(element) * V_LANES) == 0;
    for (int64_t u = first, next; u < last; u = next) {
        for (next = u + 1; next < last && group[next] == group[u];) next++;
        if (group[u] < 0) continue;
        run.start = u * LS_FLAT_UNIT;
        run.end = next * LS_FLAT_UNIT;
        run.lr = (float)(control[LS_CONTROL_LR] * settings[group[u]].rate);
        run.decay = (float)settings[group[u]].weight_decay;
        body(&run);
    }
    end_stores();
}

/* Defines the kernel of the contract ID with the body name_run. */
#define UPDATE_KERNEL(ID, name)                                                               \
    static void name##_units(const void *context, int part, int64_t first, int64_t last) {    \
        (void)part;                                                                           \
        update_units(context, first, last, name##_run);                                       \
    }                                                                                         \
    static void name##_call(const ls_kernel_call *call, void *state, ls_pool *pool) {         \
        (void)state;                                                                          \
        const double *control = call->in[1].data;                                             \
        if (control[LS_CONTROL_APPLY] == 0) return;                                           \
        run_elements(call, pool, ls_view_elements(&call->in[2]), LS_FLAT_UNIT, name##_units); \
    }                                                                                         \
    static ls_status prepare_##name(const ls_kernel_call *call, void **state) {               \
        return check_only(LS_KERNEL_##ID, call, state);                                       \
    }                                                                                         \
    const ls_kernel LS_CPU_NAME(name) = {                                                     \
        .id = LS_KERNEL_##ID, LS_CPU_VARIANT, .prepare = prepare_##name, .run = name##_call}

#endif
