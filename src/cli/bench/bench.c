/*
 * longspan bench: the table of benches, one row each, and the bench machine, which measures the rates that plan uses.
 */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "comm/comm.h"
#include "plan/plan.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* --- machine ------------------------------------------------------------------------------------------------------ */

static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};

static void print_bytes(const char *what, const char *where, double measured, double nominal, FILE *out) {
    char name[40];
    snprintf(name, sizeof name, "%s%s%s", what, where[0] != 0 ? ", " : "", where);
    fprintf(out, "%-24s %11.1f %11.1f  GB/s\n", name, measured / 1e9, nominal / 1e9);
}

static void print_type(ls_dtype type, const ls_core_rates *a, const ls_core_rates *b, bool gpu, FILE *out) {
    const char *name = ls_dtype_name(type);
    for (int size = 64; size <= 128; size *= 2) {
        fprintf(out, "attention, D %-6d %-4s %11.1f %11.1f  GFLOP/s\n", size, name,
                ls_attention_rate(a, LS_FORWARD, size) / 1e9, ls_attention_rate(b, LS_FORWARD, size) / 1e9);
        fprintf(out, "its gradient        %-4s %11.1f %11.1f  GFLOP/s\n", name,
                ls_attention_rate(a, LS_BACKWARD, size) / 1e9, ls_attention_rate(b, LS_BACKWARD, size) / 1e9);
    }
    fprintf(out, "a query of a head   %-4s %11.0f %11.0f  ns\n", name, a->attention[LS_FORWARD].row * 1e9,
            b->attention[LS_FORWARD].row * 1e9);
    fprintf(out, "matrix product      %-4s %11.1f %11.1f  GFLOP/s\n", name, a->matmul / 1e9, b->matmul / 1e9);
    fprintf(out, "linear recurrence   %-4s %11.1f %11.1f  GFLOP/s\n", name, a->recurrence[LS_FORWARD] / 1e9,
            b->recurrence[LS_FORWARD] / 1e9);
    fprintf(out, "its gradient        %-4s %11.1f %11.1f  GFLOP/s\n", name, a->recurrence[LS_BACKWARD] / 1e9,
            b->recurrence[LS_BACKWARD] / 1e9);
    if (!gpu)
        fprintf(out, "  split over two    %-4s %11.1f %11.1f  %% longer than its halves\n", name, 100 * a->split,
                100 * b->split);
}

static void print_streams(const ls_host *host, const ls_host *nominal, FILE *out) {
    static const ls_kernel_id shown[] = {LS_KERNEL_RMSNORM_GRAD, LS_KERNEL_SWIGLU_GRAD, LS_KERNEL_CROSS_ENTROPY,
                                         LS_KERNEL_ADAMW};
    for (size_t i = 0; i < LS_COUNT(shown); i++) {
        const ls_byte_cost *a = &host->type[LS_F32].bytes[shown[i]], *b = &nominal->type[LS_F32].bytes[shown[i]];
        print_bytes(ls_contracts[shown[i]].name, "in a cache", 1 / a->near, 1 / b->near, out);
        print_bytes(ls_contracts[shown[i]].name, "from memory", 1 / a->far, 1 / b->far, out);
    }
    print_bytes("sums", "from memory", host->memory, nominal->memory, out);
}

static void print_rows(const ls_row_rates *rows, FILE *out) {
    for (int i = 0; i < rows->n; i++) {
        const ls_row_rate *rate = &rows->rate[i];
        char name[64];
        snprintf(name, sizeof name, "%s, %s", ls_contracts[rate->id].name, rate->row);
        fprintf(out, "%-24s %-4s %6.1f %11s  TFLOP/s\n", name, ls_dtype_name(rate->dtype), rate->flops / 1e12, "");
    }
}

typedef struct rates {
    ls_host_of of;
    ls_host host;
    ls_row_rates rows;
} rates;

