/*
 * run: starts the ranks, and executes programs. Each rank has an executor: it opens the rank's device
 * (device/device.h), which has the private arena and adopts the heap of the rank's ls_comm, prepares every kernel call
 * once, and then runs programs without allocating anything.
 */
#ifndef LS_RUN_H
#define LS_RUN_H

#include "comm/comm.h"
#include "program/program.h"

/* --- ranks (launch.c) --------------------------------------------------------------------------------------------- */

/*
 * The main function of a rank, in its own process or thread; its status is the rank's result. The launcher owns comm.
 */
typedef ls_status (*ls_rank_main)(ls_comm *comm, void *context);

/*
 * Runs rank_main once for each rank 0 .. ranks-1 of the world (`ranks` is the world's number of ranks) and returns
 * when all have ended. A world is launched once. Blocks; the calling thread must stay until the end and
 * should be the process's only one, or the others should have SIGINT, SIGTERM, SIGHUP and SIGUSR1 blocked.
 *
 * Processes (as_threads false) are forked from the caller, so each has a copy of context and of all other memory; what
 * they write outside the world's shared memory is lost when they end. They ignore SIGINT,
 * SIGTERM, SIGHUP and SIGUSR1 and die with the caller. Threads share context.
 *
 * SIGINT or SIGTERM to this process: the first calls ls_world_request_stop and logs it, the
 * second ends all ranks at once (with threads, the whole process). This holds even where a shell had
 * SIGINT ignored. SIGHUP (the terminal closed) and SIGUSR1 request a stop too, any number of times, SIGHUP unless it is
 * ignored (nohup). What a request to stop does is the ranks' business (ls_comm_end_at_stop).
 *
 * When a rank dies or returns a failure other than LS_INTERRUPTED, the world is aborted, so that waiting ranks
 * return LS_PEER; processes that have not ended 3 s after a death (30 s after a failure other than
 * LS_PEER, since a rank may be writing a checkpoint) are killed. Threads cannot be killed and are waited for.
 *
 * If a rank is stopped (SIGSTOP) for 7 s, or for half of the world's wait_timeout if that is less, its number and
 * process are logged, and later that it continues.
 *
 * When somebody else launched the ranks (ls_launched), the caller is one of them: rank_main runs once, in the calling
 * thread, and as_threads does not count. The first SIGUSR1, SIGINT, SIGTERM or SIGHUP requests a stop, which all ranks
 * hear of; a second SIGINT or SIGTERM ends the process. All ranks return the same status, unless they lose each other;
 * one that failed waits 3 s for the others after an LS_PEER (6 s where the rank that it waited for had left, and so
 * knows more of the cause), 30 s after another failure, and then aborts the job.
 *
 * Returns LS_OK when every rank did, else the root cause: a rank that died (LS_PEER, "rank 2 was killed by signal 9
 * (Killed)", or by the system because memory ran out, with the limit); else the earliest failure that is neither
 * LS_PEER nor LS_INTERRUPTED; else the earliest LS_PEER; else LS_INTERRUPTED. LS_NO_MEMORY when a rank could not be
 * started.
 */
LS_MUST_USE ls_status ls_launch(ls_world *world, int ranks, bool as_threads, ls_rank_main rank_main, void *context);

/* --- ranks that stay (crew.c) ------------------------------------------------------------------------------------- */

typedef struct ls_crew ls_crew;
typedef ls_status (*ls_crew_task)(void *state, const void *task);

/*
 * Starts rank_main for each rank of a world that nobody else launched, in a thread of this process that receives no
 * signals, and returns when each has called ls_crew_serve. *out is set before any rank begins, also where the status is
 * an error, and is the caller's to end. A world has one crew, once.
 *   here      the thread that calls ls_crew_call does rank 0's tasks, which saves waking another one. Not for devices
 *             that belong to a thread
 *   may_spin  waiting threads spin for 20 microseconds before they sleep
 */
LS_MUST_USE ls_status ls_crew_start(ls_world *world, bool here, bool may_spin, ls_rank_main rank_main, void *context,
                                    ls_crew **out);
/*
 * Gives every rank the task and returns when all have done it. When one fails, the world is aborted and the status is
 * the failure that explains the others; all later calls return it too. One call at a time.
 */
LS_MUST_USE ls_status ls_crew_call(ls_crew *crew, const void *task);
/*
 * In rank_main: do_task is called for each task of ls_crew_call, until one fails or the crew ends. Returns the status
 * of the last.
 */
LS_MUST_USE ls_status ls_crew_serve(ls_crew *crew, int rank, ls_crew_task do_task, void *state);
/* Waits for the threads to end; not while a call is under way. NULL is allowed. */
void ls_crew_end(ls_crew *crew);

