/* The file with the rates of a machine. */
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

#define ATTENTION(direction, name, part, least) \
    { name "_" #part, offsetof(ls_core_rates, attention[direction].part), least }
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
    {"recurrence", offsetof(ls_core_rates, recurrence[LS_FORWARD]), 1},
    {"recurrence_grad", offsetof(ls_core_rates, recurrence[LS_BACKWARD]), 1},
    {"split", offsetof(ls_core_rates, split), 0},
};
#undef ATTENTION

/* The numbers of each kernel that has a sample. */
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

/* Only GPUs have this rate; if it is 0, the file leaves it out. */
static const rate_row of_peer = {"peer", offsetof(ls_host, peer), 0};

static const struct {
    const char *name;
    ls_dtype type;
} types[] = {{"f32", LS_F32}, {"f64", LS_F64}, {"bf16", LS_BF16}};

static const double *rate_at(const rate_row *row, const void *base) {
    return (const double *)(const void *)((const char *)base + row->offset);
}

/* Write and read the numbers of one struct. */
static void put_rows(const rate_row *rows, size_t n, const void *base, ls_json_writer *w) {
    for (size_t i = 0; i < n; i++) ls_json_put_double(w, rows[i].name, *rate_at(&rows[i], base));
}

static ls_status read_rows(const rate_row *rows, size_t n, ls_json_value from, void *base) {
    for (size_t i = 0; i < n; i++)
        LS_TRY(
            ls_json_double(from, rows[i].name, rows[i].least, 1e18, (double *)(void *)((char *)base + rows[i].offset)));
    return ls_ok();
}

/* Appends text, with each run of characters other than letters and digits replaced by one '-'. */
static void add_plain(char *out, size_t room, const char *text) {
    size_t n = strlen(out);
    for (; *text != 0 && n + 1 < room; text++) {
        const bool plain =
            (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9');
        if (plain || (n > 0 && out[n - 1] != '-')) out[n++] = plain ? *text : '-';
    }
    out[n] = 0;
}

static ls_status find_kind(const char *device, ls_isa isa, ls_host_of *out) {
    ls_host_of of = {.isa = isa};
    ls_device_traits traits;
    LS_TRY(ls_device_choose(device, &of.name, &traits));
    if (traits.submits) of.device = LS_DEVICE_CUDA;
    *out = of;
    return ls_ok();
}

ls_status ls_host_find(const char *device, ls_isa isa, ls_host_of *out) {
    ls_host_of of;
    LS_TRY(find_kind(device, isa, &of));
    LS_TRY(ls_device_describe(of.name, &of.facts));
    *out = of;
    return ls_ok();
}

ls_status ls_host_assume(const char *device, ls_isa isa, ls_host_of *out) {
    ls_host_of of;
    LS_TRY(find_kind(device, isa, &of));
    const ls_status status = ls_device_describe(of.name, &of.facts);
    if (status.code == LS_INVALID) return status;
    if (status.code != LS_OK) ls_log("%s; nominal rates are used", status.text);
    *out = of;
    return ls_ok();
}

ls_status ls_host_path(const ls_host_of *of, char **out) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool has_cache = cache != NULL && cache[0] == '/';
    if (!has_cache && (home == NULL || home[0] == 0))
        return ls_error(LS_IO, "neither XDG_CACHE_HOME nor HOME says where this machine's rates are kept");
    char name[160] = "", whose[64] = "gpu";
    ls_machine machine;
    ls_machine_detect(&machine);
    if (of->device == LS_DEVICE_CPU) snprintf(whose, sizeof whose, "%d-%s", machine.cores, ls_isa_name(of->isa));
    add_plain(name, sizeof name, of->device == LS_DEVICE_CPU ? machine.name : of->facts.model);
    return ls_path_print(out, "%s%s/longspan/%s-%s.json", has_cache ? cache : home, has_cache ? "" : "/.cache", name,
                         whose);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

double ls_row_rate_of(const ls_row_rates *rows, const ls_kernel *kernel) {
    for (int i = 0; i < rows->n; i++) {
        const ls_row_rate *rate = &rows->rate[i];
        if (rate->id == kernel->id && rate->dtype == kernel->dtype && strcmp(rate->row, ls_kernel_row(kernel)) == 0)
            return rate->flops;
    }
    return 0;
}

/* "attention bf16": {"cudnn": 5e14, "own": 2e14}. Rows of one contract and type are consecutive. */
static void put_row_rates(const ls_row_rates *rows, ls_json_writer *w) {
    ls_json_open_object(w, "rows");
    for (int i = 0; i < rows->n; i++) {
        const ls_row_rate *rate = &rows->rate[i], *next = rate + 1;
        char name[64];
        snprintf(name, sizeof name, "%s %s", ls_contracts[rate->id].name, ls_dtype_name(rate->dtype));
        if (i == 0 || rate[-1].id != rate->id || rate[-1].dtype != rate->dtype) ls_json_open_object(w, name);
        ls_json_put_double(w, rate->row, rate->flops);
        if (i + 1 == rows->n || next->id != rate->id || next->dtype != rate->dtype) ls_json_close(w);
    }
    ls_json_close(w);
}

/* false: it does not name a contract and a type. */
static bool read_row_name(const char *name, ls_row_rate *out) {
    char contract[48];
    const size_t length = strcspn(name, " ");
    if (name[length] == 0 || length >= sizeof contract) return false;
    memcpy(contract, name, length);
    contract[length] = 0;
    out->id = ls_kernel_named(contract);
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        if (strcmp(types[t].name, name + length + 1) != 0) continue;
        out->dtype = types[t].type;
        return out->id != LS_KERNEL_NONE;
    }
    return false;
}

