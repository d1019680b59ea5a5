/* longspan generate: continues a prompt, token by token. */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "eval/eval.h"
#include "format/format.h"
#include "longspan/spread.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes, ls_token_list *out) {
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    const int32_t end = ls_tokenizer_end_of_document(tokenizer);
    ls_token_list list = {NULL, 0, 0};
    LS_TRY(ls_tokenizer_encode(tokenizer, text, bytes, &list));
    const size_t before = frame.n_before + list.count > 0 ? frame.n_before : 1;
    if (frame.n_before == 0 && before > 0 && end < 0) {
        free(list.id);
        return ls_error(LS_INVALID, "the prompt is empty, and the tokenizer \"%s\" has no token to begin with",
                        ls_tokenizer_name(tokenizer));
    }
    int32_t *ids = malloc(sizeof *ids * (before + list.count));
    if (ids == NULL) {
        free(list.id);
        return ls_error(LS_NO_MEMORY, "no memory for a prompt of %zu tokens", list.count);
    }
    memcpy(ids, frame.n_before > 0 ? frame.before : &end, sizeof *ids * before);
    if (list.count > 0) memcpy(ids + before, list.id, sizeof *ids * list.count);
    free(list.id);
    *out = (ls_token_list){ids, before + list.count, before + list.count};
    return ls_ok();
}

