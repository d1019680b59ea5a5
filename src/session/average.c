/* The host's part in the average of trained parameters (compile/optimizer/average.c). */
#include "session/step.h"

#include "program/program.h"

ls_status ls_rank_exchange(const ls_rank *rank) {
    return rank->exchange >= 0 ? ls_executor_run(rank->executor, rank->exchange) : ls_ok();
}

enum { AT_ONCE = 1 << 14 }; /* elements, on the stack */

static ls_status copy_run(const ls_rank *rank, const ls_flat_run *run) {
    const ls_operand from = ls_image_master(rank->image, &run->part),
                     to = ls_image_part(rank->image, LS_BIND_AVERAGE, &run->part);
    double some[AT_ONCE]; /* room for elements of any type */
    for (int64_t done = 0; done < run->part.count; done += AT_ONCE) {
        const int64_t n = ls_min(AT_ONCE, run->part.count - done);
        const ls_operand source = ls_operand_slice(from, 0, done, n), target = ls_operand_slice(to, 0, done, n);
        LS_TRY(ls_executor_read(rank->executor, &source, some));
        LS_TRY(ls_executor_write(rank->executor, &target, some));
    }
    return ls_ok();
}

ls_status ls_rank_begin_average(const ls_rank *rank) {
    const ls_image *image = rank->image;
    const ls_binding *average = ls_image_find(image, LS_BIND_AVERAGE);
    if (average == NULL) return ls_ok();
    for (int i = 0; i < image->n_flats; i++) {
        if (!ls_flat_has(&image->flats[i], &image->states[image->n_states - 1])) continue;
        for (ls_flat_runs r = ls_flat_runs_of(image, average, &image->flats[i], rank->rank, 0); ls_flat_next(&r);)
            LS_TRY(copy_run(rank, &r.run));
        ls_comm_tick(rank->comm);
    }
    return ls_ok();
}
