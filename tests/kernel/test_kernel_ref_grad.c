/* Every gradient kernel of ref against central differences of its forward kernel, in f64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/kernel_call.h"

static void ref(const char *name, ls_kernel_call call) { run_kernel(name, LS_F64, LS_ISA_REF, 2, call); }

/* sum of out * weight: turns outputs into one number whose gradient by an output is its weight. */
static double dot(const double *out, const double *weight, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += out[i] * weight[i];
    return sum;
}

/* d loss / d x[i] by central differences, against grad[i], at 1e-6 of the largest. */
static void check_gradient(const char *what, double (*loss)(void *), void *context, double *x, int64_t n,
                           const double *grad) {
    double *measured = calloc((size_t)n, sizeof *measured);
    for (int64_t i = 0; i < n; i++) {
        const double at = x[i], h = 1e-5;
        x[i] = at + h;
        const double above = loss(context);
        x[i] = at - h;
        measured[i] = (above - loss(context)) / (2 * h);
        x[i] = at;
    }
    const double error = largest_error(grad, measured, n);
    if (!(error < 1e-6)) printf("%s: relative error %g\n", what, error);
    assert_true(error < 1e-6);
    free(measured);
}

/* A gradient that "adds" starts from these values, which are then taken off. */
static void start_adding(double *grad, int64_t n) {
    for (int64_t i = 0; i < n; i++) grad[i] = 3.0;
}
static void end_adding(double *grad, int64_t n) {
    for (int64_t i = 0; i < n; i++) grad[i] -= 3.0;
}

enum { ROWS = 5, E = 6, V = 7 };

typedef struct norm_case {
    double x[ROWS * E], weight[E], y[ROWS * E], rstd[ROWS], dy[ROWS * E];
} norm_case;

static const ls_norm_params norm_params = {.epsilon = 1e-5, .offset = 0.5};

static double norm_loss(void *context) {
    norm_case *c = context;
    fill_nan(c->y, ROWS * E);
    ref("rmsnorm", (ls_kernel_call){.n_in = 2,
                                    .n_out = 2,
                                    .in = {VIEW(c->x, LS_F64, ROWS, E), VIEW(c->weight, LS_F64, E)},
                                    .out = {VIEW(c->y, LS_F64, ROWS, E), VIEW(c->rstd, LS_F64, ROWS)},
                                    .params = &norm_params});
    return dot(c->y, c->dy, ROWS * E);
}

static void test_rmsnorm(void **state) {
    (void)state;
    norm_case c;
    double dx[ROWS * E], dweight[E];
    fill_normal(c.x, ROWS * E, 1);
    fill_normal(c.weight, E, 2);
    fill_normal(c.dy, ROWS * E, 3);
    norm_loss(&c);
    fill_nan(dx, ROWS * E);
    start_adding(dweight, E);
    ref("rmsnorm_grad", (ls_kernel_call){.n_in = 4,
                                         .n_out = 2,
                                         .in = {VIEW(c.x, LS_F64, ROWS, E), VIEW(c.weight, LS_F64, E),
                                                VIEW(c.rstd, LS_F64, ROWS), VIEW(c.dy, LS_F64, ROWS, E)},
                                         .out = {VIEW(dx, LS_F64, ROWS, E), VIEW(dweight, LS_F64, E)},
                                         .params = &norm_params});
    end_adding(dweight, E);
    check_gradient("rmsnorm x", norm_loss, &c, c.x, ROWS * E, dx);
    check_gradient("rmsnorm weight", norm_loss, &c, c.weight, E, dweight);
}

typedef struct swiglu_case {
    double gate[20], up[20], y[20], dy[20];
} swiglu_case;

static double swiglu_loss(void *context) {
    swiglu_case *c = context;
    ref("swiglu", (ls_kernel_call){.n_in = 2,
                                   .n_out = 1,
                                   .in = {VIEW(c->gate, LS_F64, 4, 5), VIEW(c->up, LS_F64, 4, 5)},
                                   .out = {VIEW(c->y, LS_F64, 4, 5)}});
    return dot(c->y, c->dy, 20);
}

