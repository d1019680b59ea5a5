/* Executes statements: a table has one row for each kind of node. */
#include "jinja/run_impl.h"

#include <string.h>

jinja_value jinja_capture(jinja_run *r, const jinja_node *body, jinja_scope *outer) {
    jinja_scope *const scope = r->scope;
    jinja_buffer *const out = r->out, captured = {0};
    jinja_buffer inside = captured;
    jinja_scope_enter(r, outer);
    r->out = &inside;
    jinja_execute_all(r, body);
    r->out = out;
    r->scope = scope;
    return jinja_buffer_value(&inside);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void set_attribute(jinja_run *r, const jinja_node *target, jinja_value value) {
    char shown[80];
    const jinja_value space = jinja_look_up(r, target->a->name);
    if (space.kind != JINJA_NAMESPACE)
        jinja_fail(r, LS_INVALID, "'%s' is of type %s, expected a namespace",
                   jinja_printable(target->a->name, shown, sizeof shown), jinja_type_name(space));
    else if (target->name.at[0] == '_')
        jinja_fail(r, LS_INVALID, "a namespace has no attributes that begin with _");
    else
        jinja_set(r, space.dict, jinja_of_text(target->name), value);
}

static void unpack(jinja_run *r, const jinja_node *target, jinja_value value) {
    const jinja_list *list = jinja_iterate(r, value);
    size_t i = 0, wanted = 0;
    for (const jinja_node *n = target->first; n != NULL && jinja_step(r, 1); n = n->next) wanted++;
    if (list->n != wanted && !r->failed) {
        jinja_fail(r, LS_INVALID, "%zu values are assigned to %zu names", list->n, wanted);
        return;
    }
    for (const jinja_node *n = target->first; n != NULL && !r->failed; n = n->next) jinja_assign(r, n, list->item[i++]);
}

void jinja_assign(jinja_run *r, const jinja_node *target, jinja_value value) {
    if (r->failed) return;
    if (target->kind == JINJA_N_ATTRIBUTE)
        set_attribute(r, target, value);
    else if (target->kind == JINJA_N_TUPLE)
        unpack(r, target, value);
    else
        jinja_set(r, &r->scope->names, jinja_of_text(target->name), value);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

static void put_out(jinja_run *r, jinja_text text) {
    const size_t from = r->out->n;
    jinja_put(r, r->out, text); /* counts the characters */
    for (size_t i = from; r->marks != 0 && i < r->out->n; i++) r->out->at[i] |= r->marks;
}

static void execute_data(jinja_run *r, const jinja_node *node) { put_out(r, node->value.text); }

static void execute_print(jinja_run *r, const jinja_node *node) {
    const jinja_value value = jinja_evaluate(r, node->a);
    if (!r->failed) put_out(r, jinja_to_text(r, value));
}

/* --- choices and loops -------------------------------------------------------------------------------------------- */

static void execute_if(jinja_run *r, const jinja_node *node) {
    while (!jinja_true(jinja_evaluate(r, node->a)) && !r->failed) {
        if (node->other == NULL || node->other->kind != JINJA_N_IF || node->other->next != NULL) {
            jinja_execute_all(r, node->other);
            return;
        }
        node = node->other;
        r->line = node->line;
    }
    if (!r->failed) jinja_execute_all(r, node->body);
}

/* The items for which the condition of `for ... if` holds. */
static jinja_list *filtered(jinja_run *r, const jinja_node *node, jinja_list *all, jinja_scope *outer) {
    if (node->c == NULL) return all;
    jinja_list *kept = jinja_new_list(r, 0);
    for (size_t i = 0; i < all->n && jinja_step(r, 1); i++) {
        jinja_scope_enter(r, outer);
        jinja_assign(r, node->a, all->item[i]);
        if (jinja_true(jinja_evaluate(r, node->c))) jinja_add(r, kept, all->item[i]);
    }
    r->scope = outer;
    return kept;
}

static int depth_of_loops(jinja_run *r) {
    const jinja_value outer = jinja_look_up(r, jinja_text_of_ascii(r->arena, "loop"));
    return outer.kind == JINJA_LOOP ? outer.loop->depth + 1 : 1;
}

static void execute_for(jinja_run *r, const jinja_node *node) {
    jinja_scope *const outer = r->scope;
    const jinja_list *items = filtered(r, node, jinja_iterate(r, jinja_evaluate(r, node->b)), outer);
    jinja_loop *loop = LS_NEW(r->arena, jinja_loop);
    const jinja_value name = jinja_of_text(jinja_text_of_ascii(r->arena, "loop"));
    *loop = (jinja_loop){.item = items->item, .n = items->n, .depth = depth_of_loops(r)};
    for (; loop->at < loop->n && jinja_step(r, 1) && r->jump != JINJA_BREAK; loop->at++) {
        r->jump = JINJA_NO_JUMP;
        jinja_scope_enter(r, outer);
        jinja_set(r, &r->scope->names, name, (jinja_value){.kind = JINJA_LOOP, .loop = loop});
        jinja_assign(r, node->a, loop->item[loop->at]);
        jinja_execute_all(r, node->body);
    }
    r->jump = JINJA_NO_JUMP;
    if (loop->n == 0 && node->other != NULL && !r->failed) {
        jinja_scope_enter(r, outer);
        jinja_execute_all(r, node->other);
    }
    r->scope = outer;
}

static void execute_break(jinja_run *r, const jinja_node *node) {
    (void)node;
    r->jump = JINJA_BREAK;
}

static void execute_continue(jinja_run *r, const jinja_node *node) {
    (void)node;
    r->jump = JINJA_CONTINUE;
}

/* --- assignments -------------------------------------------------------------------------------------------------- */

static void execute_set(jinja_run *r, const jinja_node *node) { jinja_assign(r, node->a, jinja_evaluate(r, node->b)); }

/* Applies the filters of a block to the output of its body: the innermost filter has no operand in the tree. */
static jinja_value filter_body(jinja_run *r, const jinja_node *filters, jinja_value said) {
    r->said = said;
    return filters != NULL && !r->failed ? jinja_evaluate(r, filters) : said;
}

static void execute_set_block(jinja_run *r, const jinja_node *node) {
    const jinja_value said = jinja_capture(r, node->body, r->scope);
    jinja_assign(r, node->a, filter_body(r, node->b, said));
}

static void execute_filter_block(jinja_run *r, const jinja_node *node) {
    const jinja_value said = jinja_capture(r, node->body, r->scope);
    const jinja_value value = filter_body(r, node->b, said);
    if (!r->failed) put_out(r, jinja_to_text(r, value));
}

static void execute_with(jinja_run *r, const jinja_node *node) {
    jinja_scope *const outer = r->scope;
    jinja_scope_enter(r, outer);
    jinja_scope *const inner = r->scope;
    for (const jinja_node *pair = node->first; pair != NULL; pair = pair->next) {
        r->scope = outer; /* a value does not see the names that `with` sets */
        const jinja_value value = jinja_evaluate(r, pair->b);
        r->scope = inner;
        jinja_assign(r, pair->a, value);
    }
    jinja_execute_all(r, node->body);
    r->scope = outer;
}

/* --- macros ------------------------------------------------------------------------------------------------------- */

static jinja_value macro_of(jinja_run *r, const jinja_node *node) {
    jinja_macro *macro = LS_NEW(r->arena, jinja_macro);
    *macro = (jinja_macro){.node = node, .scope = r->scope};
    return (jinja_value){.kind = JINJA_MACRO, .macro = macro};
}

static void execute_macro(jinja_run *r, const jinja_node *node) {
    jinja_set(r, &r->scope->names, jinja_of_text(node->name), macro_of(r, node));
}

static void execute_call_block(jinja_run *r, const jinja_node *node) {
    jinja_arguments given;
    const jinja_value callee = jinja_evaluate(r, node->a->a);
    jinja_arguments_of(r, node->a->first, &given);
    jinja_set(r, &given.named, jinja_of_text(jinja_text_of_ascii(r->arena, "caller")), macro_of(r, node));
    const jinja_value said = jinja_call(r, callee, &given);
    if (!r->failed) put_out(r, jinja_to_text(r, said));
}

static void execute_generation(jinja_run *r, const jinja_node *node) {
    const uint32_t marks = r->marks;
    r->marks |= JINJA_GENERATED;
    jinja_scope *const outer = r->scope;
    jinja_scope_enter(r, outer);
    jinja_execute_all(r, node->body);
    r->scope = outer;
    r->marks = marks;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void (*const statements[JINJA_N_KINDS])(jinja_run *r, const jinja_node *node) = {
    [JINJA_N_DATA] = execute_data,
    [JINJA_N_PRINT] = execute_print,
    [JINJA_N_IF] = execute_if,
    [JINJA_N_FOR] = execute_for,
    [JINJA_N_SET] = execute_set,
    [JINJA_N_SET_BLOCK] = execute_set_block,
    [JINJA_N_MACRO] = execute_macro,
    [JINJA_N_CALL_BLOCK] = execute_call_block,
    [JINJA_N_FILTER_BLOCK] = execute_filter_block,
    [JINJA_N_GENERATION] = execute_generation,
    [JINJA_N_WITH] = execute_with,
    [JINJA_N_BREAK] = execute_break,
    [JINJA_N_CONTINUE] = execute_continue,
};

void jinja_execute_all(jinja_run *r, const jinja_node *first) {
    for (const jinja_node *node = first; node != NULL && !r->failed && r->jump == JINJA_NO_JUMP; node = node->next) {
        r->line = node->line;
        if (jinja_step(r, 1)) statements[node->kind](r, node);
    }
}
