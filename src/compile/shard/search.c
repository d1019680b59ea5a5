/*
 * Chooses an option for every node of a graph by dynamic programming, node after node. The state is the set of
 * placements of the tensors that later nodes read. Of choices with the same state only the cheapest is continued. If
 * more remain than WORK allows, only the cheapest are continued (a beam search); a graph with few nodes or few branches
 * is searched completely.
 */
#include "compile/shard/shard.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORK = 1 << 14, /* limit of continued choices, times nodes */
    LEAST = 4,
    MOST = 512,
    TOUCHED = 2 * LS_NODE_INPUTS + LS_NODE_OUTPUTS
};

/* --- what is decided ---------------------------------------------------------------------------------------------- */

/*
 * Along axes of the batch and the sequence a gradient is a partial sum, which is added over the ranks at the end. Along
 * feature axes a parameter is open: its first reader decides whether and how it is cut. Its gradient is then cut in the
 * same way; the gradient of a whole parameter may be a partial sum or whole (LS_OPEN_SUM).
 */
static ls_along_placement leaf_placement(const ls_along *l, const ls_tensor_info *t) {
    if (t->role == LS_ROLE_VALUE) return LS_WHOLE;
    if (l->axis->kind == LS_AXIS_FEATURE) return t->role == LS_ROLE_PARAMETER || t->of.id != 0 ? LS_OPEN : LS_WHOLE;
    if (t->role == LS_ROLE_ACCUMULATOR) return LS_PARTIAL;
    const int dim = ls_shape_dim_of(&t->shape, ls_axis_factor(l->axis));
    return dim >= 0 ? (ls_along_placement)dim : LS_WHOLE;
}

static ls_decided new_decided(const ls_along *l, ls_arena *arena) {
    return (ls_decided){LS_NEW_ARRAY(arena, ls_along_placement, l->graph->n_tensors),
                        LS_NEW_ARRAY(arena, unsigned char, l->graph->n_tensors), 0};
}

static void copy_decided(const ls_along *l, const ls_decided *from, ls_decided *to) {
    memcpy(to->at, from->at, sizeof *to->at * (size_t)l->graph->n_tensors);
    memcpy(to->made, from->made, sizeof *to->made * (size_t)l->graph->n_tensors);
    to->gathered = from->gathered;
}

ls_decided ls_decided_begin(const ls_along *l, ls_arena *arena) {
    const ls_decided begin = new_decided(l, arena);
    for (int t = 1; t < l->graph->n_tensors; t++) begin.at[t] = leaf_placement(l, &l->graph->tensors[t]);
    return begin;
}

void ls_decided_meet(const ls_along *l, int n, ls_decided *d) {
    const ls_node *node = &l->graph->nodes[n];
    for (int o = 0; o < node->n_out && node->n_in == 0; o++) d->at[node->out[o].id] = LS_OPEN;
    for (int i = 0; i < node->n_in; i++) {
        const ls_tensor of = ls_graph_tensor(l->graph, node->in[i])->of;
        if (of.id != 0 && d->at[node->in[i].id] == LS_OPEN)
            d->at[node->in[i].id] = d->at[of.id] >= 0 ? d->at[of.id] : LS_OPEN_SUM;
    }
}

/* Notes that a reader wants the tensor in this placement. */
static void note_made(const ls_question *q, ls_tensor t, ls_along_placement wanted, ls_decided *d) {
    if (q->along->axis->kind != LS_AXIS_FEATURE || wanted < LS_WHOLE || wanted == d->at[t.id]) return;
    const bool backward = ls_is_backward(q->along->graph, (int)(q->node - q->along->graph->nodes));
    if (wanted == LS_WHOLE && d->at[t.id] >= 0 && !(d->made[t.id] & ls_form_made(LS_WHOLE, backward)))
        d->gathered = t.id;
    d->made[t.id] |= ls_form_made(wanted, backward);
}

void ls_decided_note(const ls_question *q, ls_spread_option option, ls_decided *d) {
    const ls_node *node = q->node;
    for (int i = 0; i < node->n_in; i++) {
        const ls_along_placement wanted = ls_option_input(q, option, i);
        const int t = node->in[i].id;
        if (d->at[t] == LS_OPEN_SUM) d->at[t] = wanted;
        if (d->at[t] == LS_OPEN)
            d->at[t] = wanted == LS_PARTIAL && q->along->graph->tensors[t].producer < 0 ? LS_WHOLE : wanted;
        note_made(q, node->in[i], wanted, d);
    }
    for (int o = 0; o < node->n_out; o++) d->at[node->out[o].id] = ls_option_output(q, option, o);
}

/* --- node by node ------------------------------------------------------------------------------------------------- */

