/*
 * The diagonal GRU and LSTM by Newton's method (ls_rnn_newton), compared with the same cell computed token by token
 * (ls_rnn). Measured are: the largest error of a state, and how many states are off by more than a bound, after 1 to 12
 * steps, for several scales of the cell's numbers and lengths of the sequence; how many steps each of eight stacked
 * layers needs, and what is left after each step; and the time of a forward pass over 16,384 tokens of one sequence,
 * 256 elements, on two threads. x is normal with deviation 1, and the cell's numbers are normal with deviation `scale`,
 * f32. The input of an upper layer is the result of the layer below, computed token by token, normed, and multiplied by
 * a matrix that gives x deviation 1. One JSON object per line.
 *
 *   ninja -C build bench_newton && build/bench/newton [layers: only these]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "longspan/longspan.h"

enum { ROWS = 4099 };
#define BOUND 1e-6

typedef struct work {
    ls_rnn_kind kind;
    int64_t S, D;
    int steps; /* 0: token by token */
    double scale;
    int threads;
} work;

typedef struct result {
    double seconds, unconverged;
    double *y; /* the caller's */
} result;

/* The input of the single rank, which is a thread; some of it is memory of the caller. */
typedef struct job {
    const work *work;
    int32_t *tokens;
    double *numbers, *y;
} job;

/* How many numbers the cell has for each element; both kinds have three gates. */
static int64_t numbers_of(ls_rnn_kind kind) { return kind == LS_RNN_DIAGONAL_GRU ? 3 : 5; }
static const char *name_of(ls_rnn_kind kind) { return kind == LS_RNN_DIAGONAL_GRU ? "gru" : "lstm"; }

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

/* Runs one pass. Not converging is no error here, because that is what is measured. */
static ls_status evaluate(ls_worker *w, double *seconds) {
    ls_step_result step;
    const ls_status status = ls_worker_evaluate(w, &(ls_step){.tokens = 1}, &step);
    *seconds = fmin(*seconds, step.seconds);
    return status.code == LS_DIVERGED ? (ls_status){0} : status;
}

static ls_status run(ls_worker *w, const void *input, void *out) {
    const job *given = input;
    const work *p = given->work;
    result *r = out;
    int32_t *tokens = given->tokens;
    double *numbers = given->numbers;
    for (int64_t i = 0; i < p->S; i++) tokens[i] = (int32_t)((i * 2654435761LL) % ROWS);
    LS_TRY(ls_worker_set_random(w, 1, 7));
    LS_TRY(ls_worker_get_parameter(w, "numbers", numbers));
    for (int64_t i = 0; i < numbers_of(p->kind) * p->D; i++) numbers[i] *= p->scale;
    LS_TRY(ls_worker_set_parameter(w, "numbers", numbers));
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    r->seconds = INFINITY;
    for (int i = 0; i < 4; i++) LS_TRY(evaluate(w, &r->seconds));
    if (p->steps > 0) LS_TRY(ls_worker_get_tensor(w, "unconverged", &r->unconverged));
    return ls_worker_get_tensor(w, "y", given->y);
}

static result measure(const work *p) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){ROWS, 3 * p->D}),
                    numbers = ls_parameter(g, "numbers", 3, (int64_t[]){1, numbers_of(p->kind), p->D}),
                    x = ls_split_last(g, ls_embedding(g, ls_tokens(g, "tokens", 1, p->S), table), 1, 3 * p->D);
    const ls_newton_form newton = {.kind = p->kind, .steps = p->steps, .bound = BOUND};
    ls_tensor count = LS_NO_TENSOR;
    const ls_tensor y = p->steps > 0 ? ls_rnn_newton(g, x, numbers, &newton, &count, NULL)
                                     : ls_rnn(g, x, numbers, &(ls_rnn_form){.kind = p->kind});
    ls_tensor read[] = {ls_named(g, y, "y"), LS_NO_TENSOR};
    if (p->steps > 0) read[1] = ls_named(g, count, "unconverged");
    const ls_engine_options options = {.purpose = LS_TO_EVALUATE,
                                       .read = read,
                                       .n_read = p->steps > 0 ? 2 : 1,
                                       .spread = {.ranks = 1, .threads = p->threads, .as_threads = true}};
    ls_engine *engine;
    result r = {0};
    const job given = {p, malloc(sizeof(int32_t) * (size_t)p->S),
                       malloc(sizeof(double) * (size_t)(numbers_of(p->kind) * p->D)),
                       malloc(sizeof(double) * (size_t)(p->S * p->D))};
    stop_unless(ls_engine_open(g, LS_NO_TENSOR, &options, &engine));
    stop_unless(ls_engine_run(engine, run, &given, &r, sizeof r));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    free(given.tokens);
    free(given.numbers);
    r.y = given.y;
    return r;
}

