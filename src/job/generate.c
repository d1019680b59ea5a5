/*
 * Continues a prompt on one rank. The program computes a window of fixed length; causal attention makes what stands right of the
 * last token harmless, so a short text is padded there and a long one keeps its end.
 */
#include "checkpoint/checkpoint.h"
#include "format/format.h"
#include "graph/graph.h"
#include "longspan/job.h"
#include "model/model.h"
#include "plan/session.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 256 };

typedef struct generation {
    const ls_generate_job *job;
    ls_model *model;
    ls_tokenizer *tokenizer;
    ls_graph *graph;
    ls_session *session;
    const char *logits; /* name of the fetched tensor */
    char checkpoint[512];
    int64_t W, V;
    ls_token_list ids; /* prompt and what was made */
    ls_text pending;   /* bytes that are no whole characters yet */
    int32_t *window;   /* [W] */
    double *chance;    /* [V] */
    int32_t *by_rank;  /* [V] ids, likeliest first */
} generation;

/* --- sampling -------------------------------------------------------------------------------------------------------------- */

static int likelier(const void *a, const void *b, void *context) {
    const double *chance = context;
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (chance[x] != chance[y]) return chance[x] > chance[y] ? -1 : 1;
    return x < y ? -1 : 1; /* equal ones in the order of their ids, so that the draw is the same everywhere */
}

/* Draws the next id from the logits [V]. temperature 0: the likeliest. */
static int32_t draw(generation *g, const float *logits, uint64_t number) {
    const ls_generate_job *job = g->job;
    int32_t best = 0;
    for (int64_t v = 1; v < g->V; v++)
        if (logits[v] > logits[best]) best = (int32_t)v;
    if (job->temperature <= 0) return best;
    double sum = 0;
    for (int64_t v = 0; v < g->V; v++) {
        g->by_rank[v] = (int32_t)v;
        sum += g->chance[v] = exp(((double)logits[v] - (double)logits[best]) / job->temperature);
    }
    qsort_r(g->by_rank, (size_t)g->V, sizeof *g->by_rank, likelier, g->chance);
    const int64_t most = job->top_k > 0 ? ls_min(job->top_k, g->V) : g->V;
    const double mass = job->top_p > 0 && job->top_p < 1 ? job->top_p * sum : INFINITY;
    int64_t n = 0;
    double kept = 0;
    while (n < most && kept < mass) kept += g->chance[g->by_rank[n++]];
    double left = kept * ls_rng_uniform(job->seed, ls_rng_stream("generate"), number);
    for (int64_t i = 0; i < n; i++) {
        left -= g->chance[g->by_rank[i]];
        if (left < 0) return g->by_rank[i];
    }
    return g->by_rank[n - 1];
}

/* --- text comes out -------------------------------------------------------------------------------------------------------- */

/* Hands on the first n pending bytes, fit to be printed. */
static void emit(generation *g, size_t n) {
    if (n == 0) return;
    char piece[64];
    for (size_t at = 0, part; at < n; at += part) {
        part = ls_utf8_valid_prefix(g->pending.byte + at, (size_t)ls_min((int64_t)(n - at), 16));
        if (part == 0) part = 1; /* a wrong byte: printed as U+FFFD */
        const size_t bytes = ls_utf8_printable(g->pending.byte + at, part, piece, sizeof piece);
        g->job->text(g->job->context, piece, bytes);
    }
    g->pending.count -= n;
    memmove(g->pending.byte, g->pending.byte + n, g->pending.count);
}

/* A character has at most four bytes: what is still none by then will never be one. */
static void emit_whole(generation *g, bool end) {
    for (;;) {
        const size_t valid = ls_utf8_valid_prefix(g->pending.byte, g->pending.count);
        emit(g, valid);
        if (g->pending.count < 4) break;
        emit(g, 1);
    }
    if (end) emit(g, g->pending.count);
}

/* --- the loop -------------------------------------------------------------------------------------------------------------- */

static ls_status fill_weights(const generation *g, const ls_rank *rank) {
    ls_weight_source source;
    LS_TRY(g->checkpoint[0] != 0 ? ls_checkpoint_weights(g->checkpoint, rank->image, &source)
                                 : ls_model_weights(g->model, rank->image, g->job->seed, &source));
    const ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    return status;
}

/* Logits [V] after the last id, of the window that ends with it. */
static ls_status next_logits(generation *g, const ls_rank *rank, const float **out) {
    const int64_t n = (int64_t)g->ids.count, kept = ls_min(n, g->W);
    memset(g->window, 0, sizeof *g->window * (size_t)g->W);
    memcpy(g->window, g->ids.id + n - kept, sizeof *g->window * (size_t)kept);
    ls_executor_scatter(rank->executor, ls_image_find(rank->image, "tokens"), g->window);
    LS_TRY(ls_executor_run(rank->executor, LS_PROGRAM_MICRO));
    *out = (const float *)ls_executor_tensor(rank->executor, g->logits) + (kept - 1) * g->V;
    return ls_ok();
}

