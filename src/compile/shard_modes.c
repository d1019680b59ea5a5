/* What is sharded over the ranks: the modes of --shard. */
#include "compile/compile.h"

#include <string.h>

const ls_shard_mode ls_shard_modes[LS_SHARD_MODES] = {
    [LS_SHARD_NONE] = {.name = "none"},
    [LS_SHARD_OPTIMIZER] = {.name = "optimizer", .state = true},
    [LS_SHARD_GRADIENTS] = {.name = "gradients", .state = true, .gradients = true},
    [LS_SHARD_PARAMETERS] = {.name = "parameters", .state = true, .gradients = true, .parameters = true},
};

ls_status ls_shard_parse(const char *name, int *out) {
    *out = -1;
    if (name == NULL || strcmp(name, "auto") == 0) return ls_ok();
    for (int m = 0; m < LS_SHARD_MODES; m++) {
        if (strcmp(ls_shard_modes[m].name, name) != 0) continue;
        *out = m;
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--shard %s; expected auto, none, optimizer, gradients or parameters", name);
}

const ls_shard_mode *ls_target_shard(const ls_target *target) {
    const ls_mesh *mesh = &target->mesh;
    const bool alone = ls_mesh_size(mesh, ls_mesh_shard_axes(mesh)) == 1 && !target->canonical;
    const int usual = target->canonical ? LS_SHARD_GRADIENTS : LS_SHARD_OPTIMIZER;
    if (alone) return &ls_shard_modes[LS_SHARD_NONE];
    return target->shard != NULL ? target->shard : &ls_shard_modes[usual];
}
