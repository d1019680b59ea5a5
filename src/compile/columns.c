/* split and join: each part is a copy from or to some columns of the whole. */
#include "compile/compile_impl.h"

/* The columns of `whole` that `part` takes, from column *at on, which moves past them. */
static ls_operand columns_of(ls_operand whole, const ls_operand *part, int64_t *at) {
    const int last = whole.view.ndim - 1;
    const int64_t n = part->view.size[part->view.ndim - 1];
    const ls_operand columns = ls_operand_slice(whole, last, *at, n);
    *at += n;
    return columns;
}

static void lower_split(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand whole = ls_lower_tensor(b, node->in[0]);
    int64_t from = 0;
    for (int o = 0; o < node->n_out; o++) {
        const ls_operand part = ls_lower_tensor(b, node->out[o]);
        ls_build_copy(b, columns_of(whole, &part, &from), part);
    }
}

static void lower_join(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand whole = ls_lower_tensor(b, node->out[0]);
    int64_t from = 0;
    for (int i = 0; i < node->n_in; i++) {
        const ls_operand part = ls_lower_tensor(b, node->in[i]);
        ls_build_copy(b, part, columns_of(whole, &part, &from));
    }
}

const ls_lowering ls_lowering_split = {.lower = lower_split, .ordered = true};
const ls_lowering ls_lowering_join = {.lower = lower_join, .ordered = true};
