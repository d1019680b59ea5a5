/*
 * Ranks whose programs read the same share an image: replicas along dp are one class, and ranks of a block and along tp
 * where all divides, also where several of them share a KV head, for every architecture on several meshes. The graphs
 * of examples/ are compared in test_matrix.c (network_verify).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/classes.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/network.h"

static const char *const folders[] = {"llama", "qwen2", "qwen3", "mistral", "gpt2", "gemma2"};

static const struct {
    int mesh[3]; /* dp, ring, ulysses */
    const char *strategy;
    ls_layout_kind layout;
    bool accumulates;
} places[] = {{{3, 1, 1}, "local", LS_LAYOUT_CONTIGUOUS, false},   {{4, 2, 1}, "ring", LS_LAYOUT_ZIGZAG, true},
              {{2, 1, 2}, "ulysses", LS_LAYOUT_CONTIGUOUS, false}, {{2, 2, 2}, "usp", LS_LAYOUT_ZIGZAG, false},
              {{1, 3, 2}, "gather", LS_LAYOUT_CONTIGUOUS, true},   {{1, 2, 4}, "decode", LS_LAYOUT_STRIPED, false},
              {{5, 3, 1}, "gather", LS_LAYOUT_BALANCED, true},     {{17, 2, 1}, "tokenring", LS_LAYOUT_ZIGZAG, false}};

enum { MOST_CLASSES = 64 };

/* What ls_compile_proved has shown so far. */
typedef struct shown {
    const ls_image *const *images; /* of the classes, as compiled by themselves; NULL: not compared */
    int classes, times[MOST_CLASSES], unlike;
} shown;

/* Called by threads of the compiler, where no assertion may fail. */
static void show(void *context, int class, const ls_image *image) {
    shown *s = context;
    s->classes++;
    if (class < MOST_CLASSES) s->times[class]++;
    if (s->images != NULL) s->unlike += !images_equal(image, s->images[class]);
}

/* All classes are shown once, and the image of the first is left. */
static void check_proved(const ls_job *job, const ls_target *target, const ls_image *const *images) {
    shown s = {.images = images};
    ls_image *first = NULL;
    const ls_status status = ls_compile_proved(job, target, show, &s, &first);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    ls_classes classes;
    assert_int_equal(ls_classes_find(job, target, &classes).code, LS_OK);
    assert_int_equal(s.classes, classes.n);
    assert_in_range(classes.n, 1, MOST_CLASSES);
    for (int c = 0; c < classes.n; c++) assert_int_equal(s.times[c], 1);
    assert_int_equal(s.unlike, 0);
    if (images != NULL) assert_true(images_equal(first, images[0]));
    ls_image_destroy(first);
}

/* Compiles every rank by itself: ranks of one class read the same. Both proofs hold. Returns how many images differ. */
static int check(const char *name, const ls_job *job, ls_target target) {
    const int ranks = ls_mesh_ranks(&target.mesh);
    const ls_image **images = calloc((size_t)ranks, sizeof *images);
    for (int r = 0; r < ranks; r++) {
        target.rank = r;
        ls_image *image;
        const ls_status status = ls_compile(job, &target, &image);
        if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
        images[r] = image;
    }
    ls_classes classes;
    assert_int_equal(ls_classes_find(job, &target, &classes).code, LS_OK);
    const ls_image **of_class = calloc((size_t)classes.n, sizeof *of_class);
    for (int c = 0; c < classes.n; c++) of_class[c] = images[ls_class_first(&classes, c)];
    for (int r = 0; r < ranks; r++) {
        const int class = ls_class_of(&classes, r), first = ls_class_first(&classes, class);
        assert_true(first <= r && ls_class_of(&classes, first) == class);
        if (!images_equal(images[r], images[first]))
            fail_msg("%s: ranks %d and %d are of one class and their programs differ", name, r, first);
    }
    const int differ = count_classes(images, ranks);
    assert_in_range(differ, 1, classes.n);
    const ls_status played = ls_verify(images, ranks);
    if (played.code != LS_OK) fail_msg("%s: %s", name, played.text);
    check_proved(job, &target, of_class);
    free(of_class);
    for (int r = 0; r < ranks; r++) ls_image_destroy((ls_image *)(uintptr_t)images[r]);
    free(images);
    return differ;
}

static void check_place(const ls_model *model, const char *folder, size_t place) {
    const int *of = places[place].mesh;
    const ls_target target = {.mesh = mesh_of(of[0], of[1], of[2]),
                              .strategy = places[place].strategy,
                              .layout = places[place].layout,
                              .threads = 1};
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    const ls_status built = ls_model_build(model, g, ls_mesh_replicas(&target.mesh), 24, true, &lm);
    if (built.code != LS_OK) fail_msg("%s", built.text);
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, places[place].accumulates),
                        .hyper = {0.9, 0.95, 1e-8, 0.1}};
    char name[64];
    snprintf(name, sizeof name, "%s, mesh %zu", folder, place);
    (void)check(name, &job, target);
    ls_graph_destroy(g);
}

