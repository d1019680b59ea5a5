/*
 * The schedule reorders programs and keeps the required order, exposes no more communication, and needs no more
 * memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "compile/compile_impl.h"
#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} meshes[] = {{1, 2, 1, "ring"}, {1, 4, 1, "ring"},    {1, 1, 2, "ulysses"}, {1, 1, 4, "ulysses"}, {1, 2, 2, "usp"},
              {2, 2, 1, "ring"}, {2, 1, 2, "ulysses"}, {2, 1, 1, "local"},   {1, 3, 2, "usp"}};

static image_set make(size_t mesh, int64_t S) {
    return images_of_network(mesh_of(meshes[mesh].dp, meshes[mesh].ring, meshes[mesh].ulysses), meshes[mesh].strategy,
                             LS_LAYOUT_ZIGZAG, S, 3);
}

static bool is_data_wait(const ls_instr *instr) { return ls_traits(instr)->awaits && !ls_traits(instr)->free; }

/* The list in emission order; fails when the numbers are not those of a reorder. */
static void emit_again(ls_image *image, int program) {
    ls_program *p = &image->programs[program];
    ls_instr *list = LS_NEW_ARRAY(image->arena, ls_instr, p->n_instrs + 1);
    bool *seen = LS_NEW_ARRAY(image->arena, bool, p->n_instrs + 1);
    for (int i = 0; i < p->n_instrs; i++) {
        const int number = p->instrs[i].number;
        assert_in_range(number, 0, p->n_instrs - 1);
        assert_false(seen[number]);
        seen[number] = true;
        list[number] = p->instrs[i];
    }
    p->instrs = list;
}

/* Whether the list is in another order than it was emitted in; fails when it breaks a rule. */
static bool check_order(ls_image *image, int program) {
    const ls_program scheduled = image->programs[program];
    const int n = scheduled.n_instrs;
    emit_again(image, program);
    const ls_instr *emitted = image->programs[program].instrs;
    int *place = LS_NEW_ARRAY(image->arena, int, n + 1);
    for (int i = 0; i < n; i++) place[scheduled.instrs[i].number] = i;
    ls_dependencies needs;
    ls_depend(image, program, image->arena, &needs);
    int last = -1;
    bool moved = false;
    for (int i = 0; i < n; i++) {
        moved |= place[i] != i;
        for (int k = needs.first[i]; k < needs.first[i + 1]; k++)
            assert_true(needs.on[k] < i && place[needs.on[k]] < place[i]);
        if (emitted[i].kind == LS_INSTR_KERNEL) continue;
        assert_true(last < 0 || place[last] < place[i]); /* a wait for data may move behind others only */
        if (!is_data_wait(&emitted[i])) last = i;
    }
    image->programs[program] = scheduled;
    return moved;
}

static void test_a_valid_reorder(void **state) {
    (void)state;
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        image_set set = make(m, 37);
        for (int r = 0; r < set.ranks; r++) {
            bool moved = false;
            for (int p = 0; p < set.image[r]->n_programs; p++) moved |= check_order(set.image[r], p);
            assert_true(moved);
        }
        free_images(&set);
    }
}

static void test_no_more_memory(void **state) {
    (void)state;
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        image_set set = make(m, 37);
        for (int r = 0; r < set.ranks; r++) {
            ls_image *image = set.image[r];
            size_t scheduled[LS_SPACES], least[LS_SPACES];
            memcpy(scheduled, image->bytes, sizeof scheduled);
            memcpy(least, image->least, sizeof least);
            for (int p = 0; p < image->n_programs; p++) emit_again(image, p);
            ls_place(image, 0);
            for (int s = 0; s < LS_SPACES; s++) {
                assert_true(least[s] <= image->least[s]);
                /* Or, where placement happened to meet the bound for the other list, within a hundredth of it. */
                assert_true(scheduled[s] <= image->bytes[s] || (double)scheduled[s] <= 1.01 * (double)least[s]);
            }
        }
        free_images(&set);
    }
}

/* --- what is exposed, on a clock ---------------------------------------------------------------------------------- */

/*
 * Seconds that the compute queue stands still in the list, when all ranks run it alike: data arrive when the own put of
 * that channel and generation would, a network of that latency.
 */
static double exposed_seconds(const ls_image *image, int program, double latency) {
    enum { MOST = 64 }; /* generations of a channel */
    const ls_program *p = &image->programs[program];
    const ls_rates rates = ls_rates_of(LS_DEVICE_CPU, LS_ISA_AVX2, LS_F32, 1);
    double *arrival = LS_NEW_ARRAY(image->arena, double, 2 * MOST * p->n_channels + 1);
    double *end = LS_NEW_ARRAY(image->arena, double, p->n_instrs + 1); /* of its queue, then */
    double now[LS_QUEUES] = {0}, exposed = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        double begin = fmax(now[instr->queue], 0);
        for (int k = 0; k < instr->n_after; k++) begin = fmax(begin, end[instr->after[k].instr]);
        double *word =
            instr->channel < 0
                ? NULL
                : &arrival[(instr->channel * MOST + (int)instr->generation) * 2 + (ls_traits(instr)->free ? 1 : 0)];
        if (ls_traits(instr)->awaits) begin = fmax(begin, *word);
        if (ls_traits(instr)->sets) *word = begin + (ls_traits(instr)->moves ? latency : rates.latency);
        if (instr->queue == LS_COMPUTE) exposed += begin - now[LS_COMPUTE];
        now[instr->queue] = end[i] =
            begin + (instr->kind == LS_INSTR_KERNEL ? ls_instr_seconds(instr, INFINITY, &rates) : 0);
    }
    return exposed + fmax(0, now[LS_COPY] - now[LS_COMPUTE]);
}

#define LATENCY 10e-3 /* what the schedule reckons with */

static void test_no_more_exposed(void **state) {
    (void)state;
    double sum_scheduled = 0, sum_emitted = 0;
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        image_set set = make(m, 16385);
        ls_image *image = set.image[0];
        const double scheduled = exposed_seconds(image, ls_program_find(image, LS_PROGRAM_STEP), LATENCY);
        for (int p = 0; p < image->n_programs; p++) emit_again(image, p);
        ls_place(image, 0);
        ls_order(image);
        const double emitted = exposed_seconds(image, ls_program_find(image, LS_PROGRAM_STEP), LATENCY);
        print_message("%-8s %d x %d x %d: %.2f ms exposed, as emitted %.2f\n", meshes[m].strategy, meshes[m].dp,
                      meshes[m].ring, meshes[m].ulysses, scheduled * 1e3, emitted * 1e3);
        assert_true(scheduled <= emitted * (1 + 1e-9));
        sum_scheduled += scheduled;
        sum_emitted += emitted;
        free_images(&set);
    }
    assert_true(sum_scheduled < sum_emitted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_valid_reorder),
        cmocka_unit_test(test_no_more_memory),
        cmocka_unit_test(test_no_more_exposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
