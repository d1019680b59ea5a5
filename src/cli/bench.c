/* longspan bench */
#include "cli/cli.h"

typedef struct bench_flags {
    cli_common common;
    ls_bench_job job;
} bench_flags;

#define AT(field) offsetof(bench_flags, job.attention.field)
#define COUNT(flag, word, field, text)                                                    \
    {                                                                                     \
        .name = flag, .type = LS_OPTION_INT, .metavar = word, .least = 1, .most = 0x1p31, \
        .offset = AT(field), .help = text                                                 \
    }
static const ls_option options[] = {
    {.name = "name",
     .type = LS_OPTION_TEXT,
     .metavar = "NAME",
     .offset = offsetof(bench_flags, job.name),
     .help = "machine or attention (required); the name may stand alone"},
    COUNT("seq", "S", seq, "tokens; 32768 when left out"),
    COUNT("ranks", "R", ranks, "of one thread each, 2 or more; as many as cores when left out"),
    COUNT("heads", "N", heads, "query heads; 8 when left out"),
    COUNT("kv-heads", "N", kv_heads, "that the query heads share; 2 when left out"),
    COUNT("head-size", "N", head_size, "128 when left out"),
    COUNT("rounds", "N", rounds, "in which each strategy is timed once, beside one rank; 3 when left out"),
    {.name = "mask",
     .type = LS_OPTION_TEXT,
     .metavar = "MASK",
     .offset = AT(mask),
     .help = "as of longspan attention; causal when left out"},
    CLI_DTYPE_ROW(bench_flags, job.attention.dtype, "f32|f64|bf16", "bf16"),
    {.name = "strategy",
     .type = LS_OPTION_TEXT,
     .metavar = "NAME",
     .offset = AT(strategy),
     .help = "this one alone; all when left out"},
    CLI_COMMON_ROWS(bench_flags),
};
#undef COUNT
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
        "machine: what one core does with attention, its gradient and matrix products of each type, with memory, and in puts between "
        "two ranks. Takes some ten seconds of a machine that has nothing else to do. The rates are kept in the user's cache "
        "directory ($XDG_CACHE_HOME/longspan, else ~/.cache/longspan); from then on all commands predict and choose by them "
        "instead of by nominal ones.\n"
        "attention: forward and backward of one attention over ranks of one thread, by every strategy that applies, with blocks put and "
        "read in place, against one rank with as many threads doing the same; pair by pair, medians. The other flags are for this one; "
        "at the default sizes a round takes minutes.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(bench_flags),
    .takes_word = true,
};
