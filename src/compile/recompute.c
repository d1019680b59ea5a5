/*
 * Recompute: for each node of the forward pass, the results that the backward pass reads are either kept or made again
 * just before they are read (Chen et al., "Training deep nets with sublinear memory cost", arXiv 1604.06174). The same
 * kernels make them again from the same bytes, so results do not change.
 *
 * Candidates are dropped in the order of their price, cheapest first: the time to make a node's results again, and
 * everything that must be made again for them, divided by the bytes that are free in between. With long sequences
 * attention has the highest price, so it is dropped last. The order depends on the graph alone, so every rank finds the
 * same order.
 */
#include "compile/compile_impl.h"

#include <math.h>

/*
 * The number of operations that take as long as moving one byte: typical of current processors, and enough to rank
 * candidates.
 */
static const double flops_per_byte = 10;

typedef struct candidates {
    const ls_job *job;
    const ls_graph *g;
    ls_arena *arena;
    bool *read;     /* by forward node: the backward pass reads one of its results */
    bool *fixed;    /* by forward node: never dropped */
    bool *kept;     /* by forward node: its results still exist in the backward pass */
    double *work;   /* by forward node: operations to run it once */
    int64_t *bytes; /* by forward node: of its results */
    int *stamp;     /* by forward node: the `count` of the last search that reached it */
    int count;
} candidates;

/* The node that makes the tensor's storage; -1: the tensor is a leaf. */
static int owner_of(const ls_graph *g, ls_tensor t) {
    return ls_graph_tensor(g, ls_graph_tensor(g, t)->storage)->producer;
}

/*
 * Nodes that need other tokens (attention, a convolution) divide a graph into blocks. A result that is read by a node
 * beyond the next such node is the start of a block: if it were dropped, a block would be made again from the start of
 * the block before it. And results that are made after the last of these nodes are read again at once. Neither is worth
 * dropping.
 */
static void find_fixed(candidates *c) {
    const ls_graph *g = c->g;
    int *mixed = LS_NEW_ARRAY(c->arena, int, g->forward_nodes + 1); /* by node: such nodes before it */
    for (int n = 0; n < g->forward_nodes; n++) {
        mixed[n + 1] = mixed[n] + (g->nodes[n].op->reach != LS_REACH_OWN ? 1 : 0);
    }
    const int all = mixed[g->forward_nodes];
    for (int n = 0; n < g->forward_nodes; n++) {
        c->fixed[n] |= all > 0 && mixed[n] == all;
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const int from = owner_of(g, g->nodes[n].in[i]);
            if (from >= 0 && mixed[n] > mixed[from + 1]) c->fixed[from] = true;
        }
    }
}

/*
 * Whether all results of the node have storage of their own. Results that only rename another tensor, or add to one,
 * are neither made nor kept by themselves.
 */
static bool makes_own(const ls_graph *g, const ls_node *node) {
    for (int i = 0; i < node->n_out; i++) {
        if (ls_graph_tensor(g, node->out[i])->storage.id != node->out[i].id) return false;
    }
    return node->n_in > 0;
}

static ls_view view_of(const ls_tensor_info *t) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < t->shape.ndim; i++) size[i] = t->shape.dim[i].size;
    return ls_view_dense(NULL, t->dtype, t->shape.ndim, size);
}

static double work_of(const ls_graph *g, const ls_node *node) {
    ls_view in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    double bytes = 0;
    for (int i = 0; i < node->n_in; i++) in[i] = view_of(ls_graph_tensor(g, node->in[i]));
    for (int i = 0; i < node->n_out; i++) out[i] = view_of(ls_graph_tensor(g, node->out[i]));
    for (int i = 0; i < node->n_in; i++) bytes += (double)ls_view_bytes(&in[i]);
    for (int i = 0; i < node->n_out; i++) bytes += (double)ls_view_bytes(&out[i]);
    const double flops = node->op->flops != NULL ? node->op->flops(in, out, node->params) : 0;
    return fmax(flops, flops_per_byte * bytes);
}

