/* Calls of the kernels of linear recurrences, each on some of a site's tokens. */
#include "compile/linear_recurrence/linear_recurrence.h"

static double flops_of(const ls_linear_site *s, int64_t count, double columns) {
    return (double)(s->B * s->H * count) * ls_linear_recurrence_flops(&s->params, (double)s->D, columns);
}

static ls_kernel_build call_of(const ls_builder *b, const ls_linear_site *s, ls_kernel_id kernel, double flops) {
    return (ls_kernel_build){.op = ls_contracts[kernel].name,
                             .kernel = kernel,
                             .dtype = b->image->dtype,
                             .params = &s->params,
                             .params_bytes = sizeof s->params,
                             .flops = flops};
}

static void give(ls_kernel_build *call, ls_operand o, int64_t first, int64_t count) {
    call->in[call->n_in++] = ls_operand_slice(o, 1, first, count);
}

static void take(ls_kernel_build *call, ls_operand o, int64_t first, int64_t count) {
    call->out[call->n_out++] = ls_operand_slice(o, 1, first, count);
}

static void give_gates(ls_kernel_build *call, const ls_linear_tensors *t, int64_t first, int64_t count) {
    give(call, t->decay, first, count);
    give(call, t->beta, first, count);
    give(call, t->places, first, count);
}

void ls_linear_forward(ls_builder *b, const ls_linear_site *s, const ls_linear_tensors *t, int64_t first, int64_t count,
                       ls_operand state) {
    ls_kernel_build call = call_of(b, s, LS_KERNEL_LINEAR_RECURRENCE, flops_of(s, count, (double)s->E));
    give(&call, t->q, first, count);
    give(&call, t->k, first, count);
    give(&call, t->v, first, count);
    give_gates(&call, t, first, count);
    take(&call, t->o, first, count);
    call.out[call.n_out++] = state;
    ls_build_kernel(b, &call);
}

void ls_linear_backward(ls_builder *b, const ls_linear_site *s, const ls_linear_tensors *t, int64_t first,
                        int64_t count, ls_operand front, ls_operand behind) {
    ls_kernel_build call = call_of(b, s, LS_KERNEL_LINEAR_RECURRENCE_GRAD, 3 * flops_of(s, count, (double)s->E));
    give(&call, t->q, first, count);
    give(&call, t->k, first, count);
    give(&call, t->v, first, count);
    give_gates(&call, t, first, count);
    give(&call, t->grad_o, first, count);
    call.in[call.n_in++] = front;
    take(&call, t->dq, first, count);
    take(&call, t->dk, first, count);
    take(&call, t->dv, first, count);
    take(&call, t->ddecay, first, count);
    take(&call, t->dbeta, first, count);
    call.out[call.n_out++] = behind;
    ls_build_kernel(b, &call);
}

void ls_linear_map(ls_builder *b, const ls_linear_site *s, const ls_linear_tensors *t, int64_t first, int64_t count,
                   bool back, ls_operand map) {
    const double columns = (double)(s->E + (s->params.delta ? s->D : 0));
    ls_kernel_build call = call_of(b, s, back ? LS_KERNEL_LINEAR_RECURRENCE_BACK : LS_KERNEL_LINEAR_RECURRENCE_MAP,
                                   flops_of(s, count, columns));
    if (back) give(&call, t->q, first, count);
    give(&call, t->k, first, count);
    if (!back) give(&call, t->v, first, count);
    give_gates(&call, t, first, count);
    if (back) give(&call, t->grad_o, first, count);
    call.out[call.n_out++] = map;
    ls_build_kernel(b, &call);
}

void ls_linear_follow(ls_builder *b, const ls_linear_site *s, ls_operand maps, bool back, bool reverse,
                      ls_operand state) {
    const ls_view *v = &state.view;
    const double each = (double)ls_view_elements(v) * (double)maps.view.size[0];
    ls_kernel_build call =
        call_of(b, s, LS_KERNEL_LINEAR_RECURRENCE_FOLLOW, 2 * each * (s->params.delta ? (double)s->D : 1));
    const ls_linear_recurrence_params params = {.delta = s->params.delta, .transposed = back, .backwards = reverse};
    call.params = &params;
    call.in[call.n_in++] = maps;
    call.out[call.n_out++] = state;
    ls_build_kernel(b, &call);
}

void ls_linear_keep(ls_builder *b, const ls_linear_site *s, int64_t first, int64_t past, ls_operand state) {
    if (s->tensors.last.buffer < 0 || past != b->image->layout.S) return;
    ls_build_copy(b, state, ls_operand_slice(s->tensors.last, 1, first, state.view.size[1]));
}

ls_operand ls_linear_single(ls_operand o) {
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, o.view.ndim - 1, &o.view.size[1]);
}

int ls_linear_team(ls_builder *b) { return ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE)); }

ls_operand ls_linear_states(ls_builder *b, const ls_linear_site *s, const char *name, int64_t n) {
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, b->image->accumulator, 5,
                            (int64_t[]){n, s->B, s->H, s->D, s->E});
}

ls_operand ls_linear_maps(ls_builder *b, const ls_linear_site *s, int64_t n) {
    return ls_build_private(b, LS_BUFFER_ACTIVATION, "maps", b->image->accumulator, 4,
                            (int64_t[]){n, s->B, s->H, s->map});
}
