/*
 * Conversations as text: the chat template of a tokenizer's folder (chat_find.c), or one of a few published forms (chat_forms.c), rendered
 * as transformers renders it (chat.c). Contents are text: a special token counts only where the template writes it (chat_letters.c).
 */
#ifndef LS_DATA_CHAT_H
#define LS_DATA_CHAT_H

#include "data/marked.h"
#include "format/format.h"
#include "jinja/jinja.h"

typedef struct ls_chat_options {
    const char *name;   /* a form, a template of the folder's, a file; NULL or "auto": that of the folder */
    const char *folder; /* the tokenizer's; NULL: it has none */
    const char *
        system; /* what the system says where a conversation does not begin with it; NULL: nothing is put there */
    const char *today; /* YYYY-MM-DD, what strftime_now says; NULL: the day it is */
} ls_chat_options;

enum { LS_CHAT_TOKENS = 7 };

/* A template as a build uses it. */
typedef struct ls_chat {
    const ls_tokenizer *tokenizer;
    ls_jinja *jinja,
        *with_tools; /* with_tools: that of records with tools where the folder has one; else NULL */
    char *name;
    char *system;
    char *token[LS_CHAT_TOKENS]; /* by ls_chat_token_names; NULL: the tokenizer's files name none */
    struct tm today;
    uint64_t hash;    /* of all that is rendered with, but for `system` */
    bool drops_begin; /* what the template begins a text with is left out: something else was asked for */
} ls_chat;

extern const char *const ls_chat_token_names[LS_CHAT_TOKENS]; /* "bos_token", ... */

/* The Jinja text of a form; NULL past the last. */
const char *ls_chat_form(size_t i, const char **name);

/* Unknown names are refused with those there are. What was chosen is logged. */
LS_MUST_USE ls_status ls_chat_open(const ls_tokenizer *tokenizer, const ls_chat_options *options,
                                   ls_chat *out);
void ls_chat_close(ls_chat *chat); /* a zeroed one is allowed */

/*
 * Renders the conversation of a record: "messages", and "tools", "documents", "chat_template_kwargs" where it has them. Learnt is what
 * stands in the template's generation blocks. Of a template without any, what it writes for a message of the assistant beyond what it writes before
 * an answer to the messages until then, as long as it writes the same when the conversation goes on. A record of which nothing is learnt is LS_INVALID.
 */
LS_MUST_USE ls_status ls_chat_render(const ls_chat *chat, ls_json_value record, ls_marked_text *out);

/*
 * Letters as text, learnt where they have the mark JINJA_GENERATED; special tokens are found outside of what the conversation says.
 * generates: the marks are the template's own blocks, and stay exactly as they are.
 */
LS_MUST_USE ls_status ls_chat_letters(const ls_chat *chat, jinja_text letters, bool generates,
                                      ls_marked_text *out);

#endif
