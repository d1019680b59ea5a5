#include "base/base.h"
#include "base/machine_impl.h"

#include <stdio.h>
#include <string.h>

/* The path of our group under the root, "" for the root itself: the line "0::/path". */
static void read_membership(const char *file_name, char *path, size_t bytes) {
    path[0] = 0;
    FILE *file = fopen(file_name, "r");
    if (!file) return;
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::", 3) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line + 3, "/") != 0) snprintf(path, bytes, "%s", line + 3);
    }
    fclose(file);
}

/* The first line of root/path/name; false when there is none. */
static bool read_line(const char *root, const char *path, const char *name, char *line, size_t bytes) {
    char file_name[2048];
    snprintf(file_name, sizeof file_name, "%s%s/%s", root, path, name);
    FILE *file = fopen(file_name, "r");
    if (!file) return false;
    const bool found = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    return found;
}

void ls_cgroup_limits(const char *membership, const char *root, int *cores, size_t *memory_bytes) {
    char path[1024];
    read_membership(membership, path, sizeof path);
    for (;;) {
        char line[128];
        double quota, period;
        /* "150000 100000" microseconds, or "max 100000". One and a half cores count as two. */
        if (read_line(root, path, "cpu.max", line, sizeof line) &&
            sscanf(line, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0)
            *cores = (int)ls_max(1, ls_min(*cores, (int64_t)(quota / period + 0.5)));
        unsigned long long limit;
        if (read_line(root, path, "memory.max", line, sizeof line) && sscanf(line, "%llu", &limit) == 1 &&
            limit < *memory_bytes)
            *memory_bytes = (size_t)limit;
        char *parent = strrchr(path, '/');
        if (!parent) return;
        *parent = 0;
    }
}
