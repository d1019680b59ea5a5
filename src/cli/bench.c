/* longspan bench */
#include "cli/cli.h"

typedef struct bench_flags {
    cli_common common;
    ls_bench_job job;
} bench_flags;

static const ls_option options[] = {
    {.name = "name",
     .type = LS_OPTION_TEXT,
     .metavar = "NAME",
     .offset = offsetof(bench_flags, job.name),
     .help = "machine (required); the name may stand alone"},
    CLI_COMMON_ROWS(bench_flags),
};

static ls_status run(void *context) {
    bench_flags *flags = context;
    flags->job.json = flags->common.json;
    return ls_run_bench(&flags->job, stdout);
}

const cli_command cli_bench = {
    .name = "bench",
    .summary = "measures what this machine does",
    .usage = "NAME [--json]",
    .about =
        "machine: what one core does with attention, its gradient and matrix products of each type, with memory, and in puts between "
        "two ranks. Takes some ten seconds of a machine that has nothing else to do. The rates are kept in the user's cache "
        "directory ($XDG_CACHE_HOME/longspan, else ~/.cache/longspan); from then on all commands predict and choose by them "
        "instead of by nominal ones.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(bench_flags),
    .takes_word = true,
};
