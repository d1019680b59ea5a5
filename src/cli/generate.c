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
    CLI_REQUIRED_TEXT("model", "PATH", AT(model), "config.json, or a directory with one"),
    CLI_TEXT("checkpoint", "DIR", AT(checkpoint),
             "a checkpoint, or the --out of a training run; the model's own weights when left out"),
    CLI_REQUIRED_TEXT("prompt", "TEXT", AT(prompt), "what to continue"),
    CLI_INT("tokens", "N", "200", 1, CLI_ANY, AT(tokens), "to make"),
    CLI_INT("window", "N", NULL, 1, CLI_ANY, AT(window),
            "tokens of context that are seen; chosen when left out"),
    CLI_FLOAT("temperature", "X", "1", 0, CLI_ANY, AT(temperature), "0: always the likeliest"),
    CLI_INT("top-k", "N", "0", 0, CLI_ANY, AT(top_k), "draw from the N likeliest; 0: from all"),
    CLI_FLOAT("top-p", "X", "1", 1e-9, 1, AT(top_p), "draw from the likeliest that hold this share"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of the draws, and of random weights"),
    CLI_INT("threads", "T", NULL, 1, 1024, AT(threads), "all cores when left out"),
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
