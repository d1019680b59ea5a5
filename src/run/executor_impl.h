/* The state of an executor, for the files of this folder. */
#ifndef LS_EXECUTOR_IMPL_H
#define LS_EXECUTOR_IMPL_H

#include "device/device.h"
#include "run/run.h"

/* One instruction with resolved addresses and its kernel prepared. */
typedef struct ls_prepared {
    const ls_kernel *kernel; /* NULL: the instruction is no kernel */
    ls_kernel_call call;
    void *state;                /* made by the kernel's prepare, for this call or an earlier one */
    bool borrowed;              /* the state belongs to an earlier call */
    double launched;            /* while spans are recorded: ls_seconds() of the last launch */
    int peer;                   /* the peer's rank, if the instruction communicates */
    ls_range from, to;          /* of a put: the ranges within the source's arena, and within the heap */
    ls_device_count count;      /* of a put: the number of rows that are sent */
    uint64_t ticket;            /* of a put: the ticket of its last execution */
    ls_device_access *accesses; /* if the device judges: accesses to this rank's memory */
    int n_accesses;
    int opening; /* if the device judges, and this takes bytes back: the instruction that gave them away; -1: none */
} ls_prepared;

typedef struct ls_prepared_program {
    ls_prepared *instrs;
    ls_uses uses;
    ls_address *addresses; /* by use: the address that the other end told this rank */
    uint64_t *told; /* by end: how many generations of the channel's words the notes took; those of runs follow */
    ls_cursor cursor;
    double *held; /* by queue, while spans are recorded: since when the wait at the head blocks it; 0: it does not */
    ls_awaited *awaited;            /* by queue: room for the words that the heads wait for */
    int *unfinished;                /* by queue: the first put that is not known to be done, or a later instruction */
    ls_event *events;               /* room for the events that a launch comes after */
    uint64_t runs;                  /* completed so far */
    ls_device_recording *recording; /* of all launches, made before the first run; NULL: there is none */
} ls_prepared_program;

/* The first call of a form, and how it was prepared. */
typedef struct ls_call_form {
    const ls_kernel *wanted;  /* the kernel that was to be used; it has `shares` */
    const ls_prepared *first; /* has another kernel if the wanted one refused the call */
} ls_call_form;

typedef struct ls_trace {
    ls_span_time *ring;
    size_t capacity, count; /* count: all recorded spans, including overwritten ones */
} ls_trace;

enum { LS_STAGE_BYTES = 1 << 20, LS_RECORDED_EVENT = 1 }; /* LS_RECORDED_EVENT: number of a recording's first event */

struct ls_executor {
    const ls_image *image;
    ls_comm *comm;
    ls_pool *pool;
    ls_arena *memory; /* of the executor itself */
    ls_device *device;
    const ls_device_arena *arena[LS_SPACES];
    ls_device_remote *remotes; /* by rank; words NULL: no message reaches it. NULL: the device has no messages */
    int queues; /* of the program that has most; the device has another one for the puts of each, unless it has messages
                 */
    uint64_t event;                /* the highest number of an event so far */
    int32_t *own_positions;        /* of this rank's tokens */
    int32_t *positions;            /* of all tokens, rank after rank; NULL without attention */
    ls_span *spans;                /* room for the spans of one sequence */
    char *stage;                   /* LS_STAGE_BYTES: room for a part of a tensor on its way between device and host */
    bool *documents;               /* by mask: its table has the spans of a batch's documents */
    ls_prepared_program *programs; /* by program of the image */
    ls_index forms;                /* by ls_kernel_forms_hash: the index in `form` */
    ls_call_form *form;
    int n_forms;
    size_t form_capacity;
    bool complete; /* the creation has succeeded */
    bool failed;   /* this rank ends, but others may still run programs */
    int last;      /* the program that ran last; LS_FIRST: none has run */
    ls_run_times times;
    ls_touched touched;
    ls_trace *trace; /* NULL: spans are not recorded */
};

/*
 * Tells the other ends of all channels where their puts go and where the blocks that they borrow are, and is told the
 * same by them (addresses.c). Collective among the ranks that share channels; a rank exchanges messages only with its
 * peers. LS_INVALID if the two ends of a channel differ in the number of its uses or in the form of a use; LS_PEER as
 * in a run.
 */
LS_MUST_USE ls_status ls_executor_exchange(ls_executor *executor);
/* The least bytes of the heap that the exchange needs. */
size_t ls_exchange_heap(int words);

/* Records the launches of all programs; the device must be able to record or to load (execute.c). */
LS_MUST_USE ls_status ls_executor_record_programs(ls_executor *executor);

/*
 * Computes the rank's own positions, and fills the tables: the settings of the update, the positions of all tokens, and
 * the spans of each mask for this rank's queries.
 */
LS_MUST_USE ls_status ls_executor_fill_tables(ls_executor *executor);

/* trace.c */
void ls_trace_add(ls_trace *trace, ls_span_time span);
void ls_trace_destroy(ls_trace *trace); /* NULL is allowed */

#endif
