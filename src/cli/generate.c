/* longspan generate */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct generate_flags {
    cli_common common;
    ls_generate_job job;
} generate_flags;

#define AT(field) offsetof(generate_flags, job.field)
static const ls_option options[] = {
    {.name = "model",
     .type = LS_OPTION_TEXT,
     .metavar = "PATH",
     .required = true,
     .offset = AT(model),
     .help = "config.json, or a directory with one"},
    {.name = "checkpoint",
     .type = LS_OPTION_TEXT,
     .metavar = "DIR",
     .offset = AT(checkpoint),
     .help = "a checkpoint, or the --out of a training run; the model's own weights when left out"},
    {.name = "prompt",
     .type = LS_OPTION_TEXT,
     .metavar = "TEXT",
     .required = true,
     .offset = AT(prompt),
     .help = "what to continue"},
    {.name = "tokens",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "200",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(tokens),
     .help = "to make"},
    {.name = "window",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .least = 1,
     .most = 0x1p62,
     .offset = AT(window),
     .help = "tokens of context that are seen; chosen when left out"},
    {.name = "temperature",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "1",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(temperature),
     .help = "0: always the likeliest"},
    {.name = "top-k",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(top_k),
     .help = "draw from the N likeliest; 0: from all"},
    {.name = "top-p",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .initial = "1",
     .least = 1e-9,
     .most = 1,
     .offset = AT(top_p),
     .help = "draw from the likeliest that hold this share"},
    {.name = "seed",
     .type = LS_OPTION_INT,
     .metavar = "N",
     .initial = "0",
     .least = 0,
     .most = 0x1p62,
     .offset = AT(seed),
     .help = "of the draws, and of random weights"},
    {.name = "threads",
     .type = LS_OPTION_INT,
     .metavar = "T",
     .least = 1,
     .most = 1024,
     .offset = AT(threads),
     .help = "all cores when left out"},
    CLI_COMMON_ROWS(generate_flags),
};
#undef AT

static void write_now(void *context, const char *bytes, size_t n) {
    (void)context;
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

static void keep(void *context, const char *bytes, size_t n) { fwrite(bytes, 1, n, context); }

static ls_status run_json(ls_generate_job *job) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (memory == NULL) return ls_error(LS_NO_MEMORY, "no memory for the text");
    job->text = keep;
    job->context = memory;
    ls_status status = ls_run_generate(job);
    if (fclose(memory) != 0 && status.code == LS_OK)
        status = ls_error(LS_NO_MEMORY, "no memory for the text");
    if (status.code == LS_OK) ls_generated_json(job->prompt, text, stdout);
    free(text);
    return status;
}

static ls_status run(void *context) {
    generate_flags *flags = context;
    if (flags->common.json) return run_json(&flags->job);
    flags->job.text = write_now;
    LS_TRY(ls_run_generate(&flags->job));
    putchar('\n');
    return ls_ok();
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .usage = "--model PATH [--checkpoint DIR] --prompt TEXT [options]",
    .about = "Prints what follows the prompt, as it is made, on one rank.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(generate_flags),
};
