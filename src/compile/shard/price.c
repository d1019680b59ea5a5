/*
 * The price of an option, in bytes: those that redistribute its inputs; and along axes of features, whose purpose is
 * that ranks share work and memory, the work that each rank does again and the memory of what stays whole: parameters,
 * and what is kept for the backward pass.
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

/*
 * A byte that is kept from the forward pass to the backward pass counts as so many that are sent: more than gathering
 * it again does, less than two such gatherings.
 */
static const double sent_per_kept_byte = 1.5;

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

/* What is said of one axis. */
static ls_along_placement along(const ls_placements *p, int axis) {
    ls_along_placement is = p->partial & ls_axis_bit(axis) ? LS_PARTIAL : LS_WHOLE;
    for (int d = 0; d < LS_MAX_DIMS; d++)
        if (p->cut[d] & ls_axis_bit(axis)) is = (ls_along_placement)d;
    return is;
}

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

/* Whether readers have had the tensor made so, and it is still there for the node. */
static bool is_made(const ls_question *q, const ls_decided *decided, ls_tensor t, ls_along_placement p) {
    const bool backward = ls_is_backward(q->along->graph, (int)(q->node - q->along->graph->nodes));
    if (decided->made[t.id] & ls_form_made(p, backward)) return true;
    const bool held = decided->at[t.id] == LS_PARTIAL || decided->gathered == t.id;
    return p == LS_WHOLE && backward && held && (decided->made[t.id] & ls_form_made(p, false));
}

/* How often the bytes of a tensor travel that is not open, from what is cheapest of all that has been made of it. */
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
    if (is == LS_PARTIAL && made) return least; /* the sum is read as it has been made */
    const double times = is == wanted ? 0 : travels[state_of(is)][state_of(wanted)];
    return least < 0 || (times >= 0 && times < least) ? times : least;
}

static double times_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor t = q->node->in[i];
    const ls_along_placement is = decided->at[t.id];
    if (is == wanted && is != LS_PARTIAL) return 0;
    if (is != wanted && q->node->forward >= 0 && info_of(q, t)->producer == q->node->forward)
        return -1; /* spread as that node is */
    if (is == LS_OPEN) return can_make(q, t, wanted) ? 0 : -1;
    /* The gradient of a whole parameter. Its terms are added up once in a step, which sends it twice. */
    if (is == LS_OPEN_SUM) return wanted >= 0 ? -1 : wanted == LS_PARTIAL ? 2 : 0;
    if (is != wanted && ls_op_adds_to(q->node->op, i)) return -1; /* the sum itself is added to */
    /* A bias behind a sum: on the first rank it is a term of the sum, on the others zeros are; nothing is sent. */
    const bool bias = q->along->axis->kind == LS_AXIS_FEATURE && is_of_parameter(q, t);
    if (bias && is == LS_WHOLE && wanted == LS_PARTIAL) return 0;
    return times_from(q, decided, t, wanted);
}

static double bytes_of(const ls_tensor_info *info) {
    return (double)ls_shape_elements(&info->shape) * (double)ls_dtype_bytes(info->dtype);
}

/* Of a parameter that an option wants whole: its own and its state, or its own where ranks have parts of it. */
static double memory_of(const ls_question *q, const ls_decided *decided, int i, ls_along_placement wanted) {
    const ls_tensor_info *info = info_of(q, q->node->in[i]);
    const ls_along_placement is = decided->at[q->node->in[i].id];
    if (info->role != LS_ROLE_PARAMETER || wanted >= 0 || (is < 0 && is != LS_OPEN)) return 0;
    const bool has_state = is == LS_OPEN && !info->frozen;
    return has_state ? STATE_BYTES * (double)ls_shape_elements(&info->shape) : bytes_of(info);
}

/*
 * Of an exchange: rows go there and come back, each once. A rank has its part of the tokens alone, and that is less
 * than what is gathered or added up, which are priced as the whole.
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
