/*
 * The products of warp groups (src/kernel/cuda/ptx_sm90.h) as the emulation has them (cuda/products.h): each form on
 * random matrices, and each broken rule ends the process with its name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/float16.h"
#include "cuda/wgmma_forms.h"
#include "support/process.h"

enum { MOST = WGMMA_ROWS * WGMMA_SUMMED };

typedef struct matrices {
    uint16_t a[MOST], b[MOST];
    float d[MOST];
} matrices;

/* Sums of few small integers are exact. */
static void fill(matrices *m) {
    uint32_t x = 1;
    for (int i = 0; i < 2 * MOST; i++) {
        x = x * 1664525U + 1013904223U;
        (i < MOST ? m->a : m->b)[i % MOST] = ls_bf16_from_f32((float)((int)(x >> 16) % 17 - 8));
    }
}

static float value(const uint16_t *x, int by_summed, int other, int others, int k) {
    return ls_bf16_to_f32(x[by_summed ? k * others + other : other * WGMMA_SUMMED + k]);
}

static int count_wrong(const matrices *m, const wgmma_form *form) {
    int wrong = 0;
    for (int r = 0; r < WGMMA_ROWS; r++) {
        for (int c = 0; c < form->columns; c++) {
            float sum = 0.5F;
            for (int k = 0; k < WGMMA_SUMMED; k++)
                sum += value(m->a, form->a_by_summed, r, WGMMA_ROWS, k) *
                       value(m->b, form->b_by_summed, c, form->columns, k);
            wrong += m->d[r * form->columns + c] != sum;
        }
    }
    return wrong;
}

static void test_forms(void **state) {
    matrices *m = *state;
    for (int i = 0; i < WGMMA_FORMS; i++) {
        const wgmma_form form = wgmma_form_of(i);
        assert_int_equal(wgmma_launch(i, WGMMA_RIGHT, m->a, m->b, m->d), 0);
        if (count_wrong(m, &form) != 0) fail_msg("%s: %d results are wrong", form.name, count_wrong(m, &form));
    }
}

typedef struct launch {
    matrices *m;
    int form;
    wgmma_fault fault;
} launch;

static bool is_right(void *context) {
    const launch *l = context;
    const wgmma_form form = wgmma_form_of(l->form);
    return wgmma_launch(l->form, l->fault, l->m->a, l->m->b, l->m->d) == 0 && count_wrong(l->m, &form) == 0;
}

static void test_broken_rules_are_found(void **state) {
    static const struct {
        wgmma_fault fault;
        const char *says; /* "": the results are wrong */
    } rules[] = {
        {WGMMA_NO_PRODUCTS_FENCE, "a product without a fence for"},
        {WGMMA_NO_COMMIT, "a thread ended without waiting for its products"},
        {WGMMA_NO_WAIT, "a thread ended without waiting for its products"},
        {WGMMA_NO_SHARED_FENCE, "a product reads what was written to shared memory without a fence after it"},
        {WGMMA_NO_BARRIER, ""},
        {WGMMA_NO_SWIZZLE, ""},
        {WGMMA_UNALIGNED, "does not begin where a pattern of the swizzle does"},
        {WGMMA_OVERWRITTEN, "an operand was overwritten before its product was waited for"},
        {WGMMA_ONE_WARP, "warps of a group have given other products"},
        {WGMMA_HALF_A_WARP, ", ended before"},
    };
    for (int form = 0; form < WGMMA_FORMS; form += 5) {
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            char text[256];
            launch l = {*state, form, rules[i].fault};
            if (is_true_in_a_process(is_right, &l, text, sizeof text))
                fail_msg("form %d, fault %d is not found", form, (int)rules[i].fault);
            if (strstr(text, rules[i].says) == NULL)
                fail_msg("form %d: expected \"%s\", got \"%s\"", form, rules[i].says, text);
        }
    }
}

int main(void) {
    static matrices m;
    fill(&m);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_forms, &m),
                                       cmocka_unit_test_prestate(test_broken_rules_are_found, &m)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