static void test_swiglu(void **state) {
    (void)state;
    swiglu_case c;
    double dgate[20], dup[20];
    fill_normal(c.gate, 20, 4);
    fill_normal(c.up, 20, 5);
    fill_normal(c.dy, 20, 6);
    fill_nan(dgate, 20);
    fill_nan(dup, 20);
    ref("swiglu_grad",
        (ls_kernel_call){.n_in = 3,
                         .n_out = 2,
                         .in = {VIEW(c.gate, LS_F64, 20), VIEW(c.up, LS_F64, 20), VIEW(c.dy, LS_F64, 20)},
                         .out = {VIEW(dgate, LS_F64, 20), VIEW(dup, LS_F64, 20)}});
    check_gradient("swiglu gate", swiglu_loss, &c, c.gate, 20, dgate);
    check_gradient("swiglu up", swiglu_loss, &c, c.up, 20, dup);
}

typedef struct embedding_case {
    int32_t ids[ROWS];
    double table[V * E], y[ROWS * E], dy[ROWS * E];
} embedding_case;

static double embedding_loss(void *context) {
    embedding_case *c = context;
    ref("embedding", (ls_kernel_call){.n_in = 2,
                                      .n_out = 1,
                                      .in = {VIEW(c->ids, LS_I32, ROWS), VIEW(c->table, LS_F64, V, E)},
                                      .out = {VIEW(c->y, LS_F64, ROWS, E)}});
    return dot(c->y, c->dy, ROWS * E);
}

static void test_embedding(void **state) {
    (void)state;
    embedding_case c = {.ids = {3, 0, 3, 6, 3}};
    double dtable[V * E];
    fill_normal(c.table, V * E, 7);
    fill_normal(c.dy, ROWS * E, 8);
    start_adding(dtable, V * E);
    const ls_embedding_params every = {-1};
    ref("embedding_grad", (ls_kernel_call){.params = &every,
                                           .n_in = 2,
                                           .n_out = 1,
                                           .in = {VIEW(c.ids, LS_I32, ROWS), VIEW(c.dy, LS_F64, ROWS, E)},
                                           .out = {VIEW(dtable, LS_F64, V, E)}});
    end_adding(dtable, V * E);
    check_gradient("embedding", embedding_loss, &c, c.table, V * E, dtable);
}

typedef struct entropy_case {
    int32_t labels[ROWS];
    double logits[ROWS * V], loss[ROWS], lse[ROWS], dloss[ROWS];
} entropy_case;

static double entropy_loss(void *context) {
    entropy_case *c = context;
    fill_nan(c->loss, ROWS);
    ref("cross_entropy", (ls_kernel_call){.n_in = 2,
                                          .n_out = 2,
                                          .in = {VIEW(c->logits, LS_F64, ROWS, V), VIEW(c->labels, LS_I32, ROWS)},
                                          .out = {VIEW(c->loss, LS_F64, ROWS), VIEW(c->lse, LS_F64, ROWS)}});
    return dot(c->loss, c->dloss, ROWS);
}

static void test_cross_entropy(void **state) {
    (void)state;
    entropy_case c = {.labels = {2, -100, 0, 6, 5}};
    double grad[ROWS * V], in_place[ROWS * V];
    fill_normal(c.logits, ROWS * V, 9);
    fill_normal(c.dloss, ROWS, 10);
    entropy_loss(&c);
    fill_nan(grad, ROWS * V);
    ls_kernel_call call = {.n_in = 4,
                           .n_out = 1,
                           .in = {VIEW(c.logits, LS_F64, ROWS, V), VIEW(c.labels, LS_I32, ROWS),
                                  VIEW(c.lse, LS_F64, ROWS), VIEW(c.dloss, LS_F64, ROWS)},
                           .out = {VIEW(grad, LS_F64, ROWS, V)}};
    ref("cross_entropy_grad", call);
    for (int v = 0; v < V; v++) assert_true(grad[V + v] == 0);
    memcpy(in_place, c.logits, sizeof in_place);
    call.in[0].data = call.out[0].data = in_place;
    ref("cross_entropy_grad", call);
    assert_memory_equal(in_place, grad, sizeof grad);
    check_gradient("cross_entropy", entropy_loss, &c, c.logits, ROWS * V, grad);
}

