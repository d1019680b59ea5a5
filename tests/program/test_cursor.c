/*
 * The cursor over programs with one, two and three queues: every instruction is executed once, in the order of its
 * queue and after what it comes after. A program whose transfers are dealt to two queues is proved, interpreted and
 * simulated like one with one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile_impl.h"
#include "program/program.h"
#include "run/interpret.h"
#include "simulate/simulate.h"
#include "support/images.h"
#include "support/meshes.h"

/* Three queues by hand: 0 and 2 begin, 1 needs both, 0 needs 1. */
static void test_what_may_start(void **state) {
    (void)state;
    ls_after both[] = {{.queue = 0, .instr = 0}, {.queue = 2, .instr = 1}}, one[] = {{.queue = 1, .instr = 2}};
    ls_instr instrs[] = {{.queue = 0},
                         {.queue = 2},
                         {.queue = 1, .n_after = 2, .after = both},
                         {.queue = 0, .n_after = 1, .after = one}};
    const ls_program program = {.queues = 3, .instrs = instrs, .n_instrs = 4};
    ls_arena *arena = ls_arena_create();
    ls_cursor c = ls_cursor_make(&program, arena);
    for (int run = 0; run < 2; run++) {
        ls_cursor_begin(&c, (uint64_t)run);
        assert_int_equal(ls_cursor_head(&c, 0), 0);
        assert_int_equal(ls_cursor_head(&c, 1), 2);
        assert_int_equal(ls_cursor_head(&c, 2), 1);
        assert_true(ls_cursor_may_start(&c, 0) && ls_cursor_may_start(&c, 2));
        assert_false(ls_cursor_may_start(&c, 1));
        ls_cursor_advance(&c, 0);
        assert_int_equal(ls_cursor_head(&c, 0), 3);
        assert_false(ls_cursor_may_start(&c, 0));
        assert_false(ls_cursor_may_start(&c, 1));
        ls_cursor_advance(&c, 2);
        assert_int_equal(ls_cursor_head(&c, 2), -1);
        assert_true(ls_cursor_may_start(&c, 1));
        ls_cursor_advance(&c, 1);
        assert_true(ls_cursor_may_start(&c, 0));
        assert_false(ls_cursor_has_ended(&c));
        ls_cursor_advance(&c, 0);
        assert_true(ls_cursor_has_ended(&c));
    }
    ls_arena_destroy(arena);
}

/* An instruction that overwrites what a put of its own queue reads. */
static void test_a_put_is_done(void **state) {
    (void)state;
    ls_after put[] = {{.queue = 1, .instr = 0, .done = true}};
    ls_instr instrs[] = {{.kind = LS_INSTR_PUT, .queue = 1},
                         {.queue = 1, .n_after = 1, .after = put},
                         {.queue = 0, .n_after = 1, .after = put}};
    const ls_program program = {.queues = 2, .instrs = instrs, .n_instrs = 3};
    ls_arena *arena = ls_arena_create();
    ls_cursor c = ls_cursor_make(&program, arena);
    for (int run = 0; run < 2; run++) {
        ls_cursor_begin(&c, (uint64_t)run);
        assert_ptr_equal(ls_cursor_obstacle(&c, 0), put);
        assert_false(ls_cursor_awaits_puts(&c, put));
        ls_cursor_advance(&c, 1);
        for (int q = 0; q < 2; q++) {
            assert_ptr_equal(ls_cursor_obstacle(&c, q), put);
            assert_true(ls_cursor_awaits_puts(&c, put));
        }
        ls_cursor_complete(&c, 1, 0);
        assert_true(ls_cursor_may_start(&c, 0) && ls_cursor_may_start(&c, 1));
    }
    ls_arena_destroy(arena);
}

static void test_words_and_generations(void **state) {
    (void)state;
    ls_channel channels[] = {{"a", {3, 3}}, {"b", {5, 5}}};
    const ls_program program = {.channels = channels, .n_channels = 2, .n_common = 2, .first_word = 10};
    const ls_instr data = {.kind = LS_INSTR_PUT, .channel = 0, .generation = 2},
                   grant = {.kind = LS_INSTR_GRANT, .channel = 1, .generation = 4};
    assert_int_equal(ls_instr_word(&program, &data), 10);
    assert_int_equal(ls_instr_word(&program, &grant), 13);
    assert_int_equal(ls_instr_generation(&program, &data, 0), 2);
    assert_int_equal(ls_instr_generation(&program, &data, 7), 23);
    assert_int_equal(ls_instr_generation(&program, &grant, 7), 39);
}

