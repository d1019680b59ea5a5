/* The file of a machine's rates. */
#include "plan/plan.h"

#include "ls_version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One number of the file: its name, its offset in the struct, and the least valid value. */
typedef struct rate_row {
    const char *name;
    size_t offset;
    double least;
} rate_row;

#define ATTENTION(pass, name, part, least) \
    { name "_" #part, offsetof(ls_core_rates, attention[pass].part), least }
static const rate_row of_type[] = {
    ATTENTION(LS_FORWARD, "attention", flop, 1e-18),
    ATTENTION(LS_FORWARD, "attention", pair, 0),
    ATTENTION(LS_FORWARD, "attention", row, 0),
    ATTENTION(LS_FORWARD, "attention", byte, 0),
    ATTENTION(LS_BACKWARD, "attention_grad", flop, 1e-18),
    ATTENTION(LS_BACKWARD, "attention_grad", pair, 0),
    ATTENTION(LS_BACKWARD, "attention_grad", row, 0),
    ATTENTION(LS_BACKWARD, "attention_grad", byte, 0),
    {"matmul", offsetof(ls_core_rates, matmul), 1},
    {"split", offsetof(ls_core_rates, split), 0},
};
#undef ATTENTION

/* The numbers of each kernel with a sample. */
static const rate_row of_bytes[] = {
    {"near", offsetof(ls_byte_cost, near), 1e-18},
    {"far", offsetof(ls_byte_cost, far), 1e-18},
};

static const rate_row of_host[] = {
    {"memory", offsetof(ls_host, memory), 1},         {"memory_alone", offsetof(ls_host, memory_alone), 1},
    {"cache", offsetof(ls_host, cache), 0},           {"put_near", offsetof(ls_host, put.near), 1e-18},
    {"put_far", offsetof(ls_host, put.far), 1e-18},   {"latency", offsetof(ls_host, latency), 1e-12},
    {"overhead", offsetof(ls_host, overhead), 1e-12}, {"piece", offsetof(ls_host, piece), 0},
    {"to_host", offsetof(ls_host, to_host), 1},       {"from_host", offsetof(ls_host, from_host), 1},
};

static const struct {
    const char *name;
    ls_dtype type;
} types[] = {{"f32", LS_F32}, {"f64", LS_F64}, {"bf16", LS_BF16}};

/* Write and read the numbers of one struct. */
static void put_rows(const rate_row *rows, size_t n, const void *base, ls_json_writer *w) {
    for (size_t i = 0; i < n; i++)
        ls_json_put_double(w, rows[i].name, *(const double *)(const void *)((const char *)base + rows[i].offset));
}

static ls_status read_rows(const rate_row *rows, size_t n, ls_json_value from, void *base) {
    for (size_t i = 0; i < n; i++)
        LS_TRY(
            ls_json_double(from, rows[i].name, rows[i].least, 1e18, (double *)(void *)((char *)base + rows[i].offset)));
    return ls_ok();
}

/* Appends text; each run of other characters than letters and digits becomes one '-'. */
static void add_plain(char *out, size_t room, const char *text) {
    size_t n = strlen(out);
    for (; *text != 0 && n + 1 < room; text++) {
        const bool plain =
            (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9');
        if (plain || (n > 0 && out[n - 1] != '-')) out[n++] = plain ? *text : '-';
    }
    out[n] = 0;
}

ls_status ls_host_path(ls_isa isa, char **out) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool has_cache = cache != NULL && cache[0] == '/';
    if (!has_cache && (home == NULL || home[0] == 0))
        return ls_error(LS_IO, "neither XDG_CACHE_HOME nor HOME says where this machine's rates are kept");
    ls_machine machine;
    ls_machine_detect(&machine);
    char name[160] = "";
    add_plain(name, sizeof name, machine.name);
    return ls_path_print(out, "%s%s/longspan/%s-%d-%s.json", has_cache ? cache : home, has_cache ? "" : "/.cache", name,
                         machine.cores, ls_isa_name(isa));
}

void ls_host_put(const ls_host *host, ls_json_writer *w) {
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        const ls_core_rates *rates = &host->type[types[t].type];
        ls_json_open_object(w, types[t].name);
        put_rows(of_type, LS_COUNT(of_type), rates, w);
        for (int k = 0; k < LS_KERNEL_IDS; k++) {
            if (ls_contracts[k].sample.out == NULL) continue;
            ls_json_open_object(w, ls_contracts[k].name);
            put_rows(of_bytes, LS_COUNT(of_bytes), &rates->bytes[k], w);
            ls_json_close(w);
        }
        ls_json_close(w);
    }
    put_rows(of_host, LS_COUNT(of_host), host, w);
}

ls_status ls_host_save(ls_isa isa, const ls_host *host) {
    LS_PATH path = NULL;
    LS_PATH folder = NULL;
    LS_TRY(ls_host_path(isa, &path));
    LS_TRY(ls_path_parent(path, &folder));
    LS_TRY(ls_file_make_folders(folder));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "version", LS_VERSION);
    ls_host_put(host, w);
    return ls_json_end_file(w, path);
}

static ls_status read_rates(ls_json_value root, ls_host *out) {
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        ls_json_value group, bytes;
        ls_core_rates *rates = &out->type[types[t].type];
        LS_TRY(ls_json_object(root, types[t].name, &group));
        LS_TRY(read_rows(of_type, LS_COUNT(of_type), group, rates));
        for (int k = 0; k < LS_KERNEL_IDS; k++) {
            if (ls_contracts[k].sample.out == NULL) continue;
            LS_TRY(ls_json_object(group, ls_contracts[k].name, &bytes));
            LS_TRY(read_rows(of_bytes, LS_COUNT(of_bytes), bytes, &rates->bytes[k]));
        }
    }
    return read_rows(of_host, LS_COUNT(of_host), root, out);
}

/* Rates of another version are refused, because kernels change from version to version. */
static ls_status check_version(ls_json_value root, const char *path) {
    const char *version;
    LS_TRY(ls_json_text(root, "version", &version));
    if (strcmp(version, LS_VERSION) == 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: field \"version\": the rates were measured by version %.40s, this is %s", path,
                    version, LS_VERSION);
}

bool ls_host_load(ls_isa isa, ls_host *out) {
    LS_PATH path = NULL;
    *out = ls_host_nominal(isa);
    if (ls_host_path(isa, &path).code != LS_OK || !ls_file_exists(path)) return false;
    ls_json *document = NULL;
    ls_host measured = *out; /* kernels without a sample have no rates in the file */
    ls_status status = ls_json_read(path, LS_JSON_MOST_BYTES, &document);
    if (status.code == LS_OK) status = check_version(ls_json_root(document), path);
    if (status.code == LS_OK) status = read_rates(ls_json_root(document), &measured);
    ls_json_free(document);
    if (status.code != LS_OK) {
        ls_log("%s; nominal rates are used (longspan bench machine measures again)", status.text);
        return false;
    }
    *out = measured;
    return true;
}
