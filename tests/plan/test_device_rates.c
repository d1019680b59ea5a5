/*
 * Rates of a GPU, on the driver for tests and kernels compiled for the host: what is measured runs the device's kernels
 * and messages, the file keeps it, and predictions follow it. The figures are those of threads, and are not checked.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/fake/load.h"
#include "plan/plan.h"
#include "plan/plan_impl.h"
#include "support/fake_cuda.h"
#include "support/scratch.h"

static ls_host_of gpu_of(const char *name, const char *settings) {
    ls_host_of of;
    use_fake_cuda(settings);
    use_emulated_kernels();
    assert_ok(ls_host_find(name, LS_ISA_BASE, &of));
    assert_int_equal(of.device, LS_DEVICE_CUDA);
    return of;
}

/* A call that is timed on a device has run there: the sum of what it was given is in the arena. */
static void check_sum(const char *name, const char *settings) {
    enum { N = 1000 };
    static float x[N], y[N], sum[N];
    const int64_t n = N;
    ls_host_of of;
    ls_timed_place place;
    ls_timed_call timed;
    double seconds = 0;
    use_fake_cuda(settings);
    use_emulated_kernels();
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = (float)(3 * i);
    assert_ok(ls_host_find(name, LS_ISA_BASE, &of));
    assert_ok(ls_timed_place_open(&of, 0, NULL, &place));
    const ls_kernel_call call = {.n_in = 2,
                                 .in = {ls_view_dense(x, LS_F32, 1, &n), ls_view_dense(y, LS_F32, 1, &n)},
                                 .n_out = 1,
                                 .out = {ls_view_dense(NULL, LS_F32, 1, &n)}};
    assert_ok(ls_timed_call_open(&place, LS_KERNEL_ADD, LS_F32, &call, &timed));
    for (int i = 0; i < 3; i++) assert_ok(ls_timed_call_run(&timed, &seconds));
    assert_true(seconds > 0 && seconds < 1);
    assert_ok(ls_timed_call_stream(&timed, &seconds));
    assert_true(seconds > 0 && seconds < 1);
    const ls_range out = ls_range_flat((size_t)((char *)timed.call.out[0].data - timed.arena->base), sizeof sum);
    assert_ok(ls_device_read(place.device, timed.arena, &out, sum));
    for (int i = 0; i < N; i++) assert_float_equal(sum[i], 4 * i, 0);
    ls_timed_call_close(&timed);
    ls_timed_place_close(&place);
}

static void test_a_timed_call_runs_on_the_device(void **state) {
    (void)state;
    check_sum("cpu", "");
    check_sum("delayed:3", "");
    check_sum("delayed:3:recorded", "");
    check_sum("cuda:1", "seed=2");
    assert_int_equal(fake_cuda_left(), 0);
}

/* A call that a library refuses to prepare is the next row's. */
static void test_what_a_library_refuses(void **state) {
    (void)state;
    const ls_host_of of = gpu_of("cuda", "");
    const ls_kernel_call call = ls_product_call(LS_F32, 32, 16);
    fake_library *library = fake_load(LS_TEST_FAKES "libcublasLt.so.13", "fake_cublaslt");
    ls_timed_place place;
    ls_timed_call timed;
    assert_non_null(library);
    unsetenv("LONGSPAN_CUDA_LIBRARIES");
    assert_ok(ls_timed_place_open(&of, 0, NULL, &place));
    assert_ok(ls_timed_call_open(&place, LS_KERNEL_MATMUL, LS_F32, &call, &timed));
    assert_string_equal(ls_kernel_row(timed.kernel), "cublaslt");
    ls_timed_call_close(&timed);
    library->failing = "cublasLtMatmulAlgoGetHeuristic";
    library->fails_at = 1;
    assert_ok(ls_timed_call_open(&place, LS_KERNEL_MATMUL, LS_F32, &call, &timed));
    assert_string_equal(ls_kernel_row(timed.kernel), "own");
    ls_timed_call_close(&timed);
    ls_timed_place_close(&place);
    use_emulated_kernels();
    fake_expect_clean(library);
}