static ls_status append(generation *g, int32_t id) {
    if (g->ids.count == g->ids.capacity) {
        const size_t capacity = 2 * g->ids.capacity + 64;
        int32_t *grown = realloc(g->ids.id, capacity * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu tokens", capacity);
        g->ids.id = grown;
        g->ids.capacity = capacity;
    }
    g->ids.id[g->ids.count++] = id;
    return ls_tokenizer_decode(g->tokenizer, &id, 1, &g->pending);
}

static ls_status generate(ls_rank *rank, void *context) {
    generation *g = context;
    LS_TRY(fill_weights(g, rank));
    const ls_binding *positions = ls_image_find(rank->image, "positions");
    for (int64_t i = 0; i < g->W; i++) g->window[i] = (int32_t)i;
    if (positions != NULL) ls_executor_scatter(rank->executor, positions, g->window);
    const int32_t end = ls_tokenizer_end_of_document(g->tokenizer);
    for (int64_t i = 0; i < g->job->tokens; i++) {
        if (ls_comm_stop_requested(rank->comm)) return ls_error(LS_INTERRUPTED, "stopped");
        const float *logits;
        LS_TRY(next_logits(g, rank, &logits));
        const int32_t id = draw(g, logits, (uint64_t)i);
        if (id == end) break;
        LS_TRY(append(g, id));
        emit_whole(g, false);
    }
    emit_whole(g, true);
    return ls_ok();
}

/* --- before it --------------------------------------------------------------------------------------------------------------- */

/* The checkpoint itself, or the newest one of a run. */
static ls_status find_checkpoint(generation *g) {
    if (g->job->checkpoint == NULL) return ls_ok();
    char weights[LS_FILE_PATH];
    LS_TRY(ls_file_join(g->job->checkpoint, "model.safetensors", weights, sizeof weights));
    if (!ls_file_exists(weights))
        return ls_checkpoint_find(g->job->checkpoint, g->checkpoint, sizeof g->checkpoint);
    snprintf(g->checkpoint, sizeof g->checkpoint, "%s", g->job->checkpoint);
    return ls_ok();
}

static ls_status open_model(generation *g) {
    const char *path = g->job->model;
    if (path == NULL && g->checkpoint[0] == 0)
        return ls_error(LS_USAGE, "neither --model nor --checkpoint is given");
    LS_TRY(ls_model_open(path != NULL ? path : g->checkpoint, &g->model));
    LS_TRY(ls_tokenizer_open(ls_model_directory(g->model), &g->tokenizer));
    const ls_model_sizes sizes = ls_model_describe(g->model);
    const int32_t known = ls_tokenizer_vocabulary(g->tokenizer);
    if (sizes.V < known)
        return ls_error(LS_INVALID, "vocab_size is %lld, but the tokenizer \"%s\" has %d tokens",
                        (long long)sizes.V, ls_tokenizer_name(g->tokenizer), (int)known);
    const int64_t longest = sizes.longest > 0 ? sizes.longest : WINDOW;
    g->W = g->job->window > 0 ? g->job->window : ls_min(longest, WINDOW);
    g->V = sizes.V;
    return ls_ok();
}

static ls_status make_room(generation *g) {
    const char *prompt = g->job->prompt != NULL ? g->job->prompt : "";
    LS_ASSERT(g->W > 0 && g->V > 0);
    g->window = malloc(sizeof *g->window * (size_t)g->W);
    g->chance = malloc(sizeof *g->chance * (size_t)g->V);
    g->by_rank = malloc(sizeof *g->by_rank * (size_t)g->V);
    if (g->window == NULL || g->chance == NULL || g->by_rank == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a window of %lld tokens and %lld logits",
                        (long long)g->W, (long long)g->V);
    if (prompt[0] != 0) return ls_tokenizer_encode(g->tokenizer, prompt, strlen(prompt), &g->ids);
    LS_TRY(append(g, ls_tokenizer_end_of_document(g->tokenizer))); /* as the model saw texts begin */
    g->pending.count = 0;
    return ls_ok();
}

static ls_status run(generation *g) {
    if (g->job->tokens < 0 || g->job->window < 0)
        return ls_error(LS_USAGE, "%lld tokens in a window of %lld; expected 0 or more",
                        (long long)g->job->tokens, (long long)g->job->window);
    LS_TRY(find_checkpoint(g));
    LS_TRY(open_model(g));
    LS_TRY(make_room(g));
    g->graph = ls_graph_create(LS_F32);
    ls_language_model lm;
    LS_TRY(ls_model_build(g->model, g->graph, 1, g->W, false, &lm));
    g->logits = ls_graph_tensor(g->graph, lm.logits)->name;
    const ls_job job = {.graph = g->graph, .fetch = &lm.logits, .n_fetch = 1};
    /* As a thread, so that the caller's function is called in the caller's process. */
    const ls_spread spread = {.ranks = 1, .threads = g->job->threads, .as_threads = true};
    LS_TRY(ls_session_open(&job, &spread, &g->session));
    const ls_status status = ls_session_run(g->session, generate, g);
    ls_session_close(g->session); /* it borrows the job */
    g->session = NULL;
    return status;
}

ls_status ls_run_generate(const ls_generate_job *job) {
    generation g = {.job = job};
    const ls_status status = run(&g);
    if (g.graph != NULL) ls_graph_destroy(g.graph);
    ls_tokenizer_close(g.tokenizer);
    ls_model_close(g.model);
    free(g.ids.id);
    free(g.pending.byte);
    free(g.window);
    free(g.chance);
    free(g.by_rank);
    return status;
}
