/*
 * Longspan's linear recurrence for run.py: its kernels, as a rank calls them.
 *
 *     recurrence LAYER SEQ THREADS BACKWARD [ISA]        LAYER: gdn, ssd   BACKWARD: 0 or 1
 */
#include "recurrence_calls.h"
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    recurrence_arrays arrays;
    recurrence_call forward, gradient;
    ls_pool *pool;
    bool backward;
} bench;

static ls_status once(void *context) {
    const bench *b = context;
    const recurrence_call *const calls[] = {&b->forward, &b->gradient};
    const ls_view *const carried[] = {&b->arrays.state, &b->arrays.dstate};
    for (int i = 0; i <= b->backward; i++) {
        memset(carried[i]->data, 0, sizeof(float) * (size_t)ls_view_elements(carried[i]));
        calls[i]->kernel->run(&calls[i]->call, calls[i]->state, b->pool);
    }
    return ls_ok();
}

/* What both sides have alike: results or, as o then has dv, the gradients of q and k. */
static double check(void *context, int i) {
    const bench *b = context;
    const ls_view *const view = !b->backward ? &b->arrays.o : i == 0 ? &b->arrays.dq : &b->arrays.dk;
    const ls_attention_array one = {
        .data = view->data, .dtype = view->dtype, .ndim = 1, .size = {ls_view_elements(view)}};
    return peers_mean(&one);
}

/* Mamba-2's values are x times the step, of which the decay is the opposite. */
static void scale_values(const recurrence_arrays *a) {
    const int64_t E = a->v.size[3];
    for (int64_t i = 0; i < ls_view_elements(&a->v); i++)
        ((float *)a->v.data)[i] *= -((const float *)a->decay.data)[i / E];
}

static ls_status bench_layer(char **argv) {
    const recurrence_layer *layer = recurrence_layer_named(argv[1]);
    ls_machine machine;
    bench b = {.backward = strcmp(argv[4], "1") == 0};
    ls_machine_detect(&machine);
    if (layer == NULL) return ls_error(LS_USAGE, "layer \"%s\", expected gdn or ssd", argv[1]);
    if (argv[5] != NULL) LS_TRY(ls_isa_parse(argv[5], &machine.isa));
    const int64_t resident = peers_memory("VmRSS");
    const ls_linear_recurrence_params params = {.delta = layer->delta};
    LS_TRY(ls_pool_create(atoi(argv[3]), true, &b.pool));
    LS_TRY(recurrence_arrays_make(layer, LS_F32, atoll(argv[2]), &b.arrays));
    if (!layer->delta) scale_values(&b.arrays);
    ls_kernel_call forward = recurrence_forward(&b.arrays), gradient = recurrence_gradient(&b.arrays);
    forward.params = gradient.params = &params;
    forward.threads = gradient.threads = ls_pool_threads(b.pool);
    LS_TRY(recurrence_call_make(LS_KERNEL_LINEAR_RECURRENCE, machine.isa, &forward, &b.forward));
    LS_TRY(recurrence_call_make(LS_KERNEL_LINEAR_RECURRENCE_GRAD, machine.isa, &gradient, &b.gradient));
    const peers_server server = {.run = once,
                                 .check = check,
                                 .n_check = b.backward ? 2 : 1,
                                 .context = &b,
                                 .resident = resident,
                                 .isa = ls_isa_name(ls_isa_within(b.forward.kernel->needs))};
    const ls_status status = peers_serve(&server);
    recurrence_call_free(&b.forward);
    recurrence_call_free(&b.gradient);
    recurrence_arrays_free(&b.arrays);
    ls_pool_destroy(b.pool);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: recurrence LAYER SEQ THREADS BACKWARD [ISA]\n");
        return 2;
    }
    const ls_status status = bench_layer(argv);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code == LS_OK ? 0 : 1;
}