/* The time is that of one launch, however many are timed at once, and a device that fails says so. */
static void test_a_failure_is_an_error(void **state) {
    (void)state;
    const int64_t n = 100;
    const ls_view x = ls_view_dense(NULL, LS_F32, 1, &n);
    const ls_kernel_call call = {.n_in = 2, .in = {x, x}, .n_out = 1, .out = {x}};
    const ls_host_of of = gpu_of("cuda", "cuStreamBatchMemOp_v2=30:719:lost");
    ls_timed_place place;
    ls_timed_call timed;
    double seconds;
    assert_ok(ls_timed_place_open(&of, 0, NULL, &place));
    assert_ok(ls_timed_call_open(&place, LS_KERNEL_ADD, LS_F32, &call, &timed));
    ls_status status = ls_ok();
    for (int i = 0; i < 50 && status.code == LS_OK; i++) status = ls_timed_call_run(&timed, &seconds);
    assert_int_equal(status.code, LS_FAULT);
    assert_non_null(strstr(status.text, "CUDA_ERROR_LAUNCH_FAILED"));
    ls_timed_call_close(&timed);
    ls_timed_place_close(&place);
}

/* Puts take longer the more bytes there are; all links of the machine have a rate. */
static void test_links(void **state) {
    (void)state;
    static const char *const settings[] = {"devices=1", "devices=2", "devices=2,peers=0"};
    for (size_t i = 0; i < LS_COUNT(settings); i++) {
        const ls_host_of of = gpu_of("cuda", settings[i]);
        ls_host host = ls_host_nominal(LS_DEVICE_CUDA, LS_ISA_BASE);
        host.cache = 1 << 16;
        assert_ok(ls_measure_links(&of, &host));
        assert_true(host.latency > 0 && host.put.near > 0 && host.put.near <= host.put.far && host.put.far < 1e-3);
        assert_true(host.to_host > 1e3 && host.from_host > 1e3);
        assert_true((host.peer > 1e3) == (i == 1));
        assert_int_equal(fake_cuda_left(), 0);
    }
}

/* Only between ranks of a device that has messages. */
static void test_no_messages(void **state) {
    (void)state;
    ls_host_of of;
    ls_device_pair *pair;
    assert_ok(ls_host_find("cpu", LS_ISA_BASE, &of));
    const ls_status status = ls_device_pair_open(&of, (const int[]){0, 0}, 64, &pair);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    assert_non_null(strstr(status.text, "device cpu executes no messages"));
}

/* A put of the pair copies the bytes, also where the device cannot hold its queues. */
static void test_a_pair_without_holds(void **state) {
    (void)state;
    ls_host_of of;
    ls_device_pair *pair;
    double seconds;
    assert_ok(ls_host_find("delayed:4:messages", LS_ISA_BASE, &of));
    assert_ok(ls_device_pair_open(&of, (const int[]){0, 0}, 4096, &pair));
    assert_ok(ls_device_pair_time(pair, LS_TRIP_ANSWERED, 8, &seconds));
    assert_true(seconds > 0);
    assert_ok(ls_device_pair_time(pair, LS_TRIP_PUT, 4096, &seconds));
    assert_true(seconds > 0);
    ls_device_pair_close(pair);
}

/* A causal call, or a window, is a band of keys, by which the row of a library may take it. */
static void test_attention_says_its_band(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    const ls_attention_shape shape = {.S = 50, .Hq = 2, .Hkv = 1, .D = 8, .E = 8};
    const ls_mask causal = ls_mask_causal(), none = {.n = 0},
                  window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = 7}}},
                  sink = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = 7, .first = 2}}};
    const struct {
        const ls_mask *mask;
        ls_attention_band band;
    } expected[] = {
        {&causal, {true, -49, 0}}, {&none, {true, -49, 49}}, {&window, {true, -6, 0}}, {&sink, {false, 0, 0}}};
    for (size_t i = 0; i < LS_COUNT(expected); i++) {
        const ls_kernel_call call = ls_attention_call_make(arena, LS_BF16, LS_FORWARD, &shape, expected[i].mask);
        const ls_attention_params *params = call.params;
        assert_int_equal(params->band.known, expected[i].band.known);
        if (!params->band.known) continue;
        assert_int_equal(params->band.low, expected[i].band.low);
        assert_int_equal(params->band.high, expected[i].band.high);
    }
    ls_arena_destroy(arena);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_file_of_a_gpu(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    const ls_host_of of = gpu_of("cuda", "devices=4"), one = gpu_of("cuda:0", "devices=4");
    LS_PATH path = NULL;
    ls_host host = ls_host_nominal(LS_DEVICE_CUDA, LS_ISA_BASE), found;
    ls_row_rates rows = {.n = 3,
                         .rate = {{LS_KERNEL_ATTENTION, LS_BF16, "cudnn", 5e14},
                                  {LS_KERNEL_ATTENTION, LS_BF16, "own", 2e14},
                                  {LS_KERNEL_MATMUL, LS_F32, "own", 3e13}}},
                 kept;
    assert_false(ls_host_load(&of, &found, &kept));
    assert_int_equal(kept.n, 0);
    host.to_host = 4.5e10;
    host.peer = 0;
    assert_ok(ls_host_save(&of, &host, &rows));
    assert_true(ls_host_load(&of, &found, &kept));
    host.devices = 4; /* is what the driver says now */
    assert_memory_equal(&found, &host, sizeof host);
    assert_true(ls_host_load(&one, &found, NULL)); /* of the model, whatever its number */
    assert_float_equal(found.devices, 1, 0);
    static const ls_kernel cudnn = {.id = LS_KERNEL_ATTENTION, .dtype = LS_BF16, .row = "cudnn"},
                           own = {.id = LS_KERNEL_ATTENTION, .dtype = LS_BF16},
                           other = {.id = LS_KERNEL_ATTENTION, .dtype = LS_F32};
    assert_float_equal(ls_row_rate_of(&kept, &cudnn) / 1e14, 5, 1e-12);
    assert_float_equal(ls_row_rate_of(&kept, &own) / 1e14, 2, 1e-12);
    assert_float_equal(ls_row_rate_of(&kept, &other), 0, 0);
    assert_ok(ls_host_path(&of, &path));
    assert_non_null(strstr(path, "/longspan/Fake-0-gpu.json"));
    write_text(path, "{\"rows\": 1}");
    assert_false(ls_host_load(&of, &found, &kept));
}

