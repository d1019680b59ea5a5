/*
 * data: tokens from records. A token is learnt if it counts as a label in the loss; tokens that are not learnt serve as
 * context only.
 */
#ifndef LS_DATA_RECORDS_IMPL_H
#define LS_DATA_RECORDS_IMPL_H

#include "base/base.h"
#include "data/corpus.h"
#include "data/left_out_impl.h"
#include "data/source_impl.h"
#include "format/format.h"
#include "text/text.h"

/* What a record of answers says about its documents. */
typedef struct ls_answer_marks {
    /* tokens of the first of two documents, a wanted answer and another one; 0: the record is one document */
    int64_t first;
    bool judged, wanted; /* the record is one answer, which is wanted or not */
    bool has_margin;
    double margin; /* of two documents: by how much the wanted one is better */
} ls_answer_marks;

typedef struct ls_learnt_tokens {
    ls_token_list tokens;
    uint8_t *learnt; /* [learnt_capacity] a byte for each token; NULL: all are learnt */
    size_t learnt_capacity;
    bool begun;              /* the current record writes its own beginning, so the frame does not */
    bool end_learnt;         /* whether the end of document is learnt, which is not among the tokens */
    ls_answer_marks answers; /* of the current record */
    /* k and temperature of the current record; words for all learnt tokens and, with end_learnt, for the end */
    ls_teacher_words teacher;
    ls_left_out left_out; /* of the current record */
    ls_unread unread;     /* of all records so far */
} ls_learnt_tokens;

/* Appends the tokens of a text; all are learnt, or none. plain: as for ls_tokenizer_encode_plain. */
LS_MUST_USE ls_status ls_learnt_append(const ls_tokenizer *tokenizer, const char *text, size_t bytes,
                                       const ls_plain_text *plain, bool learnt, ls_learnt_tokens *out);
LS_MUST_USE ls_status ls_learnt_append_id(int32_t id, bool learnt, ls_learnt_tokens *out);
/* Removes an end of document from the end of the tokens that begin at `start`, because the frame adds one. */
void ls_learnt_remove_end(const ls_tokenizer *tokenizer, size_t start, ls_learnt_tokens *out);

typedef struct ls_encode_options {
    const ls_tokenizer *tokenizer;
    const char *field;          /* in JSON: the member with the text */
    const char *records;        /* in JSON: the name of a record kind */
    const char *encoding;       /* name of the encoding of the files */
    const struct ls_chat *chat; /* for kinds that need it */
} ls_encode_options;

/* Which records of a kind are conversations that a chat template renders. */
typedef enum ls_chat_use { LS_CHAT_NONE, LS_CHAT_SOME, LS_CHAT_ALL } ls_chat_use;

/* A kind of record of JSON: one row of the table in kinds.c. */
enum { LS_KIND_MEMBERS = 3 };
typedef struct ls_record_kind {
    const char *name;
    const char *members[LS_KIND_MEMBERS]; /* members that each of its records has; NULL after the last */
    const char *summary;                  /* what its records are */
    bool learnt;                          /* its encode sets a byte for each token */
    /* each record has two documents: a wanted answer and another one (preference.c) */
    bool compares;
    bool teaches; /* its learnt tokens have a teacher's words (teacher.c) */
    /* with compares: a judged answer, and another answer to its prompt (answers.c) */
    bool judges;
    ls_chat_use chat;
    /*
     * Appends the tokens of a value. LS_INVALID names the file and line of a value that does not have the right form.
     */
    ls_status (*encode)(const ls_encode_options *options, ls_json_value value, ls_learnt_tokens *out);
    const char *refused; /* why a training does not use its records (encode is NULL) */
} ls_record_kind;
/* LS_USAGE lists the known names. */
LS_MUST_USE ls_status ls_record_kind_find(const char *name, const ls_record_kind **out);
/* Appends the tokens of a record of a kind that has an encode. */
LS_MUST_USE ls_status ls_record_encode(const ls_encode_options *options, const ls_record_kind *kind,
                                       ls_json_value value, ls_learnt_tokens *out);
/*
 * A teacher's lists in a record of n tokens. ls_teacher_begin sets k and temperature of `words`; LS_INVALID names a
 * list of another length, or the temperature.
 */
typedef struct ls_teacher_lists {
    ls_json_value ids, logprobs;
    int32_t vocabulary;
    ls_teacher_words *words;
} ls_teacher_lists;
LS_MUST_USE ls_status ls_teacher_begin(ls_json_value record, size_t n, ls_teacher_lists *lists);
/* Appends the words for the place of token i. LS_INVALID says what is wrong with them. */
LS_MUST_USE ls_status ls_teacher_append(const ls_teacher_lists *lists, size_t i);
/* The `encode` of conversations, for a record with "messages". */
LS_MUST_USE ls_status ls_encode_messages(const ls_encode_options *options, ls_json_value record, ls_learnt_tokens *out);

/* ---- encoding batches of records on several threads ---- */

typedef struct ls_record_encoder ls_record_encoder;

/* All arguments are borrowed. pool may be NULL. */
LS_MUST_USE ls_status ls_records_create(const ls_encode_options *options, const ls_input *inputs, ls_pool *pool,
                                        ls_record_encoder **out);
void ls_records_destroy(ls_record_encoder *encoder); /* NULL is allowed */

/* The tokens of one record. */
typedef struct ls_encoded {
    const int32_t *ids;
    const uint8_t *learnt; /* NULL: all are learnt */
    int64_t n;
    bool begun, end_learnt;
    ls_answer_marks answers;
    ls_teacher_words teacher; /* words for the learnt tokens, and for the end if it is learnt; borrowed */
    ls_left_out left_out;
    bool bad; /* the record cannot be encoded; ls_records_explain says why */
} ls_encoded;

/*
 * Encodes a batch; the results are valid until the next call. The only error is LS_NO_MEMORY; bad records are results.
 */
LS_MUST_USE ls_status ls_records_run(ls_record_encoder *encoder, const ls_text_record *records, size_t n);
ls_encoded ls_records_result(const ls_record_encoder *encoder, size_t i);
/* The error of a bad record. */
ls_status ls_records_explain(const ls_record_encoder *encoder, const ls_text_record *record);

#endif
