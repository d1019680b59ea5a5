/* The kernels of ref by known answers; those of attention, matmul and optimisers have files of their own. */
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

static void test_refusals(void **state) {
    (void)state;
    double x[64];
    const ls_norm_params params = {0};
    ls_kernel_call call = {.n_in = 2,
                           .n_out = 2,
                           .in = {VIEW(x, LS_F64, 3, 4), VIEW(x, LS_F64, 5)},
                           .out = {VIEW(x, LS_F64, 3, 4), VIEW(x, LS_F64, 3)},
                           .params = &params};
    ls_status status = prepare_kernel("rmsnorm", LS_F64, LS_ISA_REF, call);
    assert_int_equal(status.code, LS_INVALID);
    assert_string_equal(status.text, "kernel rmsnorm: weight is f64[5]: its size is 5, expected 4");
    call.in[1].size[0] = 4;
    assert_int_equal(prepare_kernel("rmsnorm", LS_F64, LS_ISA_REF, call).code, LS_OK);
    call.params = NULL;
    assert_string_equal(prepare_kernel("rmsnorm", LS_F64, LS_ISA_REF, call).text, "kernel rmsnorm: params are missing");
    call.params = &params;
    call.n_in = 1;
    assert_string_equal(prepare_kernel("rmsnorm", LS_F64, LS_ISA_REF, call).text,
                        "kernel rmsnorm: 1 inputs, weight is missing");
    call.n_in = 3;
    assert_string_equal(prepare_kernel("rmsnorm", LS_F64, LS_ISA_REF, call).text,
                        "kernel rmsnorm: 3 inputs, expected 2");

    const ls_attention_params attention = {.scale = 1, .group = 2, .first_q = 3, .first_kv = 1};
    call = (ls_kernel_call){.n_in = 5,
                            .n_out = 2,
                            .in = {VIEW(x, LS_F64, 1, 2, 2, 4), VIEW(x, LS_F64, 1, 3, 2, 4),
                                   VIEW(x, LS_F64, 1, 3, 2, 4), VIEW(x, LS_I32, 1, 2, 2), VIEW(x, LS_I32, 3)},
                            .out = {VIEW(x, LS_F64, 1, 2, 2, 4), VIEW(x, LS_F64, 1, 2, 2)},
                            .params = &attention};
    assert_int_equal(prepare_kernel("attention", LS_F64, LS_ISA_REF, call).code, LS_OK);
    call.in[1].size[2] = call.in[2].size[2] = 1; /* heads 3 and 4 in groups of 2 read KV heads 1 and 2 */
    assert_non_null(strstr(prepare_kernel("attention", LS_F64, LS_ISA_REF, call).text, "read key heads 0 to 1 of 1"));
    call.in[4].size[0] = 2;
    assert_non_null(strstr(prepare_kernel("attention", LS_F64, LS_ISA_REF, call).text, "kpos is i32[2]"));
}

static void test_elementwise(void **state) {
    (void)state;
    float a[3] = {1, -2, 0.5f}, b[3] = {4, 8, 2}, y[3], c[1] = {-3};
    const ls_view va = VIEW(a, LS_F32, 3), vb = VIEW(b, LS_F32, 3), vy = VIEW(y, LS_F32, 3), none = {0};
    ref_map("add", va, vb, vy, NULL);
    assert_true(y[0] == 5 && y[1] == 6 && y[2] == 2.5f);
    ref_map("mul", va, vb, vy, NULL);
    assert_true(y[0] == 4 && y[1] == -16 && y[2] == 1);
    ref_map("scale", va, none, vy, &(ls_scale_params){0.25});
    assert_true(y[0] == 0.25f && y[1] == -0.5f && y[2] == 0.125f);
    ref_map("scale_by", va, VIEW(c, LS_F32, 1), vy, NULL);
    assert_true(y[0] == -3 && y[1] == 6 && y[2] == -1.5f);
}

