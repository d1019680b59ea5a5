/*
 * Tiles: neighbouring token-wise nodes are run for one tile of tokens after the other, so that the tensors between them
 * exist for one tile only. A run of such nodes lies between two ops that mix tokens (attention, a convolution). In a
 * run only those tensors are whole that nodes outside make or read. Sums over tokens (gradients of weights, the loss)
 * are added to tile by tile. Logits, their loss and their gradient are in one run, and so is a feed-forward block
 * (Bekman et al., "Arctic long sequence training", arXiv 2506.13996, call these tiled logits and tiled MLP).
 */
#include "compile/pass.h"

#include <string.h>

/* When a node of a run is executed. */
typedef enum turn { BEFORE, IN_EACH_TILE, AFTER } turn;

/* A run: nodes first .. past - 1 of the graph. */
typedef struct run_of_tiles {
    int first, past;
    turn *turn; /* by node - first */
    ls_tiles of;
} run_of_tiles;

/* The first and the last node that touch each storage tensor. */
typedef struct touches {
    int *first, *last; /* by storage tensor; -1: none */
} touches;

static const char *const names[] = {"none", "loss", "all"};

const char *ls_tile_name(ls_tile_kind kind) { return names[kind]; }

ls_status ls_tile_parse(const char *name, ls_tile_kind *out) {
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (ls_tile_kind)i;
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--tile %s; expected auto, none, loss or all", name);
}

static bool has_factor(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    return ls_shape_has_factor(s, LS_FACTOR_BATCH) || ls_shape_has_factor(s, LS_FACTOR_SEQUENCE);
}

static int64_t rows_of(const ls_builder *b, ls_tensor t) {
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    return size[0] * size[1];
}

/* --- finding runs ------------------------------------------------------------------------------------------------- */

/*
 * Whether all tensors of the node that have tokens share one dimension of tokens. Results may also be weights, or sums
 * over the tokens.
 */
static bool is_by_tokens(const ls_graph *g, const ls_node *node) {
    ls_node_dims dims;
    ls_node_dims_find(g, node, &dims);
    bool is = false;
    for (int letter = 0; letter < dims.n; letter++) {
        bool all = ls_letter_is(g, node, &dims, letter, LS_FACTOR_BATCH) ||
                   ls_letter_is(g, node, &dims, letter, LS_FACTOR_SEQUENCE);
        for (int i = 0; i < ls_node_tensors(node) && all; i++) {
            const ls_tensor_dims *tensor = ls_node_tensor_dims(&dims, node, i);
            all = !has_factor(g, ls_node_tensor(node, i)) || ls_letter_dim(&dims, tensor, letter) >= 0;
        }
        is |= all;
    }
    return is;
}

/* The number of tokens through which the node works one by one; 0: it is not token-wise. */
static int64_t node_rows(const ls_builder *b, int n) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = &g->nodes[n];
    int64_t rows = 0;
    if (node->op->reach != LS_REACH_OWN || b->sharding->first_only[n] || !is_by_tokens(g, node)) return 0;
    if (ls_exchanged(b, n) != 0) return 0; /* its messages carry all tokens */
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_tensor t = ls_node_tensor(node, i);
        if (!has_factor(g, t)) continue;
        if (!ls_has_token_rows(g, t) || (rows != 0 && rows_of(b, t) != rows)) return 0;
        rows = rows_of(b, t);
    }
    /* A result without tokens must be a sum that is added to; else each tile would overwrite it. */
    for (int o = 0; o < node->n_out; o++) {
        if (!ls_has_token_rows(g, node->out[o]) && node->op->in_place[o] == 0) return 0;
    }
    return rows;
}

static bool is_whole(const ls_graph *g, const ls_node *node) {
    for (int i = 0; i < ls_node_tensors(node); i++) {
        if (has_factor(g, ls_node_tensor(node, i))) return false;
    }
    return node->op->reach == LS_REACH_OWN;
}

/*
 * Whether the node is a redistribution, such as the gather of a tensor that the run reads: it can be done before the
 * tiles.
 */
static bool brings(const ls_node *node) { return node->op == &ls_op_redistribute; }

/* Whether the node reads a result of a node of the run that has that turn. */
static bool reads_from(const ls_graph *g, const run_of_tiles *run, const ls_node *node, turn when) {
    for (int i = 0; i < node->n_in; i++) {
        const int from = ls_graph_tensor(g, node->in[i])->producer;
        if (from >= run->first && run->turn[from - run->first] == when) return true;
    }
    return false;
}

/* Finds the longest run that begins with `first` and ends before `limit`. */
static void extend(const ls_builder *b, run_of_tiles *run, int first, int limit) {
    const ls_graph *g = b->job->graph;
    run->first = first;
    run->past = first;
    run->of.rows = node_rows(b, first);
    for (int n = first; n < limit; n++) {
        const ls_node *node = &g->nodes[n];
        turn *when = &run->turn[n - first];
        if (node_rows(b, n) == run->of.rows && !reads_from(g, run, node, AFTER)) {
            *when = IN_EACH_TILE;
            run->past = n + 1;
        } else if (brings(node) && !reads_from(g, run, node, IN_EACH_TILE) && !reads_from(g, run, node, AFTER)) {
            *when = BEFORE;
        } else if (is_whole(g, node) && node_rows(b, n) == 0) {
            *when = reads_from(g, run, node, IN_EACH_TILE) || reads_from(g, run, node, AFTER) ? AFTER : BEFORE;
        } else {
            return;
        }
    }
}

