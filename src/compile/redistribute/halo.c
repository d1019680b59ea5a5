/*
 * Halo exchange: tokens that other ranks hold, for ops that need neighbours along the sequence. Every rank says which
 * positions it wants, as a few segments; where a segment meets a run of some rank's part, that piece is copied, or
 * packed with the others of that rank and sent in one message. Positions outside the sequence give zeros. With
 * contiguous parts a rank hears from one neighbour, with zigzag from two; nothing depends on that, so a segment may
 * also reach over several ranks.
 */
#include "compile/redistribute/redistribute.h"

#include <stdio.h>

/* Of a rank's positions; layouts with more are refused. */
enum { MOST_RUNS = 2 };

/* Positions [first, first + count). */
typedef struct segment {
    int64_t first, count;
} segment;

typedef struct wish {
    int n;
    segment at[MOST_RUNS];
} wish;

/* Tokens that rank p wants, in the order in which it wants them: its runs, each with its neighbours. */
static wish wish_of(const ls_layout *layout, const ls_neighbours *w, int p) {
    const ls_layout_run *runs;
    wish out = {.n = ls_layout_runs(layout, p, &runs)};
    for (int i = 0; i < out.n; i++)
        out.at[i] = (segment){runs[i].first - w->before, runs[i].count + w->before + w->after};
    return out;
}

static int64_t tokens_of(const wish *w) {
    int64_t n = 0;
    for (int i = 0; i < w->n; i++) n += w->at[i].count;
    return n;
}

/* Tokens from..from+count of one rank's part become tokens to..to+count of a wish. */
typedef struct piece {
    int64_t from, to, count;
} piece;

enum { MOST_PIECES = MOST_RUNS * MOST_RUNS };

typedef struct pieces {
    int n;
    int64_t tokens;
    piece at[MOST_PIECES];
} pieces;

/* What positions [first, first + count), held from `from` on, give to the wish. */
static void meet(const wish *w, int64_t first, int64_t count, int64_t from, pieces *out) {
    int64_t to = 0;
    for (int i = 0; i < w->n; i++) {
        const segment *s = &w->at[i];
        const int64_t lo = ls_max(s->first, first), hi = ls_min(s->first + s->count, first + count);
        if (lo < hi) {
            out->at[out->n++] = (piece){from + lo - first, to + lo - s->first, hi - lo};
            out->tokens += hi - lo;
        }
        to += s->count;
    }
}

/* What rank q holds of the wish. */
static pieces pieces_from(const ls_layout *layout, int q, const wish *w) {
    pieces out = {0};
    const ls_layout_run *runs;
    const int n = ls_layout_runs(layout, q, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        meet(w, runs[i].first, runs[i].count, from, &out);
        from += runs[i].count;
    }
    return out;
}

/* `o` with another number of tokens, dense in a buffer. */
static ls_operand with_tokens(ls_operand o, int buffer, int64_t tokens) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = i == 1 ? tokens : o.view.size[i];
    return ls_operand_dense(buffer, 0, o.view.dtype, o.view.ndim, size);
}

static ls_operand make_private(ls_builder *b, const char *name, ls_operand like, int64_t tokens) {
    const ls_operand shape = with_tokens(like, 0, tokens);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, like.view.dtype, like.view.ndim, shape.view.size);
}

/*
 * One message: what the peer wants of what this rank holds, or the other way. It may be nothing: then it is a signal.
 */
typedef struct message {
    int channel;
    ls_peer peer;
    pieces what;
    ls_operand slot; /* the receiver's */
} message;

static message make_message(int channel, ls_peer peer, const pieces *what, ls_operand slot) {
    return (message){channel, peer, *what, with_tokens(slot, slot.buffer, what->tokens)};
}

/* The message's tokens, one piece after the other. */
static ls_operand packed(ls_builder *b, const message *m, ls_operand x) {
    if (m->what.tokens == 0) return ls_operand_slice(x, 1, 0, 0);
    const ls_operand out = make_private(b, "halo out", x, m->what.tokens);
    int64_t at = 0;
    for (int i = 0; i < m->what.n; i++) {
        const piece *p = &m->what.at[i];
        ls_build_copy(b, ls_operand_slice(x, 1, p->from, p->count), ls_operand_slice(out, 1, at, p->count));
        at += p->count;
    }
    return out;
}

