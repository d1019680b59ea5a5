/* The benches of `longspan bench`: one function each, a row of the table in bench.c; and what they share (bench_shared.c). */
#ifndef LS_BENCH_IMPL_H
#define LS_BENCH_IMPL_H

#include "job/job_impl.h"

LS_MUST_USE ls_status ls_run_bench_attention(const ls_bench_job *job, FILE *out); /* bench_attention.c */
LS_MUST_USE ls_status ls_run_bench_comm(const ls_bench_job *job, FILE *out);      /* bench_comm.c */

enum { LS_BENCH_MOST_ROUNDS = 64 };

/* An option that was left out gets its initial value. */
void ls_bench_fill_in(int64_t *value, int64_t initial);
/* --rounds, from 1 to LS_BENCH_MOST_ROUNDS. LS_USAGE. */
LS_MUST_USE ls_status ls_bench_rounds(const ls_bench_options *options, int initial, int *out);
/* Of one value for each round, which keep their order. */
double ls_bench_median(const double *values, int rounds);

/* What the machine could do, what was done, and the one by the other; both of one unit, "ns" or "GB/s". */
typedef struct ls_bench_figure {
    const char *unit;
    double floor, figure, ratio;
} ls_bench_figure;

/* The end of a line of a table: floor, figure, unit and ratio, under the titles. */
void ls_bench_print_titles(const char *figure, FILE *out);
void ls_bench_print_figure(const ls_bench_figure *figure, FILE *out);
/* As fields of an open object. */
void ls_bench_put_figure(const ls_bench_figure *figure, ls_json_writer *writer);

#endif
