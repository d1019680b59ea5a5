/*
 * Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al., "Muon is scalable
 * for LLM training", arXiv 2502.16982). The step of a hidden matrix is its momentum with all singular values made about
 * 1, times 0.2 sqrt(max(rows, columns)). So its elements are as large as those of AdamW's steps, and learning rate and
 * decay mean the same for both. All other parameters are updated by AdamW.
 *
 * A rank has pieces of each matrix. As many matrices of one shape as there are ranks are updated together: each rank
 * computes the momentum of its pieces of all of them; an all-to-all gives each rank one whole matrix, whose singular
 * values it makes equal; a second all-to-all returns the pieces to their owners, which update their elements with them.
 * So each matrix is computed once, each element travels there and back once, and all ranks run the same program. If
 * there are fewer matrices than ranks, the remaining ranks get zeros.
 */
#include "compile/optimizer/optimizer.h"
#include "compile/redistribute/redistribute.h"

#include <math.h>

static const ls_optimizer_state states[] = {{"optimizer.m", "m", false}, {"optimizer.v", "v", true}};

/* --- singular values ---------------------------------------------------------------------------------------------- */

/*
 * Newton-Schulz: with X = U S V', the polynomial a X + b (X X') X + c (X X')^2 X is U (a S + b S^3 + c S^5) V'. With
 * these coefficients, which are Jordan's, five iterations bring singular values from 0.003 .. 1 to 0.7 .. 1.2.
 */
enum { ITERATIONS = 5 };
static const double linear = 3.4445, cubic = -4.7750, quintic = 2.0315;

/* to = op(x)·op(y) */
static void product(ls_builder *b, ls_matmul_params params, ls_operand x, ls_operand y, ls_operand to) {
    ls_kernel_build k = {.op = "matmul",
                         .kernel = LS_KERNEL_MATMUL,
                         .dtype = b->image->dtype,
                         .params = &params,
                         .params_bytes = sizeof params,
                         .n_in = 2,
                         .in = {x, y},
                         .n_out = 1,
                         .out = {to}};
    k.flops = ls_lower_flops(&ls_op_linear, &k);
    ls_build_kernel(b, &k);
}

/* y = a x + b y */
static void combine(ls_builder *b, double of_x, ls_operand x, double of_y, ls_operand y) {
    const ls_combine_params params = {of_x, of_y};
    ls_build_kernel(b, &(ls_kernel_build){.op = "combine",
                                          .kernel = LS_KERNEL_COMBINE,
                                          .dtype = b->image->dtype,
                                          .params = &params,
                                          .params_bytes = sizeof params,
                                          .n_in = 1,
                                          .in = {x},
                                          .n_out = 1,
                                          .out = {y}});
}

static void normalize(ls_builder *b, ls_operand x, ls_operand y) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "normalize",
                                          .kernel = LS_KERNEL_NORMALIZE,
                                          .dtype = b->image->dtype,
                                          .n_in = 1,
                                          .in = {x},
                                          .n_out = 1,
                                          .out = {y}});
}

/* Makes the singular values of the matrix x [rows, columns] about 1, in place. Uses the smaller of X X' and X' X. */
static void orthogonalize(ls_builder *b, ls_operand x) {
    const ls_dtype T = x.view.dtype;
    const int64_t rows = x.view.size[0], columns = x.view.size[1], n = ls_min(rows, columns);
    const bool wide = rows <= columns;
    const ls_operand other = ls_build_private(b, LS_BUFFER_ACTIVATION, "matrix", T, 2, x.view.size);
    const ls_operand square = ls_build_private(b, LS_BUFFER_ACTIVATION, "square", T, 2, (int64_t[]){n, n});
    const ls_operand fourth = ls_build_private(b, LS_BUFFER_ACTIVATION, "square", T, 2, (int64_t[]){n, n});
    ls_operand from = other, to = x; /* after an odd number of iterations the result is where x was */
    normalize(b, x, from);
    for (int i = 0; i < ITERATIONS; i++) {
        product(b, (ls_matmul_params){.transpose_a = !wide, .transpose_b = wide}, from, from, square);
        product(b, (ls_matmul_params){0}, square, square, fourth);
        combine(b, cubic, square, quintic, fourth);
        product(b, (ls_matmul_params){0}, wide ? fourth : from, wide ? from : fourth, to);
        combine(b, linear, from, 1, to);
        const ls_operand last = from;
        from = to;
        to = last;
    }
}
_Static_assert(ITERATIONS % 2 == 1, "orthogonalize ends where it began");

/* --- matrices over the ranks -------------------------------------------------------------------------------------- */

/* Equal parts of a dimension: `each` elements for each rank. */
static ls_parts even_parts(ls_builder *b, int ranks, int64_t each) {
    ls_parts parts = {.total = ranks * each, .most = each, .most_total = ranks * each, .sharers = 1};
    parts.start = LS_NEW_ARRAY(b->image->arena, int64_t, ranks);
    parts.count = LS_NEW_ARRAY(b->image->arena, int64_t, ranks);
    for (int r = 0; r < ranks; r++) {
        parts.start[r] = r * each;
        parts.count[r] = each;
    }
    return parts;
}

