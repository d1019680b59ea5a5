/*
 * Traces: what the queues of all ranks did when, as a file that trace viewers open (Perfetto, chrome://tracing): the Trace Event
 * Format in JSON. A process per rank; a thread per queue, with a span per instruction, named by its op and number; a thread for the
 * programs and one for sleep, the time in which both queues waited. Arrows go from puts and signals to the waits that they end.
 */
#ifndef LS_PLAN_TRACE_H
#define LS_PLAN_TRACE_H

#include "plan/session.h"

/*
 * Collective: every rank of the session calls it with the same path, after ls_executor_record and the runs. Each writes
 * its part beside the file, rank 0 joins them and removes them. On error each rank returns the first failing rank's status.
 */
LS_MUST_USE ls_status ls_trace_write(const ls_rank *rank, const char *path);

/* Spans that a ring needs for so many runs of programs micro and step on this rank. */
size_t ls_trace_spans(const ls_image *image, int64_t micros, int64_t steps);

#endif
