/*
 * Files to documents: what `data build` puts into shards, and every other command that is given texts into memory (texts.c), is read
 * here and nowhere else.
 */
#ifndef LS_DATA_DOCUMENTS_H
#define LS_DATA_DOCUMENTS_H

#include "data/chat.h"
#include "data/encode.h"
#include "data/frame.h"
#include "data/source.h"
#include "longspan/data.h"

/* What a form comes to with a tokenizer. */
typedef struct ls_document_form {
    ls_text_form asked; /* without NULL where a word has a default */
    const ls_record_kind *kind;
    ls_frame frame; /* around each document */
    ls_chat chat;   /* of conversations */
} ls_document_form;

/* folder: the tokenizer's, for its chat template; NULL: it has none. All is borrowed. */
LS_MUST_USE ls_status ls_document_form_find(const ls_text_form *form, const ls_tokenizer *tokenizer,
                                            const char *folder, ls_document_form *out);
void ls_document_form_free(ls_document_form *form); /* a zeroed one is allowed */

/* What was read so far. */
typedef struct ls_document_counts {
    int64_t documents, tokens, longest;
    int64_t empty, bad; /* records left out */
    int64_t binary;     /* files passed over */
} ls_document_counts;

/* Where documents go. A document begins, has any number of parts, and ends; what is around it is the sink's to put, the frame's tokens. */
typedef struct ls_document_sink {
    void *context;
    ls_status (*begin)(void *context, bool learnt); /* learnt: what stands before its text is, as a label */
    ls_status (*append)(void *context, const int32_t *ids, const uint8_t *learnt, int64_t n);
    ls_status (*end)(void *context, bool learnt, ls_place next); /* next: where the record behind it begins */
    ls_status (*batch)(void *context, ls_place place);           /* between batches; NULL: nothing to do */
} ls_document_sink;

typedef struct ls_document_reading {
    const ls_document_form *form;
    const ls_tokenizer *tokenizer;
    const ls_input_list *inputs;
    ls_place from;
    int threads;
    bool
        pass_binary; /* files that are no text are passed over and counted, those that cannot be read otherwise are errors still */
} ls_document_reading;

/* Reads all of it; counts are added to, a document's before its end is told. */
LS_MUST_USE ls_status ls_documents_read(const ls_document_reading *reading, const ls_document_sink *sink,
                                        ls_document_counts *counts);

#endif