static void test_swiglu(void **state) {
    (void)state;
    double gate[4] = {0, 1, 1e3, -1e3}, up[4] = {5, 2, 3, 4}, y[4];
    ref_map("swiglu", VIEW(gate, LS_F64, 4), VIEW(up, LS_F64, 4), VIEW(y, LS_F64, 4), NULL);
    close_to(y[0], 0, 0);
    close_to(y[1], 2 * 0.7310585786300049, 1e-15);
    close_to(y[2], 3000, 0);
    close_to(y[3], 0, 0);
    double dy[4] = {1, 1, 1, 1}, dgate[4], dup[4];
    ref("swiglu_grad", LS_F64,
        (ls_kernel_call){.n_in = 3,
                         .n_out = 2,
                         .in = {VIEW(gate, LS_F64, 4), VIEW(up, LS_F64, 4), VIEW(dy, LS_F64, 4)},
                         .out = {VIEW(dgate, LS_F64, 4), VIEW(dup, LS_F64, 4)}});
    close_to(dgate[0], 2.5, 0);
    close_to(dgate[2], 3, 0);
    close_to(dgate[3], 0, 0);
    close_to(dup[2], 1000, 0);
}

static void test_rmsnorm(void **state) {
    (void)state;
    double x[4] = {3, 4, 0, 0}, weight[2] = {1, 2}, y[4], rstd[2];
    ref("rmsnorm", LS_F64,
        (ls_kernel_call){.n_in = 2,
                         .n_out = 2,
                         .in = {VIEW(x, LS_F64, 2, 2), VIEW(weight, LS_F64, 2)},
                         .out = {VIEW(y, LS_F64, 2, 2), VIEW(rstd, LS_F64, 2)},
                         .params = &(ls_norm_params){.epsilon = 0.25}});
    close_to(rstd[0], 1 / sqrt(12.75), 1e-16);
    close_to(y[0], 3 / sqrt(12.75), 1e-15);
    close_to(y[1], 8 / sqrt(12.75), 1e-15);
    close_to(rstd[1], 2, 0);
    close_to(y[2], 0, 0);
}

/* Two groups of one token; gates of 0 close, of ln 3 are 3/4 open. */
static void test_gated_norm(void **state) {
    (void)state;
    double x[4] = {3, 4, 2, 5}, weight[6] = {1, 2, 10, 1}, gate[4] = {log(3), 0, log(3), 0}, y[4];
    const double open = 0.75 * log(3);
    ls_gated_norm_params params = {.epsilon = 0.25};
    ls_kernel_call call = {.n_in = 3,
                           .n_out = 1,
                           .in = {VIEW(x, LS_F64, 2, 2), VIEW(weight, LS_F64, 2, 2), VIEW(gate, LS_F64, 2, 2)},
                           .out = {VIEW(y, LS_F64, 2, 2)},
                           .params = &params};
    ref("gated_norm", LS_F64, call);
    close_to(y[0], 3 / sqrt(12.75) * open, 1e-15);
    close_to(y[1], 0, 0);
    close_to(y[2], 20 / sqrt(14.75) * open, 1e-14);
    params.gate_first = true;
    ref("gated_norm", LS_F64, call);
    close_to(y[0], 3 * open / sqrt(4.5 * open * open + 0.25), 1e-15);
    close_to(y[3], 0, 0);
    call.in[1] = VIEW(weight, LS_F64, 1, 2);
    ref("gated_norm", LS_F64, call);
    close_to(y[2], 2 * open / sqrt(2 * open * open + 0.25), 1e-15);
    call.in[1] = VIEW(weight, LS_F64, 3, 2);
    assert_string_equal(prepare_kernel("gated_norm", LS_F64, LS_ISA_REF, call).text,
                        "kernel gated_norm: rows f64[2,2] for weights f64[3,2], expected whole groups");
}

