/*
 * Attention on one rank in bf16, a few heads at a time, as many as the device is given: arrays in f32 exist for these
 * heads only, and the results equal those of two ranks, which do all heads at once. In f32 results are made in their
 * places.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "longspan/attention.h"
#include "session/session.h"
#include "support/fake_cuda.h"
#include "support/meshes.h"
#include "support/spread.h"

/* dq has 8.8 MiB in f32: two groups, of two KV heads and of one. Heads of values are smaller, and give as many. */
enum { S = 3000, HQ = 12, HKV = 3, D = 64, E = 40, SHARE = HQ / HKV };
enum { O, DQ, DK, DV, RESULTS };
static const int64_t counts[RESULTS] = {S * HQ * E, S *HQ *D, S *HKV *D, S *HKV *E};

static const ls_mask window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = 33}}};

static ls_attention_options options_for(ls_dtype dtype) {
    return (ls_attention_options){.batch = 1,
                                  .seq = S,
                                  .heads = HQ,
                                  .kv_heads = HKV,
                                  .head_size = D,
                                  .value_size = E,
                                  .dtype = dtype,
                                  .mask = &window,
                                  .gradients = true};
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static ls_image *compiled_for(const char *device, const ls_attention_options *options, ls_attention_graph *g) {
    ls_image *image;
    assert_int_equal(ls_attention_graph_build(options, g).code, LS_OK);
    const ls_job job = ls_attention_graph_job(g, true);
    const ls_target target = {.mesh = mesh_of(1, 1, 1),
                              .device = device,
                              .strategy = "local",
                              .layout = LS_LAYOUT_CONTIGUOUS,
                              .isa = LS_ISA_BASE,
                              .threads = 1};
    assert_int_equal(ls_compile(&job, &target, &image).code, LS_OK);
    return image;
}

static ls_image *compiled(ls_attention_graph *g, ls_dtype dtype) {
    const ls_attention_options options = options_for(dtype);
    return compiled_for("cpu", &options, g);
}

static int count_kernels(const ls_image *image, const char *program, const char *name) {
    const ls_program *p = &image->programs[ls_program_find(image, program)];
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        n += instr->kind == LS_INSTR_KERNEL && strcmp(ls_kernel_name(instr->kernel), name) == 0;
    }
    return n;
}

/* The most bytes of any buffer in the accumulator's type with values of heads. */
static size_t widest(const ls_image *image) {
    size_t most = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *buffer = &image->buffers[i];
        if (buffer->kind == LS_BUFFER_ACTIVATION) most = ls_max(most, buffer->bytes);
    }
    return most;
}

static void narrow_types_go_by_heads(void **unused) {
    (void)unused;
    ls_attention_graph g;
    ls_image *image = compiled(&g, LS_BF16);
    assert_int_equal(count_kernels(image, LS_PROGRAM_EVALUATE, "attention"), 2);
    assert_int_equal(count_kernels(image, LS_PROGRAM_EVALUATE, "cast"), 2);
    assert_int_equal(count_kernels(image, LS_PROGRAM_BACKWARD, "attention_grad"), 2);
    assert_int_equal(count_kernels(image, LS_PROGRAM_BACKWARD, "cast"), 6);
    assert_int_equal(widest(image), sizeof(float) * S * 2 * SHARE * D);
    ls_image_destroy(image);
    ls_graph_destroy(g.graph);
}

static void wide_types_are_made_in_place(void **unused) {
    (void)unused;
    ls_attention_graph g;
    ls_image *image = compiled(&g, LS_F32);
    assert_int_equal(count_kernels(image, LS_PROGRAM_EVALUATE, "attention"), 1);
    assert_int_equal(count_kernels(image, LS_PROGRAM_EVALUATE, "cast"), 0);
    assert_int_equal(count_kernels(image, LS_PROGRAM_BACKWARD, "attention_grad"), 1);
    assert_true(widest(image) < sizeof(float) * S * HQ * E); /* o and dq lie where the host reads them */
    ls_image_destroy(image);
    ls_graph_destroy(g.graph);
}

