/*
 * Ranks whose programs read the same share an image: replicas along dp are one class, for every architecture on several meshes. The graphs of
 * examples/ are compared in test_examples.c (network_verify).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/classes.h"
#include "support/images.h"

static const char *const folders[] = {"llama", "qwen2", "qwen3", "mistral", "gpt2", "gemma2"};

static const struct {
    ls_mesh mesh;
    const char *strategy;
    ls_layout_kind layout;
    bool accumulates;
} places[] = {{{{3, 1, 1}}, "local", LS_LAYOUT_CONTIGUOUS, false},
              {{{4, 2, 1}}, "ring", LS_LAYOUT_ZIGZAG, true},
              {{{2, 1, 2}}, "ulysses", LS_LAYOUT_CONTIGUOUS, false},
              {{{2, 2, 2}}, "usp", LS_LAYOUT_ZIGZAG, false},
              {{{5, 3, 1}}, "gather", LS_LAYOUT_BALANCED, true},
              {{{17, 2, 1}}, "tokenring", LS_LAYOUT_ZIGZAG, false}};

/* Compiles every rank by itself and counts the images that differ. */
static void check(const ls_model *model, const char *name, size_t place) {
    const ls_mesh mesh = places[place].mesh;
    const int ranks = ls_mesh_ranks(&mesh);
    ls_graph *g = ls_graph_create(LS_F32);
    ls_language_model lm;
    const ls_status built = ls_model_build(model, g, mesh.size[LS_AXIS_DP], 24, true, &lm);
    if (built.code != LS_OK) fail_msg("%s", built.text);
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, 0, LS_UPDATE_ADAMW, places[place].accumulates),
                        .adamw = {0.9, 0.95, 1e-8, 0.1}};
    const ls_image **images = calloc((size_t)ranks, sizeof *images);
    for (int r = 0; r < ranks; r++) {
        const ls_target target = {.mesh = mesh,
                                  .rank = r,
                                  .strategy = places[place].strategy,
                                  .layout = places[place].layout,
                                  .threads = 1};
        ls_image *image;
        const ls_status status = ls_compile(&job, &target, &image);
        if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
        images[r] = image;
    }
    for (int r = 0; r < ranks; r++) {
        const int first = ls_class_of(&mesh, r);
        assert_true(first <= r && ls_class_of(&mesh, first) == first);
        if (!images_equal(images[r], images[first]))
            fail_msg("%s, mesh %zu: ranks %d and %d are of one class and their programs differ", name, place,
                     r, first);
    }
    assert_in_range(count_classes(images, ranks), 1, ls_class_count(&mesh));
    for (int r = 0; r < ranks; r++) ls_image_destroy((ls_image *)(uintptr_t)images[r]);
    free(images);
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
        for (size_t p = 0; p < LS_COUNT(places); p++) check(model, folders[f], p);
        ls_model_close(model);
    }
}

/* What differs along a sequence axis makes classes: blocks of a causal mask see different parts of the sequence. */
static void test_classes_differ(void **state) {
    (void)state;
    image_set set = images_of_step(ls_mesh_make(2, 3, 1), "ring", LS_LAYOUT_CONTIGUOUS, 30, 1);
    assert_int_equal(count_classes((const ls_image *const *)set.image, set.ranks), 3);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_are_one_class),
        cmocka_unit_test(test_classes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
