#include "base/base.h"
#include "base/machine_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The path of our group under the root, "" for the root itself, and where there is none: the line "0::/path". For free(). */
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

/* The first line of root/path/name; false when there is none. */
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
        if (!parent) break;
        *parent = 0;
    }
    free(path);
}

/* The number behind a name at the beginning of a line; -1: there is none. */
static int64_t read_field(const char *file_name, const char *name) {
    char line[256];
    const size_t n = strlen(name);
    int64_t found = -1;
    FILE *file = fopen(file_name, "r");
    if (!file) return -1;
    while (found < 0 && fgets(line, sizeof line, file)) {
        long long value;
        if (strncmp(line, name, n) == 0 && line[n] == ' ' && sscanf(line + n, "%lld", &value) == 1)
            found = value;
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
