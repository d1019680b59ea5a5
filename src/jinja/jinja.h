/*
 * jinja: Jinja templates, rendered as the Python library `transformers` renders chat templates. The options trim_blocks
 * and lstrip_blocks are on, and so are loop controls and generation blocks. Methods that change a list or a dict are
 * refused. A block, filter, test, method or function that has no row in the tables (parse.c, filters.c, filters_list.c,
 * tests.c, methods.c, methods_text.c, globals.c) is refused by name. Templates and values may come from strangers: a
 * rendering has limits on its steps, its memory and its depth.
 *
 * This is the header for other folders.
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

/* The longest template, in bytes. The longest that are published have a few per cent of this. */
#define LS_JINJA_MOST_BYTES ((size_t)1 << 20)
/* The most memory that a parsed template takes for each of its bytes, and beyond that. */
enum { LS_JINJA_BYTES_PER_BYTE = 200, LS_JINJA_BYTES = 4096 };

/*
 * Parses a template: UTF-8, copied. Errors begin with `file` and the line of the template: LS_INVALID for a syntax
 * error and a template that is too long, LS_UNSUPPORTED for a part of Jinja that this folder does not implement.
 */
LS_MUST_USE ls_status ls_jinja_read(const char *file, const char *text, size_t bytes, ls_jinja **out);
void ls_jinja_free(ls_jinja *jinja); /* NULL is allowed */

size_t ls_jinja_bytes(const ls_jinja *jinja);                 /* the memory that it takes */
bool ls_jinja_generates(const ls_jinja *jinja);               /* whether it has generation blocks */
bool ls_jinja_names(const ls_jinja *jinja, const char *name); /* whether this name occurs in a tag */

typedef struct ls_jinja_options {
    struct tm today; /* the date that strftime_now prints */
    uint64_t steps;  /* limit; 0: 10 million. More steps are LS_INVALID */
    size_t bytes;    /* limit on the memory that a rendering adds to the arena; 0: 256 MiB */
    uint64_t *taken; /* the steps of the rendering are added to it; may be NULL */
} ls_jinja_options;

/*
 * Renders a template; *out lies in the arena. Several threads may render one template at once, each with its own arena.
 * An exception that the template raises, or that Python would raise, is LS_INVALID with the line of the template.
 */
LS_MUST_USE ls_status ls_jinja_render(const ls_jinja *jinja, ls_arena *arena, const jinja_dict *variables,
                                      const ls_jinja_options *options, jinja_text *out);

#endif
