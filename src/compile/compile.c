/* All passes, one after the other, for one rank. */
#include "compile/compile_impl.h"

static ls_operand nowhere(void) { return (ls_operand){.buffer = -1}; }

/* Values lie nowhere yet; what persists stays where it is. */
static void forget_values(ls_builder *b) {
    const ls_graph *g = b->job->graph;
    for (int t = 0; t < g->n_tensors; t++) {
        const ls_operand *place = &b->tensor[t];
        if (place->buffer >= 0 && b->image->buffers[place->buffer].program >= 0) b->tensor[t] = nowhere();
        b->resolved[t] = nowhere();
    }
}

static void begin_program(ls_builder *b, int index) {
    b->program_index = index;
    b->program = &b->image->programs[index];
    b->program->name = ls_program_name(index);
    b->program->queues = LS_QUEUES;
    b->program->first_word = b->image->words;
    b->counts = NULL;
    b->channel_names = (ls_index){.arena = b->image->arena};
    b->n_counts = 0;
    b->count_capacity = 0;
    forget_values(b);
}

static void end_program(ls_builder *b) {
    for (int c = 0; c < b->n_counts; c++) {
        const ls_channel_count *count = &b->counts[c];
        LS_ASSERT(count->readied == count->received && count->awaited == count->sent &&
                  count->sent == count->received);
        b->program->channels[c].uses = count->received;
    }
    b->image->words += 2 * b->program->n_channels;
}

/* Whether a result of the forward pass is still there when another program begins: it lies in a buffer that persists. */
static ls_status check_kept(const ls_builder *b, const ls_node *node) {
    const ls_graph *g = b->job->graph;
    for (int i = 0; i < node->n_in; i++) {
        const ls_tensor storage = ls_graph_tensor(g, node->in[i])->storage;
        const int producer = ls_graph_tensor(g, storage)->producer;
        if (producer < 0 || producer >= b->job->forward_nodes || b->tensor[storage.id].buffer >= 0) continue;
        return ls_error(LS_INVALID,
                        "op %s reads \"%s\" of the forward pass, which is not kept for a program of its own",
                        node->op->name, ls_graph_tensor(g, storage)->name);
    }
    return ls_ok();
}

/* The nodes behind the forward ones as a program of their own. */
static ls_status lower_apart(ls_builder *b, int n_nodes) {
    begin_program(b, b->job->apart);
    for (int n = b->job->forward_nodes; n < n_nodes; n++) LS_TRY(check_kept(b, &b->job->graph->nodes[n]));
    for (int n = b->job->forward_nodes; n < n_nodes && b->status.code == LS_OK; n++) ls_lower_node(b, n);
    LS_TRY(b->status);
    end_program(b);
    return ls_ok();
}

static ls_status compile(ls_builder *b, int n_nodes) {
    const ls_job *job = b->job;
    ls_image *image = b->image;
    ls_sharding sharding;
    LS_TRY(ls_shard(job->graph, n_nodes, &image->mesh, image->arena, &sharding));
    b->sharding = &sharding;
    b->tensor = LS_NEW_ARRAY(image->arena, ls_operand, job->graph->n_tensors);
    b->resolved = LS_NEW_ARRAY(image->arena, ls_operand, job->graph->n_tensors);
    b->sites = LS_NEW_ARRAY(image->arena, ls_site *, n_nodes);
    for (int t = 0; t < job->graph->n_tensors; t++) b->tensor[t] = b->resolved[t] = nowhere();
    ls_share_attention(b, n_nodes);
    ls_lower_persistent(b);
    if ((job->update == LS_UPDATE_NONE && job->apart == 0) || job->accumulates) {
        begin_program(b, LS_PROGRAM_MICRO);
        ls_lower_nodes(b, n_nodes);
        LS_TRY(b->status);
        end_program(b);
    }
    if (job->update != LS_UPDATE_NONE) {
        begin_program(b, LS_PROGRAM_STEP);
        if (!job->accumulates) b->begun = LS_NEW_ARRAY(image->arena, bool, image->n_flats + 1);
        ls_reduction_begin(b, n_nodes);
        ls_lower_nodes(b, n_nodes);
        ls_reduction_end(b);
        ls_lower_update(b);
        b->begun = NULL;
        LS_TRY(b->status);
        end_program(b);
    }
    if (job->forward_nodes > 0) {
        begin_program(b, LS_PROGRAM_EVALUATE);
        ls_lower_nodes(b, job->forward_nodes);
        LS_TRY(b->status);
        end_program(b);
    }
    if (job->apart != 0 && job->forward_nodes < n_nodes) LS_TRY(lower_apart(b, n_nodes));
    ls_name_values(image);
    ls_schedule(image);
    ls_place(image);
    ls_order(image);
    return ls_ok();
}

ls_status ls_compile(const ls_job *job, const ls_target *target, ls_image **out) {
    LS_TRY(ls_graph_status(job->graph));
    bool in_place;
    LS_TRY(ls_choose_transfers(target, &in_place));
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
    image->dtype = job->graph->dtype;
    image->accumulator = job->graph->accumulator;
    image->strategy = ls_arena_strdup(arena, target->strategy);
    image->in_place = in_place;
    image->isa = target->isa;
    image->threads = target->threads;
    ls_job rewritten = *job;
    rewritten.graph = ls_recompute(job, target->saving.drop, arena);
    ls_builder b = {.job = &rewritten, .target = target, .image = image, .status = ls_ok()};
    b.displacements.arena = arena;
    const ls_status status = compile(&b, rewritten.graph->n_nodes);
    if (status.code != LS_OK) {
        ls_image_destroy(image);
        return status;
    }
    *out = image;
    return ls_ok();
}
