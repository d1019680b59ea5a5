#include "program/cost.h"

#include "program/far.h"
#include "program/instr.h"

#include <math.h>

/*
 * Rates of one core of a typical host (docs/performance.md): of the attention kernels, in which long sequences spend
 * nearly all their time; of kernels bound by memory; of puts between processes.
 */
static const struct {
    double f64_flops;  /* the reference kernels */
    double recurrence; /* the rate of linear recurrences, which compute in f32, as a fraction of that of f32 products */
    double memory, bandwidth, latency;
} nominal = {.f64_flops = 1e9, .recurrence = 0.7, .memory = 1.5e10, .bandwidth = 8e9, .latency = 2e-6};

/* Flops per second of kernels that may use these features. The last row that an instruction set allows is used. */
typedef struct nominal_flops {
    ls_features needs;
    double f32, bf16;
    double bf16_matmul; /* oneDNN, with AMX if the processor has it */
    double bf16_attention[LS_DIRECTIONS];
} nominal_flops;

static const nominal_flops flops_with[] = {
    {0, 1e9, 1e9, 1e9, {1e9, 1e9}},
    {LS_FEATURE_BASELINE, 3e10, 3e10, 3e10, {3e10, 3e10}},
    {LS_FEATURE_AVX2, 9e10, 9e10, 9e10, {9e10, 9e10}},
    {LS_FEATURE_AVX512, 1.4e11, 1.4e11, 1.4e11, {1.4e11, 1.4e11}},
    {LS_FEATURE_AVX512_BF16, 1.4e11, 1.61e11, 4e11, {1.61e11, 1.61e11}},
    {LS_FEATURE_AMX_BF16, 1.4e11, 1.61e11, 4e11, {3.5e11, 4.5e11}},
};

static ls_attention_cost attention_at(double flops) {
    return (ls_attention_cost){.flop = 1 / flops, .byte = 1 / nominal.memory};
}

static ls_core_rates everywhere(double flops) {
    const ls_attention_cost cost = attention_at(flops);
    ls_core_rates rates = {.attention = {cost, cost}, .matmul = flops, .recurrence = {flops, flops}};
    for (int i = 0; i < LS_KERNEL_IDS; i++) rates.bytes[i] = (ls_byte_cost){1 / nominal.memory, 1 / nominal.memory};
    return rates;
}

/*
 * Rates of a GPU such as an H100 SXM (docs/performance.md): published rates of the GPU and of kernels on it; half of
 * them for kernels of ours that were not measured. A byte of a put is read and written.
 */
static const struct {
    double memory, cache_memory, cache, recurrence, peer, link, latency, overhead;
} gpu = {.memory = 3e12,
         .cache_memory = 5e12,
         .cache = 50e6,
         .recurrence = 1e12,
         .peer = 4e11,
         .link = 5e10,
         .latency = 5e-6,
         .overhead = 3e-6};

static ls_core_rates everywhere_on_gpu(double flops, double product, double forward, double backward) {
    ls_core_rates rates = everywhere(flops);
    rates.matmul = product;
    rates.recurrence[LS_FORWARD] = rates.recurrence[LS_BACKWARD] = gpu.recurrence; /* a state is read for each token */
    rates.attention[LS_FORWARD] = (ls_attention_cost){.flop = 1 / forward, .byte = 1 / gpu.memory};
    rates.attention[LS_BACKWARD] = (ls_attention_cost){.flop = 1 / backward, .byte = 1 / gpu.memory};
    for (int i = 0; i < LS_KERNEL_IDS; i++) rates.bytes[i] = (ls_byte_cost){1 / gpu.cache_memory, 1 / gpu.memory};
    return rates;
}

static ls_host nominal_gpu(void) {
    return (ls_host){.type = {[LS_F32] = everywhere_on_gpu(3e13, 4.5e13, 1e13, 1e13),
                              [LS_F64] = everywhere_on_gpu(1e13, 1e13, 1e12, 1e12),
                              [LS_BF16] = everywhere_on_gpu(3e13, 6e14, 4e14, 2e14)},
                     .put = {2 / gpu.cache_memory, 2 / gpu.memory},
                     .memory = gpu.memory,
                     .memory_alone = gpu.memory,
                     .cache = gpu.cache,
                     .latency = gpu.latency,
                     .overhead = gpu.overhead,
                     .devices = 1,
                     .peer = gpu.peer,
                     .to_host = gpu.link,
                     .from_host = gpu.link};
}

