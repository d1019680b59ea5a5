/* Compiles for one rank: all passes, one after the other. */
#include "compile/attention/attention.h"
#include "compile/pass.h"
#include "compile/pipeline/pipeline.h"

#include "device/device.h"

static ls_operand nowhere(void) { return (ls_operand){.buffer = -1}; }

/* Values get no place before the next program; persistent tensors keep theirs. */
static void forget_values(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    for (int t = 0; t < g->n_tensors; t++) {
        const ls_operand *place = &b->tensor[t];
        if (place->buffer >= 0 && b->image->buffers[place->buffer].program >= 0) b->tensor[t] = nowhere();
    }
}

static void begin_program(ls_builder *b, int index) {
    const ls_job_program *row = &b->job->programs.list[index];
    ls_build_begin_program(b, &b->image->programs[index]);
    for (int c = 0; c < row->n_channels; c++) (void)ls_build_channel(b, "%s", row->channels[c]);
    b->row = row;
    b->program->name = ls_arena_strdup(b->image->arena, row->name);
    b->program->n_nodes = row->end_node - row->first_node;
    b->program->runs = row->runs;
    forget_values(b);
}

/* Checks that every result of an earlier program's nodes that this program reads lies in a persistent buffer. */
static ls_status check_kept(const ls_builder *b) {
    const ls_graph *g = b->job->graph;
    for (int n = b->row->first_node; n < b->row->end_node; n++) {
        const ls_node *node = &g->nodes[n];
        for (int i = 0; i < node->n_in; i++) {
            const ls_tensor storage = ls_graph_tensor(g, node->in[i])->storage;
            const int producer = ls_graph_tensor(g, storage)->producer;
            if (producer < 0 || producer >= b->row->first_node || b->tensor[storage.id].buffer >= 0) continue;
            return ls_error(LS_INVALID,
                            "op %s of program %s reads \"%s\" of an earlier program, which is not kept for it",
                            node->op->name, b->row->name, ls_graph_tensor(g, storage)->name);
        }
    }
    return ls_ok();
}

static ls_status lower_nodes(ls_builder *b) {
    ls_program_nodes nodes;
    LS_TRY(check_kept(b));
    LS_TRY(ls_passes_run(b, &nodes));
    ls_lower_nodes(b, nodes.list, nodes.n);
    return b->status;
}

static ls_status lower_program(ls_builder *b, int index) {
    begin_program(b, index);
    ls_build_fail(b, lower_nodes(b));
    ls_build_end_program(b);
    return b->status;
}

/* Replaces LS_LAST_NODE by the number of nodes of the graph. */
static void end_programs(ls_job *job, ls_arena *arena) {
    ls_job_programs *programs = &job->programs;
    ls_job_program *list = ls_arena_copy(arena, programs->list, sizeof *list * (size_t)programs->n);
    for (int p = 0; p < programs->n; p++) list[p].end_node = (int)ls_min(list[p].end_node, job->graph->n_nodes);
    programs->list = list;
}

/* Allocates the programs of the job; checks its phase table and copies it. */
static ls_status take_phases(ls_builder *b) {
    const ls_job_programs *given = &b->job->programs;
    ls_image *image = b->image;
    image->n_programs = given->n;
    image->programs = LS_NEW_ARRAY(image->arena, ls_program, given->n);
    for (int p = 0; p < given->n; p++) image->programs[p].name = given->list[p].name;
    image->n_phases = given->n_phases;
    image->phases = ls_arena_copy(image->arena, given->phases, sizeof *given->phases * (size_t)given->n_phases);
    return ls_phases_check(image);
}

ls_status ls_spread_job(const ls_job *job, const ls_target *target, ls_arena *arena, ls_job *out,
                        ls_sharding *sharding) {
    *out = *job;
    out->graph = ls_mark_matrices(job, arena);
    LS_TRY(ls_slice_graph(out->graph, target, arena, &out->graph));
    LS_TRY(ls_mark_boundaries(out, target, arena));
    out->graph = ls_recompute(out, target->saving.drop, arena);
    ls_fuse(out, arena);
    ls_cast_kept(out, arena);
    return ls_shard(out->graph, out->graph->n_nodes, &target->mesh, arena, sharding);
}

