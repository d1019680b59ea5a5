/* A case of every op that has a gradient rule, made of float inputs and of ids. */
#ifndef LS_TESTS_SUPPORT_OP_CASES_H
#define LS_TESTS_SUPPORT_OP_CASES_H

#include "graph/graph_impl.h"

enum { OP_CASE_B = 2, OP_CASE_S = 5, OP_CASE_INPUTS = 5, OP_CASE_IDS = 7 };

/* `build` takes tokens i32[B,S], of which each is less than OP_CASE_IDS, and as many inputs as there are shapes. */
typedef struct op_case {
    const char *op;
    int n_in; /* float inputs */
    ls_shape shape[OP_CASE_INPUTS];
    ls_tensor (*build)(ls_graph *g, ls_tensor tokens, const ls_tensor *x);
} op_case;

extern const op_case op_cases[];
extern const int n_op_cases;

#endif
