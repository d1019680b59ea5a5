/*
 * Where the graph is cut into chunks. The place in front of a forward node is suitable if a single tensor crosses it:
 * is made by nodes before it and read by nodes after it. Results that depend on inputs alone, such as positions and
 * masks, do not cross: every chunk computes them for itself.
 *
 * A job that continues a sequence has a second program, for each further token, whose nodes come after those of the
 * prefill. This program is the one that is cut, and nodes of the prefill follow the parameters that they share with it.
 * So each stage has the caches of its layers.
 */
#include "compile/pipeline/pipeline.h"

#include <float.h>
#include <limits.h>
#include <math.h>

/* The chunk of a node of the backward pass that has not been found yet. */
enum { UNKNOWN = LS_ANY_CHUNK - 1 };

typedef struct cutting {
    const ls_graph *g;
    ls_arena *arena;
    int chunks, forward; /* forward: number of nodes of the forward pass, which come first */
    int first;           /* the first node of the program that is cut */
    int *node;           /* by node: its chunk */
    bool *free;          /* by node: whether it depends on inputs alone */
    double *before;      /* by forward node, while boundaries are chosen: seconds of all nodes before it */
} cutting;

static int producer_of(const ls_graph *g, ls_tensor t) { return g->tensors[g->tensors[t.id].storage.id].producer; }

/* --- costs -------------------------------------------------------------------------------------------------------- */

static bool is_forward(const cutting *c, int n) { return n < c->forward; }

/* The parameter of which the tensor is the value or the gradient; 0: neither. */
static int parameter_of(const ls_graph *g, ls_tensor t) {
    const ls_tensor_info *info = ls_graph_tensor(g, ls_graph_tensor(g, t)->storage);
    return info->role == LS_ROLE_PARAMETER ? info->storage.id : info->role == LS_ROLE_ACCUMULATOR ? info->of.id : 0;
}

/*
 * The forward node whose cost includes this node of the backward pass: the node that it differentiates, else the reader
 * of its parameter, else the last forward node whose results it reads. -1: none.
 */
static int costed_with(const cutting *c, const ls_node *node, const int *reader) {
    int with = node->forward, last = -1;
    for (int i = 0; i < ls_node_tensors(node) && with < 0; i++) {
        const ls_tensor t = ls_node_tensor(node, i);
        const int from = i < node->n_in ? producer_of(c->g, t) : -1;
        with = reader[parameter_of(c->g, t)];
        if (is_forward(c, from)) last = (int)ls_max(last, from);
    }
    return with >= 0 ? with : last;
}

/* Seconds of forward nodes together with the nodes of the backward pass that belong to them; of the mean slice. */
static void find_costs(cutting *c, ls_slice_of which, const ls_rates *rates) {
    const ls_graph *g = c->g;
    double *seconds = LS_NEW_ARRAY(c->arena, double, c->forward + 1);
    int *reader = LS_NEW_ARRAY(c->arena, int, g->n_tensors); /* by parameter: its slowest reader */
    for (int t = 0; t < g->n_tensors; t++) reader[t] = -1;
    for (int n = 0; n < c->forward; n++) {
        seconds[n] = ls_node_seconds(g, &g->nodes[n], which, rates);
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const int parameter = parameter_of(g, g->nodes[n].in[i]);
            int *of = &reader[parameter];
            if (parameter != 0 && (*of < 0 || seconds[n] > seconds[*of])) *of = n;
        }
    }
    double *both = LS_NEW_ARRAY(c->arena, double, c->forward + 1);
    for (int n = 0; n < g->n_nodes; n++) {
        const int with = is_forward(c, n) ? n : costed_with(c, &g->nodes[n], reader);
        if (with >= 0) both[with] += is_forward(c, n) ? seconds[n] : ls_node_seconds(g, &g->nodes[n], which, rates);
    }
    c->before = LS_NEW_ARRAY(c->arena, double, c->forward + 1);
    for (int n = c->first; n < c->forward; n++) c->before[n + 1] = c->before[n] + both[n];
}

/* --- places ------------------------------------------------------------------------------------------------------- */

static void find_free(cutting *c) {
    const ls_graph *g = c->g;
    c->free = LS_NEW_ARRAY(c->arena, bool, g->n_nodes);
    for (int n = 0; n < g->n_nodes; n++) {
        c->free[n] = true;
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_tensor storage = ls_graph_tensor(g, g->nodes[n].in[i])->storage;
            const int from = g->tensors[storage.id].producer;
            const bool kept = n >= c->first && from < c->first; /* by the prefill, in the chunk of its readers */
            c->free[n] &= from >= 0 ? c->free[from] && !kept : g->tensors[storage.id].role == LS_ROLE_INPUT;
        }
    }
}

