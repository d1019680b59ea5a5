/*
 * The effects that each program declares on persistent buffers (program/states.h). They are derived from the program's
 * nodes and update, not from its instructions, which are checked against them.
 */
#include "compile/compile_impl.h"

/* The persistent buffer in which a tensor lies; -1: it lies in none. */
static int buffer_of(const ls_builder *b, ls_tensor storage) {
    const int buffer = b->tensor[storage.id].buffer;
    return buffer >= 0 && b->image->buffers[buffer].program < 0 ? buffer : -1;
}

static int buffer_named(const ls_builder *b, const char *name) {
    const ls_binding *binding = ls_image_find(b->image, name);
    return binding == NULL ? -1 : binding->operand.buffer;
}

/* Of two effects the later one in the list includes the other. */
static void declare(ls_program *p, int buffer, ls_effect effect) {
    if (buffer >= 0) p->kept[buffer].effect = (ls_effect)ls_max(p->kept[buffer].effect, effect);
}

/* Whether the shard, which a step sums in place over ranks along tp, is the buffer in which gradients are added up. */
static bool sums_in_place(const ls_builder *b) {
    bool summed = false;
    for (int f = 0; f < b->image->n_flats; f++)
        summed |= b->image->flats[f].trained && !b->image->flats[f].elsewhere &&
                  ls_mesh_size(&b->image->mesh, b->image->flats[f].summed) > 1;
    return summed && buffer_named(b, LS_BIND_SHARD) == buffer_named(b, LS_BIND_GRADIENTS);
}

/* The program's effect on gradients that persist. */
static ls_effect effect_on_gradients(const ls_builder *b, const ls_job_program *row) {
    static const ls_effect effects[] = {
        [LS_SUMS_BEGUN] = LS_EFFECT_MAKE, [LS_SUMS_ADDED] = LS_EFFECT_ADD, [LS_SUMS_CLEARED] = LS_EFFECT_TAKE};
    if (row->update == LS_UPDATE_NONE) return LS_EFFECT_ADD;
    return row->sums == LS_SUMS_ADDED && sums_in_place(b) ? LS_EFFECT_FINISH : effects[row->sums];
}

/* Whether nothing runs for the op: only the shape changes, and the output is the bytes of the input. */
static bool is_view(const ls_op *op) {
    return op->kernel == LS_KERNEL_NONE && ls_lowering_of(op) == &ls_lowering_called;
}

static void declare_node(const ls_builder *b, ls_program *p, const ls_job_program *row, int n) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = &g->nodes[n];
    for (int i = 0; i < node->n_in; i++) {
        const ls_tensor storage = ls_graph_tensor(g, node->in[i])->storage;
        const ls_tensor_info *info = ls_graph_tensor(g, storage);
        if (info->role == LS_ROLE_ACCUMULATOR || info->producer >= row->first_node) continue;
        if (info->role == LS_ROLE_PARAMETER) {
            const ls_flat *flat = &b->image->flats[b->packing->flat_of[storage.id]];
            declare(p, buffer_named(b, ls_flat_values(b->image, flat)), LS_EFFECT_READ);
        }
        declare(p, buffer_of(b, storage),
                ls_op_writes_input(node->op, i) && !is_view(node->op) ? LS_EFFECT_CHANGE : LS_EFFECT_READ);
    }
    for (int o = 0; o < node->n_out; o++) {
        const ls_tensor storage = ls_graph_tensor(g, node->out[o])->storage;
        const ls_tensor_info *info = ls_graph_tensor(g, storage);
        if (info->role == LS_ROLE_ACCUMULATOR) {
            const bool gradient = b->packing->flat_of[storage.id] >= 0;
            if (ls_lower_adds_here(b, n))
                declare(p, buffer_of(b, storage), gradient ? effect_on_gradients(b, row) : LS_EFFECT_ADD);
        } else if (info->producer >= row->first_node) {
            declare(p, buffer_of(b, storage), LS_EFFECT_MAKE);
        }
    }
}

/* The effects of the update (update.c). */
static void declare_update(const ls_builder *b, ls_program *p, const ls_job_program *row) {
    const bool applies = row->update == LS_UPDATE_APPLY;
    declare(p, buffer_named(b, LS_BIND_TOTALS), LS_EFFECT_CHANGE);
    declare(p, buffer_named(b, LS_BIND_RESULT), LS_EFFECT_MAKE);
    declare(p, buffer_named(b, LS_BIND_LOSS), applies ? LS_EFFECT_TAKE : LS_EFFECT_ADD);
    declare(p, buffer_named(b, LS_BIND_EXACT_LOSS), applies ? LS_EFFECT_TAKE : LS_EFFECT_ADD);
    if (!ls_gradients_stay(b)) declare(p, buffer_named(b, LS_BIND_SHARD), LS_EFFECT_MAKE);
    if (applies) declare(p, buffer_named(b, LS_BIND_CONTROL), LS_EFFECT_MAKE);
    if (!applies || b->packing->n_trained == 0) return;
    declare(p, buffer_named(b, LS_BIND_PARAMETERS), LS_EFFECT_CHANGE);
    declare(p, buffer_named(b, LS_BIND_MASTER), LS_EFFECT_CHANGE);
    for (int i = 0; i < b->image->n_states; i++)
        declare(p, buffer_named(b, b->image->states[i].binding), LS_EFFECT_CHANGE);
}

/*
 * Masters and their average are swapped; parameters are rounded again from the masters if they are not the masters
 * themselves.
 */
static void declare_exchange(const ls_builder *b, ls_program *p) {
    const bool apart = b->image->dtype != b->image->accumulator;
    if (b->packing->n_trained == 0) return;
    declare(p, buffer_named(b, LS_BIND_PARAMETERS), apart ? LS_EFFECT_MAKE : LS_EFFECT_CHANGE);
    declare(p, buffer_named(b, LS_BIND_MASTER), LS_EFFECT_CHANGE);
    declare(p, buffer_named(b, LS_BIND_AVERAGE), LS_EFFECT_CHANGE);
}

void ls_declare_effects(const ls_builder *b) {
    ls_image *image = b->image;
    for (int k = 0; k < image->n_programs; k++) {
        ls_program *p = &image->programs[k];
        const ls_job_program *row = &b->job->programs.list[k];
        p->kept = LS_NEW_ARRAY(image->arena, ls_kept, image->n_buffers + 1);
        for (int i = 0; i < image->n_buffers; i++) {
            const ls_buffer_kind kind = image->buffers[i].kind;
            const bool hosts = kind == LS_BUFFER_INPUT || kind == LS_BUFFER_TABLE; /* filled for every program */
            if (image->buffers[i].program < 0 && hosts) declare(p, i, LS_EFFECT_READ);
        }
        for (int n = row->first_node; n < row->end_node; n++) declare_node(b, p, row, n);
        if (ls_program_reduces(b, row)) {
            declare(p, buffer_named(b, LS_BIND_GRADIENTS), effect_on_gradients(b, row));
            declare(p, buffer_named(b, LS_BIND_EXACT_LOSS), LS_EFFECT_ADD);
        }
        if (row->update != LS_UPDATE_NONE) declare_update(b, p, row);
        if (row->exchanges) declare_exchange(b, p);
    }
}
