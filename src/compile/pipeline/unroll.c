/*
 * The graph of a stage: the nodes of its chunks, once for each micro-batch, in the order of the timetable. Transfers
 * from and to other stages are nodes too: expect, arrive and send. Parameters and sums are the same tensors in all
 * micro-batches. Of parameters that other stages have, the graph has only the names.
 */
#include "compile/pipeline/pipeline.h"

#include <limits.h>
#include <string.h>

/* Positions within an epoch: grants stand before all nodes of a turn, and sends to other stages after them. */
enum { GRANTED = -(1 << 30), SENT = 1 << 30 };

/*
 * A storage that goes from the stage that makes it to a stage that reads it: in each micro-batch; or once per program:
 * the values of a parameter that another stage has, before all turns; or what this stage has added to the gradient of
 * such a parameter, after all turns.
 */
typedef enum crossing_kind { OF_A_TURN, OF_VALUES, OF_GRADIENTS } crossing_kind;
typedef struct crossing {
    crossing_kind is;
    ls_tensor storage;
    int from, to;      /* stages */
    int chunk;         /* the chunk that makes it, */
    ls_turn_kind kind; /* in turns of this kind */
    bool *read;        /* by chunk and kind of turn: whether these turns read it */
    int channels;      /* used by the micro-batches in turn */
    /*
     * By micro-batch: the slot in which it is sent, and the places of the turns in front of which it arrives and is
     * granted.
     */
    int *sent, *arrives, *granted;
    double *behind; /* as in ls_crossing */
    int came;       /* OF_GRADIENTS: the new tensor that arrives */
} crossing;

typedef struct unrolling {
    const ls_target *target;
    const ls_graph *from;
    const ls_sharding *sharding;
    ls_arena *arena;
    int stage, stages, slices;
    int micro; /* micro-batches of a step; with slices, slices of all of them */
    bool splits;
    ls_rates rates; /* for the durations of turns */
    ls_graph_chunks chunks;
    int *owner; /* by tensor: the stage that has this parameter or gradient */

    ls_graph *to;
    ls_sharding out;
    size_t tensor_capacity, wanted_capacity, node_capacity, unit_capacity, slot_capacity;
    int n_tensors, n_wanted, n_nodes, n_units, n_slots;
    ls_node_slot now; /* the slot of nodes that are added; `before` is for old nodes only */

    int *common; /* by old tensor: the new tensor that all micro-batches share; 0: each has its own */
    int **input; /* by micro-batch and old tensor: new tensors of inputs and of fetched results */
    int **value; /* in this program, by micro-batch and old tensor: the new tensor; 0: not made yet */
    int *shared; /* in this program, by old tensor: the new tensors of other stages' parameters and their gradients */
    int **moved; /* in this program, by micro-batch and old node: the new node */
    const ls_job_program *row;
    crossing *crossings; /* of this program */
    int n_crossings;
    size_t crossing_capacity;
    ls_timetable table;
} unrolling;

/* --- the new graph ------------------------------------------------------------------------------------------------ */

static ls_tensor push_tensor(unrolling *u, int of, const ls_tensor_info *info) {
    ls_graph *to = u->to;
    ls_tensor_info *made = LS_PUSH(u->arena, to->tensors, to->n_tensors, to->tensor_capacity);
    *made = *info;
    for (int d = 0; d < LS_MAX_DIMS && u->sharding->units != NULL; d++)
        *LS_PUSH(u->arena, u->out.units, u->n_units, u->unit_capacity) = u->sharding->units[of * LS_MAX_DIMS + d];
    *LS_PUSH(u->arena, u->out.tensor, u->n_tensors, u->tensor_capacity) = u->sharding->tensor[of];
    const ls_tensor t = ls_graph_at(to, to->n_tensors - 1);
    made->storage = t;
    made->producer = -1;
    return t;
}

/*
 * Adds a node whose outputs are tensors of the new graph. n: the old node that it copies; -1: it is new, and takes its
 * inputs as they are spread.
 */