static void find(candidates *c, const ls_job *job, ls_arena *arena) {
    const ls_graph *g = job->graph;
    const int F = g->forward_nodes;
    *c = (candidates){.job = job,
                      .g = g,
                      .arena = arena,
                      .read = LS_NEW_ARRAY(arena, bool, F + 1),
                      .fixed = LS_NEW_ARRAY(arena, bool, F + 1),
                      .kept = LS_NEW_ARRAY(arena, bool, F + 1),
                      .work = LS_NEW_ARRAY(arena, double, F + 1),
                      .bytes = LS_NEW_ARRAY(arena, int64_t, F + 1),
                      .stamp = LS_NEW_ARRAY(arena, int, F + 1)};
    for (int n = F; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const int from = owner_of(g, g->nodes[n].in[i]);
            if (from >= 0 && from < F) c->read[from] = true;
        }
    }
    for (int n = 0; n < F; n++) {
        const ls_node *node = &g->nodes[n];
        const bool own = makes_own(g, node);
        c->fixed[n] = !own;
        for (int i = 0; i < node->n_out; i++)
            c->fixed[n] |= ls_job_fetches(job, node->out[i]) || g->tensors[node->out[i].id].boundary ||
                           g->tensors[node->out[i].id].stays;
        /* Results that cannot be made again are kept; results that nothing reads later are not. */
        c->kept[n] = c->read[n] || c->fixed[n];
        c->work[n] = own ? work_of(g, node) : 0;
        for (int i = 0; i < node->n_out && own; i++) {
            const ls_tensor_info *t = ls_graph_tensor(g, node->out[i]);
            c->bytes[n] += ls_shape_elements(&t->shape) * (int64_t)ls_dtype_bytes(t->dtype);
        }
    }
    find_fixed(c);
}

static bool may_drop(const candidates *c, int n) { return c->read[n] && c->kept[n] && !c->fixed[n]; }

/* The work to make the results of node n again if it is dropped too. */
static double chain(candidates *c, int n) {
    if (c->stamp[n] == c->count) return 0;
    c->stamp[n] = c->count;
    double work = c->work[n];
    for (int i = 0; i < c->g->nodes[n].n_in; i++) {
        const int from = owner_of(c->g, c->g->nodes[n].in[i]);
        if (from >= 0 && !c->kept[from]) work += chain(c, from);
    }
    return work;
}

/* By forward node: the forward nodes that read its results, of[first[n]] .. of[first[n + 1] - 1]. */
typedef struct readers {
    int *first, *of;
} readers;

static readers find_readers(const candidates *c) {
    const int F = c->g->forward_nodes;
    readers found = {.first = LS_NEW_ARRAY(c->arena, int, F + 2)};
    int *past = found.first + 1; /* counts, then ends of the lists so far */
    for (int n = 0; n < F; n++) {
        for (int i = 0; i < c->g->nodes[n].n_in; i++) {
            const int from = owner_of(c->g, c->g->nodes[n].in[i]);
            if (from >= 0) past[from]++;
        }
    }
    int total = 0;
    for (int n = 0; n < F; n++) {
        const int count = past[n];
        past[n] = total;
        total += count;
    }
    found.of = LS_NEW_ARRAY(c->arena, int, total + 1);
    for (int n = 0; n < F; n++) {
        for (int i = 0; i < c->g->nodes[n].n_in; i++) {
            const int from = owner_of(c->g, c->g->nodes[n].in[i]);
            if (from >= 0) found.of[past[from]++] = n;
        }
    }
    return found;
}

/*
 * Marks the nodes whose chains have become longer because node n is dropped: its readers, and the readers of dropped
 * ones among these.
 */
static void mark_longer(candidates *c, const readers *by, int n, bool *longer) {
    for (int i = by->first[n]; i < by->first[n + 1]; i++) {
        const int reader = by->of[i];
        if (c->stamp[reader] == c->count) continue;
        c->stamp[reader] = c->count;
        longer[reader] = true;
        if (!c->kept[reader]) mark_longer(c, by, reader, longer);
    }
}

