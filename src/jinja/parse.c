/* Parses a template's blocks: a table has one row for each word that a block may begin with. */
#include "jinja/tree_impl.h"

#include <stdlib.h>
#include <string.h>

static void expect(jinja_parser *p, jinja_token_kind kind, const char *what) {
    if (jinja_peek(p, 0)->kind == kind)
        jinja_next_token(p);
    else
        jinja_refuse_token(p, what);
}

static void expect_name(jinja_parser *p, const char *name) {
    if (!jinja_skip_name(p, name)) jinja_refuse_token(p, name);
}

static jinja_node *parse_until(jinja_parser *p, const char *const *ends);

/* Parses the body of a block up to a block that begins with a word of `ends`, which is the next token then. */
static jinja_node *parse_body(jinja_parser *p, const char *const *ends) {
    jinja_skip_operator(p, ":");
    expect(p, JINJA_T_BLOCK_END, "%}");
    return parse_until(p, ends);
}

static jinja_node *body_up_to(jinja_parser *p, const char *end) {
    jinja_node *body = parse_body(p, (const char *const[]){end, NULL});
    expect_name(p, end);
    return body;
}

static jinja_node *parse_if(jinja_parser *p, jinja_node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    node->kind = JINJA_N_IF;
    jinja_node *top = node;
    for (;;) {
        node->a = jinja_parse_tuple(p, false, NULL);
        node->body = parse_body(p, ends);
        if (!jinja_at_name(p, "elif")) break;
        const int line = jinja_next_token(p)->line;
        node = node->other = jinja_node_new(p, JINJA_N_IF, line);
    }
    if (jinja_skip_name(p, "else")) {
        node->other = body_up_to(p, "endif");
    } else {
        expect_name(p, "endif");
    }
    return top;
}

static jinja_node *parse_for(jinja_parser *p, jinja_node *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    node->kind = JINJA_N_FOR;
    node->a = jinja_parse_target(p, false, "in");
    expect_name(p, "in");
    node->b = jinja_parse_tuple(p, false, "recursive");
    if (jinja_skip_name(p, "if")) node->c = jinja_parse_expression(p, true);
    if (jinja_at_name(p, "recursive"))
        jinja_parse_error(p, LS_UNSUPPORTED, node->line, "for ... recursive is not supported");
    p->loops++;
    node->body = parse_body(p, ends);
    p->loops--;
    if (jinja_skip_name(p, "else"))
        node->other = body_up_to(p, "endfor");
    else
        expect_name(p, "endfor");
    return node;
}

static jinja_node *parse_set(jinja_parser *p, jinja_node *node) {
    node->a = jinja_parse_target(p, true, NULL);
    if (jinja_skip_operator(p, "=")) {
        node->kind = JINJA_N_SET;
        node->b = jinja_parse_tuple(p, true, NULL);
        return node;
    }
    node->kind = JINJA_N_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    node->body = body_up_to(p, "endset");
    return node;
}

jinja_node *jinja_parse_parameters(jinja_parser *p) {
    jinja_node *first = NULL, **end = &first;
    bool defaults = false;
    jinja_expect_operator(p, "(");
    while (p->error.code == LS_OK && !jinja_at_operator(p, ")")) {
        if (first != NULL) jinja_expect_operator(p, ",");
        jinja_node *parameter = jinja_node_new(p, JINJA_N_ARGUMENT, jinja_peek(p, 0)->line);
        parameter->name = jinja_expect_name(p);
        if (jinja_skip_operator(p, "="))
            parameter->a = jinja_parse_expression(p, true);
        else if (defaults)
            jinja_parse_error(p, LS_INVALID, parameter->line,
                              "a parameter without a default follows one that has a default");
        defaults = parameter->a != NULL;
        jinja_append(&end, parameter);
    }
    jinja_expect_operator(p, ")");
    return first;
}

/* The body of a macro: break and continue in it do not refer to a loop around the macro. */
static jinja_node *function_body(jinja_parser *p, const char *end) {
    const int loops = p->loops;
    p->loops = 0;
    jinja_node *body = body_up_to(p, end);
    p->loops = loops;
    return body;
}

