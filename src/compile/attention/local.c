/* local: one rank holds the whole sequence; nothing is sent. */
#include "compile/attention/attention.h"

static ls_status applicable(const ls_strategy *strategy, const ls_attention_problem *p) {
    (void)strategy;
    const int ranks = ls_mesh_sequence_ranks(&p->mesh);
    if (ranks != 1)
        return ls_error(LS_USAGE, "strategy local: %d ranks share the sequence, expected 1", ranks);
    return ls_ok();
}

const ls_strategy ls_strategy_local = {
    .name = "local",
    .about = "one rank holds the whole sequence",
    .reads_in_place = true,
    .applicable = applicable,
    .across_forward = ls_ring_forward,
    .across_backward = ls_ring_backward,
};
