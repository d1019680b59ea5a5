/*
 * stage_send, stage_expect, stage_arrive: the transfer of a tensor from one stage of a pipeline to another. Only the
 * compiler adds them (compile/pipeline/unroll.c), after differentiation: one stage sends the tensor; the other grants a
 * slot for it (expect), and receives it (arrive).
 */
#include "graph/graph_impl.h"

const ls_op ls_op_stage_send = {.name = "stage_send",
                                .reach = LS_REACH_ALL,
                                .least_in = 1,
                                .most_in = 1,
                                .shape = ls_rule_same_shape,
                                .dims = "*>"};
const ls_op ls_op_stage_expect = {
    .name = "stage_expect", .reach = LS_REACH_ALL, .n_out = 1, .shape = ls_rule_same_shape, .dims = ">*"};
const ls_op ls_op_stage_arrive = {.name = "stage_arrive",
                                  .reach = LS_REACH_ALL,
                                  .least_in = 1,
                                  .most_in = 1,
                                  .n_out = 1,
                                  .in_place = {1},
                                  .shape = ls_rule_same_shape,
                                  .dims = "*>*"};
