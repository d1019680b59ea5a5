/*
 * Longspan's diagonal recurrent cells (ParaRNN's GRU and LSTM) for run.py: its kernels, as a rank calls them.
 *
 *     cells CELL SEQ ELEMENTS THREADS BACKWARD [ISA]        CELL: gru, lstm   BACKWARD: 0 or 1
 */
#include "recurrence_calls.h"
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One sequence of one head; the state in front is zeros. */
typedef struct arrays {
    ls_view x, weight, bias, places, y, state, grad_y, front, grad_x, grad_weight, grad_bias, grad_state;
} arrays;

typedef struct bench {
    arrays arrays;
    recurrence_call forward, gradient;
    ls_pool *pool;
    bool backward;
} bench;

/* Inputs and weights with deviations 1 and 0.5. */
static ls_status make_arrays(ls_rnn_kind kind, int64_t S, int64_t D, arrays *a) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(kind);
    const int64_t of_gates[] = {1, S, 1, s.gates * D}, of_y[] = {1, S, 1, D}, of_weight[] = {1, s.numbers, D},
                  no_bias[] = {1, 0}, no_places[] = {1, S, 0}, of_state[] = {1, 1, s.states * D};
    *a = (arrays){0};
    LS_TRY(recurrence_array_make(LS_F32, 4, of_gates, 0, recurrence_deviation(1), &a->x));
    LS_TRY(recurrence_array_make(LS_F32, 3, of_weight, 1, recurrence_deviation(0.5f), &a->weight));
    LS_TRY(recurrence_array_make(LS_F32, 4, of_y, 2, recurrence_deviation(1), &a->grad_y));
    const struct {
        ls_view *view;
        ls_dtype dtype;
        int ndim;
        const int64_t *size;
    } zeros[] = {{&a->bias, LS_F32, 2, no_bias},
                 {&a->places, LS_I32, 3, no_places},
                 {&a->y, LS_F32, 4, of_y},
                 {&a->state, LS_F32, 3, of_state},
                 {&a->front, LS_F32, 3, of_state},
                 {&a->grad_x, LS_F32, 4, of_gates},
                 {&a->grad_weight, LS_F32, 3, of_weight},
                 {&a->grad_bias, LS_F32, 2, no_bias},
                 {&a->grad_state, LS_F32, 3, of_state}};
    for (size_t i = 0; i < LS_COUNT(zeros); i++)
        LS_TRY(recurrence_array_make(zeros[i].dtype, zeros[i].ndim, zeros[i].size, 0, (recurrence_numbers){0},
                                     zeros[i].view));
    return ls_ok();
}

static void free_arrays(const arrays *a) {
    const ls_view *const all[] = {&a->x,      &a->weight, &a->bias,   &a->places,      &a->y,         &a->state,
                                  &a->grad_y, &a->front,  &a->grad_x, &a->grad_weight, &a->grad_bias, &a->grad_state};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i]->data);
}

static void clear(const ls_view *view) { memset(view->data, 0, sizeof(float) * (size_t)ls_view_elements(view)); }

static ls_status once(void *context) {
    const bench *b = context;
    clear(&b->arrays.state);
    b->forward.kernel->run(&b->forward.call, b->forward.state, b->pool);
    if (!b->backward) return ls_ok();
    clear(&b->arrays.grad_weight);
    clear(&b->arrays.grad_state);
    b->gradient.kernel->run(&b->gradient.call, b->gradient.state, b->pool);
    return ls_ok();
}

/* Of results or, with gradients, of those of x and of the weights. */
static double check(void *context, int i) {
    const bench *b = context;
    const ls_view *const view = !b->backward ? &b->arrays.y : i == 0 ? &b->arrays.grad_x : &b->arrays.grad_weight;
    const ls_attention_array one = {
        .data = view->data, .dtype = view->dtype, .ndim = 1, .size = {ls_view_elements(view)}};
    return peers_mean(&one);
}

static ls_status make_calls(bench *b, ls_isa isa, const ls_rnn_params *params) {
    const arrays *a = &b->arrays;
    const ls_kernel_call forward = {.n_in = 4,
                                    .n_out = 2,
                                    .in = {a->x, a->weight, a->bias, a->places},
                                    .out = {a->y, a->state},
                                    .params = params,
                                    .threads = ls_pool_threads(b->pool)},
                         gradient = {.n_in = 7,
                                     .n_out = 4,
                                     .in = {a->x, a->weight, a->bias, a->places, a->y, a->grad_y, a->front},
                                     .out = {a->grad_x, a->grad_weight, a->grad_bias, a->grad_state},
                                     .params = params,
                                     .threads = ls_pool_threads(b->pool)};
    LS_TRY(recurrence_call_make(LS_KERNEL_RNN, isa, &forward, &b->forward));
    return recurrence_call_make(LS_KERNEL_RNN_GRAD, isa, &gradient, &b->gradient);
}

static ls_status bench_cell(char **argv) {
    ls_machine machine;
    bench b = {.backward = strcmp(argv[5], "1") == 0};
    ls_machine_detect(&machine);
    if (strcmp(argv[1], "gru") != 0 && strcmp(argv[1], "lstm") != 0)
        return ls_error(LS_USAGE, "cell \"%s\", expected gru or lstm", argv[1]);
    if (argv[6] != NULL) LS_TRY(ls_isa_parse(argv[6], &machine.isa));
    const int64_t resident = peers_memory("VmRSS");
    const ls_rnn_params params = {.kind = argv[1][0] == 'g' ? LS_RNN_DIAGONAL_GRU : LS_RNN_DIAGONAL_LSTM};
    LS_TRY(ls_pool_create(atoi(argv[4]), true, &b.pool));
    LS_TRY(make_arrays(params.kind, atoll(argv[2]), atoll(argv[3]), &b.arrays));
    LS_TRY(make_calls(&b, machine.isa, &params));
    const peers_server server = {.run = once,
                                 .check = check,
                                 .n_check = b.backward ? 2 : 1,
                                 .context = &b,
                                 .resident = resident,
                                 .isa = ls_isa_name(ls_isa_within(b.forward.kernel->needs))};
    const ls_status status = peers_serve(&server);
    recurrence_call_free(&b.forward);
    recurrence_call_free(&b.gradient);
    free_arrays(&b.arrays);
    ls_pool_destroy(b.pool);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 6 || argc > 7) {
        fprintf(stderr, "usage: cells CELL SEQ ELEMENTS THREADS BACKWARD [ISA]\n");
        return 2;
    }
    const ls_status status = bench_cell(argv);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code == LS_OK ? 0 : 1;
}