/* Where no driver says what the GPU is: nominal rates, and no file of anybody's. */
static void test_no_driver(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    ls_host_of of;
    ls_host host;
    setenv("LONGSPAN_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
    assert_int_equal(ls_host_find("cuda", LS_ISA_BASE, &of).code, LS_UNSUPPORTED);
    assert_ok(ls_host_assume("cuda", LS_ISA_BASE, &of));
    assert_int_equal(of.device, LS_DEVICE_CUDA);
    assert_int_equal(of.facts.model[0], 0);
    assert_false(ls_host_load(&of, &host, NULL));
    assert_float_equal(host.devices, 1, 0);
    assert_true(host.type[LS_BF16].matmul > 1e14);
    assert_int_equal(ls_host_assume("cuda:", LS_ISA_BASE, &of).code, LS_INVALID);
}

/* --- predictions -------------------------------------------------------------------------------------------------- */

/* Ranks that share a GPU have a part of its time each; those that have one each put by the link between them. */
static void test_ranks_share_a_gpu(void **state) {
    (void)state;
    ls_host host = ls_host_nominal(LS_DEVICE_CUDA, LS_ISA_BASE);
    host.peer = 4e11;
    const ls_rates one = ls_rates_sharing(&host, LS_BF16, 1), four = ls_rates_sharing(&host, LS_BF16, 4);
    assert_float_equal(one.core.matmul / host.type[LS_BF16].matmul, 1, 1e-12);
    assert_float_equal(four.core.matmul / one.core.matmul, 0.25, 1e-12);
    assert_float_equal(four.cache / host.cache, 0.25, 1e-12);
    assert_float_equal(four.put.far / host.put.far, 1, 1e-12);
    assert_true(one.hides);
    host.devices = 4;
    const ls_rates each = ls_rates_sharing(&host, LS_BF16, 4), alone = ls_rates_sharing(&host, LS_BF16, 1);
    assert_float_equal(each.core.matmul / one.core.matmul, 1, 1e-12);
    assert_float_equal(each.put.far * 4e11, 1, 1e-12);
    assert_float_equal(alone.cache / host.cache, 1, 1e-12);
    const ls_rates nominal = ls_rates_of(LS_DEVICE_CUDA, LS_ISA_BASE, LS_BF16, 16); /* threads do not divide it */
    assert_float_equal(nominal.core.matmul / one.core.matmul, 1, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_driver), /* first: before one is loaded */
        cmocka_unit_test(test_file_of_a_gpu),
        cmocka_unit_test(test_a_timed_call_runs_on_the_device),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_what_a_library_refuses),
        cmocka_unit_test(test_no_messages),
        cmocka_unit_test(test_a_pair_without_holds),
        cmocka_unit_test(test_attention_says_its_band),
        cmocka_unit_test(test_ranks_share_a_gpu),
        cmocka_unit_test(test_a_failure_is_an_error), /* last: the device is lost */
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
