/* The kernels of ref that optimisers call, by known answers. */
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
#include "support/known_answers.h"

static void control_of(double loss, double squares, double clip, double *control) {
    double totals[LS_TOTALS] = {loss, squares, 0}, hyper[LS_HYPERS] = {0.01, clip, 3, 0.9, 0.99};
    ref("step_control", LS_F32,
        (ls_kernel_call){.n_in = 2,
                         .n_out = 1,
                         .in = {VIEW(totals, LS_F64, LS_TOTALS), VIEW(hyper, LS_F64, LS_HYPERS)},
                         .out = {VIEW(control, LS_F64, LS_CONTROLS)}});
}

static void test_step_control(void **state) {
    (void)state;
    double c[LS_CONTROLS];
    control_of(2, 16, 1, c);
    assert_true(c[LS_CONTROL_APPLY] == 1 && c[LS_CONTROL_SCALE] == 0.25 && c[LS_CONTROL_NORM] == 4);
    assert_true(c[LS_CONTROL_LR] == 0.01);
    close_to(c[LS_CONTROL_CORRECTION1], 1 - 0.729, 1e-15);
    close_to(c[LS_CONTROL_CORRECTION2], 1 - 0.970299, 1e-15);
    control_of(2, 16, 5, c);
    assert_true(c[LS_CONTROL_SCALE] == 1);
    control_of(2, 16, 0, c);
    assert_true(c[LS_CONTROL_APPLY] == 1 && c[LS_CONTROL_SCALE] == 1);
    control_of(NAN, 16, 1, c);
    assert_true(c[LS_CONTROL_APPLY] == 0);
    control_of(2, INFINITY, 1, c);
    assert_true(c[LS_CONTROL_APPLY] == 0);
    control_of(2, NAN, 1, c);
    assert_true(c[LS_CONTROL_APPLY] == 0);
}

/*
 * Two steps by hand: b1 0.5, b2 0.75, lr 0.2, gradients halved by clipping. Of three units the first has rate 0.5 and
 * decay 0.5, the second is kept, the third has rate 1 and no decay.
 */
static void test_adamw(void **state) {
    (void)state;
    enum { U = LS_FLAT_UNIT, N = 3 * U };
    double grad[N], master[N], m[N] = {0}, v[N] = {0}, control[LS_CONTROLS] = {1, 0.5, 0.2, 0.5, 0.25, 4};
    double settings[] = {1, 0, 0.5, 0.5};
    int32_t group[] = {1, -1, 0};
    for (int i = 0; i < N; i++) grad[i] = 4, master[i] = 10;
    for (int i = U; i < 2 * U; i++) grad[i] = NAN;
    const ls_adamw_params params = {.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1};
    ls_kernel_call call = {.n_in = 4,
                           .n_out = 4,
                           .in = {VIEW(grad, LS_F64, N), VIEW(control, LS_F64, LS_CONTROLS), VIEW(group, LS_I32, 3),
                                  VIEW(settings, LS_F64, 2, 2)},
                           .out = {VIEW(master, LS_F64, N), VIEW(m, LS_F64, N), VIEW(v, LS_F64, N),
                                   VIEW(master, LS_F64, N)}, /* param: the same bytes */
                           .params = &params};
    ref("adamw", LS_F64, call);
    assert_true(m[0] == 1 && v[0] == 1); /* g = 2: m = 0.5*2, v = 0.25*4; corrected 2 and 4 */
    close_to(master[0], 10 - 0.1 * (2.0 / (2 + 1) + 5), 1e-15);
    close_to(master[2 * U], 10 - 0.2 * 2.0 / (2 + 1), 1e-15);
    const double before = master[0];
    control[LS_CONTROL_CORRECTION1] = 0.75;
    control[LS_CONTROL_CORRECTION2] = 0.4375;
    ref("adamw", LS_F64, call);
    assert_true(m[0] == 1.5 && v[0] == 1.75);
    close_to(master[0], before - 0.1 * (2.0 / (2 + 1) + 0.5 * before), 1e-15);
    for (int i = 0; i < U; i++) {
        assert_true(master[i] == master[0] && master[2 * U + i] == master[2 * U]);
        assert_true(master[U + i] == 10 && m[U + i] == 0 && v[U + i] == 0);
    }

    const double kept = master[0];
    control[LS_CONTROL_APPLY] = 0;
    grad[0] = NAN;
    ref("adamw", LS_F64, call);
    assert_true(master[0] == kept && m[0] == 1.5 && v[0] == 1.75);

    call.in[2] = VIEW(group, LS_I32, 2); /* not a group for each unit */
    assert_string_equal(prepare_kernel("adamw", LS_F64, LS_ISA_REF, call).text,
                        "kernel of an update: 96 elements and groups of 2 units, expected 32 elements a unit");
}

/*
 * Steps of sgd, with its two momenta, and of lion, against a few lines of arithmetic: clipped gradients, rates and
 * decays of two parameters, a third that is kept, and a step that is not applied.
 */
