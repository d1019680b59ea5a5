/* Conversations as text: the common kinds of chat templates, one row each. */
#ifndef LS_DATA_CHAT_H
#define LS_DATA_CHAT_H

#include "data/marked.h"
#include "format/format.h"

typedef enum ls_chat_role { LS_CHAT_SYSTEM, LS_CHAT_USER, LS_CHAT_ASSISTANT, LS_CHAT_ROLES } ls_chat_role;

typedef struct ls_chat_template {
    const char *name;
    const char *marks[2]; /* what the Jinja text of such a template holds, all of it; NULL: none */
    const char *begin;    /* once, at the very start */
    struct {
        const char *before, *after; /* around the content; before NULL: the template has no such role */
        const char *tail;           /* behind `after`, and never learnt */
    } turn[LS_CHAT_ROLES];
    bool trims;        /* white space around contents is dropped */
    bool takes_turns;  /* user and assistant, from the user on */
    bool system_opens; /* the system's turn opens that of the user behind it */
} ls_chat_template;

/* By name; "auto" and NULL: that of the tokenizer's folder, by the marks of its chat_template. Unknown ones are refused by name. */
LS_MUST_USE ls_status ls_chat_find(const char *name, const char *folder, const ls_chat_template **out);

/* Renders an array of {"role", "content"}; the assistant's contents, with what ends them, are to be learnt. */
LS_MUST_USE ls_status ls_chat_render(const ls_chat_template *chat, ls_json_value messages,
                                     ls_marked_text *out);

#endif
