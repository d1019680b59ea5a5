/* The table of all ops. */
#include "graph/graph_impl.h"

#define ROW(op) &ls_op_##op
static const ls_op *const table[] = {LS_CALLED_OPS(ROW), LS_LOWERED_OPS(ROW)};

const ls_op *ls_op_at(int index) { return index >= 0 && index < (int)LS_COUNT(table) ? table[index] : NULL; }

const char *ls_reach_name(ls_reach reach) {
    static const char *const names[LS_REACHES] = {[LS_REACH_ALL] = "all tokens",
                                                  [LS_REACH_PREFIX] = "earlier tokens",
                                                  [LS_REACH_NEIGHBOURS] = "neighbouring tokens",
                                                  [LS_REACH_OWN] = "its own token"};
    return names[reach];
}
