/* What strategies ask of a mesh before they compute an attention on it. */
#include "compile/attention/attention.h"

ls_status ls_strategy_heads(const ls_strategy *strategy, const ls_attention_problem *p) {
    const ls_axes axes = ls_mesh_head_axes(&p->mesh);
    if (ls_mesh_size(&p->mesh, axes) <= p->Hq) return ls_ok();
    char text[64];
    ls_mesh_text(&p->mesh, axes, text, sizeof text);
    return ls_error(LS_USAGE, "strategy %s: %s ranks but only %lld query heads; expected at most one rank per head",
                    strategy->name, text, (long long)p->Hq);
}

ls_status ls_strategy_without(const ls_strategy *strategy, const ls_mesh *mesh, ls_axes axes) {
    if (axes == 0) return ls_ok();
    char text[64];
    ls_mesh_text(mesh, axes, text, sizeof text);
    return ls_error(LS_USAGE, "strategy %s: the mesh has %s, for which it has no use; usp combines both ways",
                    strategy->name, text);
}
