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

    char self[100], vmstat[100];
    snprintf(self, sizeof self, "%s/self", root);
    write_file(root, "self", "0::/a/b\n");
    memory = 0; /* the machine's memory is unknown, but not the group's */
    ls_cgroup_limits(self, root, &cores, &memory);
    assert_int_equal(memory, 1 << 30);

    write_file(leaf, "cpu.max", "20000 100000\n"); /* a fifth of a core is still one */
    limits_of(root, "0::/a/b\n", &cores, &memory);
    assert_int_equal(cores, 1);
    write_file(leaf, "cpu.max", "rubbish\n");
    limits_of(root, "0::/a/b\n", &cores, &memory);
    assert_int_equal(cores, 4);

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

int main(void) {
    unsetenv(LS_ISA_VARIABLE); /* here it is the processor that is asked for */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine),
        cmocka_unit_test(test_affinity_counts),
        cmocka_unit_test(test_cgroup_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
