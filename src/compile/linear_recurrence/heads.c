/*
 * The way "heads": an all-to-all brings each rank some heads of the whole sequence, so that it needs no state of
 * another rank, and a second all-to-all takes the results back to the ranks of their tokens (as Ulysses does for
 * attention). Each key head goes to one rank, together with the value heads that use it.
 */
#include "compile/attention/attention.h"
#include "compile/linear_recurrence/linear_recurrence.h"

/* This rank's heads, of all tokens of the sequence. */
typedef struct whole {
    ls_linear_site site;
    ls_by_heads by;
    ls_parts keys, values;
} whole;

static whole gather(ls_builder *b, const ls_linear_site *site) {
    const ls_linear_tensors *from = &site->tensors;
    whole w = {.site = *site, .by = ls_by_heads_of(b)};
    const int me = ls_build_team_place(b, w.by.team);
    const int64_t each = site->H / site->K, most = site->keys.most;
    w.keys = ls_parts_of_heads(b, &w.by, site->K, 1, most);
    w.values = ls_parts_of_heads(b, &w.by, site->K, each, most);
    w.site.K = w.keys.count[me];
    w.site.H = w.values.count[me];
    ls_linear_tensors *t = &w.site.tensors;
    ls_moves m = {.by = &w.by};
    ls_move(b, &m, "q to heads", from->q, &w.keys, &t->q);
    ls_move(b, &m, "k to heads", from->k, &w.keys, &t->k);
    ls_move(b, &m, "v to heads", from->v, &w.values, &t->v);
    ls_move(b, &m, "decay to heads", from->decay, &w.values, &t->decay);
    ls_move(b, &m, "beta to heads", from->beta, &w.values, &t->beta);
    ls_move(b, &m, "places to all", from->places, &w.by.marks, &t->places);
    if (from->grad_o.buffer >= 0) ls_move(b, &m, "do to heads", from->grad_o, &w.values, &t->grad_o);
    ls_end_moves(b, &m);
    const ls_dtype G = b->image->accumulator;
    if (ls_view_elements(&from->decay.view) == 0) t->decay = ls_operand_nothing(t->v, G, 4);
    if (ls_view_elements(&from->beta.view) == 0) t->beta = ls_operand_nothing(t->v, G, 4);
    if (ls_view_elements(&from->places.view) == 0) t->places = ls_operand_nothing(t->v, LS_I32, 3);
    return w;
}

/* Memory for the results of this rank's heads for all tokens, before they go back to the ranks of the tokens. */
static ls_operand room_of(ls_builder *b, const whole *w, const char *name, ls_operand like, int64_t heads) {
    int64_t size[LS_MAX_DIMS] = {w->site.B, w->by.tokens.total, heads, like.view.size[3]};
    if (size[3] == 0) return ls_operand_nothing(w->site.tensors.v, like.view.dtype, 4);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, like.view.dtype, 4, size);
}

/* --- the way ------------------------------------------------------------------------------------------------------ */

static ls_operand state_at(ls_operand states, int i) { return ls_linear_single(ls_operand_slice(states, 0, i, 1)); }

static void forward(ls_builder *b, const ls_linear_way *way, ls_linear_site *site) {
    (void)way;
    whole w = gather(b, site);
    const ls_operand fronts = b->sites->fronts[site->forward] = ls_linear_states(b, &w.site, "states", w.by.n);
    const ls_operand state = ls_linear_single(ls_linear_states(b, &w.site, "state", 1));
    ls_build_fill(b, state);
    w.site.tensors.o = room_of(b, &w, "o", site->tensors.o, w.site.H);
    for (int i = 0; i < w.by.n; i++) {
        ls_build_copy(b, state, state_at(fronts, i));
        ls_linear_forward(b, &w.site, &w.site.tensors, w.by.stretch[i].from, w.by.stretch[i].count, state);
    }
    ls_linear_keep(b, site, w.values.start[ls_build_team_place(b, w.by.team)], b->image->layout.S, state);
    ls_moves m = {.by = &w.by, .back = true};
    ls_move(b, &m, "o to tokens", w.site.tensors.o, &w.values, &site->tensors.o);
    ls_end_moves(b, &m);
}

/*
 * The states in front of the stretches, where the forward pass is in another program: found from the maps of the
 * stretches.
 */
static ls_operand find_fronts(ls_builder *b, const whole *w) {
    const ls_operand fronts = ls_linear_states(b, &w->site, "states", w->by.n), map = ls_linear_maps(b, &w->site, 1);
    ls_build_fill(b, state_at(fronts, 0));
    for (int i = 0; i + 1 < w->by.n; i++) {
        ls_linear_map(b, &w->site, &w->site.tensors, w->by.stretch[i].from, w->by.stretch[i].count, false,
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
    for (int i = w.by.n - 1; i >= 0; i--)
        ls_linear_backward(b, &w.site, t, w.by.stretch[i].from, w.by.stretch[i].count, state_at(fronts, i), behind);
    ls_moves m = {.by = &w.by, .back = true};
    ls_move(b, &m, "dq to tokens", t->dq, &w.keys, &to->dq);
    ls_move(b, &m, "dk to tokens", t->dk, &w.keys, &to->dk);
    ls_move(b, &m, "dv to tokens", t->dv, &w.values, &to->dv);
    ls_move(b, &m, "ddecay to tokens", t->ddecay, &w.values, &to->ddecay);
    ls_move(b, &m, "dbeta to tokens", t->dbeta, &w.values, &to->dbeta);
    ls_end_moves(b, &m);
}

static ls_status applicable(const ls_builder *b, const void *of) {
    const ls_linear_site *site = of;
    if (site->params.unmasked)
        return ls_error(LS_UNSUPPORTED, "way heads: it is for states of the tokens before, expected a mask");
    if (b->target->canonical)
        return ls_error(LS_UNSUPPORTED,
                        "way heads: sums are canonical, and it carries states over all of a sequence; expected maps");
    return ls_by_heads_fits(b, site->node, "heads of keys", site->keys.least);
}

/*
 * Elements sent forward are those of q, k, v and o; backward, of q, k, v, do and the three gradients. Decays and beta
 * go along in both directions.
 */
static double cost(const ls_builder *b, const void *of) {
    const ls_linear_site *site = of;
    const int P = b->image->layout.P;
    const double tokens = (double)(site->B * ls_layout_most(&b->image->layout)), H = (double)site->values.most,
                 K = (double)site->keys.most, T = (double)ls_dtype_bytes(b->image->dtype),
                 G = (double)ls_dtype_bytes(b->image->accumulator),
                 gates = (double)(site->tensors.decay.view.size[3] + site->tensors.beta.view.size[3]);
    return (P - 1.0) / P * tokens * (T * (6 * K * (double)site->D + 5 * H * (double)site->E) + G * 3 * H * gates);
}

const ls_linear_way ls_linear_way_heads = {
    .way = {"heads", "an all-to-all to heads of the whole sequence, and back", applicable, cost},
    .forward = forward,
    .backward = backward};
