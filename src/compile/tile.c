/*
 * Tiles: nodes that work token by token are run for some tokens after the other, so that what they hand to each other
 * exists for one tile only. A run of such nodes lies between two ops that mix tokens (attention, a convolution); of the
 * tensors in it only those that somebody outside makes or reads are whole. Sums over tokens (gradients of weights, the
 * loss) are added to tile by tile. Logits, their loss and their gradient are in one such run, and so is a feed-forward
 * block (Bekman et al., "Arctic long sequence training", arXiv 2506.13996, call these tiled logits and tiled MLP).
 */
#include "compile/compile_impl.h"

#include <math.h>
#include <string.h>

/*
 * Where the user has not said how many tokens a tile has: no more tiles than a few, for of what is whole there is much
 * more by then, and each tile adds to all weights' gradients. Of thousands of tokens that takes little beside the
 * tile's products, so longer tiles are not made for it.
 */
enum { LEAST_TILE = 64, MOST_TILES = 24, PLENTY = 8192 };

/* A sum over tokens to which a run adds, where that is made chunk by chunk. */
typedef struct tile_sum {
    ls_tensor storage;
    ls_operand place; /* where the sum lies while no run adds to it */
    ls_chunk_sum sum;
} tile_sum;

/* When a node of a run is lowered. */
typedef enum turn { BEFORE, IN_EACH_TILE, AFTER } turn;

struct ls_tile_run {
    int first, past;    /* nodes */
    turn *turn;         /* by node - first */
    int64_t rows, tile; /* tokens of this rank; of one tile but the last */
    ls_tensor *inner;   /* storage that exists for one tile only */
    int n_inner;
    int64_t start, count; /* the tile at work */
    tile_sum *sums;       /* of canonical sums: what the run adds to */
    int n_sums;
    size_t sum_capacity;
};

/* Which nodes touch a storage tensor: from the first to the last. */
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

/* Batch and sequence first: so that tokens are rows of memory. */
static bool has_rows(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    return s->ndim >= 2 && s->dim[0].factor == LS_FACTOR_BATCH && s->dim[1].factor == LS_FACTOR_SEQUENCE;
}

static int64_t rows_of(const ls_builder *b, ls_tensor t) {
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    return size[0] * size[1];
}

/* Elements of one token. */
static int64_t width_of(const ls_graph *g, ls_tensor t) {
    const ls_shape *s = &ls_graph_tensor(g, t)->shape;
    int64_t n = 1;
    for (int i = 2; i < s->ndim; i++) n *= s->dim[i].size;
    return n;
}

/* --- finding runs ------------------------------------------------------------------------------------------------- */

/* Whether one dimension of tokens is in all that has tokens. What is made of them may also be weights, or their sum. */
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

/* Tokens that the node works through one by one; 0: it does not. */
static int64_t node_rows(const ls_builder *b, int n) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = &g->nodes[n];
    int64_t rows = 0;
    if (node->op->reach != LS_REACH_OWN || b->sharding->first_only[n] || !is_by_tokens(g, node)) return 0;
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_tensor t = ls_node_tensor(node, i);
        if (!has_factor(g, t)) continue;
        if (!has_rows(g, t) || (rows != 0 && rows_of(b, t) != rows)) return 0;
        rows = rows_of(b, t);
    }
    /* A whole result must be a sum that is added to, else each tile would make it anew. */
    for (int o = 0; o < node->n_out; o++) {
        if (!has_rows(g, node->out[o]) && node->op->in_place[o] == 0) return 0;
    }
    return rows;
}

static bool is_whole(const ls_graph *g, const ls_node *node) {
    for (int i = 0; i < ls_node_tensors(node); i++) {
        if (has_factor(g, ls_node_tensor(node, i))) return false;
    }
    return node->op->reach == LS_REACH_OWN;
}

/* Whether the node reads what one of the run makes at that turn. */
static bool reads_from(const ls_graph *g, const ls_tile_run *run, const ls_node *node, turn when) {
    for (int i = 0; i < node->n_in; i++) {
        const int from = ls_graph_tensor(g, node->in[i])->producer;
        if (from >= run->first && run->turn[from - run->first] == when) return true;
    }
    return false;
}

