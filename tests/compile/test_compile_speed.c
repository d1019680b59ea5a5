/*
 * Processor time of compiling and verifying: a 32-layer Llama's training step over 64 ranks (bench/compile.c says
 * more). Bounds are several times the measured times (docs/performance.md), because of builds with sanitisers and
 * busy machines. They are meant to find a pass that has become quadratic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "model/model.h"
#include "program/program.h"
#include "support/meshes.h"
#include "support/scratch.h"

#ifdef __SANITIZE_ADDRESS__
#define SLOWER 6
#elif defined(__SANITIZE_THREAD__)
#define SLOWER 20
#else
#define SLOWER 1
#endif

static const double one_rank_seconds = 0.6 * SLOWER;
static const double eight_ranks_seconds = 3.0 * SLOWER; /* compiled and verified */
/* Most times as long as for a table of a quarter; four is linear. */
static const double large_table_times = 5.5;

/* Of this process. */
static double processor_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 32000, "
    "\"hidden_size\": 4096, \"intermediate_size\": 11008, \"num_hidden_layers\": 32, "
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"max_position_embeddings\": 131072, "
    "\"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, \"hidden_act\": \"silu\", "
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}";

/* One table of `words` rows of 262,144 numbers; with 2^24 rows 16 TiB of gradients, in 140,000 buckets. */
static const char large_table[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": %d, \"hidden_size\": 262144, "
    "\"intermediate_size\": 128, \"num_hidden_layers\": 1, \"num_attention_heads\": 1024, "
    "\"num_key_value_heads\": 1024, \"tie_word_embeddings\": true}";

typedef struct subject {
    ls_model *model;
    ls_graph *graph;
    ls_job job;
} subject;

static subject open_subject(void **state, const char *text, int64_t B, int64_t S) {
    subject s = {.graph = ls_graph_create(LS_BF16)};
    ls_language_model lm;
    assert_int_equal(ls_model_open(scratch_text(state, "config.json", text), &s.model).code, LS_OK);
    assert_int_equal(ls_model_build(s.model, s.graph, B, S, true, &lm).code, LS_OK);
    s.job = (ls_job){.graph = s.graph,
                     .programs = ls_training_programs(s.graph, 0, LS_UPDATE_APPLY, 0),
                     .hyper = {0.9, 0.95, 1e-8, 0.1}};
    return s;
}

static void close_subject(subject *s) {
    ls_graph_destroy(s->graph);
    ls_model_close(s->model);
}

static ls_image *compile_rank(const subject *s, ls_mesh mesh, const char *strategy, int rank) {
    const ls_target target = {
        .mesh = mesh, .rank = rank, .strategy = strategy, .layout = LS_LAYOUT_ZIGZAG, .isa = LS_ISA_BASE, .threads = 1};
    ls_image *image = NULL;
    const ls_status status = ls_compile(&s->job, &target, &image);
    if (status.code != LS_OK) fail_msg("rank %d: %s", rank, status.text);
    return image;
}

/* One rank of 64; the least of three, because others use the machine too. */
static void test_one_rank_of_64(void **state) {
    subject s = open_subject(state, config, 1, 131072);
    double least = 1e9;
    for (int i = 0; i < 3; i++) {
        const double start = processor_seconds();
        ls_image *image = compile_rank(&s, mesh_of(1, 8, 8), "usp", 21 * i);
        const double seconds = processor_seconds() - start;
        least = seconds < least ? seconds : least;
        assert_true(image->programs[ls_program_find(image, LS_PROGRAM_STEP)].n_instrs >
                    10000); /* it is the large one */
        ls_image_destroy(image);
    }
    print_message("one rank of 64: %.3f s\n", least);
    if (least > one_rank_seconds) fail_msg("%.3f s for one rank, at most %.1f wanted", least, one_rank_seconds);
    close_subject(&s);
}

static void test_eight_ranks_verified(void **state) {
    enum { RANKS = 8 };
    subject s = open_subject(state, config, 1, 16384);
    ls_image *images[RANKS];
    const double start = processor_seconds();
    for (int r = 0; r < RANKS; r++) images[r] = compile_rank(&s, mesh_of(1, 4, 2), "usp", r);
    const double compiled = processor_seconds();
    const ls_status status = ls_verify((const ls_image *const *)images, RANKS);
    const double end = processor_seconds();
    if (status.code != LS_OK) fail_msg("%s", status.text);
    print_message("eight ranks: compiled in %.3f s, verified in %.3f s\n", compiled - start, end - compiled);
    if (end - start > eight_ranks_seconds)
        fail_msg("%.3f s for eight ranks, at most %.1f wanted", end - start, eight_ranks_seconds);
    for (int r = 0; r < RANKS; r++) ls_image_destroy(images[r]);
    close_subject(&s);
}

/* Processor seconds to compile a rank of two. */
static double seconds_of_table(void **state, int words, int64_t least_pieces) {
    char text[sizeof large_table + 16];
    ls_print(text, sizeof text, large_table, words);
    subject s = open_subject(state, text, 2, 128);
    const double start = processor_seconds();
    ls_image *image = compile_rank(&s, mesh_of(2, 1, 1), "local", 0);
    const double seconds = processor_seconds() - start;
    assert_true(image->n_pieces > least_pieces);
    ls_image_destroy(image);
    close_subject(&s);
    return seconds;
}

static void test_large_table(void **state) {
    const double quarter = seconds_of_table(state, 1 << 22, 32000), whole = seconds_of_table(state, 1 << 24, 130000);
    print_message("tables of 4 and 16 TiB: %.3f and %.3f s\n", quarter, whole);
    if (whole > large_table_times * quarter)
        fail_msg("%.3f s for a table, %.3f for four times as large a one: at most %.1f times as long wanted", quarter,
                 whole, large_table_times);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_of_64),
        cmocka_unit_test(test_eight_ranks_verified),
        cmocka_unit_test(test_large_table),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
