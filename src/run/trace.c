/* The record of an executor: a ring of the newest spans. */
#include "run/executor_impl.h"

#include <stdlib.h>

ls_status ls_executor_record(ls_executor *ex, size_t spans) {
    LS_ASSERT(ex->trace == NULL && spans >= 1);
    ls_trace *trace = calloc(1, sizeof *trace);
    ls_span_time *ring = malloc(spans * sizeof *ring);
    if (trace == NULL || ring == NULL) {
        free(trace);
        free(ring);
        return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a trace of %zu spans", spans * sizeof *ring,
                        spans);
    }
    for (size_t i = 0; i < spans; i++) ring[i] = (ls_span_time){.instr = LS_SPAN_ASLEEP}; /* maps the pages now */
    *trace = (ls_trace){.ring = ring, .capacity = spans};
    ex->trace = trace;
    return ls_ok();
}

void ls_trace_add(ls_trace *trace, ls_span_time span) { trace->ring[trace->count++ % trace->capacity] = span; }

void ls_trace_destroy(ls_trace *trace) {
    if (trace == NULL) return;
    free(trace->ring);
    free(trace);
}

size_t ls_executor_spans(const ls_executor *ex) {
    if (ex->trace == NULL) return 0;
    return ex->trace->count < ex->trace->capacity ? ex->trace->count : ex->trace->capacity;
}

const ls_span_time *ls_executor_span(const ls_executor *ex, size_t i) {
    const size_t n = ls_executor_spans(ex);
    LS_ASSERT(i < n);
    return &ex->trace->ring[(ex->trace->count - n + i) % ex->trace->capacity];
}