/* The error if no option applies: of the option that fits the most inputs, it names the input that does not fit. */
static ls_status refuse(const ls_question *q, const ls_decided *d, ls_spread_option nearest, int i) {
    const ls_tensor t = q->node->in[i];
    const ls_along_placement is = d->at[t.id], wanted = ls_option_input(q, nearest, i);
    static const char *const cut = "cut", *const partial = "a partial sum", *const whole = "whole";
    return ls_error(LS_UNSUPPORTED, "op %s: input %d \"%s\" is %s along %s, expected %s", q->node->op->name, i,
                    ls_graph_tensor(q->along->graph, t)->name,
                    is >= 0            ? cut
                    : is == LS_PARTIAL ? partial
                                       : whole,
                    q->along->axis->name,
                    wanted >= 0            ? cut
                    : wanted == LS_PARTIAL ? partial
                                           : whole);
}

static ls_status choose_cheapest(const ls_question *q, const ls_decided *d, ls_spread_option *out, double *least) {
    ls_spread_option nearest = {.way = LS_ALL_WHOLE};
    int furthest = -1;
    *least = -1;
    for (int k = 0; k < q->n; k++) {
        int misfit = 0;
        const double price = ls_option_price(q, d, q->option[k], &misfit);
        if (price < 0 && misfit > furthest) {
            furthest = misfit;
            nearest = q->option[k];
        }
        if (price < 0 || (*least >= 0 && price >= *least)) continue;
        *out = q->option[k];
        *least = price;
    }
    return *least >= 0 ? ls_ok() : refuse(q, d, nearest, furthest);
}

ls_status ls_spread_node_by_node(const ls_along *l, const ls_decided *begin, ls_arena *scratch,
                                 ls_spread_option *option, double *price) {
    ls_decided d = new_decided(l, scratch);
    copy_decided(l, begin, &d);
    *price = 0;
    for (int n = 0; n < l->n_nodes; n++) {
        ls_decided_meet(l, n, &d);
        if (l->graph->nodes[n].n_in == 0) continue;
        ls_question q;
        double least;
        ls_question_ask(l, &l->graph->nodes[n], &q);
        LS_TRY(choose_cheapest(&q, &d, &option[n], &least));
        ls_decided_note(&q, option[n], &d);
        *price += least;
    }
    return ls_ok();
}

/* --- over the graph ----------------------------------------------------------------------------------------------- */

/* Options chosen for the first nodes: their decisions, their price, and the last of them in `steps`. */
typedef struct choice {
    double price;
    uint64_t open; /* hash of the placements of tensors that will still be read */
    int step;
    ls_decided decided;
} choice;

/* A choice extended by an option of the next node. */
typedef struct candidate {
    double price;
    uint64_t open;
    int order, from;
    ls_spread_option option;
} candidate;

typedef struct step {
    ls_spread_option option;
    int before; /* index of the previous step; -1: none */
} step;

typedef struct search {
    const ls_along *along;
    int *last; /* by tensor: the last node that depends on its placement; -1: none */
    int width; /* the largest number of choices that are continued */
    choice *now, *next;
    int n_now;
    double bound; /* the node-by-node price: choices above it are dropped, since prices only grow */
    candidate *candidates;
    step *steps;
    int n_steps;
} search;

static void find_last(search *s) {
    const ls_graph *g = s->along->graph;
    for (int t = 0; t < g->n_tensors; t++) s->last[t] = -1;
    for (int n = 0; n < s->along->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            s->last[g->nodes[n].in[i].id] = n;
            s->last[ls_graph_tensor(g, g->nodes[n].in[i])->of.id] = n;
        }
    }
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static uint64_t hash_of(const ls_decided *d, int t) {
    return mixed(((uint64_t)t << 16 | (uint64_t)(d->at[t] - LS_OPEN_SUM) << 8 | d->made[t]) + 1);
}

/* Hash of the last gathered tensor if later nodes read it, since they need not gather it again. */
static uint64_t hash_of_gathered(const search *s, const ls_decided *d, int n) {
    return s->last[d->gathered] > n ? mixed(~(uint64_t)d->gathered) : 0;
}

/* Lists the tensors whose placements a node may decide, each once. */
static int touched_by(const ls_along *l, const ls_node *node, int list[TOUCHED]) {
    int n = 0;
    for (int i = 0; i < 2 * node->n_in + node->n_out; i++) {
        const int t = i < ls_node_tensors(node) ? ls_node_tensor(node, i).id
                                                : ls_graph_tensor(l->graph, node->in[i - ls_node_tensors(node)])->of.id;
        bool known = t == 0;
        for (int k = 0; k < n; k++) known |= list[k] == t;
        if (!known) list[n++] = t;
    }
    return n;
}