static void test_sgd_and_lion(void **state) {
    (void)state;
    enum { U = LS_FLAT_UNIT, N = 3 * U, STEPS = 4, KINDS = 3 };
    static const ls_sgd_params plain = {.momentum = 0.75}, nesterov = {.momentum = 0.75, .nesterov = true};
    static const ls_lion_params lion = {.beta1 = 0.5, .beta2 = 0.25};
    static const char *const name[KINDS] = {"sgd", "sgd", "lion"};
    const void *const params[KINDS] = {&plain, &nesterov, &lion};
    double control[LS_CONTROLS] = {1, 0.5, 0.2, 1, 1, 4}, settings[] = {1, 0, 0.5, 0.3};
    int32_t group[] = {1, -1, 0};
    for (int k = 0; k < KINDS; k++) {
        double grad[N], master[N], param[N], m[N] = {0}, x[N], state_of[N] = {0};
        for (int i = 0; i < N; i++) x[i] = master[i] = param[i] = sin(i);
        ls_kernel_call call = {.n_in = 4,
                               .n_out = 3,
                               .in = {VIEW(grad, LS_F64, N), VIEW(control, LS_F64, LS_CONTROLS), VIEW(group, LS_I32, 3),
                                      VIEW(settings, LS_F64, 2, 2)},
                               .out = {VIEW(master, LS_F64, N), VIEW(m, LS_F64, N), VIEW(param, LS_F64, N)},
                               .params = params[k]};
        for (int step = 0; step < STEPS; step++) {
            control[LS_CONTROL_APPLY] = step == 2 ? 0 : 1;
            for (int i = 0; i < N; i++) grad[i] = i % 7 == 3 && step == 0 ? 0 : cos(i + 5 * step);
            ref(name[k], LS_F64, call);
            for (int i = 0; i < N && step != 2; i++) {
                const double rate = i < U ? 0.5 : 1, decay = i < U ? 0.3 : 0, g = 0.5 * grad[i];
                double move;
                if (k < 2) {
                    state_of[i] = 0.75 * state_of[i] + (g + decay * x[i]);
                    move = k == 0 ? state_of[i] : g + decay * x[i] + 0.75 * state_of[i];
                } else {
                    const double c = (state_of[i] + g) / 2;
                    move = (c > 0 ? 1 : c < 0 ? -1 : 0) + decay * x[i];
                    state_of[i] = 0.25 * state_of[i] + 0.75 * g;
                }
                x[i] -= 0.2 * rate * move;
            }
            for (int i = 0; i < N; i++) {
                const bool kept = i / U == 1;
                close_to(master[i], kept ? sin(i) : x[i], 1e-15);
                close_to(m[i], kept ? 0 : state_of[i], 1e-15);
                assert_true(param[i] == master[i]);
            }
        }
    }
}

/* By hand: momentum 0.5, gradients halved by clipping, lr 0.25; a unit without a group is kept; norms 5 and 0. */
static void test_kernels_of_matrices(void **state) {
    (void)state;
    enum { U = LS_FLAT_UNIT, N = 2 * U };
    double grad[N], m[N], direction[N], master[N], control[LS_CONTROLS] = {1, 0.5, 0.25, 1, 1, 4},
                                                   settings[] = {2, 0.5};
    int32_t group[] = {0, -1};
    for (int i = 0; i < N; i++) grad[i] = 4, m[i] = 8, direction[i] = 7, master[i] = 1;
    const ls_momentum_params half = {0.5};
    const ls_descend_params three = {3};
    const ls_kernel_call momentum = {.n_in = 4,
                                     .n_out = 2,
                                     .in = {VIEW(grad, LS_F64, N), VIEW(control, LS_F64, LS_CONTROLS),
                                            VIEW(group, LS_I32, 2), VIEW(settings, LS_F64, 1, 2)},
                                     .out = {VIEW(m, LS_F64, N), VIEW(direction, LS_F64, N)},
                                     .params = &half};
    ls_kernel_call descend = momentum;
    descend.in[0] = VIEW(direction, LS_F64, N);
    descend.out[0] = descend.out[1] = VIEW(master, LS_F64, N);
    descend.params = &three;
    ref("momentum", LS_F64, momentum);
    ref("descend", LS_F64, descend);
    for (int i = 0; i < N; i++) {
        assert_true(m[i] == (i < U ? 0.5 * 8 + 2 : 8));
        assert_true(direction[i] == (i < U ? 2 + 0.5 * 6 : 7));
        assert_true(master[i] == (i < U ? 1 - 0.5 * (3 * 5 + 0.5) : 1));
    }
    control[LS_CONTROL_APPLY] = 0;
    ref("momentum", LS_F64, momentum);
    ref("descend", LS_F64, descend);
    assert_true(m[0] == 6 && direction[0] == 5 && master[0] == 1 - 0.5 * 15.5);

    double x[] = {3, -4, 0}, y[] = {1, 1, 2}, zeros[3] = {0};
    const ls_combine_params both = {2, -1};
    ref_map("combine", VIEW(x, LS_F64, 3), (ls_view){.data = NULL}, VIEW(y, LS_F64, 3), &both);
    assert_true(y[0] == 5 && y[1] == -9 && y[2] == -2);
    ref_map("normalize", VIEW(x, LS_F64, 3), (ls_view){.data = NULL}, VIEW(y, LS_F64, 3), NULL);
    close_to(y[0], 0.6, 1e-15);
    close_to(y[1], -0.8, 1e-15);
    ref_map("normalize", VIEW(zeros, LS_F64, 3), (ls_view){.data = NULL}, VIEW(y, LS_F64, 3), NULL);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_control),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sgd_and_lion),
        cmocka_unit_test(test_kernels_of_matrices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