static void test_replicas_are_one_class(void **state) {
    (void)state;
    for (size_t f = 0; f < LS_COUNT(folders); f++) {
        char path[256];
        snprintf(path, sizeof path, LS_TEST_REFERENCE "/models/%s/config.json", folders[f]);
        ls_model *model;
        const ls_status status = ls_model_open(path, &model);
        if (status.code != LS_OK) fail_msg("%s", status.text);
        for (size_t p = 0; p < LS_COUNT(places); p++) check_place(model, folders[f], p);
        ls_model_close(model);
    }
}

/* Programs of thousands of ranks are proved: it takes the time of their classes. */
static void test_many_ranks_are_proved(void **state) {
    (void)state;
    ls_model *model;
    assert_int_equal(ls_model_open(LS_TEST_REFERENCE "/models/llama/config.json", &model).code, LS_OK);
    const ls_target target = {.mesh = mesh_of(1500, 2, 2), .strategy = "usp", .threads = 1};
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    assert_int_equal(ls_model_build(model, g, ls_mesh_replicas(&target.mesh), 24, true, &lm).code, LS_OK);
    const ls_job job = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, 1)};
    check_proved(&job, &target, NULL);
    ls_target refused = target;
    refused.strategy = "local";
    ls_image *none = NULL;
    assert_int_not_equal(ls_compile_proved(&job, &refused, show, &(shown){0}, &none).code, LS_OK);
    assert_null(none);
    ls_graph_destroy(g);
    ls_model_close(model);
}

/* What differs along a sequence axis makes classes: blocks of a causal mask see different parts of the sequence. */
/* p is the same on every replica, and the gradient of w that follows from it counts once. */
static ls_tensor whole_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 2, 8);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){5, 4}));
    const ls_tensor s = ls_sum(g, ls_mul(g, x, x)), p = ls_mul(g, s, s);
    const ls_tensor w = ls_parameter(g, "w", 2, (int64_t[]){4, 1});
    return ls_sum(g, ls_linear(g, ls_reshape(g, p, 2, (int64_t[]){1, 1}), w, LS_NO_TENSOR));
}

static void test_what_one_replica_adds_tells_them_apart(void **state) {
    (void)state;
    const network whole = {.name = "whole", .loss = whole_loss, .ids = 5};
    for (int ring = 1; ring <= 2; ring++) {
        const ls_target target = {.mesh = mesh_of(2, ring, 1), .strategy = "ring", .threads = 1};
        const ls_status status = network_verify(&whole, &target, 1);
        if (status.code != LS_OK) fail_msg("dp=2,ring=%d: %s", ring, status.text);
    }
}

/* A partial sum over features, of which the ranks along tp need parts of the tokens: 11 tokens make uneven ones. */
static ls_tensor summed_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", 1, 11);
    const ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){5, 3}));
    const ls_tensor y = ls_linear(g, x, ls_parameter(g, "w", 2, (int64_t[]){6, 3}), LS_NO_TENSOR);
    return ls_sum(g, ls_reduce_sum(g, y, 1U << 2, false));
}

static void test_parts_of_tokens_tell_ranks_apart(void **state) {
    (void)state;
    const network summed = {.name = "summed", .loss = summed_loss, .ids = 5};
    for (int ring = 1; ring <= 2; ring++) {
        const ls_target target = {.mesh = mesh_with_tp(1, ring, 1, 3), .strategy = "local", .threads = 1};
        const ls_status status = network_verify(&summed, &target, 1);
        if (status.code != LS_OK) fail_msg("ring=%d,tp=3: %s", ring, status.text);
    }
}

static void test_classes_differ(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(2, 3, 1), "ring", LS_LAYOUT_CONTIGUOUS, 30, 1);
    assert_int_equal(count_classes((const ls_image *const *)set.image, set.ranks), 3);
    free_images(&set);
}

/*
 * The ranks of a block are one class where tokens and heads (4, and 2 of keys and values) divide by them, or two of
 * them share a head of keys and values; else each is its own.
 */
