/*
 * What outlives a program: inputs, tables, parameters, sums of gradients, state of the optimiser; and the names by
 * which the host finds them.
 */
#include "compile/attention/attention.h"
#include "compile/optimizer/optimizer.h"

#include <string.h>

static void bind(ls_builder *b, const char *name, ls_operand operand, const ls_shape *shape, const ls_axes *cut) {
    ls_image *image = b->image;
    ls_binding *binding = LS_PUSH(image->arena, image->bindings, image->n_bindings, image->binding_capacity);
    binding->name = ls_arena_strdup(image->arena, name);
    binding->operand = operand;
    if (shape != NULL) binding->shape = *shape;
    for (int i = 0; cut != NULL && i < LS_MAX_DIMS; i++) binding->cut[i] = cut[i];
}

/* A private vector that the host finds by name. */
static ls_operand bind_vector(ls_builder *b, const char *name, ls_buffer_kind kind, ls_dtype dtype, int64_t n) {
    const ls_operand operand = ls_build_private(b, kind, name, dtype, 1, &n);
    const ls_shape shape = {1, {{n, LS_FACTOR_NONE}}};
    bind(b, name, operand, &shape, NULL);
    return operand;
}

/* The number of elements before a bucket: in the flat space, or in a rank's shard. */
static int64_t elements_before(const ls_image *image, int bucket, bool sharded) {
    if (bucket == image->n_pieces) return sharded ? image->shard_count : image->flat_elements;
    return sharded ? image->pieces[bucket].at : image->pieces[bucket].start;
}

/* Binds to a name the buckets first .. past - 1 of the flat space. */
static const ls_binding *bind_flat(ls_builder *b, const char *name, int first, int past, ls_operand operand,
                                   bool sharded) {
    const ls_image *image = b->image;
    const int64_t n = elements_before(image, past, false) - elements_before(image, first, false);
    const ls_shape shape = {1, {{n, LS_FACTOR_NONE}}};
    bind(b, name, operand, &shape, NULL);
    ls_binding *binding = &b->image->bindings[b->image->n_bindings - 1];
    binding->flat = true;
    binding->sharded = sharded;
    binding->first = first;
    binding->past = past;
    return binding;
}

/* The same for all buckets of trained parameters. */
static void bind_trained(ls_builder *b, const char *name, ls_operand operand, bool sharded) {
    (void)bind_flat(b, name, 0, b->image->n_trained_pieces, operand, sharded);
}

/* The number of elements of trained parameters that this rank holds. */
static int64_t trained_held(const ls_builder *b, bool sharded) {
    return sharded ? b->image->trained_shard : b->image->trained_elements;
}

/* A new buffer of gradients in private memory, bound to the name. */
static ls_operand bind_gradients(ls_builder *b, const char *name, bool sharded) {
    const int64_t n = trained_held(b, sharded);
    const ls_operand sums = ls_build_private(b, LS_BUFFER_GRADIENT, name, b->image->accumulator, 1, &n);
    bind_trained(b, name, sums, sharded);
    return sums;
}

static ls_binding *bind_tensor(ls_builder *b, ls_tensor t, ls_operand operand) {
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    ls_axes cut[LS_MAX_DIMS] = {0};
    for (int i = 0; i < info->shape.ndim; i++) cut[i] = b->sharding->tensor[t.id].cut[i];
    bind(b, info->name, operand, &info->shape, cut);
    ls_binding *binding = &b->image->bindings[b->image->n_bindings - 1];
    binding->slice = info->slice;
    for (int i = 0; i < info->shape.ndim; i++)
        if (info->shape.dim[i].factor == LS_FACTOR_SEQUENCE) binding->shape.dim[i].size *= b->image->slices;
    binding->partial = b->sharding->tensor[t.id].partial;
    if (info->role == LS_ROLE_ACCUMULATOR) binding->partial |= ls_mesh_axes(&b->target->mesh, LS_AXIS_STAGE);
    return binding;
}

/* Whether some program adds to sums of gradients that earlier programs have left. */
static bool adds_gradients(const ls_builder *b) {
    const ls_job_programs *programs = &b->job->programs;
    bool adds = false;
    for (int p = 0; p < programs->n; p++) adds |= programs->list[p].sums != LS_SUMS_BEGUN;
    return adds;
}

/*
 * Places the tensors of this role (parameters, or gradients that all persist), each at its part of the one buffer that
 * is bound to the name.
 */
static void place_in_flat(ls_builder *b, ls_role role, const char *name) {
    const ls_graph *g = b->job->graph;
    const ls_image *image = b->image;
    const ls_binding *binding = ls_image_find(image, name);
    const int64_t base = ls_binding_base(image, binding), end = elements_before(image, binding->past, false);
    b->image->buffers[binding->operand.buffer].flat = base;
    for (int t = 1; t < g->n_tensors; t++) {
        if (b->packing->flat_of[t] < 0 || g->tensors[t].role != role) continue;
        const ls_flat *flat = &image->flats[b->packing->flat_of[t]];
        if (flat->start >= base && flat->start < end)
            b->tensor[t] = ls_operand_slice(binding->operand, 0, flat->start - base, flat->count);
    }
}

