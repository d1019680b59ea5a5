/*
 * One training step of a rank: the numbers that the host writes before the micro-batches, the program of each
 * micro-batch, and the numbers that the host reads after the last one. Training, the library's worker, the grad
 * command, benchmarks and timelines use it.
 */
#include "session/step.h"

#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>

void ls_rank_put_number(const ls_rank *rank, const char *name, double value) {
    void *to = ls_executor_tensor(rank->executor, name);
    if (to == NULL) return;
    if (rank->image->accumulator == LS_F64)
        *(double *)to = value;
    else
        *(float *)to = (float)value;
}

double ls_rank_get_number(const ls_rank *rank, const char *name) {
    const void *from = ls_executor_tensor(rank->executor, name);
    if (from == NULL) return NAN;
    return rank->image->accumulator == LS_F64 ? *(const double *)from : (double)*(const float *)from;
}

void ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *n) {
    double *hyper = ls_executor_tensor(rank->executor, LS_BIND_HYPER);
    double *totals = ls_executor_tensor(rank->executor, LS_BIND_TOTALS);
    ls_rank_put_number(rank, LS_BIND_SCALE, n->tokens > 0 ? 1 / (double)n->tokens : 0);
    if (totals != NULL) totals[LS_TOTAL_STOP] = n->stop ? 1 : 0;
    if (hyper == NULL) return; /* the programs have no update */
    hyper[LS_HYPER_LR] = n->lr;
    hyper[LS_HYPER_CLIP] = n->clip;
    hyper[LS_HYPER_STEP] = (double)n->update;
    hyper[LS_HYPER_BETA1] = n->beta1;
    hyper[LS_HYPER_BETA2] = n->beta2;
}

int ls_rank_step_program(const ls_rank *rank, int64_t micro_batch, int64_t micro_batches) {
    return micro_batch + 1 < micro_batches ? rank->micro : rank->step;
}

ls_status ls_rank_run_step(const ls_rank *rank, const ls_step_numbers *numbers, const ls_micro_batches *batches) {
    ls_rank_begin_step(rank, numbers);
    for (int64_t m = 0; m < batches->count; m++) {
        if (batches->feed != NULL) LS_TRY(batches->feed(batches->context, m));
        LS_TRY(ls_executor_run(rank->executor, ls_rank_step_program(rank, m, batches->count)));
    }
    return ls_ok();
}

ls_step_sums ls_rank_read_step(const ls_rank *rank) {
    const double *result = ls_executor_tensor(rank->executor, LS_BIND_RESULT);
    const double *control = ls_executor_tensor(rank->executor, LS_BIND_CONTROL);
    return (ls_step_sums){.loss = result[LS_TOTAL_LOSS],
                          .grad_norm = sqrt(result[LS_TOTAL_SQUARES]),
                          .stop = result[LS_TOTAL_STOP] > 0,
                          .applied = control != NULL && control[LS_CONTROL_APPLY] != 0};
}

ls_status ls_rank_sum(const ls_rank *rank, double *values, int n) {
    double *all = malloc(sizeof *all * (size_t)n * (size_t)rank->ranks);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d numbers of %d ranks", n, rank->ranks);
    const ls_status status = ls_comm_exchange(rank->comm, values, sizeof *values * (size_t)n, all);
    for (int i = 0; i < n && status.code == LS_OK; i++) {
        values[i] = 0;
        for (int r = 0; r < rank->ranks; r++) values[i] += all[r * n + i];
    }
    free(all);
    return status;
}