/* Moves every other channel from the copy queue to a third one. */
static void deal(ls_image *image) {
    for (int p = 0; p < image->n_programs; p++) {
        ls_program *program = &image->programs[p];
        program->queues = 3;
        for (int i = 0; i < program->n_instrs; i++) {
            ls_instr *instr = &program->instrs[i];
            if (instr->queue == LS_COPY && instr->channel % 2 == 1) instr->queue = 2;
        }
    }
    ls_order(image);
}

/* Executes a program in the order of the queues given by turns; fails when it gets stuck or leaves the order. */
static void go_through(const ls_program *p) {
    ls_arena *arena = ls_arena_create();
    ls_cursor c = ls_cursor_make(p, arena);
    int *place = LS_NEW_ARRAY(arena, int, p->n_instrs + 1), n = 0;
    while (!ls_cursor_has_ended(&c)) {
        const int before = n;
        for (int q = p->queues - 1; q >= 0; q--) {
            const int i = ls_cursor_head(&c, q);
            if (i < 0 || !ls_cursor_may_start(&c, q)) continue;
            assert_int_equal(p->instrs[i].queue, q);
            for (int k = 0; k < p->instrs[i].n_after; k++) {
                assert_true(place[p->instrs[i].after[k].instr] > 0);
            }
            place[i] = ++n;
            ls_cursor_advance(&c, q);
            ls_cursor_complete(&c, q, i);
        }
        assert_true(n > before);
    }
    assert_int_equal(n, p->n_instrs);
    ls_arena_destroy(arena);
}

static void test_three_queues(void **state) {
    (void)state;
    static const struct {
        int ring, ulysses;
        const char *strategy;
        images_reads reads;
    } cases[] = {{3, 1, "ring", READS_NOTHING},
                 {3, 1, "ring", READS_ALL},
                 {1, 3, "ulysses", READS_NOTHING},
                 {2, 2, "usp", READS_ALL}};
    static const ls_rates rates = {
        .core = {.attention = {{.flop = 1e-9}, {.flop = 1e-9}}, .matmul = 1e9}, .put = {1e-9, 1e-9}, .latency = 1e-6};
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        image_set set = images_of_kind(mesh_of(1, cases[c].ring, cases[c].ulysses), cases[c].strategy, LS_LAYOUT_ZIGZAG,
                                       13, 1, true, cases[c].reads);
        const ls_image *const *images = (const ls_image *const *)set.image;
        ls_interpreter *two = ls_interpreter_create(images, set.ranks);
        const ls_interpreter_result right = ls_interpreter_run(two, 0);
        for (int r = 0; r < set.ranks; r++) deal(set.image[r]);
        bool used = false;
        const ls_program *step = &images[0]->programs[ls_program_find(images[0], LS_PROGRAM_STEP)];
        for (int i = 0; i < step->n_instrs; i++) used |= step->instrs[i].queue == 2;
        assert_true(used);
        for (int p = 0; p < images[0]->n_programs; p++) go_through(&images[0]->programs[p]);
        const ls_status proved = ls_verify(images, set.ranks);
        if (proved.code != LS_OK) fail_msg("%s: %s", cases[c].strategy, proved.text);
        ls_interpreter *three = ls_interpreter_create(images, set.ranks);
        for (uint64_t seed = 0; seed < 8; seed++) {
            const ls_interpreter_result result = ls_interpreter_run(three, seed);
            if (!ls_interpreter_same(&right, &result))
                fail_msg("%s: hung %d, poison %d, outside %d, left %s", cases[c].strategy, result.hung, result.poison,
                         result.outside, result.left == right.left ? "the same" : "something else");
        }
        ls_simulated_rank times[4];
        assert_int_equal(
            ls_simulate(images, set.ranks, ls_program_find(images[0], LS_PROGRAM_STEP), &rates, NULL, times).code,
            LS_OK);
        ls_interpreter_destroy(two);
        ls_interpreter_destroy(three);
        free_images(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_may_start), cmocka_unit_test(test_a_put_is_done),
                                       cmocka_unit_test(test_words_and_generations),
                                       cmocka_unit_test(test_three_queues)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