static ls_status read_row_group(const char *name, ls_json_value group, ls_row_rates *out) {
    ls_row_rate rate;
    const char *row;
    void *cursor = NULL;
    LS_TRY(ls_json_as_object(group));
    if (!read_row_name(name, &rate)) return ls_json_error(group, "a contract and a type as name, not '%.60s'", name);
    for (ls_json_value value; ls_json_next(group, &cursor, &row, &value);) {
        if (out->n == LS_ROW_RATES || strlen(row) >= sizeof rate.row)
            return ls_json_error(value, "at most %d rows with names of at most %zu letters", LS_ROW_RATES,
                                 sizeof rate.row - 1);
        snprintf(rate.row, sizeof rate.row, "%s", row);
        LS_TRY(ls_json_as_double(value, 1, 1e18, &rate.flops));
        out->rate[out->n++] = rate;
    }
    return ls_ok();
}

static ls_status read_row_rates(ls_json_value root, ls_row_rates *out) {
    out->n = 0;
    if (!ls_json_has(root, "rows")) return ls_ok();
    ls_json_value rows, group;
    const char *name;
    void *cursor = NULL;
    LS_TRY(ls_json_object(root, "rows", &rows));
    for (int groups = 0; ls_json_next(rows, &cursor, &name, &group); groups++) {
        if (groups == LS_KERNEL_CHOICES)
            return ls_json_error(rows, "at most %d contracts and types, as many as there are choices", groups);
        LS_TRY(read_row_group(name, group, out));
    }
    return ls_ok();
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

void ls_host_put(const ls_host *host, const ls_row_rates *rows, ls_json_writer *w) {
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
    if (host->peer > 0) put_rows(&of_peer, 1, host, w);
    if (rows->n > 0) put_row_rates(rows, w);
}

ls_status ls_host_save(const ls_host_of *of, const ls_host *host, const ls_row_rates *rows) {
    LS_PATH path = NULL;
    LS_PATH folder = NULL;
    LS_TRY(ls_host_path(of, &path));
    LS_TRY(ls_path_parent(path, &folder));
    LS_TRY(ls_file_make_folders(folder));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "version", LS_VERSION);
    ls_host_put(host, rows, w);
    return ls_json_end_file(w, path);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

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
    LS_TRY(ls_json_double_or(root, of_peer.name, 0, of_peer.least, 1e18, &out->peer));
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

bool ls_host_load(const ls_host_of *of, ls_host *out, ls_row_rates *rows) {
    LS_PATH path = NULL;
    ls_row_rates measured_rows = {.n = 0};
    *out = ls_host_nominal(of->device, of->isa);
    if (of->device != LS_DEVICE_CPU) out->devices = (double)ls_max(1, of->facts.units);
    if (rows != NULL) *rows = measured_rows;
    const bool named = of->device == LS_DEVICE_CPU || of->facts.model[0] != 0;
    if (!named || ls_host_path(of, &path).code != LS_OK || !ls_file_exists(path)) return false;
    ls_json *document = NULL;
    ls_host measured = *out; /* kernels without a sample have no rates in the file */
    ls_status status = ls_json_read(path, LS_JSON_MOST_BYTES, &document);
    if (status.code == LS_OK) status = check_version(ls_json_root(document), path);
    if (status.code == LS_OK) status = read_rates(ls_json_root(document), &measured);
    if (status.code == LS_OK) status = read_row_rates(ls_json_root(document), &measured_rows);
    ls_json_free(document);
    if (status.code != LS_OK) {
        ls_log("%s; nominal rates are used (longspan bench machine measures again)", status.text);
        return false;
    }
    *out = measured;
    if (rows != NULL) *rows = measured_rows;
    return true;
}