static void test_blocks_are_one_class(void **state) {
    (void)state;
    static const struct {
        int mesh[3]; /* dp, ring, ulysses */
        const char *strategy;
        int64_t S;
        images_reads reads;
        int classes;
    } cases[] = {{{2, 2, 2}, "usp", 32, READS_NOTHING, 2},     {{1, 1, 2}, "ulysses", 32, READS_ALL, 1},
                 {{1, 3, 2}, "gather", 48, READS_NOTHING, 3},  {{1, 2, 2}, "tokenring", 32, READS_BLOCK, 2},
                 {{1, 2, 2}, "burst", 32, READS_NOTHING, 2},   {{1, 2, 2}, "rsa", 32, READS_NOTHING, 2},
                 {{1, 2, 2}, "decode", 32, READS_NOTHING, 2},  {{1, 2, 2}, "usp", 34, READS_NOTHING, 4},
                 {{1, 1, 4}, "ulysses", 32, READS_NOTHING, 1}, {{1, 1, 3}, "ulysses", 48, READS_NOTHING, 3}};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const int *of = cases[i].mesh;
        image_set set = images_of_kind(mesh_of(of[0], of[1], of[2]), cases[i].strategy, LS_LAYOUT_ZIGZAG, cases[i].S, 2,
                                       false, cases[i].reads);
        assert_int_equal(count_classes((const ls_image *const *)set.image, set.ranks), cases[i].classes);
        free_images(&set);
    }
}

/*
 * KV heads that ranks share: where as many of them that follow each other use the same one, along ulysses, along tp or
 * both, they are one class; where a rank's queries use parts of two, each is its own.
 */
static void test_shared_heads(void **state) {
    (void)state;
    static const struct {
        int Hq, Hkv;
        const char *mesh, *strategy;
        ls_transfers transfers;
        int classes;
    } cases[] = {
        {8, 2, "ulysses=4", "ulysses", LS_TRANSFERS_PUT, 1},
        {8, 2, "ulysses=4", "ulysses", LS_TRANSFERS_IN_PLACE, 1},
        {8, 2, "dp=2,ulysses=8", "ulysses", LS_TRANSFERS_PUT, 1},
        {8, 1, "ring=2,ulysses=4", "usp", LS_TRANSFERS_PUT, 2},
        {8, 2, "ring=2,ulysses=4", "usp", LS_TRANSFERS_IN_PLACE, 2},
        {12, 3, "ring=2,ulysses=6", "gather", LS_TRANSFERS_PUT, 2},
        {8, 2, "ring=2,ulysses=4", "tokenring", LS_TRANSFERS_PUT, 2},
        {8, 2, "outer=2,ring=2,ulysses=4", "double-ring", LS_TRANSFERS_PUT, 4},
        {8, 2, "ring=2,ulysses=4", "rsa", LS_TRANSFERS_PUT, 2},
        {8, 4, "ring=2,ulysses=8", "decode", LS_TRANSFERS_PUT, 2},
        {8, 2, "tp=4", "local", LS_TRANSFERS_PUT, 1},
        {8, 2, "tp=8", "local", LS_TRANSFERS_PUT, 1},
        {8, 2, "ring=2,tp=4", "ring", LS_TRANSFERS_IN_PLACE, 2},
        {8, 2, "ring=2,ulysses=4,tp=2", "usp", LS_TRANSFERS_PUT, 2},
        {8, 2, "ring=2,ulysses=2,tp=4", "usp", LS_TRANSFERS_IN_PLACE, 2},
        {16, 4, "ring=2,ulysses=4,tp=2", "gather", LS_TRANSFERS_PUT, 2},
        {6, 2, "ulysses=4", "ulysses", LS_TRANSFERS_PUT, 4},
        {12, 2, "ring=2,ulysses=3", "usp", LS_TRANSFERS_PUT, 6},
        {12, 6, "ulysses=4", "ulysses", LS_TRANSFERS_IN_PLACE, 4},
        {12, 3, "tp=4", "local", LS_TRANSFERS_PUT, 4},
        {12, 3, "ulysses=2,tp=4", "ulysses", LS_TRANSFERS_PUT, 8},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char config[400], name[100];
        snprintf(config, sizeof config,
                 "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 48, \"hidden_size\": %d,"
                 " \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": %d,"
                 " \"num_key_value_heads\": %d, \"max_position_embeddings\": 64}",
                 4 * cases[i].Hq, cases[i].Hq, cases[i].Hkv);
        snprintf(name, sizeof name, "%d heads, %d of keys and values, %s", cases[i].Hq, cases[i].Hkv, cases[i].mesh);
        ls_target target = {
            .strategy = cases[i].strategy, .transfers = cases[i].transfers, .host_ranks = LS_ONE_HOST, .threads = 1};
        assert_int_equal(ls_mesh_parse(cases[i].mesh, &target.mesh).code, LS_OK);
        ls_model *model;
        ls_language_model lm;
        ls_graph *g = ls_graph_create(LS_F32);
        ls_status built = ls_model_open_text("model", config, &model);
        if (built.code == LS_OK) built = ls_model_build(model, g, ls_mesh_replicas(&target.mesh), 48, true, &lm);
        if (built.code != LS_OK) fail_msg("%s: %s", name, built.text);
        ls_model_close(model);
        const ls_job job = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, i % 2 == 0)};
        const int classes = check(name, &job, target);
        if (classes != cases[i].classes) fail_msg("%s: %d classes, expected %d", name, classes, cases[i].classes);
        ls_graph_destroy(g);
    }
}

