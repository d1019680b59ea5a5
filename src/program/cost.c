#include "program/cost.h"

#include <math.h>
#include <string.h>

/*
 * Of one core of a host of this kind, docs/performance.md: the attention kernels, where long sequences spend nearly all their
 * time; kernels bound by memory; puts between processes.
 */
static const struct {
    double flops[LS_ISA_COUNT];               /* f32, by the instruction set of the kernels */
    double bf16_gain;                         /* where the instruction set has bf16 products */
    double amx_attention, amx_attention_grad; /* in bf16 */
    double bf16_matmul;                       /* matrix products there: oneDNN, with AMX where it is */
    double f64_flops;                         /* the reference kernels */
    double memory, bandwidth, latency;
} nominal = {
    .flops = {[LS_ISA_REF] = 1e9,
              [LS_ISA_BASE] = 3e10,
              [LS_ISA_AVX2] = 9e10,
              [LS_ISA_AVX512] = 1.4e11,
              [LS_ISA_AVX512BF16] = 1.4e11,
              [LS_ISA_AMX] = 1.4e11},
    .bf16_gain = 1.15,
    .amx_attention = 3.5e11,
    .amx_attention_grad = 4.5e11,
    .bf16_matmul = 4e11,
    .f64_flops = 1e9,
    .memory = 1.5e10,
    .bandwidth = 8e9,
    .latency = 2e-6,
};

static ls_core_rates everywhere(double flops) { return (ls_core_rates){flops, flops, flops}; }

ls_host ls_host_nominal(ls_isa isa) {
    const double flops = nominal.flops[isa];
    ls_host host = {.type = {[LS_F32] = everywhere(flops),
                             [LS_F64] = everywhere(nominal.f64_flops),
                             [LS_BF16] = everywhere(flops)},
                    .memory = nominal.memory,
                    .bandwidth = nominal.bandwidth,
                    .latency = nominal.latency};
    if (isa >= LS_ISA_AVX512BF16) {
        host.type[LS_BF16] = everywhere(flops * nominal.bf16_gain);
        host.type[LS_BF16].matmul = nominal.bf16_matmul;
    }
    if (isa >= LS_ISA_AMX) {
        host.type[LS_BF16].attention = nominal.amx_attention;
        host.type[LS_BF16].attention_grad = nominal.amx_attention_grad;
    }
    return host;
}

ls_rates ls_rates_on(const ls_host *host, ls_dtype dtype, int threads) {
    const ls_core_rates *core = &host->type[dtype];
    return (ls_rates){.flops = {.attention = core->attention * threads,
                                .attention_grad = core->attention_grad * threads,
                                .matmul = core->matmul * threads},
                      .memory = host->memory * threads,
                      .bandwidth = host->bandwidth,
                      .latency = host->latency,
                      .overhead = host->overhead};
}

ls_rates ls_rates_of(ls_isa isa, ls_dtype dtype, int threads) {
    const ls_host host = ls_host_nominal(isa);
    return ls_rates_on(&host, dtype, threads);
}

static double flops_per_second(const char *kernel, const ls_core_rates *rates) {
    if (strcmp(kernel, "matmul") == 0) return rates->matmul;
    return strcmp(kernel, "attention_grad") == 0 ? rates->attention_grad : rates->attention;
}

double ls_kernel_seconds(const ls_instr *instr, const ls_rates *rates) {
    if (instr->kind != LS_INSTR_KERNEL) return 0;
    double bytes = 0;
    for (int i = 0; i < instr->n_in; i++) bytes += ls_operand_bytes(&instr->in[i]);
    for (int i = 0; i < instr->n_out; i++) bytes += ls_operand_bytes(&instr->out[i]);
    return rates->overhead +
           fmax(instr->flops / flops_per_second(instr->kernel->name, &rates->flops), bytes / rates->memory);
}

double ls_put_seconds(double bytes, const ls_rates *rates) {
    return bytes / rates->bandwidth + rates->latency;
}