/* Sends the text that home has read to all processes, because launchers give standard input only to rank 0. */
static ls_status share_text(char **text, size_t *bytes) {
    LS_TRY(ls_home_tell(bytes, sizeof *bytes));
    if (!ls_is_home()) *text = malloc(*bytes + 1);
    LS_TRY(
        ls_home_agree(*text != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for a prompt of %zu bytes", *bytes)));
    return ls_home_tell(*text, *bytes);
}

/* Reads all of standard input, which may be a pipe. The caller frees *out. */
static ls_status read_stdin(char **out, size_t *bytes) {
    enum { FIRST = 1 << 16 };
    char *text = malloc(FIRST);
    size_t room = FIRST, n = 0;
    while (text != NULL) {
        n += fread(text + n, 1, room - n, stdin);
        if (n < room || room > INT32_MAX) break;
        char *more = realloc(text, room *= 2);
        if (more == NULL) free(text);
        text = more;
    }
    ls_status status = ls_ok();
    if (text == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for the prompt on standard input");
    else if (ferror(stdin))
        status = ls_error(LS_IO, "--prompt-file -: standard input cannot be read");
    else if (n > INT32_MAX)
        status = ls_error(LS_INVALID, "--prompt-file -: expected at most %d bytes", INT32_MAX);
    if (status.code != LS_OK) {
        free(text);
        return status;
    }
    *out = text;
    *bytes = n;
    return status;
}

/*
 * Makes tokens of the prompt, which is `text` or the contents of `file` ("-": standard input); the other one is NULL.
 * The tokens that the tokenizer puts before a text come first. A prompt without any token becomes the end of a
 * document, because in training, texts begin after the end of a document. The caller frees *out.
 */
static ls_status tokenize_prompt(const ls_tokenizer *tokenizer, const char *text, const char *file,
                                 ls_token_list *out) {
    char *read = NULL;
    size_t bytes = 0;
    if (text != NULL) return encode(tokenizer, text, strlen(text), out);
    const bool from_stdin = strcmp(file, "-") == 0;
    if (from_stdin)
        LS_TRY(ls_home_agree(ls_is_home() ? read_stdin(&read, &bytes) : ls_ok()));
    else
        LS_TRY(ls_file_read(file, INT32_MAX, &read, &bytes));
    ls_status status = from_stdin ? share_text(&read, &bytes) : ls_ok();
    if (status.code == LS_OK) status = encode(tokenizer, read, bytes, out);
    free(read);
    return status;
}

/* --- generation --------------------------------------------------------------------------------------------------- */

typedef struct generation {
    const ls_generate_job *job;
    ls_trained trained;
    int32_t *prompt; /* [n_prompt] */
    int64_t n_prompt, most;
    int ranks;
    ls_decoder decoder;
    ls_stops stops; /* none with ignore_end */
    /* Used by rank 0: */
    ls_sampler *sampler;
    ls_generated_text *stream;
} generation;

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

/* What all ranks do after a token, as rank 0 has decided. */
typedef enum what_next { CONTINUE, AT_END, STOPPED, FAILED } what_next;
typedef struct decision {
    what_next what;
    int32_t id;
} decision;

/* On rank 0: draws a token, passes its text on, and decides what all ranks do next. */
static ls_status decide(const generation *g, const ls_rank *rank, int64_t made, const float *logits, decision *out) {
    const int32_t id = ls_sampler_draw(g->sampler, logits, (uint64_t)made);
    *out = (decision){.id = id};
    if (ls_comm_stop_requested(rank->comm)) out->what = STOPPED;
    if (ls_stops_have(&g->stops, id)) out->what = AT_END;
    if (out->what != CONTINUE) return ls_ok();
    if (g->job->token != NULL) g->job->token(g->job->context, id);
    const ls_status status = ls_generated_put(g->stream, id);
    if (status.code != LS_OK) out->what = FAILED;
    return status;
}

/* Decides on rank 0, and sends the decision to all ranks. */
static ls_status share_decision(const generation *g, const ls_rank *rank, int64_t made, const float *logits,
                                decision *out) {
    ls_status status = ls_ok();
    decision made_by_0 = {.what = CONTINUE};
    ls_comm_doing(rank->comm, "token %lld", (long long)made + 1);
    if (rank->rank == 0) status = decide(g, rank, made, logits, &made_by_0);
    const ls_status sent = ls_comm_broadcast(rank->comm, &made_by_0, sizeof made_by_0);
    LS_TRY(status);
    LS_TRY(sent);
    if ((int)made_by_0.what < CONTINUE || made_by_0.what > FAILED || made_by_0.id < 0 ||
        made_by_0.id >= ls_model_describe(g->trained.model).V)
        return ls_error(LS_INVALID, "rank 0 tells token %d and decision %d; expected one of %lld and of %d",
                        made_by_0.id, (int)made_by_0.what, (long long)ls_model_describe(g->trained.model).V,
                        FAILED + 1);
    *out = made_by_0;
    if (out->what == FAILED) return ls_error(LS_PEER, "rank 0 failed");
    return ls_ok();
}

static ls_status make_tokens(const generation *g, const ls_rank *rank, float *logits, ls_generate_result *out) {
    decision next = {.id = g->prompt[g->n_prompt - 1]};
    for (int64_t made = 0; made < g->job->tokens; made++) {
        LS_TRY(ls_decoder_next(&g->decoder, rank, next.id, g->n_prompt - 1 + made, logits));
        LS_TRY(share_decision(g, rank, made, logits, &next));
        if (next.what == STOPPED) return ls_error(LS_INTERRUPTED, "stopped after %lld tokens", (long long)made);
        out->at_end = next.what == AT_END;
        if (out->at_end) break;
        out->tokens = made + 1;
    }
    return ls_ok();
}

/* The maximum over ranks of the cache and of the resident memory. */
static ls_status count_memory(const generation *g, const ls_rank *rank, ls_generate_result *out) {
    out->cache_bytes = ls_decoder_cache_bytes(&g->decoder, rank->image);
    out->resident_bytes = ls_resident_bytes(rank).arenas;
    LS_TRY(ls_comm_max_i64(rank->comm, &out->cache_bytes, 1));
    return ls_comm_max_i64(rank->comm, &out->resident_bytes, 1);
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const generation *g = input;
    ls_generate_result *out = result;
    ls_comm_end_at_stop(rank->comm, true); /* as long as there are no tokens between which it can stop */
    LS_TRY(ls_trained_fill(&g->trained, rank, g->job->seed));
    const double began = ls_seconds();
    /* Also for a prompt of one token, which has no tokens before it: the cache must be made before it is read. */
    LS_TRY(ls_decoder_prefill(&g->decoder, rank, g->prompt, ls_max(g->n_prompt - 1, 0)));
    LS_TRY(ls_comm_barrier(rank->comm));
    ls_comm_end_at_stop(rank->comm, false);
    const double filled = ls_seconds();
    float *logits = malloc(sizeof *logits * (size_t)ls_model_describe(g->trained.model).outputs);
    if (logits == NULL) return ls_error(LS_NO_MEMORY, "no memory for the logits of a token");
    const ls_status status = make_tokens(g, rank, logits, out);
    free(logits);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    LS_TRY(count_memory(g, rank, out));
    out->prefill_seconds = filled - began;
    out->decode_seconds = ls_seconds() - filled;
    if (rank->rank == 0) LS_TRY(ls_generated_end(g->stream));
    return status;
}

/* --- before the ranks run ----------------------------------------------------------------------------------------- */

static ls_status check_job(const ls_generate_job *job, int *ranks) {
    if ((job->prompt == NULL) == (job->prompt_file == NULL))
        return ls_error(LS_USAGE, "--prompt and --prompt-file: expected one of them");
    if (job->tokens < 1 || job->tokens > 1 << 30)
        return ls_error(LS_USAGE, "--tokens %lld; expected 1 to %d", (long long)job->tokens, 1 << 30);
    if (!(job->temperature >= 0) || !(job->top_p >= 0) || job->top_p > 1 || job->top_k < 0)
        return ls_error(LS_USAGE, "--temperature %g, --top-p %g, --top-k %lld; expected 0 or more, 0 to 1, 0 or more",
                        job->temperature, job->top_p, (long long)job->top_k);
    ls_plan_request request = {0};
    LS_TRY(ls_spread_resolve(&job->spread, &request));
    *ranks = request.ranks;
    return ls_ok();
}

/*
 * Checks that all processes of launched ranks have read the same tokens. mine: the status of reading them in this
 * process.
 */
static ls_status compare_prompts(const ls_token_list *list, ls_status mine) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    if (mine.code == LS_OK) ls_alike_add_bytes(alike, "a prompt", list->id, (size_t)list->count * sizeof *list->id);
    return ls_alike_end(alike, mine);
}

static ls_status read_prompt(generation *g) {
    ls_token_list list = {0};
    const ls_status read = tokenize_prompt(g->trained.tokenizer, g->job->prompt, g->job->prompt_file, &list);
    const ls_status alike = compare_prompts(&list, read);
    if (alike.code != LS_OK) {
        free(list.id);
        return alike;
    }
    g->prompt = list.id;
    g->n_prompt = (int64_t)list.count;
    /* The last generated token is not fed back, so it needs no position. */
    g->most = ls_max(g->n_prompt + g->job->tokens - 1, g->ranks);
    if (g->most < INT32_MAX) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%lld tokens; expected fewer than %d", (long long)g->most, INT32_MAX);
}

/* A generation beyond the model's positions is logged if they are rotary, and an error if they are learned. */
static ls_status check_positions(const generation *g) {
    const ls_model_sizes sizes = ls_model_describe(g->trained.model);
    const int64_t needed = g->n_prompt + g->job->tokens - 1;
    if (sizes.longest <= 0 || needed <= sizes.longest) return ls_ok();
    if (sizes.learned)
        return ls_error(LS_USAGE,
                        "--tokens %lld after a prompt of %lld: the model has %lld positions, which are learned; "
                        "expected at most %lld tokens",
                        (long long)g->job->tokens, (long long)g->n_prompt, (long long)sizes.longest,
                        (long long)ls_max(0, sizes.longest + 1 - g->n_prompt));
    ls_log("a prompt of %lld tokens and %lld more go beyond the model's %lld positions", (long long)g->n_prompt,
           (long long)g->job->tokens, (long long)sizes.longest);
    return ls_ok();
}

static ls_status open_decoder(generation *g) {
    LS_TRY(check_positions(g));
    ls_spread spread = g->job->spread;
    spread.as_threads = true; /* so that the job's callbacks run in the caller's process */
    LS_TRY(ls_decoder_open(g->trained.model, g->n_prompt, g->most, g->job->dtype, &spread, &g->decoder));
    const ls_sampling how = {g->job->temperature, g->job->top_p, g->job->top_k, g->job->seed};
    /* The model's vocabulary may be larger than the tokenizer's. */
    return ls_sampler_create(&how, ls_tokenizer_vocabulary(g->trained.tokenizer), &g->sampler);
}

static ls_status generate(generation *g, ls_generate_result *result) {
    LS_TRY(check_job(g->job, &g->ranks));
    LS_TRY(ls_trained_open_changed(g->job->model, g->job->checkpoint, &g->job->rope, &g->job->adapter, &g->trained));
    if (!g->job->ignore_end) LS_TRY(ls_stops_read(&g->trained, &g->stops));
    LS_TRY(read_prompt(g));
    LS_TRY(open_decoder(g));
    g->stream->tokenizer = g->trained.tokenizer;
    LS_TRY(ls_generated_begin(g->stream, g->prompt, (size_t)g->n_prompt));
    ls_generate_result made = {.tokens = 0};
    const ls_status status = ls_session_run(g->decoder.session, on_rank, g, &made, sizeof made);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    made.prompt_tokens = g->n_prompt;
    made.spread = ls_session_describe(g->decoder.session);
    made.spread.seconds = made.prefill_seconds + made.decode_seconds;
    *result = made;
    return status;
}

ls_status ls_run_generate(const ls_generate_job *job, ls_generate_result *result) {
    LS_NEED(job, "job");
    LS_NEED(result, "result");
    LS_NEED(job->text, "job->text");
    ls_generated_text stream = {.out = job->text, .context = job->context};
    generation g = {.job = job, .stream = &stream};
    const ls_status status = generate(&g, result);
    ls_decoder_close(&g.decoder);
    ls_sampler_destroy(g.sampler);
    ls_generated_free(&stream);
    ls_trained_close(&g.trained);
    free(g.prompt);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct generate_flags {
    cli_common common;
    ls_generate_job job;
} generate_flags;

#define AT(field) offsetof(generate_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("model", "PATH", AT(model),
                      "config.json, or graph.json of an imported model; or a folder with one"),
    CLI_CHECKPOINT(AT(checkpoint)),
    CLI_TEXT("prompt", "TEXT", AT(prompt), "text to continue"),
    CLI_TEXT("prompt-file", "FILE", AT(prompt_file), "a text file to continue, instead of --prompt; -: standard input"),
    CLI_INT("tokens", "N", "200", 1, 1 << 30, AT(tokens), "tokens to generate; fewer if the document ends before"),
    CLI_FLAG("ignore-eos", AT(ignore_end), "continue after tokens that end a text"),
    CLI_FLOAT("temperature", "X", "1", 0, CLI_ANY, AT(temperature),
              "divisor of the logits; 0: always the likeliest token"),
    CLI_INT("top-k", "N", "0", 0, CLI_ANY, AT(top_k),
            "draw from the N likeliest tokens, and those as likely as the last of them; 0: from all"),
    CLI_FLOAT("top-p", "X", "1", 1e-9, 1, AT(top_p), "of these, draw from the fewest whose probabilities sum to X"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of the draws, and of random weights"),
};
#undef AT

static void write_now(void *context, const char *bytes, size_t n) {
    (void)context;
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

/* The generated text and tokens, for --json. */
typedef struct kept {
    FILE *text;
    int32_t *ids; /* room for --tokens */
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

static double rate(int64_t tokens, double seconds) { return (double)tokens / (seconds > 1e-9 ? seconds : 1e-9); }

static ls_status run(void *context) {
    generate_flags *flags = context;
    flags->job.spread = cli_spread_of(&flags->common);
    flags->job.rope = flags->common.rope;
    flags->job.adapter = flags->common.adapter;
    if (flags->common.json) return run_json(&flags->job);
    flags->job.text = write_now;
    ls_generate_result r = {.tokens = 0};
    const ls_status status = ls_run_generate(&flags->job, &r);
    if ((status.code != LS_OK && status.code != LS_INTERRUPTED) || !ls_is_home()) return status;
    putchar('\n');
    fflush(stdout);
    fprintf(stderr, "longspan: %lld tokens at %.1f tokens/s", (long long)r.tokens, rate(r.tokens, r.decode_seconds));
    if (r.prompt_tokens > 1)
        fprintf(stderr, ", after a prompt of %lld at %.0f tokens/s", (long long)r.prompt_tokens,
                rate(r.prompt_tokens - 1, r.prefill_seconds));
    char memory[LS_BYTES_TEXT], cache[LS_BYTES_TEXT], resident[LS_BYTES_TEXT];
    fprintf(stderr, "\nlongspan: memory of a rank: %s predicted, %s of it keys and values; %s resident\n",
            ls_bytes_text((double)r.spread.predicted_bytes, memory), ls_bytes_text((double)r.cache_bytes, cache),
            ls_bytes_text((double)r.resident_bytes, resident));
    return status;
}

const cli_command cli_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .usage = "--model PATH [--checkpoint DIR] --prompt TEXT|--prompt-file FILE [options]",
    .about =
        "Prints the continuation of the prompt while it is generated. Ranks share the prompt's tokens and keep the keys and values of their part; each "
        "further token is computed over all of them. Ranks are threads here. The text ends after --tokens, or at one of the model's "
        "eos_token_id (generation_config.json, config.json), or at the tokenizer's end of a document. The logits are divided by --temperature, "
        "then restricted by --top-k and then by --top-p, as in the Hugging Face library. The same command draws the same text. Another number "
        "of ranks draws the same text too, unless a draw falls between two tokens to within rounding. Ctrl-C ends the generation.",
    .opens = true,
    .spreads = true,
    CLI_OWN(options, run, generate_flags),
};