/* The longest run from `first` on and before `limit`. */
static void extend(const ls_builder *b, ls_tile_run *run, int first, int limit) {
    const ls_graph *g = b->job->graph;
    run->first = first;
    run->past = first;
    run->rows = node_rows(b, first);
    for (int n = first; n < limit; n++) {
        const ls_node *node = &g->nodes[n];
        turn *when = &run->turn[n - first];
        if (node_rows(b, n) == run->rows && !reads_from(g, run, node, AFTER)) {
            *when = IN_EACH_TILE;
            run->past = n + 1;
        } else if (is_whole(g, node) && node_rows(b, n) == 0) {
            *when = reads_from(g, run, node, IN_EACH_TILE) || reads_from(g, run, node, AFTER) ? AFTER : BEFORE;
        } else {
            return;
        }
    }
}

int64_t ls_logits_width(const ls_graph *g) {
    int64_t width = 0;
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        bool reduces = node->op->reach == LS_REACH_OWN && node->n_in > 0 && has_rows(g, node->in[0]);
        for (int o = 0; o < node->n_out && reduces; o++)
            reduces = has_rows(g, node->out[o]) && width_of(g, node->out[o]) == 1;
        if (reduces) width = ls_max(width, width_of(g, node->in[0]));
    }
    return width;
}

/* Narrows the run to the nodes between the first and the last that touch a tensor of that width. */
static bool narrow(const ls_builder *b, ls_tile_run *run, int64_t width) {
    const ls_graph *g = b->job->graph;
    int first = -1, last = -1;
    for (int n = run->first; n < run->past; n++) {
        for (int i = 0; i < ls_node_tensors(&g->nodes[n]); i++) {
            const ls_tensor t = ls_node_tensor(&g->nodes[n], i);
            if (run->turn[n - run->first] != IN_EACH_TILE || !has_rows(g, t) || width_of(g, t) != width) continue;
            if (first < 0) first = n;
            last = n;
        }
    }
    if (first >= 0) extend(b, run, first, last + 1);
    return first >= 0;
}

/* As rows, for a rank that holds so many tokens of the sequence. Rows need not be those of the whole sequence. */
static int64_t rows_with(const ls_builder *b, int64_t rows, int64_t tokens) {
    const int64_t mine = ls_layout_count(&b->image->layout, ls_mesh_sequence_index(&b->target->mesh, b->target->rank));
    return ls_ceil_div(rows * tokens, mine);
}

int64_t ls_tile_choose(const ls_device_tiles *of, int64_t rows, double bytes) {
    const int64_t room = (int64_t)fmin(of->bytes / bytes, (double)of->most),
                  most = ls_max(LEAST_TILE, ls_max(ls_min(rows / MOST_TILES, PLENTY), room));
    return (int64_t)ls_round_up((size_t)ls_ceil_div(rows, ls_ceil_div(rows, most)), (size_t)of->unit);
}

/*
 * Chooses the storage that exists for one tile only, and the tile. False: nothing is gained.
 * Whether a run is tiled must be the same on all ranks: gradients leave between runs (buckets.c), and the heap is alike
 * everywhere. Parameters that lie there are live from the first tile to the last, so a rank whose tokens would fit into
 * one tile has two as well.
 */
static bool fit(const ls_builder *b, const touches *all, ls_tile_run *run) {
    const ls_graph *g = b->job->graph;
    double bytes = 0; /* of one token */
    int n = 0;
    for (int k = run->first; k < run->past; k++) {
        for (int i = 0; i < g->nodes[k].n_out; i++) {
            const ls_tensor t = g->nodes[k].out[i];
            const bool outside = all->first[t.id] < run->first || all->last[t.id] >= run->past;
            if (ls_graph_tensor(g, t)->storage.id != t.id || !has_rows(g, t) || outside) continue;
            if (b->tensor[t.id].buffer >= 0) continue; /* the host reads it */
            run->inner[n++] = t;
            bytes += (double)width_of(g, t) * (double)ls_dtype_bytes(ls_graph_tensor(g, t)->dtype);
        }
    }
    run->n_inner = n;
    if (b->target->canonical) return true;
    if (n == 0) return false;
    const ls_layout *layout = &b->image->layout;
    const int64_t rows = rows_with(b, run->rows, ls_layout_most(layout)),
                  least = rows_with(b, run->rows, layout->S / layout->P);
    run->tile = b->target->saving.tile_rows != 0 ? b->target->saving.tile_rows : ls_tile_choose(&b->tiles, rows, bytes);
    if (run->tile >= rows || least < 2) return false;
    if (run->tile >= run->rows) run->tile = ls_ceil_div(run->rows, 2);
    return true;
}

