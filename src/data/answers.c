/*
 * Changes the documents of answers that were read into those that some kinds of losses need.
 *
 * Answers that are judged one by one: each is followed by its prompt with the answer of the previous record (for the
 * first record, of the last one), as a document of its own. How much likelier a model finds these documents than its
 * reference does is an estimate of the divergence between the two (Ethayarajh et al., "KTO", arXiv 2402.01306, section
 * 4.1).
 *
 * Answers that are scored by the number of their last token: that token gets a label, the only one of its document.
 *
 * Wanted answers that are imitated together with their prompts: all tokens of these documents are learnt, and which of
 * them belong to the answer is stored separately.
 */
#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>

typedef struct copying {
    const ls_corpus *from;
    ls_store store;
    uint64_t *ends, *learnt;
    int64_t documents;
    int32_t *ids; /* [longest]: tokens of one document */
} copying;

/*
 * A document, and where its answer begins: at its first learnt token, not counting the one that marks whether the
 * answer is wanted.
 */
typedef struct judged {
    int64_t start, answer, end; /* positions in the corpus, in tokens */
} judged;

static judged judged_at(const ls_corpus *corpus, int64_t document) {
    judged found = {.start = document > 0 ? (int64_t)corpus->ends[document - 1] : 0,
                    .end = (int64_t)corpus->ends[document]};
    for (found.answer = found.start + 1; found.answer < found.end && !ls_mark_at(corpus->learnt, found.answer);)
        found.answer++;
    return found;
}

/* Copies tokens first .. past - 1 with their marks; marked: also copies the mark of the first one. */
static ls_status copy(copying *c, int64_t first, int64_t past, bool marked) {
    const int64_t to = c->store.count;
    ls_store_read(&c->from->store, first, past - first, c->ids);
    LS_TRY(ls_store_append(&c->store, c->ids, past - first));
    for (int64_t i = 0; i < past - first; i++)
        if (ls_mark_at(c->from->learnt, first + i) && (marked || i > 0))
            c->learnt[(to + i) / 64] |= (uint64_t)1 << (to + i) % 64;
    return ls_ok();
}

static ls_status mismatch_all(copying *c) {
    judged before = judged_at(c->from, c->from->documents - 1);
    for (int64_t n = 0; n < c->from->documents; n++) {
        const judged own = judged_at(c->from, n);
        LS_TRY(copy(c, own.start, own.end, true));
        c->ends[c->documents++] = (uint64_t)c->store.count;
        LS_TRY(copy(c, own.start, own.answer, false));
        LS_TRY(copy(c, before.answer, before.end, true));
        c->ends[c->documents++] = (uint64_t)c->store.count;
        before = own;
    }
    return ls_ok();
}

/* Padding tokens at the end do not count as the last token. */
static ls_status score_all(copying *c, int32_t pad, int32_t label) {
    for (int64_t n = 0; n < c->from->documents; n++) {
        const judged own = judged_at(c->from, n);
        int64_t past = own.end - own.start;
        ls_store_read(&c->from->store, own.start, past, c->ids);
        while (past > 1 && c->ids[past - 1] == pad) past--;
        if (ls_mark_at(c->from->learnt, own.start))
            c->learnt[c->store.count / 64] |= (uint64_t)1 << c->store.count % 64;
        LS_TRY(ls_store_append(&c->store, c->ids, past));
        c->learnt[c->store.count / 64] |= (uint64_t)1 << c->store.count % 64;
        LS_TRY(ls_store_append(&c->store, &label, 1));
        c->ends[c->documents++] = (uint64_t)c->store.count;
    }
    return ls_ok();
}

/* Allocates room for this many tokens and documents. end_copying frees it, and must be called also after a failure. */
static ls_status begin_copying(const ls_corpus *corpus, int64_t tokens, int64_t documents, copying *c) {
    int64_t longest = 1;
    for (int64_t n = 0; n < corpus->documents; n++) {
        const judged one = judged_at(corpus, n);
        longest = ls_max(longest, one.end - one.start);
    }
    *c = (copying){.from = corpus,
                   .store = {.width = corpus->store.width},
                   .ends = calloc((size_t)documents + 1, sizeof *c->ends),
                   .learnt = calloc((size_t)tokens / 64 + 1, sizeof *c->learnt),
                   .ids = malloc((size_t)longest * sizeof *c->ids)};
    if (c->ends != NULL && c->learnt != NULL && c->ids != NULL) return ls_ok();
    return ls_error(LS_NO_MEMORY, "no memory for %lld documents of answers", (long long)documents);
}

/* The copies replace the documents of the corpus, unless something failed. */
static ls_status end_copying(copying *c, ls_status status, ls_corpus *corpus) {
    const copying old = {.store = corpus->store, .ends = corpus->ends, .learnt = corpus->learnt};
    if (status.code == LS_OK) {
        corpus->store = c->store;
        corpus->ends = c->ends;
        corpus->learnt = c->learnt;
        corpus->documents = c->documents;
    }
    copying unused = status.code == LS_OK ? old : *c;
    ls_store_free(&unused.store);
    free(unused.ends);
    free(unused.learnt);
    free(c->ids);
    return status;
}

ls_status ls_corpus_mismatch(ls_corpus *corpus) {
    copying c;
    if (corpus->documents < 2)
        return ls_error(LS_INVALID,
                        "--records label: %lld records; expected two at least, of which each prompt gets "
                        "the other's answer, too",
                        (long long)corpus->documents);
    /* Each answer and each prompt occurs twice. */
    ls_status status = begin_copying(corpus, 2 * corpus->store.count, 2 * corpus->documents, &c);
    if (status.code == LS_OK) status = mismatch_all(&c);
    return end_copying(&c, status, corpus);
}

ls_status ls_corpus_score(ls_corpus *corpus, int32_t pad, int32_t label) {
    copying c;
    ls_status status = begin_copying(corpus, corpus->store.count + corpus->documents, corpus->documents, &c);
    if (status.code == LS_OK) status = score_all(&c, pad, label);
    return end_copying(&c, status, corpus);
}

ls_status ls_corpus_imitate(ls_corpus *corpus) {
    const size_t words = (size_t)corpus->store.count / 64 + 1;
    corpus->answers = malloc(words * sizeof *corpus->answers);
    if (corpus->answers == NULL)
        return ls_error(LS_NO_MEMORY, "no memory to mark %lld tokens", (long long)corpus->store.count);
    memcpy(corpus->answers, corpus->learnt, (size_t)ls_ceil_div(corpus->store.count, 64) * sizeof *corpus->learnt);
    for (int64_t n = 0; n < corpus->documents; n += 2) {
        const judged own = judged_at(corpus, n);
        for (int64_t at = own.start; at < own.end; at++) corpus->learnt[at / 64] |= (uint64_t)1 << at % 64;
    }
    return ls_ok();
}
