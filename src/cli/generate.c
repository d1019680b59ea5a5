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
    CLI_CHECKPOINT(AT(checkpoint)),
    CLI_TEXT("prompt", "TEXT", AT(prompt), "what to continue"),
    CLI_TEXT("prompt-file", "FILE", AT(prompt_file), "a text file to continue, instead of --prompt"),
    CLI_INT("tokens", "N", "200", 1, 1 << 30, AT(tokens), "to make; fewer where the document ends"),
    CLI_FLOAT("temperature", "X", "1", 0, CLI_ANY, AT(temperature), "0: always the likeliest"),
    CLI_INT("top-k", "N", "0", 0, CLI_ANY, AT(top_k), "draw from the N likeliest; 0: from all"),
    CLI_FLOAT("top-p", "X", "1", 1e-9, 1, AT(top_p), "draw from the likeliest that hold this share"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of the draws, and of random weights"),
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
    ls_generate_result result;
    ls_status status = ls_run_generate(job, &result);
    if (fclose(memory) != 0 && status.code == LS_OK)
        status = ls_error(LS_NO_MEMORY, "no memory for the text");
    if (status.code == LS_OK || status.code == LS_INTERRUPTED)
        ls_generate_result_json(job->prompt, text, &result, stdout);
    free(text);
    return status;
}

static double rate(int64_t tokens, double seconds) {
    return (double)tokens / (seconds > 1e-9 ? seconds : 1e-9);
}

static ls_status run(void *context) {
    generate_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    if (flags->common.json) return run_json(&flags->job);
    flags->job.text = write_now;
    ls_generate_result r;
    const ls_status status = ls_run_generate(&flags->job, &r);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    putchar('\n');
    fflush(stdout);
    fprintf(stderr, "longspan: %lld tokens at %.1f tokens/s", (long long)r.tokens,
            rate(r.tokens, r.decode_seconds));
    if (r.prompt_tokens > 1)
        fprintf(stderr, ", behind a prompt of %lld at %.0f tokens/s", (long long)r.prompt_tokens,
                rate(r.prompt_tokens - 1, r.prefill_seconds));
    fputc('\n', stderr);
    return status;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .usage = "--model PATH [--checkpoint DIR] --prompt TEXT [--tokens N] [options]",
    .about =
        "Prints what follows the prompt, as it is made. Ranks share the prompt's tokens and keep the keys and values of their part; each "
        "further token is computed over all of them. Ranks are threads here. The same command draws the same text; with --temperature 0 so "
        "does any number of ranks, but where two tokens are equally likely to the last digit. Ctrl-C ends it.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .opens = true,
    .spreads = true,
    .run = run,
    .flags_bytes = sizeof(generate_flags),
};
