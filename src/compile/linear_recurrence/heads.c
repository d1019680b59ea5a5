/*
 * States by heads: an all-to-all from tokens to heads, after which a rank has some heads of the whole sequence and
 * needs no other rank's states, and one back (as Ulysses does for attention). Keys' heads go to one rank each, with the
 * heads of values that use them.
 */
#include "compile/attention/attention.h"
#include "compile/linear_recurrence/linear_recurrence.h"

#include <stdlib.h>

/* Tokens of neighbouring positions that lie one behind the other among those of all ranks. */
typedef struct stretch {
    int64_t position, from, count;
} stretch;

typedef struct whole {
    ls_linear_site site; /* of this rank's heads */
    stretch *stretch;    /* by position */
    int n;
    int team;
    ls_parts tokens, keys, values, marks;
} whole;

static int by_position(const void *a, const void *b) {
    const int64_t x = ((const stretch *)a)->position, y = ((const stretch *)b)->position;
    return (x > y) - (x < y);
}

static void find_stretches(ls_builder *b, whole *w) {
    const ls_layout *layout = &b->image->layout;
    w->stretch = LS_NEW_ARRAY(b->image->arena, stretch, layout->P * ls_layout_most_runs(layout));
    int n = 0;
    for (int p = 0; p < layout->P; p++) {
        const ls_layout_run *runs;
        const int held = ls_layout_runs(layout, p, &runs);
        int64_t from = ls_layout_start(layout, p);
        for (int i = 0; i < held; from += runs[i++].count)
            w->stretch[n++] = (stretch){runs[i].first, from, runs[i].count};
    }
    qsort(w->stretch, (size_t)n, sizeof *w->stretch, by_position);
    for (int i = 0; i < n; i++) {
        stretch *last = w->n > 0 ? &w->stretch[w->n - 1] : NULL;
        if (last != NULL && last->from + last->count == w->stretch[i].from)
            last->count += w->stretch[i].count;
        else
            w->stretch[w->n++] = w->stretch[i];
    }
}

static ls_parts make_parts(ls_builder *b, int P, int64_t total) {
    return (ls_parts){.total = total,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, P),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, P)};
}

/* Heads, `each` for one of keys. most: of keys, on the rank along tp that has most. */
static ls_parts parts_of_heads(ls_builder *b, const whole *w, int64_t keys, int64_t each, int64_t most) {
    const int P = ls_build_team_size(b, w->team);
    ls_parts parts = make_parts(b, P, keys * each);
    for (int p = 0; p < P; p++) {
        parts.start[p] = ls_part_start(keys, P, p) * each;
        parts.count[p] = ls_part_start(keys, P, p + 1) * each - parts.start[p];
    }
    parts.most_total = most * each;
    parts.most = ls_ceil_div(most, P) * each;
    ls_parts_find_sharers(&parts, &b->image->teams[w->team]);
    return parts;
}

static ls_parts parts_of_tokens(ls_builder *b, int P) {
    const ls_layout *layout = &b->image->layout;
    ls_parts parts = make_parts(b, P, layout->S);
    for (int p = 0; p < P; p++) {
        parts.start[p] = ls_layout_start(layout, p);
        parts.count[p] = ls_layout_count(layout, p);
    }
    parts.most = ls_layout_most(layout);
    parts.most_total = layout->S;
    parts.sharers = ls_layout_is_even(layout);
    return parts;
}

/* The one mark of each token, to all. */
static ls_parts parts_of_marks(ls_builder *b, const whole *w) {
    const int P = ls_build_team_size(b, w->team);
    ls_parts parts = make_parts(b, P, 1);
    for (int p = 0; p < P; p++) parts.count[p] = 1;
    parts.most = parts.most_total = 1;
    ls_parts_find_sharers(&parts, &b->image->teams[w->team]);
    return parts;
}

/* --- tokens to heads and back ------------------------------------------------------------------------------------- */

enum { MOST_MOVES = 8 };

/* All-to-alls that are under way together. */
typedef struct moves {
    const whole *w;
    bool back;
    int n;
    ls_all_to_all under_way[MOST_MOVES];
    ls_operand *to[MOST_MOVES];
} moves;

