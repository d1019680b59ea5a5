/*
 * Kernels whose time goes by their bytes: one pass over their operands, with more or less to compute on the way. Each is one row: what a
 * call of it looks like, for plan to measure (plan/measure_streams.c) and for cost.h to find what was measured.
 */
#ifndef LS_PROGRAM_STREAM_H
#define LS_PROGRAM_STREAM_H

#include <stdbool.h>

/*
 * in, out: one letter for each operand of a call on n tokens of E elements (H heads of D), of element type T with accumulator G:
 *   x T[n,E]   g G[n,E]   w T[E]   s G[E]   r G[n]   i i32[n], rows of a table   q f64[1]   c the control of an update
 *   v T[n/16,16 E], logits   l i32[n/16], labels   k G[n/16]
 *   t T[n,H,D]   a G[n,D], angles   h T[1,n,H,D]   p G[1,H,n]
 */
typedef struct ls_stream_row {
    const char *name; /* of the kernel */
    const char *in, *out;
    bool of_accumulator; /* the kernel is that of type G */
    const void *params;
} ls_stream_row;

enum { LS_STREAMS = 23 };
extern const ls_stream_row ls_streams[LS_STREAMS];

/* The row of a kernel; one that has none is taken for the first, which adds. */
int ls_stream_of(const char *kernel);

#endif
