/*
 * What is cut over the ranks (--shard) changes where bytes lie and when they travel, and no result: gradients and
 * updated parameters are those of one rank, all programs are proved, a rank holds and sends what the modes' formulas
 * say (ZeRO: Rajbhandari et al., arXiv 1910.02054, section 7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "kernel/kernel.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/network.h"
#include "support/traffic.h"

enum { B = 2, S = 13, E = 48, V = 17 };

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

/* The head is the table, read at both ends; nothing reads "unused"; all is one run of token-wise ops. */
static ls_tensor tied_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), table = matrix(g, "table", V, E);
    ls_tensor x = ls_embedding(g, tokens, table);
    (void)matrix(g, "unused", E, E);
    const ls_tensor bias = ls_parameter(g, "bias", 1, (int64_t[]){E});
    x = ls_add(g, x, ls_silu(g, ls_linear(g, x, matrix(g, "first", E, E), bias)));
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), ls_input_like(g, "labels", tokens)));
}

static const network networks[] = {
    {"tied", tied_loss, .ids = V},     {"gpt2", gpt2_loss, .ids = V},   {"llama3", llama_loss, .ids = V},
    {"gptoss", gptoss_loss, .ids = V}, {"mixer", mixer_loss, .ids = V},
};

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} places[] = {
    {1, 1, 1, "local"}, {2, 1, 1, "local"}, {1, 2, 1, "ring"},    {1, 1, 2, "ulysses"},   {1, 3, 1, "gather"},
    {2, 2, 1, "ring"},  {1, 2, 2, "usp"},   {2, 1, 2, "ulysses"}, {1, 5, 1, "tokenring"}, {2, 8, 1, "ring"},
};

/* What is made again, and what runs in tiles: gathered parameters serve all of it. */
static const ls_saving savings[] = {
    {0}, {.drop = 4}, {.tile = LS_TILE_ALL, .tile_rows = 3}, {.drop = 1 << 20, .tile = LS_TILE_LOSS, .tile_rows = 2}};

static ls_target target_of(size_t place, int mode, size_t saving) {
    return (ls_target){.mesh = mesh_of(places[place].dp, places[place].ring, places[place].ulysses),
                       .strategy = places[place].strategy,
                       .threads = 1,
                       .shard = &ls_shard_modes[mode],
                       .saving = savings[saving]};
}

static void must(ls_status status, const char *name, const ls_target *target) {
    char mesh[64];
    ls_mesh_print(&target->mesh, mesh, sizeof mesh);
    if (status.code != LS_OK)
        fail_msg("%s, %s, shard %s, drop %d: %s", name, mesh, target->shard->name, target->saving.drop, status.text);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

typedef ls_status (*solver)(const network *n, const ls_target *target, int micro, network_result *out);

static ls_status two_steps(const network *n, const ls_target *target, int micro, network_result *out) {
    return network_train(n, target, micro, 2, out);
}

static void compare(const network *n, solver solve, const ls_target *target, int micro, const network_result *one) {
    network_result many;
    const char *what = "";
    must(solve(n, target, micro, &many), n->name, target);
    const double error = network_difference(&many, one, &what);
    if (!(error < 1e-12))
        must(ls_error(LS_DIVERGED, "%s off by %g with %d micro-batches", what, error, micro), n->name, target);
    network_free(&many);
}

/* Each mode on each mesh, with each saving and one or two micro-batches in turn: `first` says which begins. */
static int compare_all(const network *n, solver solve, int first) {
    int cases = 0;
    for (int micro = 1; micro <= 2; micro++) {
        network_result one;
        const ls_target alone = target_of(0, LS_SHARD_NONE, 0);
        must(solve(n, &alone, micro, &one), n->name, &alone);
        for (size_t p = 0; p < LS_COUNT(places); p++) {
            for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
                if (((int)p + mode + micro + first) % 2 != 0) continue;
                const ls_target target = target_of(p, mode, (p + (size_t)mode + (size_t)micro) % LS_COUNT(savings));
                compare(n, solve, &target, micro, &one);
                cases++;
            }
        }
        network_free(&one);
    }
    return cases;
}

static void test_same_gradients(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++)
        print_message("%s: %d gradients are those of one rank\n", networks[n].name,
                      compare_all(&networks[n], network_accumulate, (int)n));
}

static void test_same_parameters(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++)
        print_message("%s: %d trainings are that of one rank\n", networks[n].name,
                      compare_all(&networks[n], two_steps, (int)n + 1));
}

