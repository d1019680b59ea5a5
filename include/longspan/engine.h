/*
 * Engines: a user's graph, compiled for many ranks, run, differentiated and trained.
 *
 * The user writes a graph for one device (graph.h) that ends in a loss: the sum over all tokens of the quantity to
 * minimise. An engine is that graph compiled. ls_engine_open
 *
 *   - adds the gradients of all parameters to the graph,
 *   - chooses mesh, strategy, layout and the ways to save memory, unless the spread names them,
 *   - compiles a program for every rank, with its memory laid out to the byte, and
 *   - proves that these programs together can neither hang, nor race, nor read a wrong value.
 *
 * Then ls_engine_run starts the ranks, and each of them calls the user's function with its worker:
 *
 *     static ls_status work(ls_worker *w, const void *input, void *result) {
 *         double *loss = result;
 *         ls_step_result step;
 *         LS_TRY(ls_worker_set_random(w, 0.02, 1));
 *         for (int i = 0; i < 100; i++) {
 *             LS_TRY(ls_worker_set_input(w, "tokens", tokens));     the whole [B,S], the same on every rank
 *             LS_TRY(ls_worker_set_input(w, "labels", labels));
 *             LS_TRY(ls_worker_step(w, &(ls_step){.tokens = N, .lr = 1e-3}, &step));
 *             if (w->rank == 0) printf("%g\n", step.loss);
 *         }
 *         *loss = step.loss;
 *         return ls_ok();
 *     }
 *
 *     LS_TRY(ls_engine_open(graph, loss, &(ls_engine_options){.spread = {.ranks = 4}}, &engine));
 *     status = ls_engine_run(engine, work, NULL, &loss, sizeof loss);
 *     ls_engine_close(engine);
 *
 * Arrays are global: every rank passes whole arrays, of which the library takes the rank's part, and reads whole
 * arrays. Nothing in the user's code depends on the number of ranks, nor on which rank holds a token.
 *
 * Guarantees. Results are equal to within rounding for any number of ranks, mesh, strategy and layout; with equal
 * choices the bits are equal. Gradients are sums over tokens, micro-batches and ranks, divided by the `tokens` of the
 * step and by nothing else. Random numbers are a function of seed, name and index. A rank maps exactly the bytes of the
 * plan, once.
 *
 * Calls on a worker are collective unless their comment says otherwise: every rank makes the same calls in the same
 * order, with the same arguments. A call blocks until the other ranks have reached the points that it depends on.
 *
 * Ranks are processes forked from the caller, or threads with spread.as_threads. A process sees the caller's memory as
 * it was at the fork. What it writes is lost when it ends, except for files and for rank 0's result, which is copied to
 * the caller. If another program launched this process as one rank of several (torchrun, srun, mpirun), the caller is
 * that rank: `work` runs in it once, and rank 0's caller has the result. All callers get the same status.
 *
 * Errors are statuses. A function that fails has not changed its outputs. When one rank's work returns an error, the
 * others are woken with LS_PEER, and ls_engine_run returns the error that was the cause, with the rank's number.
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

/* --- the caller, for all ranks ------------------------------------------------------------------------------------ */

typedef struct ls_engine ls_engine;

typedef enum ls_purpose {
    LS_TO_TRAIN,         /* steps of an optimiser, whose state is sharded over the ranks */
    LS_TO_DIFFERENTIATE, /* gradients that the caller reads; parameters are not updated */
    LS_TO_EVALUATE,      /* forward only: no memory for gradients */
} ls_purpose;

/* Zero means the default. */
typedef struct ls_engine_options {
    ls_purpose purpose;
    int64_t micro_batches;        /* of one step; their gradients are added; default 1 */
    const char *optimizer;        /* "adamw" (default), "sgd", "lion", "muon" */
    double beta1, beta2, epsilon; /* for optimisers that have them; defaults 0.9, 0.95 (lion: 0.99), 1e-8 */
    double weight_decay;          /* for parameters with two or more dimensions */
    double momentum;              /* for sgd (default 0.9) and muon (0.95); below 0: none */
    bool nesterov;                /* for sgd: Nesterov's momentum */
    const ls_tensor *read;        /* [n_read]: the tensors, named with ls_named, that ls_worker_get_tensor can read */
    int n_read;
    ls_spread spread;
} ls_engine_options;

/*
 * options may be NULL; they are copied, but the strings in them are borrowed until the engine is closed. loss: one
 * number of type G, as ls_sum returns; LS_NO_TENSOR is allowed with LS_TO_EVALUATE only. The graph is borrowed until
 * the engine is closed. The engine adds nodes to the graph, which then takes no further ops and serves no other engine.
 * The caller closes *out. Prints nothing. LS_INVALID or LS_UNSUPPORTED: the graph cannot be differentiated or spread;
 * the message names the op, the tensor and the reason. LS_USAGE: no plan fits the spread, or an option was set that the
 * optimiser does not have.
 */
LS_MUST_USE ls_status ls_engine_open(ls_graph *graph, ls_tensor loss, const ls_engine_options *options,
                                     ls_engine **out);
void ls_engine_close(ls_engine *engine); /* NULL is allowed */

/* The choices, and the bytes that a step sends and maps; seconds is 0. */
ls_spread_result ls_engine_describe(const ls_engine *engine);

