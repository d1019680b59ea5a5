/* What the two parsers share: the tokens of a template one after the other, and new nodes. */
#include "jinja/tree_impl.h"

#include <stdarg.h>

enum { DEEPEST = 150 };

void jinja_parse_error(jinja_parser *p, ls_code code, int line, const char *format, ...) {
    char text[400];
    va_list values;
    if (p->error.code != LS_OK) return;
    va_start(values, format);
    ls_vprint(text, sizeof text, format, values);
    va_end(values);
    p->error = ls_error(code, "%s:%d: %s", p->jinja->file, line, text);
    p->at = p->jinja->tokens.n - 1;
}

const jinja_token *jinja_peek(const jinja_parser *p, size_t ahead) {
    const jinja_tokens *tokens = &p->jinja->tokens;
    return &tokens->token[p->at + ahead < tokens->n ? p->at + ahead : tokens->n - 1];
}

const jinja_token *jinja_next_token(jinja_parser *p) {
    const jinja_token *token = jinja_peek(p, 0);
    if (token->kind != JINJA_T_END) p->at++;
    return token;
}

bool jinja_is_name(const jinja_token *token, const char *name) {
    return token->kind == JINJA_T_NAME && jinja_is(token->text, name);
}

bool jinja_at_name(const jinja_parser *p, const char *name) { return jinja_is_name(jinja_peek(p, 0), name); }

bool jinja_at_operator(const jinja_parser *p, const char *text) {
    const jinja_token *token = jinja_peek(p, 0);
    return token->kind == JINJA_T_OPERATOR && jinja_is(token->text, text);
}

bool jinja_skip_name(jinja_parser *p, const char *name) {
    const bool there = jinja_at_name(p, name);
    if (there) jinja_next_token(p);
    return there;
}

bool jinja_skip_operator(jinja_parser *p, const char *text) {
    const bool there = jinja_at_operator(p, text);
    if (there) jinja_next_token(p);
    return there;
}

void jinja_refuse_token(jinja_parser *p, const char *expected) {
    static const char *const names[] = {
        [JINJA_T_END] = "the end of the template", [JINJA_T_BLOCK_END] = "%}", [JINJA_T_PRINT_END] = "}}"};
    const jinja_token *token = jinja_peek(p, 0);
    char shown[80];
    const bool named = token->kind < LS_COUNT(names) && names[token->kind] != NULL;
    jinja_parse_error(p, LS_INVALID, token->line, "%s, expected %s",
                      named ? names[token->kind] : jinja_printable(token->text, shown, sizeof shown), expected);
}

void jinja_expect_operator(jinja_parser *p, const char *text) {
    if (!jinja_skip_operator(p, text)) jinja_refuse_token(p, text);
}

jinja_text jinja_expect_name(jinja_parser *p) {
    if (jinja_peek(p, 0)->kind == JINJA_T_NAME) return jinja_next_token(p)->text;
    jinja_refuse_token(p, "a name");
    return (jinja_text){0};
}

bool jinja_enter(jinja_parser *p) {
    if (p->depth < DEEPEST) {
        p->depth++;
        return true;
    }
    jinja_parse_error(p, LS_INVALID, jinja_peek(p, 0)->line, "nested deeper than %d", DEEPEST);
    return false;
}

jinja_node *jinja_node_new(jinja_parser *p, jinja_node_kind kind, int line) {
    jinja_node *node = LS_NEW(p->jinja->arena, jinja_node);
    node->kind = kind;
    node->line = line;
    return node;
}

void jinja_append(jinja_node ***end, jinja_node *node) {
    **end = node;
    *end = &node->next;
}

void jinja_note_name(jinja_parser *p, jinja_text name, jinja_caller_use use) {
    if (p->caller == JINJA_CALLER_UNUSED && jinja_is(name, "caller")) p->caller = use;
}