/* Lists the first `most` nodes in the order in which they are dropped. Returns their number. */
static int order_candidates(candidates *c, int most, int *order) {
    const int F = c->g->forward_nodes;
    const readers by = find_readers(c);
    double *price = LS_NEW_ARRAY(c->arena, double, F + 1);
    bool *longer = LS_NEW_ARRAY(c->arena, bool, F + 1); /* the price is unknown or outdated */
    for (int n = 0; n < F; n++) longer[n] = true;
    int n_order = 0;
    while (n_order < most) {
        int best = -1;
        double best_price = INFINITY;
        for (int n = 0; n < F; n++) {
            if (!may_drop(c, n)) continue;
            c->count++;
            if (longer[n]) price[n] = chain(c, n) / (double)c->bytes[n];
            longer[n] = false;
            if (price[n] >= best_price * (1 - 1e-9)) continue;
            best = n;
            best_price = price[n];
        }
        if (best < 0) return n_order;
        c->kept[best] = false;
        c->count++;
        mark_longer(c, &by, best, longer);
        order[n_order++] = best;
    }
    return n_order;
}

int ls_recompute_count(const ls_job *job) {
    ls_arena *arena = ls_arena_create();
    candidates c;
    find(&c, job, arena);
    int n = 0;
    for (int i = 0; i < job->graph->forward_nodes; i++) n += may_drop(&c, i) ? 1 : 0;
    ls_arena_destroy(arena);
    return n;
}

/* --- the new graph ------------------------------------------------------------------------------------------------ */

typedef struct rewrite {
    const candidates *c;
    ls_graph *to;
    int *moved;       /* by node of the old graph: its number in the new one, as the backward pass sees it */
    ls_tensor *again; /* by tensor of the old graph: what the backward pass reads instead; id 0: itself */
    int *last_read;   /* by storage tensor of the old graph: the last node that reads it */
} rewrite;

static void push_node(rewrite *r, const ls_node *node) {
    *LS_PUSH(r->to->arena, r->to->nodes, r->to->n_nodes, r->to->node_capacity) = *node;
}

static ls_tensor push_tensor(rewrite *r, const ls_tensor_info *info) {
    *LS_PUSH(r->to->arena, r->to->tensors, r->to->n_tensors, r->to->tensor_capacity) = *info;
    return ls_graph_at(r->to, r->to->n_tensors - 1);
}

static ls_tensor again(rewrite *r, ls_tensor t);

/* Adds a second copy of node n. The inputs are made again first, so that their nodes come before it. */
static void clone_node(rewrite *r, int n) {
    const ls_graph *g = r->c->g;
    ls_node node = g->nodes[n];
    for (int i = 0; i < node.n_in; i++) node.in[i] = again(r, node.in[i]);
    for (int i = 0; i < node.n_out; i++) {
        const ls_tensor old = node.out[i];
        ls_tensor_info info = *ls_graph_tensor(g, old);
        const bool own = info.storage.id == old.id;
        info.name = ls_arena_printf(r->to->arena, "%s again", info.name);
        info.producer = r->to->n_nodes;
        if (!own) info.storage = r->to->tensors[node.in[node.op->in_place[i] - 1].id].storage;
        node.out[i] = push_tensor(r, &info);
        if (own) r->to->tensors[node.out[i].id].storage = node.out[i];
        r->again[old.id] = node.out[i];
    }
    r->moved[n] = r->to->n_nodes;
    push_node(r, &node);
}

/* The tensor that the backward pass reads: t itself if it was kept, else t made again, once. */
static ls_tensor again(rewrite *r, ls_tensor t) {
    const ls_graph *g = r->c->g;
    if (r->again[t.id].id != 0) return r->again[t.id];
    const int owner = owner_of(g, t), producer = ls_graph_tensor(g, t)->producer;
    if (owner < 0 || owner >= g->forward_nodes || r->c->kept[owner]) return t;
    clone_node(r, producer); /* t's own node: the owner, or a node that renames the owner's result */
    return r->again[t.id];
}

/* Whether making the tensor again takes a node that mixes tokens. */
static bool needs_mixing(const rewrite *r, ls_tensor t) {
    const ls_graph *g = r->c->g;
    const int owner = owner_of(g, t);
    if (r->again[t.id].id != 0 || owner < 0 || owner >= g->forward_nodes || r->c->kept[owner]) return false;
    if (g->nodes[owner].op->reach != LS_REACH_OWN) return true;
    bool needs = false;
    for (int i = 0; i < g->nodes[owner].n_in && !needs; i++) needs = needs_mixing(r, g->nodes[owner].in[i]);
    return needs;
}

static int64_t bytes_of(const ls_graph *g, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(g, ls_graph_tensor(g, t)->storage);
    return ls_shape_elements(&info->shape) * (int64_t)ls_dtype_bytes(info->dtype);
}

