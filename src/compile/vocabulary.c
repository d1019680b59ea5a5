/*
 * Cross-entropy where each rank along axes of features has the logits of a part of the vocabulary. Each rank sends the
 * loss and the log-sum-exp over its part to the others, and every rank combines all of them (Shoeybi et al.,
 * "Megatron-LM", arXiv 1909.08053, section 3: vocabulary-parallel cross-entropy).
 */
#include "compile/redistribute/redistribute.h"

/*
 * Cross-entropy over this rank's part of the vocabulary. params: of the node. The term with the square of the
 * log-sum-exp is left out here: it is added when the log-sum-exp over the whole vocabulary is known.
 */
static void cross_entropy(ls_builder *b, const ls_cross_entropy_params *params, ls_operand logits, ls_operand labels,
                          ls_operand loss, ls_operand lse) {
    ls_cross_entropy_params own = *params;
    own.z = 0;
    ls_kernel_build call = {.op = "cross_entropy",
                            .kernel = LS_KERNEL_CROSS_ENTROPY,
                            .params = &own,
                            .params_bytes = sizeof own,
                            .dtype = b->image->dtype,
                            .n_in = 2,
                            .in = {logits, labels},
                            .n_out = 2,
                            .out = {loss, lse}};
    call.flops = ls_lower_flops(&ls_op_cross_entropy, &call);
    ls_build_kernel(b, &call);
}

/* All elements of a dense operand, as one dimension. */
static ls_operand flat(ls_operand o) { return ls_operand_elements(o, 0, ls_view_elements(&o.view)); }

/*
 * From each token's loss and log-sum-exp over every rank's part of the vocabulary to those over all of it, on each
 * rank.
 */
static void lower_in_parts(ls_builder *b, const ls_program_node *at, ls_axes axes) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_operand logits = ls_lower_tensor(b, node->in[0]), labels = ls_lower_tensor(b, node->in[1]);
    const ls_operand loss = ls_lower_tensor(b, node->out[0]), lse = ls_lower_tensor(b, node->out[1]);
    const ls_cross_entropy_params *params = ls_cross_entropy_params_of(node->params);
    const ls_dtype G = b->image->accumulator;
    const int team = ls_build_team_of(b, axes), P = ls_build_team_size(b, team);
    const int64_t N = ls_view_elements(&loss.view), of_all[] = {P, 2 * N}, of_mine[] = {1, 2 * N};
    const int64_t most = b->tile != NULL ? b->tile->most : ls_most_elements(b, node->out[0]);
    const ls_operand all = ls_build_symmetric(b, LS_BUFFER_SLOT, "losses", P * 2 * most, G, 2, of_all),
                     mine = ls_build_private(b, LS_BUFFER_ACTIVATION, "losses", G, 2, of_mine);
    const ls_stages stages = ls_stages_direct(b, team);
    ls_all_gather gather =
        ls_all_gather_expect(b, ls_arena_printf(b->image->arena, "losses.%d", team), &stages, all, 0);
    cross_entropy(b, params, logits, ls_local_ids(b, at->of, labels), ls_operand_elements(mine, 0, N),
                  ls_operand_elements(mine, N, N));
    ls_all_gather_begin(b, &gather, mine);
    ls_all_gather_finish(b, &gather);
    ls_build_kernel(b, &(ls_kernel_build){
                           .op = "cross_entropy_merge",
                           .kernel = LS_KERNEL_CROSS_ENTROPY_MERGE,
                           .params = params,
                           .params_bytes = sizeof *params,
                           .dtype = b->image->dtype,
                           .flops = (double)(P * N),
                           .n_in = 2,
                           .in = {ls_operand_dense(all.buffer, all.offset, G, 3, (int64_t[]){P, 2, N}), flat(labels)},
                           .n_out = 2,
                           .out = {flat(loss), flat(lse)}});
}

static void lower(ls_builder *b, const ls_program_node *at) {
    int d;
    const ls_axes axes = ls_cut_rows(b, at->of, &d);
    if (axes == 0)
        ls_lowering_called.lower(b, at);
    else
        lower_in_parts(b, at, axes);
}

const ls_lowering ls_lowering_cross_entropy = {.lower = lower};