/* Compiles the builder's job. *job becomes the builder's job with the graph that is compiled. */
static ls_status compile(ls_builder *b, ls_job *job) {
    ls_image *image = b->image;
    ls_sharding sharding;
    ls_job *joined = ls_arena_copy(image->arena, b->job, sizeof *b->job);
    if (ls_mesh_stages(&image->mesh) > 1) joined->programs = ls_joined_programs(&joined->programs, image->arena);
    b->job = joined;
    LS_TRY(take_phases(b));
    LS_TRY(ls_spread_job(b->job, b->target, image->arena, job, &sharding));
    b->job = job;
    ls_redistribute(job, &image->mesh, image->arena, &sharding);
    end_programs(job, image->arena);
    image->micro_batches = ls_mesh_stages(&image->mesh) > 1 ? (int)ls_max(1, job->micro_batches) : 1;
    LS_TRY(ls_unroll(job, b->target, image->arena, &sharding));
    const int n_nodes = job->graph->n_nodes;
    b->sharding = &sharding;
    b->tensor = LS_NEW_ARRAY(image->arena, ls_operand, job->graph->n_tensors);
    b->sites = LS_NEW(image->arena, ls_sites);
    b->sites->of_node = LS_NEW_ARRAY(image->arena, ls_site *, n_nodes);
    b->sites->fronts = LS_NEW_ARRAY(image->arena, ls_operand, n_nodes);
    for (int t = 0; t < job->graph->n_tensors; t++) b->tensor[t] = nowhere();
    ls_totals_teams(b);
    ls_lower_share(b, n_nodes);
    ls_lower_persistent(b);
    LS_TRY(b->status);
    for (int p = 0; p < image->n_programs; p++) LS_TRY(lower_program(b, p));
    ls_build_end_words(b);
    ls_declare_effects(b);
    LS_TRY(ls_joins_check(image));
    const ls_compiled_for made_for = b->target->made_for;
    if (made_for == LS_FOR_RUNS) ls_name_values(image);
    ls_schedule(image);
    ls_place(image, made_for == LS_FOR_BYTES ? b->target->allowed : 0);
    if (made_for != LS_FOR_BYTES) ls_order(image);
    return ls_ok();
}

ls_status ls_compile(const ls_job *job, const ls_target *target, ls_image **out) {
    LS_TRY(ls_graph_status(job->graph));
    ls_axes in_place;
    const char *name;
    char strategy[LS_STRATEGY_TEXT];
    ls_device_traits device;
    LS_TRY(ls_choose_transfers(target, &in_place));
    LS_TRY(ls_device_choose(target->device, &name, &device));
    ls_arena *arena = ls_arena_create();
    ls_layout layout;
    const ls_status laid = ls_compile_layout(job, target, arena, &layout);
    if (laid.code != LS_OK) {
        ls_arena_destroy(arena);
        return laid;
    }
    ls_image *image = LS_NEW(arena, ls_image);
    image->arena = arena;
    image->mesh = target->mesh;
    (void)LS_PUSH(arena, image->teams, image->n_teams, image->team_capacity);
    (void)LS_PUSH(arena, image->displacements, image->n_displacements, image->displacement_capacity);
    image->layout = layout;
    image->slices = ls_target_slices(target);
    image->dtype = job->graph->dtype;
    image->accumulator = job->graph->accumulator;
    const ls_strategies strategies = ls_target_strategies(target);
    ls_strategies_print(&strategies, strategy);
    image->strategy = ls_arena_strdup(arena, strategy);
    image->in_place = in_place;
    image->isa = target->isa;
    image->device = target->device != NULL ? ls_arena_strdup(arena, target->device) : NULL;
    image->kernels = device.submits ? LS_DEVICE_CUDA : LS_DEVICE_CPU;
    image->choices = target->kernels;
    image->threads = target->threads;
    image->host_apart = !device.host_memory;
    ls_job rewritten;
    ls_builder b = {.job = job, .target = target, .image = image, .status = ls_ok()};
    b.displacements.arena = arena;
    const ls_status status = compile(&b, &rewritten);
    if (status.code != LS_OK) {
        ls_image_destroy(image);
        return status;
    }
    *out = image;
    return ls_ok();
}
