/* A template as a tree: tokens (lexer.c), nodes (parse.c, parse_expression.c). It is read once and never changed by a rendering. */
#ifndef LS_JINJA_TREE_IMPL_H
#define LS_JINJA_TREE_IMPL_H

#include "base/base.h"
#include "jinja/jinja.h"

/* --- tokens ----------------------------------------------------------------------------------------------------------------- */

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
    jinja_text text;   /* as written; of data and strings, what it says */
    jinja_value value; /* of a number */
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *token; /* the last one is JINJA_T_END */
    size_t n, capacity;
} jinja_tokens;

LS_MUST_USE ls_status jinja_lex(ls_arena *arena, const char *file, jinja_text source, jinja_tokens *out);

/* --- nodes ------------------------------------------------------------------------------------------------------------------ */

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
    JINJA_N_COMPARE, /* a, then operands in a row, each with its op */
    JINJA_N_BINARY,  /* a op b */
    JINJA_N_CONCAT,  /* first, ... */
    JINJA_N_NEGATIVE,
    JINJA_N_POSITIVE,
    JINJA_N_ATTRIBUTE, /* a.name */
    JINJA_N_ITEM,      /* a[b] */
    JINJA_N_SLICE,     /* [a:b:c], as the b of an item; absent ones are NULL */
    JINJA_N_CALL,      /* a(first, ...) */
    JINJA_N_FILTER,    /* a|name(first, ...) ; a NULL: what a block says */
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
    JINJA_N_WITH,         /* targets and values in first ...; body */
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
    const struct jinja_function *function; /* of filters and tests */
    int stars;                             /* of an argument */
    struct jinja_node *a, *b, *c;
    struct jinja_node *first, *body, *other; /* lists */
    struct jinja_node *next;                 /* in the list that this one is part of */
} jinja_node;

struct ls_jinja {
    ls_arena *arena;
    const char *file; /* in the arena */
    jinja_node *body;
    jinja_tokens tokens;
    bool generates;
};

/* What parse.c and parse_expression.c share. The first error stays; after it every token is the end. */
typedef struct jinja_parser {
    ls_jinja *jinja;
    size_t at;
    int depth, loops; /* inside so many expressions and blocks; loops */
    ls_status error;
} jinja_parser;

const jinja_token *jinja_peek(const jinja_parser *p, size_t ahead);
const jinja_token *jinja_next_token(jinja_parser *p);
bool jinja_at_name(const jinja_parser *p, const char *name);
bool jinja_at_operator(const jinja_parser *p, const char *text);
bool jinja_skip_name(jinja_parser *p, const char *name);
bool jinja_skip_operator(jinja_parser *p, const char *text);
void jinja_expect_operator(jinja_parser *p, const char *text);
jinja_text jinja_expect_name(jinja_parser *p);
void jinja_parse_error(jinja_parser *p, ls_code code, int line, const char *format, ...) LS_PRINTF(4, 5);
bool jinja_enter(jinja_parser *p); /* false, with an error, when it is too deep; else `p->depth--` ends it */
jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, int line);
void jinja_append(jinja_node ***end, jinja_node *node); /* to a list that ends there */

jinja_node *jinja_parse_expression(jinja_parser *p, bool with_choice);
/* Expressions with commas between them are a tuple. `until`: a name that ends it, NULL: none. */
jinja_node *jinja_parse_tuple(jinja_parser *p, bool with_choice, const char *until);
/* What may be assigned to: a name, namespace.name where allowed, or a tuple of these. */
jinja_node *jinja_parse_target(jinja_parser *p, bool with_namespace, const char *until);
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *of, bool begun);
jinja_node *jinja_parse_parameters(jinja_parser *p);

/* By the tables of filters.c and tests.c; NULL: none. */
const struct jinja_function *jinja_find_filter(jinja_text name);
const struct jinja_function *jinja_find_test(jinja_text name);
/* By the table of operate.c. */
const jinja_operator *jinja_find_operator(jinja_text text);

#endif
