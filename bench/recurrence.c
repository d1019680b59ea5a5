/*
 * The kernels of the linear recurrence, compared with f32 products on this machine, on the layers of
 * peers/recurrence_calls.c. Each kernel alternates with a square product of side 1,024 on the same threads. One JSON
 * object per line, with medians. Operations are those that must be done: nothing is counted above a diagonal, and a
 * gradient counts as 2.3 times the operations of the results for a delta rule, and as 2.0 times if values are added.
 * share: the rate of these operations over that of the product in the same turn. With one thread, time is processor
 * time, so that other programs on the machine matter less.
 *
 *   build/bench/recurrence [threads, 1] [S, 2048] [f32|bf16] [rounds, 7] [isa] [part of a kernel's name: gdn.forward]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"
#include "peers/recurrence_calls.h"

enum { SIDE = 1024, MOST_ROUNDS = 101 };

typedef struct bench {
    ls_pool *pool;
    ls_isa isa;
    ls_dtype dtype;
    int64_t S;
    int rounds;
    const char *word;
} bench;

typedef struct kernel {
    const char *name;
    ls_kernel_id id;
    ls_kernel_call call;
    double flops;
} kernel;

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

static double now(const bench *b) {
    struct timespec t;
    if (ls_pool_threads(b->pool) > 1) return ls_seconds();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double run(const bench *b, const recurrence_call *t) {
    const double start = now(b);
    t->kernel->run(&t->call, t->state, b->pool);
    return now(b) - start;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

/* Measures the kernel and the product in alternation. */
static void measure(const bench *b, const recurrence_layer *l, const kernel *k, const recurrence_call *product) {
    double seconds[MOST_ROUNDS], products[MOST_ROUNDS], share[MOST_ROUNDS];
    char name[64];
    snprintf(name, sizeof name, "%s.%s", l->name, k->name);
    if (strstr(name, b->word) == NULL) return;
    recurrence_call call;
    stop_unless(recurrence_call_make(k->id, b->isa, &k->call, &call));
    run(b, &call);
    for (int i = 0; i < b->rounds; i++) {
        products[i] = 2.0 * SIDE * SIDE * SIDE / run(b, product);
        seconds[i] = run(b, &call);
        share[i] = k->flops / seconds[i] / products[i];
    }
    const double middle = median(seconds, b->rounds);
    printf("{\"kernel\":\"%s\",\"dtype\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"S\":%lld,\"ms\":%.2f,"
           "\"tokens_per_s\":%.0f,\"gflops\":%.1f,\"product_gflops\":%.1f,\"share\":%.2f,\"workspace_mib\":%.1f}\n",
           name, ls_dtype_name(b->dtype), ls_isa_name(ls_isa_within(call.kernel->needs)), call.call.threads,
           (long long)b->S, middle * 1e3, (double)b->S / middle, k->flops / middle * 1e-9,
           median(products, b->rounds) * 1e-9, median(share, b->rounds), (double)call.workspace / 1048576);
    fflush(stdout);
    recurrence_call_free(&call);
}

static void measure_layer(const bench *b, const recurrence_layer *l, const recurrence_call *product) {
    const ls_linear_recurrence_params params = {.delta = l->delta};
    recurrence_arrays a;
    stop_unless(recurrence_arrays_make(l, b->dtype, b->S, &a));
    const double tokens = (double)(b->S * l->H), D = (double)l->D, E = (double)l->E, shared = 48,
                 forward = tokens * ls_linear_recurrence_flops(&params, D, E),
                 state = 2 * D * (E + (l->delta ? D : 0)), /* operations that multiply or change a map's state */
        mapped = tokens * (state + (l->delta ? state + shared * (2 * D + E) : 0)),
                 back = mapped + (l->delta ? tokens * (2 * D * E + shared * D) : 0);
    kernel all[] = {
        {"forward", LS_KERNEL_LINEAR_RECURRENCE, recurrence_forward(&a), forward},
        {"gradient", LS_KERNEL_LINEAR_RECURRENCE_GRAD, recurrence_gradient(&a), forward * (l->delta ? 2.3 : 2)},
        {"map",
         LS_KERNEL_LINEAR_RECURRENCE_MAP,
         {.n_in = 5, .n_out = 1, .in = {a.k, a.v, a.decay, a.beta, a.places}, .out = {a.map}},
         mapped},
        {"back",
         LS_KERNEL_LINEAR_RECURRENCE_BACK,
         {.n_in = 6, .n_out = 1, .in = {a.q, a.k, a.decay, a.beta, a.places, a.grad_o}, .out = {a.map}},
         back},
    };
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        all[i].call.params = &params;
        all[i].call.threads = ls_pool_threads(b->pool);
        measure(b, l, &all[i], product);
    }
    recurrence_arrays_free(&a);
}

int main(int argc, char **argv) {
    ls_machine machine;
    ls_machine_detect(&machine);
    bench b = {.isa = machine.isa,
               .dtype = argc > 3 && strcmp(argv[3], "bf16") == 0 ? LS_BF16 : LS_F32,
               .S = argc > 2 ? atoll(argv[2]) : 2048,
               .rounds = argc > 4 ? atoi(argv[4]) : 7,
               .word = argc > 6 ? argv[6] : ""};
    if (argc > 5) stop_unless(ls_isa_parse(argv[5], &b.isa));
    if (b.rounds < 1 || b.rounds > MOST_ROUNDS || b.S < 1) {
        fprintf(stderr, "usage: recurrence [threads] [S] [f32|bf16] [rounds, at most %d] [isa] [word]\n", MOST_ROUNDS);
        return 2;
    }
    stop_unless(ls_pool_create(argc > 1 ? atoi(argv[1]) : 1, true, &b.pool));
    static const char *const names[] = {"gdn", "ssd"};
    const ls_matmul_params plain = {0};
    const int64_t square[] = {SIDE, SIDE};
    float *const numbers = recurrence_memory(3 * sizeof(float) * SIDE * SIDE);
    for (int i = 0; numbers != NULL && i < 2 * SIDE * SIDE; i++) numbers[i] = (float)(i % 101) / 128;
    ls_kernel_call call = {.n_in = 2, .n_out = 1, .params = &plain, .threads = ls_pool_threads(b.pool)};
    for (int i = 0; i < 3; i++)
        *(i < 2 ? &call.in[i] : &call.out[0]) = ls_view_dense(numbers + i * SIDE * SIDE, LS_F32, 2, square);
    recurrence_call product;
    stop_unless(recurrence_call_make(LS_KERNEL_MATMUL, b.isa, &call, &product));
    run(&b, &product);
    for (size_t i = 0; i < LS_COUNT(names); i++) measure_layer(&b, recurrence_layer_named(names[i]), &product);
    recurrence_call_free(&product);
    free(numbers);
    ls_pool_destroy(b.pool);
    return 0;
}
