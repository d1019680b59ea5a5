#include "base/machine_impl.h"

#include "base/base.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- control groups ---- */

/*
 * The path of this process's group below the root of groups, from the line "0::/path"; "" for the root itself and when
 * there is no such line. The caller frees it. NULL: no memory.
 */
static char *read_membership(const char *file_name) {
    char *line = NULL, *path = NULL;
    size_t room = 0;
    FILE *file = fopen(file_name, "r");
    while (file != NULL && path == NULL && getline(&line, &room, file) > 0) {
        if (strncmp(line, "0::", 3) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        path = strdup(strcmp(line + 3, "/") == 0 ? "" : line + 3);
    }
    free(line);
    if (file != NULL) fclose(file);
    return path != NULL ? path : strdup("");
}

/* Reads the first line of the file root/path/name; false when it cannot be read. */
static bool read_line(const char *root, const char *path, const char *name, char *line, size_t bytes) {
    char *file_name = NULL;
    if (asprintf(&file_name, "%s%s/%s", root, path, name) < 0) return false;
    FILE *file = fopen(file_name, "r");
    free(file_name);
    if (!file) return false;
    const bool found = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    return found;
}

void ls_cgroup_limits(const char *membership, const char *root, int *cores, size_t *memory_bytes) {
    char *path = read_membership(membership);
    while (path != NULL) {
        char line[128];
        long long quota, period;
        /*
         * The quota and its period: "150000 100000" microseconds, or "max 100000". One and a half cores count as two.
         */
        if (read_line(root, path, "cpu.max", line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2 &&
            quota > 0 && period > 0)
            *cores = (int)ls_max(1, ls_min(*cores, (quota + period / 2) / period));
        unsigned long long limit;
        if (read_line(root, path, "memory.max", line, sizeof line) && sscanf(line, "%llu", &limit) == 1 &&
            (*memory_bytes == 0 || limit < *memory_bytes))
            *memory_bytes = (size_t)limit;
        char *parent = strrchr(path, '/');
        if (!parent) break;
        *parent = 0;
    }
    free(path);
}

/* The number in the line "name number" of a file; -1 without such a line. */
static int64_t read_field(const char *file_name, const char *name) {
    char line[256];
    const size_t n = strlen(name);
    int64_t found = -1;
    FILE *file = fopen(file_name, "r");
    if (!file) return -1;
    while (found < 0 && fgets(line, sizeof line, file)) {
        long long value;
        if (strncmp(line, name, n) == 0 && line[n] == ' ' && sscanf(line + n, "%lld", &value) == 1) found = value;
    }
    fclose(file);
    return found;
}

int64_t ls_cgroup_memory_kills(const char *membership, const char *root, const char *vmstat) {
    char *path = read_membership(membership), *events = NULL;
    int64_t kills = -1;
    if (path != NULL && asprintf(&events, "%s%s/memory.events", root, path) >= 0) {
        kills = read_field(events, "oom_kill");
        free(events);
    }
    free(path);
    return kills >= 0 ? kills : read_field(vmstat, "oom_kill");
}

/* ---- this machine ---- */

/* The processors of the other ranks on this machine. */
static _Atomic uint64_t processors_beside[LS_COUNT(((ls_processors *)0)->bits)];

void ls_machine_add_processors(const ls_processors *processors) {
    for (size_t i = 0; i < LS_COUNT(processors->bits); i++) atomic_fetch_or(&processors_beside[i], processors->bits[i]);
}

/* From the affinity mask. Its size is unknown: a larger buffer is tried until the mask fits. */
void ls_machine_processors(ls_processors *out) {
    *out = (ls_processors){{0}};
    for (int cpus = 1024; cpus <= 1 << 18; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set) return;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        const bool fits = sched_getaffinity(0, bytes, set) == 0;
        for (size_t i = 0; fits && i < 64 * LS_COUNT(out->bits) && i < (size_t)cpus; i++)
            if (CPU_ISSET_S(i, bytes, set)) out->bits[i / 64] |= UINT64_C(1) << i % 64;
        CPU_FREE(set);
        if (fits) return;
    }
}

int ls_processors_count(const ls_processors *processors) {
    int n = 0;
    for (size_t i = 0; i < LS_COUNT(processors->bits); i++) n += __builtin_popcountll(processors->bits[i]);
    return n;
}

void ls_processors_remove(ls_processors *processors, int processor) {
    if (processor < 0 || (size_t)processor >= 64 * LS_COUNT(processors->bits)) return;
    processors->bits[processor / 64] &= ~(UINT64_C(1) << processor % 64);
}

static ls_processors with_beside(ls_processors all) {
    for (size_t i = 0; i < LS_COUNT(all.bits); i++) all.bits[i] |= atomic_load(&processors_beside[i]);
    return all;
}

void ls_thread_place(pthread_t thread, const ls_processors *where) {
    enum { MOST = 64 * LS_COUNT(where->bits) };
    cpu_set_t *set = CPU_ALLOC(MOST);
    if (!set) return;
    const size_t bytes = CPU_ALLOC_SIZE(MOST);
    CPU_ZERO_S(bytes, set);
    for (size_t i = 0; i < MOST; i++)
        if (where->bits[i / 64] >> i % 64 & 1) CPU_SET_S(i, bytes, set);
    (void)pthread_setaffinity_np(thread, bytes, set);
    CPU_FREE(set);
}

void ls_machine_unbind(int threads) {
    ls_processors own;
    ls_machine_processors(&own);
    const ls_processors all = with_beside(own);
    const int bound_to = ls_processors_count(&own);
    if (bound_to == 0 || bound_to >= threads || bound_to == ls_processors_count(&all)) return;
    ls_thread_place(pthread_self(), &all);
}

static int count_cores(void) {
    ls_processors own;
    ls_machine_processors(&own);
    const ls_processors all = with_beside(own);
    const int cores = ls_processors_count(&all);
    if (cores > 0) return cores;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Reads the value of `key` from a file of lines "key : value"; false when there is none. */
static bool read_key(const char *file_name, const char *key, char *value, size_t bytes) {
    FILE *file = fopen(file_name, "r");
    if (!file) return false;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        const char *colon = strchr(line, ':');
        if (!colon) continue;
        const char *start = colon + 1 + strspn(colon + 1, " \t");
        snprintf(value, bytes, "%.*s", (int)strcspn(start, "\n"), start);
        found = value[0] != 0;
    }
    fclose(file);
    return found;
}

/* What never changes while a process lives. It is read once: sessions, compilers and ranks all ask for it. */
static struct processor {
    size_t cache_bytes[4]; /* of levels 1 to 3; 0 when unknown */
    char name[64];
} processor;

/* The bytes of a size as sysfs writes it ("48K"). */
static size_t read_size(const char *text) {
    char unit = 0;
    unsigned long size = 0;
    (void)sscanf(text, "%lu%c", &size, &unit);
    return (size_t)size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

/* The data or unified caches, from sysfs, or else from the C library. */
static void read_caches(void) {
    static const int sysconf_names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    for (int index = 0; index < 8; index++) {
        static const char root[] = "/sys/devices/system/cpu/cpu0/cache";
        char folder[16], level_text[64], type[64], size[64];
        snprintf(folder, sizeof folder, "/index%d", index);
        if (!read_line(root, folder, "level", level_text, sizeof level_text) ||
            !read_line(root, folder, "type", type, sizeof type) || !read_line(root, folder, "size", size, sizeof size))
            continue;
        const int level = atoi(level_text);
        if (level < 1 || level > 3 || strncmp(type, "Instruction", 11) == 0) continue;
        if (processor.cache_bytes[level] == 0) processor.cache_bytes[level] = read_size(size);
    }
    for (int level = 1; level <= 3; level++) {
        const long bytes = sysconf(sysconf_names[level]);
        if (processor.cache_bytes[level] == 0 && bytes > 0) processor.cache_bytes[level] = (size_t)bytes;
    }
}

static void read_processor(void) {
    read_caches();
    if (!read_key("/proc/cpuinfo", "model name", processor.name, sizeof processor.name) &&
        !read_key("/proc/cpuinfo", "CPU part", processor.name, sizeof processor.name))
        snprintf(processor.name, sizeof processor.name, "unknown processor");
}

void ls_machine_detect(ls_machine *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_processor);
    ls_machine machine = {.cores = count_cores(),
                          .l1_bytes = processor.cache_bytes[1],
                          .l2_bytes = processor.cache_bytes[2],
                          .l3_bytes = processor.cache_bytes[3]};
    memcpy(machine.name, processor.name, sizeof machine.name);
    const ls_status limited = ls_isa_limit(&machine.isa);
    (void)limited; /* a wrong LONGSPAN_ISA is reported when kernels are chosen */
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    machine.memory_bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    ls_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup", &machine.cores, &machine.memory_bytes);
    *out = machine;
}

size_t ls_machine_available(void) {
    char text[64];
    unsigned long long kilobytes;
    if (!read_key("/proc/meminfo", "MemAvailable", text, sizeof text) || sscanf(text, "%llu", &kilobytes) != 1)
        return 0;
    int cores = 1;
    size_t bytes = (size_t)kilobytes << 10;
    ls_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup", &cores, &bytes);
    return bytes;
}

int64_t ls_machine_memory_kills(void) {
    return ls_cgroup_memory_kills("/proc/self/cgroup", "/sys/fs/cgroup", "/proc/vmstat");
}