static void push_node(unrolling *u, const ls_node *node, int n) {
    ls_graph_own_outputs(u->to, node);
    *LS_PUSH(u->arena, u->to->nodes, u->to->n_nodes, u->to->node_capacity) = *node;
    ls_node_slot *slot = LS_PUSH(u->arena, u->out.slots.node, u->n_slots, u->slot_capacity);
    *slot = u->now;
    if (n < 0) slot->before = -1;
    *LS_PUSH(u->arena, u->out.first_only, u->n_nodes, u->node_capacity) = n >= 0 ? u->sharding->first_only[n] : 0;
    for (int i = 0; i < LS_NODE_INPUTS; i++) {
        const ls_placements *wanted = n >= 0           ? &u->sharding->wanted[n * LS_NODE_INPUTS + i]
                                      : i < node->n_in ? &u->out.tensor[node->in[i].id]
                                                       : &u->out.tensor[0];
        const ls_placements copy = *wanted;
        *LS_PUSH(u->arena, u->out.wanted, u->n_wanted, u->wanted_capacity) = copy;
    }
}

static const ls_tensor_info *storage_of(const unrolling *u, ls_tensor t) {
    return ls_graph_tensor(u->from, ls_graph_tensor(u->from, t)->storage);
}

/* Copies the parameters and sums, which all micro-batches share; then the inputs, once for each micro-batch. */
static void copy_leaves(unrolling *u) {
    const ls_graph *g = u->from;
    for (int t = 0; t < g->n_tensors; t++) {
        ls_tensor_info info = g->tensors[t];
        if (t != 0 && info.role != LS_ROLE_PARAMETER && info.role != LS_ROLE_ACCUMULATOR) continue;
        info.elsewhere = info.role == LS_ROLE_PARAMETER && u->owner[t] != u->stage;
        u->common[t] = push_tensor(u, t, &info).id;
    }
    for (int t = 1; t < u->to->n_tensors; t++) {
        ls_tensor_info *info = &u->to->tensors[t];
        if (info->of.id != 0) info->of = ls_graph_at(u->to, u->common[info->of.id]);
    }
    for (int j = 0; j < u->micro; j++) {
        u->input[j] = LS_NEW_ARRAY(u->arena, int, g->n_tensors);
        for (int t = 1; t < g->n_tensors; t++) {
            ls_tensor_info info = g->tensors[t];
            char name[LS_MICRO_NAME];
            if (info.role != LS_ROLE_INPUT) continue;
            info.name = ls_arena_strdup(u->arena, ls_micro_name(info.name, j, name));
            info.slice = j % u->slices;
            u->input[j][t] = push_tensor(u, t, &info).id;
        }
    }
}

/* --- who makes and reads what ------------------------------------------------------------------------------------- */

static int stage_of(const unrolling *u, int chunk) { return chunk % u->stages; }

static ls_turn_kind kind_of(const unrolling *u, int n) {
    if (n < ls_forward_nodes(u->from)) return LS_TURN_FORWARD;
    return u->splits && u->chunks.weight[n] ? LS_TURN_WEIGHTS : LS_TURN_BACKWARD;
}

/* The stages that have the parameters. If nodes of several stages read one, the first reader's stage has it. */
static void find_owners(unrolling *u) {
    const ls_graph *g = u->from;
    u->owner = LS_NEW_ARRAY(u->arena, int, g->n_tensors);
    for (int t = 0; t < g->n_tensors; t++) u->owner[t] = -1;
    for (int n = 0; n < g->n_nodes; n++) {
        for (int i = 0; i < g->nodes[n].n_in; i++) {
            const ls_tensor_info *info = storage_of(u, g->nodes[n].in[i]);
            if (info->role != LS_ROLE_PARAMETER || u->chunks.node[n] < 0) continue;
            int *owner = &u->owner[info->storage.id];
            if (*owner < 0) *owner = stage_of(u, u->chunks.node[n]);
        }
    }
    for (int t = 1; t < g->n_tensors; t++)
        if (u->owner[t] < 0) u->owner[t] = u->stages - 1; /* no node reads it */
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].role == LS_ROLE_ACCUMULATOR && g->tensors[t].of.id != 0)
            u->owner[t] = u->owner[g->tensors[t].of.id];
}

/* Whether it is a parameter, or the gradient of one. */
static bool is_owned(const ls_tensor_info *info) {
    return info->role == LS_ROLE_PARAMETER || (info->role == LS_ROLE_ACCUMULATOR && info->of.id != 0);
}

