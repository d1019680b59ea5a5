/* Calls of attention that are timed by themselves. */
#include "plan/plan.h"

#include <math.h>

enum { SPANS = 3 }; /* index of the operand with the table of visible keys */

ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int direction, const ls_attention_shape *shape,
                                      const ls_mask *mask) {
    const int64_t S = shape->S, Hq = shape->Hq, Hkv = shape->Hkv, D = shape->D, E = shape->E;
    const int width = ls_mask_width(mask);
    const ls_dtype G = ls_dtype_accumulator(T);
    const int64_t q[] = {1, S, Hq, D}, k[] = {1, S, Hkv, D}, v[] = {1, S, Hkv, E}, values[] = {1, S, Hq, E},
                  rows[] = {1, Hq, S}, spans[] = {1, S, 2 * width};
    int32_t *at = LS_NEW_ARRAY(arena, int32_t, S);
    ls_span *seen = LS_NEW_ARRAY(arena, ls_span, S * width);
    for (int64_t i = 0; i < S; i++) at[i] = (int32_t)i;
    ls_mask_table(mask, S, at, S, seen);
    ls_view span = ls_view_dense(NULL, LS_I32, 3, spans), position = ls_view_dense(NULL, LS_I32, 1, &S);
    span.data = seen;
    position.data = at;
    ls_attention_params *params = LS_NEW_ARRAY(arena, ls_attention_params, 1);
    *params =
        (ls_attention_params){.scale = 1 / sqrt((double)D), .group = (int)(Hq / Hkv), .band = ls_mask_band(mask, S)};
    ls_kernel_call call = {.n_in = SPANS + 2,
                           .in = {ls_view_dense(NULL, T, 4, q), ls_view_dense(NULL, T, 4, k),
                                  ls_view_dense(NULL, T, 4, v), span, position},
                           .params = params};
    const ls_view lse = ls_view_dense(NULL, G, 3, rows);
    if (direction == LS_FORWARD) {
        call.out[call.n_out++] = ls_view_dense(NULL, G, 4, values);
        call.out[call.n_out++] = lse;
        return call;
    }
    call.in[call.n_in++] = ls_view_dense(NULL, T, 4, values);
    call.in[call.n_in++] = lse;
    call.in[call.n_in++] = ls_view_dense(NULL, G, 3, rows);
    const int64_t *const out[] = {q, k, v};
    for (int i = 0; i < 3; i++) call.out[call.n_out++] = ls_view_dense(NULL, G, 4, out[i]);
    return call;
}

ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape) {
    const int64_t values[] = {1, shape->S, shape->Hq, shape->E}, rows[] = {1, shape->Hq, shape->S};
    const ls_view o = ls_view_dense(NULL, T, 4, values);
    return (ls_kernel_call){
        .n_in = 2, .in = {o, o}, .n_out = 1, .out = {ls_view_dense(NULL, ls_dtype_accumulator(T), 3, rows)}};
}

double ls_attention_call_pairs(const ls_kernel_call *call) {
    const ls_view *table = &call->in[SPANS];
    const ls_span *seen = table->data;
    int64_t keys = 0;
    for (int64_t i = 0; i < table->size[1] * table->size[2] / 2; i++) keys += ls_max(0, seen[i].hi - seen[i].lo);
    return (double)(keys * call->in[0].size[2]);
}