/* `to` becomes the operand, cut the other way; or, back, what comes is copied there. What has no elements stays. */
static void move(ls_builder *b, moves *m, const char *label, ls_operand from, const ls_parts *heads, ls_operand *to) {
    if (ls_view_elements(&from.view) == 0) return;
    const ls_recut recut = {.label = label,
                            .team = m->w->team,
                            .from_dim = m->back ? 2 : 1,
                            .to_dim = m->back ? 1 : 2,
                            .from = m->back ? heads : &m->w->tokens,
                            .to = m->back ? &m->w->tokens : heads};
    m->to[m->n] = to;
    m->under_way[m->n++] = ls_all_to_all_begin(b, &recut, from);
}

static void end_moves(ls_builder *b, moves *m) {
    for (int i = 0; i < m->n; i++) {
        const ls_operand result = ls_all_to_all_finish(b, &m->under_way[i]);
        if (m->back)
            ls_build_copy(b, result, *m->to[i]);
        else
            *m->to[i] = result;
    }
    for (int i = 0; i < m->n; i++) ls_all_to_all_settle(b, &m->under_way[i]);
}

/* An operand of the kernels that has nothing, for other tokens and heads. */
static ls_operand empty_like(const whole *w, ls_operand o, ls_dtype dtype, int ndim) {
    const ls_linear_site *s = &w->site;
    return ls_operand_dense(o.buffer, o.offset, dtype, ndim,
                            ndim == 4 ? (int64_t[]){s->B, w->tokens.total, s->H, 0}
                                      : (int64_t[]){s->B, w->tokens.total, 0});
}

static whole gather(ls_builder *b, const ls_linear_site *site) {
    const ls_linear_tensors *from = &site->tensors;
    whole w = {.site = *site, .team = ls_linear_team(b)};
    const int P = ls_build_team_size(b, w.team), me = ls_build_team_place(b, w.team);
    const int64_t each = site->H / site->K, most = site->keys.most;
    w.tokens = parts_of_tokens(b, P);
    w.keys = parts_of_heads(b, &w, site->K, 1, most);
    w.values = parts_of_heads(b, &w, site->K, each, most);
    w.marks = parts_of_marks(b, &w);
    w.site.K = w.keys.count[me];
    w.site.H = w.values.count[me];
    find_stretches(b, &w);
    ls_linear_tensors *t = &w.site.tensors;
    moves m = {.w = &w};
    move(b, &m, "q to heads", from->q, &w.keys, &t->q);
    move(b, &m, "k to heads", from->k, &w.keys, &t->k);
    move(b, &m, "v to heads", from->v, &w.values, &t->v);
    move(b, &m, "decay to heads", from->decay, &w.values, &t->decay);
    move(b, &m, "beta to heads", from->beta, &w.values, &t->beta);
    move(b, &m, "places to all", from->places, &w.marks, &t->places);
    if (from->grad_o.buffer >= 0) move(b, &m, "do to heads", from->grad_o, &w.values, &t->grad_o);
    end_moves(b, &m);
    const ls_dtype G = b->image->accumulator;
    if (ls_view_elements(&from->decay.view) == 0) t->decay = empty_like(&w, t->v, G, 4);
    if (ls_view_elements(&from->beta.view) == 0) t->beta = empty_like(&w, t->v, G, 4);
    if (ls_view_elements(&from->places.view) == 0) t->places = empty_like(&w, t->v, LS_I32, 3);
    return w;
}

/* Room for results of this rank's heads, for all tokens: they go back to the tokens' ranks. */
static ls_operand room_of(ls_builder *b, const whole *w, const char *name, ls_operand like, int64_t heads) {
    int64_t size[LS_MAX_DIMS] = {w->site.B, w->tokens.total, heads, like.view.size[3]};
    if (size[3] == 0) return empty_like(w, w->site.tensors.v, like.view.dtype, 4);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, like.view.dtype, 4, size);
}

/* --- the way ------------------------------------------------------------------------------------------------------ */

static ls_operand state_at(ls_operand states, int i) { return ls_linear_single(ls_operand_slice(states, 0, i, 1)); }

static void forward(ls_builder *b, const ls_linear_way *way, ls_linear_site *site) {
    (void)way;
    whole w = gather(b, site);
    const ls_operand fronts = b->sites->fronts[site->forward] = ls_linear_states(b, &w.site, "states", w.n);
    const ls_operand state = ls_linear_single(ls_linear_states(b, &w.site, "state", 1));
    ls_build_fill(b, state);
    w.site.tensors.o = room_of(b, &w, "o", site->tensors.o, w.site.H);
    for (int i = 0; i < w.n; i++) {
        ls_build_copy(b, state, state_at(fronts, i));
        ls_linear_forward(b, &w.site, &w.site.tensors, w.stretch[i].from, w.stretch[i].count, state);
    }
    moves m = {.w = &w, .back = true};
    move(b, &m, "o to tokens", w.site.tensors.o, &w.values, &site->tensors.o);
    end_moves(b, &m);
}