/* A GPU is given 256 MiB: what a processor does in two calls, and eight KV heads up to 16,384 tokens; then fewer. */
static void more_heads_on_a_gpu(void **unused) {
    (void)unused;
    static const struct {
        int64_t seq;
        int calls;
    } cases[] = {{S, 1}, {16384, 1}, {16385, 2}, {65536, 4}, {1 << 20, 8}};
    use_emulated_kernels();
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_attention_options options = options_for(LS_BF16);
        if (i > 0) options.heads = 32, options.kv_heads = 8, options.head_size = 128, options.value_size = 0;
        options.seq = cases[i].seq;
        ls_attention_graph g;
        ls_image *image = compiled_for("cuda", &options, &g);
        assert_int_equal(count_kernels(image, LS_PROGRAM_EVALUATE, "attention"), cases[i].calls);
        assert_int_equal(count_kernels(image, LS_PROGRAM_BACKWARD, "attention_grad"), cases[i].calls);
        ls_image_destroy(image);
        ls_graph_destroy(g.graph);
    }
}

/* --- results ------------------------------------------------------------------------------------------------------ */

typedef struct results {
    float *of[RESULTS];
} results;

static void fill(const ls_attention_rank *r, const ls_attention_array *a, uint32_t which) {
    const int64_t width = a->size[2] * a->size[3];
    for (int64_t i = 0; i < a->size[1] * width; i++) {
        uint32_t x = ((uint32_t)(r->positions[i / width] * width + i % width) + (which << 26)) * 0x9E3779B9u;
        x = (x ^ x >> 15) * 0x85EBCA6Bu;
        ((ls_bf16 *)a->data)[i] = ls_bf16_from_f32((float)(int32_t)(x ^ x >> 13) * 0x1p-31f);
    }
}

/* Ranks are threads: each writes its tokens into the test's arrays. */
static ls_status once(ls_attention_rank *r, const void *input, void *result) {
    (void)result;
    const results *out = input;
    fill(r, &r->q, 0);
    fill(r, &r->k, 1);
    fill(r, &r->v, 2);
    LS_TRY(ls_attention_forward(r));
    fill(r, &r->grad_o, 3);
    LS_TRY(ls_attention_backward(r));
    const ls_attention_array *const arrays[RESULTS] = {&r->o, &r->dq, &r->dk, &r->dv};
    for (int a = 0; a < RESULTS; a++) {
        const int64_t width = arrays[a]->size[2] * arrays[a]->size[3];
        for (int64_t i = 0; i < arrays[a]->size[1] * width; i++)
            out->of[a][r->positions[i / width] * width + i % width] =
                ls_bf16_to_f32(((const ls_bf16 *)arrays[a]->data)[i]);
    }
    return ls_ok();
}

static void run_on(int64_t ranks, const char *isa, results *out) {
    ls_attention_options options = options_for(LS_BF16);
    options.spread = (ls_spread){.ranks = ranks, .threads = 2, .isa = isa, .as_threads = true};
    ls_shared_attention *attention;
    for (int a = 0; a < RESULTS; a++) {
        out->of[a] = calloc((size_t)counts[a], sizeof(float));
        assert_non_null(out->of[a]);
    }
    assert_int_equal(ls_shared_attention_open(&options, &attention).code, LS_OK);
    const ls_status status = ls_shared_attention_run(attention, once, out, NULL, 0);
    if (status.code != LS_OK) print_error("%s\n", status.text);
    assert_int_equal(status.code, LS_OK);
    ls_shared_attention_close(attention);
}

static void same_as_two_ranks(void **unused) {
    (void)unused;
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        results one, two;
        run_on(1, ls_isa_name(isa), &one);
        run_on(2, ls_isa_name(isa), &two);
        for (int a = 0; a < RESULTS; a++) {
            double difference = 0, square = 0;
            for (int64_t i = 0; i < counts[a]; i++) {
                difference += pow((double)one.of[a][i] - (double)two.of[a][i], 2);
                square += pow((double)two.of[a][i], 2);
            }
            assert_true(square > 0);
            assert_true(sqrt(difference / square) < 0x1p-8); /* both are rounded to bf16 at the end */
            free(one.of[a]);
            free(two.of[a]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_types_go_by_heads),
        cmocka_unit_test(wide_types_are_made_in_place),
        cmocka_unit_test(more_heads_on_a_gpu),
        cmocka_unit_test(same_as_two_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
