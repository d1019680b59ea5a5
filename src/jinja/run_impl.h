/* What the files that render a template share: the state of a rendering, functions, and operations on values. */
#ifndef LS_JINJA_RUN_IMPL_H
#define LS_JINJA_RUN_IMPL_H

#include "base/base.h"
#include "jinja/jinja.h"
#include "jinja/tree_impl.h"

typedef struct jinja_buffer {
    jinja_char *at;
    size_t n, capacity;
} jinja_buffer;

/*
 * The names set in one block. A name is searched from the innermost scope outwards, then in the variables, then in the
 * globals.
 */
typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_dict names;
} jinja_scope;

typedef enum jinja_jump { JINJA_NO_JUMP, JINJA_BREAK, JINJA_CONTINUE } jinja_jump;

/*
 * One rendering. The first error sets `failed` and `error`; results computed after it are not used. Functions therefore
 * return plain values, and loops stop when `failed` is set.
 */
typedef struct jinja_run {
    const ls_jinja *jinja;
    ls_arena *arena;
    const jinja_dict *variables;
    const ls_jinja_options *options;
    jinja_scope *scope;
    jinja_buffer *out;
    jinja_jump jump;
    uint32_t marks;   /* added to each character of the output */
    jinja_value said; /* the output of the block whose filters are applied next */
    uint64_t steps, most_steps;
    size_t most_bytes;
    int depth, line;
    bool failed;
    ls_status error;
} jinja_run;

/* The arguments of a call. */
typedef struct jinja_arguments {
    jinja_value *value; /* [n], the positional ones */
    size_t n;
    jinja_dict named;
} jinja_arguments;

enum { JINJA_PARAMETERS = 5 };
/*
 * The parameters of every function in a table. of: the value that a filter, test or method is applied to. arg: one
 * value for each name in `parameter`, JINJA_MISSING where the call has none. all: the arguments as the call has them.
 */
#define JINJA_ARGUMENTS                                                           \
    __attribute__((unused)) jinja_run *r, __attribute__((unused)) jinja_value of, \
        __attribute__((unused)) const jinja_value *arg, __attribute__((unused)) const jinja_arguments *all
/* A function, filter, test or method: one row of a table. */
typedef struct jinja_function {
    const char *name;
    jinja_value (*call)(JINJA_ARGUMENTS);
    int least;                               /* number of arguments that a call must have */
    const char *parameter[JINJA_PARAMETERS]; /* names of the arguments; NULL ends the list */
    bool any;                                /* takes any arguments, and reads `all` instead of `arg` */
} jinja_function;

typedef struct jinja_method_of {
    jinja_value of;
    const jinja_function *function;
} jinja_method_of;

typedef struct jinja_macro {
    const jinja_node *node; /* parameters and body */
    jinja_scope *scope;     /* where it was defined */
} jinja_macro;

typedef struct jinja_loop {
    const jinja_value *item;
    size_t n, at;
    const struct jinja_list *changed; /* the arguments of the last call of loop.changed */
    int depth;
} jinja_loop;

/* --- errors and limits -------------------------------------------------------------------------------------------- */

/* Returns undefined */
jinja_value jinja_fail(jinja_run *r, ls_code code, const char *format, ...) LS_PRINTF(3, 4);
/*
 * Counts steps against the limits; false when the rendering has failed. Code that looks at a value or copies it counts
 * steps for it: 1 for a value of any kind, and 1 for each JINJA_STEP_CHARACTERS characters.
 */
bool jinja_step(jinja_run *r, size_t steps);
enum { JINJA_STEP_CHARACTERS = 16 };
static inline bool jinja_step_text(jinja_run *r, size_t characters) {
    return jinja_step(r, characters / JINJA_STEP_CHARACTERS);
}
/*
 * Whether the limits leave memory for `count` things of `size` bytes; if not, the rendering fails. To be called before
 * they are allocated.
 */
bool jinja_has_room(jinja_run *r, size_t count, size_t size);
/* Allocates a text. NULL, and the rendering fails, when it would exceed the limits. */
jinja_char *jinja_new_chars(jinja_run *r, size_t count);

/* --- texts -------------------------------------------------------------------------------------------------------- */

void jinja_put(jinja_run *r, jinja_buffer *b, jinja_text text);
void jinja_put_ascii(jinja_run *r, jinja_buffer *b, const char *ascii);
void jinja_put_char(jinja_run *r, jinja_buffer *b, jinja_char c);
static inline jinja_value jinja_buffer_value(const jinja_buffer *b) { return jinja_of_text((jinja_text){b->at, b->n}); }
jinja_text jinja_to_text(jinja_run *r, jinja_value value);               /* as str() */
void jinja_put_repr(jinja_run *r, jinja_buffer *b, jinja_value value);   /* as repr() */
void jinja_put_number(jinja_run *r, jinja_buffer *b, jinja_value value); /* as str() */
const char *jinja_real_repr(double real, char out[40]);                  /* as repr() */
jinja_value jinja_to_json(JINJA_ARGUMENTS);
/* The text or integer in `value`. Any other type is an error; `what` names the value in the message. */
jinja_text jinja_need_text(jinja_run *r, jinja_value value, const char *what);
int64_t jinja_need_int(jinja_run *r, jinja_value value, const char *what);
/* text % values, with the conversions %s, %r, %d, %i, %x, %X, %o, %f, %F, %e, %E, %g, %G and %%. */
jinja_value jinja_format(jinja_run *r, jinja_text text, const jinja_arguments *values);
/* text.format(values), with the fields {}, {1} and {name}. */
jinja_value jinja_format_braces(jinja_run *r, jinja_text text, const jinja_arguments *values);
jinja_value jinja_strftime(jinja_run *r, jinja_text text);