/*
 * By how many bytes the waiting results grow when the node has run: the bytes that it makes, less those that it is the
 * last to read.
 */
static int64_t growth_of(const rewrite *r, int n) {
    const ls_node *node = &r->c->g->nodes[n];
    int64_t bytes = 0;
    for (int i = 0; i < node->n_out; i++)
        if (ls_graph_tensor(r->c->g, node->out[i])->storage.id == node->out[i].id)
            bytes += bytes_of(r->c->g, node->out[i]);
    for (int i = 0; i < node->n_in; i++) {
        const int storage = ls_graph_tensor(r->c->g, node->in[i])->storage.id;
        bool named = false; /* an earlier input has the same storage */
        for (int k = 0; k < i; k++) named |= ls_graph_tensor(r->c->g, node->in[k])->storage.id == storage;
        if (!named && r->last_read[storage] == n) bytes -= bytes_of(r->c->g, node->in[i]);
    }
    return bytes;
}

/*
 * Among the backward nodes from n to the next one that mixes tokens: the node before which everything that they read is
 * made again. If making it again takes an attention, each result cannot be made just before it is read: results of the
 * nodes before the attention would wait meanwhile, and a region of tiles would end there. So everything is made again
 * at the node where the fewest bytes wait.
 */
static int find_turn(const rewrite *r, int n) {
    const ls_graph *g = r->c->g;
    int turn = n;
    int64_t waiting = 0, least = 0;
    for (; n < g->n_nodes && g->nodes[n].op->reach == LS_REACH_OWN; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++)
            if (needs_mixing(r, g->nodes[n].in[i])) return turn;
        waiting += growth_of(r, n);
        if (waiting > least) continue;
        least = waiting;
        turn = n + 1;
    }
    return g->n_nodes; /* nothing takes an attention: each result is made again when it is read */
}

static void make_again(rewrite *r, int n) {
    const ls_graph *g = r->c->g;
    for (bool mixes = false; n < g->n_nodes && !mixes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) (void)again(r, g->nodes[n].in[i]);
        mixes = g->nodes[n].op->reach != LS_REACH_OWN;
    }
}

static ls_graph *rewrite_graph(const candidates *c, ls_arena *arena) {
    const ls_graph *g = c->g;
    ls_graph *to = ls_graph_bare(g, arena);
    rewrite r = {.c = c,
                 .to = to,
                 .moved = LS_NEW_ARRAY(arena, int, g->n_nodes + 1),
                 .again = LS_NEW_ARRAY(arena, ls_tensor, g->n_tensors),
                 .last_read = LS_NEW_ARRAY(arena, int, g->n_tensors)};
    for (int t = 0; t < g->n_tensors; t++) (void)push_tensor(&r, &g->tensors[t]);
    LS_ASSERT(to->tensors != NULL); /* there is at least the empty tensor */
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++) r.last_read[ls_graph_tensor(g, g->nodes[n].in[i])->storage.id] = n;
    int turn = g->n_nodes; /* the node before which results are made again, see find_turn */
    for (int n = 0; n < g->n_nodes; n++) {
        ls_node node = g->nodes[n];
        const bool backward = n >= g->forward_nodes;
        if (backward && (n == g->forward_nodes || g->nodes[n - 1].op->reach != LS_REACH_OWN)) turn = find_turn(&r, n);
        if (n == turn) make_again(&r, n);
        for (int i = 0; i < node.n_in && backward; i++) node.in[i] = again(&r, node.in[i]);
        if (node.forward >= 0) node.forward = r.moved[node.forward];
        r.moved[n] = to->n_nodes;
        ls_graph_own_outputs(to, &node);
        push_node(&r, &node);
    }
    return to;
}

const ls_graph *ls_recompute(const ls_job *job, int drop, ls_arena *arena) {
    if (drop <= 0 || job->graph->forward_nodes == 0) return job->graph;
    candidates all, c;
    find(&all, job, arena);
    int *order = LS_NEW_ARRAY(arena, int, job->graph->forward_nodes);
    const int n = order_candidates(&all, drop, order);
    find(&c, job, arena);
    for (int i = 0; i < n; i++) c.kept[order[i]] = false;
    return rewrite_graph(&c, arena);
}