/* The body, after the parameters. One that has a parameter `caller` takes no other argument of that name. */
static void parse_body_of_macro(jinja_parser *p, jinja_node *node, const char *end) {
    const jinja_caller_use outer = p->caller;
    const jinja_node *parameter = node->first;
    while (parameter != NULL && !jinja_is(parameter->name, "caller")) parameter = parameter->next;
    p->caller = parameter != NULL ? JINJA_CALLER_SET : JINJA_CALLER_UNUSED;
    node->body = function_body(p, end);
    node->takes_caller = p->caller == JINJA_CALLER_READ;
    if (outer != JINJA_CALLER_UNUSED) p->caller = outer; /* else a macro around this one reads it here, too */
}

static jinja_node *parse_macro(jinja_parser *p, jinja_node *node) {
    node->kind = JINJA_N_MACRO;
    node->name = jinja_expect_name(p);
    node->first = jinja_parse_parameters(p);
    parse_body_of_macro(p, node, "endmacro");
    return node;
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *node) {
    node->kind = JINJA_N_CALL_BLOCK;
    if (jinja_at_operator(p, "(")) node->first = jinja_parse_parameters(p);
    node->a = jinja_parse_expression(p, true);
    if (p->error.code == LS_OK && node->a->kind != JINJA_N_CALL)
        jinja_parse_error(p, LS_INVALID, node->line, "a call block needs a call, as in {%% call f() %%}");
    parse_body_of_macro(p, node, "endcall");
    return node;
}

static jinja_node *parse_filter(jinja_parser *p, jinja_node *node) {
    node->kind = JINJA_N_FILTER_BLOCK;
    node->b = jinja_parse_filters(p, NULL, true);
    node->body = body_up_to(p, "endfilter");
    return node;
}

static jinja_node *parse_generation(jinja_parser *p, jinja_node *node) {
    node->kind = JINJA_N_GENERATION;
    node->body = function_body(p, "endgeneration");
    p->jinja->generates = true;
    return node;
}

static jinja_node *parse_with(jinja_parser *p, jinja_node *node) {
    jinja_node **end = &node->first;
    node->kind = JINJA_N_WITH;
    while (p->error.code == LS_OK && jinja_peek(p, 0)->kind != JINJA_T_BLOCK_END) {
        if (node->first != NULL) jinja_expect_operator(p, ",");
        jinja_node *pair = jinja_node_new(p, JINJA_N_SET, node->line);
        pair->a = jinja_parse_target(p, false, NULL);
        jinja_expect_operator(p, "=");
        pair->b = jinja_parse_expression(p, true);
        jinja_append(&end, pair);
    }
    node->body = body_up_to(p, "endwith");
    return node;
}

static jinja_node *parse_print(jinja_parser *p, jinja_node *node) {
    jinja_node *first = NULL, **end = &first;
    (void)node;
    while (p->error.code == LS_OK && jinja_peek(p, 0)->kind != JINJA_T_BLOCK_END) {
        if (first != NULL) jinja_expect_operator(p, ",");
        jinja_node *print = jinja_node_new(p, JINJA_N_PRINT, node->line);
        print->a = jinja_parse_expression(p, true);
        jinja_append(&end, print);
    }
    return first;
}

static jinja_node *parse_jump(jinja_parser *p, jinja_node *node, jinja_node_kind kind) {
    if (p->loops == 0) jinja_parse_error(p, LS_INVALID, node->line, "break or continue outside of a loop");
    node->kind = kind;
    return node;
}

static jinja_node *parse_break(jinja_parser *p, jinja_node *node) { return parse_jump(p, node, JINJA_N_BREAK); }

static jinja_node *parse_continue(jinja_parser *p, jinja_node *node) { return parse_jump(p, node, JINJA_N_CONTINUE); }

/* parse NULL: a block of Jinja that is not supported. */
static const struct statement {
    const char *name;
    jinja_node *(*parse)(jinja_parser *p, jinja_node *node);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter},
    {"with", parse_with},
    {"print", parse_print},
    {"generation", parse_generation},
    {"break", parse_break},
    {"continue", parse_continue},
    {"include", NULL},
    {"import", NULL},
    {"from", NULL},
    {"extends", NULL},
    {"block", NULL},
    {"autoescape", NULL},
};