static ls_host nominal_processor(ls_isa isa) {
    const nominal_flops *flops = &flops_with[LS_COUNT(flops_with) - 1];
    while (!ls_isa_allows(isa, flops->needs)) flops--;
    ls_host host = {.type = {[LS_F32] = everywhere(flops->f32),
                             [LS_F64] = everywhere(nominal.f64_flops),
                             [LS_BF16] = everywhere(flops->bf16)},
                    .put = {1 / nominal.bandwidth, 1 / nominal.bandwidth},
                    .memory = nominal.memory,
                    .memory_alone = nominal.memory,
                    .to_host = nominal.memory / 2,
                    .from_host = nominal.memory / 2,
                    .latency = nominal.latency};
    host.type[LS_BF16].matmul = flops->bf16_matmul;
    for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
        host.type[LS_F32].recurrence[direction] = nominal.recurrence * flops->f32;
        host.type[LS_BF16].recurrence[direction] = nominal.recurrence * flops->f32;
        host.type[LS_BF16].attention[direction] = attention_at(flops->bf16_attention[direction]);
    }
    return host;
}

ls_host ls_host_nominal(ls_kernel_device device, ls_isa isa) {
    return device == LS_DEVICE_CUDA ? nominal_gpu() : nominal_processor(isa);
}

ls_rates ls_rates_on(const ls_host *host, ls_dtype dtype, int threads) {
    return (ls_rates){.core = ls_core_rates_of(&host->type[dtype], threads),
                      .put = host->put,
                      .piece = host->piece,
                      .to_host = host->to_host,
                      .from_host = host->from_host,
                      .latency = host->latency,
                      .overhead = host->overhead,
                      .cache = host->cache * threads,
                      .hides = host->devices > 0};
}

/*
 * The cost with memory faster by the factor; a byte from memory never costs less than one from a cache, nor more than
 * before.
 */
static ls_byte_cost relieved(ls_byte_cost cost, double factor) {
    return (ls_byte_cost){cost.near, fmin(cost.far, fmax(cost.near, cost.far * factor))};
}

ls_rates ls_rates_beside(const ls_host *host, ls_dtype dtype, int threads, int busy, int cores) {
    const double share = fmin(1, (double)cores / busy);
    const double each = fmin(host->memory_alone, host->memory * cores / fmin(busy, cores));
    const double factor = fmin(1, host->memory / each);
    ls_host relief = *host;
    for (int i = 0; i < LS_KERNEL_IDS; i++) relief.type[dtype].bytes[i] = relieved(host->type[dtype].bytes[i], factor);
    relief.put = relieved(host->put, factor);
    ls_rates rates = ls_rates_on(&relief, dtype, threads);
    rates.core = ls_core_rates_of(&rates.core, share);
    rates.cache = host->cache * cores * threads / busy;
    return rates;
}

ls_rates ls_rates_of(ls_kernel_device device, ls_isa isa, ls_dtype dtype, int threads) {
    const ls_host host = ls_host_nominal(device, isa);
    return ls_rates_on(&host, dtype, device == LS_DEVICE_CUDA ? 1 : threads);
}

ls_rates ls_rates_sharing(const ls_host *host, ls_dtype dtype, int ranks) {
    ls_rates rates = ls_rates_beside(host, dtype, 1, ranks, (int)fmax(1, host->devices));
    rates.cache = fmin(rates.cache, host->cache);
    if (host->devices > 1 && host->peer > 0) rates.put = (ls_byte_cost){1 / host->peer, 1 / host->peer};
    return rates;
}

/* Every doubling of the cores that share a call has the same cost `split`. */
ls_core_rates ls_core_rates_of(const ls_core_rates *rates, double cores) {
    if (cores > 1) cores /= pow(1 + rates->split, log2(cores));
    ls_core_rates all = {.matmul = rates->matmul * cores, .split = rates->split};
    for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
        const ls_attention_cost *one = &rates->attention[direction];
        all.recurrence[direction] = rates->recurrence[direction] * cores;
        all.attention[direction] =
            (ls_attention_cost){one->flop / cores, one->pair / cores, one->row / cores, one->byte / cores};
    }
    for (int i = 0; i < LS_KERNEL_IDS; i++)
        all.bytes[i] = (ls_byte_cost){rates->bytes[i].near / cores, rates->bytes[i].far / cores};
    return all;
}

double ls_attention_flops(int direction, double D, double E) {
    /*
     * forward: the logit and the product with the value; backward: the logit again, dq, dk, the weight's gradient, dv
     */
    return direction == LS_BACKWARD ? 6 * D + 4 * E : 2 * D + 2 * E;
}

double ls_attention_rate(const ls_core_rates *rates, int direction, double head_size) {
    const ls_attention_cost *cost = &rates->attention[direction];
    return 1 / (cost->flop + cost->pair / ls_attention_flops(direction, head_size, head_size));
}

