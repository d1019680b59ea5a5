/*
 * run: starts the ranks, and executes programs. Each rank has an executor. The executor opens the rank's device
 * (device/device.h), which allocates the private arena and adopts the heap of the rank's ls_comm; it prepares every
 * kernel call once; then it runs programs without allocating anything.
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
 * when all have ended. A world is launched once. Blocks. The calling thread must exist until the end. It should be the
 * only thread of the process; other threads should have SIGINT, SIGTERM, SIGHUP and SIGUSR1 blocked.
 *
 * Processes (as_threads false) are forked from the caller, so each has a copy of context and of all other memory; what
 * they write outside the world's shared memory is lost when they end. They ignore SIGINT, SIGTERM, SIGHUP and SIGUSR1,
 * and die with the caller. Threads share context.
 *
 * The first SIGINT or SIGTERM to this process calls ls_world_request_stop and is logged; the second ends all ranks at
 * once (with threads, the whole process). This holds even if a shell had set SIGINT to be ignored. SIGHUP (the terminal
 * closed) and SIGUSR1 also request a stop, any number of times; SIGHUP does not if it is ignored (nohup). The ranks
 * themselves react to the request (ls_comm_end_at_stop).
 *
 * When a rank dies or returns a failure other than LS_INTERRUPTED, the world is aborted, so that waiting ranks return
 * LS_PEER. Processes that have not ended 3 s after a death are killed (30 s after a failure other than LS_PEER, because
 * a rank may be writing a checkpoint). Threads cannot be killed and are waited for.
 *
 * If a rank is stopped (SIGSTOP) for 7 s, or for half of the world's wait_timeout if that is less, its number and
 * process are logged; when it continues, this is logged too.
 *
 * When somebody else launched the ranks (ls_launched), the caller is one of them: rank_main runs once, in the calling
 * thread, and as_threads is ignored. The first SIGUSR1, SIGINT, SIGTERM or SIGHUP requests a stop, of which all ranks
 * are notified; a second SIGINT or SIGTERM ends the process. All ranks return the same status, unless they lose contact
 * with each other. A rank that failed waits for the others, and then aborts the job: it waits 3 s after an LS_PEER (6 s
 * if the rank that it waited for had left, and so knows more of the cause), 30 s after another failure.
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
 * signals, and returns when each has called ls_crew_serve. *out is set before any rank begins, even if the status is an
 * error; the caller must end it. A world has one crew, once.
 *   here      the thread that calls ls_crew_call does rank 0's tasks, so that no other thread must be woken for them.
 *             Not for devices that belong to a thread
 *   may_spin  waiting threads spin for 20 microseconds before they sleep
 */
LS_MUST_USE ls_status ls_crew_start(ls_world *world, bool here, bool may_spin, ls_rank_main rank_main, void *context,
                                    ls_crew **out);
/*
 * Gives every rank the task and returns when all have done it. If one fails, the world is aborted; the status is the
 * failure that caused the others, and all later calls return it too. One call at a time.
 */
LS_MUST_USE ls_status ls_crew_call(ls_crew *crew, const void *task);
/*
 * To be called in rank_main: calls do_task for each task of ls_crew_call, until one fails or the crew ends. Returns the
 * status of the last task.
 */
LS_MUST_USE ls_status ls_crew_serve(ls_crew *crew, int rank, ls_crew_task do_task, void *state);
/* Ends the crew, and waits for the threads to end; not during a call of ls_crew_call. NULL is allowed. */
void ls_crew_end(ls_crew *crew);

/* --- memory (memory.c) -------------------------------------------------------------------------------------------- */

/* The time that first touches took, and the bytes that were mapped by them. */
typedef struct ls_touched {
    double seconds;
    size_t bytes;
} ls_touched;

/*
 * Makes the system map the pages of [start, start + bytes), where start begins a page, in slices that the pool's
 * threads take in turn, and adds to *sum. Contents are kept, also those that other ranks write at the same time. If the
 * system refuses, the remaining pages are mapped at their first use. comm (NULL: none) ticks between slices, because
 * peers may be waiting.
 */
void ls_touch(void *start, size_t bytes, ls_pool *pool, ls_comm *comm, ls_touched *sum);

/* --- the executor (executor.c, execute.c, tensors.c) -------------------------------------------------------------- */

typedef struct ls_executor ls_executor;