/* Narrows the run to the nodes from the first to the last that touch a tensor of that width. */
static bool narrow(const ls_builder *b, run_of_tiles *run, int64_t width) {
    const ls_graph *g = b->job->graph;
    int first = -1, last = -1;
    for (int n = run->first; n < run->past; n++) {
        for (int i = 0; i < ls_node_tensors(&g->nodes[n]); i++) {
            const ls_tensor t = ls_node_tensor(&g->nodes[n], i);
            if (run->turn[n - run->first] != IN_EACH_TILE || !ls_has_token_rows(g, t) || ls_row_width(g, t) != width)
                continue;
            if (first < 0) first = n;
            last = n;
        }
    }
    if (first >= 0) extend(b, run, first, last + 1);
    return first >= 0;
}

/* The least and the most tokens of a token-wise node that a rank has. */
static ls_sizes rows_on_ranks(const ls_builder *b, const ls_node *node) {
    int i = 0;
    while (!has_factor(b->job->graph, ls_node_tensor(node, i))) i++;
    const ls_tensor t = ls_node_tensor(node, i);
    const ls_axes *cut = b->sharding->tensor[t.id].cut;
    const ls_sizes outer = ls_sizes_of(b, t, 0, cut[0]), inner = ls_sizes_of(b, t, 1, cut[1]);
    return (ls_sizes){outer.least * inner.least, outer.most * inner.most};
}

/*
 * Chooses the storage that exists for one tile only, and the size of a tile. False: nothing is gained. All ranks must
 * agree on whether a run is tiled: gradients leave between runs (reduce.c), and the heap must be the same everywhere.
 * Parameters in the heap are live from the first tile to the last, so a rank whose tokens would fit into one tile also
 * has two.
 */
static bool fit(const ls_builder *b, const touches *all, run_of_tiles *run) {
    const ls_graph *g = b->job->graph;
    const ls_device_tiles tiles = ls_tiles_of(b->target);
    double bytes = 0; /* bytes of one token */
    int n = 0;
    for (int k = run->first; k < run->past; k++) {
        for (int i = 0; i < g->nodes[k].n_out && run->turn[k - run->first] == IN_EACH_TILE; i++) {
            const ls_tensor t = g->nodes[k].out[i];
            const bool outside = all->first[t.id] < run->first || all->last[t.id] >= run->past;
            if (ls_graph_tensor(g, t)->storage.id != t.id || !ls_has_token_rows(g, t) || outside) continue;
            if (b->tensor[t.id].buffer >= 0) continue; /* the host reads it */
            run->of.inner[n++] = t;
            bytes += (double)ls_row_width(g, t) * (double)ls_dtype_bytes(ls_graph_tensor(g, t)->dtype);
        }
    }
    run->of.n_inner = n;
    if (b->target->canonical) return true;
    if (n == 0) return false;
    const ls_sizes on_ranks = rows_on_ranks(b, &g->nodes[run->first]);
    const int64_t rows = on_ranks.most, least = on_ranks.least;
    run->of.tile = b->target->saving.tile_rows != 0 ? b->target->saving.tile_rows : ls_tile_choose(&tiles, rows, bytes);
    if (run->of.tile >= rows || least < 2) return false;
    run->of.most = ls_min(run->of.tile, rows);
    if (ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE) != 0) { /* there, a tile's losses are exchanged */
        run->of.even = ls_min(ls_ceil_div(rows, run->of.tile), least);
        run->of.most = ls_ceil_div(rows, run->of.even);
    }
    if (run->of.tile >= run->of.rows) run->of.tile = ls_ceil_div(run->of.rows, 2);
    return true;
}

static touches find_touches(const ls_builder *b) {
    const ls_graph *g = b->job->graph;
    touches all = {LS_NEW_ARRAY(b->image->arena, int, g->n_tensors), LS_NEW_ARRAY(b->image->arena, int, g->n_tensors)};
    for (int t = 0; t < g->n_tensors; t++) all.first[t] = all.last[t] = -1;
    for (int n = b->row->first_node; n < b->row->end_node; n++) {
        for (int i = 0; i < ls_node_tensors(&g->nodes[n]); i++) {
            const int s = ls_graph_tensor(g, ls_node_tensor(&g->nodes[n], i))->storage.id;
            if (all.first[s] < 0) all.first[s] = n;
            all.last[s] = n;
        }
    }
    return all;
}

/* --- canonical sums ----------------------------------------------------------------------------------------------- */

/* The error: the bits of the node's result would depend on how many tokens this rank has. */
static ls_status refuse(const ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    return ls_error(LS_UNSUPPORTED,
                    "--sums canonical: op %s (\"%s\") has no order of sums that is the same for any number of ranks",
                    node->op->name, ls_graph_tensor(b->job->graph, node->out[0])->name);
}

