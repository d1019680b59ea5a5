/*
 * The price of an option, in bytes. It counts the bytes sent to redistribute the inputs. Along feature axes, whose
 * purpose is to share work and memory, it also counts work that every rank repeats, and memory of what stays whole:
 * parameters, and results that are kept for the backward pass.
 */
#include "compile/shard/shard.h"

enum {
    /*
     * Operations that a rank can make while it sends a byte: some 2,000 on an H100 with NVLink, some 10 on a processor
     * core. The exact value matters little, as the prices of repeated work and of sent bytes are rarely close to each
     * other.
     */
    FLOPS_PER_BYTE = 256,
    /*
     * Bytes per element of a parameter: value, gradient, master and two states of an optimiser (Rajbhandari et al.,
     * arXiv 1910.02054, section 3.1). They are needed all the time, and a job that does not fit in memory does not run;
     * so a byte of them counts as SENT_PER_BYTE sent bytes.
     */
    STATE_BYTES = 16,
    SENT_PER_BYTE = 64
};

/*
 * A byte that is kept from the forward pass to the backward pass counts as this many sent bytes: more than gathering it
 * again once, less than gathering it twice.
 */
static const double sent_per_kept_byte = 1.5;

typedef enum state { IS_WHOLE, IS_CUT, IS_PARTIAL, STATES } state;

static state state_of(ls_along_placement p) { return p >= 0 ? IS_CUT : p == LS_PARTIAL ? IS_PARTIAL : IS_WHOLE; }

/*
 * About how often a tensor's bytes are sent to change its placement; -1: impossible. A rank can take its part of a
 * whole tensor without sending.
 */
static const double travels[STATES][STATES] = {
    [IS_WHOLE] = {[IS_WHOLE] = 0, [IS_CUT] = 0, [IS_PARTIAL] = -1},
    [IS_CUT] = {[IS_WHOLE] = 1, [IS_CUT] = 1, [IS_PARTIAL] = -1},
    [IS_PARTIAL] = {[IS_WHOLE] = 2, [IS_CUT] = 1, [IS_PARTIAL] = 0},
};

/* The placement along one axis. */
static ls_along_placement along(const ls_placements *p, int axis) {
    ls_along_placement is = p->partial & ls_axis_bit(axis) ? LS_PARTIAL : LS_WHOLE;
    for (int d = 0; d < LS_MAX_DIMS; d++)
        if (p->cut[d] & ls_axis_bit(axis)) is = (ls_along_placement)d;
    return is;
}

static const ls_tensor_info *info_of(const ls_question *q, ls_tensor t) { return ls_graph_tensor(q->along->graph, t); }

/* Whether the node that makes the open tensor has an option that makes it in the wanted placement. */
static bool can_make(const ls_question *q, ls_tensor t, ls_along_placement wanted) {
    if (info_of(q, t)->producer < 0) return true; /* a parameter */
    ls_question maker;
    ls_question_ask(q->along, ls_graph_producer(q->along->graph, t), &maker);
    bool can = false;
    for (int k = 0; k < maker.n; k++) can |= ls_option_output(&maker, maker.option[k], info_of(q, t)->output) == wanted;
    return can;
}

/* Whether it is a parameter, or made from one alone, such as a cast of a parameter kept in another type (kept.c). */
static bool is_of_parameter(const ls_question *q, ls_tensor t) {
    const ls_graph *g = q->along->graph;
    while (ls_graph_tensor(g, t)->producer >= 0) {
        const ls_node *maker = ls_graph_producer(g, t);
        if (maker->n_in != 1) return false;
        t = maker->in[0];
    }
    return ls_graph_tensor(g, t)->role == LS_ROLE_PARAMETER;
}

double ls_placements_travel(const ls_placements *from, const ls_placements *to) {
    double times = 0;
    for (int a = 0; a < LS_MESH_AXES; a++) {
        const ls_along_placement is = along(from, a), wanted = along(to, a);
        const double more = is == wanted ? 0 : travels[state_of(is)][state_of(wanted)];
        if (more < 0) return -1;
        times += more;
    }
    return times;
}

bool ls_placements_gather(const ls_placements *from, const ls_placements *to) {
    bool gathers = false;
    for (int a = 0; a < LS_MESH_AXES; a++) gathers |= along(from, a) >= 0 && along(to, a) == LS_WHOLE;
    return gathers;
}

