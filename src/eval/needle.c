/*
 * A pass key in filler text, after Mohtashami and Jaggi ("Landmark attention", arXiv 2305.16300). The parts of a text
 * are encoded one by one, so that the key has the same tokens in the text and in the answer.
 */
#include "base/base.h"
#include "eval/eval_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char intro[] =
    "There is a pass key hidden in the following text. Find it and remember it; it will be asked for.\n\n";
static const char sentences[] =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";

typedef enum part { INTRO, STATEMENT, KEY, REPETITION, FULL_STOP, QUESTION, PARTS } part;

typedef struct pieces {
    ls_token_list of[PARTS];
} pieces;

static ls_status encode(const ls_tokenizer *tokenizer, const char *text, ls_token_list *out) {
    return ls_tokenizer_encode(tokenizer, text, strlen(text), out);
}

/* Prepends the tokens that the tokenizer adds before a text, if any. */
static ls_status prepend_frame(const ls_tokenizer *tokenizer, ls_token_list *text) {
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    int32_t *ids = malloc(sizeof *ids * (frame.n_before + text->count + 1));
    if (ids == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu tokens", text->count);
    if (frame.n_before > 0) memcpy(ids, frame.before, sizeof *ids * frame.n_before);
    memcpy(ids + frame.n_before, text->id, sizeof *ids * text->count);
    free(text->id);
    *text = (ls_token_list){ids, frame.n_before + text->count, frame.n_before + text->count + 1};
    return ls_ok();
}

static ls_status encode_pieces(const ls_tokenizer *tokenizer, int32_t key, pieces *p) {
    char digits[16];
    snprintf(digits, sizeof digits, " %d", (int)key);
    const char *const text[PARTS] = {[INTRO] = intro,     [STATEMENT] = "\nThe pass key is",
                                     [KEY] = digits,      [REPETITION] = ". Remember it. The pass key is",
                                     [FULL_STOP] = ".\n", [QUESTION] = "\n\nWhat is the pass key? The pass key is"};
    for (int i = 0; i < PARTS; i++) LS_TRY(encode(tokenizer, text[i], &p->of[i]));
    return prepend_frame(tokenizer, &p->of[INTRO]);
}

/* Writes filler to ids[0, n), from the data or from the built-in sentences. */
static ls_status write_filler(const ls_haystack *h, int64_t sample, int32_t *ids, int64_t n) {
    if (h->data != NULL) {
        int32_t *window = malloc(sizeof *window * (size_t)(h->length + 1));
        if (window == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)h->length);
        ls_data_sequence(h->data, ls_part_start(ls_data_summarise(h->data)->windows, h->samples, sample), window);
        memcpy(ids, window, sizeof *ids * (size_t)n);
        free(window);
        return ls_ok();
    }
    ls_token_list list = {NULL, 0, 0};
    LS_TRY(encode(h->tokenizer, sentences, &list));
    for (int64_t i = 0; i < n; i++) ids[i] = list.id[(size_t)i % list.count];
    free(list.id);
    return ls_ok();
}

static int32_t *append(int32_t *to, const ls_token_list *list) {
    memcpy(to, list->id, sizeof *to * list->count);
    return to + list->count;
}

/* Writes intro, filler, the sentence with the key, filler, question and answer. */
static ls_status write_text(const ls_haystack *h, const pieces *p, double depth, int64_t sample, int32_t *ids,
                            ls_needle *out) {
    static const part sentence[] = {STATEMENT, KEY, REPETITION, KEY, FULL_STOP};
    int64_t fixed = (int64_t)(p->of[INTRO].count + p->of[QUESTION].count + p->of[KEY].count);
    for (size_t i = 0; i < LS_COUNT(sentence); i++) fixed += (int64_t)p->of[sentence[i]].count;
    const int64_t filler = h->length - fixed;
    if (filler < 0)
        return ls_error(LS_USAGE, "--lengths %lld: the key and the question alone take %lld tokens",
                        (long long)h->length, (long long)fixed);
    int32_t *hay = calloc((size_t)filler + 1, sizeof *hay), *to = append(ids, &p->of[INTRO]);
    if (hay == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)filler);
    const ls_status status = write_filler(h, sample, hay, filler);
    const int64_t before = (int64_t)(depth * (double)filler + 0.5);
    memcpy(to, hay, sizeof *to * (size_t)before);
    to += before;
    out->at = to - ids;
    for (size_t i = 0; i < LS_COUNT(sentence); i++) to = append(to, &p->of[sentence[i]]);
    memcpy(to, hay + before, sizeof *to * (size_t)(filler - before));
    to = append(to + (filler - before), &p->of[QUESTION]);
    out->n_answer = (int64_t)p->of[KEY].count;
    (void)append(to, &p->of[KEY]);
    free(hay);
    return status;
}

ls_status ls_needle_make(const ls_haystack *h, double depth, int64_t sample, int32_t *ids, ls_needle *out) {
    const uint64_t number = (uint64_t)sample * 1000003u + (uint64_t)(depth * 1e6);
    pieces p = {.of = {{NULL, 0, 0}}};
    ls_needle needle = {.key = 10000 + (int32_t)ls_rng_below(h->seed, ls_rng_stream("recall"), number, 90000)};
    ls_status status = encode_pieces(h->tokenizer, needle.key, &p);
    if (status.code == LS_OK) status = write_text(h, &p, depth, sample, ids, &needle);
    for (int i = 0; i < PARTS; i++) free(p.of[i].id);
    if (status.code == LS_OK) *out = needle;
    return status;
}