/* The number of the node's inputs that have a term on each rank of a sequence: they would be summed rank by rank. */
static int count_terms(const ls_builder *b, int n) {
    const ls_axes axes = ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE);
    int terms = 0;
    for (int i = 0; i < b->job->graph->nodes[n].n_in; i++)
        terms += (b->sharding->wanted[n * LS_NODE_INPUTS + i].partial & axes) != 0;
    return terms;
}

/*
 * Whether the node may read a term of each rank: the sum of its results is then the result for the sum, to the bit. A
 * node that rounds (a scale, a cast, a sum) would round once for each rank. What is accumulated are terms of a
 * parameter's gradient, which are added in the order of all ranks' chunks (sums.c).
 */
static bool keeps_terms(const ls_node *node) { return node->op->moves || node->op == &ls_op_accumulate; }

/* Checks a node that is executed once, not in each tile. */
static ls_status check_node(const ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    const int terms = count_terms(b, n);
    const bool whole = is_whole(b->job->graph, node) && (terms == 0 || keeps_terms(node));
    return !b->target->canonical || ls_lowering_of(node->op)->ordered || whole ? ls_ok() : refuse(b, n);
}

/* Whether the tiles of a run can be chunks: its rows must be the tokens of one sequence. */
static ls_status check_run(const ls_builder *b, const run_of_tiles *run) {
    if (!b->target->canonical) return ls_ok();
    const ls_chunks mine = ls_my_chunks(b);
    const int64_t tokens = ls_chunk_start(b, mine.first + mine.n) - ls_chunk_start(b, mine.first);
    for (int n = run->first; n < run->past; n++)
        if (run->turn[n - run->first] != IN_EACH_TILE) LS_TRY(check_node(b, n));
    return run->of.rows == tokens ? ls_ok() : refuse(b, run->first);
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

/* Appends the nodes of the run that have that turn; returns their number. */
static int put_turn(const ls_builder *b, ls_program_nodes *to, const ls_program_node *nodes, const run_of_tiles *run,
                    turn when) {
    int n = 0;
    for (int i = 0; i < run->past - run->first; i++) {
        if (run->turn[i] != when) continue;
        ls_nodes_copy(b, to, &nodes[i], 1);
        to->list[to->n - 1].together = run->first;
        n++;
    }
    return n;
}

/*
 * Appends the nodes that run before the tiles, the region with the nodes that run in each tile, and the nodes that run
 * after them.
 */
static void put_run(const ls_builder *b, ls_program_nodes *to, const ls_program_node *nodes, const run_of_tiles *run) {
    ls_tiles *tiles = ls_arena_copy(b->image->arena, &run->of, sizeof run->of);
    (void)put_turn(b, to, nodes, run, BEFORE);
    ls_nodes_put(b, to, &ls_lowering_tiles, run->first, tiles);
    const int region = to->n - 1, n_body = put_turn(b, to, nodes, run, IN_EACH_TILE);
    to->list[region].n_body = n_body;
    (void)put_turn(b, to, nodes, run, AFTER);
}

/* Finds the run that begins with node n; false: none does, or it gains nothing. *past: the node after the run, or n. */
static bool find_run(const ls_builder *b, const touches *all, int n, run_of_tiles *out, int *past) {
    const ls_graph *g = b->job->graph;
    ls_arena *arena = b->image->arena;
    *past = n;
    if (node_rows(b, n) == 0) return false;
    *out = (run_of_tiles){.turn = LS_NEW_ARRAY(arena, turn, b->row->end_node - n),
                          .of.inner = LS_NEW_ARRAY(arena, ls_tensor, g->n_tensors)};
    extend(b, out, n, b->row->end_node);
    *past = out->past;
    if (b->target->saving.tile == LS_TILE_LOSS && !b->target->canonical && !narrow(b, out, ls_logits_width(g)))
        return false;
    return fit(b, all, out);
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    if (b->target->saving.tile == LS_TILE_NONE && !b->target->canonical) return ls_ok();
    const touches all = find_touches(b);
    const ls_program_node *from = nodes->list; /* one for each node of the graph, from the program's first node on */
    ls_program_nodes to = {0};
    for (int n = b->row->first_node; n < b->row->end_node;) {
        run_of_tiles found;
        int past;
        const bool tiled = find_run(b, &all, n, &found, &past);
        const int begin = tiled ? found.first : (int)ls_max(past, n + 1);
        for (; n < begin; n++) {
            LS_TRY(check_node(b, n));
            ls_nodes_copy(b, &to, &from[n - b->row->first_node], 1);
        }
        if (!tiled) continue;
        LS_TRY(check_run(b, &found));
        put_run(b, &to, &from[n - b->row->first_node], &found);
        for (n = found.past; n < past; n++) ls_nodes_copy(b, &to, &from[n - b->row->first_node], 1);
    }
    *nodes = to;
    return ls_ok();
}

const ls_pass ls_pass_tile = {
    .name = "tile", .about = "regions of nodes that run for some tokens at a time", .run = run};
