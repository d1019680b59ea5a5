/*
 * The gated norm of layers with a state, and the kernels that do the same in more passes: after a gated delta rule of
 * Qwen3.5-9B, 32 heads of 128 elements, and after a state space of Mamba-2, 5,120 elements in one group or in eight.
 * Processor time of one thread in ms, the best of seven calls; JSON lines.
 *
 *   build/bench/gated_norm [S, 2048] [f32|bf16] [isa]
 */
#include <string.h>

#include "kernel_time.h"

static ls_view make(ls_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c) {
    return filled(dtype, ndim, (int64_t[]){a, b, c});
}

static double measure(const char *name, const ls_kernel_request *of, const ls_kernel_call *call, ls_pool *pool) {
    const ls_kernel *kernel;
    return best_ms(name, of, call, pool, &kernel);
}

/* Measures S tokens with `groups` groups of E elements. */
static void measure_groups(const ls_kernel_request *of, int64_t S, int64_t groups, int64_t E, ls_pool *pool) {
    const ls_dtype T = of->dtype;
    const ls_view x = make(T, 3, S, groups, E), gate = make(T, 3, S, groups, E), y = make(T, 3, S, groups, E),
                  dgate = make(T, 3, S, groups, E), weight = make(T, 2, groups, E, 0), row = make(T, 1, E, 0, 0),
                  rstd = make(LS_F32, 2, S, groups, 0), dweight = make(LS_F32, 2, groups, E, 0),
                  drow = make(LS_F32, 1, E, 0, 0);
    const ls_norm_params norm = {.epsilon = 1e-6};
    const ls_gated_norm_params behind = {.epsilon = 1e-6}, first = {.epsilon = 1e-6, .gate_first = true};
    const struct {
        const char *name;
        ls_kernel_call call;
    } calls[] = {
        {"rmsnorm", {.params = &norm, .n_in = 2, .in = {x, row}, .n_out = 2, .out = {y, rstd}}},
        {"swiglu", {.n_in = 2, .in = {gate, x}, .n_out = 1, .out = {y}}},
        {"rmsnorm_grad", {.params = &norm, .n_in = 4, .in = {x, row, rstd, gate}, .n_out = 2, .out = {y, drow}}},
        {"swiglu_grad", {.n_in = 3, .in = {gate, x, y}, .n_out = 2, .out = {y, dgate}}},
        {"gated_norm", {.params = &behind, .n_in = 3, .in = {x, weight, gate}, .n_out = 1, .out = {y}}},
        {"gated_norm_grad",
         {.params = &behind, .n_in = 4, .in = {x, weight, gate, y}, .n_out = 3, .out = {y, dweight, dgate}}},
        {"gated_norm", {.params = &first, .n_in = 3, .in = {x, weight, gate}, .n_out = 1, .out = {y}}},
        {"gated_norm_grad",
         {.params = &first, .n_in = 4, .in = {x, weight, gate, y}, .n_out = 3, .out = {y, dweight, dgate}}},
    };
    for (size_t i = 0; i < LS_COUNT(calls); i++)
        printf("{\"kernel\":\"%s%s\",\"groups\":%lld,\"E\":%lld,\"dtype\":\"%s\",\"ms\":%.2f}\n", calls[i].name,
               calls[i].call.params == &first ? ", gate first" : "", (long long)groups, (long long)E, ls_dtype_name(T),
               measure(calls[i].name, of, &calls[i].call, pool));
    const ls_view all[] = {x, gate, y, dgate, weight, row, rstd, dweight, drow};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i].data);
}

int main(int argc, char **argv) {
    static const int64_t shapes[][2] = {{32, 128}, {1, 5120}, {8, 640}};
    ls_machine machine;
    ls_pool *pool = NULL;
    ls_machine_detect(&machine);
    const int64_t S = argc > 1 ? atoll(argv[1]) : 2048;
    const ls_dtype T = argc > 2 && strcmp(argv[2], "bf16") == 0 ? LS_BF16 : LS_F32;
    ls_kernel_request of = {.dtype = T, .isa = machine.isa};
    if (argc > 3) stop_unless(ls_isa_parse(argv[3], &of.isa));
    stop_unless(ls_pool_create(1, true, &pool));
    for (size_t i = 0; i < LS_COUNT(shapes); i++) measure_groups(&of, S, shapes[i][0], shapes[i][1], pool);
    ls_pool_destroy(pool);
    return 0;
}