/* Sums over the runs so far, in seconds. */
typedef struct ls_run_times {
    double total;
    double waiting; /* in which nothing could run, because all queues waited for other ranks */
    double copying; /* inside puts */
    double sent;    /* bytes, not seconds: of the puts made by the rank's thread, without those made by its device */
} ls_run_times;

/* What the programs of a rank need from the world: bytes of the heap and of common memory, and signal words. */
typedef struct ls_rank_needs {
    size_t heap, common;
    int words;
} ls_rank_needs;
static inline ls_rank_needs ls_needs_of(const ls_image *image) {
    return (ls_rank_needs){image->bytes[LS_SYMMETRIC], image->bytes[LS_COMMON], image->words};
}

/*
 * Creates a world for programs, with the ranks of the image. needs[rank]: what the image of each rank needs; NULL: all
 * need the same as this image. All ranks have the same number of signal words. transports as for ls_world_create.
 */
LS_MUST_USE ls_status ls_world_for(const ls_image *image, const ls_rank_needs *needs, const char *transports,
                                   bool may_spin, double wait_timeout, ls_world **out);

/*
 * Collective: all ranks of the world create an executor, once, and tell each other the addresses of their transfers
 * (program/address.h). Image and comm are borrowed until the executor is destroyed. Memory is zero, except for the
 * tables of positions and mask spans. The device is the image's.
 *
 * LS_NO_MEMORY names the bytes; LS_INVALID names the channel whose ends differ; LS_PEER as in a run; other errors are
 * those of the device, and of kernels that refuse a call.
 */
LS_MUST_USE ls_status ls_executor_create(const ls_image *image, ls_comm *comm, ls_executor **out);
void ls_executor_destroy(ls_executor *executor); /* NULL is allowed */
/*
 * To be called before destroy if this rank ends while others may still run programs: memory to which their devices copy
 * then stays until the end of the process. A run that fails calls it itself.
 */
void ls_executor_fail(ls_executor *executor);

/*
 * Runs the program to its end on this rank; the other ranks must run it too. Blocks until the signals of peers arrive;
 * LS_PEER when a peer has died or makes no progress. LS_INVALID names the two programs when the image's phase table
 * does not have this one after the one that ran last.
 */
LS_MUST_USE ls_status ls_executor_run(ls_executor *executor, int program);
/* Whether the device can launch programs as recordings (device.h); it does while no spans are recorded. */
bool ls_executor_replays(const ls_executor *executor);
/* Bytes of the memory of the rank's device, and how many of them are unused. false: the device keeps no account. */
bool ls_executor_account(const ls_executor *executor, size_t *unused, size_t *total);

ls_run_times ls_executor_times(const ls_executor *executor);
/* The first touch of the arenas when the executor was created; zero if too little memory was available. */
ls_touched ls_executor_touched(const ls_executor *executor);

/* A result of a program: the instruction, and the number of its output. */
typedef struct ls_result_place {
    int instr, output; /* instr -1: none */
} ls_result_place;
/*
 * Runs the program like ls_executor_run and inspects the results of every kernel: *bad is the first result that is not
 * finite. Slow; for the diagnosis of a failed step.
 */
LS_MUST_USE ls_status ls_executor_run_checked(ls_executor *executor, int program, ls_result_place *bad);

/*
 * The host's access to the memory of programs: copies the elements of an operand in this rank's own memory, in the
 * order of its view, to or from dense host memory; clear sets the bytes of a dense operand to zero. The operand may be
 * that of a binding, a part of one (ls_operand_slice, ls_image_elements), a master (ls_image_master), or any other. To
 * be called between runs. Blocks. Errors are those of the device.
 */
LS_MUST_USE ls_status ls_executor_read(const ls_executor *executor, const ls_operand *from, void *out);
LS_MUST_USE ls_status ls_executor_write(ls_executor *executor, const ls_operand *to, const void *from);
LS_MUST_USE ls_status ls_executor_clear(ls_executor *executor, const ls_operand *operand);

/*
 * Address of an operand's first element, for longspan/attention.h, whose users own the arrays between calls; NULL if
 * the device has no addresses that the host may use. All other callers use read and write.
 */
void *ls_executor_host_address(const ls_executor *executor, const ls_operand *operand);

/*
 * Scatter copies this rank's part of a dense global array into the bound tensor; gather copies that part back and
 * leaves the other elements of `global` unchanged. `global` has the element type of the binding. Errors as of read and
 * write; LS_NO_MEMORY.
 */