/* Places the parameters of buckets first .. past - 1. */
static void place_values(ls_builder *b, const char *name, ls_space space, int first, int past) {
    const bool sharded = b->packing->cut->parameters;
    if (first == past) return;
    const ls_dtype dtype = b->image->flats[b->packing->groups[b->packing->buckets[first].group].first].dtype;
    const int64_t n = elements_before(b->image, past, sharded) - elements_before(b->image, first, sharded);
    const int buffer = ls_build_buffer(b, space, LS_BUFFER_PARAMETER, (size_t)n * ls_dtype_bytes(dtype), name);
    (void)bind_flat(b, name, first, past, ls_operand_dense(buffer, 0, dtype, 1, &n), sharded);
    if (!sharded) place_in_flat(b, LS_ROLE_PARAMETER, name);
}

/* The number of ranks of a host that share the memory of parameters that no program changes; 1: each has its own. */
static int find_sharers(const ls_builder *b) {
    if (!b->job->filled_together || b->packing->cut->parameters) return 1;
    return ls_least_sharers(&b->target->mesh, &b->image->owners, b->target->host_ranks);
}

/* Parameters that other ranks update and put here lie in the heap. */
static void place_parameters(ls_builder *b) {
    ls_image *image = b->image;
    const bool updates = ls_job_updates(b->job, LS_UPDATE_APPLY);
    const bool put = b->packing->cut->state && !b->packing->cut->parameters;
    image->host_ranks = b->target->host_ranks;
    image->sharers = find_sharers(b);
    const ls_space constant = image->sharers > 1 ? LS_COMMON : LS_PRIVATE;
    const int trained = image->n_trained_pieces, typed = image->n_typed_pieces;
    place_values(b, LS_BIND_PARAMETERS, !updates ? constant : put ? LS_SYMMETRIC : LS_PRIVATE, 0, trained);
    place_values(b, LS_BIND_FROZEN, constant, trained, typed);
    place_values(b, LS_BIND_KEPT, constant, typed, image->n_pieces);
}

/*
 * Gradients outlive programs if micro-batches are added up, or if one rank has all gradients: the sums of this rank, or
 * its shard of the sums over the ranks. Else each group of gradients lives from the first addition to it until it has
 * been sent (reduce.c).
 */
static void place_gradients(ls_builder *b) {
    const bool alone = ls_gradients_stay(b);
    const bool reduces = ls_job_updates(b->job, LS_UPDATE_REDUCE);
    const bool persist = adds_gradients(b) || (reduces && alone);
    ls_operand sums = {.buffer = -1};
    if (persist && !b->packing->cut->gradients) {
        sums = bind_gradients(b, LS_BIND_GRADIENTS, false);
        place_in_flat(b, LS_ROLE_ACCUMULATOR, LS_BIND_GRADIENTS);
    }
    if (!reduces) return;
    if (alone)
        bind_trained(b, LS_BIND_SHARD, sums, true);
    else
        sums = bind_gradients(b, LS_BIND_SHARD, true);
    if (persist && b->packing->cut->gradients) bind_trained(b, LS_BIND_GRADIENTS, sums, true);
}

/*
 * The number of elements, of the trained parameters that a rank holds, that have the state: all, or those before the
 * whole matrices.
 */
static int64_t state_count(const ls_builder *b, const ls_optimizer_state *state, bool sharded) {
    int g = 0;
    while (g < b->packing->n_trained && !(state->not_matrices && b->image->flats[b->packing->groups[g].first].matrix))
        g++;
    if (g == b->packing->n_trained) return trained_held(b, sharded);
    return sharded ? b->image->pieces[b->packing->groups[g].first_bucket].at : b->packing->groups[g].start;
}

/* Binds a vector of the optimiser's state. */
static void bind_state(ls_builder *b, const char *name, int64_t n) {
    const ls_dtype dtype = b->image->accumulator;
    const ls_space space = b->target->saving.offload_state ? LS_HOST : LS_PRIVATE;
    const int buffer = ls_build_buffer(b, space, LS_BUFFER_OPTIMIZER, (size_t)n * ls_dtype_bytes(dtype), name);
    bind_trained(b, name, ls_operand_dense(buffer, 0, dtype, 1, &n), b->packing->cut->state);
}

/* Lists the states of the job's optimiser, and the average of parameters if there is one. */
static void list_states(ls_builder *b) {
    const ls_optimizer *optimizer = ls_job_optimizer(b->job);
    ls_optimizer_state *states = LS_NEW_ARRAY(b->image->arena, ls_optimizer_state, optimizer->n_states + 1);
    for (int i = 0; i < optimizer->n_states; i++) states[i] = optimizer->states[i];
    states[optimizer->n_states] = ls_average_state;
    b->image->states = states;
    b->image->n_states = optimizer->n_states + (b->job->average > 0);
}

