/* The sequences of a text, and the documents that a plan uses as typical ones. */
#include "eval/eval.h"

#include <stdlib.h>

ls_status ls_text_alike(const char *name, const ls_data *data, ls_status opened) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    if (opened.code == LS_OK && alike != NULL)
        ls_alike_add(alike, name, "with hash %016llx", (unsigned long long)ls_data_content(data));
    return ls_alike_end(alike, opened);
}

/* Finds the document bounds in the tokens of a whole sequence. */
static ls_status find_documents(const ls_text_sequences *text, int64_t index, ls_sample *out) {
    ls_sample whole = {.tokens = malloc((size_t)text->S * sizeof *whole.tokens),
                       .labels = malloc((size_t)text->S * sizeof *whole.labels)};
    ls_status status = ls_ok();
    if (whole.tokens == NULL || whole.labels == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)text->S);
    if (status.code == LS_OK) status = ls_data_read(text->data, index, NULL, &whole);
    if (status.code == LS_OK) out->n_ends = ls_marks_find(&text->marks, whole.tokens, text->S, out->ends);
    out->bytes += whole.bytes;
    free(whole.tokens);
    free(whole.labels);
    return status;
}

static ls_status read_sample(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    const ls_text_sequences *text = context;
    if (text->some > 0) index = ls_part_start(ls_data_summarise(text->data)->windows, text->some, index);
    LS_TRY(ls_data_read(text->data, index, part, out));
    return text->marks.kind == LS_MARK_NOT || out->ends == NULL ? ls_ok() : find_documents(text, index, out);
}

ls_sequences ls_text_sequences_of(const ls_text_sequences *text) {
    return (ls_sequences){.context = text, .sample = read_sample};
}

/*
 * Eight sequences of 8,192 tokens determine the time of a step to within one percent. Fewer long sequences suffice, and
 * counting their pairs takes long.
 */
enum { MOST_TYPICAL = 8, TYPICAL_TOKENS = 1 << 18 };

/* The document bounds of one sequence, as a mask term. The sample only has room for `ends`. */
static ls_status read_ends(const ls_text_sequences *text, int64_t index, ls_sample *sample, ls_mask_term *out) {
    LS_TRY(read_sample(text, index, &(ls_data_part){NULL, 0}, sample));
    int32_t *ends = malloc((size_t)sample->n_ends * sizeof *ends);
    if (ends == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d documents", sample->n_ends);
    for (int i = 0; i < sample->n_ends; i++) ends[i] = sample->ends[i];
    *out = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = sample->n_ends};
    return ls_ok();
}

ls_status ls_typical_read(const ls_data *data, ls_marks marks, int64_t S, ls_typical *out) {
    *out = (ls_typical){0};
    if (!ls_data_apart(data) && marks.kind == LS_MARK_NOT) return ls_ok();
    const int64_t windows = ls_data_summarise(data)->windows;
    const int64_t n = ls_min(ls_min(MOST_TYPICAL, ls_max(1, TYPICAL_TOKENS / S)), windows);
    const ls_text_sequences text = {data, n, marks, S};
    ls_typical made = {.terms = calloc((size_t)n, sizeof *made.terms), .n = (int)n};
    ls_sample sample = {.ends = malloc(((size_t)S + 1) * sizeof *sample.ends)};
    ls_status status = ls_ok();
    if (made.terms == NULL || sample.ends == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)S);
    for (int64_t i = 0; i < n && status.code == LS_OK; i++) status = read_ends(&text, i, &sample, &made.terms[i]);
    free(sample.ends);
    if (status.code == LS_OK)
        *out = made;
    else
        ls_typical_free(&made);
    return status;
}

void ls_typical_free(ls_typical *typical) {
    for (int i = 0; i < typical->n && typical->terms != NULL; i++) free((void *)(uintptr_t)typical->terms[i].ends);
    free(typical->terms);
    *typical = (ls_typical){0};
}
