/*
 * The description of the machine agrees with what the system reports; control groups are read from made-up files.
 */
#include "base/base.h"
#include "base/machine_impl.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_this_machine(void **state) {
    (void)state;
    ls_machine m;
    ls_machine_detect(&m);
    assert_true(m.cores >= 1 && m.cores <= sysconf(_SC_NPROCESSORS_CONF));
    assert_true(m.memory_bytes > (size_t)16 << 20);
    assert_true(ls_machine_available() > 0 && ls_machine_available() <= m.memory_bytes);
    assert_true(strlen(m.name) > 0);
    assert_true(m.isa >= LS_ISA_BASE && m.isa < LS_ISA_COUNT);
    assert_true(m.l1_bytes == 0 || (m.l1_bytes >= 4096 && m.l1_bytes <= (size_t)16 << 20));
    assert_true(m.l2_bytes == 0 || m.l2_bytes >= m.l1_bytes);
}

/* Whether /proc/cpuinfo lists a feature of the processor. */
static bool cpuinfo_has(const char *flag) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return false;
    static char line[1 << 14];
    bool found = false;
    char word[40];
    snprintf(word, sizeof word, " %s ", flag);
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        line[strcspn(line, "\n")] = ' ';
        found = strstr(line, word) != NULL;
    }
    fclose(file);
    return found;
}

static void test_isa_is_what_the_kernel_lists(void **state) {
    (void)state;
    if (getenv("TEST_EMULATOR") != NULL) skip(); /* what it lists is the processor below the emulator */
    ls_machine m;
    ls_machine_detect(&m);
    const bool v3 = cpuinfo_has("avx2") && cpuinfo_has("fma") && cpuinfo_has("bmi2") && cpuinfo_has("f16c") &&
                    cpuinfo_has("movbe");
    const bool v4 = v3 && cpuinfo_has("avx512f") && cpuinfo_has("avx512bw") && cpuinfo_has("avx512vl") &&
                    cpuinfo_has("avx512dq") && cpuinfo_has("avx512cd");
    const bool bf16 = v4 && cpuinfo_has("avx512_bf16");
    const bool amx = bf16 && cpuinfo_has("amx_bf16") && cpuinfo_has("amx_tile");
    if (amx && m.isa == LS_ISA_AVX512BF16) return; /* the system may refuse */
    assert_int_equal(m.isa, amx    ? LS_ISA_AMX
                            : bf16 ? LS_ISA_AVX512BF16
                            : v4   ? LS_ISA_AVX512
                            : v3   ? LS_ISA_AVX2
                                   : LS_ISA_BASE);
}

static void test_affinity_counts(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    ls_machine m;
    ls_machine_detect(&m);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(m.cores, 1);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void limits_of(const char *root, const char *membership, int *cores, size_t *memory) {
    char path[300];
    write_file(root, "self", membership);
    snprintf(path, sizeof path, "%s/self", root);
    *cores = 16;
    *memory = (size_t)1 << 40;
    ls_cgroup_limits(path, root, cores, memory);
}

static void test_cgroup_limits(void **state) {
    (void)state;
    char root[] = "/tmp/longspan-test-XXXXXX", inner[80], leaf[100];
    assert_non_null(mkdtemp(root));
    snprintf(inner, sizeof inner, "%s/a", root);
    snprintf(leaf, sizeof leaf, "%s/b", inner);
    assert_true(mkdir(inner, 0700) == 0 && mkdir(leaf, 0700) == 0);
    int cores;
    size_t memory;

    limits_of(root, "0::/a/b\n", &cores, &memory); /* no limit files at all */
    assert_int_equal(cores, 16);
    assert_true(memory == (size_t)1 << 40);

    write_file(leaf, "cpu.max", "max 100000\n");
    write_file(leaf, "memory.max", "max\n");
    write_file(inner, "cpu.max", "350000 100000\n");
    write_file(inner, "memory.max", "1073741824\n");
    write_file(root, "cpu.max", "800000 100000\n");
    limits_of(root, "12:cpu:/old\n0::/a/b\n", &cores, &memory); /* the group above counts */
    assert_int_equal(cores, 4);
    assert_int_equal(memory, 1 << 30);
    limits_of(root, "0::/\n", &cores, &memory);
    assert_int_equal(cores, 8);
    assert_true(memory == (size_t)1 << 40);

    write_file(leaf, "cpu.max", "20000 100000\n"); /* a fifth of a core is still one */
    limits_of(root, "0::/a/b\n", &cores, &memory);
    assert_int_equal(cores, 1);
    write_file(leaf, "cpu.max", "rubbish\n");
    limits_of(root, "0::/a/b\n", &cores, &memory);
    assert_int_equal(cores, 4);

    char self[100], vmstat[100];
    snprintf(self, sizeof self, "%s/self", root);
    snprintf(vmstat, sizeof vmstat, "%s/vmstat", root);
    write_file(root, "self", "0::/a/b\n");
    assert_int_equal(ls_cgroup_memory_kills(self, root, vmstat), -1);
    write_file(root, "vmstat", "oom_kill_more 7\noom_kill 3\n");
    assert_int_equal(ls_cgroup_memory_kills(self, root, vmstat), 3);
    write_file(leaf, "memory.events", "low 0\noom 9\noom_kill 2\noom_group_kill 0\n");
    assert_int_equal(ls_cgroup_memory_kills(self, root, vmstat), 2);

    char command[80];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* LONGSPAN_ISA lowers what kernels may use, and what it cannot mean is refused. */
static void test_isa_limit(void **state) {
    (void)state;
    ls_isa best = LS_ISA_COUNT, isa = LS_ISA_COUNT;
    assert_int_equal(ls_isa_limit(&best).code, LS_OK);
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_isa asked = (ls_isa)i;
        assert_int_equal(setenv(LS_ISA_VARIABLE, ls_isa_name(asked), 1), 0);
        const ls_status status = ls_isa_limit(&isa);
        assert_int_equal(status.code, asked <= best ? LS_OK : LS_USAGE);
        assert_int_equal(isa, asked <= best ? asked : best);
        ls_machine m;
        ls_machine_detect(&m);
        assert_int_equal(m.isa, isa);
        for (int j = 0; j < LS_ISA_COUNT && asked <= best; j++) {
            const ls_status usable = ls_isa_check((ls_isa)j);
            assert_int_equal(usable.code, j <= i ? LS_OK : LS_USAGE);
            if (j > i) assert_non_null(strstr(usable.text, ls_isa_name(asked)));
        }
        if (asked <= best) continue;
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

static void test_isa_names(void **state) {
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
        cmocka_unit_test(test_this_machine),    cmocka_unit_test(test_isa_is_what_the_kernel_lists),
        cmocka_unit_test(test_affinity_counts), cmocka_unit_test(test_cgroup_limits),
        cmocka_unit_test(test_isa_limit),       cmocka_unit_test(test_isa_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
