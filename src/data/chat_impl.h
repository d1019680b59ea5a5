/*
 * data: conversations as text. A chat template, from the tokenizer's folder or one of a few published forms, is
 * rendered as in transformers. The contents of messages are plain text: only the template writes special tokens.
 */
#ifndef LS_DATA_CHAT_IMPL_H
#define LS_DATA_CHAT_IMPL_H

#include "data/records_impl.h"
#include "format/format.h"
#include "jinja/jinja.h"

/* ---- marked texts (marked.c) ---- */

/* A text with the byte ranges that are learnt, and its special tokens. */
typedef struct ls_marked_text {
    char *text;
    size_t bytes, capacity;
    struct ls_learnt_bytes {
        size_t start, end;
    } * learnt; /* ascending */
    size_t n_learnt, learnt_capacity;
    struct ls_marked_token {
        size_t start, end; /* bytes of the text */
        int32_t id;        /* -1: not a single token; these bytes are encoded by themselves */
    } * token;             /* ascending */
    size_t n_tokens, token_capacity;
} ls_marked_text;

LS_MUST_USE ls_status ls_marked_append(ls_marked_text *marked, const char *text, size_t bytes, bool learnt);
/* Appends text that is the token `id` or, with id -1, is encoded by itself. */
LS_MUST_USE ls_status ls_marked_append_token(ls_marked_text *marked, const char *text, size_t bytes, bool learnt,
                                             int32_t id);
void ls_marked_free(ls_marked_text *marked);

/*
 * Appends the tokens of the text. A token that covers a learnt byte is learnt, as in transformers. Text between the
 * special tokens is encoded with `plain` (ls_tokenizer_encode_plain); plain NULL: special tokens are recognised there
 * too. To find which tokens are learnt, parts are encoded twice; LS_INVALID if that would take too long.
 */
LS_MUST_USE ls_status ls_marked_encode(const ls_tokenizer *tokenizer, const ls_marked_text *marked,
                                       const ls_plain_text *plain, ls_learnt_tokens *out);

/* ---- chat templates (chat_template.c) ---- */

typedef struct ls_chat_options {
    /* name of a published form, of a template in the folder, or of a file; NULL or "auto": the folder's own template */
    const char *name;
    const char *folder; /* folder of the tokenizer; NULL: none */
    const char *system; /* system message for conversations that do not begin with one; NULL: none is added */
    const char *today;  /* YYYY-MM-DD, for strftime_now; NULL: the current day */
} ls_chat_options;

enum { LS_CHAT_TOKENS = 7 };

/* An open template. */
typedef struct ls_chat {
    const ls_tokenizer *tokenizer;
    ls_jinja *jinja;
    ls_jinja *with_tools; /* the template for records with tools; NULL: the same */
    char *name;
    char *system;
    /* text by index in ls_chat_token_names; NULL: the tokenizer's files do not name this token */
    char *token[LS_CHAT_TOKENS];
    struct tm today;
    uint64_t hash;      /* hash of everything that rendering depends on, except `system` */
    ls_status missing;  /* why there is no template (jinja is NULL) */
    bool removes_begin; /* the user chose how documents begin, so the template's own begin token is removed */
} ls_chat;

extern const char *const ls_chat_token_names[LS_CHAT_TOKENS]; /* "bos_token", ... */

/* The Jinja text of published form i; NULL after the last one. */
const char *ls_chat_form(size_t i, const char **name);

/* LS_USAGE lists the known names. Logs which template is used. */
LS_MUST_USE ls_status ls_chat_open(const ls_tokenizer *tokenizer, const ls_chat_options *options, ls_chat *out);
void ls_chat_close(ls_chat *chat); /* a zeroed one is allowed */

/* ---- rendering (chat.c) ---- */

/* The members of a record that rendering reads; NULL after the last. */
extern const char *const ls_chat_members[];

/*
 * Renders the conversation of a record: "messages" and, if present, "tools", "documents" and "chat_template_kwargs".
 * The output of the template's generation blocks is learnt. In a template without such blocks, the text learnt is what
 * the template writes for a message of the assistant, after the prompt that it writes before an answer, provided that
 * it writes the same if later messages follow, or changes only text that is not the message's own. An answer with
 * "weight" 0 or "train" false is not learnt; of an answer with "train_detail", only the characters that it names are
 * learnt. LS_INVALID if nothing is learnt. Adds to left_out and unread.
 */
LS_MUST_USE ls_status ls_chat_render(const ls_chat *chat, ls_json_value record, ls_marked_text *out,
                                     ls_left_out *left_out, ls_unread *unread);

#endif