/* --- proofs ------------------------------------------------------------------------------------------------------- */

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        for (size_t p = 0; p < LS_COUNT(places); p++) {
            for (int mode = (int)(n + p) % 2; mode < LS_SHARD_MODES; mode += 2) { /* the matrix verifies others */
                const ls_target target = target_of(p, mode, (n + p + (size_t)mode) % LS_COUNT(savings));
                must(network_verify(&networks[n], &target, 1), networks[n].name, &target);
            }
        }
    }
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static image_set images_of(ls_dtype dtype, const ls_target *target, bool accumulates) {
    ls_graph *g = ls_graph_create(dtype);
    return images_of_loss(g, llama_loss(g), target, accumulates, NULL);
}

/* Bytes of a program's puts over channels whose names begin so. */
static double sent(const ls_image *image, const char *program, const char *channel) {
    const ls_program *p = &image->programs[ls_program_find(image, program)];
    double bytes = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->kind == LS_INSTR_PUT && strncmp(p->channels[instr->channel].name, channel, strlen(channel)) == 0)
            bytes += (double)ls_view_bytes(&instr->in[0].view);
    }
    return bytes;
}

/* Of parameters that a program gathers, each as often as it does. */
static double gathered(const ls_image *image, const char *program) {
    double bytes = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->kind == LS_BUFFER_PARAMETER && b->program == ls_program_find(image, program)) bytes += (double)b->bytes;
    }
    return bytes;
}

static void must_send(const ls_image *image, const char *mode, const char *program, const char *channel, double all) {
    const double P = ls_mesh_ranks(&image->mesh), bytes = sent(image, program, channel);
    if (bytes != all * (P - 1) / P)
        fail_msg("shard %s, %g ranks: program %s sends %g bytes of \"%s\", expected %g", mode, P, program, bytes,
                 channel, all * (P - 1) / P);
}

/*
 * With n elements of type T and gradients of type G, on P ranks: n*G*(P-1)/P for the reduce-scatter of each program
 * that does it, n*T*(P-1)/P for an all-gather of parameters, G for one of gradients. Parameters are gathered before the
 * forward and before the backward pass, but for the groups in use where the one becomes the other: the table of logits,
 * and what lies between the last attention and that.
 */
static void must_send_shards(const ls_image *image, const ls_shard_mode *m) {
    const double n = (double)image->flat_elements, T = (double)ls_dtype_bytes(image->dtype),
                 G = (double)ls_dtype_bytes(image->accumulator);
    must_send(image, m->name, LS_PROGRAM_MICRO, "gradients.", m->gradients ? n * G : 0);
    must_send(image, m->name, LS_PROGRAM_STEP, "gradients.", n * G);
    must_send(image, m->name, LS_PROGRAM_STEP, "sums.", m->state ? 0 : n * G);
    if (!m->parameters) must_send(image, m->name, LS_PROGRAM_MICRO, "parameters.", 0);
    if (!m->parameters) must_send(image, m->name, LS_PROGRAM_STEP, "parameters.", m->state ? n * T : 0);
    for (int p = 0; p < 2 && m->parameters; p++) {
        const char *program = p == 0 ? LS_PROGRAM_MICRO : LS_PROGRAM_STEP;
        must_send(image, m->name, program, "parameters.", gathered(image, program));
        assert_in_range(gathered(image, program), 1.5 * n * T, 2 * n * T);
    }
}

static const ls_dtype dtypes[] = {LS_BF16, LS_F32};

static void test_bytes_sent(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 16; ranks *= 2) {
        for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
            for (size_t d = 0; d < LS_COUNT(dtypes); d++) {
                const ls_target target = {.mesh = mesh_of(1, ranks, 1),
                                          .strategy = "ring",
                                          .isa = LS_ISA_BASE,
                                          .threads = 1,
                                          .shard = &ls_shard_modes[mode]};
                image_set set = images_of(dtypes[d], &target, true);
                must_send_shards(set.image[ranks - 1], target.shard);
                free_images(&set);
            }
        }
    }
}

/* --- bytes beside attention --------------------------------------------------------------------------------------- */

enum { LAYERS = 3, LENGTH = 48, HQ = 8, HKV = 4, D = 4 };

static ls_tensor heads(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t H) {
    const int64_t size[] = {H * D, E};
    return ls_split_last(g, ls_linear(g, x, ls_parameter_named(g, 2, size, "%d.%s", layer, name), LS_NO_TENSOR), H, D);
}

