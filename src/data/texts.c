/* Texts into memory: what commands other than `data build` do with files that are no shards. */
#include "data/corpus.h"
#include "data/documents.h"

#include <stdlib.h>
#include <string.h>

typedef struct memory {
    const ls_document_form *form;
    ls_corpus *corpus;
    size_t ends_capacity;   /* documents */
    size_t learnt_capacity; /* words of 64 tokens */
} memory;

/* A bit for each of the last n tokens of the store; learnt NULL: all of them are `otherwise`. */
static ls_status mark(memory *m, const uint8_t *learnt, bool otherwise, int64_t n) {
    ls_corpus *c = m->corpus;
    const size_t words = (size_t)(c->store.count + 63) / 64;
    if (!m->form->kind->learnt) return ls_ok(); /* all are */
    if (words > m->learnt_capacity) {
        const size_t wanted = 2 * words + 1024;
        uint64_t *grown = realloc(c->learnt, wanted * sizeof *grown);
        if (grown == NULL)
            return ls_error(LS_NO_MEMORY, "no memory to mark %lld tokens", (long long)c->store.count);
        memset(grown + m->learnt_capacity, 0, (wanted - m->learnt_capacity) * sizeof *grown);
        c->learnt = grown;
        m->learnt_capacity = wanted;
    }
    for (int64_t i = 0, at = c->store.count - n; i < n; i++, at++)
        if (learnt != NULL ? learnt[i] : otherwise) c->learnt[at / 64] |= (uint64_t)1 << at % 64;
    return ls_ok();
}

static ls_status append(void *context, const int32_t *ids, const uint8_t *learnt, int64_t n) {
    memory *m = context;
    LS_TRY(ls_store_append(&m->corpus->store, ids, n));
    return mark(m, learnt, true, n);
}

static ls_status begin(void *context, bool learnt) {
    memory *m = context;
    LS_TRY(ls_store_append(&m->corpus->store, m->form->frame.begin, m->form->frame.n_begin));
    return mark(m, NULL, learnt, m->form->frame.n_begin);
}

static ls_status end(void *context, bool learnt, ls_place next) {
    memory *m = context;
    ls_corpus *c = m->corpus;
    const int n = m->form->frame.end >= 0;
    const size_t count = (size_t)c->documents;
    (void)next;
    if (count == m->ends_capacity) {
        size_t wanted = count ? 2 * count : 256;
        uint64_t *grown = realloc(c->ends, wanted * sizeof *grown);
        if (!grown) return ls_error(LS_NO_MEMORY, "no memory for the places of %zu documents", wanted);
        c->ends = grown;
        m->ends_capacity = wanted;
    }
    LS_TRY(ls_store_append(&c->store, &m->form->frame.end, n));
    c->ends[c->documents++] = (uint64_t)c->store.count;
    return mark(m, NULL, learnt, n);
}

static ls_status read_inputs(const ls_texts_options *o, const ls_document_form *form, ls_corpus *corpus,
                             ls_texts *out) {
    ls_machine machine;
    ls_input_list inputs = {0};
    ls_document_counts counts = {0};
    memory m = {.form = form, .corpus = corpus};
    const ls_document_sink sink = {.context = &m, .begin = begin, .append = append, .end = end};
    LS_TRY(ls_inputs_find(o->paths, o->n_paths, form->asked.format, &inputs));
    ls_machine_detect(&machine);
    const ls_document_reading reading = {.form = form,
                                         .tokenizer = o->tokenizer,
                                         .inputs = &inputs,
                                         .from = {0, 0, 1},
                                         .threads = machine.cores,
                                         .pass_binary = true};
    const ls_status status = ls_documents_read(&reading, &sink, &counts);
    *out = (ls_texts){.files = inputs.n, .binary = counts.binary, .empty = counts.empty, .bad = counts.bad};
    ls_inputs_free(&inputs);
    return status;
}

ls_status ls_texts_read(const ls_texts_options *o, ls_corpus *corpus, ls_texts *out) {
    ls_document_form form;
    LS_TRY(ls_document_form_find(o->form, o->tokenizer, o->folder, &form));
    const ls_status status = read_inputs(o, &form, corpus, out);
    ls_document_form_free(&form);
    return status;
}
