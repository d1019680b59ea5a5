/*
 * Halo exchange: brings tokens that other ranks hold, for ops that need neighbours along the sequence. Every rank wants
 * some segments of positions. Where a segment overlaps a run that some rank holds, the overlapping piece is copied, or
 * packed with the other pieces from that rank and sent in one message. Positions outside the sequence give zeros. With
 * contiguous parts a rank receives from one neighbour, with zigzag from two; but a segment may also extend over several
 * ranks.
 */
#include "compile/redistribute/redistribute.h"

#include <stdio.h>
#include <stdlib.h>

/* The most runs that a rank may have: each run is a call of a kernel. */
enum { MOST_RUNS = 64 };

/* The tokens that a rank wants, in this order: those of its runs, each run together with its neighbours. */
typedef struct wish {
    int n;
    const ls_layout_run *runs;
    ls_neighbours around;
} wish;

static wish wish_of(const ls_layout *layout, const ls_neighbours *w, int p) {
    wish out = {.around = *w};
    out.n = ls_layout_runs(layout, p, &out.runs);
    return out;
}

/* The first position and the number of tokens of run i together with its neighbours. */
static int64_t first_of(const wish *w, int i) { return w->runs[i].first - w->around.before; }
static int64_t count_of(const wish *w, int i) { return w->runs[i].count + w->around.before + w->around.after; }

static int64_t tokens_of(const wish *w) {
    int64_t n = 0;
    for (int i = 0; i < w->n; i++) n += count_of(w, i);
    return n;
}

/* Tokens from .. from + count - 1 of a rank's part become tokens to .. to + count - 1 of a wish. */
typedef struct piece {
    int64_t from, to, count;
} piece;

typedef struct ls_halo_pieces {
    ls_arena *arena;
    int64_t tokens;
    piece *at;
    int n;
    size_t capacity;
} pieces;

/*
 * Adds the pieces of the wish that lie at positions first .. first + count - 1, whose tokens begin at `from` in the
 * part of the rank that holds them.
 */
static void meet(const wish *w, int64_t first, int64_t count, int64_t from, pieces *out) {
    int64_t to = 0;
    for (int i = 0; i < w->n; to += count_of(w, i++)) {
        const int64_t begin = first_of(w, i), lo = ls_max(begin, first),
                      hi = ls_min(begin + count_of(w, i), first + count);
        if (lo >= hi) continue;
        out->tokens += hi - lo;
        *LS_PUSH(out->arena, out->at, out->n, out->capacity) = (piece){from + lo - first, to + lo - begin, hi - lo};
    }
}

/* The pieces of the wish that rank q holds. */
static pieces pieces_from(ls_arena *arena, const ls_layout *layout, int q, const wish *w) {
    pieces out = {.arena = arena};
    const ls_layout_run *runs;
    const int n = ls_layout_runs(layout, q, &runs);
    int64_t from = 0;
    for (int i = 0; i < n; i++) {
        meet(w, runs[i].first, runs[i].count, from, &out);
        from += runs[i].count;
    }
    return out;
}

/* The shape of `o` with another number of tokens, dense at the start of a buffer. */
static ls_operand with_tokens(ls_operand o, int buffer, int64_t tokens) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = i == 1 ? tokens : o.view.size[i];
    return ls_operand_dense(buffer, 0, o.view.dtype, o.view.ndim, size);
}

static ls_operand make_private(ls_builder *b, const char *name, ls_operand like, int64_t tokens) {
    const ls_operand shape = with_tokens(like, 0, tokens);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, like.view.dtype, like.view.ndim, shape.view.size);
}

/* The pieces of x that the peer wants, one after the other. */
static ls_operand packed(ls_builder *b, const pieces *gives, ls_operand x) {
    if (gives->tokens == 0) return ls_operand_slice(x, 1, 0, 0);
    const ls_operand out = make_private(b, "halo out", x, gives->tokens);
    int64_t at = 0;
    for (int i = 0; i < gives->n; i++) {
        const piece *p = &gives->at[i];
        ls_build_copy(b, ls_operand_slice(x, 1, p->from, p->count), ls_operand_slice(out, 1, at, p->count));
        at += p->count;
    }
    return out;
}