/* The crossing of the storage from a chunk to a stage; added if there is none yet. */
static crossing *crossing_of(unrolling *u, ls_tensor storage, int chunk, ls_turn_kind kind, int to) {
    for (int i = 0; i < u->n_crossings; i++) {
        crossing *c = &u->crossings[i];
        if (c->is == OF_A_TURN && c->storage.id == storage.id && c->chunk == chunk && c->kind == kind && c->to == to)
            return c;
    }
    crossing *c = LS_PUSH(u->arena, u->crossings, u->n_crossings, u->crossing_capacity);
    *c = (crossing){.storage = storage, .from = stage_of(u, chunk), .to = to, .chunk = chunk, .kind = kind};
    c->read = LS_NEW_ARRAY(u->arena, bool, u->chunks.chunks *LS_TURN_KINDS);
    return c;
}

/* Adds a crossing for a parameter or a gradient that a node of `stage` uses and another stage has. */
static void add_owned(unrolling *u, const ls_tensor_info *info, int stage) {
    const bool values = info->role == LS_ROLE_PARAMETER;
    const int owner = u->owner[info->storage.id];
    const crossing wanted = {.is = values ? OF_VALUES : OF_GRADIENTS,
                             .storage = info->storage,
                             .from = values ? owner : stage,
                             .to = values ? stage : owner};
    if (owner == stage) return;
    for (int i = 0; i < u->n_crossings; i++) {
        const crossing *c = &u->crossings[i];
        if (c->is == wanted.is && c->storage.id == wanted.storage.id && c->from == wanted.from && c->to == wanted.to)
            return;
    }
    *LS_PUSH(u->arena, u->crossings, u->n_crossings, u->crossing_capacity) = wanted;
}

/*
 * Finds the crossings between the program's nodes. The producer of a storage is the last node that changes it in place.
 */
static ls_status find_crossings(unrolling *u) {
    const ls_graph *g = u->from;
    u->n_crossings = 0;
    u->crossing_capacity = 0;
    u->crossings = NULL;
    for (int n = u->row->first_node; n < ls_min(u->row->end_node, g->n_nodes); n++) {
        const int chunk = u->chunks.node[n];
        for (int i = 0; i < g->nodes[n].n_in && chunk >= 0; i++) {
            const ls_tensor_info *info = ls_graph_tensor(g, g->nodes[n].in[i]);
            const int from = info->producer >= 0 ? u->chunks.node[info->producer] : -1;
            if (is_owned(storage_of(u, g->nodes[n].in[i]))) {
                add_owned(u, storage_of(u, g->nodes[n].in[i]), stage_of(u, chunk));
                continue;
            }
            if (from < 0 || stage_of(u, from) == stage_of(u, chunk)) continue;
            if (info->producer < u->row->first_node)
                return ls_error(LS_UNSUPPORTED,
                                "a pipeline: stage %d reads \"%s\", which an earlier program left on stage %d",
                                stage_of(u, chunk), info->name, stage_of(u, from));
            if (storage_of(u, g->nodes[n].in[i])->role != LS_ROLE_VALUE)
                return ls_error(LS_UNSUPPORTED,
                                "a pipeline: \"%s\" would go from stage %d to %d; expected a result of a node",
                                info->name, stage_of(u, from), stage_of(u, chunk));
            const ls_turn_kind kind = kind_of(u, info->producer), reads = kind_of(u, n);
            const bool right = kind == LS_TURN_FORWARD ? from < chunk : reads != LS_TURN_FORWARD && from > chunk;
            if (!right)
                return ls_error(LS_UNSUPPORTED,
                                "a pipeline: op %s of part %d reads \"%s\" of part %d, which is computed later",
                                g->nodes[n].op->name, chunk, info->name, from);
            crossing_of(u, info->storage, from, kind, stage_of(u, chunk))->read[chunk * LS_TURN_KINDS + (int)reads] =
                true;
        }
    }
    return ls_ok();
}

/* --- when --------------------------------------------------------------------------------------------------------- */

/* The index of the turn in the list of its stage. */
static int place_of(const unrolling *u, int stage, ls_turn_kind kind, int chunk, int micro) {
    const ls_turn *list = u->table.of_stage[stage];
    int i = 0;
    while (list[i].kind != kind || list[i].chunk != chunk || list[i].micro != micro) i++;
    return i;
}

static int slot_at(const unrolling *u, int stage, int place) { return u->table.of_stage[stage][place].begin + 1; }

/* How often a program sends it. */
static int times_of(const unrolling *u, const crossing *c) { return c->is == OF_A_TURN ? u->micro : 1; }