static touches find_touches(const ls_builder *b) {
    const ls_graph *g = b->job->graph;
    touches all = {LS_NEW_ARRAY(b->image->arena, int, g->n_tensors), LS_NEW_ARRAY(b->image->arena, int, g->n_tensors)};
    for (int t = 0; t < g->n_tensors; t++) all.first[t] = all.last[t] = -1;
    for (int n = b->row->first_node; n < b->end_node; n++) {
        for (int i = 0; i < ls_node_tensors(&g->nodes[n]); i++) {
            const int s = ls_graph_tensor(g, ls_node_tensor(&g->nodes[n], i))->storage.id;
            if (all.first[s] < 0) all.first[s] = n;
            all.last[s] = n;
        }
    }
    return all;
}

void ls_tile_find(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    ls_arena *arena = b->image->arena;
    b->runs = LS_NEW_ARRAY(arena, ls_tile_run *, b->end_node + 1);
    b->run = NULL;
    const bool canonical = b->target->canonical;
    if (b->target->saving.tile == LS_TILE_NONE && !canonical) return;
    const touches all = find_touches(b);
    const int64_t width = ls_logits_width(g);
    for (int n = b->row->first_node; n < b->end_node;) {
        if (node_rows(b, n) == 0) {
            n++;
            continue;
        }
        ls_tile_run *run = LS_NEW(arena, ls_tile_run);
        run->turn = LS_NEW_ARRAY(arena, turn, b->end_node - n);
        run->inner = LS_NEW_ARRAY(arena, ls_tensor, g->n_tensors);
        extend(b, run, n, b->end_node);
        n = run->past;
        if (b->target->saving.tile == LS_TILE_LOSS && !canonical && !narrow(b, run, width)) continue;
        if (fit(b, &all, run)) b->runs[run->first] = run;
    }
}

/* --- lowering a run ----------------------------------------------------------------------------------------------- */

bool ls_tile_is_inner(const ls_builder *b, ls_tensor storage) {
    for (int i = 0; b->run != NULL && i < b->run->n_inner; i++) {
        if (b->run->inner[i].id == storage.id) return true;
    }
    return false;
}

/* The tensor's tokens of the tile at work, wherever it lies. */
ls_operand ls_tile_view(const ls_builder *b, ls_tensor t, ls_operand whole) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    if (!has_rows(b->job->graph, t)) return whole;
    const bool inner = ls_tile_is_inner(b, info->storage);
    const size_t row = (size_t)width_of(b->job->graph, t) * ls_dtype_bytes(info->dtype);
    int64_t size[LS_MAX_DIMS] = {b->run->count};
    for (int i = 2; i < info->shape.ndim; i++) size[i - 1] = info->shape.dim[i].size;
    return ls_operand_dense(whole.buffer, whole.offset + (inner ? 0 : (size_t)b->run->start * row), info->dtype,
                            info->shape.ndim - 1, size);
}

int64_t ls_tile_rows(const ls_builder *b) { return b->run->count; }

static void lower_turn(ls_builder *b, const ls_tile_run *run, turn when) {
    for (int n = run->first; n < run->past; n++) {
        if (run->turn[n - run->first] == when) ls_lower_node(b, n);
    }
}

/* The tile from run->start on, of run->count tokens. */
static void lower_tile(ls_builder *b, ls_tile_run *run) {
    b->run = run;
    lower_turn(b, run, IN_EACH_TILE);
    b->run = NULL;
    for (int i = 0; i < run->n_inner; i++) b->tensor[run->inner[i].id] = (ls_operand){.buffer = -1};
}

/* --- canonical sums: tiles are chunks ----------------------------------------------------------------------------- */

static ls_chunks my_chunks(const ls_builder *b) {
    const ls_mesh *mesh = &b->target->mesh;
    return ls_chunks_of(b, ls_mesh_sequence_index(mesh, b->target->rank), ls_mesh_sequence_ranks(mesh));
}

/* Finds what the run adds to. A gradient is made where it leaves from, and the loss besides its place. */
static void begin_sums(ls_builder *b, ls_tile_run *run) {
    const ls_graph *g = b->job->graph;
    const ls_chunks chunks = my_chunks(b);
    for (int n = run->first; n < run->past; n++) {
        const ls_node *node = &g->nodes[n];
        for (int o = 0; o < node->n_out && run->turn[n - run->first] == IN_EACH_TILE; o++) {
            const ls_tensor storage = ls_graph_tensor(g, node->out[o])->storage;
            bool known = has_rows(g, storage);
            for (int i = 0; i < run->n_sums; i++) known |= run->sums[i].storage.id == storage.id;
            if (known) continue;
            const ls_operand place = ls_lower_tensor(b, storage);
            const ls_operand made = b->flat_of[storage.id] >= 0
                                        ? b->tensor[storage.id]
                                        : ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over tokens", place.view.dtype,
                                                           place.view.ndim, place.view.size);
            *LS_PUSH(b->image->arena, run->sums, run->n_sums, run->sum_capacity) =
                (tile_sum){storage, place, ls_chunk_sum_begin(b, "sum over some chunks", made, 0, chunks.n)};
        }
    }
}

