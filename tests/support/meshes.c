#include "meshes.h"

#include <stdio.h>

static const ls_axis far_axis = {.name = "far", .kind = LS_AXIS_SEQUENCE, .divides = "the tokens of a sequence"},
                     near_axis = {.name = "near", .kind = LS_AXIS_SEQUENCE, .divides = "the tokens of a sequence"};

static ls_mesh parsed(const char *text) {
    ls_mesh mesh;
    const ls_status status = ls_mesh_parse(text, &mesh);
    LS_ASSERT(status.code == LS_OK);
    return mesh;
}

ls_mesh mesh_of(int dp, int ring, int ulysses) {
    char text[80];
    snprintf(text, sizeof text, "dp=%d,ring=%d,ulysses=%d", dp, ring, ulysses);
    return parsed(text);
}

ls_mesh mesh_of_outer(int dp, int outer, int ring, int ulysses) {
    char text[80];
    if (outer == 1) return mesh_of(dp, ring, ulysses);
    snprintf(text, sizeof text, "dp=%d,outer=%d,ring=%d,ulysses=%d", dp, outer, ring, ulysses);
    return parsed(text);
}

ls_mesh mesh_with_tp(int dp, int ring, int ulysses, int tp) {
    char text[80];
    snprintf(text, sizeof text, "dp=%d,ring=%d,ulysses=%d,tp=%d", dp, ring, ulysses, tp);
    return parsed(text);
}

ls_mesh mesh_tp_outside(const ls_mesh *mesh) {
    ls_mesh out = *mesh;
    const int last = out.n - 1;
    LS_ASSERT(out.along[last].axis->kind == LS_AXIS_FEATURE);
    for (int i = last; i > 0; i--) out.along[i] = mesh->along[i - 1];
    out.along[0] = mesh->along[last];
    return out;
}

ls_mesh mesh_with_stages(const ls_mesh *mesh, int stages) {
    char text[16];
    snprintf(text, sizeof text, "pp=%d", stages);
    ls_mesh out = parsed(text);
    LS_ASSERT(out.n == 1 && mesh->n < LS_MESH_AXES);
    for (int i = 0; i < mesh->n; i++) out.along[out.n++] = mesh->along[i];
    return out;
}

ls_mesh mesh_of_two_rings(int dp, int far, int near, int ulysses) {
    const ls_mesh usual = mesh_of(dp, 1, ulysses);
    ls_mesh mesh = {.n = 4, .along = {usual.along[0], {&far_axis, far}, {&near_axis, near}, usual.along[2]}};
    return mesh;
}
