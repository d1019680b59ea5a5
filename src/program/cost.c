#include "program/cost.h"

#include <math.h>
#include <string.h>

/*
 * Of one core of a host of this kind, docs/performance.md: the attention kernels, where long sequences spend nearly all their
 * time; kernels bound by memory; puts between processes.
 */
static const struct {
    double flops[LS_ISA_COUNT]; /* f32, by the instruction set of the kernels */
    double bf16_gain;           /* where the instruction set has bf16 products */
    double bf16_matmul;         /* matrix products there: oneDNN, with AMX where it is */
    double f64_flops;           /* the reference kernels */
    double memory, bandwidth, latency;
} host = {
    .flops = {[LS_ISA_REF] = 1e9,
              [LS_ISA_BASE] = 3e10,
              [LS_ISA_AVX2] = 9e10,
              [LS_ISA_AVX512] = 1.4e11,
              [LS_ISA_AVX512BF16] = 1.4e11},
    .bf16_gain = 1.15,
    .bf16_matmul = 4e11,
    .f64_flops = 1e9,
    .memory = 1.5e10,
    .bandwidth = 8e9,
    .latency = 2e-6,
};

ls_rates ls_rates_of(ls_isa isa, ls_dtype dtype, int threads) {
    double flops = host.flops[isa];
    if (dtype == LS_F64) flops = host.f64_flops;
    const bool fast = dtype == LS_BF16 && isa == LS_ISA_AVX512BF16;
    if (fast) flops *= host.bf16_gain;
    return (ls_rates){.flops = flops * threads,
                      .matmul = (fast ? host.bf16_matmul : flops) * threads,
                      .memory = host.memory * threads,
                      .bandwidth = host.bandwidth,
                      .latency = host.latency};
}

static double bytes_of(const ls_operand *o) {
    return o->buffer < 0 ? 0 : (double)ls_view_elements(&o->view) * (double)ls_dtype_bytes(o->view.dtype);
}

double ls_kernel_seconds(const ls_instr *instr, const ls_rates *rates) {
    if (instr->kind != LS_INSTR_KERNEL) return 0;
    double bytes = 0;
    for (int i = 0; i < instr->n_in; i++) bytes += bytes_of(&instr->in[i]);
    for (int i = 0; i < instr->n_out; i++) bytes += bytes_of(&instr->out[i]);
    const bool matmul = strcmp(instr->kernel->name, "matmul") == 0;
    return fmax(instr->flops / (matmul ? rates->matmul : rates->flops), bytes / rates->memory);
}

double ls_put_seconds(double bytes, const ls_rates *rates) {
    return bytes / rates->bandwidth + rates->latency;
}
