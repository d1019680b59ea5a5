/*
 * Jinja, as published chat templates use it and the library `transformers` renders them: blocks trimmed, lines stripped, loop controls,
 * generation blocks, nothing that changes a value. What is not in the tables (filters.c, tests.c, methods.c, globals.c, parse.c)
 * is refused by name. Templates and values may be hostile: a rendering has bounds of steps, memory and depth.
 *
 *     ls_jinja *template;
 *     LS_TRY(ls_jinja_read("chat_template.jinja", text, bytes, &template));
 *     jinja_dict *variables = jinja_dict_new(arena);
 *     jinja_dict_set_ascii(arena, variables, "messages", jinja_of_json(arena, json, JINJA_FROM_DATA));
 *     LS_TRY(ls_jinja_render(template, arena, variables, &options, &text));
 */
#ifndef LS_JINJA_H
#define LS_JINJA_H

#include "jinja/characters.h"
#include "jinja/value.h"

#include <time.h>

typedef struct ls_jinja ls_jinja;

/* `file` is what errors call it; their lines are the template's. LS_INVALID for what is no template, LS_UNSUPPORTED for what has no rule. */
LS_MUST_USE ls_status ls_jinja_read(const char *file, const char *text, size_t bytes, ls_jinja **out);
void ls_jinja_free(ls_jinja *jinja); /* NULL is allowed */

bool ls_jinja_generates(const ls_jinja *jinja);               /* it has generation blocks */
bool ls_jinja_names(const ls_jinja *jinja, const char *name); /* it reads a variable of this name */

typedef struct ls_jinja_options {
    struct tm today; /* what strftime_now says */
    uint64_t steps;  /* at most; 0: 10 million. LS_INVALID when there would be more */
    size_t bytes;    /* of memory in the arena, at most; 0: 256 MiB */
    uint64_t *taken; /* adds the steps that were taken; may be NULL */
} ls_jinja_options;

/*
 * Renders; *out lies in the arena. May run in several threads at once, each with its own arena. An exception that the
 * template raises, and whatever Python would raise, is LS_INVALID with the line of the template.
 */
LS_MUST_USE ls_status ls_jinja_render(const ls_jinja *jinja, ls_arena *arena, const jinja_dict *variables,
                                      const ls_jinja_options *options, jinja_text *out);

#endif
