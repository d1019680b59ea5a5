#include "meshes.h"

#include <stdio.h>

static const ls_axis far_axis = {"far", LS_AXIS_SEQUENCE, false, "the tokens of a sequence"},
                     near_axis = {"near", LS_AXIS_SEQUENCE, false, "the tokens of a sequence"};

ls_mesh mesh_of(int dp, int ring, int ulysses) {
    char text[80];
    ls_mesh mesh;
    snprintf(text, sizeof text, "dp=%d,ring=%d,ulysses=%d", dp, ring, ulysses);
    const ls_status status = ls_mesh_parse(text, &mesh);
    LS_ASSERT(status.code == LS_OK);
    return mesh;
}

ls_mesh mesh_of_two_rings(int dp, int far, int near, int ulysses) {
    const ls_mesh usual = mesh_of(dp, 1, ulysses);
    ls_mesh mesh = {.n = 4, .along = {usual.along[0], {&far_axis, far}, {&near_axis, near}, usual.along[2]}};
    return mesh;
}
