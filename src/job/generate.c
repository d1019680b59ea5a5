/*
 * Continues a prompt (eval/decoder.h). The prompt but its last token is prefilled; that one is the first to be decoded, so that logits are
 * made for single tokens alone.
 */
#include "eval/decoder.h"
#include "format/format.h"
#include "job/sample.h"
#include "job/stream.h"
#include "longspan/job.h"

#include <stdlib.h>
#include <string.h>

typedef struct generation {
    const ls_generate_job *job;
    ls_trained trained;
    int32_t *ids; /* [most] prompt and, on rank 0, what was made */
    int64_t n_prompt, most;
    int ranks;
    ls_decoder decoder;
    ls_sampler *sampler;
    ls_stream stream;
    ls_generate_result result; /* rank 0's */
} generation;

/* --- on a rank -------------------------------------------------------------------------------------------------------------- */

/* What rank 0 has decided; the others do the same. */
typedef enum what_next { GO_ON, AT_END, STOPPED, FAILED } what_next;
typedef struct decision {
    what_next what;
    int32_t id;
} decision;

/* Rank 0: draws, shows, and says what all do. */
static ls_status decide(generation *g, const ls_rank *rank, int64_t made, const float *logits,
                        decision *out) {
    const int32_t id = ls_sampler_draw(g->sampler, logits, (uint64_t)made);
    *out = (decision){.id = id};
    if (ls_comm_stop_requested(rank->comm)) out->what = STOPPED;
    if (id == ls_tokenizer_end_of_document(g->trained.tokenizer)) out->what = AT_END;
    if (out->what != GO_ON) return ls_ok();
    g->ids[g->n_prompt + made] = id;
    g->result.tokens = made + 1;
    const ls_status status = ls_stream_put(&g->stream, id);
    if (status.code != LS_OK) out->what = FAILED;
    return status;
}

/* Decides on rank 0 and tells the others. */
static ls_status agree(generation *g, const ls_rank *rank, int64_t made, const float *logits, decision *out) {
    ls_status status = ls_ok();
    decision mine = {.what = GO_ON}, all[LS_MAX_RANKS];
    if (rank->rank == 0) status = decide(g, rank, made, logits, &mine);
    const ls_status told = ls_comm_exchange(rank->comm, &mine, sizeof mine, all);
    LS_TRY(status);
    LS_TRY(told);
    *out = all[0];
    if (out->what == FAILED) return ls_error(LS_PEER, "rank 0 failed");
    return ls_ok();
}

static ls_status make_tokens(generation *g, const ls_rank *rank) {
    decision next = {.id = g->ids[g->n_prompt - 1]};
    for (int64_t made = 0; made < g->job->tokens; made++) {
        const float *logits;
        LS_TRY(ls_decoder_next(&g->decoder, rank, next.id, g->n_prompt - 1 + made, &logits));
        LS_TRY(agree(g, rank, made, logits, &next));
        if (next.what == STOPPED)
            return ls_error(LS_INTERRUPTED, "stopped after %lld tokens", (long long)made);
        if (next.what == AT_END) break;
    }
    return ls_ok();
}

static ls_status on_rank(ls_rank *rank, void *context) {
    generation *g = context;
    LS_TRY(ls_comm_agree(rank->comm, ls_trained_fill(&g->trained, rank, g->job->seed)));
    const double began = ls_seconds();
    if (g->n_prompt > 1) LS_TRY(ls_decoder_prefill(&g->decoder, rank, g->ids, g->n_prompt - 1));
    LS_TRY(ls_comm_barrier(rank->comm));
    const double filled = ls_seconds();
    const ls_status status = make_tokens(g, rank);
    if (rank->rank != 0 || (status.code != LS_OK && status.code != LS_INTERRUPTED)) return status;
    g->result.prefill_seconds = filled - began;
    g->result.decode_seconds = ls_seconds() - filled;
    LS_TRY(ls_stream_end(&g->stream));
    return status;
}

/* --- before it --------------------------------------------------------------------------------------------------------------- */

static ls_status check_wishes(const ls_generate_job *job, int *ranks) {
    if ((job->prompt == NULL) == (job->prompt_file == NULL))
        return ls_error(LS_USAGE, "--prompt and --prompt-file: expected one of them");
    if (job->tokens < 1 || job->tokens > 1 << 30)
        return ls_error(LS_USAGE, "--tokens %lld; expected 1 to %d", (long long)job->tokens, 1 << 30);
    if (!(job->temperature >= 0) || !(job->top_p >= 0) || job->top_p > 1 || job->top_k < 0)
        return ls_error(LS_USAGE,
                        "--temperature %g, --top-p %g, --top-k %lld; expected 0 or more, 0 to 1, 0 or more",
                        job->temperature, job->top_p, (long long)job->top_k);
    ls_plan_request request = {0};
    LS_TRY(ls_spread_resolve(&job->spread, &request));
    *ranks = request.ranks;
    return ls_ok();
}

