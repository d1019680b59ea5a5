/*
 * All-gather: in each stage, from the last to the first, every rank sends what it has so far to all other members of
 * the stage. A rank begins with its piece and ends with the whole.
 */
#include "compile/redistribute/redistribute.h"

static ls_operand part_of(ls_builder *b, const ls_all_gather *g, int stage, int shift) {
    return ls_stages_part(b, &g->stages, g->all, g->dim, stage, shift);
}

ls_all_gather ls_all_gather_expect(ls_builder *b, const char *label, const ls_stages *stages, ls_operand all, int dim) {
    ls_all_gather g = {.all = all, .dim = dim, .stages = *stages, .stage = stages->n - 1};
    for (int stage = 0; stage < stages->n; stage++) {
        const ls_messages m = g.messages[stage] = ls_stage_messages(b, label, stages, stage);
        for (int i = 0; i < m.n; i++) {
            m.pair[i].land = part_of(b, &g, stage, -(i + 1));
            m.pair[i].from = m.pair[i].to = part_of(b, &g, stage, 0);
        }
        ls_messages_grant(b, &m);
    }
    return g;
}

ls_operand ls_all_gather_piece(ls_builder *b, const ls_all_gather *g) {
    return ls_stages_piece(b, &g->stages, g->all, g->dim);
}

void ls_all_gather_begin(ls_builder *b, ls_all_gather *g, ls_operand mine) {
    const ls_messages *m = &g->messages[g->stage];
    for (int i = 0; i < m->n; i++) m->pair[i].from = mine;
    ls_messages_send(b, m);
    if (mine.buffer != g->all.buffer) ls_build_copy(b, mine, ls_all_gather_piece(b, g));
}

void ls_all_gather_advance(ls_builder *b, ls_all_gather *g) {
    ls_messages_receive(b, &g->messages[g->stage--]);
    if (g->stage >= 0) ls_messages_send(b, &g->messages[g->stage]);
}

void ls_all_gather_finish(ls_builder *b, ls_all_gather *g) {
    while (g->stage >= 0) ls_all_gather_advance(b, g);
}