/*
 * By place: how many storages cross it, and one of them. A storage that several nodes write in place crosses every
 * place between the first and the last of them.
 */
typedef struct places {
    int *crossing;
    ls_tensor *one;
} places;

static places find_places(const cutting *c) {
    const ls_graph *g = c->g;
    const int F = c->forward;
    int *first = LS_NEW_ARRAY(c->arena, int, g->n_tensors), *last = LS_NEW_ARRAY(c->arena, int, g->n_tensors);
    places p = {LS_NEW_ARRAY(c->arena, int, F + 1), LS_NEW_ARRAY(c->arena, ls_tensor, F + 1)};
    for (int t = 0; t < g->n_tensors; t++) first[t] = INT_MAX;
    for (int n = c->first; n < F; n++) {
        for (int i = 0; i < ls_node_tensors(&g->nodes[n]) && !c->free[n]; i++) {
            const ls_tensor storage = ls_graph_tensor(g, ls_node_tensor(&g->nodes[n], i))->storage;
            const ls_tensor_info *info = ls_graph_tensor(g, storage);
            if (info->role != LS_ROLE_VALUE || info->producer < c->first || c->free[info->producer]) continue;
            first[storage.id] = (int)ls_min(first[storage.id], n);
            last[storage.id] = n;
        }
    }
    for (int t = 1; t < g->n_tensors; t++) {
        for (int n = first[t] == INT_MAX ? F : first[t] + 1; n <= last[t]; n++) {
            p.crossing[n]++;
            p.one[n] = ls_graph_at(g, t);
        }
    }
    return p;
}

/* Lists the suitable places, ascending, one for each tensor that crosses; returns how many. */
static int list_places(const cutting *c, const places *p, int *list) {
    const double all = c->before[c->forward];
    int n = 0;
    for (int at = c->first + 1; at < c->forward; at++) {
        const bool parts = p->crossing[at] == 1 && c->before[at] > 0 && c->before[at] < all;
        if (parts && (n == 0 || p->one[list[n - 1]].id != p->one[at].id)) list[n++] = at;
    }
    return n;
}

/*
 * Chooses chunks - 1 cuts among n places so that the most expensive chunk costs least. By dynamic programming: the best
 * `used` cuts of which the last is at place i follow from the best used - 1 cuts.
 */
static void choose(const cutting *c, const int *list, int n, int *cuts) {
    const int F = c->forward, most = c->chunks - 1;
    double *best = LS_NEW_ARRAY(c->arena, double, (most + 1) * (n + 1));
    int *from = LS_NEW_ARRAY(c->arena, int, (most + 1) * (n + 1));
    for (int used = 1; used <= most; used++) {
        for (int i = 0; i < n; i++) {
            double *least = &best[used * n + i];
            *least = used == 1 ? c->before[list[i]] : DBL_MAX;
            for (int k = used - 2; used > 1 && k < i; k++) {
                const double with = fmax(best[(used - 1) * n + k], c->before[list[i]] - c->before[list[k]]);
                if (with >= *least) continue;
                *least = with;
                from[used * n + i] = k;
            }
        }
    }
    int last = -1;
    double least = DBL_MAX;
    for (int i = most - 1; i < n; i++) {
        const double with = fmax(best[most * n + i], c->before[F] - c->before[list[i]]);
        if (with >= least) continue;
        least = with;
        last = i;
    }
    for (int used = most; used >= 1; used--) {
        cuts[used - 1] = list[last];
        last = from[used * n + last];
    }
}

/* The error. As an example it names the first of the places that the fewest tensors, but more than one, cross. */
static ls_status refuse(const cutting *c, const places *p, int found) {
    const ls_graph *g = c->g;
    int at = 0;
    for (int n = c->first + 1; n < c->forward; n++)
        if (p->crossing[n] > 1 && (at == 0 || p->crossing[n] < p->crossing[at])) at = n;
    if (at == 0)
        return ls_error(LS_UNSUPPORTED,
                        "a pipeline of %d parts: the model can be cut at %d places; expected %d at least", c->chunks,
                        found, c->chunks - 1);
    return ls_error(
        LS_UNSUPPORTED,
        "a pipeline of %d parts: the model can be cut at %d places; expected %d at least (elsewhere several "
        "tensors cross: in front of \"%s\", %d of them, \"%s\" among them)",
        c->chunks, found, c->chunks - 1, g->tensors[g->nodes[at].out[0].id].name, p->crossing[at],
        g->tensors[p->one[at].id].name);
}

/* --- the prefill, and the backward pass --------------------------------------------------------------------------- */