/* Attention under the full mask, of which formulas are published; all ranks have as many tokens. */
static ls_tensor attending_loss(ls_graph *g) {
    const ls_mask full = {.n = 0};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, LENGTH);
    ls_tensor x = ls_embedding(g, tokens, matrix(g, "table", V, E));
    for (int i = 0; i < LAYERS; i++) {
        const ls_tensor q = heads(g, x, "q", i, HQ), k = heads(g, x, "k", i, HKV), v = heads(g, x, "v", i, HKV);
        const ls_tensor o = ls_merge_last(g, ls_attention(g, q, k, v, &full, 0.5));
        const int64_t size[] = {E, HQ * D};
        x = ls_add(g, x, ls_linear(g, o, ls_parameter_named(g, 2, size, "%d.o", i), LS_NO_TENSOR));
    }
    const ls_tensor logits = ls_linear_wide(g, x, matrix(g, "head", V, E));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

/* All that a program puts but parameters, gradients and totals is attention's, and what is published of that. */
static void must_send_attention(const ls_image *image, const char *mode, const char *program) {
    static const char *const others[] = {"parameters.", "gradients.", "sums.", "reduce."};
    const int R = mesh_ring(&image->mesh), U = mesh_ulysses(&image->mesh);
    const traffic_problem p = {.strategy = image->strategy,
                               .R = R,
                               .U = U,
                               .d = HQ * D,
                               .e = HKV * D,
                               .h = HQ,
                               .T = image->dtype,
                               .G = image->accumulator};
    traffic each;
    assert_true(traffic_published(&p, &each));
    const double tokens = (double)B / ls_mesh_replicas(&image->mesh) * LENGTH / (R * U);
    const double expected = LAYERS * tokens * (each.forward + each.backward);
    double bytes = sent(image, program, "");
    for (size_t i = 0; i < LS_COUNT(others); i++) bytes -= sent(image, program, others[i]);
    if (bytes != expected)
        fail_msg("shard %s, %s of ring %d ulysses %d, %s: attention of program %s sends %g bytes, expected %g", mode,
                 image->strategy, R, U, ls_dtype_name(image->dtype), program, bytes, expected);
}

/* Each mode beside each strategy: what the one sends does not depend on the other. */
static void test_bytes_beside_attention(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{2, 1, 1, "local"},   {1, 4, 1, "ring"},      {2, 2, 1, "ring"},      {1, 1, 4, "ulysses"},
                  {2, 1, 2, "ulysses"}, {1, 2, 2, "usp"},       {2, 2, 4, "usp"},       {1, 4, 1, "gather"},
                  {1, 2, 2, "gather"},  {1, 4, 1, "tokenring"}, {1, 4, 2, "tokenring"}, {1, 4, 1, "decode"},
                  {2, 2, 2, "decode"}};
    for (size_t i = 0; i < LS_COUNT(meshes) * LS_SHARD_MODES * LS_COUNT(dtypes); i++) {
        const size_t at = i / LS_SHARD_MODES / LS_COUNT(dtypes);
        const ls_target target = {.mesh = mesh_of(meshes[at].dp, meshes[at].ring, meshes[at].ulysses),
                                  .strategy = meshes[at].strategy,
                                  .isa = LS_ISA_BASE,
                                  .threads = 1,
                                  .shard = &ls_shard_modes[i / LS_COUNT(dtypes) % LS_SHARD_MODES]};
        ls_graph *g = ls_graph_create(dtypes[i % LS_COUNT(dtypes)]);
        image_set set = images_of_loss(g, attending_loss(g), &target, true, NULL);
        for (int rank = 0; rank < set.ranks; rank++) {
            must_send_shards(set.image[rank], target.shard);
            must_send_attention(set.image[rank], target.shard->name, LS_PROGRAM_MICRO);
            must_send_attention(set.image[rank], target.shard->name, LS_PROGRAM_STEP);
        }
        free_images(&set);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static double persistent(const ls_image *image, ls_buffer_kind kind) {
    double bytes = 0;
    for (int i = 0; i < image->n_buffers; i++)
        if (image->buffers[i].program < 0 && image->buffers[i].kind == kind) bytes += (double)image->buffers[i].bytes;
    return bytes;
}

/* What outlives programs, of n elements on P ranks, in bf16 and f32. */
static void test_what_persists(void **state) {
    (void)state;
    enum { P = 4 };
    for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
        const ls_shard_mode *m = &ls_shard_modes[mode];
        const ls_target target = {
            .mesh = mesh_of(2, 1, 2), .strategy = "ulysses", .isa = LS_ISA_BASE, .threads = 1, .shard = m};
        image_set set = images_of(LS_BF16, &target, true);
        const ls_image *image = set.image[0];
        const double n = (double)image->flat_elements, shard = n / P;
        assert_true(persistent(image, LS_BUFFER_PARAMETER) == 2 * (m->parameters ? shard : n));
        assert_true(persistent(image, LS_BUFFER_GRADIENT) == 4 * (m->gradients ? shard : n + shard));
        assert_true(persistent(image, LS_BUFFER_OPTIMIZER) == 12 * (m->state ? shard : n));
        free_images(&set);
    }
}

