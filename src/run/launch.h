/*
 * Starts the ranks of a world and sees them to their end. No daemon, no port, no file.
 */
#ifndef LS_RUN_LAUNCH_H
#define LS_RUN_LAUNCH_H

#include "comm/comm.h"

/* What a rank does, in its own process or thread; its status is the rank's result. The launcher owns comm. */
typedef ls_status (*ls_rank_main)(ls_comm *comm, void *context);

/*
 * Runs rank_main once for each rank 0 .. ranks-1 of the world (`ranks` as the world was made) and returns
 * when all have ended. A world is launched once. Blocks; the calling thread must stay until the end and
 * should be the process's only one, or the others should have SIGINT, SIGTERM and SIGHUP blocked.
 *
 * Processes (as_threads false) are forked here, so context and everything else that exists is copied into
 * each of them, and what they write outside the world's shared memory is lost with them. They ignore SIGINT,
 * SIGTERM and SIGHUP and die with the caller. Threads share context.
 *
 * SIGINT or SIGTERM to this process: the first calls ls_world_request_stop and says so on standard error, the
 * second ends all ranks at once (threads: and the process with them). This holds even where a shell had
 * SIGINT ignored. SIGHUP (the terminal closed) requests a stop too, any number of times, unless it is ignored (nohup).
 *
 * When a rank dies or returns a failure (LS_INTERRUPTED is none), the world is aborted, so that waiting ranks
 * return LS_PEER; processes that are still there 3 s after a death (30 s after a failure that was no LS_PEER,
 * since a rank may be writing a checkpoint) are killed. Threads cannot be killed and are waited for.
 *
 * A rank that is stopped (SIGSTOP) for 10 s, or half the world's wait_timeout where that is less, is told of with its process, and so is its going on.
 *
 * Returns LS_OK when every rank did, else the root cause: a rank that died (LS_PEER, "rank 2 was killed by
 * signal 9 (Killed)", or by the system because memory ran out, with the limit), else the earliest failure that is neither LS_PEER nor LS_INTERRUPTED, else the
 * earliest LS_PEER, else LS_INTERRUPTED. LS_NO_MEMORY when a rank could not be started.
 */
LS_MUST_USE ls_status ls_launch(ls_world *world, int ranks, bool as_threads, ls_rank_main rank_main,
                                void *context);

#endif