/* What the tokenizer puts before a text, and the prompt; without any token the end of a document, as the model saw texts begin. */
static ls_status encode_prompt(const ls_tokenizer *tokenizer, const char *prompt, size_t bytes,
                               ls_token_list *out) {
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    const int32_t end = ls_tokenizer_end_of_document(tokenizer);
    LS_TRY(ls_tokenizer_encode(tokenizer, prompt, bytes, out));
    const size_t before = frame.n_before + out->count > 0 ? frame.n_before : 1;
    int32_t *ids = malloc(sizeof *ids * (before + out->count));
    if (ids == NULL) return ls_error(LS_NO_MEMORY, "no memory for a prompt of %zu tokens", out->count);
    memcpy(ids, frame.n_before > 0 ? frame.before : &end, sizeof *ids * before);
    if (out->count > 0) memcpy(ids + before, out->id, sizeof *ids * out->count);
    free(out->id);
    *out = (ls_token_list){ids, before + out->count, before + out->count};
    return ls_ok();
}

static ls_status take_prompt(generation *g, const char *prompt, size_t bytes) {
    ls_token_list list = {NULL, 0, 0};
    ls_status status = encode_prompt(g->trained.tokenizer, prompt, bytes, &list);
    g->n_prompt = (int64_t)list.count;
    g->most = ls_max(g->n_prompt + g->job->tokens, g->ranks);
    if (status.code == LS_OK) {
        g->ids = g->most <= INT32_MAX ? calloc((size_t)g->most, sizeof *g->ids) : NULL;
        if (g->ids == NULL)
            status = ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)g->most);
        else
            memcpy(g->ids, list.id, sizeof *g->ids * list.count);
    }
    free(list.id);
    return status;
}

static ls_status read_prompt(generation *g) {
    const ls_generate_job *job = g->job;
    if (job->prompt != NULL) return take_prompt(g, job->prompt, strlen(job->prompt));
    char *text;
    size_t bytes;
    LS_TRY(ls_file_read(job->prompt_file, INT32_MAX, &text, &bytes));
    const ls_status status = take_prompt(g, text, bytes);
    free(text);
    return status;
}

static ls_status open_decoder(generation *g) {
    const ls_model_sizes sizes = ls_model_describe(g->trained.model);
    if (sizes.longest > 0 && g->n_prompt + g->job->tokens > sizes.longest)
        ls_log("a prompt of %lld tokens and %lld more go beyond the model's %lld positions",
               (long long)g->n_prompt, (long long)g->job->tokens, (long long)sizes.longest);
    ls_spread spread = g->job->spread;
    spread.as_threads = true; /* so that the caller's function is called in the caller's process */
    LS_TRY(ls_decoder_open(g->trained.model, g->most, g->job->dtype, &spread, &g->decoder));
    const ls_sampling how = {g->job->temperature, g->job->top_p, g->job->top_k, g->job->seed};
    /* The model may have more rows than there are tokens. */
    return ls_sampler_create(&how, ls_tokenizer_vocabulary(g->trained.tokenizer), &g->sampler);
}

static ls_status run(generation *g) {
    LS_TRY(check_wishes(g->job, &g->ranks));
    LS_TRY(ls_trained_open_changed(g->job->model, g->job->checkpoint, &g->job->rope, &g->trained));
    LS_TRY(read_prompt(g));
    LS_TRY(open_decoder(g));
    g->stream =
        (ls_stream){.tokenizer = g->trained.tokenizer, .out = g->job->text, .context = g->job->context};
    LS_TRY(ls_stream_begin(&g->stream, g->ids, (size_t)g->n_prompt));
    const ls_status status = ls_session_run(g->decoder.session, on_rank, g);
    g->result.prompt_tokens = g->n_prompt;
    g->result.spread = ls_session_describe(g->decoder.session);
    g->result.spread.seconds = g->result.prefill_seconds + g->result.decode_seconds;
    return status;
}

ls_status ls_run_generate(const ls_generate_job *job, ls_generate_result *result) {
    generation g = {.job = job};
    const ls_status status = run(&g);
    ls_decoder_close(&g.decoder);
    ls_sampler_destroy(g.sampler);
    ls_stream_free(&g.stream);
    ls_trained_close(&g.trained);
    free(g.ids);
    if (status.code == LS_OK || status.code == LS_INTERRUPTED) *result = g.result;
    return status;
}