static int sent_in(const unrolling *u, const crossing *c, int micro) {
    if (c->is == OF_VALUES) return 0;
    if (c->is == OF_GRADIENTS) return slot_at(u, c->from, u->table.n_of_stage[c->from] - 1);
    return slot_at(u, c->from, place_of(u, c->from, c->kind, c->chunk, micro));
}

/* The place of the first turn that reads it; for gradients, the place after all turns. */
static int arrives_at(const unrolling *u, const crossing *c, int micro) {
    const ls_turn *list = u->table.of_stage[c->to];
    int i = 0;
    if (c->is == OF_VALUES) return 0;
    if (c->is == OF_GRADIENTS) return u->table.n_of_stage[c->to];
    while (list[i].micro != micro || !c->read[list[i].chunk * LS_TURN_KINDS + (int)list[i].kind]) i++;
    return i;
}

/* Seconds from the end of the receiver's previous turn to the end of the turn that sends it. */
static double behind_of(const unrolling *u, const crossing *c, int micro, int arrives) {
    if (c->is == OF_VALUES) return 0;
    const int last = u->table.n_of_stage[c->from] - 1;
    const int from = c->is == OF_GRADIENTS ? last : place_of(u, c->from, c->kind, c->chunk, micro);
    const int before = arrives > 0 ? u->table.of_stage[c->to][arrives - 1].end : 0;
    return (u->table.of_stage[c->from][from].end - before) * u->table.unit;
}

/*
 * The place of the turn in front of which the slot is granted: the last turn that begins no later than the transfer is
 * sent; -1: before all turns.
 */
static int granted_at(const unrolling *u, const crossing *c, int sent) {
    int i = 0;
    while (i < u->table.n_of_stage[c->to] && slot_at(u, c->to, i) <= sent) i++;
    return i - 1;
}

/*
 * Finds when it is sent, arrives and is granted, and how many channels it needs: the next grant of a channel must come
 * after the previous arrival on it, so there is a channel for each grant that may be open at once.
 */
