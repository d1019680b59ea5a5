/*
 * Parses expressions. Operators by precedence, the weakest first: a if b else c; or; and; not; comparisons; + -; ~; * /
 * // %; **; signs; then calls, items, filters and tests.
 */
#include "jinja/tree_impl.h"

#include <string.h>

static jinja_node *parse_unary(jinja_parser *p, bool with_filters);
static jinja_node *parse_primary(jinja_parser *p);

static bool at_kind(const jinja_parser *p, jinja_token_kind kind) { return jinja_peek(p, 0)->kind == kind; }

static jinja_node *node_here(jinja_parser *p, jinja_node_kind kind) {
    return jinja_node_new(p, kind, jinja_peek(p, 0)->line);
}

/* --- operators ---------------------------------------------------------------------------------------------------- */

static const char *accept_operator(jinja_parser *p, const char *const *operators) {
    for (; *operators != NULL; operators++)
        if (jinja_skip_operator(p, *operators)) return *operators;
    return NULL;
}

static jinja_node *binary(jinja_parser *p, jinja_node *a, const char *operator, jinja_node * b) {
    jinja_node *node = jinja_node_new(p, JINJA_N_BINARY, a->line);
    node->op = jinja_find_operator(operator);
    node->a = a;
    node->b = b;
    return node;
}

static jinja_node *parse_power(jinja_parser *p) {
    static const char *const operators[] = {"**", NULL};
    jinja_node *node = parse_unary(p, true);
    for (const char *op; (op = accept_operator(p, operators)) != NULL;)
        node = binary(p, node, op, parse_unary(p, true));
    return node;
}

static jinja_node *parse_product(jinja_parser *p) {
    static const char *const operators[] = {"*", "/", "//", "%", NULL};
    jinja_node *node = parse_power(p);
    for (const char *op; (op = accept_operator(p, operators)) != NULL;) node = binary(p, node, op, parse_power(p));
    return node;
}

static jinja_node *parse_concat(jinja_parser *p) {
    jinja_node *first = parse_product(p);
    if (!jinja_at_operator(p, "~")) return first;
    jinja_node *node = jinja_node_new(p, JINJA_N_CONCAT, first->line), *last = node->first = first;
    while (jinja_skip_operator(p, "~")) last = last->next = parse_product(p);
    return node;
}

static jinja_node *parse_sum(jinja_parser *p) {
    static const char *const operators[] = {"+", "-", NULL};
    jinja_node *node = parse_concat(p);
    for (const char *op; (op = accept_operator(p, operators)) != NULL;) node = binary(p, node, op, parse_concat(p));
    return node;
}

static const char *accept_comparison(jinja_parser *p) {
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
    if (jinja_skip_name(p, "in")) return "in";
    const jinja_token *next = jinja_peek(p, 1);
    if (jinja_at_name(p, "not") && next->kind == JINJA_T_NAME && jinja_is(next->text, "in")) {
        jinja_next_token(p);
        jinja_next_token(p);
        return "not in";
    }
    return accept_operator(p, operators);
}

static jinja_node *parse_comparison(jinja_parser *p) {
    jinja_node *a = parse_sum(p), *node = NULL, **end = NULL;
    for (const char *op; (op = accept_comparison(p)) != NULL;) {
        if (node == NULL) {
            node = jinja_node_new(p, JINJA_N_COMPARE, a->line);
            node->a = a;
            end = &node->first;
        }
        jinja_node *operand = node_here(p, JINJA_N_ARGUMENT);
        operand->op = jinja_find_operator(op);
        operand->a = parse_sum(p);
        jinja_append(&end, operand);
    }
    return node != NULL ? node : a;
}

static jinja_node *parse_not(jinja_parser *p) {
    if (!jinja_at_name(p, "not")) return parse_comparison(p);
    jinja_node *node = node_here(p, JINJA_N_NOT);
    jinja_next_token(p);
    if (!jinja_enter(p)) return node;
    node->a = parse_not(p);
    p->depth--;
    return node;
}

/* Operands with one word between them, grouped from the left. */
static jinja_node *parse_chain(jinja_parser *p, const char *word, jinja_node_kind kind,
                               jinja_node *(*parse_operand)(jinja_parser *p)) {
    jinja_node *node = parse_operand(p);
    while (jinja_skip_name(p, word)) {
        jinja_node *both = jinja_node_new(p, kind, node->line);
        both->a = node;
        both->b = parse_operand(p);
        node = both;
    }
    return node;
}

static jinja_node *parse_and(jinja_parser *p) { return parse_chain(p, "and", JINJA_N_AND, parse_not); }

static jinja_node *parse_or(jinja_parser *p) { return parse_chain(p, "or", JINJA_N_OR, parse_and); }

