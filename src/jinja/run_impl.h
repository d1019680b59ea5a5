/* A rendering: what its parts share. */
#ifndef LS_JINJA_RUN_IMPL_H
#define LS_JINJA_RUN_IMPL_H

#include "base/base.h"
#include "jinja/jinja.h"
#include "jinja/tree_impl.h"

typedef struct jinja_buffer {
    jinja_char *at;
    size_t n, capacity;
} jinja_buffer;

/* Names that were set in a block; looked for from the innermost outwards, then among the variables, then the globals. */
typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_dict names;
} jinja_scope;

typedef enum jinja_jump { JINJA_NO_JUMP, JINJA_BREAK, JINJA_CONTINUE } jinja_jump;

/*
 * After the first error `failed` is set, and what is still computed on the way out is thrown away: so functions return
 * values, and loops look at `failed`.
 */
typedef struct jinja_run {
    const ls_jinja *jinja;
    ls_arena *arena;
    const jinja_dict *variables;
    const ls_jinja_options *options;
    jinja_scope *scope;
    jinja_buffer *out;
    jinja_jump jump;
    uint32_t marks; /* of letters that are put out */
    uint64_t steps, most_steps;
    size_t most_bytes;
    int depth, line;
    bool failed;
    ls_status error;
} jinja_run;

/* Arguments as a call has them. */
typedef struct jinja_arguments {
    jinja_value *value; /* by place, then those by name */
    size_t n;           /* by place */
    jinja_dict named;
} jinja_arguments;

enum { JINJA_PARAMETERS = 5 };
/* A function, filter, test or method: one row of a table. */
typedef struct jinja_function {
    const char *name;
    /* *of*: what a filter, test or method is of. arg: by the names below, JINJA_MISSING where not given. */
    jinja_value (*call)(jinja_run *r, jinja_value of, const jinja_value *arg, const jinja_arguments *all);
    int least;                               /* arguments that must be given */
    const char *parameter[JINJA_PARAMETERS]; /* their names; NULL: no more */
    bool any;                                /* takes any: it looks at `all` */
} jinja_function;

typedef struct jinja_method_of {
    jinja_value of;
    const jinja_function *function;
} jinja_method_of;

typedef struct jinja_macro {
    const jinja_node *node; /* parameters and body */
    jinja_scope *scope;     /* in which it was made */
    jinja_value caller;     /* of a call block; else JINJA_MISSING */
    bool takes_caller;
} jinja_macro;

typedef struct jinja_loop {
    const jinja_value *item;
    size_t n, at;
    const struct jinja_list *changed; /* what loop.changed was called with last */
    int depth;
} jinja_loop;

/* --- errors and bounds ------------------------------------------------------------------------------------------------------ */

jinja_value jinja_fail(jinja_run *r, ls_code code, const char *format, ...) LS_PRINTF(3, 4); /* undefined */
bool jinja_step(jinja_run *r, size_t steps); /* false: failed, now or before */
/* Room for letters; NULL, and failed, when it is more than there may be. */
jinja_char *jinja_new_chars(jinja_run *r, size_t letters);

/* --- texts ------------------------------------------------------------------------------------------------------------------ */

void jinja_put(jinja_run *r, jinja_buffer *b, jinja_text text);
void jinja_put_ascii(jinja_run *r, jinja_buffer *b, const char *ascii);
void jinja_put_char(jinja_run *r, jinja_buffer *b, jinja_char c);
static inline jinja_value jinja_buffer_value(const jinja_buffer *b) {
    return jinja_of_text((jinja_text){b->at, b->n});
}
jinja_text jinja_to_text(jinja_run *r, jinja_value value);               /* as str() */
void jinja_put_repr(jinja_run *r, jinja_buffer *b, jinja_value value);   /* as repr() */
void jinja_put_number(jinja_run *r, jinja_buffer *b, jinja_value value); /* as str() */
const char *jinja_real_repr(double real, char out[40]);                  /* as repr() */
jinja_value jinja_to_json(jinja_run *r, jinja_value of, const jinja_value *arg, const jinja_arguments *all);
/* The text of `value`, which must be one; `what` is for the error. */
jinja_text jinja_need_text(jinja_run *r, jinja_value value, const char *what);
int64_t jinja_need_int(jinja_run *r, jinja_value value, const char *what);
/* text % values, as far as %s, %r, %d, %i, %x, %f, %g, %e and %% go. */
jinja_value jinja_format(jinja_run *r, jinja_text text, const jinja_arguments *values);
/* text.format(values) with places {}, {1}, {name}. */
jinja_value jinja_format_braces(jinja_run *r, jinja_text text, const jinja_arguments *values);
jinja_value jinja_strftime(jinja_run *r, jinja_text format);

/* --- values ----------------------------------------------------------------------------------------------------------------- */

/* The items of what may be walked through, as a list: characters of a text, keys of a dict. A generator is empty then. */
jinja_list *jinja_iterate(jinja_run *r, jinja_value value);
jinja_list *jinja_new_list(jinja_run *r, size_t capacity);
void jinja_add(jinja_run *r, jinja_list *list, jinja_value value);
jinja_value jinja_pair_of(jinja_run *r, jinja_value a, jinja_value b); /* a tuple */
int64_t jinja_length(jinja_run *r, jinja_value value);
bool jinja_contains(jinja_run *r, jinja_value in, jinja_value value);
/* < 0, 0, > 0; what has no order fails. */
int jinja_order(jinja_run *r, jinja_value a, jinja_value b);
jinja_value jinja_attribute(jinja_run *r, jinja_value of, jinja_text name); /* of.name */
jinja_value jinja_item(jinja_run *r, jinja_value of, jinja_value key);      /* of[key] */
jinja_value jinja_slice(jinja_run *r, jinja_value of, const jinja_value bounds[3]);
jinja_value jinja_operate(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b);

/* --- calls ------------------------------------------------------------------------------------------------------------------ */

jinja_value jinja_call_function(jinja_run *r, const jinja_function *f, const char *kind, jinja_value of,
                                const jinja_arguments *given);
jinja_value jinja_call(jinja_run *r, jinja_value callee, const jinja_arguments *given);
/* A filter or test by the name in a text, as map and select take it. */
jinja_value jinja_call_filter(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given);
bool jinja_call_test(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given);
/* The method of a kind of values; NULL: none. */
const jinja_function *jinja_find_method(jinja_value of, jinja_text name);
const jinja_function *jinja_find_global(jinja_text name);

/* --- nodes ------------------------------------------------------------------------------------------------------------------ */

jinja_value jinja_evaluate(jinja_run *r, const jinja_node *node);
void jinja_arguments_of(jinja_run *r, const jinja_node *first, jinja_arguments *out);
void jinja_execute_all(jinja_run *r, const jinja_node *first);
void jinja_assign(jinja_run *r, const jinja_node *target, jinja_value value);
jinja_value jinja_look_up(jinja_run *r, jinja_text name);
void jinja_scope_enter(jinja_run *r, jinja_scope *outer);
/* What the nodes put out, in a scope of their own. */
jinja_value jinja_capture(jinja_run *r, const jinja_node *body, jinja_scope *outer);
jinja_value jinja_call_macro(jinja_run *r, jinja_macro *macro, const jinja_arguments *given);

#endif