/* Rotation is linear: its gradient is the rotation back, and back and forth is the identity. */
typedef struct rotate_case {
    double x[24], y[24], dy[24], table[24];
} rotate_case;

static void rotate(const double *x, const double *table, double *y, bool inverse) {
    const ls_rotate_params params = {.inverse = inverse};
    ref("rotate", (ls_kernel_call){
                      .n_in = 2,
                      .n_out = 1,
                      .in = {VIEW((void *)(uintptr_t)x, LS_F64, 2, 3, 4), VIEW((void *)(uintptr_t)table, LS_F64, 2, 4)},
                      .out = {VIEW(y, LS_F64, 2, 3, 4)},
                      .params = &params});
}

static double rotate_loss(void *context) {
    rotate_case *c = context;
    rotate(c->x, c->table, c->y, false);
    return dot(c->y, c->dy, 24);
}

static void test_rotate(void **state) {
    (void)state;
    rotate_case c;
    int32_t positions[2] = {3, 100};
    double dx[24], back[24];
    const ls_rope_params params = {.theta = 10000};
    ref("rope_table", (ls_kernel_call){.n_in = 1,
                                       .n_out = 1,
                                       .in = {VIEW(positions, LS_I32, 2)},
                                       .out = {VIEW(c.table, LS_F64, 2, 4)},
                                       .params = &params});
    fill_normal(c.x, 24, 11);
    fill_normal(c.dy, 24, 12);
    rotate(c.dy, c.table, dx, true);
    check_gradient("rotate", rotate_loss, &c, c.x, 24, dx);
    rotate_loss(&c);
    rotate(c.y, c.table, back, true);
    assert_true(largest_error(back, c.x, 24) < 1e-15);
}

/* C = A·B: dA = dC·B^T, dB = A^T·dC, by the same kernel with transpositions; dbias by column_sum. */
typedef struct matmul_case {
    double A[12], B[20], bias[5], C[15], dC[15];
} matmul_case;

static double matmul_loss(void *context) {
    matmul_case *c = context;
    static const ls_matmul_params params = {0};
    ref("matmul", (ls_kernel_call){.n_in = 3,
                                   .n_out = 1,
                                   .in = {VIEW(c->A, LS_F64, 3, 4), VIEW(c->B, LS_F64, 4, 5), VIEW(c->bias, LS_F64, 5)},
                                   .out = {VIEW(c->C, LS_F64, 3, 5)},
                                   .params = &params});
    return dot(c->C, c->dC, 15);
}

static void test_matmul(void **state) {
    (void)state;
    matmul_case c;
    double dA[12], dB[20], dbias[5];
    fill_normal(c.A, 12, 13);
    fill_normal(c.B, 20, 14);
    fill_normal(c.bias, 5, 15);
    fill_normal(c.dC, 15, 16);
    const ls_matmul_params transpose_b = {.transpose_b = true}, add = {.transpose_a = true, .accumulate = true};
    fill_nan(dA, 12);
    start_adding(dB, 20);
    start_adding(dbias, 5);
    ref("matmul", (ls_kernel_call){.n_in = 2,
                                   .n_out = 1,
                                   .in = {VIEW(c.dC, LS_F64, 3, 5), VIEW(c.B, LS_F64, 4, 5)},
                                   .out = {VIEW(dA, LS_F64, 3, 4)},
                                   .params = &transpose_b});
    ref("matmul", (ls_kernel_call){.n_in = 2,
                                   .n_out = 1,
                                   .in = {VIEW(c.A, LS_F64, 3, 4), VIEW(c.dC, LS_F64, 3, 5)},
                                   .out = {VIEW(dB, LS_F64, 4, 5)},
                                   .params = &add});
    ref("column_sum",
        (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {VIEW(c.dC, LS_F64, 3, 5)}, .out = {VIEW(dbias, LS_F64, 5)}});
    end_adding(dB, 20);
    end_adding(dbias, 5);
    check_gradient("matmul A", matmul_loss, &c, c.A, 12, dA);
    check_gradient("matmul B", matmul_loss, &c, c.B, 20, dB);
    check_gradient("matmul bias", matmul_loss, &c, c.bias, 5, dbias);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm),       cmocka_unit_test(test_swiglu), cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_rotate), cmocka_unit_test(test_matmul),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
