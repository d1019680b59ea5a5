/* The state of an executor, for the files of this folder. */
#ifndef LS_EXECUTOR_IMPL_H
#define LS_EXECUTOR_IMPL_H

#include "device/device.h"
#include "run/run.h"

/* One instruction with resolved addresses and its kernel prepared. */
typedef struct ls_prepared {
    const ls_kernel *kernel; /* NULL: it is none */
    ls_kernel_call call;
    void *state;                /* made by the kernel's prepare, for this call or one before it */
    bool borrowed;              /* it belongs to one before it */
    double launched;            /* ls_seconds() of its last launch, while recording */
    int peer;                   /* rank; of a communicating instruction */
    ls_range from, to;          /* of a put: within the source's arena, and within the heap */
    ls_device_count count;      /* of a put: of the rows of these that travel */
    uint64_t ticket;            /* of a put: that of its last execution */
    ls_device_access *accesses; /* in this rank's memory; where the device judges */
    int n_accesses;
    int opening; /* where the device judges, of what takes bytes back: what gave them to others; -1: none */
} ls_prepared;

typedef struct ls_prepared_program {
    ls_prepared *instrs;
    ls_uses uses;
    ls_address *addresses; /* by use: what its other end told this rank */
    uint64_t *told;        /* by end: generations of the channel's words that telling took; those of runs follow */
    ls_cursor cursor;
    double *held; /* by queue, while recording: since when the wait at the head blocks the queue; 0: it does not */
    ls_awaited *awaited;            /* by queue: room for what all of them wait for */
    int *unfinished;                /* by queue: its first put that is not known to be done, or a later instruction */
    ls_event *events;               /* room for what a launch comes after */
    uint64_t runs;                  /* completed so far */
    ls_device_recording *recording; /* of all its launches, before its first run; NULL: there is none */
} ls_prepared_program;

/* What became of the first call of its form. */
typedef struct ls_call_form {
    const ls_kernel *wanted;  /* that has `shares` */
    const ls_prepared *first; /* its kernel is another one if the wanted one refused it */
} ls_call_form;

typedef struct ls_trace {
    ls_span_time *ring;
    size_t capacity, count; /* count: all that were recorded, also overwritten ones */
} ls_trace;

enum { LS_STAGE_BYTES = 1 << 20, LS_RECORDED_EVENT = 1 }; /* the number of a recording's first event */

struct ls_executor {
    const ls_image *image;
    ls_comm *comm;
    ls_pool *pool;
    ls_arena *memory; /* of the executor itself */
    ls_device *device;
    const ls_device_arena *arena[LS_SPACES];
    ls_device_remote *remotes; /* by rank; words NULL: it is not reached. NULL: the device has no messages */
    int queues; /* of the program that has most; the device has another one for the puts of each, unless it has messages
                 */
    uint64_t event;                /* the highest number that an event has had */
    int32_t *own_positions;        /* of this rank's tokens */
    int32_t *positions;            /* of all tokens, rank after rank; NULL without attention */
    ls_span *spans;                /* room for those of one sequence */
    char *stage;                   /* LS_STAGE_BYTES: a part of a tensor between device and host */
    bool *documents;               /* by mask: its spans are those of a batch's documents */
    ls_prepared_program *programs; /* by program of the image */
    ls_index forms;                /* by ls_kernel_forms_hash: their place in `form` */
    ls_call_form *form;
    int n_forms;
    size_t form_capacity;
    bool complete; /* it has been created */
    bool failed;   /* other ranks may still run programs */
    int last;      /* the program that ran last; LS_FIRST: none has */
    ls_run_times times;
    ls_touched touched;
    ls_trace *trace; /* NULL: spans are not recorded */
};

/*
 * Tells the other ends of all channels where what they put shall land and what they borrow lies, and is told
 * the same by them (addresses.c). Collective among the ranks that share channels; a rank exchanges messages
 * with its peers only. LS_INVALID where the two ends of a channel differ in the number of its uses or in the
 * form of one; LS_PEER as in a run.
 */
LS_MUST_USE ls_status ls_executor_exchange(ls_executor *executor);
/* Bytes of the heap that the exchange needs at least. */
size_t ls_exchange_heap(int words);

/* Records the launches of all programs, on a device that can (execute.c). */
LS_MUST_USE ls_status ls_executor_record_programs(ls_executor *executor);

/*
 * Computes the rank's own positions, and fills the tables: the settings of the update, positions of all
 * tokens, spans of each mask for this rank's queries.
 */
LS_MUST_USE ls_status ls_executor_fill_tables(ls_executor *executor);

/* trace.c */
void ls_trace_add(ls_trace *trace, ls_span_time span);
void ls_trace_destroy(ls_trace *trace); /* NULL is allowed */

#endif
