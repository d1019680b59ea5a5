/*
 * Engines: a graph of one's own, compiled for many ranks, run, differentiated and trained.
 *
 * The user writes a graph for one device (graph.h) that ends in a loss: the sum over all tokens of what is to become small. An
 * engine is that graph compiled. Opening one
 *
 *   - adds the gradients of all parameters to the graph,
 *   - chooses mesh, strategy, layout and what is done to save memory, or takes what the spread asks for,
 *   - compiles a program for every rank, with its memory laid out to the byte, and
 *   - proves that these programs together can neither hang, nor race, nor read a value other than the one that was meant.
 *
 * Then ls_engine_run starts the ranks, and each of them calls the user's function with its worker:
 *
 *     static ls_status work(ls_worker *w, void *context) {
 *         LS_TRY(ls_worker_set_random(w, 0.02, 1));
 *         for (int i = 0; i < 100; i++) {
 *             LS_TRY(ls_worker_set_input(w, "tokens", tokens));     all of it: [B,S], the same on every rank
 *             LS_TRY(ls_worker_set_input(w, "labels", labels));
 *             LS_TRY(ls_worker_step(w, &(ls_step){.tokens = N, .lr = 1e-3}, &result));
 *             if (w->rank == 0) printf("%g\n", result.loss);
 *         }
 *         return ls_ok();
 *     }
 *
 *     LS_TRY(ls_engine_open(graph, loss, &(ls_engine_options){.spread = {.ranks = 4}}, &engine));
 *     status = ls_engine_run(engine, work, NULL, 0);
 *     ls_engine_close(engine);
 *
 * Arrays are global: every rank passes the whole array and the library takes the rank's part; what is read comes back whole.
 * Nothing in the user's code depends on the number of ranks, nor on where a token lies.
 *
 * What is promised. The same numbers for any number of ranks, mesh, strategy and layout, to rounding; with the same choices the
 * same bits. Gradients are sums over tokens, micro-batches and ranks, divided by the `tokens` of the step and by nothing else.
 * Random numbers are a function of seed, name and index. A rank maps the bytes that the plan says, exactly, once.
 *
 * Calls on a worker are collective, unless they say otherwise: every rank makes the same calls in the same order, with the same
 * arguments. They block until the other ranks have come as far as is needed.
 *
 * Ranks are processes forked from the caller, or threads with spread.as_threads. A process sees all of the caller's memory as
 * it was, but what it writes is lost with it, but for the context that ls_engine_run shares, and files.
 *
 * Errors are statuses. A function that fails has not changed its outputs. When one rank's work returns an error, the others are
 * woken with LS_PEER and ls_engine_run returns the error that explains the rest, with the rank's number.
 */
#ifndef LONGSPAN_ENGINE_H
#define LONGSPAN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/graph.h"
#include "longspan/linkage.h"
#include "longspan/spread.h"

LS_PUBLIC_BEGIN

/* --- all ranks: the caller's end ------------------------------------------------------------------------------------------- */

typedef struct ls_engine ls_engine;

typedef enum ls_purpose {
    LS_TO_TRAIN,         /* steps of AdamW, its state sharded over the ranks */
    LS_TO_DIFFERENTIATE, /* gradients, for the caller to read; parameters stay as they were set */
    LS_TO_EVALUATE,      /* forward only: no memory for gradients */
} ls_purpose;

/* Zero means the default. */
typedef struct ls_engine_options {
    ls_purpose purpose;
    int64_t
        micro_batches; /* of one step: its inputs are set and its gradients added up as often; default 1 */
    double beta1, beta2, epsilon; /* AdamW: 0.9, 0.95, 1e-8 */
    double weight_decay;          /* of parameters of two and more dimensions */
    const ls_tensor *read; /* tensors that ls_worker_get_tensor may ask for: [n_read], named by ls_named */
    int n_read;
    ls_spread spread;
} ls_engine_options;

/*
 * options may be NULL. loss: one number, of type G (what ls_sum gives); LS_NO_TENSOR only to evaluate. The graph is borrowed until the engine is
 * closed, and completed: it takes no further ops and belongs to this one engine. Prints nothing. LS_INVALID or LS_UNSUPPORTED for
 * what cannot be differentiated or spread, naming op, tensor and reason; LS_USAGE for wishes that cannot be met.
 */
LS_MUST_USE ls_status ls_engine_open(ls_graph *graph, ls_tensor loss, const ls_engine_options *options,
                                     ls_engine **out);
void ls_engine_close(ls_engine *engine); /* NULL is allowed */