/* The largest difference of two states, leaving out those that are NaN. */
static double largest_difference(const result *a, const result *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(a->y[i] - b->y[i]));
    return most;
}

static void converge(ls_rnn_kind kind, int64_t S, double scale) {
    work p = {kind, S, 16, 0, scale, 1};
    const result chain = measure(&p);
    for (p.steps = 1; p.steps <= 12; p.steps += p.steps < 8 ? 1 : 4) {
        const result newton = measure(&p);
        printf(
            "{\"cell\":\"%s\",\"tokens\":%lld,\"scale\":%g,\"steps\":%d,\"unconverged\":%g,\"of\":%lld,\"error_of_others\":%.1e}\n",
            name_of(kind), (long long)S, scale, p.steps, newton.unconverged, (long long)S * (long long)p.D,
            largest_difference(&newton, &chain, S * p.D));
        free(newton.y);
    }
    free(chain.y);
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

enum { LAYERS = 8, MOST_STEPS = 12, WIDTH = 64, LENGTH = 4096 };

typedef struct deep {
    ls_rnn_kind kind;
    double scale;
} deep;

/* What is left in each layer, before the first step and after each step. */
typedef struct left {
    double missing[LAYERS][MOST_STEPS + 1], squares[LAYERS][MOST_STEPS + 1];
} left;

static ls_status scale_by(ls_worker *w, const char *name, double factor, double *room, int64_t n) {
    LS_TRY(ls_worker_get_parameter(w, name, room));
    for (int64_t i = 0; i < n; i++) room[i] *= factor;
    return ls_worker_set_parameter(w, name, room);
}

static ls_status run_layers(ls_worker *w, const void *input, void *out) {
    const deep *p = input;
    left *l = out;
    static int32_t tokens[LENGTH];
    static double room[3 * WIDTH * WIDTH];
    for (int64_t i = 0; i < LENGTH; i++) tokens[i] = (int32_t)((i * 2654435761LL) % ROWS);
    LS_TRY(ls_worker_set_random(w, 1, 7));
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    char name[32];
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "numbers %d", i);
        LS_TRY(scale_by(w, name, p->scale, room, numbers_of(p->kind) * WIDTH));
        snprintf(name, sizeof name, "matrix %d", i);
        if (i + 1 < LAYERS) LS_TRY(scale_by(w, name, 1 / sqrt(WIDTH), room, 3 * WIDTH * WIDTH));
    }
    double seconds = INFINITY;
    LS_TRY(evaluate(w, &seconds));
    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "missing %d", i);
        LS_TRY(ls_worker_get_tensor(w, name, l->missing[i]));
        snprintf(name, sizeof name, "squares %d", i);
        LS_TRY(ls_worker_get_tensor(w, name, l->squares[i]));
    }
    return ls_ok();
}

static ls_tensor next_x(ls_graph *g, ls_tensor y, int i) {
    const ls_tensor norm = ls_parameter_named(g, 1, (int64_t[]){WIDTH}, "norm %d", i),
                    matrix = ls_parameter_named(g, 2, (int64_t[]){3 * WIDTH, WIDTH}, "matrix %d", i),
                    normed = ls_rmsnorm(g, ls_merge_last(g, y), norm, 1e-6);
    return ls_split_last(g, ls_linear(g, normed, matrix, LS_NO_TENSOR), 1, 3 * WIDTH);
}