/* By parameter: the only chunk that reads it, in the program that is cut; below 0: none does, or several do. */
static int *find_readers(const cutting *c) {
    enum { NOBODY = -1, SEVERAL = -2 };
    const ls_graph *g = c->g;
    int *by = LS_NEW_ARRAY(c->arena, int, g->n_tensors);
    for (int t = 0; t < g->n_tensors; t++) by[t] = NOBODY;
    for (int n = c->first; n < c->forward; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const int parameter = parameter_of(g, g->nodes[n].in[i]);
            int *reader = &by[parameter];
            if (parameter != 0) *reader = *reader == NOBODY || *reader == c->node[n] ? c->node[n] : SEVERAL;
        }
    }
    return by;
}

/*
 * The chunk of a node of the program for one token that reads a result of this prefill node; LS_ANY_CHUNK: none does.
 */
static int of_one_token(const cutting *c, int n) {
    const ls_graph *g = c->g;
    for (int reader = c->first; reader < c->forward; reader++)
        for (int i = 0; i < g->nodes[reader].n_in; i++)
            if (producer_of(g, g->nodes[reader].in[i]) == n) return c->node[reader];
    return LS_ANY_CHUNK;
}

/*
 * A node belongs to the chunk of its parameters, or to that of its inputs if this is later. A node that depends on
 * inputs alone, such as the zeros with which a state begins, belongs to the chunk that reads its result in the other
 * program.
 */
static void place_prefill(cutting *c, const int *by) {
    const ls_graph *g = c->g;
    for (int n = 0; n < c->first; n++) {
        c->node[n] = c->free[n] ? of_one_token(c, n) : 0;
        for (int i = 0; i < g->nodes[n].n_in && !c->free[n]; i++) {
            const int from = producer_of(g, g->nodes[n].in[i]);
            const int least = from >= 0 ? c->node[from] : by[parameter_of(g, g->nodes[n].in[i])];
            c->node[n] = (int)ls_max(c->node[n], least);
        }
    }
}

/* The chunk of the parameters that a node reads, or to whose gradients it adds. by: as from find_readers. */
static int of_parameters(const cutting *c, const ls_node *node, const int *by) {
    int chunk = UNKNOWN;
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const int parameter = parameter_of(c->g, ls_node_tensor(node, i));
        if (parameter != 0 && by[parameter] >= 0) chunk = by[parameter];
    }
    return chunk;
}

/*
 * The chunk that follows from a node's inputs. A node that reads forward results belongs to the last chunk that made
 * one of them; or to the next chunk, if this result crossed to it and the node's inputs from the backward pass come
 * from a later chunk. A node that reads no forward results belongs to the first chunk among its inputs: that of the
 * tensor whose gradient they are. UNKNOWN: the inputs do not decide.
 */
static int of_inputs(const cutting *c, const ls_node *node, const bool *crosses) {
    int forward = -1, behind = -1;
    bool crossed = false;
    for (int i = 0; i < node->n_in; i++) {
        const int from = producer_of(c->g, node->in[i]);
        if (from < 0 || c->node[from] < 0) continue;
        if (!is_forward(c, from))
            behind = behind < 0 ? c->node[from] : (int)ls_min(behind, c->node[from]);
        else if (c->node[from] >= forward) {
            crossed = crosses[ls_graph_tensor(c->g, node->in[i])->storage.id];
            forward = c->node[from];
        }
    }
    if (behind < 0) return crossed || forward < 0 ? UNKNOWN : forward;
    if (forward < 0) return behind;
    return crossed && behind > forward ? forward + 1 : forward;
}

/* Gives nodes without a chunk the first chunk of those that read their results. */
static void follow_readers(cutting *c) {
    const ls_graph *g = c->g;
    int *least = LS_NEW_ARRAY(c->arena, int, g->n_tensors);
    for (int t = 0; t < g->n_tensors; t++) least[t] = INT_MAX;
    for (int n = g->n_nodes - 1; n >= c->forward; n--) {
        const ls_node *node = &g->nodes[n];
        for (int o = 0; o < node->n_out && c->node[n] == UNKNOWN; o++)
            if (least[node->out[o].id] != INT_MAX) c->node[n] = least[node->out[o].id];
        for (int i = 0; i < node->n_in; i++)
            if (c->node[n] >= 0) least[node->in[i].id] = (int)ls_min(least[node->in[i].id], c->node[n]);
    }
}

