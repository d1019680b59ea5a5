/*
 * data: documents from files. `data build` (build.c) and the commands that read texts into memory (corpus.c) both read
 * documents here, so that the same files give the same documents everywhere.
 */
#ifndef LS_DATA_DOCUMENTS_IMPL_H
#define LS_DATA_DOCUMENTS_IMPL_H

#include "data/chat_impl.h"
#include "data/corpus.h"
#include "data/records_impl.h"
#include "data/source_impl.h"
#include "longspan/data.h"

/* ---- the frame: tokens around each document ---- */

enum { LS_FRAME_MOST = 8 };

typedef struct ls_frame {
    int32_t begin[LS_FRAME_MOST];
    int n_begin;
    int32_t end; /* -1: none */
} ls_frame;

/*
 * begin and end are the text of a token, "none", or "auto" (or NULL): the tokens that the tokenizer's files put before
 * a text, and its end of document. LS_USAGE names the flag whose text is not a token.
 */
LS_MUST_USE ls_status ls_frame_find(const ls_tokenizer *tokenizer, const char *begin, const char *end, ls_frame *out);
/* The texts of tokens, such as "<|begin_of_text|>", or "none". */
void ls_frame_text(const ls_tokenizer *tokenizer, const int32_t *ids, int n, char *out, size_t room);

/* ---- how texts become documents ---- */

/* A form resolved with a tokenizer. */
typedef struct ls_document_form {
    ls_text_form options; /* with defaults in place of NULL */
    const ls_record_kind *kind;
    ls_frame frame;
    ls_too_long too_long;
    ls_chat chat; /* for conversations */
} ls_document_form;

/* folder: that of the tokenizer, for its chat template; NULL: none. All arguments are borrowed. */
LS_MUST_USE ls_status ls_document_form_find(const ls_text_form *form, const ls_tokenizer *tokenizer, const char *folder,
                                            ls_document_form *out);
void ls_document_form_free(ls_document_form *form); /* a zeroed one is allowed */

/* Receives documents: begin, any number of appends, end. The sink itself adds the tokens of the frame. */
typedef struct ls_document_sink {
    void *context;
    /* framed: the frame's begin tokens come first; learnt: whether they are learnt. */
    ls_status (*begin)(void *context, bool framed, bool learnt);
    ls_status (*append)(void *context, const int32_t *ids, const uint8_t *learnt, int64_t n);
    /* learnt: whether the end of document is learnt; next: where the next record begins. */
    ls_status (*end)(void *context, bool learnt, ls_place next);
    ls_status (*batch)(void *context, ls_place place); /* after each batch of records; NULL: not called */
    /* The next two documents are a pair whose record has a margin. NULL: there are no pairs. */
    ls_status (*margin)(void *context, double margin);
    /* Words of a teacher for the learnt tokens of the next document. NULL: there is no teacher. */
    ls_status (*teach)(void *context, const ls_teacher_words *words);
} ls_document_sink;

typedef struct ls_document_reading {
    const ls_document_form *form;
    const ls_tokenizer *tokenizer;
    const ls_input_list *inputs;
    ls_place from;
    int threads;
    /* most tokens of a document, without its end; the form says what happens to a longer one. 0: no limit */
    int64_t longest;
    bool skip_binary; /* files that are no text are skipped and counted; other unreadable files are errors */
} ls_document_reading;

/* Reads all documents. Adds to counts; a document is counted before the sink's end is called. */
LS_MUST_USE ls_status ls_documents_read(const ls_document_reading *reading, const ls_document_sink *sink,
                                        ls_document_counts *counts);

/* ---- a teacher's words of documents in memory (teacher.c) ---- */

/* Counts the learnt tokens of the store, each of which has words of the corpus's teacher. */
LS_MUST_USE ls_status ls_teacher_count(ls_corpus *corpus);
/*
 * The words for the place of token `at` of a part: k ids and log-probabilities. at < 0: for a token that is not learnt.
 */
void ls_teacher_words_of(const ls_corpus_part *part, int64_t at, int32_t *ids, float *logprobs);

#endif
