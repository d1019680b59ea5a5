/* Shared by the files of the launcher. */
#ifndef LS_RUN_LAUNCH_IMPL_H
#define LS_RUN_LAUNCH_IMPL_H

#include "run/run.h"

/* launched.c: ls_launch if the caller is rank `rank` of a world whose ranks somebody else has launched. */
ls_status ls_run_launched(ls_world *world, int rank, ls_rank_main rank_main, void *context);

#endif
