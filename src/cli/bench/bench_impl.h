/*
 * The benches of `longspan bench`, each of which is one file with one function and a row in the table of bench.c; and
 * what they share.
 */
#ifndef LS_BENCH_IMPL_H
#define LS_BENCH_IMPL_H

#include "cli/cli_impl.h"
#include "model/model.h"
#include "plan/plan.h"
#include "simulate/simulate.h"

LS_MUST_USE ls_status ls_run_bench_attention(const ls_bench_job *job, FILE *out);
/* The bench attention with --ranks 1; the caller has filled in the defaults of sizes and mask. */
LS_MUST_USE ls_status ls_run_bench_attention_kernels(const ls_bench_job *job, FILE *out);
LS_MUST_USE ls_status ls_run_bench_comm(const ls_bench_job *job, FILE *out);
/* The bench comm between ranks of a device that has messages. */
LS_MUST_USE ls_status ls_run_bench_comm_device(const ls_bench_job *job, const ls_host_of *of, FILE *out);
LS_MUST_USE ls_status ls_run_bench_gemm(const ls_bench_job *job, FILE *out);
LS_MUST_USE ls_status ls_run_bench_step(const ls_bench_job *job, FILE *out);
LS_MUST_USE ls_status ls_run_bench_predicted(const ls_bench_job *job, FILE *out);

/* --- shared.c ----------------------------------------------------------------------------------------------------- */

enum { LS_BENCH_MOST_ROUNDS = 64 };

/* Sets an option that was left out (0) to its default. */
void ls_bench_fill_in(int64_t *value, int64_t initial);
/* *out becomes --rounds, or `initial` if it was left out. LS_USAGE if it is not from 1 to LS_BENCH_MOST_ROUNDS. */
LS_MUST_USE ls_status ls_bench_rounds(const ls_bench_options *options, int initial, int *out);
/* The median of one value for each round; the order of the values is kept. */
double ls_bench_median(const double *values, int rounds);

/*
 * figure: what was measured. floor: the best that this machine does with the simplest work, which is the lowest time or
 * the highest rate (called floor too). Both are in one unit ("ns", "GB/s", "GFLOP/s" or "TFLOP/s"). ratio: figure /
 * floor, which is at most about 1 for rates, and at least about 1 for times.
 */
typedef struct ls_bench_figure {
    const char *unit;
    double floor, figure, ratio;
} ls_bench_figure;

/* Print the last columns of a table: their titles, and floor, figure, unit and ratio. */
void ls_bench_print_titles(const char *figure, FILE *out);
void ls_bench_print_figure(const ls_bench_figure *figure, FILE *out);
/* Writes a figure as fields of an open object. */
void ls_bench_put_figure(const ls_bench_figure *figure, ls_json_writer *writer);

/*
 * The figure of trips between two ranks, from the seconds of each round: the latency, which is half of a trip there and
 * back, or the bandwidth.
 */
ls_bench_figure ls_bench_trip_figure(bool latency, size_t bytes, const double *floor, const double *put, int rounds);

/* The figure of a rate in operations per second: in GFLOP/s, for a GPU in TFLOP/s. */
ls_bench_figure ls_bench_rate_figure(const ls_host_of *of, double floor, double rate);

/* Opens the model of --config, or the default of the benches: a Llama whose products have 100M parameters. */
LS_MUST_USE ls_status ls_bench_model_open(const ls_bench_options *options, ls_model **out);
const char *ls_bench_model_name(const ls_bench_options *options);

/* What computes, for titles: the instruction set of a processor's kernels, or the model of a GPU. */
const char *ls_bench_machine_name(const ls_host_of *of);

/* *out: --device. LS_USAGE: --threads with a GPU, to which threads do not apply. */
LS_MUST_USE ls_status ls_bench_device(const ls_bench_options *options, ls_host_of *out);

/* Whether --ranks-as is threads. */
bool ls_bench_as_threads(const ls_bench_options *options);

/*
 * A place for timed calls (plan/plan.h), with a number of threads on a processor, and preferring the kernels of
 * --kernels. Owns its pool. Must not be moved.
 */
typedef struct ls_bench_place {
    ls_timed_place timed;
    ls_kernel_choices kernels;
    ls_pool *pool;
} ls_bench_place;

LS_MUST_USE ls_status ls_bench_place_open(const ls_bench_options *options, const ls_host_of *of, int threads,
                                          ls_bench_place *out);
void ls_bench_place_close(ls_bench_place *place);

/*
 * The best rate of matrix products measured so far for a type and a place. Products of square matrices are run again
 * and again between other measurements.
 */
enum { LS_BENCH_SQUARES = 2 }; /* sizes of square matrices */
typedef struct ls_bench_peak {
    ls_timed_call square[LS_BENCH_SQUARES];
    int n;
    double best; /* operations per second */
} ls_bench_peak;

