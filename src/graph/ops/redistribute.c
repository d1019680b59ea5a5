/*
 * redistribute: the same tensor, spread over the ranks as its readers need it. Only the compiler adds it, between a
 * node that makes a tensor and nodes that need it in another placement (compile/redistribution.c), after
 * differentiation.
 */
#include "graph/graph_impl.h"

const ls_op ls_op_redistribute = {.name = "redistribute",
                                  .reach = LS_REACH_ALL,
                                  .least_in = 1,
                                  .most_in = 1,
                                  .n_out = 1,
                                  .shape = ls_rule_same_shape,
                                  .dims = "*>*",
                                  .addends = 1U << 0};