static jinja_node *parse_statement(jinja_parser *p) {
    const jinja_token *word = jinja_peek(p, 0);
    char shown[80];
    for (size_t i = 0; i < LS_COUNT(statements); i++) {
        if (!jinja_is_name(word, statements[i].name)) continue;
        if (statements[i].parse == NULL) {
            jinja_parse_error(p, LS_UNSUPPORTED, word->line, "block '%s' is not supported", statements[i].name);
            return NULL;
        }
        jinja_next_token(p);
        return statements[i].parse(p, jinja_node_new(p, JINJA_N_PRINT, word->line));
    }
    jinja_parse_error(p, LS_INVALID, word->line, "'%s' begins no block here",
                      jinja_printable(word->text, shown, sizeof shown));
    return NULL;
}

static jinja_node *constant(jinja_parser *p, const jinja_token *token) {
    jinja_node *node = jinja_node_new(p, JINJA_N_DATA, token->line);
    node->value = jinja_of_text(token->text);
    return node;
}

static bool ends_here(const jinja_parser *p, const char *const *ends) {
    for (; ends != NULL && *ends != NULL; ends++)
        if (jinja_is_name(jinja_peek(p, 1), *ends)) return true;
    return false;
}

/* Parses nodes up to a block that begins with a word of `ends`; NULL: up to the end of the template. */
static jinja_node *parse_until(jinja_parser *p, const char *const *ends) {
    jinja_node *first = NULL, **next = &first;
    if (!jinja_enter(p)) return NULL;
    while (p->error.code == LS_OK && jinja_peek(p, 0)->kind != JINJA_T_END) {
        const jinja_token *token = jinja_peek(p, 0);
        if (token->kind == JINJA_T_DATA) {
            *next = constant(p, jinja_next_token(p));
        } else if (token->kind == JINJA_T_PRINT_BEGIN) {
            jinja_next_token(p);
            *next = jinja_node_new(p, JINJA_N_PRINT, token->line);
            (*next)->a = jinja_parse_tuple(p, true, NULL);
            expect(p, JINJA_T_PRINT_END, "}}");
        } else {
            if (ends_here(p, ends)) break;
            jinja_next_token(p);
            *next = parse_statement(p);
            expect(p, JINJA_T_BLOCK_END, "%}");
        }
        while (*next != NULL) next = &(*next)->next;
    }
    if (jinja_peek(p, 0)->kind == JINJA_T_END && ends != NULL) {
        int last = 0;
        while (ends[last + 1] != NULL) last++;
        jinja_refuse_token(p, ends[last]);
    }
    if (ends != NULL) jinja_next_token(p); /* {% */
    p->depth--;
    return first;
}

/* --- the whole template ------------------------------------------------------------------------------------------- */

ls_status ls_jinja_read(const char *file, const char *text, size_t bytes, ls_jinja **out) {
    if (bytes > LS_JINJA_MOST_BYTES)
        return ls_error(LS_INVALID, "%s:1: the template has %zu bytes, expected at most %zu", file, bytes,
                        LS_JINJA_MOST_BYTES);
    ls_jinja *jinja = calloc(1, sizeof *jinja);
    if (jinja == NULL) return ls_error(LS_NO_MEMORY, "no memory for a template");
    jinja->arena = ls_arena_create();
    jinja->file = ls_arena_strdup(jinja->arena, file);
    jinja_parser p = {.jinja = jinja, .error = ls_ok()};
    p.error = jinja_lex(jinja->arena, jinja->file, jinja_text_of_utf8(jinja->arena, text, bytes, 0), &jinja->tokens);
    if (p.error.code == LS_OK) jinja->body = parse_until(&p, NULL);
    if (p.error.code != LS_OK)
        ls_jinja_free(jinja);
    else
        *out = jinja;
    return p.error;
}

void ls_jinja_free(ls_jinja *jinja) {
    if (jinja == NULL) return;
    ls_arena_destroy(jinja->arena);
    free(jinja);
}

size_t ls_jinja_bytes(const ls_jinja *jinja) { return ls_arena_bytes(jinja->arena); }

bool ls_jinja_generates(const ls_jinja *jinja) { return jinja->generates; }

bool ls_jinja_names(const ls_jinja *jinja, const char *name) {
    for (size_t i = 0; i < jinja->tokens.n; i++)
        if (jinja_is_name(&jinja->tokens.token[i], name)) return true;
    return false;
}