static void print_page(const rates *r, const char *path, FILE *out) {
    const ls_host nominal = ls_host_nominal(r->of.device, r->of.isa), *host = &r->host;
    const bool gpu = r->of.device != LS_DEVICE_CPU;
    fprintf(out, "%-24s    measured     nominal\n", gpu ? r->of.facts.model : "a core, all of them busy");
    for (size_t i = 0; i < LS_COUNT(types) - gpu; i++) /* f64, the last, is not a GPU's */
        print_type(types[i], &host->type[types[i]], &nominal.type[types[i]], gpu, out);
    print_streams(host, &nominal, out);
    if (!gpu) print_bytes("sums, one core alone", "", host->memory_alone, nominal.memory_alone, out);
    print_bytes("puts", "in a cache", 1 / host->put.near, 1 / nominal.put.near, out);
    print_bytes("puts", "from memory", 1 / host->put.far, 1 / nominal.put.far, out);
    if (host->peer > 0) print_bytes("puts", "to another GPU", host->peer, nominal.peer, out);
    if (gpu) print_bytes("copies", "to the host", host->to_host, nominal.to_host, out);
    if (gpu) print_bytes("copies", "from the host", host->from_host, nominal.from_host, out);
    fprintf(out, "signal to end of wait    %11.0f %11.0f  ns\n", host->latency * 1e9, nominal.latency * 1e9);
    fprintf(out, "kernel with no work      %11.0f %11.0f  ns\n", host->overhead * 1e9, nominal.overhead * 1e9);
    fprintf(out, "a piece of a copy        %11.1f %11.1f  ns\n", host->piece * 1e9, nominal.piece * 1e9);
    print_rows(&r->rows, out);
    fprintf(out, "kept in %s\n", path);
}

static void print_json(const rates *r, const char *path, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_host_put(&r->host, &r->rows, w);
    ls_json_put_text(w, "file", path);
    ls_json_end(w, out);
}

/*
 * LS_USAGE for the device `delayed`, which is for tests: it executes the processor's kernels later than they are
 * launched.
 */
static ls_status refuse_delayed(const ls_host_of *of) {
    const char *name;
    ls_device_traits device;
    LS_TRY(ls_device_choose(of->name, &name, &device));
    if (device.at_once || device.submits) return ls_ok();
    return ls_error(LS_USAGE, "bench machine --device %s; expected a processor or a GPU, whose rates are kept", name);
}

static ls_status bench_machine(const ls_bench_job *job, FILE *out) {
    LS_PATH path = NULL;
    rates r;
    LS_TRY(ls_bench_device(&job->options, &r.of));
    LS_TRY(refuse_delayed(&r.of));
    LS_TRY(ls_host_path(&r.of, &path)); /* before the work, so that its result is not lost */
    LS_TRY(ls_host_measure(&r.of, &r.host, &r.rows));
    LS_TRY(ls_host_save(&r.of, &r.host, &r.rows));
    if (job->json)
        print_json(&r, path, out);
    else
        print_page(&r, path, out);
    return ls_ok();
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* The options of benches. */
static const struct {
    const char *name;
    size_t offset;
    bool text;
    int64_t most; /* upper limit of a number; the lower one is 1 */
} flags[] = {
    {"seq", offsetof(ls_bench_options, seq), false, 1 << 24},
    {"batch", offsetof(ls_bench_options, batch), false, 1 << 20},
    {"ranks", offsetof(ls_bench_options, ranks), false, INT32_MAX},
    {"threads", offsetof(ls_bench_options, threads), false, 1024},
    {"rounds", offsetof(ls_bench_options, rounds), false, 1 << 16},
    {"heads", offsetof(ls_bench_options, heads), false, 1 << 16},
    {"kv-heads", offsetof(ls_bench_options, kv_heads), false, 1 << 16},
    {"head-size", offsetof(ls_bench_options, head_size), false, 1 << 16},
    {"value-size", offsetof(ls_bench_options, value_size), false, 1 << 16},
    {"mask", offsetof(ls_bench_options, mask), true, 0},
    {"dtype", offsetof(ls_bench_options, dtype), true, 0},
    {"strategy", offsetof(ls_bench_options, strategy), true, 0},
    {"mesh", offsetof(ls_bench_options, mesh), true, 0},
    {"shard", offsetof(ls_bench_options, shard), true, 0},
    {"sums", offsetof(ls_bench_options, sums), true, 0},
    {"optimizer", offsetof(ls_bench_options, optimizer), true, 0},
    {"config", offsetof(ls_bench_options, config), true, 0},
    {"device", offsetof(ls_bench_options, device), true, 0},
    {"kernels", offsetof(ls_bench_options, kernels), true, 0},
    {"ranks-as", offsetof(ls_bench_options, ranks_as), true, 0},
};

typedef struct bench {
    const char *name;
    bool starts_ranks; /* opens sessions with different numbers of ranks, so it cannot run in a launched rank */
    ls_status (*run)(const ls_bench_job *job, FILE *out);
    const char *takes[LS_COUNT(flags) + 1]; /* ended by NULL */
} bench;

static const bench benches[] = {
    {"machine", false, bench_machine, {"device"}},
    {"gemm", false, ls_run_bench_gemm, {"seq", "threads", "rounds", "dtype", "config", "device", "kernels"}},
    {"attention",
     true,
     ls_run_bench_attention,
     {"seq", "ranks", "threads", "rounds", "heads", "kv-heads", "head-size", "value-size", "mask", "dtype", "strategy",
      "device", "kernels"}},
    {"comm", false, ls_run_bench_comm, {"rounds", "device"}},
    {"step",
     true,
     ls_run_bench_step,
     {"seq", "batch", "ranks", "threads", "rounds", "dtype", "strategy", "mesh", "shard", "sums", "optimizer", "config",
      "device", "kernels", "ranks-as"}},
    {"predicted", true, ls_run_bench_predicted, {"seq", "rounds", "config", "device", "ranks-as"}},
};

static bool is_given(const ls_bench_options *options, size_t flag) {
    const char *at = (const char *)options + flags[flag].offset;
    return flags[flag].text ? *(const char *const *)at != NULL : *(const int64_t *)at != 0;
}

static bool takes(const bench *b, const char *flag) {
    for (const char *const *name = b->takes; *name != NULL; name++)
        if (strcmp(*name, flag) == 0) return true;
    return false;
}

static ls_status check_numbers(const ls_bench_options *options) {
    for (size_t i = 0; i < LS_COUNT(flags); i++) {
        if (flags[i].text || !is_given(options, i)) continue;
        const int64_t value = *(const int64_t *)(const void *)((const char *)options + flags[i].offset);
        if (value < 1 || value > flags[i].most)
            return ls_error(LS_USAGE, "--%s %lld; expected 1 to %lld", flags[i].name, (long long)value,
                            (long long)flags[i].most);
    }
    return ls_ok();
}

static ls_status refuse_others(const bench *b, const ls_bench_options *options) {
    for (size_t i = 0; i < LS_COUNT(flags); i++) {
        if (!is_given(options, i) || takes(b, flags[i].name)) continue;
        char known[192] = "";
        for (const char *const *name = b->takes; *name != NULL; name++) {
            const size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "--%s, ", *name);
        }
        return ls_error(LS_USAGE, "bench %s does not take --%s; expected no flag but %s--json", b->name, flags[i].name,
                        known);
    }
    return ls_ok();
}