/* What was chosen, and what a step costs: bytes sent and mapped. seconds is 0. */
ls_spread_result ls_engine_describe(const ls_engine *engine);

typedef enum ls_detail {
    LS_PRINT_CHOICE,   /* one line: what was chosen, and against what */
    LS_PRINT_PLAN,     /* and all candidates */
    LS_PRINT_PROGRAMS, /* and the programs of rank 0, instruction by instruction */
} ls_detail;
void ls_engine_print(const ls_engine *engine, ls_detail detail, FILE *out);

typedef struct ls_worker ls_worker;
typedef ls_status (*ls_work)(ls_worker *worker, void *context);

/*
 * Starts the ranks, calls `work` on each, and returns when all have ended. Runs once. bytes > 0: the ranks work on one shared copy
 * of the context's bytes, which is copied back in the end; ranks that write there see to it that they do not write the same. bytes
 * 0: they get the pointer as it is. Ctrl-C asks the ranks to stop (ls_step_result.stop); a second one ends them at once.
 */
LS_MUST_USE ls_status ls_engine_run(ls_engine *engine, ls_work work, void *context, size_t bytes);

/* --- one rank: its worker -------------------------------------------------------------------------------------------------- */

typedef struct ls_worker_state ls_worker_state;

/* To be read only. Valid while `work` runs. */
struct ls_worker {
    int rank, ranks;
    int64_t
        bytes; /* that this rank maps, all that steps need: private memory and its part of the shared heap */
    ls_worker_state *state;
};

/*
 * The values of an input, i32[B,S], for the next micro-batch. Not collective. LS_INVALID names an id that lies outside the table
 * that it chooses from (a label may be -100: ignored).
 */
LS_MUST_USE ls_status ls_worker_set_input(ls_worker *worker, const char *name, const int32_t *values);

/*
 * A parameter's values, all of them in the order of its dimensions, rounded to its type. The optimiser's moments stay. Not
 * collective, but every rank must set the same.
 */
LS_MUST_USE ls_status ls_worker_set_parameter(ls_worker *worker, const char *name, const double *values);

/*
 * All parameters: those of two and more dimensions normal with the deviation, a function of (seed, name, index); vectors 1, or 0
 * when their name ends with ".bias". Not collective.
 */
LS_MUST_USE ls_status ls_worker_set_random(ls_worker *worker, double deviation, uint64_t seed);

typedef struct ls_step {
    int64_t
        tokens; /* that count, over all micro-batches: loss and gradients are divided by it. 0: nothing is done */
    double lr;   /* to train */
    double clip; /* largest norm of all gradients together; 0: any */
    /* Sets the inputs of micro-batch 0, 1, ...; NULL: they are what was set last. Its context is the caller's. */
    ls_status (*feed)(ls_worker *worker, int64_t micro_batch, void *context);
    void *context;
} ls_step;

typedef struct ls_step_result {
    double loss;      /* summed over micro-batches, divided by the tokens; NaN without any */
    double grad_norm; /* of all gradients together, before clipping; NaN where none were computed */
    bool applied;     /* the parameters were updated. Not when loss or norm are not finite */
    bool stop;        /* somebody pressed Ctrl-C: the same on every rank */
    double seconds, wait_seconds; /* of this rank: in all, and waiting for others */
} ls_step_result;

/* Forward, backward, and with LS_TO_TRAIN the update. LS_USAGE when the engine was opened to evaluate. */
LS_MUST_USE ls_status ls_worker_step(ls_worker *worker, const ls_step *step, ls_step_result *result);
/* The forward pass alone, with any purpose; lr and clip are not used. Parameters and sums of gradients stay. */
LS_MUST_USE ls_status ls_worker_evaluate(ls_worker *worker, const ls_step *step, ls_step_result *result);

/*
 * Values by name, whole, as f64, into `out` of as many elements; out may be NULL on ranks that need none. get_gradient: of the
 * last step, with LS_TO_DIFFERENTIATE. get_tensor: one of options.read after the last micro-batch; what the ranks hold in parts is
 * put together or added up. They use memory beyond the plan: one copy of what is read, given back at once.
 */
LS_MUST_USE ls_status ls_worker_get_parameter(ls_worker *worker, const char *name, double *out);
LS_MUST_USE ls_status ls_worker_get_gradient(ls_worker *worker, const char *name, double *out);
LS_MUST_USE ls_status ls_worker_get_tensor(ls_worker *worker, const char *name, double *out);

LS_PUBLIC_END

#endif
