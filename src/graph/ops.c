/* The table of all ops. */
#include "graph/graph_impl.h"

#define ROW(op) &ls_op_##op
static const ls_op *const table[] = {LS_CALLED_OPS(ROW), LS_LOWERED_OPS(ROW)};

const ls_op *ls_op_at(int index) { return index >= 0 && index < (int)LS_COUNT(table) ? table[index] : NULL; }
