/*
 * The kernels of the convolution before a layer with a state, and the kernels that do the same in more passes, on the
 * channels of a gated delta rule of Qwen3.5-9B: 16 heads of keys and 32 of values, 128 elements each, 4 taps. Processor
 * time of one thread in ms, the best of seven calls; JSON lines.
 *
 *   build/bench/conv [S, 2048] [f32|bf16] [isa]
 */
#include <string.h>

#include "kernel_time.h"

enum { E = (2 * 16 + 32) * 128, W = 4 };

/* A view [1,rows,E], or [rows,E] if ndim is 2. */
static ls_view make(ls_dtype dtype, int ndim, int64_t rows) {
    const int64_t size[] = {1, rows, E};
    return filled(dtype, ndim, size + 3 - ndim);
}

static void measure(const char *name, const ls_kernel_request *of, const ls_kernel_call *given, ls_pool *pool) {
    const ls_kernel *kernel;
    ls_kernel_call call = *given;
    call.n_out = 1;
    const double ms = best_ms(name, of, &call, pool, &kernel);
    const ls_conv_params *p = strncmp(name, "conv", 4) == 0 ? call.params : NULL;
    printf("{\"kernel\":\"%s%s%s\",\"dtype\":\"%s\",\"isa\":\"%s\",\"ms\":%.2f}\n", name,
           p && p->ahead ? ", ahead" : "", p && p->silu ? ", silu" : "", ls_dtype_name(of->dtype),
           ls_isa_name(ls_isa_within(kernel->needs)), ms);
}

int main(int argc, char **argv) {
    ls_machine machine;
    ls_pool *pool = NULL;
    ls_machine_detect(&machine);
    const int64_t S = argc > 1 ? atoll(argv[1]) : 2048;
    const ls_dtype T = argc > 2 && strcmp(argv[2], "bf16") == 0 ? LS_BF16 : LS_F32;
    ls_kernel_request of = {.dtype = T, .isa = machine.isa};
    if (argc > 3) stop_unless(ls_isa_parse(argv[3], &of.isa));
    stop_unless(ls_pool_create(1, true, &pool));
    const ls_view wide = make(T, 3, S + W - 1), x = make(T, 3, S), y = make(T, 3, S), weight = make(T, 2, W),
                  dweight = make(LS_F32, 2, W), all = ls_view_dense(NULL, T, 3, (int64_t[]){1, S, 0});
    const int64_t n = S * E;
    const ls_view flat = ls_view_dense(x.data, T, 1, &n), made = ls_view_dense(y.data, T, 1, &n);
    const ls_conv_params plain = {.last_first = true}, ahead = {.last_first = true, .ahead = true},
                         silu = {.last_first = true, .silu = true};
    const ls_activation_params activation = {.kind = LS_ACTIVATION_SILU};
    const struct {
        const char *name;
        ls_kernel_call call;
    } calls[] = {
        {"copy", {.n_in = 1, .in = {flat}, .out = {made}}},
        {"conv", {.params = &plain, .n_in = 3, .in = {wide, weight, all}, .out = {y}}},
        {"activation", {.params = &activation, .n_in = 1, .in = {flat}, .out = {made}}},
        {"conv", {.params = &silu, .n_in = 3, .in = {wide, weight, all}, .out = {y}}},
        {"activation_grad", {.params = &activation, .n_in = 2, .in = {flat, flat}, .out = {made}}},
        {"conv_silu_grad", {.params = &silu, .n_in = 4, .in = {wide, weight, x, all}, .out = {y}}},
        {"conv", {.params = &ahead, .n_in = 3, .in = {wide, weight, all}, .out = {y}}},
        {"conv_dw", {.params = &plain, .n_in = 3, .in = {wide, x, all}, .out = {dweight}}},
    };
    for (size_t i = 0; i < LS_COUNT(calls); i++) measure(calls[i].name, &of, &calls[i].call, pool);
    ls_pool_destroy(pool);
    return 0;
}
