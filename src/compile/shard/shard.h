/*
 * How nodes are spread over the ranks of one axis. What a node's dimensions stand for (ls_op.dims) says which options
 * it has (options.c); an option has a price (price.c); the choice is the cheapest that is found over the whole graph
 * (search.c). shard.c goes through the axes of the mesh.
 */
#ifndef LS_SHARD_H
#define LS_SHARD_H

#include "compile/compile_impl.h"

/* Of a tensor along an axis: a dimension, along which it is cut, or one of these. */
enum {
    LS_WHOLE = -1,
    LS_PARTIAL = -2,
    /*
     * Not decided yet; the first node that reads it decides. Open are the results of nodes that read nothing and, along
     * axes of features, parameters.
     */
    LS_OPEN = -3,
    /* The gradient of a whole parameter: the first node that adds to it makes it whole or a partial sum. */
    LS_OPEN_SUM = -4
};
typedef signed char ls_along_placement;

/* What of a graph ranks along axes of kind feature share (features.c). */
typedef struct ls_shared_features {
    ls_factors factors; /* empty where the mesh has no such axis */
    int ranks;          /* along all such axes */
    bool *too_few; /* by factor: fewer elements than ranks, so that they share its product with the factor behind it */
    bool tokens;   /* they may share a rank's tokens too: there is one for each of them at least */
    bool *kept;    /* by tensor: made in the forward pass, and read in the backward pass */
} ls_shared_features;

/* What holds along `axis`, number `a` of the mesh. */
typedef struct ls_along {
    const ls_graph *graph;
    int n_nodes;
    int a;
    const ls_axis *axis;
    const ls_shared_features *features;
} ls_along;

/*
 * What has been decided along an axis. Along axes of features readers that come later also find a tensor as earlier
 * ones had it made. What was gathered in the forward pass is let go before the backward pass, but for the last.
 */
typedef struct ls_decided {
    ls_along_placement *at; /* by tensor */
    unsigned char *made;    /* by tensor: ls_form_made of what readers have had made of it */
    int gathered;           /* the tensor that was gathered last; 0: none */
} ls_decided;

/* The bit of a placement other than a partial sum that a reader in the forward or the backward pass had made. */
static inline unsigned char ls_form_made(ls_along_placement p, bool backward) {
    _Static_assert(LS_MAX_DIMS <= 6, "cuts, and what is whole in either pass, are bits of a byte");
    return (unsigned char)(1U << (p >= 0 ? p : LS_MAX_DIMS + backward));
}

static inline bool ls_is_backward(const ls_graph *g, int n) { return g->forward_nodes > 0 && n >= g->forward_nodes; }

/* --- features.c --------------------------------------------------------------------------------------------------- */

void ls_shared_find(const ls_graph *graph, const ls_mesh *mesh, ls_arena *arena, ls_shared_features *out);
/* Whether axes of kind feature cut what each segment of dimension d begins with. */
bool ls_is_shared(const ls_shared_features *features, ls_tensor t, int d);
/* What of each tensor stays together, by tensor * LS_MAX_DIMS + dimension. */
ls_dim_units *ls_shared_units(const ls_graph *graph, const ls_shared_features *features, ls_arena *arena);
/* Of each tensor that is cut there must be a part for each rank; the error names the tensor and the axes. */
LS_MUST_USE ls_status ls_shared_check(const ls_graph *graph, const ls_mesh *mesh, const ls_sharding *sharding);

/* --- options.c ---------------------------------------------------------------------------------------------------- */

/* One way to spread a node over the ranks of an axis: of equally good ones, the first is taken. */
typedef enum ls_spread_way {
    LS_CUT, /* along what a letter stands for */
    /*
     * Along products that begin with the letter, of which there are too few by itself: where there are fewer KV heads
     * than ranks, query heads (KV heads times the queries of each) are cut. What has the letter alone is whole (k, v),
     * or of results a term (dk, dv).
     */
    LS_CUT_PRODUCT,
    /*
     * Along what a letter stands for, of what has it; of the rest the tokens are cut. Rows of tokens go to the ranks
     * that have what their ids name, and come back.
     */
    LS_EXCHANGE,
    LS_ADD_UP,       /* the op's addends are partial sums, and so are its results */
    LS_ADD_ON_FIRST, /* everything is whole, but for a partial sum, to which the first rank of the axis alone adds */
    LS_ALL_WHOLE
} ls_spread_way;

typedef struct ls_spread_option {
    ls_spread_way way;
    int letter; /* of LS_CUT, LS_CUT_PRODUCT and LS_EXCHANGE: what is cut */
} ls_spread_option;

enum { LS_SPREAD_OPTIONS = 3 * LS_NODE_LETTERS + 3 };

/* A node along an axis. */
typedef struct ls_question {
    const ls_along *along;
    const ls_node *node;
    ls_node_dims dims;
    double work; /* the node's operations on the whole of its tensors; 0 along axes of other kinds than feature */
    int n;
    ls_spread_option option[LS_SPREAD_OPTIONS];
} ls_question;

void ls_question_ask(const ls_along *along, const ls_node *node, ls_question *q);
ls_along_placement ls_option_input(const ls_question *q, ls_spread_option choice, int i);
ls_along_placement ls_option_output(const ls_question *q, ls_spread_option choice, int o);

/* --- price.c ------------------------------------------------------------------------------------------------------ */

/*
 * What an option costs on top of what has been decided, in bytes that a rank sends, but for the factor (T-1)/T that all
 * have. Negative: input *misfit cannot become what the option asks.
 */
double ls_option_price(const ls_question *q, const ls_decided *decided, ls_spread_option option, int *misfit);

/* --- search.c ----------------------------------------------------------------------------------------------------- */

/*
 * Chooses an option of each node that has inputs, option[n_nodes], so that their prices add up to little; returns in
 * *price what they add up to. Not more than with the cheapest option node by node, and the least where few choices are
 * open at once. The error is of the node by node choice: it names the op, the input and what it was expected to be.
 */
LS_MUST_USE ls_status ls_spread_search(const ls_along *along, const ls_decided *begin, ls_arena *scratch,
                                       ls_spread_option *option, double *price);
/* The same with the cheapest option of each node, one after the other. */
LS_MUST_USE ls_status ls_spread_node_by_node(const ls_along *along, const ls_decided *begin, ls_arena *scratch,
                                             ls_spread_option *option, double *price);
/* Gradients that node n meets first are spread as their parameter, where that is cut. */
void ls_decided_meet(const ls_along *l, int n, ls_decided *d);
/* Notes what an option makes of the node's tensors. */
void ls_decided_note(const ls_question *q, ls_spread_option option, ls_decided *decided);
/* Before any node: what leaves are. The arrays lie in the arena. */
ls_decided ls_decided_begin(const ls_along *l, ls_arena *arena);

#endif