/* Appends the candidates that extend a choice by an option of node n. */
static int extend(search *s, const ls_question *q, int n, int from, int n_candidates) {
    const ls_along *l = s->along;
    choice *c = &s->now[from];
    int list[TOUCHED];
    ls_along_placement at[TOUCHED];
    unsigned char made[TOUCHED];
    const int touched = touched_by(l, q->node, list);
    for (int k = 0; k < touched; k++) {
        at[k] = c->decided.at[list[k]];
        made[k] = c->decided.made[list[k]];
    }
    const int gathered = c->decided.gathered;
    uint64_t before = c->open ^ hash_of_gathered(s, &c->decided, n - 1); /* without the touched tensors */
    for (int k = 0; k < touched; k++) before ^= s->last[list[k]] >= n ? hash_of(&c->decided, list[k]) : 0;
    for (int o = 0; o < q->n; o++) {
        int misfit;
        ls_decided_meet(l, n, &c->decided);
        const double price = ls_option_price(q, &c->decided, q->option[o], &misfit);
        if (price >= 0 && c->price + price < s->bound) {
            ls_decided_note(q, q->option[o], &c->decided);
            uint64_t open = before;
            for (int k = 0; k < touched; k++) open ^= s->last[list[k]] > n ? hash_of(&c->decided, list[k]) : 0;
            open ^= hash_of_gathered(s, &c->decided, n);
            s->candidates[n_candidates] = (candidate){c->price + price, open, n_candidates, from, q->option[o]};
            n_candidates++;
        }
        for (int k = 0; k < touched; k++) {
            c->decided.at[list[k]] = at[k];
            c->decided.made[list[k]] = made[k];
        }
        c->decided.gathered = gathered;
    }
    return n_candidates;
}

static int by_price(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->price != b->price) return a->price < b->price ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* The cheapest candidates become the choices; of those with the same state only the cheapest. */
static void go_on(search *s, const ls_question *q, int n, int n_candidates) {
    const ls_along *l = s->along;
    qsort(s->candidates, (size_t)n_candidates, sizeof *s->candidates, by_price);
    int n_next = 0;
    for (int i = 0; i < n_candidates && n_next < s->width; i++) {
        const candidate *c = &s->candidates[i];
        bool known = false;
        for (int k = 0; k < n_next; k++) known |= s->next[k].open == c->open;
        if (known) continue;
        choice *to = &s->next[n_next++];
        copy_decided(l, &s->now[c->from].decided, &to->decided);
        ls_decided_meet(l, n, &to->decided);
        ls_decided_note(q, c->option, &to->decided);
        to->price = c->price;
        to->open = c->open;
        s->steps[s->n_steps] = (step){c->option, s->now[c->from].step};
        to->step = s->n_steps++;
    }
    choice *const now = s->now;
    s->now = s->next;
    s->next = now;
    s->n_now = n_next;
}

static void begin(search *s, const ls_along *l, const ls_decided *decided, ls_arena *scratch) {
    s->along = l;
    s->width = (int)ls_min(ls_max(WORK / (l->n_nodes + 1), LEAST), MOST);
    s->last = LS_NEW_ARRAY(scratch, int, l->graph->n_tensors);
    find_last(s);
    s->now = LS_NEW_ARRAY(scratch, choice, s->width);
    s->next = LS_NEW_ARRAY(scratch, choice, s->width);
    s->candidates = LS_NEW_ARRAY(scratch, candidate, s->width * LS_SPREAD_OPTIONS);
    s->steps = LS_NEW_ARRAY(scratch, step, s->width * (l->n_nodes + 1));
    for (int i = 0; i < s->width; i++) {
        s->now[i].decided = new_decided(l, scratch);
        s->next[i].decided = new_decided(l, scratch);
    }
    s->n_now = 1;
    s->now[0].step = -1;
    copy_decided(l, decided, &s->now[0].decided);
}

ls_status ls_spread_search(const ls_along *l, const ls_decided *decided, ls_arena *scratch, ls_spread_option *option,
                           double *price) {
    LS_TRY(ls_spread_node_by_node(l, decided, scratch, option, price));
    if (*price == 0) return ls_ok(); /* it cannot be less */
    const double rounding = 1e-9;
    search s = {.bound = *price * (1 - rounding)};
    begin(&s, l, decided, scratch);
    for (int n = 0; n < l->n_nodes; n++) {
        int n_candidates = 0;
        for (int i = 0; i < s.n_now && l->graph->nodes[n].n_in == 0; i++) ls_decided_meet(l, n, &s.now[i].decided);
        if (l->graph->nodes[n].n_in == 0) continue;
        ls_question q;
        ls_question_ask(l, &l->graph->nodes[n], &q);
        for (int i = 0; i < s.n_now; i++) n_candidates = extend(&s, &q, n, i, n_candidates);
        go_on(&s, &q, n, n_candidates);
        if (s.n_now == 0) return ls_ok();
    }
    *price = s.now[0].price;
    for (int n = l->n_nodes - 1, at = s.now[0].step; n >= 0; n--) {
        if (l->graph->nodes[n].n_in == 0) continue;
        option[n] = s.steps[at].option;
        at = s.steps[at].before;
    }
    return ls_ok();
}