jinja_node *jinja_parse_expression(jinja_parser *p, bool with_choice) {
    if (!jinja_enter(p)) return node_here(p, JINJA_N_CONSTANT);
    jinja_node *node = parse_or(p);
    while (with_choice && jinja_skip_name(p, "if")) {
        jinja_node *choice = jinja_node_new(p, JINJA_N_CHOICE, node->line);
        choice->a = parse_or(p);
        choice->b = node;
        if (jinja_skip_name(p, "else")) choice->c = jinja_parse_expression(p, true);
        node = choice;
    }
    p->depth--;
    return node;
}

/* --- tuples, lists, dicts ----------------------------------------------------------------------------------------- */

static bool tuple_ends(const jinja_parser *p, const char *until) {
    return at_kind(p, JINJA_T_PRINT_END) || at_kind(p, JINJA_T_BLOCK_END) || at_kind(p, JINJA_T_END) ||
           jinja_at_operator(p, ")") || (until != NULL && jinja_at_name(p, until));
}

/*
 * One item, or a tuple of items with commas between them. item: how to parse one; NULL: as an expression. empty: no
 * item is a tuple too.
 */
static jinja_node *parse_commas(jinja_parser *p, jinja_node *(*item)(jinja_parser *), bool with_choice,
                                const char *until, bool empty) {
    jinja_node *tuple = node_here(p, JINJA_N_TUPLE), **last = &tuple->first;
    bool commas = false;
    while (p->error.code == LS_OK && !tuple_ends(p, until)) {
        *last = item != NULL ? item(p) : jinja_parse_expression(p, with_choice);
        last = &(*last)->next;
        if (!jinja_skip_operator(p, ",")) break;
        commas = true;
    }
    if (!commas && tuple->first != NULL) return tuple->first;
    if (!commas && !empty) jinja_parse_error(p, LS_INVALID, tuple->line, "expected an expression");
    return tuple;
}

jinja_node *jinja_parse_tuple(jinja_parser *p, bool with_choice, const char *until) {
    return parse_commas(p, NULL, with_choice, until, false);
}

static jinja_node *parse_list(jinja_parser *p) {
    jinja_node *list = node_here(p, JINJA_N_LIST), **last = &list->first;
    jinja_next_token(p);
    while (p->error.code == LS_OK && !jinja_at_operator(p, "]")) {
        *last = jinja_parse_expression(p, true);
        last = &(*last)->next;
        if (!jinja_at_operator(p, "]")) jinja_expect_operator(p, ",");
    }
    jinja_expect_operator(p, "]");
    return list;
}

static jinja_node *parse_dict(jinja_parser *p) {
    jinja_node *dict = node_here(p, JINJA_N_DICT), **last = &dict->first;
    jinja_next_token(p);
    while (p->error.code == LS_OK && !jinja_at_operator(p, "}")) {
        *last = jinja_parse_expression(p, true);
        last = &(*last)->next;
        jinja_expect_operator(p, ":");
        *last = jinja_parse_expression(p, true);
        last = &(*last)->next;
        if (!jinja_at_operator(p, "}")) jinja_expect_operator(p, ",");
    }
    jinja_expect_operator(p, "}");
    return dict;
}

/* --- names and constants ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    jinja_value value;
} constants[] = {
    {"true", {.kind = JINJA_BOOL, .truth = true}},
    {"True", {.kind = JINJA_BOOL, .truth = true}},
    {"false", {.kind = JINJA_BOOL, .truth = false}},
    {"False", {.kind = JINJA_BOOL, .truth = false}},
    {"none", {.kind = JINJA_NONE}},
    {"None", {.kind = JINJA_NONE}},
};

static jinja_node *parse_name(jinja_parser *p) {
    jinja_node *node = node_here(p, JINJA_N_NAME);
    node->name = jinja_next_token(p)->text;
    for (size_t i = 0; i < LS_COUNT(constants); i++) {
        if (!jinja_is(node->name, constants[i].name)) continue;
        node->kind = JINJA_N_CONSTANT;
        node->value = constants[i].value;
    }
    jinja_note_name(p, node->name, JINJA_CALLER_READ);
    return node;
}

/* Adjacent strings are joined. */
static jinja_node *parse_string(jinja_parser *p) {
    jinja_node *node = node_here(p, JINJA_N_CONSTANT);
    size_t n = 0, at = p->at;
    for (; jinja_peek(p, 0)->kind == JINJA_T_STRING; jinja_next_token(p)) n += jinja_peek(p, 0)->text.n;
    jinja_char *chars = LS_NEW_ARRAY(p->jinja->arena, jinja_char, n);
    node->value = jinja_of_text((jinja_text){chars, n});
    for (; at < p->at; at++) {
        const jinja_text part = p->jinja->tokens.token[at].text;
        if (part.n > 0) memcpy(chars, part.at, part.n * sizeof *chars);
        chars += part.n;
    }
    return node;
}

