/* What lies where: the files of a checkpoint as a pure function of the parameters, the same for every mesh. */
#include "checkpoint/checkpoint_impl.h"

#include <string.h>

const char *ls_checkpoint_file_name(int file) {
    static const char *const names[LS_CHECKPOINT_FILES] = {"model.safetensors", "optimizer.safetensors",
                                                           "config.json"};
    return names[file];
}

const char *ls_checkpoint_moment(ls_arena *arena, char moment, const char *parameter) {
    return ls_arena_printf(arena, "%c %s", moment, parameter);
}

static ls_st_entry entry_of(const ls_image *image, const ls_flat *flat, const char *name) {
    ls_st_entry entry = {name, ls_st_dtype_of(image->accumulator), flat->shape.ndim, {0}};
    for (int d = 0; d < flat->shape.ndim; d++) entry.shape[d] = flat->shape.dim[d].size;
    return entry;
}

ls_status ls_checkpoint_plan(const ls_image *image, ls_arena *arena, ls_checkpoint_layout *out) {
    ls_checkpoint_layout layout = {.n = {image->n_flats, 2 * image->n_flats}};
    for (int f = 0; f < 2; f++) layout.entries[f] = LS_NEW_ARRAY(arena, ls_st_entry, layout.n[f]);
    for (int i = 0; i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        ls_st_entry *moments = layout.entries[LS_CHECKPOINT_OPTIMIZER];
        layout.entries[LS_CHECKPOINT_MODEL][i] = entry_of(image, flat, flat->name);
        moments[i] = entry_of(image, flat, ls_checkpoint_moment(arena, 'm', flat->name));
        moments[image->n_flats + i] = entry_of(image, flat, ls_checkpoint_moment(arena, 'v', flat->name));
    }
    const ls_st_pair metadata = {"format", "pt"}; /* what other programs look for in a model's file */
    ls_status status = ls_ok();
    for (int f = 0; f < 2 && status.code == LS_OK; f++)
        status = ls_st_plan_create(layout.entries[f], layout.n[f], &metadata, 1, &layout.plan[f]);
    if (status.code == LS_OK)
        *out = layout;
    else
        ls_checkpoint_plan_free(&layout);
    return status;
}

ls_status ls_checkpoint_bytes(const ls_image *image, const char *config, int64_t *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_layout layout = {.n = {0}};
    const ls_status status = ls_checkpoint_plan(image, arena, &layout);
    if (status.code == LS_OK) {
        *out = config != NULL ? (int64_t)strlen(config) : 0;
        for (int f = 0; f < 2; f++) *out += ls_st_plan_file_bytes(layout.plan[f]);
    }
    ls_checkpoint_plan_free(&layout);
    ls_arena_destroy(arena);
    return status;
}

void ls_checkpoint_plan_free(ls_checkpoint_layout *layout) {
    for (int f = 0; f < 2; f++) ls_st_plan_destroy(layout->plan[f]);
}
