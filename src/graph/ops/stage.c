/*
 * stage_send, stage_expect, stage_arrive: a tensor that goes from a stage of a pipeline to another one. Only the
 * compiler adds them (compile/pipeline/unroll.c), after differentiation: at one end the tensor is sent; at the other
 * room for it is granted, and it arrives there.
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
