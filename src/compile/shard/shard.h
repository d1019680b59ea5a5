/*
 * How nodes are spread over the ranks of one axis. The letters of a node's dimensions (ls_op.dims) decide which options
 * it has (options.c); each option has a price (price.c); search.c looks for the cheapest options over the whole graph.
 * shard.c goes through the axes of the mesh.
 */
#ifndef LS_SHARD_H
#define LS_SHARD_H

#include "compile/compile_impl.h"

/* The placement of a tensor along an axis: the dimension that is cut, or one of these. */
enum {
    LS_WHOLE = -1,
    LS_PARTIAL = -2,
    /*
     * Not decided yet: the first node that reads the tensor decides. Results of nodes without inputs begin so and,
     * along feature axes, parameters.
     */
    LS_OPEN = -3,
    /*
     * The gradient of a whole parameter: the first node that adds to it decides whether it is whole or a partial sum.
     */
    LS_OPEN_SUM = -4
};
typedef signed char ls_along_placement;

/* What ranks along feature axes can share in a graph (features.c). */
typedef struct ls_shared_features {
    ls_factors factors; /* empty if the mesh has no feature axis */
    int ranks;          /* along all feature axes */
    bool *too_few; /* by factor: it has fewer elements than there are ranks, so they share its product with the factor
                      after it */
    bool tokens;   /* they may also share the tokens of a rank, which has at least one for each of them */
    bool *kept;    /* by tensor: whether it is made in the forward pass and read in the backward pass */
} ls_shared_features;

/* The context of decisions along `axis`, which is axis number `a` of the mesh. */
typedef struct ls_along {
    const ls_graph *graph;
    int n_nodes;
    int a;
    const ls_axis *axis;
    const ls_shared_features *features;
} ls_along;

/*
 * The decisions along an axis. Along feature axes, later readers also find the copies of a tensor that earlier readers
 * needed in other placements. What the forward pass gathered is released before the backward pass, except the last one.
 */
typedef struct ls_decided {
    ls_along_placement *at; /* by tensor */
    unsigned char *made;    /* by tensor: ls_form_made of the placements that readers needed */
    int gathered;           /* the last gathered tensor; 0: none */
} ls_decided;

/* The bit for a placement, other than a partial sum, that a reader in the forward or the backward pass needed. */
static inline unsigned char ls_form_made(ls_along_placement p, bool backward) {
    _Static_assert(LS_MAX_DIMS <= 6, "cuts, and what is whole in either pass, are bits of a byte");
    return (unsigned char)(1U << (p >= 0 ? p : LS_MAX_DIMS + backward));
}

static inline bool ls_is_backward(const ls_graph *g, int n) { return g->forward_nodes > 0 && n >= g->forward_nodes; }

/* --- features.c --------------------------------------------------------------------------------------------------- */

void ls_shared_find(const ls_graph *graph, const ls_mesh *mesh, ls_arena *arena, ls_shared_features *out);
/* Whether feature axes can cut the first factor of each segment of dimension d. */
bool ls_is_shared(const ls_shared_features *features, ls_tensor t, int d);
/* The units of each tensor's dimensions, [tensor * LS_MAX_DIMS + dimension]. */
ls_dim_units *ls_shared_units(const ls_graph *graph, const ls_shared_features *features, ls_arena *arena);
/* Checks that each cut tensor has a part for each rank; the error names the tensor and the axes. */
LS_MUST_USE ls_status ls_shared_check(const ls_graph *graph, const ls_mesh *mesh, const ls_sharding *sharding);

/* --- options.c ---------------------------------------------------------------------------------------------------- */

/* One way to spread a node over the ranks of an axis. Of equally good ones, the first is taken. */
typedef enum ls_spread_way {
    LS_CUT, /* along what a letter stands for */
    /*
     * Along products that begin with the letter, if there is too little of the letter by itself: with fewer KV heads
     * than ranks, the query heads (KV heads times the queries of each) are cut. Inputs that have the letter alone are
     * whole (k, v), and such results are partial sums (dk, dv).
     */
    LS_CUT_PRODUCT,
    /*
     * Tensors with the letter are cut along it, the others along the tokens. Rows of tokens go to the ranks that have
     * what their ids name, and come back.
     */
    LS_EXCHANGE,
    LS_ADD_UP,       /* the op's addends and results are partial sums */
    LS_ADD_ON_FIRST, /* everything is whole except a partial sum, to which only the first rank of the axis adds */
    LS_ALL_WHOLE
} ls_spread_way;

typedef struct ls_spread_option {
    ls_spread_way way;
    int letter; /* for LS_CUT, LS_CUT_PRODUCT and LS_EXCHANGE: what is cut */
} ls_spread_option;

enum { LS_SPREAD_OPTIONS = 3 * LS_NODE_LETTERS + 3 };

/* A node along an axis, with its options. */
typedef struct ls_question {
    const ls_along *along;
    const ls_node *node;
    ls_node_dims dims;
    double work; /* the node's operations on its whole tensors; 0 unless the axis is a feature axis */
    int n;
    ls_spread_option option[LS_SPREAD_OPTIONS];
} ls_question;

void ls_question_ask(const ls_along *along, const ls_node *node, ls_question *q);
ls_along_placement ls_option_input(const ls_question *q, ls_spread_option choice, int i);
ls_along_placement ls_option_output(const ls_question *q, ls_spread_option choice, int o);

/* --- price.c ------------------------------------------------------------------------------------------------------ */

/*
 * What an option costs in addition to the decisions so far, in bytes that a rank sends, without the factor (T-1)/T that
 * all options share. Negative: input *misfit cannot be brought into the placement that the option needs.
 */
double ls_option_price(const ls_question *q, const ls_decided *decided, ls_spread_option option, int *misfit);

/* --- search.c ----------------------------------------------------------------------------------------------------- */

/*
 * Chooses an option for each node that has inputs, option[n_nodes], so that the sum of the prices is small; *price:
 * that sum. It is no larger than with the cheapest option node by node, and the least possible if few choices are open
 * at once. The error is that of the node-by-node choice: it names the op, the input and the placement expected.
 */
LS_MUST_USE ls_status ls_spread_search(const ls_along *along, const ls_decided *begin, ls_arena *scratch,
                                       ls_spread_option *option, double *price);
/* The same with the cheapest option of each node, one after the other. */
LS_MUST_USE ls_status ls_spread_node_by_node(const ls_along *along, const ls_decided *begin, ls_arena *scratch,
                                             ls_spread_option *option, double *price);
/* Gradients that node n is the first to use are spread like their parameter, if that is cut. */
void ls_decided_meet(const ls_along *l, int n, ls_decided *d);
/* Notes the placements that an option gives to the node's tensors. */
void ls_decided_note(const ls_question *q, ls_spread_option option, ls_decided *decided);
/* The decisions before any node: the placements of leaves. The arrays lie in the arena. */
ls_decided ls_decided_begin(const ls_along *l, ls_arena *arena);

#endif
