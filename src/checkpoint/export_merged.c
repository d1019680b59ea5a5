/* The input of an export with merged adapters: all parameters of the model, and their weights. */
#include "checkpoint/export_impl.h"

/* The parameters, in the order of the graph. */
static ls_status list_parameters(ls_exporting *e) {
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    const ls_model_sizes sizes = ls_model_describe(e->options->merge);
    const int64_t S = sizes.learned ? ls_min(sizes.longest, 16) : 16;
    const ls_status status = ls_model_build(e->options->merge, g, 2, S, false, &lm);
    e->image.flats = LS_NEW_ARRAY(e->arena, ls_flat, g->n_tensors);
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role != LS_ROLE_PARAMETER) continue;
        const int64_t count = ls_shape_elements(&info->shape);
        e->image.flats[e->image.n_flats++] = (ls_flat){.name = ls_arena_strdup(e->arena, info->name),
                                                       .shape = info->shape,
                                                       .count = count,
                                                       .whole_count = count,
                                                       .borrowed = info->borrowed,
                                                       .added = info->added};
    }
    ls_graph_destroy(g);
    return status;
}

ls_status ls_export_open_merged(ls_exporting *e) {
    const ls_export_options *o = e->options;
    ls_weight_source with;
    LS_TRY(list_parameters(e));
    LS_TRY(o->checkpoint != NULL ? ls_checkpoint_weights(o->checkpoint, o->merge, &e->image, NULL, &with)
                                 : ls_model_weights(o->merge, &e->image, 0, &with));
    return ls_model_merged(o->merge, &e->image, &with, &e->merged);
}