static void send(ls_builder *b, const message *m, ls_operand x) {
    ls_build_send(b, m->channel, m->peer, packed(b, m, x), m->slot);
}

static void receive(ls_builder *b, const message *m, ls_operand out) {
    ls_build_receive(b, m->channel, m->peer, m->slot);
    int64_t at = 0;
    for (int i = 0; i < m->what.n; i++) {
        const piece *p = &m->what.at[i];
        ls_build_copy(b, ls_operand_slice(m->slot, 1, at, p->count), ls_operand_slice(out, 1, p->to, p->count));
        at += p->count;
    }
}

/* The largest message over one distance in rank numbers; 0: no rank needs it. */
static int64_t largest(const ls_layout *layout, const ls_neighbours *w, int distance) {
    int64_t most = 0;
    for (int p = 0; p < layout->P; p++) {
        const wish wanted = wish_of(layout, w, p);
        most = ls_max(most, pieces_from(layout, (p - distance + layout->P) % layout->P, &wanted).tokens);
    }
    return most;
}

/* Zeros where the wish reaches beyond the sequence. */
static void clear_outside(ls_builder *b, const wish *w, ls_operand out) {
    const int64_t S = b->image->layout.S, far = INT64_MAX / 4;
    pieces outside = {0};
    meet(w, -far, far, 0, &outside);
    meet(w, S, far, 0, &outside);
    for (int i = 0; i < outside.n; i++) {
        const piece *p = &outside.at[i];
        const ls_operand zeros = make_private(b, "zeros", out, p->count);
        ls_build_fill(b, zeros);
        ls_build_copy(b, zeros, ls_operand_slice(out, 1, p->to, p->count));
    }
}

/* out [B,tokens wanted,..] from x [B,tokens held,..]. */
static void gather(ls_builder *b, const ls_neighbours *w, ls_operand x, ls_operand out) {
    const ls_layout *layout = &b->image->layout;
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const int P = ls_build_team_size(b, team);
    const int me = ls_build_team_place(b, team); /* the sequence index */
    const wish mine = wish_of(layout, w, me);
    /*
     * Channels of its own: a channel is not granted again before what came last was received, and the next exchange
     * waits for nothing.
     */
    const int number = b->n_halos++;
    message *in = LS_NEW_ARRAY(b->image->arena, message, P), *to = LS_NEW_ARRAY(b->image->arena, message, P);
    int n = 0;
    for (int j = 1; j < P; j++) {
        const int64_t most = largest(layout, w, j);
        if (most == 0) continue;
        const int from = (me - j + P) % P, target = (me + j) % P;
        const ls_operand shape = with_tokens(x, 0, most);
        const ls_operand slot = ls_build_symmetric(b, LS_BUFFER_SLOT, "halo in", ls_view_elements(&shape.view),
                                                   x.view.dtype, x.view.ndim, shape.view.size);
        const int channel = ls_build_channel(b, "halo.%d.%d", number, j);
        const wish theirs = wish_of(layout, w, target);
        const pieces gives = pieces_from(layout, me, &theirs), takes = pieces_from(layout, from, &mine);
        in[n] = make_message(channel, ls_build_peer(b, team, -j), &takes, slot);
        to[n++] = make_message(channel, ls_build_peer(b, team, j), &gives, slot);
    }
    for (int i = 0; i < n; i++) ls_build_grant(b, in[i].channel, in[i].peer, in[i].slot);
    for (int i = 0; i < n; i++) send(b, &to[i], x);
    const pieces own = pieces_from(layout, me, &mine);
    for (int i = 0; i < own.n; i++)
        ls_build_copy(b, ls_operand_slice(x, 1, own.at[i].from, own.at[i].count),
                      ls_operand_slice(out, 1, own.at[i].to, own.at[i].count));
    clear_outside(b, &mine, out);
    for (int i = 0; i < n; i++) receive(b, &in[i], out);
}

/*
 * Whether neighbours in the sequence are neighbours in a rank's part; if not, the error says what and why. Layouts that
 * follow masks may come out with a run or two for each rank, and are then as good as any.
 */
