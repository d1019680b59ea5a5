/* The state of an executor, for executor.c and tensors.c. */
#ifndef LS_EXECUTOR_IMPL_H
#define LS_EXECUTOR_IMPL_H

#include "run/run.h"

/* One instruction with resolved addresses and its kernel prepared. */
typedef struct ls_prepared {
    ls_kernel_call call;
    void *state;       /* made by the kernel's prepare */
    int peer;          /* rank; of a communicating instruction */
    ls_range from, to; /* of a put: within the source's arena, and within the heap */
    uint64_t ticket;   /* of a put: that of its last execution */
} ls_prepared;

typedef struct ls_prepared_program {
    ls_prepared *instrs;
    ls_cursor cursor;
    double *
        held; /* by queue, while recording: since when the wait at the head blocks the queue; 0: it does not */
    ls_awaited *awaited; /* by queue: room for what all of them wait for */
    uint64_t runs;       /* completed so far */
} ls_prepared_program;

typedef struct ls_trace {
    ls_span_time *ring;
    size_t capacity, count; /* count: all that were recorded, also overwritten ones */
} ls_trace;

struct ls_executor {
    const ls_image *image;
    ls_comm *comm;
    ls_pool *pool;
    ls_arena *arena;
    void *base[LS_SPACES];
    int32_t *own_positions;        /* of this rank's tokens */
    bool documents;                /* the tables of spans are those of a batch's documents */
    ls_prepared_program *programs; /* by program of the image */
    ls_run_times times;
    ls_touched touched;
    ls_trace *trace; /* NULL: spans are not recorded */
};

/*
 * Computes the rank's own positions, and fills the tables: the settings of the update, positions of all tokens, spans of each mask for
 * this rank's queries.
 */
void ls_executor_fill_tables(ls_executor *executor);

#endif