static left measure_left(const deep *p) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_newton_form newton = {.kind = p->kind, .steps = MOST_STEPS, .bound = BOUND};
    ls_tensor read[2 * LAYERS], count,
        x = ls_embedding(g, ls_tokens(g, "tokens", 1, LENGTH),
                         ls_parameter(g, "table", 2, (int64_t[]){ROWS, 3 * WIDTH}));
    x = ls_split_last(g, x, 1, 3 * WIDTH);
    for (int i = 0; i < LAYERS; i++) {
        const ls_tensor numbers = ls_parameter_named(g, 3, (int64_t[]){1, numbers_of(p->kind), WIDTH}, "numbers %d", i);
        ls_newton_progress progress;
        (void)ls_rnn_newton(g, x, numbers, &newton, &count, &progress);
        read[2 * i] = ls_named(g, progress.missing, "missing %d", i);
        read[2 * i + 1] = ls_named(g, progress.squares, "squares %d", i);
        if (i + 1 < LAYERS) x = next_x(g, ls_rnn(g, x, numbers, &(ls_rnn_form){.kind = p->kind}), i);
    }
    const ls_engine_options options = {.purpose = LS_TO_EVALUATE,
                                       .read = read,
                                       .n_read = 2 * LAYERS,
                                       .spread = {.ranks = 1, .threads = 2, .as_threads = true}};
    ls_engine *engine;
    left l = {0};
    stop_unless(ls_engine_open(g, LS_NO_TENSOR, &options, &engine));
    stop_unless(ls_engine_run(engine, run_layers, p, &l, sizeof l));
    ls_engine_close(engine);
    ls_graph_destroy(g);
    return l;
}

static void measure_layers(ls_rnn_kind kind, double scale) {
    const deep p = {kind, scale};
    const left l = measure_left(&p);
    const double states = (double)LENGTH * WIDTH, of_squares = states * (kind == LS_RNN_DIAGONAL_GRU ? 1 : 2);
    for (int i = 0; i < LAYERS; i++) {
        int needed = 0;
        while (needed <= MOST_STEPS && l.missing[i][needed] != 0) needed++;
        printf("{\"cell\":\"%s\",\"scale\":%g,\"layer\":%d,\"needed\":%d,\"missing_per_cent\":[", name_of(kind), scale,
               i + 1, needed);
        for (int k = 0; k <= MOST_STEPS; k++) printf("%s%.3g", k > 0 ? "," : "", 100 * l.missing[i][k] / states);
        printf("],\"residual\":[");
        for (int k = 0; k <= MOST_STEPS; k++) {
            const double residual = sqrt(l.squares[i][k] / of_squares);
            printf(isfinite(residual) ? "%s%.1e" : "%snull", k > 0 ? "," : "", residual);
        }
        printf("]}\n");
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

static const double scales[] = {0.25, 0.5, 1, 2, 4};

static void measure_kind(ls_rnn_kind kind) {
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        converge(kind, 256, scales[s]);
        converge(kind, 4096, scales[s]);
    }
    for (int steps = 0; steps <= 6; steps += 3) {
        const work p = {kind, 16384, 256, steps, 0.25, 2};
        const result r = measure(&p);
        printf("{\"cell\":\"%s\",\"tokens\":16384,\"elements\":256,\"steps\":%d,\"ms\":%.2f,\"unconverged\":%g}\n",
               name_of(kind), steps, r.seconds * 1e3, r.unconverged);
        free(r.y);
    }
}

int main(int argc, char **argv) {
    static const ls_rnn_kind kinds[] = {LS_RNN_DIAGONAL_GRU, LS_RNN_DIAGONAL_LSTM};
    const bool only_layers = argc > 1 && strcmp(argv[1], "layers") == 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (!only_layers) measure_kind(kinds[k]);
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) measure_layers(kinds[k], scales[s]);
    }
    return 0;
}