static ls_status refuse_launched(const bench *b) {
    int rank, launched;
    ls_launched_foresee(&rank, &launched);
    if (launched == 0 || !b->starts_ranks) return ls_ok();
    return ls_error(
        LS_USAGE,
        "bench %s starts ranks itself, but this process was launched as one of %d; expected no launcher, or "
        "%s=local and one process on each host",
        b->name, launched, LS_BOOT_VARIABLE);
}

ls_status ls_run_bench(const ls_bench_job *job, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    char known[128] = "";
    for (size_t i = 0; i < LS_COUNT(benches); i++) {
        if (job->name != NULL && strcmp(benches[i].name, job->name) == 0) {
            LS_TRY(refuse_others(&benches[i], &job->options));
            LS_TRY(check_numbers(&job->options));
            LS_TRY(refuse_launched(&benches[i]));
            return benches[i].run(job, out);
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", benches[i].name);
    }
    if (job->name == NULL) return ls_error(LS_USAGE, "no bench is given, expected one of %s", known);
    return ls_error(LS_USAGE, "bench '%s' is not known, expected one of %s", job->name, known);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct bench_flags {
    cli_common common;
    ls_bench_job job;
} bench_flags;

#define AT(field) offsetof(bench_flags, job.options.field)
static const ls_option options[] = {
    CLI_TEXT("name", "NAME", offsetof(bench_flags, job.name),
             "machine, gemm, attention, comm, step or predicted (required); the name may stand alone"),
    CLI_INT("seq", "S", NULL, 1, 0x1p24, AT(seq),
            "tokens; attention: 32768 when left out, gemm and step: 2048; predicted: at most so many"),
    CLI_INT("batch", "B", NULL, 1, 0x1p20, AT(batch), "step: sequences; 1 when left out"),
    CLI_INT(
        "ranks", "R", NULL, 1, INT32_MAX, AT(ranks),
        "attention: ranks of one thread each, or 1 for the kernels alone; the number of cores when left out. step: 1 when left out"),
    CLI_INT(
        "threads", "T", NULL, 1, 1024, AT(threads),
        "gemm: threads, measured besides one thread; attention: with --ranks 1; the number of cores when left out. step: threads of each rank; cores divided by ranks when left out"),
    CLI_INT("heads", "N", NULL, 1, 0x1p16, AT(heads), "attention: query heads; 8 when left out"),
    CLI_INT("kv-heads", "N", NULL, 1, 0x1p16, AT(kv_heads),
            "attention: KV heads, which the query heads share; 2 when left out"),
    CLI_INT("head-size", "N", NULL, 1, 0x1p16, AT(head_size),
            "attention: size of a head of queries and keys; 128 when left out"),
    CLI_INT("value-size", "N", NULL, 1, 0x1p16, AT(value_size),
            "attention: size of a head of values and results; --head-size when left out"),
    CLI_INT(
        "rounds", "N", NULL, 1, 0x1p16, AT(rounds),
        "rounds, in each of which everything is timed once, next to its floor; attention and predicted: 3 when left out, gemm and step: 5, comm: 15"),
    CLI_TEXT("mask", "MASK", AT(mask), "attention: the mask, as of longspan attention; causal when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype),
               "element type; attention and step: bf16 when left out, gemm: f32 and bf16 both"),
    CLI_TEXT("optimizer", "NAME", AT(optimizer), "step: what updates the parameters; adamw when left out"),
    CLI_TEXT("strategy", "NAME", AT(strategy),
             "attention: only this strategy; all when left out. step: chosen when left out"),
    CLI_TEXT("mesh", "dp=A,outer=O,ring=R,ulysses=U,tp=T", AT(mesh), "step: sizes of mesh axes, as of longspan train"),
    CLI_CHOICE("shard", "WHAT", "auto|none|optimizer|gradients|parameters", NULL, AT(shard),
               "step: what is cut over all ranks, as of longspan train; chosen when left out"),
    CLI_CHOICE("sums", "ORDER", "fast|canonical", NULL, AT(sums), "step: order of sums, as of longspan train"),
    CLI_TEXT(
        "config", "FILE", AT(config),
        "gemm, step and predicted: config.json of a model or its folder; a Llama of 12 layers, E 768, F 2048, V 32000, 12 heads that share 4 when left out, for predicted a model for each configuration"),
    CLI_TEXT("device", "NAME", AT(device), "what computes: cpu, cuda or cuda:N; cpu when left out"),
    CLI_TEXT("kernels", "CONTRACT/TYPE=ROW", AT(kernels),
             "attention, gemm and step: kernels that are taken first, as of longspan train"),
    CLI_CHOICE("ranks-as", "KIND", "processes|threads", NULL, AT(ranks_as),
               "step and predicted: what a rank is; processes when left out"),
};
#undef AT

static ls_status run(void *context) {
    bench_flags *f = context;
    f->job.json = f->common.json;
    return ls_run_bench(&f->job, stdout);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measure this machine",
    .usage = "NAME [options]",
    .about =
        "machine: measures what one core does while all others do the same: attention, linear recurrences, their gradients and matrix products of each type, kernels "
        "bound by their bytes, in a cache and from memory, and puts between ranks. Takes half a minute; the machine should be idle. "
        "The rates are kept in the user's cache folder ($XDG_CACHE_HOME/longspan, else ~/.cache/longspan). From then on all commands predict "
        "and choose by them instead of by nominal rates. With --device cuda: the rates of one GPU, of each row of kernels for the same calls, "
        "of puts on one GPU and to another, and of copies to and from the host; kept for each model of GPU.\n"
        "attention: forward and backward of one attention over ranks of one thread, by every strategy that applies, with blocks put and "
        "read in place, against the same by one rank with as many threads. They are measured in pairs; the figures are medians. At the default "
        "sizes a round takes minutes. With --ranks 1: the kernels alone, forward and backward, against the best rate of square products, and, "
        "with another mask than causal, against causal attention; on a GPU that is all.\n"
        "gemm: the matrix products that a training step of a model calls, forward and for the gradients of inputs and weights, each by "
        "itself, against the best rate of any product of that type in the same run, including square ones.\n"
        "comm: a put with a signal between two processes over shared memory: its latency against a bare flag, and its bandwidth against "
        "a plain copy, a flag and the peer's read; and the same for reading in place. With --device cuda: between two ranks by messages of the "
        "device, on one GPU and on two, against a bare word and a copy within a rank's memory.\n"
        "step: training steps of a model on random weights and tokens (micro-batch and update) against the best rate of square products; "
        "where the time of the median step went, by kind of kernel and by weight, next to the prediction; start-up and memory, of a GPU by its "
        "driver's account, too.\n"
        "predicted: in each round measures the machine as above, without keeping the rates, and runs steps of eight configurations next to "
        "their predictions; the figures are medians of the rounds. --config takes another model for all of them.\n"
        "Each bench refuses the flags of the others.",
    CLI_OWN(options, run, bench_flags),
    .takes_word = 1,
};
