/*
 * One training step of a rank: numbers that the host writes before the micro-batches, the program of each micro-batch,
 * and numbers that the host reads after the last one. Training, the library's worker, the grad command, benchmarks and
 * timelines use it.
 */
#include "session/step.h"

#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>

ls_status ls_rank_put_number(const ls_rank *rank, const char *name, double value) {
    const ls_operand to = ls_image_elements(rank->image, name, 0, 1);
    if (to.buffer < 0) return ls_ok();
    const float narrow = (float)value;
    return ls_executor_write(rank->executor, &to,
                             rank->image->accumulator == LS_F64 ? (const void *)&value : (const void *)&narrow);
}

ls_status ls_rank_get_number(const ls_rank *rank, const char *name, double *out) {
    const ls_operand from = ls_image_elements(rank->image, name, 0, 1);
    float narrow = NAN;
    double wide = NAN;
    if (from.buffer >= 0)
        LS_TRY(ls_executor_read(rank->executor, &from,
                                rank->image->accumulator == LS_F64 ? (void *)&wide : (void *)&narrow));
    *out = rank->image->accumulator == LS_F64 ? wide : (double)narrow;
    return ls_ok();
}

ls_status ls_rank_begin_step(const ls_rank *rank, const ls_step_numbers *n) {
    const double stop = n->stop ? 1 : 0;
    const double hyper[LS_HYPERS] = {[LS_HYPER_LR] = n->lr,
                                     [LS_HYPER_CLIP] = n->clip,
                                     [LS_HYPER_STEP] = (double)n->update,
                                     [LS_HYPER_BETA1] = n->beta1,
                                     [LS_HYPER_BETA2] = n->beta2};
    const ls_operand to_stop = ls_image_elements(rank->image, LS_BIND_TOTALS, LS_TOTAL_STOP, 1);
    const ls_operand to_hyper = ls_image_elements(rank->image, LS_BIND_HYPER, 0, LS_HYPERS);
    for (int j = 0; j < rank->image->micro_batches * rank->image->slices; j++) {
        char name[LS_MICRO_NAME];
        LS_TRY(ls_rank_put_number(rank, ls_micro_name(LS_BIND_SCALE, j, name), n->divisor != 0 ? 1 / n->divisor : 0));
    }
    if (to_stop.buffer >= 0) LS_TRY(ls_executor_write(rank->executor, &to_stop, &stop));
    return to_hyper.buffer >= 0 ? ls_executor_write(rank->executor, &to_hyper, hyper) : ls_ok();
}

ls_status ls_rank_clear_sums(const ls_rank *rank, int64_t micro_batches) {
    const ls_binding *sums = ls_image_find(rank->image, LS_BIND_GRADIENTS);
    if (sums == NULL || micro_batches == 1) return ls_ok();
    return ls_executor_clear(rank->executor, &sums->operand);
}

bool ls_rank_runs_after(const ls_rank *rank, int64_t micro_batch) {
    return (micro_batch + 1) % rank->image->micro_batches == 0;
}

int ls_rank_step_program(const ls_rank *rank, int64_t micro_batch, int64_t micro_batches) {
    return micro_batch + 1 < micro_batches ? rank->micro : rank->step;
}

ls_status ls_rank_run_step(const ls_rank *rank, const ls_step_numbers *numbers, const ls_micro_batches *batches) {
    LS_ASSERT(batches->count % rank->image->micro_batches == 0);
    LS_TRY(ls_rank_begin_step(rank, numbers));
    for (int64_t m = 0, read = 0; m < batches->count; m++) {
        if (batches->feed != NULL) LS_TRY(batches->feed(batches->context, m));
        if (!ls_rank_runs_after(rank, m)) continue;
        LS_TRY(ls_executor_run(rank->executor, ls_rank_step_program(rank, m, batches->count)));
        for (; batches->read != NULL && read <= m; read++) LS_TRY(batches->read(batches->context, read));
    }
    return ls_ok();
}

ls_status ls_rank_read_step(const ls_rank *rank, ls_step_sums *out) {
    double result[LS_TOTALS], control[LS_CONTROLS] = {0};
    const ls_operand from_result = ls_image_elements(rank->image, LS_BIND_RESULT, 0, LS_TOTALS);
    const ls_operand from_control = ls_image_elements(rank->image, LS_BIND_CONTROL, 0, LS_CONTROLS);
    LS_TRY(ls_executor_read(rank->executor, &from_result, result));
    if (from_control.buffer >= 0) LS_TRY(ls_executor_read(rank->executor, &from_control, control));
    *out = (ls_step_sums){.loss = result[LS_TOTAL_LOSS],
                          .grad_norm = sqrt(result[LS_TOTAL_SQUARES]),
                          .stop = result[LS_TOTAL_STOP] > 0,
                          .applied = control[LS_CONTROL_APPLY] != 0};
    return ls_ok();
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
