/* What a candidate costs: read off the programs that it would run. */
#include "plan/plan_impl.h"

#include <math.h>
#include <stdio.h>

/* The rates of our attention kernels on one core (docs/performance.md): long sequences spend nearly all their time there. */
static const ls_host_speed host_speed = {
    .flops = {[LS_ISA_REF] = 1e9,
              [LS_ISA_BASE] = 3e10,
              [LS_ISA_AVX2] = 9e10,
              [LS_ISA_AVX512] = 1.4e11,
              [LS_ISA_AVX512BF16] = 1.4e11},
    .bf16_gain = 1.15,
    .f64_flops = 1e9,
    .bandwidth = 8e9,
    .latency = 2e-6,
};

/* Of one rank; threads that share a core share its speed. */
static double flops_per_second(const ls_image *image) {
    double speed = host_speed.flops[image->isa];
    if (image->dtype == LS_F64) speed = host_speed.f64_flops;
    if (image->dtype == LS_BF16 && image->isa == LS_ISA_AVX512BF16) speed *= host_speed.bf16_gain;
    ls_machine machine;
    ls_machine_detect(&machine);
    const double wanted = (double)ls_mesh_ranks(&image->mesh) * image->threads;
    return speed * image->threads * (wanted > machine.cores ? machine.cores / wanted : 1);
}

/* Sums and maxima over the ranks looked at. */
typedef struct tally {
    double flops_sum, flops_most;
    int ranks;
} tally;

static void add_rank(const ls_image *image, tally *t, ls_plan_candidate *c) {
    const bool steps = image->programs[LS_PROGRAM_STEP].n_instrs > 0;
    const ls_program_cost sum = ls_program_measure(image, steps ? LS_PROGRAM_STEP : LS_PROGRAM_MICRO);
    const double seconds = sum.flops / flops_per_second(image) + sum.bytes_sent / host_speed.bandwidth +
                           sum.transfers * host_speed.latency;
    if (seconds > c->seconds) c->seconds = seconds;
    if (sum.bytes_sent > c->bytes_sent) c->bytes_sent = sum.bytes_sent;
    const double forward = ls_program_measure(image, LS_PROGRAM_EVALUATE).bytes_sent;
    if (forward > c->bytes_forward) c->bytes_forward = forward;
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