/* Figures of the formulas at 1, and what lies far out. */
static void test_activation(void **state) {
    (void)state;
    static const struct {
        ls_activation_params params;
        double at_one, far_left, far_right;
    } rows[] = {{{LS_ACTIVATION_GELU, 0}, 0.84134474606854293, 0, 1000},
                {{LS_ACTIVATION_GELU_TANH, 0}, 0.84119199060827676, 0, 1000},
                {{LS_ACTIVATION_RELU, 0}, 1, 0, 1000},
                {{LS_ACTIVATION_SILU, 0}, 0.73105857863000490, 0, 1000},
                {{LS_ACTIVATION_SOFTCAP, 2}, 0.92423431452001958, -2, 2}};
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        double x[3] = {1, -1000, 1000}, y[3];
        ref_map("activation", VIEW(x, LS_F64, 3), (ls_view){0}, VIEW(y, LS_F64, 3), &rows[i].params);
        close_to(y[0], rows[i].at_one, 1e-15);
        close_to(y[1], rows[i].far_left, 0);
        close_to(y[2], rows[i].far_right, 0);
    }
    double x[1] = {1}, y[1];
    ls_kernel_call call = {.n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F64, 1)}, .out = {VIEW(y, LS_F64, 1)}};
    call.params = &(ls_activation_params){LS_ACTIVATION_SOFTCAP, 0};
    assert_string_equal(prepare_kernel("activation", LS_F64, LS_ISA_REF, call).text,
                        "kernel activation: softcap's cap is 0, expected a positive number");
}

static void test_conv(void **state) {
    (void)state;
    double x[8] = {1, 10, 2, 20, 3, 30, 4, 40}, weight[4] = {1, 1, 0.5, -1}, y[6], dw[4] = {0}, none[1];
    double reach[6] = {1, 0, 0, 1, 1, 1}; /* of each token behind and ahead */
    ls_conv_params params = {.ahead = false};
    const ls_kernel_call call = {
        .n_in = 3,
        .n_out = 1,
        .in = {VIEW(x, LS_F64, 1, 4, 2), VIEW(weight, LS_F64, 2, 2), VIEW(none, LS_F64, 1, 3, 0)},
        .out = {VIEW(y, LS_F64, 1, 3, 2)},
        .params = &params};
    ref("conv", LS_F64, call);
    close_to(y[0], 2 + 0.5, 0);
    close_to(y[1], 20 - 10, 0);
    close_to(y[5], 40 - 30, 0);
    params.ahead = true;
    ref("conv", LS_F64, call);
    close_to(y[0], 1 + 0.5 * 2, 0);
    close_to(y[5], 30 - 40, 0);
    ls_kernel_call within = call;
    within.in[2] = VIEW(reach, LS_F64, 1, 3, 2);
    ref("conv", LS_F64, within);
    close_to(y[0], 1, 0);
    close_to(y[2], 2 + 0.5 * 3, 0);
    params.ahead = false;
    ref("conv", LS_F64, within);
    close_to(y[0], 2 + 0.5, 0);
    close_to(y[2], 3, 0);
    close_to(y[3], 30, 0);
    double biased[6] = {1, 1, 0.5, -1, 3, 4};
    const double z = 10 + 4; /* of one tap */
    ls_conv_params with_silu = {.biased = true, .silu = true};
    within.in[1] = VIEW(biased, LS_F64, 3, 2);
    within.params = &with_silu;
    reach[0] = 0;
    x[3] = 10;
    ref("conv", LS_F64, within);
    close_to(y[1], z / (1 + exp(-z)), 1e-15);
    double dy[6] = {1, 2, 0, 1, 0, 0}, dz[6];
    ls_kernel_call back = within;
    back.n_in = 4;
    back.in[3] = within.in[2];
    back.in[2] = VIEW(dy, LS_F64, 1, 3, 2);
    back.out[0] = VIEW(dz, LS_F64, 1, 3, 2);
    ref("conv_silu_grad", LS_F64, back);
    close_to(dz[1], 2 * (1 + z * exp(-z) / (1 + exp(-z))) / (1 + exp(-z)), 1e-14);
    x[3] = 20;
    dy[1] = 0;
    ref("conv_dw", LS_F64,
        (ls_kernel_call){.n_in = 3,
                         .n_out = 1,
                         .in = {VIEW(x, LS_F64, 1, 4, 2), VIEW(dy, LS_F64, 1, 3, 2), VIEW(none, LS_F64, 1, 3, 0)},
                         .out = {VIEW(dw, LS_F64, 2, 2)},
                         .params = &params});
    close_to(dw[0], 2, 0);
    close_to(dw[1], 30, 0);
    close_to(dw[2], 1, 0);
    close_to(dw[3], 20, 0);
    ls_kernel_call wrong = call;
    wrong.in[2] = VIEW(none, LS_F64, 1, 2, 0);
    wrong.out[0] = VIEW(y, LS_F64, 1, 2, 2);
    assert_string_equal(prepare_kernel("conv", LS_F64, LS_ISA_REF, wrong).text,
                        "kernel conv: 4 tokens for 2 and 2 taps, expected 3");
}