/*
 * Operands of matrices that are updated together are [buckets of a matrix, matrices, elements of a bucket]. They have a
 * rank's pieces of all matrices, or all pieces of one matrix.
 */
enum { MATRICES = 1, ELEMENTS = 2 };

static ls_operand exchange(ls_builder *b, const char *label, int from_dim, const ls_parts *from, int to_dim,
                           const ls_parts *to, ls_operand mine) {
    const ls_recut recut = {.label = label,
                            .team = ls_build_team(b, &b->image->owners),
                            .from_dim = from_dim,
                            .to_dim = to_dim,
                            .from = from,
                            .to = to};
    const ls_all_to_all x = ls_all_to_all_begin(b, &recut, mine);
    const ls_operand result = ls_all_to_all_finish(b, &x);
    ls_all_to_all_settle(b, &x);
    return result;
}

/* This rank's piece of bucket k of matrix i. */
static ls_operand piece_at(ls_operand pieces, int k, int i) {
    return ls_operand_slice(ls_operand_slice(pieces, 0, k, 1), MATRICES, i, 1);
}

/* Acts on each piece of the matrices, with the elements of `pieces` as directions: momentum, or steps. */
static void each_piece(ls_builder *b, int first, int n, ls_operand sums, ls_operand pieces,
                       void (*act)(ls_builder *b, const ls_update_piece *piece, ls_operand direction, double factor),
                       double factor) {
    for (int i = 0; i < n; i++) {
        const ls_group *g = &b->packing->groups[first + i];
        for (int k = 0; k < g->n_buckets; k++) {
            const ls_update_piece piece = ls_update_piece_of(b, g->first_bucket + k, sums);
            act(b, &piece, piece_at(pieces, k, i), factor);
        }
    }
}

static void momentum(ls_builder *b, const ls_update_piece *piece, ls_operand direction, double factor) {
    (void)factor;
    const ls_momentum_params params = {b->job->hyper.momentum};
    ls_build_kernel_on_state(
        b, &(ls_kernel_build){.op = "momentum",
                              .kernel = LS_KERNEL_MOMENTUM,
                              .dtype = b->image->dtype,
                              .params = &params,
                              .params_bytes = sizeof params,
                              .n_in = 4,
                              .in = {piece->gradients, piece->control, piece->groups, piece->settings},
                              .n_out = 2,
                              .out = {piece->state[0], direction}});
}

static void descend(ls_builder *b, const ls_update_piece *piece, ls_operand direction, double factor) {
    const ls_descend_params params = {factor};
    ls_build_kernel_on_state(b, &(ls_kernel_build){.op = "descend",
                                                   .kernel = LS_KERNEL_DESCEND,
                                                   .dtype = b->image->dtype,
                                                   .params = &params,
                                                   .params_bytes = sizeof params,
                                                   .n_in = 4,
                                                   .in = {direction, piece->control, piece->groups, piece->settings},
                                                   .n_out = 2,
                                                   .out = {piece->masters, piece->parameters}});
}

static void update_matrices(ls_builder *b, int first, int n, ls_operand sums) {
    const ls_group *g = &b->packing->groups[first];
    const ls_shape *shape = &b->image->flats[g->first].shape;
    const int64_t size[] = {shape->dim[0].size, shape->dim[1].size};
    const int ranks = b->packing->cut->state ? ls_team_size(&b->image->owners) : 1; /* ranks with pieces of it */
    const int64_t piece = g->count / g->n_buckets / ranks;
    const ls_parts matrices = even_parts(b, ranks, 1), elements = even_parts(b, ranks, piece);
    ls_operand mine = ls_build_private(b, LS_BUFFER_GRADIENT, "directions", b->image->dtype, 3,
                                       (int64_t[]){g->n_buckets, ranks, piece});
    ls_build_fill(b, mine); /* padding stays zero, and so do the matrices that are missing */
    each_piece(b, first, n, sums, mine, momentum, 0);
    if (ranks > 1) mine = exchange(b, "matrices", ELEMENTS, &elements, MATRICES, &matrices, mine);
    orthogonalize(b, ls_operand_dense(mine.buffer, mine.offset, mine.view.dtype, 2, size));
    if (ranks > 1) mine = exchange(b, "steps", MATRICES, &matrices, ELEMENTS, &elements, mine);
    each_piece(b, first, n, sums, mine, descend, 0.2 * sqrt((double)ls_max(size[0], size[1])));
}

const ls_optimizer ls_optimizer_muon = {
    .name = "muon",
    .about = "hidden matrices: the momentum with equal singular values; all others: AdamW",
    .states = states,
    .n_states = LS_COUNT(states),
    .initial =
        {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .momentum = 0.95, .nesterov = LS_LACKS},
    .update_matrices = update_matrices,
    .others = &ls_optimizer_adamw,
};