/* --- values ------------------------------------------------------------------------------------------------------- */

/* The items of a value as a list: the characters of a text, the keys of a dict. A generator is empty afterwards. */
jinja_list *jinja_iterate(jinja_run *r, jinja_value value);
jinja_list *jinja_new_list(jinja_run *r, size_t capacity);
void jinja_add(jinja_run *r, jinja_list *list, jinja_value value);
jinja_value jinja_pair_of(jinja_run *r, jinja_value a, jinja_value b); /* a tuple */
int64_t jinja_length(jinja_run *r, jinja_value value);
jinja_value jinja_attribute(jinja_run *r, jinja_value of, jinja_text name); /* of.name */
jinja_value jinja_item(jinja_run *r, jinja_value of, jinja_value key);      /* of[key] */
jinja_value jinja_slice(jinja_run *r, jinja_value of, const jinja_value bounds[3]);
/* Fails: an undefined value has no attribute or item of that name. Returns undefined. */
jinja_value jinja_fail_undefined(jinja_run *r, jinja_value of, jinja_text name);
jinja_value jinja_operate(jinja_run *r, const jinja_operator *op, jinja_value a, jinja_value b);
/* Fails: the operator is not possible between these. Returns undefined. */
jinja_value jinja_refuse_operands(jinja_run *r, const char *op, jinja_value a, jinja_value b);

/* --- comparing (compare.c) ---------------------------------------------------------------------------------------- */

bool jinja_text_equal(jinja_run *r, jinja_text a, jinja_text b);
bool jinja_equal(jinja_run *r, jinja_value a, jinja_value b); /* Python's == */
/* < 0, 0 or > 0; values without an order fail. */
int jinja_order(jinja_run *r, jinja_value a, jinja_value b);
/* Sorts by the keys; pairs with equal keys keep their order. */
void jinja_sort(jinja_run *r, struct jinja_pair *pairs, size_t n, bool reverse);
bool jinja_contains(jinja_run *r, jinja_value in, jinja_value value);
/* The value of a key, or NULL. It may be overwritten. */
jinja_value *jinja_find_key(jinja_run *r, const jinja_dict *dict, jinja_value key);
/* Replaces the value of a key, or appends the key. A key that Python cannot hash fails. */
void jinja_set(jinja_run *r, jinja_dict *dict, jinja_value key, jinja_value value);

/* --- parts of texts (search.c) ------------------------------------------------------------------------------------ */

/* The first or last index of `part` within text[from, to); SIZE_MAX when it is not there. */
size_t jinja_find(jinja_run *r, jinja_text text, jinja_text part, size_t from, size_t to);
size_t jinja_find_last(jinja_run *r, jinja_text text, jinja_text part, size_t from, size_t to);

typedef enum jinja_side { JINJA_LEFT = 1, JINJA_RIGHT = 2, JINJA_BOTH = 3 } jinja_side;
/* Removes the characters of `drop` (NULL: white space) from these ends. */
jinja_text jinja_strip(jinja_run *r, jinja_text text, const jinja_text *drop, jinja_side side);

/* --- calls -------------------------------------------------------------------------------------------------------- */

jinja_value jinja_call_function(jinja_run *r, const jinja_function *f, const char *kind, jinja_value of,
                                const jinja_arguments *given);
jinja_value jinja_call(jinja_run *r, jinja_value callee, const jinja_arguments *given);
/* Calls a filter or test by the text that names it, for `map` and `select`. */
jinja_value jinja_call_filter(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given);
bool jinja_call_test(jinja_run *r, jinja_value name, jinja_value of, const jinja_arguments *given);
/* The method or global function of this name; NULL when there is none. */
const jinja_function *jinja_find_method(jinja_value of, jinja_text name);
const jinja_function *jinja_find_global(jinja_text name);

/* --- nodes -------------------------------------------------------------------------------------------------------- */

jinja_value jinja_evaluate(jinja_run *r, const jinja_node *node);
/* Evaluates the arguments of a call. */
void jinja_arguments_of(jinja_run *r, const jinja_node *first, jinja_arguments *out);
void jinja_execute_all(jinja_run *r, const jinja_node *first);
void jinja_assign(jinja_run *r, const jinja_node *target, jinja_value value);
jinja_value jinja_look_up(jinja_run *r, jinja_text name);
void jinja_scope_enter(jinja_run *r, jinja_scope *outer);
/* Executes nodes in a new scope and returns their output as a text. */
jinja_value jinja_capture(jinja_run *r, const jinja_node *body, jinja_scope *outer);
jinja_value jinja_call_macro(jinja_run *r, jinja_macro *macro, const jinja_arguments *given);

/* --- shared by filters, tests and methods ------------------------------------------------------------------------- */

static inline bool jinja_given(jinja_value v) { return v.kind != JINJA_MISSING && v.kind != JINJA_NONE; }
const jinja_function *jinja_find_list_filter(jinja_text name); /* filters_list.c; NULL when there is none */
const jinja_function *jinja_find_text_method(jinja_text name); /* methods_text.c; NULL when there is none */

jinja_value jinja_text_in_case(jinja_run *r, jinja_text text, jinja_case to);
jinja_value jinja_capitalized(jinja_run *r, jinja_text text);
/* Whether a text has characters with a case, and all of them have this one. */
bool jinja_text_is_case(jinja_run *r, jinja_text text, jinja_case which);
/* Replaces the first `most` occurrences, all when most < 0. */
jinja_value jinja_replaced(jinja_run *r, jinja_text text, jinja_text old, jinja_text new, int64_t most);
jinja_list *jinja_lines(jinja_run *r, jinja_text text, bool keep_ends);
jinja_value jinja_centered(jinja_run *r, jinja_text text, jinja_value width);

#endif
