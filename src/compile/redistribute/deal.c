/*
 * Rows by the ids of tokens: each token's id names a row of a table that is spread over a team. The token's row of data
 * goes to the member that has this row of the table, and the result that is made there comes back. The exchange has
 * rounds: in round j each member sends to the member j places after it and receives from the one j places before it, so
 * that the memory for received rows does not grow with the team. The number of rows is known only when the program
 * runs: the number and the ids are sent first, then that many rows (ls_build_send_rows). Rows keep the order of their
 * tokens, so that the bits do not depend on which message arrives first.
 */
#include "compile/redistribute/redistribute.h"

/* A dense operand as rows of E elements; and as one list of all its elements. */
static ls_operand as_rows(ls_operand o, int64_t E) {
    LS_ASSERT(ls_view_is_dense(&o.view));
    o.view = ls_view_dense(NULL, o.view.dtype, 2, (const int64_t[]){ls_view_elements(&o.view) / E, E});
    return o;
}
static ls_operand flat(ls_operand o) { return ls_operand_elements(o, 0, ls_view_elements(&o.view)); }

static ls_operand slot(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size) {
    const int64_t elements = ndim > 1 ? size[0] * size[1] : size[0];
    return ls_build_symmetric(b, LS_BUFFER_SLOT, name, elements, dtype, ndim, size);
}

ls_deal ls_deal_make(ls_builder *b, const char *label, int team, int node, ls_operand ids, ls_operand rows,
                     int64_t room) {
    const int members = ls_build_team_size(b, team);
    return (ls_deal){.label = label,
                     .team = team,
                     .members = members,
                     .node = node,
                     .ids = ids,
                     .rows = as_rows(rows, rows.view.size[rows.view.ndim - 1]),
                     .room = room,
                     .likely = (double)ls_view_elements(&ids.view) / members,
                     .round = LS_NEW_ARRAY(b->scratch, ls_deal_round, members + 1)};
}

static int channel(ls_builder *b, const ls_deal *d, const char *what, int j) {
    return ls_build_channel(b, "%s.%s.%d", d->label, what, j);
}

static ls_peer member(const ls_builder *b, const ls_deal *d, int shift) { return ls_build_peer(b, d->team, shift); }

/* The number of rows, which stands in front of their ids. */
static ls_operand number_of(ls_operand numbers) { return ls_operand_elements(numbers, 0, 1); }

void ls_deal_begin(ls_builder *b, const ls_deal *d, int j, bool returns) {
    ls_deal_round *r = &d->round[j];
    const ls_dtype T = d->rows.view.dtype;
    const int64_t heads[] = {1 + d->room}, rows[] = {d->room, d->rows.view.size[1]};
    const ls_peer to = member(b, d, j), from = member(b, d, -j);
    r->numbers = slot(b, "numbers of rows", LS_I32, 1, heads);
    r->rows = slot(b, "rows", T, 2, rows);
    ls_build_grant(b, channel(b, d, "numbers", j), from, r->numbers);
    ls_build_grant(b, channel(b, d, "rows", j), from, r->rows);
    if (returns) {
        r->back = slot(b, "rows back", T, 2, rows);
        ls_build_grant(b, channel(b, d, "back", j), to, r->back);
    }
    r->ids = ls_local_ids_at(b, d->node, d->ids, j);
    const ls_operand numbers = ls_build_private(b, LS_BUFFER_ACTIVATION, "numbers dealt", LS_I32, 1, heads),
                     dealt = ls_build_private(b, LS_BUFFER_ACTIVATION, "rows dealt", T, 2, rows);
    ls_build_kernel(b, &(ls_kernel_build){.op = "deal_rows",
                                          .kernel = LS_KERNEL_DEAL_ROWS,
                                          .dtype = T,
                                          .n_in = 2,
                                          .in = {flat(r->ids), d->rows},
                                          .n_out = 2,
                                          .out = {numbers, dealt}});
    ls_build_send(b, channel(b, d, "numbers", j), to, numbers, r->numbers);
    ls_build_send_rows(b, channel(b, d, "rows", j), to, dealt, r->rows, number_of(numbers), d->likely);
}

ls_dealt ls_deal_receive(ls_builder *b, const ls_deal *d, int j) {
    const ls_deal_round *r = &d->round[j];
    ls_build_receive(b, channel(b, d, "numbers", j), member(b, d, -j), r->numbers);
    ls_build_receive_rows(b, channel(b, d, "rows", j), member(b, d, -j), r->rows);
    return (ls_dealt){.ids = ls_operand_elements(r->numbers, 1, d->room), .rows = r->rows};
}

void ls_deal_return(ls_builder *b, const ls_deal *d, int j, ls_operand made) {
    const ls_deal_round *r = &d->round[j];
    ls_build_send_rows(b, channel(b, d, "back", j), member(b, d, -j), made, r->back, number_of(r->numbers), d->likely);
}

void ls_deal_finish(ls_builder *b, const ls_deal *d, int j, ls_operand result) {
    const ls_deal_round *r = &d->round[j];
    ls_build_receive_rows(b, channel(b, d, "back", j), member(b, d, j), r->back);
    ls_build_kernel(b, &(ls_kernel_build){.op = "collect_rows",
                                          .kernel = LS_KERNEL_COLLECT_ROWS,
                                          .dtype = r->back.view.dtype,
                                          .n_in = 2,
                                          .in = {flat(r->ids), r->back},
                                          .n_out = 1,
                                          .out = {as_rows(result, r->back.view.size[1])}});
}
