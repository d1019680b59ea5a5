/* Strategies to try: those of the request, those that suit a mesh, and those that differ from the best so far. */
#include "plan/plan_impl.h"

#include <string.h>

/* --- the kinds of layers that a graph has ------------------------------------------------------------------------- */

typedef struct layers {
    bool windows, full; /* attention with a window in its mask, and without */
    bool recurrences, cells;
} layers;

static layers layers_of(const ls_graph *g) {
    layers has = {.windows = false};
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_node *node = &g->nodes[n];
        const ls_mask *mask = ls_node_mask(node);
        has.windows |= mask != NULL && ls_mask_has(mask, LS_MASK_WINDOW);
        has.full |= mask != NULL && !ls_mask_has(mask, LS_MASK_WINDOW);
        has.recurrences |= node->op == &ls_op_linear_recurrence;
        has.cells |= node->op == &ls_op_rnn;
    }
    return has;
}

/* --- those of the request ----------------------------------------------------------------------------------------- */

/* lacks: the kind of layers that is named. */
static ls_status refuse(const ls_plan_request *request, const layers *has, const char *lacks) {
    return ls_error(LS_USAGE, "--strategy %s: the model has no %s; it has%s%s%s%s%s", request->strategy, lacks,
                    has->full ? " attention (full=NAME)" : "", has->windows ? " windows (window=NAME)" : "",
                    has->recurrences ? " linear recurrences (recurrence=NAME)" : "",
                    has->cells ? " recurrent cells (rnn=NAME)" : "",
                    has->full || has->windows || has->recurrences || has->cells ? "" : " no layer with a strategy");
}

/* A plain name is for any kind of attention in the graph; a kind that is named must exist in the graph. */
static ls_status named_strategies(const ls_plan_request *request, const layers *has, ls_strategies *out) {
    LS_TRY(ls_strategies_parse(request->strategy, out));
    const bool apart = out->window != out->full;
    if (apart && out->window != NULL && !has->windows) return refuse(request, has, "attention with a window");
    if (apart && out->full != NULL && !has->full) return refuse(request, has, "attention without a window");
    if (out->recurrence != NULL && !has->recurrences) return refuse(request, has, "linear recurrences");
    if (out->rnn != NULL && !has->cells) return refuse(request, has, "recurrent cells");
    if (!has->windows) out->window = out->full;
    if (!has->full) out->full = out->window;
    return ls_ok();
}

/* In the form of a target: a window's strategy is named only if it differs. */
static ls_strategies of_target(ls_strategies s) {
    if (s.window == s.full) s.window = NULL;
    return s;
}

/* --- those that suit a mesh --------------------------------------------------------------------------------------- */

/* Whether a name is free or one of these. Some of them are called usp if there are both rings and blocks. */
static bool suits_name(const char *name, const char *const *names, int n) {
    bool among = name == NULL || strcmp(name, "usp") == 0;
    for (int i = 0; i < n; i++) among |= names[i] == name;
    return among;
}

bool ls_plan_strategy_suits(const ls_plan_request *request, const ls_mesh *mesh) {
    ls_strategies named;
    /* ls_plan_strategies reports the error. */
    if (ls_strategies_parse(request->strategy, &named).code != LS_OK) return true;
    const char *names[LS_STRATEGIES_MOST];
    const int n = ls_strategies_for(mesh, names);
    return suits_name(named.full, names, n) && suits_name(named.window, names, n);
}

ls_status ls_plan_strategies(const ls_plan_request *request, const ls_graph *g, const ls_mesh *mesh,
                             ls_strategies out[LS_STRATEGIES_MOST], int *n) {
    const layers has = layers_of(g);
    ls_strategies named;
    const char *names[LS_STRATEGIES_MOST];
    LS_TRY(named_strategies(request, &has, &named));
    *n = ls_strategies_for(mesh, names);
    if (named.full != NULL && named.window != NULL) *n = 1;
    for (int i = 0; i < *n; i++) {
        ls_strategies tried = named;
        if (tried.full == NULL) tried.full = names[i];
        if (tried.window == NULL) tried.window = names[i];
        out[i] = of_target(tried);
    }
    return ls_ok();
}

/* --- strategies for one kind of layers, beside the best candidate's ----------------------------------------------- */

/* What one step tries: another name for one kind of layers. The names for the other kinds stay. */
typedef struct step {
    bool (*free)(const ls_plan_request *request, const ls_strategies *named, const layers *has);
    int (*names)(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]);
    void (*set)(ls_strategies *s, const char *name);
} step;

/* Canonical sums need one strategy for all attention. */
static bool both_free(const ls_plan_request *request, const ls_strategies *named, const layers *has) {
    return named->full == NULL && named->window == NULL && has->full && has->windows && !request->canonical;
}

static bool recurrence_free(const ls_plan_request *request, const ls_strategies *named, const layers *has) {
    (void)request;
    return named->recurrence == NULL && has->recurrences;
}

static bool rnn_free(const ls_plan_request *request, const ls_strategies *named, const layers *has) {
    (void)request;
    return named->rnn == NULL && has->cells;
}

static int names_of(const char *(*name)(int), const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]) {
    int n = 0;
    if (ls_mesh_sequence_ranks(mesh) == 1) return 0;
    for (; n < LS_STRATEGIES_MOST && name(n) != NULL; n++) out[n] = name(n);
    return n;
}

static int recurrence_names(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]) {
    return names_of(ls_recurrence_way_name, mesh, out);
}

static int rnn_names(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]) {
    return names_of(ls_rnn_way_name, mesh, out);
}

static void set_window(ls_strategies *s, const char *name) { s->window = name; }

/* A window's strategy does not change. */
static void set_full(ls_strategies *s, const char *name) {
    if (s->window == NULL) s->window = s->full;
    s->full = name;
}

static void set_recurrence(ls_strategies *s, const char *name) { s->recurrence = name; }
static void set_rnn(ls_strategies *s, const char *name) { s->rnn = name; }

static const step steps[LS_PLAN_STEPS] = {
    {both_free, ls_strategies_for, set_window},
    {both_free, ls_strategies_for, set_full},
    {recurrence_free, recurrence_names, set_recurrence},
    {rnn_free, rnn_names, set_rnn},
};

ls_status ls_plan_other_strategies(const ls_plan_request *request, const ls_graph *g, const ls_plan_candidate *best,
                                   int at, ls_strategies out[LS_STRATEGIES_MOST], int *n) {
    const layers has = layers_of(g);
    const step *s = &steps[at];
    ls_strategies named;
    const char *names[LS_STRATEGIES_MOST];
    *n = 0;
    LS_TRY(named_strategies(request, &has, &named));
    if (!s->free(request, &named, &has)) return ls_ok();
    const int known = s->names(&best->mesh, names);
    for (int i = 0; i < known; i++) {
        ls_strategies tried = best->strategies;
        s->set(&tried, names[i]);
        out[(*n)++] = of_target(tried);
    }
    return ls_ok();
}