/* Two elements: one that halves its state at each token, one that changes its sign. */
static void test_recurrence(void **state) {
    (void)state;
    double gate[6] = {0.5, -1, 0.5, -1, 0.5, -1}, x[6] = {1, 1, 2, 2, 3, 3}, start[2] = {8, 8}, h[6], map[4];
    ls_recurrence_params params = {.backwards = false};
    const ls_kernel_call call = {
        .n_in = 3,
        .n_out = 1,
        .in = {VIEW(gate, LS_F64, 1, 3, 1, 1, 2), VIEW(x, LS_F64, 1, 3, 1, 2), VIEW(start, LS_F64, 1, 1, 2)},
        .out = {VIEW(h, LS_F64, 1, 3, 1, 2)},
        .params = &params};
    const ls_kernel_call mapped = {.n_in = 2,
                                   .n_out = 1,
                                   .in = {call.in[0], call.in[1]},
                                   .out = {VIEW(map, LS_F64, 2, 1, 1, 2)},
                                   .params = &params};
    static const double forwards[6] = {5, -7, 4.5, 9, 5.25, -6}, backwards[6] = {3.75, -6, 5.5, 7, 7, -5};
    static const double of_maps[2][2] = {{0.25 * (0.25 * 8 + 1) + 3, 8}, {0.25 * (0.25 * 8 + 3) + 1, 8}};
    for (int way = 0; way < 2; way++) {
        params.backwards = way == 1;
        ref("recurrence", LS_F64, call);
        for (int i = 0; i < 6; i++) close_to(h[i], way == 0 ? forwards[i] : backwards[i], 0);
        ref("recurrence_map", LS_F64, mapped);
        for (int e = 0; e < 2; e++) close_to(map[e] * 8 + map[2 + e], h[way == 0 ? 4 + e : e], 0);
        /* [maps,factor or sum,batch,1,element]; the second element's maps change nothing. */
        double maps[8] = {0.25, 1, 1, 0, 0.25, 1, 3, 0}, carried[2] = {8, 8};
        ref("recurrence_follow", LS_F64,
            (ls_kernel_call){.n_in = 1,
                             .n_out = 1,
                             .in = {VIEW(maps, LS_F64, 2, 2, 1, 1, 2)},
                             .out = {VIEW(carried, LS_F64, 1, 1, 2)},
                             .params = &params});
        for (int e = 0; e < 2; e++) close_to(carried[e], of_maps[way][e], 0);
    }
}

/* A state of two numbers, a matrix of two tokens; backwards it is turned. */
static void test_recurrence_of_matrices(void **state) {
    (void)state;
    double gate[8] = {1, 2, 3, 4, 0, -1, 2, 0.5}, x[4] = {1, -1, 0.5, 2}, start[2] = {3, -2}, h[4], map[6];
    static const double wanted[2][4] = {{0, 0, 0.5, 2}, {-8.5, -16, -3.5, -2}};
    ls_recurrence_params params = {.backwards = false};
    const ls_kernel_call call = {
        .n_in = 3,
        .n_out = 1,
        .in = {VIEW(gate, LS_F64, 1, 2, 2, 2, 1), VIEW(x, LS_F64, 1, 2, 2, 1), VIEW(start, LS_F64, 1, 2, 1)},
        .out = {VIEW(h, LS_F64, 1, 2, 2, 1)},
        .params = &params};
    ls_kernel_call mapped = {.n_in = 2,
                             .n_out = 1,
                             .in = {call.in[0], call.in[1]},
                             .out = {VIEW(map, LS_F64, 3, 1, 2, 1)},
                             .params = &params};
    for (int way = 0; way < 2; way++) {
        params.backwards = way == 1;
        ref("recurrence", LS_F64, call);
        for (int i = 0; i < 4; i++) close_to(h[i], wanted[way][i], 0);
        ref("recurrence_map", LS_F64, mapped);
        double carried[2] = {start[0], start[1]};
        for (int s = 0; s < 2; s++)
            close_to(map[s] * start[0] + map[2 + s] * start[1] + map[4 + s], h[way == 0 ? 2 + s : s], 0);
        ref("recurrence_follow", LS_F64,
            (ls_kernel_call){.n_in = 1,
                             .n_out = 1,
                             .in = {VIEW(map, LS_F64, 1, 3, 1, 2, 1)},
                             .out = {VIEW(carried, LS_F64, 1, 2, 1)},
                             .params = &params});
        for (int s = 0; s < 2; s++) close_to(carried[s], h[way == 0 ? 2 + s : s], 0);
    }
    mapped.out[0] = VIEW(map, LS_F64, 2, 1, 2, 1);
    assert_string_equal(prepare_kernel("recurrence_map", LS_F64, LS_ISA_REF, mapped).text,
                        "kernel recurrence_map: maps of 2 terms for states of 2 numbers, expected one more");
}

