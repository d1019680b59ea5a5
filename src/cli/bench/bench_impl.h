/* The benches of `longspan bench`: one function each, a row of the table in bench.c; and what they share (bench_shared.c). */
#ifndef LS_BENCH_IMPL_H
#define LS_BENCH_IMPL_H

#include "cli/arrays.h"
#include "model/model.h"
#include "plan/plan.h"

LS_MUST_USE ls_status ls_run_bench_attention(const ls_bench_job *job, FILE *out); /* bench_attention.c */
/* With --ranks 1, defaults filled in: bench_attention_alone.c. */
LS_MUST_USE ls_status ls_run_bench_attention_alone(const ls_bench_job *job, FILE *out);
LS_MUST_USE ls_status ls_run_bench_comm(const ls_bench_job *job, FILE *out);      /* bench_comm.c */
LS_MUST_USE ls_status ls_run_bench_gemm(const ls_bench_job *job, FILE *out);      /* bench_gemm.c */
LS_MUST_USE ls_status ls_run_bench_step(const ls_bench_job *job, FILE *out);      /* bench_step.c */
LS_MUST_USE ls_status ls_run_bench_predicted(const ls_bench_job *job, FILE *out); /* bench_predicted.c */

/* --- bench_shared.c -------------------------------------------------------------------------------------------------------- */

enum { LS_BENCH_MOST_ROUNDS = 64 };

/* An option that was left out gets its initial value. */
void ls_bench_fill_in(int64_t *value, int64_t initial);
/* --rounds, from 1 to LS_BENCH_MOST_ROUNDS. LS_USAGE. */
LS_MUST_USE ls_status ls_bench_rounds(const ls_bench_options *options, int initial, int *out);
/* Of one value for each round, which keep their order. */
double ls_bench_median(const double *values, int rounds);

/* What the machine could do, what was done, and the one by the other; both of one unit, "ns", "GB/s" or "GFLOP/s". */
typedef struct ls_bench_figure {
    const char *unit;
    double floor, figure, ratio;
} ls_bench_figure;

/* The end of a line of a table: floor, figure, unit and ratio, under the titles. */
void ls_bench_print_titles(const char *figure, FILE *out);
void ls_bench_print_figure(const ls_bench_figure *figure, FILE *out);
/* As fields of an open object. */
void ls_bench_put_figure(const ls_bench_figure *figure, ls_json_writer *writer);

/* The model of --config, or the one that benches take when it is left out: a Llama of 100M parameters in its products. */
LS_MUST_USE ls_status ls_bench_model_open(const ls_bench_options *options, ls_model **out);
const char *ls_bench_model_name(const ls_bench_options *options);

/* --- bench_peak.c ---------------------------------------------------------------------------------------------------------- */

/*
 * The rate of matrix products that a machine is seen to do on a type, with the threads of a pool: the best run of square ones, looked
 * at again and again between other measurements.
 */
enum { LS_BENCH_SQUARES = 2 };
typedef struct ls_bench_peak {
    ls_timed_call square[LS_BENCH_SQUARES];
    int n;
    double best; /* operations per second, so far */
} ls_bench_peak;

LS_MUST_USE ls_status ls_bench_peak_open(ls_dtype dtype, ls_isa isa, ls_pool *pool, ls_bench_peak *out);
void ls_bench_peak_look(ls_bench_peak *peak);
/*
 * Square products one after the other for so many seconds, at least one: operations per second, the mean. Where other programs share the
 * cores it lies far below the best, which a lucky millisecond gives; what takes long itself is compared with this as well.
 */
double ls_bench_peak_sustain(ls_bench_peak *peak, double seconds);
void ls_bench_peak_close(ls_bench_peak *peak);

/* --- bench_rows.c ---------------------------------------------------------------------------------------------------------- */

/* Where the time of a step went: one row for each op, for products one for each weight's shape; the mean over the ranks. */
typedef struct ls_bench_row {
    char name[64];
    int count; /* of instructions, of all ranks together */
    double seconds, predicted, flops, bytes;
} ls_bench_row;

enum { LS_BENCH_ROWS = 160 };
typedef struct ls_bench_table {
    ls_bench_row row[LS_BENCH_ROWS]; /* most seconds first; sorted by ls_bench_table_end */
    int n;
} ls_bench_table;

/*
 * Adds what one of `ranks` did in a run of the program: seconds by instruction, of which those of waits do not count, and those that the
 * clock predicts.
 */
void ls_bench_table_add(ls_bench_table *table, const ls_image *image, int program, const double *seconds,
                        const double *predicted, int ranks);
/* A row for what is no instruction. */
void ls_bench_table_add_row(ls_bench_table *table, const char *name, double seconds, double predicted);
void ls_bench_table_end(ls_bench_table *table);
void ls_bench_table_print(const ls_bench_table *table, FILE *out);
/* As the array "rows" of an open object. */
void ls_bench_table_put(const ls_bench_table *table, ls_json_writer *writer);

#endif