static bool refused(ls_builder *b, const ls_node *node) {
    const ls_layout *layout = &b->image->layout;
    const bool striped = layout->P > 1 && layout->kind == LS_LAYOUT_STRIPED;
    const int runs = ls_layout_most_runs(layout);
    if (!striped && runs <= MOST_RUNS) return false;
    char why[128] = "where no token's neighbour lies on its own rank";
    if (!striped) snprintf(why, sizeof why, "which cuts a rank's part into %d runs of neighbours", runs);
    ls_build_fail(b, ls_error(LS_UNSUPPORTED,
                              "op %s \"%s\": the layout is %s, %s, so %s of \"%s\" would have to move; "
                              "expected contiguous or zigzag",
                              node->op->name, ls_graph_tensor(b->job->graph, node->out[0])->name,
                              ls_layout_name(layout->kind), why, striped ? "all" : "too much",
                              ls_graph_tensor(b->job->graph, node->in[0])->name));
    return true;
}

/* The tensor's tokens from..from+count of a run, if it has tokens. */
static ls_operand tokens_at(const ls_builder *b, ls_tensor t, ls_operand o, int64_t from, int64_t count) {
    const bool has = ls_shape_has_factor(&ls_graph_tensor(b->job->graph, t)->shape, LS_FACTOR_SEQUENCE);
    return has ? ls_operand_slice(o, 1, from, count) : o;
}

/*
 * One call of the op's kernel for each run: on input 0 with its neighbours, and on the run's part of everything else.
 */
static void call_by_runs(ls_builder *b, int n, const ls_neighbours *around, ls_operand x) {
    const ls_node *node = &b->job->graph->nodes[n];
    const int me = ls_mesh_sequence_index(&b->target->mesh, b->target->rank);
    const wish wanted = wish_of(&b->image->layout, around, me);
    ls_operand in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    ls_tensor of[LS_NODE_INPUTS]; /* the tensors of `in` */
    int n_in = 0;
    for (int i = 0; i < node->n_in; i++) {
        if (ls_op_writes_input(node->op, i)) continue;
        of[n_in] = node->in[i];
        in[n_in++] = i == 0 ? x : ls_lower_input(b, n, i);
    }
    for (int o = 0; o < node->n_out; o++) out[o] = ls_lower_tensor(b, node->out[o]);
    const ls_operand wide = make_private(b, "tokens and neighbours", x, tokens_of(&wanted));
    gather(b, around, x, wide);
    int64_t at = 0, from = 0;
    for (int r = 0; r < wanted.n; r++) {
        const int64_t all = wanted.at[r].count, count = all - around->before - around->after;
        ls_kernel_build call = {.op = node->op->name,
                                .kernel = node->op->kernel,
                                .dtype = b->image->dtype,
                                .params = node->params,
                                .params_bytes = node->params_bytes,
                                .n_in = n_in,
                                .n_out = node->n_out,
                                .in = {ls_operand_slice(wide, 1, from, all)}};
        for (int i = 1; i < n_in; i++) call.in[i] = tokens_at(b, of[i], in[i], at, count);
        for (int o = 0; o < node->n_out; o++) call.out[o] = tokens_at(b, node->out[o], out[o], at, count);
        call.flops = ls_lower_flops(node->op, &call);
        ls_build_kernel(b, &call);
        at += count;
        from += all;
    }
}

static void lower(ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    if (refused(b, node)) return;
    const ls_neighbours around = node->op->neighbours(b->job->graph, node);
    const ls_operand x = ls_lower_input(b, n, 0);
    if (node->op->kernel == LS_KERNEL_NONE)
        gather(b, &around, x, ls_lower_tensor(b, node->out[0]));
    else
        call_by_runs(b, n, &around, x);
}

/* Who holds a rank's neighbours depends on where its runs begin and end. */
static bool tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh) {
    return (void)graph, (void)node, (void)mesh, true;
}

const ls_lowering ls_lowering_shift = {.lower = lower, .tells_apart = tells_apart},
                  ls_lowering_conv = {.lower = lower, .tells_apart = tells_apart},
                  ls_lowering_conv_dw = {.lower = lower, .tells_apart = tells_apart};
