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
    CLI_TEXT("prompt-file", "FILE", AT(prompt_file),
             "a text file to continue, instead of --prompt; -: standard input"),
    CLI_INT("tokens", "N", "200", 1, 1 << 30, AT(tokens), "to make; fewer where the document ends"),
    CLI_FLAG("ignore-eos", AT(ignore_end), "go on behind tokens that end a text"),
    CLI_FLOAT("temperature", "X", "1", 0, CLI_ANY, AT(temperature), "0: always the likeliest"),
    CLI_INT("top-k", "N", "0", 0, CLI_ANY, AT(top_k),
            "draw from the N likeliest, and all as likely as the last of them; 0: from all"),
    CLI_FLOAT("top-p", "X", "1", 1e-9, 1, AT(top_p),
              "and of these from the fewest that hold this share of their chances"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of the draws, and of random weights"),
};
#undef AT

static void write_now(void *context, const char *bytes, size_t n) {
    (void)context;
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

/* What is made, for --json. */
typedef struct kept {
    FILE *text;
    int32_t *ids; /* as many as are asked for */
    int64_t n;
} kept;

static void keep_text(void *context, const char *bytes, size_t n) {
    const kept *k = context;
    fwrite(bytes, 1, n, k->text);
}

static void keep_id(void *context, int32_t id) {
    kept *k = context;
    k->ids[k->n++] = id;
}

static ls_status run_json(ls_generate_job *job) {
    char *text = NULL;
    size_t bytes = 0;
    kept k = {.text = open_memstream(&text, &bytes), .ids = calloc((size_t)job->tokens, sizeof *k.ids)};
    ls_status status;
    ls_generate_result result;
    job->text = keep_text;
    job->token = keep_id;
    job->context = &k;
    if (k.text == NULL || k.ids == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for a text of %lld tokens", (long long)job->tokens);
    else
        status = ls_run_generate(job, &result);
    const bool made = status.code == LS_OK || status.code == LS_INTERRUPTED;
    if (k.text != NULL && fclose(k.text) != 0 && status.code == LS_OK)
        status = ls_error(LS_NO_MEMORY, "no memory for the text");
    if (made && text != NULL) ls_generate_result_json(job->prompt, text, k.ids, &result, stdout);
    free(k.ids);
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
    char memory[LS_BYTES_TEXT], cache[LS_BYTES_TEXT], resident[LS_BYTES_TEXT];
    fprintf(stderr, "\nlongspan: memory of a rank: %s predicted, %s of it keys and values; %s resident\n",
            ls_bytes_text((double)r.spread.predicted_bytes, memory),
            ls_bytes_text((double)r.cache_bytes, cache), ls_bytes_text((double)r.resident_bytes, resident));
    return status;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .usage = "--model PATH [--checkpoint DIR] --prompt TEXT|--prompt-file FILE [options]",
    .about =
        "Prints what follows the prompt, as it is made. Ranks share the prompt's tokens and keep the keys and values of their part; each "
        "further token is computed over all of them. Ranks are threads here. The text ends after --tokens, or at one of the model's "
        "eos_token_id (generation_config.json, config.json) or the tokenizer's end of a document. Logits are divided by --temperature, "
        "then --top-k, then --top-p cut them, as in the Hugging Face library. The same command draws the same text; so does any number "
        "of ranks, but where a draw falls between two tokens to within rounding. Ctrl-C ends it.",
    .opens = true,
    .spreads = true,
    CLI_OWN(options, run, generate_flags),
};