static void test_layernorm(void **state) {
    (void)state;
    double x[4] = {3, 7, -1, -1}, weight[2] = {1, 2}, bias[2] = {0.5, -0.5}, y[4], mean[2], rstd[2];
    ref("layernorm", LS_F64,
        (ls_kernel_call){.n_in = 3,
                         .n_out = 3,
                         .in = {VIEW(x, LS_F64, 2, 2), VIEW(weight, LS_F64, 2), VIEW(bias, LS_F64, 2)},
                         .out = {VIEW(y, LS_F64, 2, 2), VIEW(mean, LS_F64, 2), VIEW(rstd, LS_F64, 2)},
                         .params = &(ls_norm_params){.epsilon = 2.25}});
    close_to(mean[0], 5, 0);
    close_to(rstd[0], 0.4, 1e-16); /* the variance is 4 */
    close_to(y[0], -0.3, 1e-15);
    close_to(y[1], 1.1, 1e-15);
    close_to(rstd[1], 1 / 1.5, 1e-16);
    close_to(y[2], 0.5, 0);
    close_to(y[3], -0.5, 0);
}

/* Inverse frequencies read back from the table at position 1, against figures worked out by hand (D 128). */
static void test_rope_table(void **state) {
    (void)state;
    static const struct {
        int i;
        double plain, llama3;
    } rows[] = {
        {0, 1.0, 1.0},                                      /* short waves are kept */
        {28, 0.0032114461064338684, 0.0032114461064338684}, /* wavelength 1956 < 8192/4 */
        {29, 0.0026160990819334984, 0.0021665706299245358}, /* 2402: blended */
        {30, 0.002131119603291154, 0.0013718936825171113},
        {34, 0.0009384738514199853, 0.0001785077911335975},
        {35, 0.0007644969737157226, 9.556212171446532e-05}, /* 8219 > 8192: divided by 8 */
        {63, 2.4551407022954663e-06, 3.068925877869333e-07},
    };
    int32_t positions[3] = {1, 0, 1000003};
    static double plain[3 * 128], llama3[3 * 128], linear[3 * 128];
    const ls_rope_params params = {
        .theta = 500000, .factor = 8, .low_factor = 1, .high_factor = 4, .original_length = 8192};
    ls_rope_params scaled = params, divided = params;
    scaled.scaling = LS_ROPE_LLAMA3;
    divided.scaling = LS_ROPE_LINEAR;
    const ls_kernel_call call = {.n_in = 1, .n_out = 1, .in = {VIEW(positions, LS_I32, 3)}};
    ls_kernel_call one = call, two = call, three = call;
    one.out[0] = VIEW(plain, LS_F64, 3, 128), one.params = &params;
    two.out[0] = VIEW(llama3, LS_F64, 3, 128), two.params = &scaled;
    three.out[0] = VIEW(linear, LS_F64, 3, 128), three.params = &divided;
    ref("rope_table", LS_F64, one);
    ref("rope_table", LS_F64, two);
    ref("rope_table", LS_F64, three);
    for (size_t r = 0; r < LS_COUNT(rows); r++) {
        const int i = rows[r].i;
        close_to(plain[64 + i], sin(rows[r].plain), 1e-15);
        close_to(plain[i], cos(rows[r].plain), 1e-15);
        close_to(llama3[64 + i], sin(rows[r].llama3), 1e-15);
        close_to(linear[64 + i], sin((double)(float)(rows[r].plain / 8)), 1e-15);
        assert_true(plain[128 + i] == 1 && plain[128 + 64 + i] == 0);
        close_to(plain[256 + 64 + i], sin((double)(float)(1000003 * rows[r].plain)), 1e-14); /* an angle is f32 */
    }
}

