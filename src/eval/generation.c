/*
 * The parts of generation besides the decoder: draws tokens from logits, knows the tokens that end a text, and converts
 * tokens to text as they arrive.
 */
#include "eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_sampler {
    ls_sampling sampling;
    int64_t V;
    double *chance; /* [V]: not normalised */
    /* [V]: ids, as a heap of `left` with the most likely on top; then the removed ones, the last one first */
    int32_t *heap;
    int64_t left;
};

ls_status ls_sampler_create(const ls_sampling *sampling, int64_t V, ls_sampler **out) {
    ls_sampler *s = calloc(1, sizeof *s);
    if (s != NULL) {
        *s = (ls_sampler){.sampling = *sampling, .V = V};
        s->chance = malloc(sizeof *s->chance * (size_t)V);
        s->heap = malloc(sizeof *s->heap * (size_t)V);
    }
    if (s == NULL || s->chance == NULL || s->heap == NULL) {
        ls_sampler_destroy(s);
        return ls_error(LS_NO_MEMORY, "no memory to draw from %lld tokens", (long long)V);
    }
    *out = s;
    return ls_ok();
}

void ls_sampler_destroy(ls_sampler *s) {
    if (s == NULL) return;
    free(s->chance);
    free(s->heap);
    free(s);
}

static int32_t likeliest(const float *logits, int64_t V) {
    int32_t best = 0;
    for (int64_t v = 1; v < V; v++)
        if (isfinite(logits[v]) && (!isfinite(logits[best]) || logits[v] > logits[best])) best = (int32_t)v;
    return best;
}

static bool comes_before(const ls_sampler *s, int32_t a, int32_t b) {
    return s->chance[a] != s->chance[b] ? s->chance[a] > s->chance[b] : a < b;
}

/* Restores the order of the heap below `at`. */
static void sift_down(ls_sampler *s, int64_t at) {
    for (int64_t child; (child = 2 * at + 1) < s->left; at = child) {
        if (child + 1 < s->left && comes_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!comes_before(s, s->heap[child], s->heap[at])) return;
        const int32_t id = s->heap[at];
        s->heap[at] = s->heap[child];
        s->heap[child] = id;
    }
}

/* Removes the most likely id from the heap. Only few of many ids are removed, so a heap is faster than sorting all. */
static int32_t pop(ls_sampler *s) {
    const int32_t id = s->heap[0];
    s->heap[0] = s->heap[--s->left];
    s->heap[s->left] = id;
    sift_down(s, 0);
    return id;
}

/* Sets the chance of every id, relative to the most likely one; returns their sum. */
static double compute_chances(ls_sampler *s, const float *logits, int32_t best) {
    double sum = 0;
    for (int64_t v = 0; v < s->V; v++) {
        const double below = ((double)logits[v] - (double)logits[best]) / s->sampling.temperature;
        sum += s->chance[v] = isfinite(logits[v]) ? exp(below) : 0;
    }
    return sum;
}

/* The chance of the n-th most likely id; 0 past the last one. Must be called with n = 0, 1, 2, ... */
static double chance_of(ls_sampler *s, int64_t n) {
    if (n >= s->V) return 0;
    const int64_t at = s->V - 1 - n;
    return s->chance[at < s->left ? pop(s) : s->heap[at]];
}

/*
 * The number of ids that top_k keeps: the k most likely and those as likely as the last of them. *sum becomes the sum
 * of their chances.
 */
static int64_t cut_to_count(ls_sampler *s, double *sum) {
    double kept = 0, last = 0;
    int64_t n = 0;
    for (double next; (next = chance_of(s, n)) > 0 && (n < s->sampling.top_k || next == last); n++) kept += last = next;
    *sum = kept;
    return n;
}

/*
 * The number of ids, at most `most`, that top_p keeps: the most likely ones until they reach its share of *sum. *sum
 * then becomes their sum.
 */
static int64_t cut_to_share(ls_sampler *s, int64_t most, double *sum) {
    const double share = s->sampling.top_p * *sum;
    double kept = 0;
    int64_t n = 0;
    for (double next; n < most && kept < share && (next = chance_of(s, n)) > 0; n++) kept += next;
    *sum = kept;
    return n;
}

/* Sets the chance of the ids that top_k and top_p remove to 0; returns the sum of the others. */
static double cut(ls_sampler *s, double sum) {
    const bool by_count = s->sampling.top_k > 0 && s->sampling.top_k < s->V;
    const bool by_share = s->sampling.top_p > 0 && s->sampling.top_p < 1;
    if (!by_count && !by_share) return sum;
    for (int64_t v = 0; v < s->V; v++) s->heap[v] = (int32_t)v;
    s->left = s->V;
    for (int64_t at = s->V / 2; at-- > 0;) sift_down(s, at);
    int64_t n = by_count ? cut_to_count(s, &sum) : s->V;
    if (by_share) n = cut_to_share(s, n, &sum);
    for (int64_t i = 0; i < s->V - n; i++) s->chance[s->heap[i]] = 0;
    return sum;
}

