/*
 * Conversations as text: the published forms of chat templates, one row each (chat.c), and which of them a tokenizer's folder has
 * (chat_find.c). Contents are text: what looks like a template's mark inside them is spelled out.
 */
#ifndef LS_DATA_CHAT_H
#define LS_DATA_CHAT_H

#include "data/marked.h"
#include "format/format.h"

typedef enum ls_chat_role { LS_CHAT_SYSTEM, LS_CHAT_USER, LS_CHAT_ASSISTANT, LS_CHAT_ROLES } ls_chat_role;
enum { LS_CHAT_TOKENS = 5 };

typedef struct ls_chat_template {
    const char *name;
    const char *marks[2]; /* what the Jinja text of such a template holds, all of it; NULL: none */
    const char *tokens[LS_CHAT_TOKENS]; /* special tokens it is written with; NULL: no more */
    const char *words[2];               /* the same, of some tokenizers; of others text */
    const char *begin;                  /* once, at the very start */
    bool
        bare; /* the form has no token that begins a text, but some folders' templates put theirs before it */
    const char *system; /* where a conversation has no system: its content; NULL: none */
    struct {
        const char *before, *after; /* around the content; before NULL: the template has no such role */
        const char *tail;           /* behind `after`, and never learnt */
        bool trims;                 /* white space around the content is dropped, as Python's strip does */
    } turn[LS_CHAT_ROLES];
    bool system_first; /* none but the first message is the system's */
    bool takes_turns;  /* the same, and user and assistant follow one another, from the user on */
    bool system_opens; /* the system's turn stands inside that of the user behind it, before his content */
    bool trims_both;   /* the two of them are trimmed as one */
} ls_chat_template;

/* NULL past the last. */
const ls_chat_template *ls_chat_template_at(size_t i);

/* A template as a build uses it. */
typedef struct ls_chat {
    const ls_chat_template *form;
    char *system; /* what the system says in conversations without it; NULL: nothing */
    bool begins;  /* with form->begin */
    bool
        begin_of_folder; /* the folder's template begins with the tokenizer's begin of text, which is no part of the form */
    bool parts;                      /* tokens that the tokenizer lacks part the text all the same */
    int32_t ids[LS_CHAT_TOKENS + 2]; /* of the form's tokens and words; -1: none */
} ls_chat;

/*
 * By name; "auto" and NULL: that of the tokenizer's folder, by the marks of its chat_template, with the system that it has where a conversation has none.
 * system NULL: the form's or the folder's; "": none. Unknown ones are refused by name. What was chosen is logged, with tokens that the tokenizer lacks.
 */
LS_MUST_USE ls_status ls_chat_open(const ls_tokenizer *tokenizer, const char *name, const char *folder,
                                   const char *system, ls_chat *out);
void ls_chat_close(ls_chat *chat); /* a zeroed one is allowed */

/* Renders an array of {"role", "content"}; the assistant's contents, with what ends them, are to be learnt. */
LS_MUST_USE ls_status ls_chat_render(const ls_chat *chat, ls_json_value messages, ls_marked_text *out);

#endif