static void find_times(const unrolling *u, crossing *c) {
    const int n = times_of(u, c);
    c->sent = LS_NEW_ARRAY(u->arena, int, n);
    c->arrives = LS_NEW_ARRAY(u->arena, int, n);
    c->granted = LS_NEW_ARRAY(u->arena, int, n);
    c->behind = LS_NEW_ARRAY(u->arena, double, n);
    c->channels = 1;
    for (int j = 0, first = 0; j < n; j++) {
        c->sent[j] = sent_in(u, c, j);
        c->arrives[j] = arrives_at(u, c, j);
        c->behind[j] = behind_of(u, c, j, c->arrives[j]);
        c->granted[j] = granted_at(u, c, c->sent[j]);
        while (first < j && c->arrives[first] < c->granted[j]) first++;
        c->channels = (int)ls_max(c->channels, j - first + 1);
    }
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static void emit(unrolling *u, int micro, int n);

/* The new tensor of a micro-batch. A node that depends on inputs alone is added where its result is first read. */
static ls_tensor tensor_of(unrolling *u, int micro, ls_tensor t) {
    if (t.id == 0) return t;
    int *const value = &u->value[micro][t.id];
    if (u->shared[t.id] != 0) return ls_graph_at(u->to, u->shared[t.id]);
    if (u->common[t.id] != 0) return ls_graph_at(u->to, u->common[t.id]);
    const ls_tensor_info *info = ls_graph_tensor(u->from, t);
    /* From the host, or from an earlier program. */
    if (u->input[micro][t.id] != 0 && info->producer < u->row->first_node)
        return ls_graph_at(u->to, u->input[micro][t.id]);
    if (*value == 0 && info->producer >= 0 && u->chunks.node[info->producer] == LS_ANY_CHUNK)
        emit(u, micro, info->producer);
    if (*value == 0) { /* another view of a storage that has arrived */
        const ls_tensor storage = tensor_of(u, micro, info->storage);
        *value = push_tensor(u, t.id, info).id;
        u->to->tensors[*value].storage = u->to->tensors[storage.id].storage;
        u->to->tensors[*value].producer = u->to->tensors[storage.id].producer;
    }
    return ls_graph_at(u->to, *value);
}

static ls_tensor output_of(unrolling *u, int micro, ls_tensor t) {
    const int fetched = u->input[micro][t.id];
    u->value[micro][t.id] = fetched != 0 ? fetched : push_tensor(u, t.id, ls_graph_tensor(u->from, t)).id;
    return ls_graph_at(u->to, u->value[micro][t.id]);
}

static void emit(unrolling *u, int micro, int n) {
    ls_node node = u->from->nodes[n];
    for (int i = 0; i < node.n_in; i++) node.in[i] = tensor_of(u, micro, node.in[i]);
    for (int o = 0; o < node.n_out; o++) node.out[o] = output_of(u, micro, node.out[o]);
    if (node.forward >= 0) node.forward = u->moved[micro][node.forward];
    u->now.before = node.op->earlier != 0 && node.forward < 0 && micro % u->slices > 0 ? u->moved[micro - 1][n] : -1;
    u->moved[micro][n] = u->to->n_nodes;
    push_node(u, &node, n);
}

static const ls_crossing *params_of(unrolling *u, int number, int micro) {
    const crossing *c = &u->crossings[number];
    ls_crossing *params = LS_NEW(u->arena, ls_crossing);
    const int place = c->granted[micro], order = number * u->micro + micro;
    *params = (ls_crossing){
        .name = ls_arena_printf(u->arena, "stage %d to %d.%d.%d", c->from, c->to, number, micro % c->channels),
        .from = c->from,
        .to = c->to,
        .granted = {place >= 0 ? slot_at(u, c->to, place) : 0, GRANTED + order, 0},
        .sent = {c->sent[micro], SENT + order, 0},
        .behind = c->behind[micro]};
    return params;
}

/* The channels of all crossings, in the same order on all ranks. */
static void list_channels(unrolling *u, ls_job_program *row) {
    const char **list = NULL;
    size_t capacity = 0;
    for (int i = 0; i < u->n_crossings; i++)
        for (int j = 0; j < u->crossings[i].channels; j++)
            *LS_PUSH(u->arena, list, row->n_channels, capacity) = params_of(u, i, j)->name;
    row->channels = list;
}

/* Adds a value with the form of an old tensor. */
static ls_tensor push_value(unrolling *u, ls_tensor of) {
    ls_tensor_info info = *ls_graph_tensor(u->from, of);
    info.role = LS_ROLE_VALUE;
    info.of = LS_NO_TENSOR;
    return push_tensor(u, of.id, &info);
}

/*
 * Where the new tensor of a crossing is stored on this stage. For a gradient this is not the sum to which the stage's
 * own nodes add.
 */
static int *there(const unrolling *u, const crossing *c, int micro) {
    return c->is == OF_A_TURN   ? &u->value[micro][c->storage.id]
           : c->is == OF_VALUES ? &u->shared[c->storage.id]
                                : &u->crossings[c - u->crossings].came;
}

static ls_node crossing_node(unrolling *u, const ls_op *op, int number, int micro) {
    return (ls_node){.op = op,
                     .params = params_of(u, number, micro),
                     .params_bytes = sizeof(ls_crossing),
                     .forward = -1,
                     .n_in = op->most_in,
                     .n_out = op->n_out};
}

/* Adds the nodes that grant slots in front of the turn at that place of this stage. */
static void expect(unrolling *u, int place) {
    for (int i = 0; i < u->n_crossings; i++) {
        const crossing *c = &u->crossings[i];
        for (int j = 0; j < times_of(u, c) && c->to == u->stage; j++) {
            if (c->granted[j] != place) continue;
            ls_node node = crossing_node(u, &ls_op_stage_expect, i, j);
            node.out[0] = push_value(u, c->storage);
            *there(u, c, j) = node.out[0].id;
            push_node(u, &node, -1);
        }
    }
}

/* Adds the gradient that has arrived to the sum of this stage. */
static void add_gradient(unrolling *u, ls_tensor came, ls_tensor sum) {
    ls_node node = {.op = &ls_op_accumulate, .forward = -1, .n_in = 2, .n_out = 1};
    node.in[0] = came;
    node.in[1] = ls_graph_at(u->to, u->common[sum.id]);
    node.out[0] = push_value(u, sum);
    push_node(u, &node, -1);
}

/* Adds the nodes of what arrives in front of the turn at that place, or after all turns. */
static void arrive(unrolling *u, int place) {
    const bool behind = place == u->table.n_of_stage[u->stage];
    for (int i = 0; i < u->n_crossings; i++) {
        const crossing *c = &u->crossings[i];
        const int j = c->is == OF_A_TURN && !behind ? u->table.of_stage[u->stage][place].micro : 0;
        if (c->to != u->stage || (c->is == OF_A_TURN && behind) || c->arrives[j] != place) continue;
        ls_node node = crossing_node(u, &ls_op_stage_arrive, i, j);
        LS_ASSERT(*there(u, c, j) != 0); /* a slot is granted before its data arrive */
        node.in[0] = ls_graph_at(u->to, *there(u, c, j));
        node.out[0] = push_value(u, c->storage);
        *there(u, c, j) = node.out[0].id;
        push_node(u, &node, -1);
        if (c->is == OF_GRADIENTS) add_gradient(u, node.out[0], c->storage);
    }
}

static void send(unrolling *u, const crossing *c, int micro) {
    ls_node node = crossing_node(u, &ls_op_stage_send, (int)(c - u->crossings), micro);
    node.in[0] = tensor_of(u, micro, c->storage);
    push_node(u, &node, -1);
}

static void send_of_turn(unrolling *u, const ls_turn *turn) {
    for (int i = 0; i < u->n_crossings; i++) {
        const crossing *c = &u->crossings[i];
        const bool made = c->is == OF_A_TURN && c->chunk == turn->chunk && c->kind == turn->kind;
        if (made && c->from == u->stage) send(u, c, turn->micro);
    }
}

static void send_all(unrolling *u, crossing_kind is) {
    for (int i = 0; i < u->n_crossings; i++)
        if (u->crossings[i].is == is && u->crossings[i].from == u->stage) send(u, &u->crossings[i], 0);
}

/* The sums of gradients whose parameters are on other stages begin with zeros. */
static void begin_gradients(unrolling *u) {
    for (int i = 0; i < u->n_crossings; i++) {
        const crossing *c = &u->crossings[i];
        if (c->is != OF_GRADIENTS || c->from != u->stage) continue;
        const ls_tensor_info *info = ls_graph_tensor(u->from, c->storage);
        ls_node node = {
            .op = &ls_op_zeros, .params = &info->shape, .params_bytes = sizeof info->shape, .forward = -1, .n_out = 1};
        node.out[0] = push_value(u, c->storage);
        u->shared[c->storage.id] = node.out[0].id;
        push_node(u, &node, -1);
    }
}

/*
 * Results that the host fetches but that depend on inputs alone, so that perhaps no node reads them: the first stage
 * makes them.
 */
static void make_fetched(unrolling *u, int micro) {
    for (int n = u->row->first_node; n < ls_min(u->row->end_node, u->from->n_nodes); n++) {
        const ls_node *node = &u->from->nodes[n];
        for (int o = 0; o < node->n_out && u->chunks.node[n] == LS_ANY_CHUNK; o++)
            if (u->input[micro][node->out[o].id] != 0) (void)tensor_of(u, micro, node->out[o]);
    }
}

static void take_turn(unrolling *u, int place) {
    const ls_turn *turn = &u->table.of_stage[u->stage][place];
    u->now.slot = turn->begin + 1;
    u->now.micro = turn->micro;
    u->now.forward = turn->kind == LS_TURN_FORWARD;
    expect(u, place);
    arrive(u, place);
    for (int n = u->row->first_node; n < ls_min(u->row->end_node, u->from->n_nodes); n++)
        if (u->chunks.node[n] == turn->chunk && kind_of(u, n) == turn->kind) emit(u, turn->micro, n);
    if (turn->chunk == 0 && turn->kind == LS_TURN_FORWARD) make_fetched(u, turn->micro);
    send_of_turn(u, turn);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static ls_status unroll_program(unrolling *u, ls_job_program *row) {
    const ls_graph *g = u->from;
    u->row = row;
    const bool backward = ls_min(row->end_node, g->n_nodes) > ls_forward_nodes(g);
    ls_pipelining of = {.schedule = u->target->schedule != NULL ? u->target->schedule : ls_pipeline_schedule_at(0),
                        .stages = u->stages,
                        .chunks = u->chunks.chunks,
                        .micro = u->micro,
                        .slices = u->slices,
                        .backward = backward};
    ls_turns_take(&of, g, &u->chunks, row, &u->rates, ls_mesh_ranks(&u->target->mesh) / u->stages, u->arena);
    LS_TRY(ls_timetable_make(&of, u->arena, &u->table));
    LS_TRY(find_crossings(u));
    for (int i = 0; i < u->n_crossings; i++) find_times(u, &u->crossings[i]);
    for (int j = 0; j < u->micro; j++) {
        u->value[j] = LS_NEW_ARRAY(u->arena, int, g->n_tensors);
        u->moved[j] = LS_NEW_ARRAY(u->arena, int, g->n_nodes);
    }
    u->shared = LS_NEW_ARRAY(u->arena, int, g->n_tensors);
    const int first = u->to->n_nodes, turns = u->table.n_of_stage[u->stage];
    u->now.slot = 0;
    expect(u, -1);
    send_all(u, OF_VALUES);
    begin_gradients(u);
    for (int i = 0; i < turns; i++) take_turn(u, i);
    send_all(u, OF_GRADIENTS);
    u->now.slot = u->table.end + 1;
    arrive(u, turns);
    row->first_node = first;
    row->end_node = u->to->n_nodes;
    list_channels(u, row);
    return ls_ok();
}

/*
 * The results that the host fetches from each micro-batch: one tensor for all programs that make it. Stages that do not
 * make it have only its name.
 */
static ls_status copy_fetched(unrolling *u, ls_job *job) {
    size_t capacity = 0;
    ls_tensor *fetch = NULL;
    int n = 0;
    for (int f = 0; f < job->n_fetch; f++) {
        ls_tensor_info info = *ls_graph_tensor(u->from, job->fetch[f]);
        if (u->slices > 1 && !ls_shape_has_factor(&info.shape, LS_FACTOR_SEQUENCE))
            return ls_error(LS_UNSUPPORTED,
                            "--slices %d: the output \"%s\" has no dimension of the sequence; expected whole sequences",
                            u->slices, info.name);
        for (int j = 0; j < u->micro && info.role == LS_ROLE_VALUE; j++) {
            char name[LS_MICRO_NAME];
            ls_tensor_info copy = info;
            copy.name = ls_arena_strdup(u->arena, ls_micro_name(info.name, j, name));
            copy.slice = j % u->slices;
            copy.elsewhere = stage_of(u, (int)ls_max(0, u->chunks.node[info.producer])) != u->stage;
            const ls_tensor made = push_tensor(u, job->fetch[f].id, &copy);
            if (!copy.elsewhere) u->input[j][job->fetch[f].id] = made.id;
            *LS_PUSH(u->arena, fetch, n, capacity) = made;
        }
    }
    job->fetch = fetch;
    job->n_fetch = n;
    return ls_ok();
}

ls_status ls_unroll(ls_job *job, const ls_target *target, ls_arena *arena, ls_sharding *sharding) {
    const ls_graph *g = job->graph;
    unrolling u = {.target = target,
                   .from = g,
                   .sharding = sharding,
                   .arena = arena,
                   .stages = ls_mesh_stages(&target->mesh),
                   .stage = ls_mesh_stage(&target->mesh, target->rank),
                   .slices = ls_target_slices(target),
                   .micro = (int)ls_max(1, job->micro_batches) * ls_target_slices(target),
                   .splits = target->schedule != NULL && ls_pipeline_schedule_splits(target->schedule),
                   .to = ls_graph_bare(g, arena)};
    if (u.stages == 1) return ls_ok();
    ls_cut_graph(job, arena, &u.chunks);
    LS_ASSERT(u.chunks.chunks == ls_pipeline_chunks(target));
    LS_TRY(ls_durations_rates(target, g->dtype, &u.rates));
    find_owners(&u);
    u.common = LS_NEW_ARRAY(arena, int, g->n_tensors);
    u.input = LS_NEW_ARRAY(arena, int *, u.micro);
    u.value = LS_NEW_ARRAY(arena, int *, u.micro);
    u.moved = LS_NEW_ARRAY(arena, int *, u.micro);
    copy_leaves(&u);
    ls_job made = *job;
    LS_TRY(copy_fetched(&u, &made));
    u.to->forward_nodes = 0;
    ls_job_program *list = ls_arena_copy(arena, job->programs.list, sizeof *list * (size_t)job->programs.n);
    for (int p = 0; p < job->programs.n; p++) {
        LS_TRY(unroll_program(&u, &list[p]));
        u.out.slots.last = (int)ls_max(u.out.slots.last, u.table.end + 2);
    }
    made.programs.list = list;
    made.graph = u.to;
    *job = made;
    *sharding = u.out;
    return ls_ok();
}