static void test_rotate(void **state) {
    (void)state;
    double x[4] = {1, 2, 3, 4}, table[4] = {0, 1, 1, 0}, y[4]; /* angles 90 and 0 degrees */
    ref("rotate", LS_F64,
        (ls_kernel_call){.n_in = 2,
                         .n_out = 1,
                         .in = {VIEW(x, LS_F64, 1, 1, 4), VIEW(table, LS_F64, 1, 4)},
                         .out = {VIEW(y, LS_F64, 1, 1, 4)},
                         .params = &(ls_rotate_params){false}});
    assert_true(y[0] == -3 && y[1] == 2 && y[2] == 1 && y[3] == 4);
}

static void test_cross_entropy(void **state) {
    (void)state;
    double logits[5 * 3] = {2, 2, 2, 1e3, -1e3, 0, -1e3, -1e3, -1e3, 1, 2, 3, -INFINITY, 0, 0};
    int32_t labels[5] = {1, 1, 0, -100, 2};
    double loss[5], lse[5], dloss[5] = {1, 1, 1, NAN, 2}, grad[15];
    ref("cross_entropy", LS_F64,
        (ls_kernel_call){.n_in = 2,
                         .n_out = 2,
                         .in = {VIEW(logits, LS_F64, 5, 3), VIEW(labels, LS_I32, 5)},
                         .out = {VIEW(loss, LS_F64, 5), VIEW(lse, LS_F64, 5)}});
    close_to(loss[0], log(3), 1e-15);
    close_to(loss[1], 2000, 0);
    close_to(loss[2], log(3), 1e-12);
    close_to(loss[3], 0, 0);
    close_to(lse[3], 3 + log1p(exp(-1) + exp(-2)), 1e-15);
    close_to(loss[4], log(2), 1e-15);
    ref("cross_entropy_grad", LS_F64,
        (ls_kernel_call){
            .n_in = 4,
            .n_out = 1,
            .in = {VIEW(logits, LS_F64, 5, 3), VIEW(labels, LS_I32, 5), VIEW(lse, LS_F64, 5), VIEW(dloss, LS_F64, 5)},
            .out = {VIEW(grad, LS_F64, 5, 3)}});
    static const double expected[15] = {1 / 3.0, -2 / 3.0, 1 / 3.0, 1, -1, 0, -2 / 3.0, 1 / 3.0,
                                        1 / 3.0, 0,        0,       0, 0,  1, -1};
    for (int i = 0; i < 15; i++) close_to(grad[i], expected[i], 1e-12);
}

/* f32 sums are made in double and rounded once, and add to what is there. */
static void test_reductions(void **state) {
    (void)state;
    enum { N = 100000 };
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = 0.1f;
    float y[1] = {1}, columns[4] = {1, 2, 3, 4};
    double squares[1] = {1};
    ref("sum", LS_F32,
        (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F32, N)}, .out = {VIEW(y, LS_F32, 1)}});
    assert_true(y[0] == (float)(1 + N * (double)0.1f));
    ref("sum_squares", LS_F32,
        (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F32, N)}, .out = {VIEW(squares, LS_F64, 1)}});
    close_to(squares[0], 1 + N * (double)0.1f * (double)0.1f, 1e-12);
    x[7] = INFINITY; /* not NaN, and not lost */
    squares[0] = 0;
    ref("sum_squares", LS_F32,
        (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F32, N)}, .out = {VIEW(squares, LS_F64, 1)}});
    assert_true(squares[0] == INFINITY);
    x[7] = 0.1f;
    ref("column_sum", LS_F32,
        (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {VIEW(x, LS_F32, N / 4, 4)}, .out = {VIEW(columns, LS_F32, 4)}});
    for (int i = 0; i < 4; i++) assert_true(columns[i] == (float)(i + 1 + (double)N / 4 * (double)0.1f));
}

