/*
 * How a tensor goes from one stage to another: each rank sends its part to the rank at the same place in the other
 * stage, which needs the same part. The two stages have different lists of nodes, so both find the epochs of a transfer
 * in the timetable.
 */
#include "compile/pipeline/pipeline.h"

static const ls_crossing *crossing_of(const ls_builder *b, const ls_program_node *at) {
    return ls_graph_node(b, at)->params;
}

/* The rank at this rank's place in stage `to`; from: this rank's stage. */
static ls_peer peer_of(ls_builder *b, int from, int to) {
    return ls_build_peer(b, ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_STAGE)), to - from);
}

static void lower_send(ls_builder *b, const ls_program_node *at) {
    const ls_crossing *c = crossing_of(b, at);
    const ls_operand from = ls_lower_tensor(b, ls_graph_node(b, at)->in[0]);
    ls_build_send_at(b, ls_build_channel(b, "%s", c->name), peer_of(b, c->from, c->to), from, from, c->granted,
                     c->sent);
}

static void lower_expect(ls_builder *b, const ls_program_node *at) {
    const ls_crossing *c = crossing_of(b, at);
    const ls_tensor t = ls_graph_node(b, at)->out[0];
    const ls_tensor_info *info = ls_graph_tensor(b->job->graph, t);
    int64_t size[LS_MAX_DIMS];
    ls_local_size(b, t, size);
    const ls_operand slot =
        ls_build_symmetric(b, LS_BUFFER_SLOT, info->name, ls_most_elements(b, t), info->dtype, info->shape.ndim, size);
    ls_lower_bind(b, t, slot);
    ls_build_grant_at(b, ls_build_channel(b, "%s", c->name), peer_of(b, c->to, c->from), slot, c->granted);
}

static void lower_arrive(ls_builder *b, const ls_program_node *at) {
    const ls_crossing *c = crossing_of(b, at);
    const ls_operand slot = ls_lower_tensor(b, ls_graph_node(b, at)->in[0]);
    ls_build_receive_at(b, ls_build_channel(b, "%s", c->name), peer_of(b, c->to, c->from), slot, c->sent, c->behind);
}

const ls_lowering ls_lowering_stage_send = {.lower = lower_send, .ordered = true};
const ls_lowering ls_lowering_stage_expect = {.lower = lower_expect, .ordered = true};
const ls_lowering ls_lowering_stage_arrive = {.lower = lower_arrive, .ordered = true};