static jinja_node *parse_number(jinja_parser *p) {
    jinja_node *node = node_here(p, JINJA_N_CONSTANT);
    const char *problem = jinja_number_of(jinja_next_token(p)->text, &node->value);
    LS_ASSERT(problem == NULL); /* jinja_lex refuses others */
    return node;
}

static jinja_node *parse_primary(jinja_parser *p) {
    char shown[80];
    if (at_kind(p, JINJA_T_NAME)) return parse_name(p);
    if (at_kind(p, JINJA_T_STRING)) return parse_string(p);
    if (at_kind(p, JINJA_T_NUMBER)) return parse_number(p);
    if (jinja_at_operator(p, "[")) return parse_list(p);
    if (jinja_at_operator(p, "{")) return parse_dict(p);
    if (jinja_skip_operator(p, "(")) {
        jinja_node *inside = parse_commas(p, NULL, true, NULL, true);
        jinja_expect_operator(p, ")");
        return inside;
    }
    const jinja_token *token = jinja_peek(p, 0);
    jinja_parse_error(p, LS_INVALID, token->line, "'%s', expected an expression",
                      jinja_printable(token->text, shown, sizeof shown));
    return node_here(p, JINJA_N_CONSTANT);
}

/* --- targets ------------------------------------------------------------------------------------------------------ */

static jinja_node *parse_one_target(jinja_parser *p) {
    if (jinja_skip_operator(p, "(")) {
        jinja_node *inside = NULL;
        if (jinja_enter(p)) {
            inside = parse_commas(p, parse_one_target, false, NULL, false);
            p->depth--;
        }
        jinja_expect_operator(p, ")");
        return inside != NULL ? inside : node_here(p, JINJA_N_NAME);
    }
    jinja_node *node = node_here(p, JINJA_N_NAME);
    node->name = jinja_expect_name(p);
    for (size_t i = 0; i < LS_COUNT(constants); i++)
        if (jinja_is(node->name, constants[i].name))
            jinja_parse_error(p, LS_INVALID, node->line, "%s cannot be set", constants[i].name);
    if (!jinja_skip_operator(p, ".")) {
        jinja_note_name(p, node->name, JINJA_CALLER_SET);
        return node;
    }
    jinja_node *attribute = jinja_node_new(p, JINJA_N_ATTRIBUTE, node->line);
    attribute->a = node;
    attribute->name = jinja_expect_name(p);
    return attribute;
}

static bool has_attribute(const jinja_node *target) {
    if (target->kind == JINJA_N_ATTRIBUTE) return true;
    for (const jinja_node *n = target->kind == JINJA_N_TUPLE ? target->first : NULL; n != NULL; n = n->next)
        if (has_attribute(n)) return true;
    return false;
}

jinja_node *jinja_parse_target(jinja_parser *p, bool with_namespace, const char *until) {
    jinja_node *target = parse_commas(p, parse_one_target, false, until, false);
    if (!with_namespace && has_attribute(target))
        jinja_parse_error(p, LS_INVALID, target->line, "an attribute cannot be set here");
    return target;
}

/* --- calls, items, attributes, filters, tests --------------------------------------------------------------------- */

static jinja_node *parse_arguments(jinja_parser *p) {
    jinja_node *first = NULL, **last = &first;
    bool named = false;
    jinja_expect_operator(p, "(");
    while (p->error.code == LS_OK && !jinja_at_operator(p, ")")) {
        jinja_node *argument = node_here(p, JINJA_N_ARGUMENT);
        const jinja_token *next = jinja_peek(p, 1);
        if (jinja_skip_operator(p, "**")) {
            argument->stars = 2;
        } else if (jinja_skip_operator(p, "*")) {
            argument->stars = 1;
        } else if (at_kind(p, JINJA_T_NAME) && next->kind == JINJA_T_OPERATOR && jinja_is(next->text, "=")) {
            argument->name = jinja_next_token(p)->text;
            jinja_next_token(p);
        } else if (named) {
            jinja_parse_error(p, LS_INVALID, argument->line, "a positional argument follows a named one");
        }
        named |= argument->name.n > 0 || argument->stars > 0;
        argument->a = jinja_parse_expression(p, true);
        *last = argument;
        last = &argument->next;
        if (!jinja_at_operator(p, ")")) jinja_expect_operator(p, ",");
    }
    jinja_expect_operator(p, ")");
    return first;
}