/* What words hold of numbers that are added to them, of the type given, or of their squares. */
static double exact(ls_dtype dtype, void *x, int64_t n, bool squares) {
    static double words[LS_EXACT_WORDS];
    const ls_exact_params params = {squares};
    double y = NAN;
    memset(words, 0, sizeof words);
    for (int part = 0; part < 3; part++) { /* one call after the other, as the chunks of a step */
        const int64_t at = ls_part_start(n, 3, part), count = ls_part_start(n, 3, part + 1) - at;
        ref("exact_sum", dtype,
            (ls_kernel_call){.n_in = 1,
                             .n_out = 1,
                             .in = {VIEW((char *)x + (size_t)at * ls_dtype_bytes(dtype), dtype, count)},
                             .out = {VIEW(words, LS_F64, LS_EXACT_WORDS)},
                             .params = &params});
    }
    ref("exact_value", dtype,
        (ls_kernel_call){
            .n_in = 1, .n_out = 1, .in = {VIEW(words, LS_F64, 1, LS_EXACT_WORDS)}, .out = {VIEW(&y, LS_F64, 1)}});
    return y;
}

/* Nothing is lost between the least and the largest double, in any order; what is not finite is not lost either. */
static void test_exact_sums(void **state) {
    (void)state;
    double far[6] = {0x1p1000, 1, 0x1p-1074, -0x1p1000, 0x1p-1074, -1};
    double signs[3] = {-0x1p-40, -3, 0x1p60}, reversed[3] = {0x1p60, -3, -0x1p-40}, zeros[2] = {0.0, -0.0};
    assert_true(exact(LS_F64, far, 6, false) == 0x1p-1073);
    assert_true(exact(LS_F64, signs, 2, false) == -3 - 0x1p-40);
    assert_true(exact(LS_F64, signs, 3, false) == exact(LS_F64, reversed, 3, false));
    assert_true(exact(LS_F64, zeros, 2, false) == 0);
    double most[3] = {0x1.fffffffffffffp1023, 1, -1}, lost[3] = {1, INFINITY, 2}, nothing[3] = {1, NAN, 2};
    assert_true(exact(LS_F64, most, 3, false) == most[0]);
    assert_true(exact(LS_F64, lost, 3, false) == INFINITY);
    assert_true(isnan(exact(LS_F64, nothing, 3, false)));
    enum { N = 3 * 4 * LS_FLAT_UNIT };
    static float x[N], back[N];
    double squares = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (float)ldexp(1 + i % 7, i % 40 - 20);
        squares += (double)x[i] * (double)x[i];
    }
    for (int unit = 0; unit < N / LS_FLAT_UNIT; unit++)
        memcpy(back + N - (unit + 1) * LS_FLAT_UNIT, x + unit * LS_FLAT_UNIT, LS_FLAT_UNIT * sizeof *x);
    close_to(exact(LS_F32, x, N, true), squares, 1e-14 * squares);
    assert_true(exact(LS_F32, x, N, true) == exact(LS_F32, back, N, true));
}

/* Rows are added in their order, each sum rounded: the second column would be 1 in any other. */
static void test_add_rows(void **state) {
    (void)state;
    const float rows[8] = {1, 1, 2, 0x1p24f, 3, -0x1p24f, 4, 0};
    float sum[2] = {NAN, NAN};
    ref("add_rows", LS_F32,
        (ls_kernel_call){
            .n_in = 1, .n_out = 1, .in = {VIEW((void *)rows, LS_F32, 4, 2)}, .out = {VIEW(sum, LS_F32, 2)}});
    assert_memory_equal(sum, ((float[]){10, 0}), sizeof sum);
}