/*
 * The id at which the running sum of the chances passes `drawn`; `otherwise` if rounding keeps the sum below it. The
 * sum is in the order of ids, not of chances: rounding may exchange two almost equal chances, which would change the
 * draw.
 */
static int32_t find(const ls_sampler *s, double drawn, int32_t otherwise) {
    for (int64_t v = 0; v < s->V; v++) {
        drawn -= s->chance[v];
        if (drawn < 0) return (int32_t)v;
    }
    return otherwise;
}

int32_t ls_sampler_draw(ls_sampler *s, const float *logits, uint64_t number) {
    const int32_t best = likeliest(logits, s->V);
    if (!(s->sampling.temperature > 0) || !isfinite(logits[best])) return best;
    const double sum = cut(s, compute_chances(s, logits, best));
    return find(s, sum * ls_rng_uniform(s->sampling.seed, ls_rng_stream("generate"), number), best);
}

/* --- where a text ends -------------------------------------------------------------------------------------------- */

static ls_status read_ids(ls_json_value value, int64_t V, ls_stops *out) {
    const bool several = ls_json_is_array(value);
    const size_t n = several ? ls_json_count(value) : 1;
    if (n > LS_MOST_STOPS) return ls_json_error(value, "at most %d tokens", LS_MOST_STOPS);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        LS_TRY(ls_json_as_int(several ? ls_json_item(value, i) : value, 0, V - 1, &id));
        out->id[out->n++] = (int32_t)id;
    }
    return ls_ok();
}

/* Adds the tokens of "eos_token_id" if the JSON text has it. `name` is the file, for error messages. */
static ls_status read_text(const char *name, const char *text, int64_t V, ls_stops *out) {
    ls_json *document;
    LS_TRY(ls_json_parse(name, text, strlen(text), &document));
    const ls_json_value root = ls_json_root(document);
    const bool present = ls_json_has(root, "eos_token_id");
    const ls_status status = present ? read_ids(ls_json_field(root, "eos_token_id"), V, out) : ls_ok();
    ls_json_free(document);
    return status;
}

static ls_status read_generation(const ls_model *model, ls_stops *out) {
    LS_PATH path = NULL;
    char *text;
    size_t bytes;
    LS_TRY(ls_path_join(ls_model_folder(model), "generation_config.json", &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    const ls_status status = read_text(path, text, ls_model_describe(model).V, out);
    free(text);
    return status;
}

ls_status ls_stops_read(const ls_trained *trained, ls_stops *out) {
    const ls_model *model = trained->model;
    ls_stops stops = {.n = 0};
    LS_TRY(read_generation(model, &stops));
    const ls_model_text written = ls_model_written(model);
    if (stops.n == 0) LS_TRY(read_text(written.file, written.text, ls_model_describe(model).V, &stops));
    const int32_t end = ls_tokenizer_end_of_document(trained->tokenizer);
    if (stops.n == 0 && end >= 0) stops.id[stops.n++] = end;
    *out = stops;
    return ls_ok();
}

bool ls_stops_have(const ls_stops *stops, int32_t id) {
    for (int i = 0; i < stops->n; i++)
        if (stops->id[i] == id) return true;
    return false;
}

/* --- tokens to text ----------------------------------------------------------------------------------------------- */

static void emit(ls_generated_text *s) {
    char piece[64];
    for (size_t at = 0, part; at < s->text.count; at += part) {
        const char *bytes = s->text.byte + at;
        part = ls_utf8_valid_prefix(bytes, (size_t)ls_min((int64_t)(s->text.count - at), 16));
        if (part == 0) part = 1; /* an invalid byte is printed as U+FFFD */
        s->out(s->context, piece, ls_utf8_printable(bytes, part, piece, sizeof piece));
    }
    s->text.count = 0;
}

ls_status ls_generated_begin(ls_generated_text *s, const int32_t *ids, size_t n) {
    LS_TRY(ls_token_stream_create(s->tokenizer, &s->tokens));
    for (size_t i = 0; i < n; i++) LS_TRY(ls_token_stream_push(s->tokens, ids[i], &s->text));
    s->text.count = 0;
    return ls_ok();
}

ls_status ls_generated_put(ls_generated_text *s, int32_t id) {
    if (ls_tokenizer_is_special(s->tokenizer, id)) return ls_ok();
    LS_TRY(ls_token_stream_push(s->tokens, id, &s->text));
    emit(s);
    return ls_ok();
}

ls_status ls_generated_end(ls_generated_text *s) {
    LS_TRY(ls_token_stream_finish(s->tokens, &s->text));
    emit(s);
    return ls_ok();
}

void ls_generated_free(ls_generated_text *s) {
    ls_token_stream_destroy(s->tokens);
    free(s->text.byte);
}