/* In another program than the forward pass: by maps of the stretches. */
static ls_operand find_fronts(ls_builder *b, const whole *w) {
    const ls_operand fronts = ls_linear_states(b, &w->site, "states", w->n), map = ls_linear_maps(b, &w->site, 1);
    ls_build_fill(b, state_at(fronts, 0));
    for (int i = 0; i + 1 < w->n; i++) {
        ls_linear_map(b, &w->site, &w->site.tensors, w->stretch[i].from, w->stretch[i].count, false,
                      ls_linear_single(map));
        ls_build_copy(b, state_at(fronts, i), state_at(fronts, i + 1));
        ls_linear_follow(b, &w->site, map, false, false, state_at(fronts, i + 1));
    }
    return fronts;
}

static void backward(ls_builder *b, const ls_linear_way *way, ls_linear_site *site) {
    (void)way;
    whole w = gather(b, site);
    ls_linear_tensors *t = &w.site.tensors, *to = &site->tensors;
    const bool known = site->forward >= b->row->first_node;
    const ls_operand fronts = known ? b->sites->fronts[site->forward] : find_fronts(b, &w);
    const ls_operand behind = ls_linear_single(ls_linear_states(b, &w.site, "gradient of a state", 1));
    ls_build_fill(b, behind);
    t->dq = room_of(b, &w, "dq", to->dq, w.site.K);
    t->dk = room_of(b, &w, "dk", to->dk, w.site.K);
    t->dv = room_of(b, &w, "dv", to->dv, w.site.H);
    t->ddecay = room_of(b, &w, "ddecay", to->ddecay, w.site.H);
    t->dbeta = room_of(b, &w, "dbeta", to->dbeta, w.site.H);
    for (int i = w.n - 1; i >= 0; i--)
        ls_linear_backward(b, &w.site, t, w.stretch[i].from, w.stretch[i].count, state_at(fronts, i), behind);
    moves m = {.w = &w, .back = true};
    move(b, &m, "dq to tokens", t->dq, &w.keys, &to->dq);
    move(b, &m, "dk to tokens", t->dk, &w.keys, &to->dk);
    move(b, &m, "dv to tokens", t->dv, &w.values, &to->dv);
    move(b, &m, "ddecay to tokens", t->ddecay, &w.values, &to->ddecay);
    move(b, &m, "dbeta to tokens", t->dbeta, &w.values, &to->dbeta);
    end_moves(b, &m);
}

static ls_status applicable(const ls_linear_way *way, const ls_builder *b, const ls_linear_site *site) {
    const ls_layout *layout = &b->image->layout;
    if (site->params.unmasked)
        return ls_error(LS_UNSUPPORTED, "way %s: it is for states of the tokens before, expected a mask", way->name);
    if (site->keys.least < layout->P)
        return ls_error(LS_UNSUPPORTED, "way %s: %lld heads of keys on %d ranks, expected at least one on each",
                        way->name, (long long)site->keys.least, layout->P);
    if (b->target->canonical)
        return ls_error(LS_UNSUPPORTED,
                        "way %s: sums are canonical, and it carries states over all of a sequence; expected maps",
                        way->name);
    return ls_halo_fits(b, site->node);
}

/* Forward q, k, v and o; backward these, and the gradients of the first three. Decays and beta go with all. */
static double cost(const ls_builder *b, const ls_linear_site *site) {
    const int P = b->image->layout.P;
    const double tokens = (double)(site->B * ls_layout_most(&b->image->layout)), H = (double)site->values.most,
                 K = (double)site->keys.most, T = (double)ls_dtype_bytes(b->image->dtype),
                 G = (double)ls_dtype_bytes(b->image->accumulator),
                 gates = (double)(site->tensors.decay.view.size[3] + site->tensors.beta.view.size[3]);
    return (P - 1.0) / P * tokens * (T * (6 * K * (double)site->D + 5 * H * (double)site->E) + G * 3 * H * gates);
}

const ls_linear_way ls_linear_way_heads = {.name = "heads",
                                           .about = "an all-to-all to heads of the whole sequence, and back",
                                           .applicable = applicable,
                                           .cost = cost,
                                           .forward = forward,
                                           .backward = backward};
