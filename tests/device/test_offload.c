/*
 * What waits in memory of the host changes no bit: programs that offload results of the forward pass and the
 * optimiser's state, with and without recompute, against those that do not; on cpu, on delayed devices of all kinds,
 * and on cuda by the driver for tests.
 */
#include "support/fake_cuda.h"
#include "support/meshes.h"
#include "support/step_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LAYERS = 3, ALL = 1 << 20 };

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
    const ls_optimizer *optimizer;
    ls_saving saving;
} jobs[] = {
    {1, 1, 1, "local", &ls_optimizer_adamw, {.offload = ALL, .offload_state = true}},
    {1, 1, 1, "local", &ls_optimizer_muon, {.drop = ALL, .offload = ALL, .offload_state = true}},
    {1, 2, 1, "ring", &ls_optimizer_adamw, {.drop = 7, .offload = 9}},
    {1, 1, 2, "ulysses", &ls_optimizer_muon, {.offload = ALL, .offload_state = true}},
    {2, 1, 1, "local", &ls_optimizer_lion, {.drop = ALL, .offload = 2, .offload_state = true}},
    {1, 2, 2, "usp", &ls_optimizer_adamw, {.offload = ALL, .offload_state = true}},
};

static image_set images_of_job(size_t i, ls_saving saving) {
    return images_of_saving(mesh_of(jobs[i].dp, jobs[i].ring, jobs[i].ulysses), jobs[i].strategy, LAYERS, &saving,
                            jobs[i].optimizer);
}

static uint64_t digest_on(const image_set *set, size_t job, const char *device) {
    uint64_t digest;
    setenv("LONGSPAN_DEVICE", device, 1);
    const ls_status status = step_digest(set, NULL, &digest);
    unsetenv("LONGSPAN_DEVICE");
    if (status.code != LS_OK) fail_msg("job %zu on %s: %s", job, device, status.text);
    return digest;
}

static void test_the_same_bits(void **state) {
    (void)state;
    static const char *const devices[] = {
        "cpu", "delayed:1", "delayed:2:awaited", "delayed:3:messages", "delayed:4:recorded", "delayed:5"};
    for (size_t i = 0; i < LS_COUNT(jobs); i++) {
        image_set plain = images_of_job(i, (ls_saving){0}), saved = images_of_job(i, jobs[i].saving);
        const uint64_t expected = digest_on(&plain, i, "cpu");
        for (size_t d = 0; d < LS_COUNT(devices); d++)
            if (digest_on(&saved, i, devices[d]) != expected) fail_msg("job %zu: other bits on %s", i, devices[d]);
        put_kernels_on_streams(&saved);
        use_fake_cuda("devices=3,seed=1");
        if (digest_on(&saved, i, "cuda") != expected) fail_msg("job %zu: other bits on cuda", i);
        free_images(&plain);
        free_images(&saved);
    }
    assert_int_equal(fake_cuda_left(), 0);
}

static int count(const ls_image *image, int program, ls_kernel_id kernel) {
    const ls_program *p = &image->programs[program];
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++)
        n += p->instrs[i].kind == LS_INSTR_KERNEL && p->instrs[i].kernel->id == kernel;
    return n;
}

/* Results come and go once in a micro-batch; state in steps alone; evaluations leave everything where it is. */
static void test_what_comes_and_goes(void **state) {
    (void)state;
    image_set plain = images_of_job(0, (ls_saving){0}), results = images_of_job(0, (ls_saving){.offload = ALL}),
              some = images_of_job(0, (ls_saving){.offload = 4}),
              optimizer = images_of_job(0, (ls_saving){.offload_state = true});
    const int micro = ls_program_find(plain.image[0], LS_PROGRAM_MICRO),
              step = ls_program_find(plain.image[0], LS_PROGRAM_STEP),
              evaluate = ls_program_find(plain.image[0], LS_PROGRAM_EVALUATE);
    assert_int_equal(count(plain.image[0], step, LS_KERNEL_OFFLOAD), 0);
    assert_int_equal(plain.image[0]->programs[step].queues, 2);
    const int all = count(results.image[0], step, LS_KERNEL_OFFLOAD);
    assert_in_range(all, 4 * (LAYERS - 1), 40 * LAYERS);
    assert_int_equal(count(results.image[0], micro, LS_KERNEL_OFFLOAD), all);
    assert_int_equal(count(results.image[0], micro, LS_KERNEL_FETCH), all);
    assert_int_equal(results.image[0]->programs[micro].queues, 3);
    assert_int_equal(count(some.image[0], micro, LS_KERNEL_OFFLOAD), 4);
    assert_int_equal(count(optimizer.image[0], micro, LS_KERNEL_OFFLOAD), 0);
    assert_int_equal(count(optimizer.image[0], step, LS_KERNEL_FETCH), 2 * 8); /* of f32: m and v, in parts */
    assert_int_equal(count(results.image[0], evaluate, LS_KERNEL_OFFLOAD), 0);
    assert_int_equal(count(optimizer.image[0], evaluate, LS_KERNEL_FETCH), 0);
    /* Less memory beside that of the host, and there as much as waits. */
    assert_true(results.image[0]->bytes[LS_PRIVATE] < plain.image[0]->bytes[LS_PRIVATE]);
    assert_true(optimizer.image[0]->bytes[LS_PRIVATE] < plain.image[0]->bytes[LS_PRIVATE]);
    assert_int_equal(plain.image[0]->bytes[LS_HOST], 0);
    const int64_t state_bytes = 2 * 4 * optimizer.image[0]->flat_elements;
    assert_true((int64_t)optimizer.image[0]->bytes[LS_HOST] >= state_bytes);
    assert_true((int64_t)optimizer.image[0]->bytes[LS_HOST] < state_bytes + 128);
    free_images(&plain);
    free_images(&results);
    free_images(&some);
    free_images(&optimizer);
}

/* Any other kernel that touches memory of the host is refused, and so is a copy to the wrong side. */
static void test_strays_are_rejected(void **state) {
    (void)state;
    image_set set = images_of_job(0, (ls_saving){.offload = ALL});
    ls_image *image = set.image[0];
    const ls_program *p = &image->programs[0];
    assert_int_equal(ls_verify((const ls_image *const *)set.image, 1).code, LS_OK);
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->queue != LS_LINK) continue;
        const bool offloads = instr->kernel->id == LS_KERNEL_OFFLOAD;
        ls_buffer *there = &image->buffers[offloads ? instr->out[0].buffer : instr->in[0].buffer];
        there->space = LS_PRIVATE;
        assert_int_equal(ls_verify((const ls_image *const *)set.image, 1).code, LS_INVALID);
        assert_int_equal(ls_verify_local((const ls_image *const *)set.image, 1).code, LS_INVALID);
        there->space = LS_HOST;
    }
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        const bool computes = instr->kind == LS_INSTR_KERNEL && instr->queue != LS_LINK && instr->n_out > 0;
        if (!computes || instr->out[0].buffer < 0) continue;
        ls_buffer *result = &image->buffers[instr->out[0].buffer];
        const ls_space space = result->space;
        result->space = LS_HOST;
        const ls_status play = ls_verify((const ls_image *const *)set.image, 1);
        assert_int_equal(play.code, LS_INVALID);
        assert_int_equal(ls_verify_local((const ls_image *const *)set.image, 1).code, LS_INVALID);
        result->space = space;
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same_bits), cmocka_unit_test(test_what_comes_and_goes),
                                       cmocka_unit_test(test_strays_are_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