static void place_optimizer(ls_builder *b) {
    ls_image *image = b->image;
    const bool sharded = b->packing->cut->state;
    if (!ls_job_updates(b->job, LS_UPDATE_REDUCE)) return;
    (void)bind_vector(b, LS_BIND_TOTALS, LS_BUFFER_INPUT, LS_F64, LS_TOTALS);
    (void)bind_vector(b, LS_BIND_RESULT, LS_BUFFER_OUTPUT, LS_F64, LS_TOTALS);
    if (b->target->canonical) (void)bind_vector(b, LS_BIND_EXACT_LOSS, LS_BUFFER_OUTPUT, LS_F64, LS_EXACT_WORDS);
    if (!b->packing->trains || !ls_job_updates(b->job, LS_UPDATE_APPLY)) return;
    (void)bind_vector(b, LS_BIND_HYPER, LS_BUFFER_INPUT, LS_F64, LS_HYPERS);
    (void)bind_vector(b, LS_BIND_CONTROL, LS_BUFFER_OUTPUT, LS_F64, LS_CONTROLS);
    list_states(b); /* also on ranks without trained parameters: all that write a checkpoint know what is in it */
    if (b->packing->n_trained == 0) return;
    for (int i = 0; i < image->n_states; i++) {
        const int64_t count = state_count(b, &image->states[i], sharded);
        if (count > 0) bind_state(b, image->states[i].binding, count);
    }
    if (image->dtype != image->accumulator) /* else the parameters are the masters */
        bind_state(b, LS_BIND_MASTER, trained_held(b, sharded));
    const int64_t units = trained_held(b, sharded) / LS_FLAT_UNIT;
    const ls_operand groups = ls_build_private(b, LS_BUFFER_TABLE, LS_BIND_GROUPS, LS_I32, 1, &units);
    bind_trained(b, LS_BIND_GROUPS, groups, sharded);
    const int64_t size[] = {image->n_settings, 2};
    const ls_shape shape = {2, {{size[0], LS_FACTOR_NONE}, {size[1], LS_FACTOR_NONE}}};
    bind(b, LS_BIND_SETTINGS, ls_build_private(b, LS_BUFFER_TABLE, LS_BIND_SETTINGS, LS_F64, 2, size), &shape, NULL);
}

/*
 * Places the tables that lowerings read and the host fills, as each node's lowering says; and once the positions of all
 * tokens.
 */
static void place_tables(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    ls_image *image = b->image;
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_lowering *lowering = ls_lowering_of(g->nodes[n].op);
        if (lowering->tables != NULL) lowering->tables(b, n);
        ls_place_rows(b, n);
    }
    image->positions.buffer = -1;
    if (b->sites->reads_positions)
        image->positions =
            ls_build_private(b, LS_BUFFER_TABLE, "positions", LS_I32, 1, (int64_t[]){image->slices * image->layout.S});
}

/* Binds a tensor that the host fetches. If another stage has the tensor, the binding has a shape and no bytes. */
static void bind_fetched(ls_builder *b, ls_tensor t) {
    const ls_graph *g = b->job->graph;
    const ls_tensor storage = ls_graph_tensor(g, t)->storage;
    const ls_tensor_info *info = ls_graph_tensor(g, storage);
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, storage, size);
    if (!info->elsewhere && b->tensor[storage.id].buffer < 0)
        b->tensor[storage.id] = ls_build_private(b, LS_BUFFER_OUTPUT, info->name, info->dtype, info->shape.ndim, size);
    const ls_operand form = ls_operand_dense(-1, 0, info->dtype, info->shape.ndim, size);
    ls_binding *binding = bind_tensor(b, t, info->elsewhere ? form : ls_lower_tensor(b, t));
    binding->alone = ls_mesh_axes(&b->target->mesh, LS_AXIS_STAGE);
    binding->elsewhere = info->elsewhere;
}

void ls_lower_persistent(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    b->program = NULL;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        const bool loss = info->role == LS_ROLE_ACCUMULATOR && info->of.id == 0;
        if (info->role != LS_ROLE_INPUT && !loss) continue;
        b->tensor[t] = ls_lower_place(b, loss ? LS_BUFFER_OUTPUT : LS_BUFFER_INPUT, ls_graph_at(g, t));
        (void)bind_tensor(b, ls_graph_at(g, t), b->tensor[t]);
    }
    place_tables(b);
    ls_lay_flat(b);
    place_parameters(b);
    if (b->packing->n_trained > 0) place_gradients(b);
    place_optimizer(b);
    for (int i = 0; i < b->job->n_fetch; i++) bind_fetched(b, b->job->fetch[i]);
}