static void place_backward(cutting *c, const int *by) {
    const ls_graph *g = c->g;
    bool *crosses = LS_NEW_ARRAY(c->arena, bool, g->n_tensors);
    for (int n = c->first; n < c->forward; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_tensor storage = ls_graph_tensor(g, g->nodes[n].in[i])->storage;
            const int from = g->tensors[storage.id].producer;
            crosses[storage.id] |= from >= 0 && c->node[from] >= 0 && c->node[from] != c->node[n];
        }
    }
    for (int n = c->forward; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        c->node[n] = c->free[n]           ? LS_ANY_CHUNK
                     : node->forward >= 0 ? c->node[node->forward]
                                          : of_parameters(c, node, by);
        if (c->node[n] == UNKNOWN) c->node[n] = of_inputs(c, node, crosses);
    }
    follow_readers(c);
    for (int n = c->forward; n < g->n_nodes; n++)
        if (c->node[n] == UNKNOWN) c->node[n] = c->chunks - 1; /* no node reads it, and it reads nothing of the model */
}

/* The nodes of the backward pass that make nothing but gradients of parameters. */
static bool *find_weights(const cutting *c) {
    const ls_graph *g = c->g;
    bool *weight = LS_NEW_ARRAY(c->arena, bool, g->n_nodes);
    for (int n = c->forward; n < g->n_nodes; n++) {
        weight[n] = true;
        for (int o = 0; o < g->nodes[n].n_out; o++)
            weight[n] &=
                ls_graph_tensor(g, ls_graph_tensor(g, g->nodes[n].out[o])->storage)->role == LS_ROLE_ACCUMULATOR;
    }
    return weight;
}

static cutting begin(const ls_job *job, int chunks, ls_arena *arena) {
    const ls_graph *g = job->graph;
    cutting c = {.g = g,
                 .arena = arena,
                 .chunks = chunks,
                 .forward = ls_forward_nodes(g),
                 .node = LS_NEW_ARRAY(arena, int, g->n_nodes)};
    for (int p = 0; p < job->programs.n; p++)
        if (job->programs.list[p].first_node < c.forward)
            c.first = (int)ls_max(c.first, job->programs.list[p].first_node);
    find_free(&c);
    return c;
}

int ls_pipeline_chunks(const ls_target *target) {
    const int stages = ls_mesh_stages(&target->mesh);
    return stages == 1 ? 1 : stages * (int)ls_max(1, target->stage_chunks);
}

ls_status ls_mark_boundaries(ls_job *job, const ls_target *target, ls_arena *arena) {
    const ls_graph *g = job->graph;
    const int chunks = ls_pipeline_chunks(target);
    ls_rates rates;
    if (chunks == 1) return ls_ok();
    LS_TRY(ls_durations_rates(target, g->dtype, &rates));
    cutting c = begin(job, chunks, arena);
    find_costs(&c, (ls_slice_of){-1, ls_target_slices(target)}, &rates);
    const places p = find_places(&c);
    int *list = LS_NEW_ARRAY(arena, int, c.forward + 1), *cuts = LS_NEW_ARRAY(arena, int, chunks);
    const int n = list_places(&c, &p, list);
    if (n < chunks - 1) return refuse(&c, &p, n);
    choose(&c, list, n, cuts);
    ls_graph *marked = ls_arena_copy(arena, g, sizeof *g);
    marked->tensors = ls_arena_copy(arena, g->tensors, sizeof *g->tensors * (size_t)g->n_tensors);
    for (int i = 0; i + 1 < chunks; i++) marked->tensors[p.one[cuts[i]].id].boundary = true;
    job->graph = marked;
    return ls_ok();
}

/*
 * By forward node: whether only a boundary crosses the place in front of it, and this is the boundary's first such
 * place.
 */
static bool *find_cuts(const cutting *c) {
    const places p = find_places(c);
    bool *cut = LS_NEW_ARRAY(c->arena, bool, c->forward + 1), *done = LS_NEW_ARRAY(c->arena, bool, c->g->n_tensors);
    for (int n = c->first + 1; n < c->forward; n++) {
        cut[n] = p.crossing[n] == 1 && c->g->tensors[p.one[n].id].boundary && !done[p.one[n].id];
        done[p.one[n].id] |= cut[n];
    }
    return cut;
}

void ls_cut_graph(const ls_job *job, ls_arena *arena, ls_graph_chunks *out) {
    cutting c = begin(job, 1, arena);
    const bool *cut = find_cuts(&c);
    for (int n = c.first; n < c.forward; n++) {
        c.chunks += cut[n];
        c.node[n] = c.free[n] ? LS_ANY_CHUNK : c.chunks - 1;
    }
    const int *by = find_readers(&c);
    place_prefill(&c, by);
    place_backward(&c, by);
    *out = (ls_graph_chunks){c.chunks, c.node, find_weights(&c)};
}
