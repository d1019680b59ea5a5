/*
 * The way "heads": the recurrent matrix R is separate for each head, so a rank that has some heads of the whole
 * sequence needs no data of other ranks. An all-to-all brings the heads, another one takes the results back to the
 * ranks of their tokens (redistribute/by_heads.c). No rank waits for another one's states, but each rank needs at least
 * one head.
 */
#include "compile/attention/attention.h"
#include "compile/rnn/rnn.h"

/* This rank's heads, of all tokens of the sequence. */
typedef struct whole {
    ls_rnn_site site;
    ls_by_heads by;
    ls_parts heads;
} whole;

static ls_operand room_of(ls_builder *b, const whole *w, const char *name, ls_dtype dtype, int64_t elements) {
    const int64_t size[] = {w->site.B, w->by.tokens.total, w->site.H, elements};
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, dtype, 4, size);
}

/* This rank's heads of a parameter [H,..], or of the sum over a parameter's gradients. */
static ls_operand heads_of(ls_builder *b, const whole *w, ls_operand o) {
    return ls_part_at(b, w->by.team, o, 0, &w->heads, 0);
}

static whole gather(ls_builder *b, const ls_rnn_site *site) {
    const ls_rnn_tensors *from = &site->tensors;
    whole w = {.site = *site, .by = ls_by_heads_of(b)};
    w.heads = ls_parts_of_heads(b, &w.by, site->H, 1, site->heads.most);
    w.site.H = w.heads.count[ls_build_team_place(b, w.by.team)];
    ls_rnn_tensors *t = &w.site.tensors;
    const bool back = from->dy.buffer >= 0;
    ls_moves m = {.by = &w.by};
    ls_move(b, &m, "x to heads", from->x, &w.heads, &t->x);
    ls_move(b, &m, "places to all", from->places, &w.by.marks, &t->places);
    if (back) ls_move(b, &m, "y to heads", from->y, &w.heads, &t->y);
    if (back) ls_move(b, &m, "dy to heads", from->dy, &w.heads, &t->dy);
    ls_end_moves(b, &m);
    if (ls_view_elements(&from->places.view) == 0) t->places = ls_operand_nothing(t->x, LS_I32, 3);
    t->weight = heads_of(b, &w, from->weight);
    t->bias = heads_of(b, &w, from->bias);
    if (back) t->dweight = heads_of(b, &w, from->dweight);
    if (back) t->dbias = heads_of(b, &w, from->dbias);
    return w;
}

/* Stretch i of the whole sequence, for all sequences. */
static ls_rnn_part stretch_at(const whole *w, int i) {
    return (ls_rnn_part){w->by.stretch[i].from, w->by.stretch[i].count, 0, w->site.B};
}

static ls_operand state_at(const whole *w, ls_operand states, int i) {
    return ls_rnn_state_at(states, i, 0, w->site.B);
}

/* Computes the results; returns the states in front of all stretches. */
static ls_operand compute(ls_builder *b, const whole *w) {
    const ls_operand fronts = ls_rnn_states(b, &w->site, "states", w->by.n),
                     state = state_at(w, ls_rnn_states(b, &w->site, "state", 1), 0);
    ls_build_fill(b, state);
    for (int i = 0; i < w->by.n; i++) {
        const ls_rnn_part part = stretch_at(w, i);
        ls_build_copy(b, state, state_at(w, fronts, i));
        ls_rnn_forward(b, &w->site, &part, state);
    }
    ls_rnn_keep(b, &w->site, w->heads.start[ls_build_team_place(b, w->by.team)], b->image->layout.S, state);
    return fronts;
}

static void forward(ls_builder *b, ls_rnn_site *site) {
    whole w = gather(b, site);
    w.site.tensors.y = room_of(b, &w, "y", b->image->dtype, w.site.D);
    b->sites->fronts[site->forward] = compute(b, &w);
    ls_moves m = {.by = &w.by, .back = true};
    ls_move(b, &m, "y to tokens", w.site.tensors.y, &w.heads, &site->tensors.y);
    ls_end_moves(b, &m);
}

static void backward(ls_builder *b, ls_rnn_site *site) {
    whole w = gather(b, site);
    ls_operand fronts = b->sites->fronts[site->forward];
    if (site->forward < b->row->first_node) { /* the forward pass is in another program */
        whole again = w;
        again.site.tensors.y = ls_rnn_unread(b, &w.site);
        fronts = compute(b, &again);
    }
    const ls_operand behind = state_at(&w, ls_rnn_states(b, &w.site, "gradient of a state", 1), 0);
    ls_build_fill(b, behind);
    w.site.tensors.dx = room_of(b, &w, "dx", b->image->dtype, w.site.tensors.x.view.size[3]);
    for (int i = w.by.n - 1; i >= 0; i--) {
        const ls_rnn_part part = stretch_at(&w, i);
        ls_rnn_backward(b, &w.site, &part, state_at(&w, fronts, i), behind);
    }
    ls_moves m = {.by = &w.by, .back = true};
    ls_move(b, &m, "dx to tokens", w.site.tensors.dx, &w.heads, &site->tensors.dx);
    ls_end_moves(b, &m);
}

static ls_status applicable(const ls_builder *b, const void *of) {
    const ls_rnn_site *site = of;
    return ls_by_heads_fits(b, site->node, "heads", site->heads.least);
}

/* Elements sent forward are those of x and y; backward, of x, y and their gradients. */
static double cost(const ls_builder *b, const void *site) {
    const ls_rnn_site *s = site;
    const int P = b->image->layout.P;
    const double numbers = (double)(s->B * ls_layout_most(&b->image->layout) * s->heads.most) *
                           (double)(3 * s->tensors.x.view.size[3] + 3 * s->D);
    return (P - 1.0) / P * numbers * (double)ls_dtype_bytes(b->image->dtype);
}

const ls_rnn_way ls_rnn_way_heads = {
    .way = {"heads", "an all-to-all to heads of the whole sequence, and back", applicable, cost},
    .forward = forward,
    .backward = backward};
