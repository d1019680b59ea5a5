/* A pass of attention over ranks: its inputs, its time, and the time of the slowest rank. */
#include "cli/bench/pass.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>

void ls_pass_fill(ls_attention_rank *r) {
    const ls_attention_array *const in[] = {&r->q, &r->k, &r->v, &r->grad_o};
    for (size_t i = 0; i < LS_COUNT(in); i++) {
        const ls_view view = ls_view_dense(in[i]->data, in[i]->dtype, in[i]->ndim, in[i]->size);
        ls_view_fill(&view, (uint32_t)(i + LS_COUNT(in) * (size_t)r->rank));
    }
}

ls_status ls_pass_time(ls_attention_rank *r, ls_pass_times *out) {
    bool stop;
    LS_TRY(ls_attention_barrier(r, &stop));
    if (stop) return ls_error(LS_INTERRUPTED, "stopped");
    const double start = ls_seconds();
    LS_TRY(ls_attention_forward(r));
    const double forward = ls_seconds() - start;
    LS_TRY(ls_attention_backward(r));
    *out = (ls_pass_times){forward, ls_seconds() - start};
    return ls_ok();
}

ls_status ls_pass_slowest(ls_attention_rank *r, const ls_pass_times *mine, ls_pass_times *out) {
    ls_pass_times *all = calloc((size_t)r->ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "no memory for the times of %d ranks", r->ranks);
    const ls_status status = ls_attention_gather(r, mine, sizeof *mine, all);
    ls_pass_times slowest = {0, 0};
    for (int i = 0; i < r->ranks && status.code == LS_OK; i++)
        slowest = (ls_pass_times){fmax(slowest.forward, all[i].forward), fmax(slowest.both, all[i].both)};
    free(all);
    if (status.code == LS_OK) *out = slowest;
    return status;
}