/* Whether an earlier reader had the tensor brought into this placement, and the result still exists for the node. */
static bool is_made(const ls_question *q, const ls_decided *decided, ls_tensor t, ls_along_placement p) {
    const bool backward = ls_is_backward(q->along->graph, (int)(q->node - q->along->graph->nodes));
    if (decided->made[t.id] & ls_form_made(p, backward)) return true;
    const bool held = decided->at[t.id] == LS_PARTIAL || decided->gathered == t.id;
    return p == LS_WHOLE && backward && held && (decided->made[t.id] & ls_form_made(p, false));
}

/* How often the bytes of a tensor that is not open are sent, from the cheapest of the placements in which it exists. */
static double times_from(const ls_question *q, const ls_decided *decided, ls_tensor t, ls_along_placement wanted) {
    double least = -1;
    bool made = false;
    for (ls_along_placement p = LS_WHOLE; p < LS_MAX_DIMS; p++) {
        if (!is_made(q, decided, t, p)) continue;
        const double times = p == wanted ? 0 : travels[state_of(p)][state_of(wanted)];
        if (times >= 0 && (least < 0 || times < least)) least = times;
        made = true;
    }
    const ls_along_placement is = decided->at[t.id];
    if (is == LS_PARTIAL && made) return least; /* the sum is read in a placement that already exists */
    const double times = is == wanted ? 0 : travels[state_of(is)][state_of(wanted)];
    return least < 0 || (times >= 0 && times < least) ? times : least;
}

static double times_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor t = q->node->in[i];
    const ls_along_placement is = decided->at[t.id];
    if (is == wanted && is != LS_PARTIAL) return 0;
    if (is != wanted && q->node->forward >= 0 && info_of(q, t)->producer == q->node->forward)
        return -1; /* it must be spread as the output of that node */
    if (is == LS_OPEN) return can_make(q, t, wanted) ? 0 : -1;
    /* The gradient of a whole parameter. As a partial sum it is added up once per step, which sends its bytes twice. */
    if (is == LS_OPEN_SUM) return wanted >= 0 ? -1 : wanted == LS_PARTIAL ? 2 : 0;
    /* The node adds to the sum itself, which therefore cannot be redistributed. */
    if (is != wanted && ls_op_adds_to(q->node->op, i)) return -1;
    /* A bias that is added to a partial sum: the first rank adds it, the others add zeros; nothing is sent. */
    const bool bias = q->along->axis->kind == LS_AXIS_FEATURE && is_of_parameter(q, t);
    if (bias && is == LS_WHOLE && wanted == LS_PARTIAL) return 0;
    return times_from(q, decided, t, wanted);
}

static double bytes_of(const ls_tensor_info *info) {
    return (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
}

/* Bytes of a parameter that an option wants whole: with its state, or without if ranks already have parts of it. */
static double memory_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor_info *info = info_of(q, q->node->in[i]);
    const ls_along_placement is = decided->at[q->node->in[i].id];
    if (info->role != LS_ROLE_PARAMETER || wanted >= 0 || (is < 0 && is != LS_OPEN)) return 0;
    const bool has_state = is == LS_OPEN && !info->frozen;
    return has_state ? STATE_BYTES * (double)ls_shape_elements(&info->shape) : bytes_of(info);
}

/*
 * Bytes of an exchange: rows are sent and come back, once each. Since a rank has only its part of the tokens, this is
 * less than for tensors that are gathered or added, whose price is that of the whole tensor.
 */
static double exchange_of(const ls_question *q) {
    double bytes = 0;
    for (int i = 0; i < ls_node_tensors(q->node); i++) {
        const ls_tensor_info *info = info_of(q, ls_node_tensor(q->node, i));
        if (ls_shape_has_factor(&info->shape, LS_FACTOR_SEQUENCE)) bytes += bytes_of(info);
    }
    return bytes / q->along->features->ranks;
}

double ls_option_price(const ls_question *q, const ls_decided *decided, ls_spread_option option, int *misfit) {
    const bool features = q->along->axis->kind == LS_AXIS_FEATURE;
    const bool exchanges = option.way == LS_EXCHANGE;
    const bool shared = exchanges || option.way == LS_CUT || option.way == LS_CUT_PRODUCT;
    double price = exchanges ? exchange_of(q) : features && !shared ? q->work / FLOPS_PER_BYTE : 0;
    for (int o = 0; o < q->node->n_out && features; o++) {
        const ls_tensor t = q->node->out[o];
        if (q->along->features->kept[t.id] && ls_option_output(q, option, o) < 0)
            price += sent_per_kept_byte * bytes_of(info_of(q, t));
    }
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
