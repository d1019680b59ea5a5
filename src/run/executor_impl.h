/* The executor's inside, shared by its files. */
#ifndef LS_EXECUTOR_IMPL_H
#define LS_EXECUTOR_IMPL_H

#include "run/run.h"

/* One instruction, ready to run: addresses resolved, kernel prepared. */
typedef struct ls_prepared {
    ls_kernel_call call;
    void *state;       /* the kernel's */
    ls_range from, to; /* of a put, within the source's arena and the heap */
} ls_prepared;

typedef struct ls_prepared_program {
    ls_prepared *instrs;
    int *queue[LS_QUEUES]; /* instructions of each queue, in order */
    int length[LS_QUEUES];
    uint64_t runs; /* made so far: the base of generations */
} ls_prepared_program;

typedef struct ls_trace {
    ls_span_time *ring;
    size_t capacity, count; /* count: recorded so far, overwritten ones included */
} ls_trace;

struct ls_executor {
    const ls_image *image;
    ls_comm *comm;
    ls_pool *pool;
    ls_arena *arena;
    void *base[LS_SPACES];
    int32_t *own_positions; /* of this rank's tokens */
    bool documents;         /* the tables of spans follow a batch's documents */
    ls_prepared_program programs[LS_PROGRAMS];
    ls_run_times times;
    ls_touched touched;
    ls_trace *trace; /* NULL: nothing is recorded */
};

void ls_trace_add(ls_trace *trace, ls_span_time span);
void ls_trace_destroy(ls_trace *trace); /* NULL is allowed */

/* The rank's own positions; in tables, positions of all tokens and the spans of each mask for this rank's queries. */
void ls_executor_fill_tables(ls_executor *executor);

#endif
