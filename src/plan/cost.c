/* What a candidate costs: read off the programs that it would run. */
#include "program/cost.h"
#include "plan/plan_impl.h"

#include <math.h>
#include <stdio.h>

/* Of one rank; threads that share a core share its speed. */
static ls_rates rates_of(const ls_image *image) {
    ls_rates rates = ls_rates_of(image->isa, image->dtype, image->threads);
    ls_machine machine;
    ls_machine_detect(&machine);
    const double wanted = (double)ls_mesh_ranks(&image->mesh) * image->threads;
    const double share = fmin(1, machine.cores / wanted);
    rates.flops *= share;
    rates.matmul *= share;
    rates.memory *= share;
    return rates;
}

static double kernel_seconds(const ls_image *image, int program, const ls_rates *rates) {
    const ls_program *p = &image->programs[program];
    double seconds = 0;
    for (int i = 0; i < p->n_instrs; i++) seconds += ls_kernel_seconds(&p->instrs[i], rates);
    return seconds;
}

/* Sums and maxima over the ranks looked at. */
typedef struct tally {
    double flops_sum, flops_most;
    int ranks;
} tally;

static void add_rank(const ls_image *image, tally *t, ls_plan_candidate *c) {
    const bool steps = image->programs[LS_PROGRAM_STEP].n_instrs > 0;
    const ls_program_cost sum = ls_program_measure(image, steps ? LS_PROGRAM_STEP : LS_PROGRAM_MICRO);
    const ls_rates rates = rates_of(image);
    /* The ranks' own threads carry the bytes; what is read in place comes from the same memory, and cold. */
    const double moved = sum.bytes_sent + sum.bytes_read;
    const double seconds = kernel_seconds(image, steps ? LS_PROGRAM_STEP : LS_PROGRAM_MICRO, &rates) +
                           moved / rates.bandwidth + sum.transfers * rates.latency;
    if (seconds > c->seconds) c->seconds = seconds;
    if (sum.bytes_sent > c->bytes_sent) c->bytes_sent = sum.bytes_sent;
    const ls_program_cost forward = ls_program_measure(image, LS_PROGRAM_EVALUATE);
    c->bytes_forward = fmax(c->bytes_forward, forward.bytes_sent);
    c->bytes_read = fmax(c->bytes_read, sum.bytes_read);
    c->read_forward = fmax(c->read_forward, forward.bytes_read);
    if (image->bytes[LS_PRIVATE] + image->bytes[LS_SYMMETRIC] >
        c->bytes[LS_PRIVATE] + c->bytes[LS_SYMMETRIC]) {
        for (int s = 0; s < LS_SPACES; s++) c->bytes[s] = image->bytes[s];
        c->most_rank = image->rank;
    }
    t->flops_sum += sum.flops;
    if (sum.flops > t->flops_most) t->flops_most = sum.flops;
    t->ranks++;
}

void ls_plan_cost(const ls_job *job, const ls_target *target, ls_plan_candidate *c, ls_status *status) {
    enum { ALL = 16 };
    const int P = ls_mesh_ranks(&target->mesh);
    const int sample[] = {0, P / 2, P - 1};
    const int n = P <= ALL ? P : (int)LS_COUNT(sample);
    tally t = {0};
    for (int i = 0; i < n; i++) {
        ls_target one = *target;
        one.rank = P <= ALL ? i : sample[i];
        ls_image *image;
        *status = ls_compile(job, &one, &image);
        if (status->code != LS_OK) {
            snprintf(c->refused, sizeof c->refused, "%s", status->text);
            return;
        }
        add_rank(image, &t, c);
        ls_image_destroy(image);
    }
    c->imbalance = t.flops_sum > 0 ? fmax(0, t.flops_most * t.ranks / t.flops_sum - 1) : 0; /* rounding */
}