/* --- memory (memory.c) -------------------------------------------------------------------------------------------- */

/* The time that first touches took, and the bytes that were mapped by them. */
typedef struct ls_touched {
    double seconds;
    size_t bytes;
} ls_touched;

/*
 * Makes the system map the pages of [start, start + bytes), start at a page, in slices that the pool's threads take in
 * turn, and adds to *sum. Contents are kept, also those that other ranks write at the same time. If the system refuses,
 * the remaining pages are mapped at their first use. comm (NULL: none) ticks between slices, since peers may wait.
 */
void ls_touch(void *start, size_t bytes, ls_pool *pool, ls_comm *comm, ls_touched *sum);

/* --- the executor (executor.c, execute.c, tensors.c) -------------------------------------------------------------- */

typedef struct ls_executor ls_executor;

/* Sums over the runs so far, in seconds. */
typedef struct ls_run_times {
    double total;
    double waiting; /* nothing could run: all queues waited for other ranks */
    double copying; /* inside puts */
    double sent;    /* bytes, not seconds: of the puts that the rank's thread made, and not its device */
} ls_run_times;

/* What programs of a rank need of its world: bytes of the heap and of common memory, and signal words. */
typedef struct ls_rank_needs {
    size_t heap, common;
    int words;
} ls_rank_needs;
static inline ls_rank_needs ls_needs_of(const ls_image *image) {
    return (ls_rank_needs){image->bytes[LS_SYMMETRIC], image->bytes[LS_COMMON], image->words};
}

/*
 * Creates a world for programs: with the ranks of the image, and for each rank what its own image needs, needs[rank];
 * NULL: all need what this one does. All ranks have as many signal words. transports as for ls_world_create.
 */
LS_MUST_USE ls_status ls_world_for(const ls_image *image, const ls_rank_needs *needs, const char *transports,
                                   bool may_spin, double wait_timeout, ls_world **out);

/*
 * Collective: all ranks of the world create an executor, once, and tell each other the addresses of their
 * transfers (program/address.h). Image and comm are borrowed until the executor is destroyed. Memory is zero
 * but for the tables of positions and mask spans. The device is the image's.
 * LS_NO_MEMORY names the bytes; LS_INVALID the channel whose ends differ; LS_PEER as in a run; other errors are those
 * of the device, and of kernels that refuse a call.
 */
LS_MUST_USE ls_status ls_executor_create(const ls_image *image, ls_comm *comm, ls_executor **out);
void ls_executor_destroy(ls_executor *executor); /* NULL is allowed */
/*
 * To be called before destroy where this rank ends while others may still run programs: memory to which their devices
 * copy stays until the end of the process. A run that fails does so itself.
 */
void ls_executor_fail(ls_executor *executor);

/*
 * Runs the program to its end on this rank; the other ranks must run it too. Blocks until the signals of peers arrive;
 * LS_PEER when a peer has died or makes no progress. LS_INVALID names the two programs when the image's phase table
 * does not have this one after the one that ran last.
 */
LS_MUST_USE ls_status ls_executor_run(ls_executor *executor, int program);
/* Whether its device launches programs as recordings (device.h), which it does while no spans are recorded. */
bool ls_executor_replays(const ls_executor *executor);
/* Bytes of the memory of the rank's device, and how many nobody uses. false: it keeps no account of them. */
bool ls_executor_account(const ls_executor *executor, size_t *unused, size_t *total);

ls_run_times ls_executor_times(const ls_executor *executor);
/* The first touch of the arenas when the executor was created; zero if too little memory was available. */
ls_touched ls_executor_touched(const ls_executor *executor);

/* A result: which output of which instruction of a program. */
typedef struct ls_result_place {
    int instr, output; /* instr -1: none */
} ls_result_place;
/*
 * Runs the program like ls_executor_run and inspects the results of every kernel: *bad is the first result that is not
 * finite. Slow; for the diagnosis of a failed step.
 */
LS_MUST_USE ls_status ls_executor_run_checked(ls_executor *executor, int program, ls_result_place *bad);

/*
 * The host's access to the memory of programs: copies the elements of an operand of this rank's own memory, in the
 * order of its view, to or from host memory without gaps; or sets the bytes of a dense one to zero. An operand is a
 * binding's, a part of one (ls_operand_slice, ls_image_elements), a master (ls_image_master), or any other. Between
 * runs. Blocks. Errors are those of the device.
 */
LS_MUST_USE ls_status ls_executor_read(const ls_executor *executor, const ls_operand *from, void *out);
LS_MUST_USE ls_status ls_executor_write(ls_executor *executor, const ls_operand *to, const void *from);
LS_MUST_USE ls_status ls_executor_clear(ls_executor *executor, const ls_operand *operand);