LS_MUST_USE ls_status ls_bench_peak_open(ls_timed_place *place, ls_dtype dtype, ls_bench_peak *out);
/* Runs each square product twice, and updates `best`. */
LS_MUST_USE ls_status ls_bench_peak_update(ls_bench_peak *peak);
/*
 * Runs square products for `seconds`, at least one; *rate: their mean rate in operations per second. If other programs
 * share the cores it is far below the best rate, which needs only one undisturbed millisecond; long measurements are
 * compared with this rate too.
 */
LS_MUST_USE ls_status ls_bench_peak_sustain(ls_bench_peak *peak, double seconds, double *rate);
void ls_bench_peak_close(ls_bench_peak *peak);

/* --- rows.c ------------------------------------------------------------------------------------------------------- */

/*
 * Where the time of a step went, as the mean over the ranks: one row for each op, but for products one row for each
 * shape of a weight.
 */
typedef struct ls_bench_row {
    char name[64];
    int count; /* number of instructions of all ranks */
    double seconds, predicted, flops, bytes;
} ls_bench_row;

enum { LS_BENCH_ROWS = 160 };
typedef struct ls_bench_table {
    ls_bench_row row[LS_BENCH_ROWS]; /* ls_bench_table_end sorts them: most seconds first */
    int n;
} ls_bench_table;

/*
 * Adds a run of the program by one of `ranks` ranks: the measured and the predicted seconds of each instruction. Waits
 * are left out, because the other queue may have run meanwhile.
 */
void ls_bench_table_add(ls_bench_table *table, const ls_image *image, int program, const double *seconds,
                        const double *predicted, int ranks);
/* Adds a row for time that belongs to no instruction. */
void ls_bench_table_add_row(ls_bench_table *table, const char *name, double seconds, double predicted);
void ls_bench_table_end(ls_bench_table *table);
void ls_bench_table_print(const ls_bench_table *table, FILE *out);
/* Writes the table as the array "rows" of an open object. */
void ls_bench_table_put(const ls_bench_table *table, ls_json_writer *writer);

/* --- training steps (step.c) -------------------------------------------------------------------------------------- */

/* The times of one rank. */
typedef struct ls_bench_step_times {
    double began; /* ls_seconds() when memory was mapped and kernels were prepared */
    double ready; /* ls_seconds() when weights and inputs were set */
    ls_touched touched;
    int64_t huge;                      /* bytes in huge pages */
    double first;                      /* seconds of the first step */
    double loss;                       /* of the last step */
    int64_t peak;                      /* most resident bytes after any step */
    int64_t device_used, device_bytes; /* memory of the rank's GPU in use after the last step, by all processes, and in
                                          total; 0: unknown */
    double total[LS_BENCH_MOST_ROUNDS];
    /* With spans recorded: of the same step, or, if the device replays its programs, of another step. */
    double traced[LS_BENCH_MOST_ROUNDS], waiting[LS_BENCH_MOST_ROUNDS];
} ls_bench_step_times;

typedef struct ls_bench_step {
    /* Set by the caller: */
    ls_bench_options options; /* ls_bench_step_run fills in the defaults */
    ls_model *model;          /* ls_bench_step_close closes it */
    const ls_host *host;      /* rates for predictions; NULL: those that plan uses */
    bool without_floor;       /* do not measure the floor */
    /* Set by ls_bench_step_run: */
    ls_dtype dtype;
    ls_host_of of; /* --device */
    bool later;    /* the device executes instructions later than they are launched */
    ls_graph *graph;
    ls_job job;
    ls_array tokens, labels, positions;
    ls_session *session;
    ls_images images; /* of all ranks */
    int ranks, rounds;
    int step;                     /* the program of that name */
    int instrs;                   /* the most instructions of any rank's program */
    ls_bench_step_times *times;   /* [ranks] */
    double *seconds;              /* measured: [ranks, rounds, instrs] */
    double *predicted;            /* simulated: [ranks, instrs] */
    ls_simulated_rank *simulated; /* [ranks] */
    double opened;                /* seconds to plan, compile and verify */
    double launched;              /* when the ranks were started (ls_seconds) */
    bool host_measured;           /* predictions use rates measured on this machine; else nominal ones */
    double floor;                 /* operations per second */
    double products[2];           /* mean rates of square products before and after the steps */
} ls_bench_step;

/* Plans, predicts and runs the steps. The caller calls ls_bench_step_close whatever the status. */
LS_MUST_USE ls_status ls_bench_step_run(ls_bench_step *b);
void ls_bench_step_close(ls_bench_step *b);

/* Seconds of the slowest rank in the step of median length. */
double ls_bench_step_median(const ls_bench_step *b);

/* Seconds of each instruction of the rank's program in one of the timed steps. */
double *ls_bench_step_seconds(const ls_bench_step *b, int rank, int round);
/* Predicted seconds of each instruction of the rank's program. */
double *ls_bench_step_predicted(const ls_bench_step *b, int rank);

#endif