/*
 * Classes follow the graph that is compiled: three products whose weights are frozen, or kept in bf16, which makes
 * other cuts along tp cheapest. Some of these divide and others do not.
 */
static void test_kept_weights(void **state) {
    (void)state;
    enum { TRAINED, FROZEN, KEPT };
    static const struct {
        int d, k, n, m, S, weight[3], drop, ranks;
    } cases[] = {
        {7, 4, 5, 8, 737, {TRAINED, KEPT, FROZEN}, 0, 2},       {16, 4, 7, 7, 1284, {FROZEN, KEPT, FROZEN}, 0, 2},
        {4, 32, 7, 8, 1267, {KEPT, KEPT, FROZEN}, 0, 4},        {5, 5, 4, 7, 996, {KEPT, FROZEN, KEPT}, 1, 4},
        {64, 8, 5, 64, 1115, {TRAINED, FROZEN, KEPT}, 1000, 2},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const int d = cases[i].d, k = cases[i].k, n = cases[i].n, m = cases[i].m;
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_tensor weight[] = {ls_parameter(g, "first", 2, (int64_t[]){k, d}),
                                    ls_parameter(g, "second", 2, (int64_t[]){n, k}),
                                    ls_parameter(g, "third", 2, (int64_t[]){m, n})};
        const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){5, d});
        ls_tensor x = ls_embedding(g, ls_tokens(g, "tokens", 1, cases[i].S), table);
        x = ls_rmsnorm(g, x, ls_parameter(g, "before", 1, (int64_t[]){d}), 1e-5);
        for (size_t w = 0; w < LS_COUNT(weight); w++) {
            x = ls_linear(g, x, weight[w], LS_NO_TENSOR);
            g->tensors[weight[w].id].frozen = cases[i].weight[w] != TRAINED;
            if (cases[i].weight[w] == KEPT) g->tensors[weight[w].id].kept = LS_BF16;
        }
        x = ls_rmsnorm(g, x, ls_parameter(g, "behind", 1, (int64_t[]){m}), 1e-5);
        const ls_job job = job_of_loss(g, ls_sum(g, ls_mul(g, x, x)), false, NULL);
        char name[40];
        snprintf(name, sizeof name, "kept weights, case %zu", i);
        (void)check(name, &job,
                    (ls_target){.mesh = mesh_with_tp(1, 1, 1, cases[i].ranks),
                                .strategy = "local",
                                .threads = 1,
                                .saving.drop = cases[i].drop});
        ls_graph_destroy(g);
    }
}

/*
 * Of two stages only the second has gradients that ranks along tp add up, and both add up the totals along tp: the
 * words of channels that both have are numbered alike, so that the next program finds its own.
 */
static void test_sums_of_one_stage(void **state) {
    (void)state;
    static const char config[] = "{\"architectures\": [\"Mamba2ForCausalLM\"], \"vocab_size\": 31, \"hidden_size\": 6,"
                                 " \"num_hidden_layers\": 2, \"num_heads\": 6, \"head_dim\": 2, \"state_size\": 4,"
                                 " \"n_groups\": 3, \"conv_kernel\": 2, \"use_bias\": true}";
    ls_target target = {.strategy = "local", .threads = 1};
    assert_int_equal(ls_mesh_parse("pp=2,tp=2", &target.mesh).code, LS_OK);
    ls_model *model;
    ls_language_model lm;
    ls_graph *g = ls_graph_create(LS_F32);
    assert_int_equal(ls_model_open_text("model", config, &model).code, LS_OK);
    assert_int_equal(ls_model_build(model, g, 1, 7, true, &lm).code, LS_OK);
    ls_model_close(model);
    (void)check("sums of one stage",
                &(ls_job){.graph = g, .programs = ls_training_programs(g, lm.forward_nodes, LS_UPDATE_APPLY, false)},
                target);
    ls_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_are_one_class),
        cmocka_unit_test(test_many_ranks_are_proved),
        cmocka_unit_test(test_what_one_replica_adds_tells_them_apart),
        cmocka_unit_test(test_parts_of_tokens_tell_ranks_apart),
        cmocka_unit_test(test_classes_differ),
        cmocka_unit_test(test_blocks_are_one_class),
        cmocka_unit_test(test_shared_heads),
        cmocka_unit_test(test_kept_weights),
        cmocka_unit_test(test_sums_of_one_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