/* From here on the run adds to what is made of this chunk, of which there is nothing yet. */
static void begin_chunk(ls_builder *b, const ls_tile_run *run, int chunk) {
    for (int i = 0; i < run->n_sums; i++) {
        const tile_sum *s = &run->sums[i];
        const int flat = b->flat_of[s->storage.id];
        b->tensor[s->storage.id] = ls_chunk_sum_addend(&s->sum, chunk);
        if (flat >= 0)
            b->begun[flat] = false;
        else
            ls_build_fill(b, b->tensor[s->storage.id]);
    }
}

static void end_chunk(ls_builder *b, const ls_tile_run *run, int chunk) {
    for (int i = 0; i < run->n_sums; i++) {
        const tile_sum *s = &run->sums[i];
        const ls_operand addend = b->tensor[s->storage.id];
        if (b->flat_of[s->storage.id] < 0) ls_totals_add_loss(b, addend);
        ls_chunk_sum_add(b, &s->sum, chunk, 0, addend.view.size[0]);
    }
}

static void end_sums(ls_builder *b, ls_tile_run *run) {
    for (int i = 0; i < run->n_sums; i++) {
        const tile_sum *s = &run->sums[i];
        const bool gradient = b->flat_of[s->storage.id] >= 0;
        b->tensor[s->storage.id] = s->place;
        if (gradient)
            b->tensor[s->storage.id].buffer = -1; /* what another run adds lies elsewhere */
        else
            ls_build_accumulate(b, ls_chunk_sum_addend(&s->sum, 0), s->place);
    }
    run->n_sums = 0;
}

/* What the node makes would depend on how many tokens are here. */
static void refuse(ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    ls_build_fail(b, ls_error(LS_UNSUPPORTED,
                              "--sums canonical: op %s (\"%s\") has no order of sums that is the same for any number "
                              "of ranks",
                              node->op->name, ls_graph_tensor(b->job->graph, node->out[0])->name));
}

/* The run's rows are the tokens of one sequence. */
static void lower_chunks(ls_builder *b, ls_tile_run *run) {
    const ls_chunks chunks = my_chunks(b);
    const int64_t begin = ls_chunk_start(b, chunks.first);
    if (run->rows != ls_chunk_start(b, chunks.first + chunks.n) - begin) {
        refuse(b, run->first);
        return;
    }
    begin_sums(b, run);
    for (int i = 0; i < chunks.n; i++) {
        run->start = ls_chunk_start(b, chunks.first + i) - begin;
        run->count = ls_chunk_start(b, chunks.first + i + 1) - begin - run->start;
        begin_chunk(b, run, i);
        lower_tile(b, run);
        end_chunk(b, run, i);
    }
    end_sums(b, run);
}

int ls_tile_past(const ls_builder *b, int n) { return b->runs[n] != NULL ? b->runs[n]->past : n + 1; }

int ls_tile_unit(const ls_builder *b, int n) { return b->target->canonical ? ls_tile_past(b, n) : b->end_node; }

/* A node that is in no run. */
static void check_node(ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_lowering *lowering = ls_lowering_of(node->op);
    if (b->target->canonical && !lowering->ordered && !is_whole(b->job->graph, node)) refuse(b, n);
}

/* Lowers the run that begins at node n, tile by tile; returns the node after it, or n when none begins there. */
int ls_tile_lower(ls_builder *b, int n) {
    ls_tile_run *run = b->runs[n];
    if (run == NULL) {
        check_node(b, n);
        return n;
    }
    lower_turn(b, run, BEFORE);
    if (b->target->canonical) {
        lower_chunks(b, run);
    } else {
        for (run->start = 0; run->start < run->rows; run->start += run->tile) {
            run->count = ls_min(run->tile, run->rows - run->start);
            lower_tile(b, run);
        }
    }
    lower_turn(b, run, AFTER);
    return run->past;
}