ls_kernel_id ls_measured_as(ls_kernel_id id) { return ls_contracts[id].sample.out != NULL ? id : LS_KERNEL_ADD; }

static double attention_seconds(const ls_instr *instr, int direction, double bytes, const ls_rates *rates) {
    const ls_attention_cost *cost = &rates->core.attention[direction];
    const int64_t *q = instr->in[0].view.size, E = instr->in[2].view.size[3]; /* [B, n, Hq, D], of v */
    const double pairs = instr->flops / ls_attention_flops(direction, (double)q[3], (double)E);
    const double touched = instr->rows > 0 ? bytes * instr->rows / (double)(q[0] * q[1] * q[2]) : 0;
    return cost->flop * instr->flops + cost->pair * pairs + cost->row * instr->rows + cost->byte * touched;
}

static double bytes_seconds(const ls_byte_cost *cost, double bytes, double far) {
    far = fmin(far, bytes);
    return cost->near * (bytes - far) + cost->far * far;
}

/*
 * The rate of products is for operands in a cache. Operands from memory are packed before they are multiplied, and this
 * takes additional time unless it is hidden; it counts as hidden if it is not known which operands come from memory.
 */
static double product_seconds(const ls_instr *instr, double moved, double far, const ls_rates *rates) {
    const double seconds = instr->flops / rates->core.matmul;
    if (isinf(far) || rates->hides) return fmax(seconds, moved);
    return fmax(seconds + far * rates->core.bytes[LS_KERNEL_ADD].far, moved);
}

/* The additional time of a copy or a put if one side is in several pieces: each piece is then a copy of its own. */
static double pieces_seconds(const ls_operand *from, const ls_operand *to, const ls_rates *rates) {
    const double most = fmax(ls_operand_pieces(from), ls_operand_pieces(to));
    return most > 1 ? rates->piece * most : 0;
}

/*
 * The cost of a flop in plain loops, in flops of attention: about 2 GFLOP/s on a core that computes attention with 100.
 */
#define PLAIN_FLOP 50

static double kernel_seconds(const ls_instr *instr, double far, const ls_rates *rates) {
    double bytes = 0, elsewhere = 0;
    for (int k = 0; k < ls_instr_operands(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        bytes += ls_instr_touched(instr, access.operand);
        if (access.kind == LS_ACCESS_READ && !ls_peer_is_self(access.operand->peer))
            elsewhere += ls_operand_bytes(access.operand);
    }
    const double before = rates->overhead + elsewhere * rates->put.near;
    const ls_contract *c = &ls_contracts[instr->kernel->id];
    if (c->cost == LS_COST_ATTENTION) return before + attention_seconds(instr, LS_FORWARD, bytes, rates);
    if (c->cost == LS_COST_ATTENTION_GRAD) return before + attention_seconds(instr, LS_BACKWARD, bytes, rates);
    const double moved = bytes_seconds(&rates->core.bytes[ls_measured_as(instr->kernel->id)], bytes, far);
    if (c->cost == LS_COST_OFFLOAD) return before + ls_operand_bytes(&instr->in[0]) / rates->to_host;
    if (c->cost == LS_COST_FETCH) return before + ls_operand_bytes(&instr->in[0]) / rates->from_host;
    if (c->cost == LS_COST_PRODUCT) return before + product_seconds(instr, moved, far, rates);
    if (c->cost == LS_COST_RECURRENCE) return before + fmax(instr->flops / rates->core.recurrence[LS_FORWARD], moved);
    if (c->cost == LS_COST_RECURRENCE_GRAD)
        return before + fmax(instr->flops / rates->core.recurrence[LS_BACKWARD], moved);
    if (c->cost == LS_COST_COPY) return before + moved + pieces_seconds(&instr->in[0], &instr->out[0], rates);
    const double flop = rates->core.attention[LS_FORWARD].flop * (c->cost == LS_COST_PLAIN ? PLAIN_FLOP : 1);
    return before + fmax(instr->flops * flop, moved);
}

double ls_instr_seconds(const ls_instr *instr, double far, const ls_rates *rates) {
    if (instr->kind == LS_INSTR_KERNEL) return kernel_seconds(instr, far, rates);
    if (instr->kind != LS_INSTR_PUT) return 0;
    const double bytes = instr->counted > 0 ? instr->likely : ls_operand_bytes(&instr->in[0]);
    return bytes_seconds(&rates->put, bytes, far / 2) + pieces_seconds(&instr->in[0], &instr->out[0], rates);
}