LS_MUST_USE ls_status ls_executor_scatter(ls_executor *executor, const ls_binding *binding, const void *global);
LS_MUST_USE ls_status ls_executor_gather(const ls_executor *executor, const ls_binding *binding, void *global);
/*
 * The same for a global array with a stride, in elements, for each of the binding's dimensions; the last stride is 1.
 * Not for parameters.
 */
LS_MUST_USE ls_status ls_executor_scatter_strided(ls_executor *executor, const ls_binding *binding, const void *global,
                                                  const int64_t *strides);
LS_MUST_USE ls_status ls_executor_gather_strided(const ls_executor *executor, const ls_binding *binding, void *global,
                                                 const int64_t *strides);

/*
 * The same for an array in memory of the rank's device, or of another device that it can access; the strides are
 * arbitrary, except that of the last dimension. Copies have begun when a call returns; finish blocks until they are
 * done. follow and knows: ls_device_follow, ls_device_knows. LS_UNSUPPORTED: the device's memory is the host's.
 */
LS_MUST_USE ls_status ls_executor_scatter_on_device(ls_executor *executor, const ls_binding *binding, const void *array,
                                                    const int64_t *strides);
LS_MUST_USE ls_status ls_executor_gather_on_device(ls_executor *executor, const ls_binding *binding, void *array,
                                                   const int64_t *strides);
LS_MUST_USE ls_status ls_executor_finish_on_device(ls_executor *executor);
LS_MUST_USE ls_status ls_executor_follow(ls_executor *executor, void *stream);
LS_MUST_USE ls_status ls_executor_knows(ls_executor *executor, const void *address);

/*
 * Sets the document bounds of a micro-batch (ls_image.micro_batches) for the next programs. Sequence b of this rank's
 * sequences has the bounds ends[b*room], ...: n_ends[b] cumulative lengths from 0 to S. From then on a token sees only
 * those tokens of its document that the mask shows it. Programs do not change: they send and compute at most what they
 * were compiled for. ends NULL: no documents. LS_UNSUPPORTED: a mask has no room for another term. LS_INVALID: the job
 * has no typical documents, so kernels may have been compiled for fixed masks.
 */
LS_MUST_USE ls_status ls_executor_set_documents(ls_executor *executor, int micro, const int32_t *ends,
                                                const int *n_ends, int64_t room);

/* Resident bytes of an arena (of common memory: of this rank's share); 0 if the system does not say. */
int64_t ls_executor_resident(const ls_executor *executor, ls_space space);
/*
 * Bytes of the arenas in huge pages; 0 if the system does not say. In a mapping that other ranks' arenas share, all
 * its huge pages are taken to be this rank's, as far as they fit in its arenas: an upper bound.
 */
int64_t ls_executor_huge(const ls_executor *executor);
/* Bytes of the device's memory that the recordings of programs take, as far as the device says. */
int64_t ls_executor_recorded(const ls_executor *executor);

int ls_executor_rank(const ls_executor *executor);
ls_pool *ls_executor_pool(const ls_executor *executor);
const ls_image *ls_executor_image(const ls_executor *executor);

/* --- the record of an executor (trace.c) ----------------------------------------------------------------------- */

/*
 * The `instr` of spans that are not of an instruction: a whole run of a program; a time in which the rank slept because
 * all queues waited.
 */
enum { LS_SPAN_PROGRAM = -1, LS_SPAN_ASLEEP = -2 };

/*
 * Seconds on the host's monotonic clock, which is the same for all processes of the host. The span of a wait begins
 * when the wait first blocks its queue.
 */
typedef struct ls_span_time {
    double begin, end;
    int program, instr;
    uint64_t run; /* number of the run of that program, from 0 */
} ls_span_time;

/*
 * Records spans from now on, in a ring of the newest `spans` >= 1 spans. The ring is allocated here, so that recording
 * allocates nothing. Once per executor. If spans are not recorded, this costs one branch per instruction. LS_NO_MEMORY
 * names the bytes.
 */
LS_MUST_USE ls_status ls_executor_record(ls_executor *executor, size_t spans);

/* The number of kept spans (0 without ls_executor_record), and the i-th of them in the order in which they ended. */
size_t ls_executor_spans(const ls_executor *executor);
const ls_span_time *ls_executor_span(const ls_executor *executor, size_t i);

#endif