/* The most groups of parameters, or of gradients, that are live at one instruction of a program. */
static int most_groups(const ls_image *image, ls_buffer_kind kind, int program) {
    int most = 0;
    for (int at = 0; at < image->programs[program].n_instrs; at++) {
        int n = 0;
        for (int i = 0; i < image->n_buffers; i++) {
            const ls_buffer *b = &image->buffers[i];
            n += b->kind == kind && b->program == program && b->first <= at && at <= b->last;
        }
        most = (int)ls_max(most, n);
    }
    return most;
}

/* Bytes of slots for gradients, of a program. */
static double slot_bytes(const ls_image *image, int program) {
    double bytes = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program == program && strcmp(b->name, "gradient slots") == 0) bytes += (double)b->bytes;
    }
    return bytes;
}

static void must_be(const ls_image *image, const char *what, double bytes, double expected) {
    if (bytes != expected)
        fail_msg("shard parameters, %d ranks, %s: %s are %g bytes, expected %g", ls_mesh_ranks(&image->mesh),
                 ls_dtype_name(image->dtype), what, bytes, expected);
}

static void check_account(const ls_image *image) {
    const int ranks = ls_mesh_ranks(&image->mesh);
    const double state = image->dtype == LS_BF16 ? 2 + 4 + 12 : 4 + 4 + 8;
    double bucket = 0; /* elements of the largest */
    for (int k = 0; k < image->n_pieces; k++) bucket = ls_max(bucket, (double)image->pieces[k].count * ranks);
    must_be(image, "shards",
            persistent(image, LS_BUFFER_PARAMETER) + persistent(image, LS_BUFFER_GRADIENT) +
                persistent(image, LS_BUFFER_OPTIMIZER),
            state * (double)image->flat_elements / ranks);
    must_be(image, "slots of gradients", slot_bytes(image, ls_program_find(image, LS_PROGRAM_STEP)), 2 * 4 * bucket);
    for (int p = 0; p < image->n_programs; p++) {
        assert_int_equal(most_groups(image, LS_BUFFER_PARAMETER, p), 2);
        assert_true(most_groups(image, LS_BUFFER_GRADIENT, p) <= 2);
    }
}

/*
 * What a rank holds where steps have one micro-batch, of n elements: its shard of weights, gradients and state (2 + 4 +
 * 12 bytes an element in bf16, 4 + 4 + 8 in f32); two groups of weights, one in use and one on its way, or both in use
 * (the logits and the last layer, what is made again); two groups of gradients, one that is added up and one that
 * leaves; slots for two buckets of gradients.
 */
static void test_account(void **state) {
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        for (size_t d = 0; d < LS_COUNT(dtypes); d++) {
            const ls_target target = {.mesh = mesh_of(1, ranks, 1),
                                      .strategy = "ring",
                                      .isa = LS_ISA_BASE,
                                      .threads = 1,
                                      .shard = &ls_shard_modes[LS_SHARD_PARAMETERS]};
            image_set set = images_of(dtypes[d], &target, false);
            for (int r = 0; r < ranks; r++) check_account(set.image[r]);
            free_images(&set);
        }
    }
}

/* Of 23 tokens on 5 or 16 ranks some have one more than others, whatever the tile: in all the heap is as large. */
static void test_heaps_are_alike(void **state) {
    (void)state;
    static const int rings[] = {5, 16};
    for (size_t r = 0; r < LS_COUNT(rings); r++) {
        for (int rows = 1; rows <= 11; rows++) {
            const ls_target target = {.mesh = mesh_of(1, rings[r], 1),
                                      .strategy = "gather",
                                      .threads = 1,
                                      .shard = &ls_shard_modes[LS_SHARD_PARAMETERS],
                                      .saving = {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = rows}};
            image_set set = images_of(LS_F32, &target, true);
            for (int rank = 1; rank < set.ranks; rank++) {
                const size_t bytes = set.image[rank]->bytes[LS_SYMMETRIC], first = set.image[0]->bytes[LS_SYMMETRIC];
                if (bytes != first)
                    fail_msg("tiles of %d rows on %d ranks: a heap of %zu bytes on rank %d, of %zu on rank 0", rows,
                             rings[r], bytes, rank, first);
            }
            free_images(&set);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_persists),          cmocka_unit_test(test_bytes_sent),
        cmocka_unit_test(test_bytes_beside_attention), cmocka_unit_test(test_account),
        cmocka_unit_test(test_heaps_are_alike),        cmocka_unit_test(test_same_gradients),
        cmocka_unit_test(test_same_parameters),        cmocka_unit_test(test_programs_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
