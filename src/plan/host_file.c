/* The file of a machine's rates. */
#include "plan/host_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every rate and cost by its name in the file, and the least that it may be. */
typedef struct rate_row {
    const char *group; /* NULL: none */
    const char *name;
    size_t offset;
    double least;
} rate_row;

#define AT(field, least) offsetof(ls_host, field), least
#define ATTENTION(group, type_, pass, name)                             \
    {group, name "_flop", AT(type[type_].attention[pass].flop, 1e-18)}, \
        {group, name "_pair", AT(type[type_].attention[pass].pair, 0)}, \
        {group, name "_row", AT(type[type_].attention[pass].row, 0)}, { \
        group, name "_byte", AT(type[type_].attention[pass].byte, 0)    \
    }
#define TYPE(group, type_)                                        \
    ATTENTION(group, type_, LS_FORWARD, "attention"),             \
        ATTENTION(group, type_, LS_BACKWARD, "attention_grad"), { \
        group, "matmul", AT(type[type_].matmul, 1)                \
    }
static const rate_row rows[] = {
    TYPE("f32", LS_F32),
    TYPE("f64", LS_F64),
    TYPE("bf16", LS_BF16),
    {NULL, "memory", AT(memory, 1)},
    {NULL, "bandwidth", AT(bandwidth, 1)},
    {NULL, "latency", AT(latency, 1e-12)},
    {NULL, "overhead", AT(overhead, 1e-12)},
};
#undef TYPE
#undef ATTENTION
#undef AT

static double *rate_of(ls_host *host, const rate_row *row) {
    return (double *)(void *)((char *)host + row->offset);
}

/* Letters and digits as they are, the rest as one '-'. */
static void add_plain(char *out, size_t room, const char *text) {
    size_t n = strlen(out);
    for (; *text != 0 && n + 1 < room; text++) {
        const bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                           (*text >= '0' && *text <= '9');
        if (plain || (n > 0 && out[n - 1] != '-')) out[n++] = plain ? *text : '-';
    }
    out[n] = 0;
}

ls_status ls_host_path(ls_isa isa, char out[LS_HOST_PATH]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool has_cache = cache != NULL && cache[0] == '/';
    if (!has_cache && (home == NULL || home[0] == 0))
        return ls_error(LS_IO, "neither XDG_CACHE_HOME nor HOME says where this machine's rates are kept");
    ls_machine machine;
    ls_machine_detect(&machine);
    char name[160] = "";
    add_plain(name, sizeof name, machine.name);
    const int n = snprintf(out, LS_HOST_PATH, "%s%s/longspan/%s-%d-%s.json", has_cache ? cache : home,
                           has_cache ? "" : "/.cache", name, machine.cores, ls_isa_name(isa));
    if (n < 0 || n >= LS_HOST_PATH)
        return ls_error(LS_IO, "the path of the cache directory is longer than %d bytes", LS_HOST_PATH);
    return ls_ok();
}

void ls_host_put(const ls_host *host, ls_json_writer *w) {
    ls_host copy = *host;
    const char *group = NULL;
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        if (rows[i].group != group && group != NULL) ls_json_close(w);
        if (rows[i].group != group && rows[i].group != NULL) ls_json_open_object(w, rows[i].group);
        group = rows[i].group;
        ls_json_put_double(w, rows[i].name, *rate_of(&copy, &rows[i]));
    }
}

ls_status ls_host_save(ls_isa isa, const ls_host *host) {
    char path[LS_HOST_PATH], folder[LS_HOST_PATH];
    LS_TRY(ls_host_path(isa, path));
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    LS_TRY(ls_file_make_directories(folder));
    ls_json_writer *w = ls_json_begin(2);
    ls_host_put(host, w);
    return ls_json_end_file(w, path);
}

static ls_status read_rates(ls_json_value root, ls_host *out) {
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        ls_json_value group = root;
        if (rows[i].group != NULL) LS_TRY(ls_json_object(root, rows[i].group, &group));
        LS_TRY(ls_json_double(group, rows[i].name, rows[i].least, 1e18, rate_of(out, &rows[i])));
    }
    return ls_ok();
}

bool ls_host_load(ls_isa isa, ls_host *out) {
    char path[LS_HOST_PATH];
    *out = ls_host_nominal(isa);
    if (ls_host_path(isa, path).code != LS_OK || !ls_file_exists(path)) return false;
    ls_json *document = NULL;
    ls_host measured = {.memory = 0};
    ls_status status = ls_json_read(path, LS_JSON_MOST_BYTES, &document);
    if (status.code == LS_OK) status = read_rates(ls_json_root(document), &measured);
    ls_json_free(document);
    if (status.code != LS_OK) {
        ls_log("%s; nominal rates are used (longspan bench machine measures again)", status.text);
        return false;
    }
    *out = measured;
    return true;
}
