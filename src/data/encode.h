/* Records to tokens, several threads at a time. */
#ifndef LS_DATA_ENCODE_H
#define LS_DATA_ENCODE_H

#include "base/base.h"
#include "data/source.h"
#include "format/format.h"
#include "text/text.h"

/* Tokens and, where not all are to be learnt, a byte for each. */
typedef struct ls_learnt_tokens {
    ls_token_list tokens;
    uint8_t *learnt; /* [learnt_capacity]; NULL: all are */
    size_t learnt_capacity;
    bool end_learnt; /* the end of the document, which is not among the tokens */
} ls_learnt_tokens;

typedef struct ls_encode_options {
    const ls_tokenizer *tokenizer;
    const char *field;          /* of JSON: where the text is */
    const char *records;        /* what a record of JSON is: the name of a kind */
    const struct ls_chat *chat; /* of kinds that need one */
} ls_encode_options;

/* What a record of JSON is: one row each (records.c). */
typedef struct ls_record_kind {
    const char *name;
    bool learnt; /* gives a byte for each token */
    bool chat;   /* needs a template */
    /* Appends; a value that is something else is LS_INVALID, named by its file and line. */
    ls_status (*encode)(const ls_encode_options *options, ls_json_value value, ls_learnt_tokens *out);
} ls_record_kind;
/* LS_USAGE for another name, listing those there are. */
LS_MUST_USE ls_status ls_record_kind_find(const char *name, const ls_record_kind **out);
/* Appends text, all of it learnt or not; plain as for ls_tokenizer_encode_plain. */
LS_MUST_USE ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                       const ls_plain_text *plain, bool learnt, ls_learnt_tokens *out);
LS_MUST_USE ls_status ls_learnt_append_id(int32_t id, bool learnt, ls_learnt_tokens *out);

typedef struct ls_record_encoder ls_record_encoder;

/* All is borrowed; the pool may be NULL. */
LS_MUST_USE ls_status ls_records_create(const ls_encode_options *options, const ls_input *inputs,
                                        ls_pool *pool, ls_record_encoder **out);
void ls_records_destroy(ls_record_encoder *encoder); /* NULL is allowed */

typedef struct ls_encoded {
    const int32_t *ids;
    const uint8_t *learnt; /* NULL: all are */
    int64_t n;
    bool end_learnt;
    bool bad; /* ls_records_explain tells why */
} ls_encoded;

/* Encodes the records; the results are good until the next call. LS_NO_MEMORY alone. */
LS_MUST_USE ls_status ls_records_run(ls_record_encoder *encoder, const ls_text_record *records, size_t n);
ls_encoded ls_records_result(const ls_record_encoder *encoder, size_t i);
/* The error of a record that is bad. */
ls_status ls_records_explain(const ls_record_encoder *encoder, const ls_text_record *record);

#endif
