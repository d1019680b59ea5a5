/* Agreement of the processes of launched ranks on a spread. */
#ifndef LS_SESSION_SPREAD_IMPL_H
#define LS_SESSION_SPREAD_IMPL_H

#include "longspan/spread.h"
#include "plan/plan.h"

enum { LS_MOST_THREADS = 1024 };

/*
 * Compares what the processes were given, and the instruction sets and kinds of devices that they use; LS_USAGE names
 * what differs. Threads and a choice of kernels that were not given become those of rank 0: both depend on its machine,
 * and both decide the order of sums. Collective; does nothing if this process starts the ranks.
 */
LS_MUST_USE ls_status ls_spread_agree(const ls_spread *spread, ls_kernel_device device, ls_plan_request *request);

#endif