static void test_embedding(void **state) {
    (void)state;
    float table[6] = {1, 2, 3, 4, 5, 6}, y[6], grad[6] = {10, 10, 10, 10, 10, 10};
    int32_t ids[3] = {2, 0, 2};
    ref("embedding", LS_F32,
        (ls_kernel_call){.n_in = 2,
                         .n_out = 1,
                         .in = {VIEW(ids, LS_I32, 1, 3), VIEW(table, LS_F32, 3, 2)},
                         .out = {VIEW(y, LS_F32, 1, 3, 2)}});
    assert_memory_equal(y, ((float[]){5, 6, 1, 2, 5, 6}), sizeof y);
    const ls_embedding_params paddings[] = {{-1}, {2}}; /* the second time row 2 stays as it is */
    for (int i = 0; i < 2; i++)
        ref("embedding_grad", LS_F32,
            (ls_kernel_call){.n_in = 2,
                             .n_out = 1,
                             .in = {VIEW(ids, LS_I32, 1, 3), VIEW(y, LS_F32, 1, 3, 2)},
                             .out = {VIEW(grad, LS_F32, 3, 2)},
                             .params = &paddings[i]});
    assert_memory_equal(grad, ((float[]){12, 14, 10, 10, 20, 22}), sizeof grad);
}

static void test_copy_and_accumulate(void **state) {
    (void)state;
    int32_t ids[6] = {1, 2, 3, 4, 5, 6}, dense[4];
    ls_view middle = ls_view_slice(VIEW(ids, LS_I32, 2, 3), 1, 1, 2), out = VIEW(dense, LS_I32, 4);
    ref("copy", LS_I32, (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {middle}, .out = {out}});
    assert_memory_equal(dense, ((int32_t[]){2, 3, 5, 6}), sizeof dense);

    double x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    ls_view transposed = VIEW(x, LS_F64, 3, 2); /* x as [2,3], its columns as rows */
    transposed.stride[0] = 1;
    transposed.stride[1] = 3;
    ref("copy", LS_F64, (ls_kernel_call){.n_in = 1, .n_out = 1, .in = {transposed}, .out = {VIEW(y, LS_F64, 3, 2)}});
    assert_memory_equal(y, ((double[]){1, 4, 2, 5, 3, 6}), sizeof y);

    double total[6] = {100, 100, 100, 100, 100, 100};
    ref("accumulate", LS_F64,
        (ls_kernel_call){.n_in = 1,
                         .n_out = 1,
                         .in = {ls_view_slice(VIEW(x, LS_F64, 2, 3), 1, 0, 2)},
                         .out = {ls_view_slice(VIEW(total, LS_F64, 2, 3), 1, 1, 2)}});
    assert_memory_equal(total, ((double[]){100, 101, 102, 100, 104, 105}), sizeof total);

    ls_bf16 halves[3] = {1, 2, 3};
    ref("fill", LS_BF16, (ls_kernel_call){.n_out = 1, .out = {VIEW(halves, LS_BF16, 3)}});
    assert_true(halves[0] == 0 && halves[1] == 0 && halves[2] == 0);
}

static void test_cast(void **state) {
    (void)state;
    /* 1 + 2^-8 lies halfway between two bf16; a hair more must go up, though f32 would round it away */
    double x[5] = {1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 3 * 0x1p-8 - 0x1p-40, NAN, -1e300};
    ls_bf16 y[5];
    float f[5];
    ref_map("cast", VIEW(x, LS_F64, 5), (ls_view){0}, VIEW(y, LS_BF16, 5), NULL);
    assert_true(ls_bf16_to_f32(y[0]) == 1);
    assert_true(ls_bf16_to_f32(y[1]) == 1 + 0x1p-7f);
    assert_true(ls_bf16_to_f32(y[2]) == 1 + 0x1p-7f);
    assert_true(isnan(ls_bf16_to_f32(y[3])));
    assert_true(ls_bf16_to_f32(y[4]) == -INFINITY);
    ref_map("cast", VIEW(y, LS_BF16, 5), (ls_view){0}, VIEW(f, LS_F32, 5), NULL);
    assert_true(f[1] == 1 + 0x1p-7f && isnan(f[3]));
    ref_map("cast", VIEW(f, LS_F32, 5), (ls_view){0}, VIEW(x, LS_F64, 5), NULL);
    assert_true(x[1] == 1 + 0x1p-7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_gated_norm),
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_recurrence),
        cmocka_unit_test(test_recurrence_of_matrices),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_rope_table),
        cmocka_unit_test(test_rotate),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_exact_sums),
        cmocka_unit_test(test_add_rows),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_copy_and_accumulate),
        cmocka_unit_test(test_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
