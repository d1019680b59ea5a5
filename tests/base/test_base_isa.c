/* Instruction sets: their rows, what this processor has of their features, and limits. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/emulated.h"

/* Whether /proc/cpuinfo lists all of these features, with a space between them, of the processor. */
static bool cpuinfo_has(const char *flags) {
    static char line[1 << 14];
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        line[strcspn(line, "\n")] = ' ';
        found = true;
        for (const char *flag = flags; *flag != 0 && found; flag += strcspn(flag, " "), flag += *flag == ' ') {
            char word[40];
            snprintf(word, sizeof word, " %.*s ", (int)strcspn(flag, " "), flag);
            found = strstr(line, word) != NULL;
        }
        break;
    }
    fclose(file);
    return found;
}

static void test_features_are_what_the_kernel_lists(void **state) {
    (void)state;
    if (is_emulated()) skip(); /* what it lists is the processor below the emulator */
    static const struct {
        ls_features feature;
        const char *flags;
    } listed[] = {
        {LS_FEATURE_AVX2, "avx2 fma bmi1 bmi2 f16c movbe"},
        {LS_FEATURE_AVX512, "avx512f avx512bw avx512vl avx512dq avx512cd"},
        {LS_FEATURE_AVX512_BF16, "avx512_bf16"},
        {LS_FEATURE_AMX_BF16, "amx_bf16 amx_tile"},
    };
    const ls_features present = ls_features_present();
    assert_true(present & LS_FEATURE_BASELINE);
    for (size_t i = 0; i < LS_COUNT(listed); i++) {
        const bool has = (present & listed[i].feature) != 0;
        if (!has && listed[i].feature == LS_FEATURE_AMX_BF16) continue; /* the system may refuse */
        if (has != cpuinfo_has(listed[i].flags))
            fail_msg("%s: the kernel says %d, we say %d", listed[i].flags, !has, has);
    }
}

static void test_rows(void **state) {
    (void)state;
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_isa_row *row = &ls_isas[i];
        assert_non_null(row->name);
        for (int j = 0; j < i; j++) assert_int_not_equal(row->features, ls_isas[j].features);
        assert_int_equal(ls_isa_within(row->features), i);
        assert_true(ls_isa_allows((ls_isa)i, row->features) && ls_isa_allows((ls_isa)i, 0));
        assert_int_equal(ls_isa_allows((ls_isa)i, 1u << 31), false);
    }
    /* Features that no row has all of: the row with most of those. */
    assert_int_equal(ls_isa_within(LS_FEATURE_AMX_BF16), LS_ISA_REF);
    assert_int_equal(ls_isa_within(LS_FEATURE_BASELINE | LS_FEATURE_AVX512), LS_ISA_BASE);
    assert_int_equal(ls_isa_within(ls_isas[LS_ISA_AVX2].features | LS_FEATURE_AMX_BF16 | 1u << 31), LS_ISA_AVX2);
    assert_false(ls_isa_allows(LS_ISA_AVX2, LS_FEATURE_BASELINE | LS_FEATURE_AVX512));
    assert_false(ls_isa_allows(LS_ISA_REF, LS_FEATURE_BASELINE));
}

static bool includes(ls_isa isa, ls_isa other) { return ls_isa_allows(isa, ls_isas[other].features); }

/* LONGSPAN_ISA lowers what kernels may use, and what it cannot mean is refused. */
static void test_limit(void **state) {
    (void)state;
    ls_isa best = LS_ISA_COUNT, isa = LS_ISA_COUNT;
    assert_int_equal(ls_isa_limit(&best).code, LS_OK);
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_isa asked = (ls_isa)i;
        const bool here = includes(best, asked);
        assert_int_equal(setenv(LS_ISA_VARIABLE, ls_isa_name(asked), 1), 0);
        const ls_status status = ls_isa_limit(&isa);
        assert_int_equal(status.code, here ? LS_OK : LS_USAGE);
        assert_int_equal(isa, here ? asked : best);
        ls_machine m;
        ls_machine_detect(&m);
        assert_int_equal(m.isa, isa);
        for (int j = 0; j < LS_ISA_COUNT && here; j++) {
            const ls_status usable = ls_isa_check((ls_isa)j);
            assert_int_equal(usable.code, includes(asked, (ls_isa)j) ? LS_OK : LS_USAGE);
            if (usable.code == LS_OK) continue;
            assert_non_null(strstr(usable.text, ls_isa_name((ls_isa)j)));
            assert_non_null(strstr(usable.text, ls_isa_name(asked)));
        }
        if (here) continue;
        assert_non_null(strstr(status.text, LS_ISA_VARIABLE));
        assert_non_null(strstr(status.text, ls_isa_name(best)));
    }
    assert_int_equal(setenv(LS_ISA_VARIABLE, "sse9", 1), 0);
    const ls_status status = ls_isa_limit(&isa);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, LS_ISA_VARIABLE " is 'sse9'"));
    assert_int_equal(ls_isa_check(LS_ISA_REF).code, LS_USAGE);
    assert_int_equal(setenv(LS_ISA_VARIABLE, "", 1), 0); /* as if it were not there */
    assert_int_equal(ls_isa_limit(&isa).code, LS_OK);
    assert_int_equal(isa, best);
    assert_int_equal(unsetenv(LS_ISA_VARIABLE), 0);
}

static void test_names(void **state) {
    (void)state;
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        ls_isa isa = LS_ISA_COUNT;
        assert_int_equal(ls_isa_parse(ls_isa_name((ls_isa)i), &isa).code, LS_OK);
        assert_int_equal(isa, i);
    }
    ls_isa isa = LS_ISA_AVX2;
    const ls_status status = ls_isa_parse("sse9", &isa);
    assert_int_equal(status.code, LS_USAGE);
    assert_int_equal(isa, LS_ISA_AVX2);
    for (int i = 0; i < LS_ISA_COUNT; i++) assert_non_null(strstr(status.text, ls_isa_name((ls_isa)i)));
    assert_non_null(strstr(status.text, "sse9"));
}

int main(void) {
    unsetenv(LS_ISA_VARIABLE); /* here it is the processor that is asked for */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_are_what_the_kernel_lists),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