/*
 * Address of an operand's first element for longspan/attention.h, whose users own the arrays between calls; NULL where
 * the device has no addresses that the host may use. All others read and write.
 */
void *ls_executor_host_address(const ls_executor *executor, const ls_operand *operand);

/*
 * Scatter copies this rank's part of a dense global array into the bound tensor; gather copies it back and leaves the
 * other elements of `global` unchanged. `global` has the element type of the binding. Errors as of read and write;
 * LS_NO_MEMORY.
 */
LS_MUST_USE ls_status ls_executor_scatter(ls_executor *executor, const ls_binding *binding, const void *global);
LS_MUST_USE ls_status ls_executor_gather(const ls_executor *executor, const ls_binding *binding, void *global);
/*
 * The same for a global array with a stride, in elements, for each of the binding's dimensions; that of the last one
 * is 1. Not for parameters.
 */
LS_MUST_USE ls_status ls_executor_scatter_strided(ls_executor *executor, const ls_binding *binding, const void *global,
                                                  const int64_t *strides);
LS_MUST_USE ls_status ls_executor_gather_strided(const ls_executor *executor, const ls_binding *binding, void *global,
                                                 const int64_t *strides);

/*
 * The same for an array in memory of the rank's device, or of another device that it can access; any strides but that
 * of the last dimension. Copies have begun when a call returns; finish blocks until they are done. follow and knows:
 * ls_device_follow, ls_device_knows. LS_UNSUPPORTED: the device's memory is the host's.
 */
LS_MUST_USE ls_status ls_executor_scatter_on_device(ls_executor *executor, const ls_binding *binding, const void *array,
                                                    const int64_t *strides);
LS_MUST_USE ls_status ls_executor_gather_on_device(ls_executor *executor, const ls_binding *binding, void *array,
                                                   const int64_t *strides);
LS_MUST_USE ls_status ls_executor_finish_on_device(ls_executor *executor);
LS_MUST_USE ls_status ls_executor_follow(ls_executor *executor, void *stream);
LS_MUST_USE ls_status ls_executor_knows(ls_executor *executor, const void *address);

/*
 * Sets the document bounds of a micro-batch (ls_image.micro_batches) for the next programs. Sequence b of those that
 * this rank holds has the bounds ends[b*room], ...: n_ends[b] cumulative lengths from 0 to S. From then on a token sees
 * what the mask shows within its document. Programs do not change: they send and compute at most what they were
 * compiled for. ends NULL: no documents. LS_UNSUPPORTED: a mask has no room for another term. LS_INVALID: the job has
 * no typical documents, so that kernels may have been told what their masks are.
 */
LS_MUST_USE ls_status ls_executor_set_documents(ls_executor *executor, int micro, const int32_t *ends,
                                                const int *n_ends, int64_t room);

/* Bytes of an arena that are resident, of common memory this rank's share; 0 if the system does not say. */
int64_t ls_executor_resident(const ls_executor *executor, ls_space space);
/*
 * Bytes of the arenas in huge pages; 0 if the system does not say. In a mapping that other ranks' arenas share, all
 * its huge pages are taken to be this rank's, as far as they fit in its arenas: an upper bound.
 */
int64_t ls_executor_huge(const ls_executor *executor);
/* Bytes of the device's memory that recordings of its programs took, as far as the device says. */
int64_t ls_executor_recorded(const ls_executor *executor);

int ls_executor_rank(const ls_executor *executor);
ls_pool *ls_executor_pool(const ls_executor *executor);
const ls_image *ls_executor_image(const ls_executor *executor);

/* --- the record of an executor (trace.c) ----------------------------------------------------------------------- */

/*
 * The `instr` of spans that are no instruction: a whole run of a program; a time in which the rank slept because all
 * queues waited.
 */
enum { LS_SPAN_PROGRAM = -1, LS_SPAN_ASLEEP = -2 };

/*
 * Seconds on the host's monotonic clock, the same for all its processes. A wait's span begins when the wait first
 * blocks its queue.
 */
typedef struct ls_span_time {
    double begin, end;
    int program, instr;
    uint64_t run; /* number of the run of that program, from 0 */
} ls_span_time;

/*
 * Records spans from now on, in a ring of the newest `spans` >= 1 that is allocated here, so that recording allocates
 * nothing. Once per executor. Without a record, it costs one branch per instruction. LS_NO_MEMORY names the bytes.
 */
LS_MUST_USE ls_status ls_executor_record(ls_executor *executor, size_t spans);

/* The number of kept spans (0 without ls_executor_record), and the i-th of them in the order in which they ended. */
size_t ls_executor_spans(const ls_executor *executor);
const ls_span_time *ls_executor_span(const ls_executor *executor, size_t i);

#endif
