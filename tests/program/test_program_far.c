/* Which bytes come from memory: those that a cache of a given size no longer holds since their last use. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"

enum { MIB = 1 << 20, ADDS = 4 };

/* Four buffers of 1 MiB, one behind the other; a -> b, b -> c, c -> d, a -> b. */
static void a_buffer_is_near_while_the_cache_holds_it(void **state) {
    (void)state;
    static const ls_kernel kernel = {.id = LS_KERNEL_COPY};
    static const int from[ADDS] = {0, 1, 2, 0}, to[ADDS] = {1, 2, 3, 1};
    const int64_t size[] = {MIB / 4};
    ls_buffer buffers[4];
    ls_operand operands[ADDS][2];
    ls_instr instrs[ADDS];
    for (int i = 0; i < 4; i++) buffers[i] = (ls_buffer){.space = LS_PRIVATE, .bytes = MIB, .offset = (size_t)i * MIB};
    for (int i = 0; i < ADDS; i++) {
        operands[i][0] = ls_operand_dense(from[i], 0, LS_F32, 1, size);
        operands[i][1] = ls_operand_dense(to[i], 0, LS_F32, 1, size);
        instrs[i] = (ls_instr){.kind = LS_INSTR_KERNEL,
                               .kernel = &kernel,
                               .n_in = 1,
                               .in = &operands[i][0],
                               .n_out = 1,
                               .out = &operands[i][1]};
    }
    ls_program program = {.instrs = instrs, .n_instrs = ADDS};
    ls_image image = {.programs = &program,
                      .n_programs = 1,
                      .buffers = buffers,
                      .n_buffers = 4,
                      .bytes = {[LS_PRIVATE] = (size_t)4 * MIB}};
    static const struct {
        double cache, far[ADDS]; /* MiB */
    } cases[] = {
        {8, {0, 0, 0, 0}},    /* it holds all of them */
        {1.97, {0, 1, 1, 2}}, /* what was written last is read next; a and b are gone after c and d */
        {0.25, {2, 2, 2, 2}}  /* the beginning of a buffer is gone when its end is written */
    };
    ls_arena *arena = ls_arena_create();
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const double *far = ls_program_far(&image, 0, cases[c].cache * MIB, arena);
        for (int i = 0; i < ADDS; i++) assert_float_equal(far[i] / MIB, cases[c].far[i], 0.13);
    }
    ls_arena_destroy(arena);
}

/*
 * The first half of each row of a is copied to b, then that of the second row again, to c: it is near then, and still
 * is when the program begins again.
 */
static void each_piece_of_an_operand_is_touched(void **state) {
    (void)state;
    static const ls_kernel kernel = {.id = LS_KERNEL_COPY};
    const int64_t rows[] = {2, MIB / 2}, half[] = {2, MIB / 4}, row[] = {MIB / 4};
    ls_buffer buffers[] = {{.space = LS_PRIVATE, .bytes = (size_t)4 * MIB},
                           {.space = LS_PRIVATE, .bytes = (size_t)2 * MIB, .offset = (size_t)4 * MIB},
                           {.space = LS_PRIVATE, .bytes = MIB, .offset = (size_t)6 * MIB}};
    ls_operand from[] = {ls_operand_slice(ls_operand_dense(0, 0, LS_F32, 2, rows), 1, 0, MIB / 4),
                         ls_operand_dense(0, (size_t)2 * MIB, LS_F32, 1, row)},
               to[] = {ls_operand_dense(1, 0, LS_F32, 2, half), ls_operand_dense(2, 0, LS_F32, 1, row)};
    ls_instr instrs[2];
    for (int i = 0; i < 2; i++)
        instrs[i] = (ls_instr){
            .kind = LS_INSTR_KERNEL, .kernel = &kernel, .n_in = 1, .in = &from[i], .n_out = 1, .out = &to[i]};
    ls_program program = {.instrs = instrs, .n_instrs = 2};
    ls_image image = {.programs = &program,
                      .n_programs = 1,
                      .buffers = buffers,
                      .n_buffers = 3,
                      .bytes = {[LS_PRIVATE] = (size_t)7 * MIB}};
    ls_arena *arena = ls_arena_create();
    const double *far = ls_program_far(&image, 0, 3.5 * MIB, arena);
    assert_float_equal(far[0] / MIB, 3, 0.13);
    assert_float_equal(far[1] / MIB, 1, 0.13);
    ls_arena_destroy(arena);
}

/* Never more than all bytes; less with a larger cache; nothing if the cache holds everything. */
static void a_larger_cache_holds_more(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 2048, 2);
    const int step = ls_program_find(set.image[0], LS_PROGRAM_STEP);
    const ls_program *p = &set.image[0]->programs[step];
    ls_arena *arena = ls_arena_create();
    double last = INFINITY;
    static const double caches[] = {0, INFINITY};
    for (size_t c = 0; c < LS_COUNT(caches); c++) {
        const double *far = ls_program_far(set.image[0], step, caches[c], arena);
        double sum = 0;
        for (int i = 0; i < p->n_instrs; i++) sum += far[i];
        assert_true(sum < last);
        last = sum;
    }
    assert_true(last == 0);
    ls_arena_destroy(arena);
    free_images(&set);
}

/* 10 ids read 10 rows of a table of 1,000. */
static void an_embedding_reads_the_rows_that_are_asked_for(void **state) {
    (void)state;
    static const ls_kernel kernel = {.id = LS_KERNEL_EMBEDDING};
    const int64_t ids[] = {10}, table[] = {1000, 8}, y[] = {10, 8};
    ls_operand in[] = {ls_operand_dense(0, 0, LS_I32, 1, ids), ls_operand_dense(1, 0, LS_F32, 2, table)},
               out[] = {ls_operand_dense(2, 0, LS_F32, 2, y)};
    const ls_instr instr = {.kind = LS_INSTR_KERNEL, .kernel = &kernel, .n_in = 2, .in = in, .n_out = 1, .out = out};
    assert_float_equal(ls_instr_touched(&instr, &in[0]), 40, 1e-9);
    assert_float_equal(ls_instr_touched(&instr, &in[1]), 320, 1e-9);
    assert_float_equal(ls_instr_touched(&instr, &out[0]), 320, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_is_near_while_the_cache_holds_it),
        cmocka_unit_test(each_piece_of_an_operand_is_touched),
        cmocka_unit_test(a_larger_cache_holds_more),
        cmocka_unit_test(an_embedding_reads_the_rows_that_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