/* Copies the received pieces to their places in `out`. */
static void unpack(ls_builder *b, const pieces *takes, ls_operand slot, ls_operand out) {
    int64_t at = 0;
    for (int i = 0; i < takes->n; i++) {
        const piece *p = &takes->at[i];
        ls_build_copy(b, ls_operand_slice(slot, 1, at, p->count), ls_operand_slice(out, 1, p->to, p->count));
        at += p->count;
    }
}

/* A run of positions, and the rank that holds it. */
typedef struct held_run {
    ls_layout_run run;
    int rank;
} held_run;

static int compare_runs(const void *a, const void *b) {
    const int64_t x = ((const held_run *)a)->run.first, y = ((const held_run *)b)->run.first;
    return (x > y) - (x < y);
}

/* The runs of all ranks, in the order of their positions. */
static held_run *all_runs(ls_arena *arena, const ls_layout *layout, int *n) {
    held_run *all = NULL;
    size_t capacity = 0;
    *n = 0;
    for (int p = 0; p < layout->P; p++) {
        const ls_layout_run *runs;
        const int count = ls_layout_runs(layout, p, &runs);
        for (int i = 0; i < count; i++) *LS_PUSH(arena, all, *n, capacity) = (held_run){runs[i], p};
    }
    LS_ASSERT(all != NULL); /* the layout has positions */
    qsort(all, (size_t)*n, sizeof *all, compare_runs);
    return all;
}

