/*
 * scale_rows and its gradient with respect to the table, where ranks along axes of features have parts of the tokens
 * and of the table. A rank computes those tokens, its own and those that other ranks send it, whose rows of the table
 * it has (redistribute/deal.c).
 */
#include "compile/redistribute/redistribute.h"

enum { IDS, ROWS, TABLE };

/* One call of the node's kernel. It writes or adds to `out`. */
static void compute(ls_builder *b, const ls_node *node, ls_operand ids, ls_operand rows, ls_operand out) {
    ls_kernel_build call = {.op = node->op->name,
                            .kernel = node->op->kernel,
                            .dtype = b->image->dtype,
                            .params = node->params,
                            .params_bytes = node->params != NULL ? node->params_bytes : 0,
                            .n_in = 2,
                            .in = {ids, rows},
                            .n_out = 1,
                            .out = {out}};
    if (node->op->in_place[0] == 0) call.in[call.n_in++] = ls_lower_tensor(b, node->in[TABLE]);
    call.flops = ls_lower_flops(node->op, &call);
    ls_build_kernel(b, &call);
}

static ls_deal deal_of(ls_builder *b, const ls_program_node *at, ls_axes axes) {
    const ls_node *node = ls_graph_node(b, at);
    const int team = ls_build_team_of(b, axes);
    const ls_tensor x = node->in[ROWS];
    return ls_deal_make(b, ls_arena_printf(b->image->arena, "deal.%d", team), team, at->of,
                        ls_lower_tensor(b, node->in[IDS]), ls_lower_tensor(b, x),
                        ls_most_elements(b, x) / ls_row_width(b->job->graph, x));
}

/*
 * Round j + 1 begins before round j is computed, and round j ends after round j + 1 is computed, so that rows travel
 * during the computation. If the node adds to a sum, no rows are returned.
 */
static void lower(ls_builder *b, const ls_program_node *at) {
    const ls_axes axes = ls_exchanged(b, at->of);
    if (axes == 0) {
        ls_lowering_called.lower(b, at);
        return;
    }
    const ls_node *node = ls_graph_node(b, at);
    const bool returns = node->op->in_place[0] == 0;
    const ls_deal d = deal_of(b, at, axes);
    const ls_operand whole = ls_lower_tensor(b, node->out[0]), out = returns ? whole : ls_lower_sum(b, at->of, whole);
    ls_deal_begin(b, &d, 1, returns);
    compute(b, node, ls_local_ids_at(b, at->of, d.ids, 0), ls_lower_tensor(b, node->in[ROWS]), out);
    for (int j = 1; j < d.members; j++) {
        if (j + 1 < d.members) ls_deal_begin(b, &d, j + 1, returns);
        const ls_dealt came = ls_deal_receive(b, &d, j);
        const ls_view *form = &came.rows.view;
        const ls_operand made =
            returns ? ls_build_private(b, LS_BUFFER_ACTIVATION, "rows made", form->dtype, form->ndim, form->size) : out;
        compute(b, node, came.ids, came.rows, made);
        if (returns) ls_deal_return(b, &d, j, made);
        if (returns && j > 1) ls_deal_finish(b, &d, j - 1, out);
    }
    if (returns) ls_deal_finish(b, &d, d.members - 1, out);
}

const ls_lowering ls_lowering_scale_rows = {.lower = lower};
const ls_lowering ls_lowering_scale_rows_dw = {.lower = lower};
