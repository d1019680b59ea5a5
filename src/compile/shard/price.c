/*
 * The price of an option, in bytes: those that redistribute its inputs; and along axes of features, whose purpose is
 * that ranks share work and memory, the work that each rank does again and the memory of what stays whole.
 */
#include "compile/shard/shard.h"

enum {
    /*
     * Operations that a rank makes while it sends a byte: an H100 makes some 2,000 while NVLink carries a byte, a core
     * of a processor some 10. Between work that is repeated and bytes that are sent, prices are rarely near each other.
     */
    FLOPS_PER_BYTE = 256,
    /*
     * Of an element of a parameter: value, gradient, master and two states of an optimiser (Rajbhandari et al., arXiv
     * 1910.02054, section 3.1). They are there all the time, and what does not fit does not run: a byte of them counts
     * as so many that are sent.
     */
    STATE_BYTES = 16,
    SENT_PER_BYTE = 64
};

typedef enum state { IS_WHOLE, IS_CUT, IS_PARTIAL, STATES } state;

static state state_of(ls_along_placement p) { return p >= 0 ? IS_CUT : p == LS_PARTIAL ? IS_PARTIAL : IS_WHOLE; }

/*
 * How often a tensor's bytes travel when one placement becomes another one, about; -1: nothing makes it so. Of what is
 * whole each rank takes its part.
 */
static const double travels[STATES][STATES] = {
    [IS_WHOLE] = {[IS_WHOLE] = 0, [IS_CUT] = 0, [IS_PARTIAL] = -1},
    [IS_CUT] = {[IS_WHOLE] = 1, [IS_CUT] = 1, [IS_PARTIAL] = -1},
    [IS_PARTIAL] = {[IS_WHOLE] = 2, [IS_CUT] = 1, [IS_PARTIAL] = 0},
};

static const ls_tensor_info *info_of(const ls_question *q, ls_tensor t) { return ls_graph_tensor(q->along->graph, t); }

/* Whether the node that makes the open tensor can make it so. */
static bool can_make(const ls_question *q, ls_tensor t, ls_along_placement wanted) {
    if (info_of(q, t)->producer < 0) return true; /* a parameter */
    ls_question maker;
    ls_question_ask(q->along, ls_graph_producer(q->along->graph, t), &maker);
    bool can = false;
    for (int k = 0; k < maker.n; k++) can |= ls_option_output(&maker, maker.option[k], info_of(q, t)->output) == wanted;
    return can;
}

/* Whether it is a parameter, or made of one alone, as a cast of what is kept in another type (kept.c). */
static bool is_of_parameter(const ls_question *q, ls_tensor t) {
    const ls_graph *g = q->along->graph;
    while (ls_graph_tensor(g, t)->producer >= 0) {
        const ls_node *maker = ls_graph_producer(g, t);
        if (maker->n_in != 1) return false;
        t = maker->in[0];
    }
    return ls_graph_tensor(g, t)->role == LS_ROLE_PARAMETER;
}

static double times_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor t = q->node->in[i];
    const ls_along_placement is = decided->made_whole[t.id] ? LS_WHOLE : decided->at[t.id];
    if (is == wanted) return 0;
    if (q->node->forward >= 0 && info_of(q, t)->producer == q->node->forward) return -1; /* spread as that node is */
    if (is == LS_OPEN) return can_make(q, t, wanted) ? 0 : -1;
    /* The gradient of a whole parameter. Its terms are added up once in a step, which sends it twice. */
    if (is == LS_OPEN_SUM) return wanted >= 0 ? -1 : wanted == LS_PARTIAL ? 2 : 0;
    if (ls_op_adds_to(q->node->op, i)) return -1; /* the sum itself is added to */
    /* A bias behind a sum: on the first rank it is a term of the sum, on the others zeros are; nothing is sent. */
    const bool bias = q->along->axis->kind == LS_AXIS_FEATURE && is_of_parameter(q, t);
    if (bias && is == LS_WHOLE && wanted == LS_PARTIAL) return 0;
    return travels[state_of(is)][state_of(wanted)];
}

static double bytes_of(const ls_tensor_info *info) {
    return (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
}

/* The operations of a node on the whole of its tensors. */
static double work_of(const ls_question *q) {
    const ls_node *node = q->node;
    ls_view in[LS_NODE_INPUTS], out[LS_NODE_OUTPUTS];
    for (int i = 0; i < ls_node_tensors(node); i++) {
        const ls_tensor_info *info = info_of(q, ls_node_tensor(node, i));
        int64_t size[LS_MAX_DIMS];
        for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
        *(i < node->n_in ? &in[i] : &out[i - node->n_in]) = ls_view_dense(NULL, info->dtype, info->shape.ndim, size);
    }
    return node->op->flops != NULL ? node->op->flops(in, out, node->params) : (double)ls_view_elements(&out[0]);
}

/* Of a parameter that an option wants whole: its own and its state, or its own where ranks have parts of it. */
static double memory_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor_info *info = info_of(q, q->node->in[i]);
    const ls_along_placement is = decided->at[q->node->in[i].id];
    if (info->role != LS_ROLE_PARAMETER || wanted >= 0 || (is < 0 && is != LS_OPEN)) return 0;
    const bool has_state = is == LS_OPEN && !info->frozen;
    return has_state ? STATE_BYTES * (double)ls_shape_elements(&info->shape) : bytes_of(info);
}

double ls_option_price(const ls_question *q, const ls_decided *decided, ls_spread_option option, int *misfit) {
    const bool features = q->along->axis->kind == LS_AXIS_FEATURE;
    const bool shared = option.way == LS_CUT || option.way == LS_CUT_PRODUCT;
    double price = features && !shared ? work_of(q) / FLOPS_PER_BYTE : 0;
    for (int i = 0; i < q->node->n_in; i++) {
        const ls_tensor_info *info = info_of(q, q->node->in[i]);
        const ls_along_placement wanted = ls_option_input(q, option, i);
        const double times = times_of(q, decided, i, wanted);
        *misfit = i;
        if (times < 0) return -1;
        price += times * bytes_of(info);
        if (features) price += SENT_PER_BYTE * memory_of(q, decided, i, wanted);
    }
    return price;
}
