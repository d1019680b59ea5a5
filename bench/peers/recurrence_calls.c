#include "recurrence_calls.h"

#include "serve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const recurrence_layer layers[] = {{"gdn", 16, 32, 128, 128, true}, {"ssd", 1, 80, 128, 64, false}};

const recurrence_layer *recurrence_layer_named(const char *name) {
    for (size_t i = 0; i < LS_COUNT(layers); i++)
        if (strcmp(layers[i].name, name) == 0) return &layers[i];
    return NULL;
}

void *recurrence_memory(size_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    const size_t size = ls_round_up(bytes + 1, HUGE_PAGE);
    void *data = aligned_alloc(HUGE_PAGE, size);
    if (data == NULL) return NULL;
    (void)madvise(data, size, MADV_HUGEPAGE);
    return memset(data, 0, size);
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

recurrence_numbers recurrence_deviation(float deviation) {
    return (recurrence_numbers){deviation * (float)sqrt(3), 0}; /* the numbers are evenly between -1 and 1 */
}

ls_status recurrence_array_make(ls_dtype dtype, int ndim, const int64_t *size, uint32_t seed, recurrence_numbers how,
                                ls_view *view) {
    *view = ls_view_dense(NULL, dtype, ndim, size);
    const int64_t n = ls_view_elements(view);
    view->data = recurrence_memory(ls_dtype_bytes(dtype) * (size_t)n);
    if (view->data == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld elements", (long long)n);
    ls_attention_array one = {.data = view->data, .dtype = dtype, .ndim = 1, .size = {n}};
    if (how.scale == 0) return ls_ok();
    peers_numbers(seed, &one);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_BF16)
            ((ls_bf16 *)view->data)[i] =
                ls_bf16_from_f32(how.scale * ls_bf16_to_f32(((ls_bf16 *)view->data)[i]) + how.shift);
        else
            ((float *)view->data)[i] = how.scale * ((float *)view->data)[i] + how.shift;
    }
    return ls_ok();
}

ls_status recurrence_arrays_make(const recurrence_layer *l, ls_dtype T, int64_t S, recurrence_arrays *a) {
    const ls_linear_recurrence_params p = {.delta = l->delta};
    const int64_t keys[] = {1, S, l->K, l->D}, values[] = {1, S, l->H, l->E}, gates[] = {1, S, l->H, 1},
                  betas[] = {1, S, l->H, l->delta}, none[] = {1, S, 0}, state[] = {1, l->H, l->D, l->E},
                  map[] = {1, l->H, l->D * l->E + ls_linear_recurrence_factors(&p, l->D, 1)};
    const recurrence_numbers zero = {0}, unit = {1, 0},
                             key = {(float)sqrt(3.0 / (double)l->D), 0}; /* keys of length about 1 */
    *a = (recurrence_arrays){0};
    LS_TRY(recurrence_array_make(T, 4, keys, 0, key, &a->q));
    LS_TRY(recurrence_array_make(T, 4, keys, 1, key, &a->k));
    LS_TRY(recurrence_array_make(T, 4, values, 2, unit, &a->v));
    LS_TRY(recurrence_array_make(LS_F32, 4, gates, 3, (recurrence_numbers){0.1f, -0.1f}, &a->decay));
    LS_TRY(recurrence_array_make(LS_F32, 4, betas, 4, (recurrence_numbers){0.5f, 0.5f}, &a->beta));
    LS_TRY(recurrence_array_make(LS_I32, 3, none, 0, zero, &a->places));
    LS_TRY(recurrence_array_make(T, 4, values, 5, unit, &a->grad_o));
    LS_TRY(recurrence_array_make(LS_F32, 4, state, 0, zero, &a->front));
    LS_TRY(recurrence_array_make(LS_F32, 4, state, 0, zero, &a->state));
    LS_TRY(recurrence_array_make(LS_F32, 4, state, 0, zero, &a->dstate));
    LS_TRY(recurrence_array_make(T, 4, values, 0, zero, &a->o));
    LS_TRY(recurrence_array_make(T, 4, keys, 0, zero, &a->dq));
    LS_TRY(recurrence_array_make(T, 4, keys, 0, zero, &a->dk));
    LS_TRY(recurrence_array_make(LS_F32, 4, gates, 0, zero, &a->ddecay));
    LS_TRY(recurrence_array_make(LS_F32, 4, betas, 0, zero, &a->dbeta));
    return recurrence_array_make(LS_F32, 3, map, 0, zero, &a->map);
}

void recurrence_arrays_free(recurrence_arrays *a) {
    const ls_view *const all[] = {&a->q,     &a->k,      &a->v, &a->decay, &a->beta, &a->places, &a->grad_o, &a->front,
                                  &a->state, &a->dstate, &a->o, &a->dq,    &a->dk,   &a->ddecay, &a->dbeta,  &a->map};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i]->data);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

ls_kernel_call recurrence_forward(const recurrence_arrays *a) {
    return (ls_kernel_call){
        .n_in = 6, .n_out = 2, .in = {a->q, a->k, a->v, a->decay, a->beta, a->places}, .out = {a->o, a->state}};
}

ls_kernel_call recurrence_gradient(const recurrence_arrays *a) {
    return (ls_kernel_call){.n_in = 8,
                            .n_out = 6,
                            .in = {a->q, a->k, a->v, a->decay, a->beta, a->places, a->grad_o, a->front},
                            .out = {a->dq, a->dk, a->o, a->ddecay, a->dbeta, a->dstate}};
}

ls_status recurrence_call_make(ls_kernel_id id, ls_isa isa, const ls_kernel_call *call, recurrence_call *out) {
    *out = (recurrence_call){.call = *call};
    const ls_kernel_request request = {.id = id, .dtype = call->in[0].dtype, .isa = isa, .call = call};
    LS_TRY(ls_kernel_find(&request, &out->kernel));
    out->workspace = out->kernel->workspace ? out->kernel->workspace(call) : 0;
    out->call.workspace = recurrence_memory(out->workspace);
    if (out->call.workspace == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a workspace of %zu bytes", out->workspace);
    return out->kernel->prepare(&out->call, &out->state);
}

void recurrence_call_free(recurrence_call *c) {
    if (c->kernel->release) c->kernel->release(c->state);
    free(c->call.workspace);
}
