/*
 * A template as tokens (lexer.c) and as a tree of nodes (parse.c, parse_expression.c). A rendering does not change it.
 */
#ifndef LS_JINJA_TREE_IMPL_H
#define LS_JINJA_TREE_IMPL_H

#include "base/base.h"
#include "jinja/jinja.h"

/* --- tokens ------------------------------------------------------------------------------------------------------- */

typedef enum jinja_token_kind {
    JINJA_T_END,
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_PRINT_BEGIN,
    JINJA_T_PRINT_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_NUMBER,
    JINJA_T_OPERATOR,
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line;
    jinja_text text; /* as written; for data and strings, their content */
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *token; /* the last one is JINJA_T_END */
    size_t n;
} jinja_tokens;

LS_MUST_USE ls_status jinja_lex(ls_arena *arena, const char *file, jinja_text source, jinja_tokens *out);
/* The value of a number as written. Returns what is wrong with it, or NULL; never NULL for what jinja_lex refuses. */
const char *jinja_number_of(jinja_text text, jinja_value *out);

/* --- nodes: the comment of a kind names the fields that it uses --------------------------------------------------- */

typedef enum jinja_node_kind {
    /* expressions */
    JINJA_N_CONSTANT, /* value */
    JINJA_N_NAME,     /* name */
    JINJA_N_LIST,     /* first, ... */
    JINJA_N_TUPLE,
    JINJA_N_DICT,   /* key, value, key, value ... */
    JINJA_N_CHOICE, /* b if a else c */
    JINJA_N_OR,     /* a, b */
    JINJA_N_AND,
    JINJA_N_NOT,
    JINJA_N_COMPARE, /* a, then a list `first` of operands, each with its op */
    JINJA_N_BINARY,  /* a op b */
    JINJA_N_CONCAT,  /* first, ... */
    JINJA_N_NEGATIVE,
    JINJA_N_POSITIVE,
    JINJA_N_ATTRIBUTE, /* a.name */
    JINJA_N_ITEM,      /* a[b] */
    JINJA_N_SLICE,     /* [a:b:c], the b of an item; NULL for a part that is absent */
    JINJA_N_CALL,      /* a(first, ...) */
    JINJA_N_FILTER,    /* a|name(first, ...); a NULL: the output of a block */
    JINJA_N_TEST,      /* a is name(first, ...) */
    JINJA_N_ARGUMENT,  /* a, or name=a, or *a, or **a */
    /* statements */
    JINJA_N_DATA,         /* value */
    JINJA_N_PRINT,        /* a */
    JINJA_N_IF,           /* a, body, other */
    JINJA_N_FOR,          /* target a, in b, if c; body, other */
    JINJA_N_SET,          /* target a = b */
    JINJA_N_SET_BLOCK,    /* target a, filters b, body */
    JINJA_N_MACRO,        /* name, parameters first ..., body */
    JINJA_N_CALL_BLOCK,   /* call a, parameters first ..., body */
    JINJA_N_FILTER_BLOCK, /* b, body */
    JINJA_N_GENERATION,   /* body */
    JINJA_N_WITH,         /* assignments (JINJA_N_SET) first ..., body */
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
    JINJA_N_KINDS
} jinja_node_kind;

typedef struct jinja_operator jinja_operator;

typedef struct jinja_node {
    jinja_node_kind kind;
    int line;
    jinja_text name;
    jinja_value value;
    const jinja_operator *op;
    const struct jinja_function *function; /* of a filter or test; NULL: it has no row */
    int stars;                             /* of an argument: 0, 1 or 2 */
    bool takes_caller;                     /* of a macro or call block: it takes the argument `caller` */
    struct jinja_node *a, *b, *c;
    struct jinja_node *first, *body, *other; /* lists */
    struct jinja_node *next;                 /* in the list that this node is a member of */
} jinja_node;

struct ls_jinja {
    ls_arena *arena;
    const char *file; /* in the arena */
    jinja_node *body;
    jinja_tokens tokens;
    bool generates; /* it has generation blocks */
};

/* What a macro does first with the name `caller`: a macro that reads it takes it as an argument. */
typedef enum jinja_caller_use { JINJA_CALLER_UNUSED, JINJA_CALLER_READ, JINJA_CALLER_SET } jinja_caller_use;

/* The state of parsing. The first error is kept; after it, every token reads as the end of the template. */
typedef struct jinja_parser {
    ls_jinja *jinja;
    size_t at;
    int depth, loops;        /* number of expressions and blocks, and of loops, around this place */
    jinja_caller_use caller; /* of the macro around this place, so far */
    ls_status error;
} jinja_parser;

/* Notes that the name is read or set here. */
void jinja_note_name(jinja_parser *p, jinja_text name, jinja_caller_use use);
const jinja_token *jinja_peek(const jinja_parser *p, size_t ahead);
const jinja_token *jinja_next_token(jinja_parser *p);
bool jinja_is_name(const jinja_token *token, const char *name);
bool jinja_at_name(const jinja_parser *p, const char *name);
bool jinja_at_operator(const jinja_parser *p, const char *text);
bool jinja_skip_name(jinja_parser *p, const char *name);
bool jinja_skip_operator(jinja_parser *p, const char *text);
void jinja_expect_operator(jinja_parser *p, const char *text);
jinja_text jinja_expect_name(jinja_parser *p);
void jinja_refuse_token(jinja_parser *p, const char *expected);
void jinja_parse_error(jinja_parser *p, ls_code code, int line, const char *format, ...) LS_PRINTF(4, 5);
/* Counts one more level of nesting, which `p->depth--` ends. False: too deep, which is an error. */
bool jinja_enter(jinja_parser *p);
jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, int line);
void jinja_append(jinja_node ***end, jinja_node *node); /* *end: where the list's last `next` is */

/* with_choice: `a if b else c` is allowed. */
jinja_node *jinja_parse_expression(jinja_parser *p, bool with_choice);
/* One expression, or a tuple of expressions with commas between them. `until`: a name that ends it, or NULL. */
jinja_node *jinja_parse_tuple(jinja_parser *p, bool with_choice, const char *until);
/* The target of an assignment: a name, namespace.name if with_namespace, or a tuple of these. */
jinja_node *jinja_parse_target(jinja_parser *p, bool with_namespace, const char *until);
/* Filters applied to `of`. begun: the first one has no | before it. */
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *of, bool begun);
jinja_node *jinja_parse_parameters(jinja_parser *p); /* of a macro or call block */

/* Rows of the tables in filters.c, filters_list.c, tests.c and operate.c; NULL when there is none. */
const struct jinja_function *jinja_find_filter(jinja_text name);
const struct jinja_function *jinja_find_test(jinja_text name);
const jinja_operator *jinja_find_operator(const char *text);

#endif