/* The first run that ends behind the position; n: none does. */
static int run_behind(const held_run *all, int n, int64_t position) {
    int low = 0, high = n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (all[middle].run.first + all[middle].run.count > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* By distance between ranks: the tokens of the largest message, of that to rank `to`, and which rank that is. */
typedef struct messages {
    int64_t *most, *tokens;
    int *to;
} messages;

/* Adds up what rank p wants of each other rank. */
static void add_wish(const held_run *all, int n, const ls_layout *layout, const wish *w, int p, messages *out) {
    for (int i = 0; i < w->n; i++) {
        const int64_t begin = first_of(w, i), end = begin + count_of(w, i);
        for (int k = run_behind(all, n, begin); k < n && all[k].run.first < end; k++) {
            const ls_layout_run *run = &all[k].run;
            const int distance = (p - all[k].rank + layout->P) % layout->P;
            if (out->to[distance] != p) out->tokens[distance] = 0;
            out->to[distance] = p;
            out->tokens[distance] += ls_min(end, run->first + run->count) - ls_max(begin, run->first);
            out->most[distance] = ls_max(out->most[distance], out->tokens[distance]);
        }
    }
}

/*
 * By distance: the tokens of the largest message from a rank to the one so much behind it; 0: there is none. It takes
 * a time in proportion to the runs of all ranks, and the logarithm of their number.
 */
static int64_t *largest(ls_arena *arena, const ls_layout *layout, const ls_neighbours *w) {
    ls_arena *passing = ls_arena_create();
    int n;
    const held_run *all = all_runs(passing, layout, &n);
    messages out = {LS_NEW_ARRAY(arena, int64_t, layout->P), LS_NEW_ARRAY(passing, int64_t, layout->P),
                    LS_NEW_ARRAY(passing, int, layout->P)};
    for (int p = 0; p < layout->P; p++) {
        const wish wanted = wish_of(layout, w, p);
        add_wish(all, n, layout, &wanted, p, &out);
    }
    ls_arena_destroy(passing);
    return out.most;
}

/* Writes zeros where the wish extends beyond the sequence. */
static void clear_outside(ls_builder *b, const wish *w, ls_operand out) {
    const int64_t S = b->image->layout.S, far = INT64_MAX / 4;
    pieces outside = {.arena = b->image->arena};
    meet(w, -far, far, 0, &outside);
    meet(w, S, far, 0, &outside);
    for (int i = 0; i < outside.n; i++) {
        const piece *p = &outside.at[i];
        const ls_operand zeros = make_private(b, "zeros", out, p->count);
        ls_build_fill(b, zeros);
        ls_build_copy(b, zeros, ls_operand_slice(out, 1, p->to, p->count));
    }
}

int64_t ls_halo_tokens(const ls_builder *b, const ls_neighbours *around) {
    const ls_layout layout = ls_runs_of(b);
    const wish mine = wish_of(&layout, around, ls_mesh_sequence_index(&b->target->mesh, b->target->rank));
    return tokens_of(&mine);
}

/*
 * Each exchange has its own channels: a channel may be granted again only after the last message on it was received, so
 * with shared channels the next exchange would have to wait.
 */
ls_halo ls_halo_begin(ls_builder *b, const ls_neighbours *w, ls_operand x, ls_operand out) {
    const ls_layout made = ls_runs_of(b), *layout = &made;
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const int P = ls_build_team_size(b, team), number = b->channels.n_halos++;
    const int me = ls_build_team_place(b, team); /* also the rank's index in the sequence */
    const wish mine = wish_of(layout, w, me);
    pieces *takes = LS_NEW_ARRAY(b->image->arena, pieces, P), *gives = LS_NEW_ARRAY(b->image->arena, pieces, P);
    ls_halo h = {.out = out, .messages = ls_messages_make(b, P - 1), .takes = takes};
    h.messages.n = 0;
    const int64_t *most = largest(b->image->arena, layout, w);
    for (int j = 1; j < P; j++) {
        if (most[j] == 0) continue;
        const int n = h.messages.n++, target = (me + j) % P;
        const ls_operand shape = with_tokens(x, 0, most[j]);
        const ls_operand slot = ls_build_symmetric(b, LS_BUFFER_SLOT, "halo in", ls_view_elements(&shape.view),
                                                   x.view.dtype, x.view.ndim, shape.view.size);
        const wish theirs = wish_of(layout, w, target);
        gives[n] = pieces_from(b->image->arena, layout, me, &theirs);
        takes[n] = pieces_from(b->image->arena, layout, (me - j + P) % P, &mine);
        h.messages.pair[n] = (ls_message_pair){.channel = ls_build_channel(b, "halo.%d.%d", number, j),
                                               .receiver = ls_build_peer(b, team, j),
                                               .sender = ls_build_peer(b, team, -j),
                                               .to = with_tokens(slot, slot.buffer, gives[n].tokens),
                                               .land = with_tokens(slot, slot.buffer, takes[n].tokens)};
    }
    ls_messages_grant(b, &h.messages);
    for (int i = 0; i < h.messages.n; i++) h.messages.pair[i].from = packed(b, &gives[i], x);
    ls_messages_send(b, &h.messages);
    const pieces own = pieces_from(b->image->arena, layout, me, &mine);
    for (int i = 0; i < own.n; i++)
        ls_build_copy(b, ls_operand_slice(x, 1, own.at[i].from, own.at[i].count),
                      ls_operand_slice(out, 1, own.at[i].to, own.at[i].count));
    clear_outside(b, &mine, out);
    return h;
}

void ls_halo_finish(ls_builder *b, const ls_halo *h) {
    ls_messages_receive(b, &h->messages);
    for (int i = 0; i < h->messages.n; i++) unpack(b, &h->takes[i], h->messages.pair[i].land, h->out);
}

/* Checks the layout, not the chunks of canonical sums: canonical sums need the contiguous layout. */
ls_status ls_halo_fits(const ls_builder *b, const ls_node *node) {
    const ls_layout *layout = &b->image->layout;
    const bool striped = layout->P > 1 && layout->kind == LS_LAYOUT_STRIPED;
    const int runs = ls_layout_most_runs(layout);
    if (!striped && runs <= MOST_RUNS) return ls_ok();
    const char *name = ls_graph_tensor(b->job->graph, node->out[0])->name;
    if (!striped)
        return ls_error(LS_UNSUPPORTED,
                        "op %s \"%s\": the layout is %s, which cuts a rank's part into %d runs of neighbours, each of "
                        "which is a call; expected at most %d, as contiguous and zigzag have",
                        node->op->name, name, ls_layout_name(layout->kind), runs, MOST_RUNS);
    return ls_error(LS_UNSUPPORTED,
                    "op %s \"%s\": the layout is striped, where no token's neighbour lies on its own rank, so all of "
                    "\"%s\" would have to move; expected another layout",
                    node->op->name, name, ls_graph_tensor(b->job->graph, node->in[0])->name);
}

bool ls_halo_can(ls_builder *b, const ls_node *node) {
    const ls_status fits = ls_halo_fits(b, node);
    if (fits.code != LS_OK) ls_build_fail(b, fits);
    return fits.code == LS_OK;
}
