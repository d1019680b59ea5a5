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

static ls_core_rates everywhere(double flops) {
    return (ls_core_rates){.attention = flops, .attention_grad = flops, .matmul = flops};
}

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
    return (ls_rates){.flops = ls_core_rates_of(&host->type[dtype], threads),
                      .memory = host->memory * threads,
                      .bandwidth = host->bandwidth,
                      .latency = host->latency,
                      .overhead = host->overhead};
}

ls_rates ls_rates_of(ls_isa isa, ls_dtype dtype, int threads) {
    const ls_host host = ls_host_nominal(isa);
    return ls_rates_on(&host, dtype, threads);
}

ls_core_rates ls_core_rates_of(const ls_core_rates *rates, double cores) {
    return (ls_core_rates){.attention = rates->attention * cores,
                           .attention_grad = rates->attention_grad * cores,
                           .pairs = rates->pairs * cores,
                           .pairs_grad = rates->pairs_grad * cores,
                           .matmul = rates->matmul * cores};
}

double ls_attention_rate(const ls_core_rates *rates, bool gradient, double head_size) {
    const double flops = gradient ? rates->attention_grad : rates->attention;
    const double pairs = gradient ? rates->pairs_grad : rates->pairs;
    return pairs == 0 ? flops : 1 / (1 / flops + 1 / (pairs * (gradient ? 10 : 4) * head_size));
}

static double flops_per_second(const ls_instr *instr, const ls_core_rates *rates) {
    const char *kernel = instr->kernel->name;
    const bool gradient = strcmp(kernel, "attention_grad") == 0;
    if (gradient || strcmp(kernel, "attention") == 0)
        return ls_attention_rate(rates, gradient, (double)instr->in[0].view.size[3]);
    return strcmp(kernel, "matmul") == 0 ? rates->matmul : rates->attention;
}

double ls_kernel_seconds(const ls_instr *instr, const ls_rates *rates) {
    if (instr->kind != LS_INSTR_KERNEL) return 0;
    double bytes = 0;
    for (int i = 0; i < instr->n_in; i++) bytes += ls_operand_bytes(&instr->in[i]);
    for (int i = 0; i < instr->n_out; i++) bytes += ls_operand_bytes(&instr->out[i]);
    return rates->overhead +
           fmax(instr->flops / flops_per_second(instr, &rates->flops), bytes / rates->memory);
}

double ls_put_seconds(double bytes, const ls_rates *rates) {
    return bytes / rates->bandwidth + rates->latency;
}