typedef enum ls_detail {
    LS_PRINT_CHOICE,   /* one line: the choice and its reason */
    LS_PRINT_PLAN,     /* also a line for each candidate */
    LS_PRINT_PROGRAMS, /* also the programs of rank 0, instruction by instruction */
} ls_detail;
/* Prints as much as `detail` says to `out`. */
void ls_engine_print(const ls_engine *engine, ls_detail detail, FILE *out);

typedef struct ls_worker ls_worker;
/*
 * The function that each rank runs. It only reads `input`, which is the caller's. Each rank has its own `result`, zero
 * at first; rank 0's is copied to the caller byte by byte, so pointers in it have no meaning there. ls_worker_gather
 * brings data of other ranks to rank 0. result is NULL if the caller wants no result.
 */
typedef ls_status (*ls_work)(ls_worker *worker, const void *input, void *result);

/*
 * Starts the ranks, calls `work` on each, and blocks until all have ended. Runs once. result[bytes] becomes rank 0's if
 * the status is LS_OK, or if it is LS_INTERRUPTED and rank 0's `work` returned; otherwise it does not change. bytes 0:
 * there is no result. Ctrl-C asks the ranks to stop (ls_step_result.stop); a second one ends them at once.
 */
LS_MUST_USE ls_status ls_engine_run(ls_engine *engine, ls_work work, const void *input, void *result, size_t bytes);

/* --- the worker of one rank --------------------------------------------------------------------------------------- */

typedef struct ls_worker_state ls_worker_state;

/* Read-only for the user; valid until `work` returns. */
struct ls_worker {
    int rank, ranks;
    int64_t bytes; /* mapped by this rank for its steps: private memory and its part of the shared heap */
    ls_worker_state *state;
};

/*
 * Sets an input, values i32[B,S], for the next micro-batch; values are copied. Not collective. LS_INVALID names a value
 * that is not a row of the table that it indexes (a label may be -100: ignored).
 */
LS_MUST_USE ls_status ls_worker_set_input(ls_worker *worker, const char *name, const int32_t *values);
/* The same for an input of real numbers (ls_input_typed); they are rounded to its type. */
LS_MUST_USE ls_status ls_worker_set_real_input(ls_worker *worker, const char *name, const double *values);

/*
 * Sets all values of a parameter, in the order of its dimensions, rounded to its type; values are copied. The
 * optimiser's moments do not change. Not collective, but every rank must set the same values.
 */
LS_MUST_USE ls_status ls_worker_set_parameter(ls_worker *worker, const char *name, const double *values);

/*
 * Sets all parameters: those with two or more dimensions to normal random numbers with mean 0 and this standard
 * deviation, a function of (seed, name, index); vectors to 1, or to 0 if their name ends with ".bias". Not collective.
 */
LS_MUST_USE ls_status ls_worker_set_random(ls_worker *worker, double deviation, uint64_t seed);

typedef struct ls_step {
    int64_t tokens; /* number of labels in all micro-batches, by which loss and gradients are divided. 0: the step does
                       nothing */
    double lr;      /* learning rate */
    double clip;    /* largest norm of all gradients together; 0: no limit */
    /* Sets the inputs of micro-batch 0, 1, ...; NULL: the inputs stay as they are. */
    ls_status (*feed)(ls_worker *worker, int64_t micro_batch, void *context);
    void *context; /* passed to feed */
} ls_step;

typedef struct ls_step_result {
    double loss;                  /* summed over micro-batches, divided by `tokens`; NaN if that is 0 */
    double grad_norm;             /* of all gradients together, before clipping; NaN if `tokens` is 0 */
    bool applied;                 /* the parameters were updated; false if loss or norm is not finite */
    bool stop;                    /* Ctrl-C was pressed; equal on every rank */
    double seconds, wait_seconds; /* of this rank: the whole step, and the time in it spent waiting for peers */
} ls_step_result;

/*
 * Runs forward, backward, and with LS_TO_TRAIN the update. LS_USAGE if the engine was opened with LS_TO_EVALUATE.
 * LS_DIVERGED: the loss is not finite, and the last micro-batch has states of ls_rnn_newton that have not converged;
 * the message names the layer and the number of states. The update was not applied.
 */
LS_MUST_USE ls_status ls_worker_step(ls_worker *worker, const ls_step *step, ls_step_result *result);
/*
 * Runs the forward pass alone, with any purpose; lr and clip are not used. Parameters and sums of gradients do not
 * change. LS_DIVERGED as in ls_worker_step.
 */
LS_MUST_USE ls_status ls_worker_evaluate(ls_worker *worker, const ls_step *step, ls_step_result *result);

/*
 * These read a whole array by its name into `out`, as f64, in the order of its dimensions; out may be NULL on ranks
 * that need no copy. get_gradient: the gradient of the last step, with LS_TO_DIFFERENTIATE. get_tensor: one of
 * options.read, after the last micro-batch; the parts of the ranks are assembled, partial sums are added. They need no
 * memory but `out`.
 */
LS_MUST_USE ls_status ls_worker_get_parameter(ls_worker *worker, const char *name, double *out);
LS_MUST_USE ls_status ls_worker_get_gradient(ls_worker *worker, const char *name, double *out);
LS_MUST_USE ls_status ls_worker_get_tensor(ls_worker *worker, const char *name, double *out);

/* On every rank, all[r] becomes rank r's `mine`. mine: `bytes` bytes; all: that many for each rank. */
LS_MUST_USE ls_status ls_worker_gather(ls_worker *worker, const void *mine, size_t bytes, void *all);

LS_PUBLIC_END

#endif
