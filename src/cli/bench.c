/* longspan bench */
#include "cli/cli.h"

typedef struct bench_flags {
    cli_common common;
    ls_bench_job job;
} bench_flags;

#define AT(field) offsetof(bench_flags, job.options.field)
static const ls_option options[] = {
    CLI_TEXT("name", "NAME", offsetof(bench_flags, job.name),
             "machine, gemm, attention, comm, step or predicted (required); the name may stand alone"),
    CLI_INT("seq", "S", NULL, 1, 0x1p24, AT(seq),
            "tokens; attention: 32768 when left out, gemm and step: 2048"),
    CLI_INT("batch", "B", NULL, 1, 0x1p20, AT(batch), "step: sequences; 1 when left out"),
    CLI_INT(
        "ranks", "R", NULL, 1, 1024, AT(ranks),
        "attention: of one thread each, or 1 for the kernels alone; as many as cores when left out. step: 1 when left out"),
    CLI_INT(
        "threads", "T", NULL, 1, 1024, AT(threads),
        "gemm: beside one alone; attention: with --ranks 1; as many as cores when left out. step: of each rank; cores divided by ranks when left out"),
    CLI_INT("heads", "N", NULL, 1, 0x1p16, AT(heads), "attention: query heads; 8 when left out"),
    CLI_INT("kv-heads", "N", NULL, 1, 0x1p16, AT(kv_heads),
            "attention: that the query heads share; 2 when left out"),
    CLI_INT("head-size", "N", NULL, 1, 0x1p16, AT(head_size), "attention: 128 when left out"),
    CLI_INT(
        "rounds", "N", NULL, 1, 0x1p16, AT(rounds),
        "in which everything is timed once, each beside its floor; attention and predicted: 3 when left out, gemm and step: 5, comm: 15"),
    CLI_TEXT("mask", "MASK", AT(mask), "attention: as of longspan attention; causal when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype),
               "element type; attention and step: bf16 when left out, gemm: f32 and bf16 both"),
    CLI_TEXT("strategy", "NAME", AT(strategy),
             "attention: this one alone; all when left out. step: chosen when left out"),
    CLI_TEXT(
        "config", "FILE", AT(config),
        "gemm and step: config.json of a model or its directory; a Llama of 12 layers, E 768, F 2048, V 32000, 12 heads that share 4 when left out"),
};
#undef AT

static ls_status run(void *context) {
    bench_flags *flags = context;
    flags->job.json = flags->common.json;
    return ls_run_bench(&flags->job, stdout);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measures what this machine does",
    .usage = "NAME [options]",
    .about =
        "machine: what one core does while all the others do the same: attention, its gradient and matrix products of each type, kernels "
        "bound by their bytes, in a cache and from memory, and puts between ranks. Takes half a minute of a machine that has nothing "
        "else to do. The rates are kept in the user's cache "
        "directory ($XDG_CACHE_HOME/longspan, else ~/.cache/longspan); from then on all commands predict and choose by them "
        "instead of by nominal ones.\n"
        "attention: forward and backward of one attention over ranks of one thread, by every strategy that applies, with blocks put and "
        "read in place, against one rank with as many threads doing the same; pair by pair, medians. At the default "
        "sizes a round takes minutes. With --ranks 1 the kernels alone, forward and backward, against the best rate of square products, and "
        "where another mask is given, against the causal one.\n"
        "gemm: the matrix products that a training step of a model calls, forward and for the gradients of inputs and weights, each by "
        "itself, against the best rate that was seen on the type in the same run, square products among them.\n"
        "comm: a put with a signal between two processes over shared memory: its latency against a bare flag there, and its bandwidth against "
        "a plain copy, a flag and the peer's read; and reading in place beside it.\n"
        "step: training steps of a model on random weights and tokens (micro-batch and update) against the best rate of square products; "
        "where the time of the median step went, by kind of kernel and by weight, beside what was predicted; start-up and memory.\n"
        "predicted: in each round measures the machine as above, keeps nothing, and runs steps of eight configurations beside what it predicts of them; medians of the rounds.\n"
        "Each bench refuses the flags of the others.",
    CLI_OWN(options, run, bench_flags),
    .takes_word = 1,
};