static jinja_node *parse_slice(jinja_parser *p, jinja_node *from) {
    jinja_node *slice = node_here(p, JINJA_N_SLICE), **const parts[] = {&slice->b, &slice->c};
    slice->a = from;
    for (size_t i = 0; i < 2 && jinja_skip_operator(p, ":"); i++)
        if (!jinja_at_operator(p, ":") && !jinja_at_operator(p, "]") && !jinja_at_operator(p, ","))
            *parts[i] = jinja_parse_expression(p, true);
    return slice;
}

static jinja_node *parse_item(jinja_parser *p, jinja_node *of) {
    jinja_node *node = jinja_node_new(p, JINJA_N_ITEM, jinja_peek(p, 0)->line);
    jinja_next_token(p);
    node->a = of;
    node->b = jinja_at_operator(p, ":") ? NULL : jinja_parse_expression(p, true);
    if (jinja_at_operator(p, ":")) node->b = parse_slice(p, node->b);
    if (jinja_at_operator(p, ","))
        jinja_parse_error(p, LS_UNSUPPORTED, node->line, "an item of several indices is not supported");
    jinja_expect_operator(p, "]");
    return node;
}

static jinja_node *parse_attribute(jinja_parser *p, jinja_node *of) {
    jinja_node *node = jinja_node_new(p, JINJA_N_ATTRIBUTE, jinja_next_token(p)->line);
    node->a = of;
    if (!at_kind(p, JINJA_T_NUMBER)) {
        node->name = jinja_expect_name(p);
        return node;
    }
    node->kind = JINJA_N_ITEM;
    node->b = parse_number(p);
    return node;
}

static jinja_node *parse_call(jinja_parser *p, jinja_node *of) {
    jinja_node *node = jinja_node_new(p, JINJA_N_CALL, jinja_peek(p, 0)->line);
    node->a = of;
    node->first = parse_arguments(p);
    return node;
}

static jinja_node *parse_postfix(jinja_parser *p, jinja_node *node) {
    for (;;) {
        if (jinja_at_operator(p, "."))
            node = parse_attribute(p, node);
        else if (jinja_at_operator(p, "["))
            node = parse_item(p, node);
        else if (jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* A filter without a row is refused only when it is executed, as in Jinja: the branch that has it may never run. */
jinja_node *jinja_parse_filters(jinja_parser *p, jinja_node *of, bool begun) {
    while (begun || jinja_skip_operator(p, "|")) {
        jinja_node *node = node_here(p, JINJA_N_FILTER);
        begun = false;
        node->a = of;
        node->name = jinja_expect_name(p);
        node->function = jinja_find_filter(node->name);
        if (jinja_at_operator(p, "(")) node->first = parse_arguments(p);
        of = node;
    }
    return of;
}

/* Whether an argument without brackets follows a test's name: `x is divisibleby 3`. */
static bool at_argument(const jinja_parser *p) {
    static const char *const words[] = {"else", "or", "and", "is", "if", "in", "not"};
    for (size_t i = 0; i < LS_COUNT(words); i++)
        if (jinja_at_name(p, words[i])) return false;
    return at_kind(p, JINJA_T_NAME) || at_kind(p, JINJA_T_STRING) || at_kind(p, JINJA_T_NUMBER) ||
           jinja_at_operator(p, "[") || jinja_at_operator(p, "{");
}

static jinja_node *parse_test(jinja_parser *p, jinja_node *of) {
    jinja_node *node = jinja_node_new(p, JINJA_N_TEST, jinja_next_token(p)->line), *denied = NULL;
    if (jinja_skip_name(p, "not")) {
        denied = jinja_node_new(p, JINJA_N_NOT, node->line);
        denied->a = node;
    }
    node->a = of;
    node->name = jinja_expect_name(p);
    node->function = jinja_find_test(node->name);
    if (jinja_at_operator(p, "(")) {
        node->first = parse_arguments(p);
    } else if (at_argument(p)) {
        node->first = node_here(p, JINJA_N_ARGUMENT);
        node->first->a = parse_postfix(p, parse_primary(p));
    }
    return denied != NULL ? denied : node;
}

static jinja_node *parse_unary(jinja_parser *p, bool with_filters) {
    jinja_node *node;
    const bool minus = jinja_at_operator(p, "-");
    if (!jinja_enter(p)) return node_here(p, JINJA_N_CONSTANT);
    if (minus || jinja_at_operator(p, "+")) {
        node = node_here(p, minus ? JINJA_N_NEGATIVE : JINJA_N_POSITIVE);
        jinja_next_token(p);
        node->a = parse_unary(p, false);
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    while (with_filters) {
        if (jinja_at_operator(p, "|"))
            node = jinja_parse_filters(p, node, false);
        else if (jinja_at_name(p, "is"))
            node = parse_test(p, node);
        else if (jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    p->depth--;
    return node;
}
