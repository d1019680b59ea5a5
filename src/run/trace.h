/*
 * What an executor did when: spans in a ring that is made before programs run, so that recording allocates nothing. Off, it
 * costs one branch per instruction.
 */
#ifndef LS_RUN_TRACE_H
#define LS_RUN_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "longspan/status.h"

/* In place of an instruction: the whole run of a program; and time in which the rank slept, since both queues waited. */
enum { LS_SPAN_PROGRAM = -1, LS_SPAN_ASLEEP = -2 };

/* Seconds on the host's monotonic clock, the same for all its processes. A wait's span begins when it first stood at the head. */
typedef struct ls_span_time {
    double begin, end;
    int program, instr;
    uint64_t run; /* of that program, from 0 */
} ls_span_time;

typedef struct ls_executor ls_executor;

/* Records from now on, keeping the newest `spans` >= 1. Once per executor. LS_NO_MEMORY names the bytes. */
LS_MUST_USE ls_status ls_executor_record(ls_executor *executor, size_t spans);

/* Spans that are kept, and the i-th of them, in the order in which they ended. 0 without ls_executor_record. */
size_t ls_executor_spans(const ls_executor *executor);
const ls_span_time *ls_executor_span(const ls_executor *executor, size_t i);

#endif
