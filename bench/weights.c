/*
 * How long it takes to load a model's weights from a file into a rank's memory, and how much memory that takes besides
 * the memory of the weights themselves: directly from the mapped file, and through f64, as for sources that are not
 * files. One JSON object per case on standard output.
 *
 *   make bench
 *   build/bench/weights [FOLDER for the file, /tmp] [millions of parameters, 250] [threads, all]
 *
 * The file is written (bf16, f16 or f32), read once so that it is in the page cache, and then read in both ways in
 * alternation; the figures are medians of ROUNDS. cold: the system was asked to drop the file from the page cache
 * before (without a guarantee). gb_per_second: bytes of the file over seconds. peak_bytes: the highest resident memory
 * minus that before; pages of the file count while they are mapped.
 */
#include "base/base.h"
#include "format/format.h"
#include "model/model.h"
#include "session/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, E = 1024, F = 2816, V = 8192 };

static ls_status write_config(const char *folder, int64_t parameters) {
    LS_PATH path = NULL;
    char text[512];
    const int64_t layer = 4 * (int64_t)E * E + 3 * (int64_t)E * F;
    snprintf(
        text, sizeof text,
        "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": %d, \"hidden_size\": %d, \"intermediate_size\": %d,"
        " \"num_hidden_layers\": %lld, \"num_attention_heads\": 16, \"tie_word_embeddings\": true}",
        V, E, F, (long long)ls_max(1, (parameters - (int64_t)V * E) / layer));
    LS_TRY(ls_path_join(folder, "config.json", &path));
    return ls_file_write(path, text, strlen(text));
}

/* Writes numbers around 1 and -1; their values do not matter. */
static ls_status write_file(const ls_image *image, ls_st_dtype dtype, const char *path) {
    enum { BLOCK = 1 << 20 };
    ls_st_entry *entries = calloc((size_t)image->n_flats, sizeof *entries);
    uint16_t *block = malloc(BLOCK);
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    LS_ASSERT(entries != NULL && block != NULL);
    for (int i = 0; i < BLOCK / 2; i++) block[i] = (uint16_t)(0x3c00 + (i * 40503 & 0x83ff));
    for (int i = 0; i < image->n_flats; i++) {
        entries[i] = (ls_st_entry){image->flats[i].name, dtype, image->flats[i].shape.ndim, {0}};
        for (int d = 0; d < entries[i].ndim; d++) entries[i].shape[d] = image->flats[i].shape.dim[d].size;
    }
    LS_TRY(ls_st_plan_create(entries, image->n_flats, NULL, 0, &plan));
    LS_TRY(ls_st_create(path, plan, &writer));
    for (int i = 0; i < image->n_flats; i++)
        for (int64_t at = 0; at < ls_st_plan_bytes(plan, i); at += BLOCK)
            LS_TRY(ls_st_write(writer, i, at, block, ls_min(BLOCK, ls_st_plan_bytes(plan, i) - at)));
    LS_TRY(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
    free(block);
    free(entries);
    return ls_ok();
}

/* Memory of this process in bytes. what: "VmRSS", or "VmHWM", the highest since the last reset. */
static int64_t memory_now(const char *what) {
    char line[256];
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, what, strlen(what)) == 0) (void)sscanf(line + strlen(what) + 1, "%lld", &kib);
    if (file != NULL) fclose(file);
    return kib * 1024;
}

static void reset_highest(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL) return;
    fputs("5", file);
    fclose(file);
}

static void let_go(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

typedef struct reading {
    double seconds;
    int64_t peak;
} reading;

static ls_status read_once(const ls_rank *rank, const ls_model *model, bool direct, reading *out) {
    ls_weight_source source;
    reset_highest();
    const int64_t before = memory_now("VmRSS");
    const double start = ls_seconds();
    LS_TRY(ls_model_weights(model, rank->image, 0, &source));
    if (!direct) source.convert = NULL;
    const ls_status status = ls_weights_fill(rank->executor, &source);
    *out = (reading){ls_seconds() - start, memory_now("VmHWM") - before};
    ls_weights_close(&source);
    return status;
}

enum { DIRECT, BY_F64, COLD, WAYS };

typedef struct measuring {
    const ls_model *model;
    const char *path; /* of the weights */
} measuring;

typedef struct readings {
    reading of[WAYS][ROUNDS];
} readings;

static ls_status measure(ls_rank *rank, const void *input, void *result) {
    const measuring *m = input;
    readings *out = result;
    LS_TRY(read_once(rank, m->model, true, &out->of[DIRECT][0])); /* from here on the file is in the page cache */
    for (int i = 0; i < ROUNDS; i++)
        for (int way = DIRECT; way <= BY_F64; way++) LS_TRY(read_once(rank, m->model, way == DIRECT, &out->of[way][i]));
    for (int i = 0; i < ROUNDS; i++) {
        let_go(m->path);
        LS_TRY(read_once(rank, m->model, true, &out->of[COLD][i]));
    }
    return ls_ok();
}

static void print(const char *file_type, const char *graph_type, const char *way, bool cold, int64_t bytes,
                  const reading *all) {
    double seconds[ROUNDS];
    int64_t peak = 0;
    for (int i = 0; i < ROUNDS; i++) {
        seconds[i] = all[i].seconds;
        peak = ls_max(peak, all[i].peak);
    }
    const double median = ls_median(seconds, ROUNDS);
    printf(
        "{\"file\": \"%s\", \"graph\": \"%s\", \"way\": \"%s\", \"cold\": %s, \"file_bytes\": %lld, \"seconds\": %.4f, "
        "\"gb_per_second\": %.2f, \"peak_bytes\": %lld}\n",
        file_type, graph_type, way, cold ? "true" : "false", (long long)bytes, median, (double)bytes / median / 1e9,
        (long long)peak);
    fflush(stdout);
}

/* Runs one rank as a thread of this process, whose memory is measured. */
static ls_status measure_on(const ls_model *model, ls_session *session, const char *folder, ls_st_dtype file_type,
                            ls_dtype dtype) {
    LS_PATH path = NULL;
    ls_file_map map;
    readings got;
    LS_TRY(ls_path_join(folder, "model.safetensors", &path));
    const measuring m = {.model = model, .path = path};
    LS_TRY(write_file(ls_session_image(session), file_type, path));
    LS_TRY(ls_file_map_open(path, &map));
    const int64_t bytes = (int64_t)map.bytes;
    ls_file_map_close(&map);
    LS_TRY(ls_session_run(session, measure, &m, &got, sizeof got));
    const char *name = ls_st_dtype_name(file_type), *graph = ls_dtype_name(dtype);
    print(name, graph, "direct", false, bytes, got.of[DIRECT]);
    print(name, graph, "by f64", false, bytes, got.of[BY_F64]);
    print(name, graph, "direct", true, bytes, got.of[COLD]);
    return ls_file_remove_tree(path);
}

static ls_status measure_types(const char *folder, ls_st_dtype file_type, ls_dtype dtype, int threads) {
    ls_language_model lm;
    ls_session *session = NULL;
    ls_model *model;
    LS_TRY(ls_model_open(folder, &model));
    ls_graph *graph = ls_graph_create(dtype);
    const ls_job job = {.graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_APPLY, 0)};
    const ls_spread spread = {.ranks = 1, .threads = threads, .as_threads = true};
    ls_status status = ls_model_build(model, graph, 1, 8, true, &lm);
    if (status.code == LS_OK) status = ls_session_open(&job, &spread, &session);
    if (status.code == LS_OK) status = measure_on(model, session, folder, file_type, dtype);
    ls_session_close(session);
    ls_graph_destroy(graph);
    ls_model_close(model);
    return status;
}

static ls_status run(const char *folder, int64_t parameters, int threads) {
    static const struct {
        ls_st_dtype file;
        ls_dtype graph;
    } cases[] = {{LS_ST_BF16, LS_BF16}, {LS_ST_BF16, LS_F32}, {LS_ST_F16, LS_F32}, {LS_ST_F32, LS_F32}};
    LS_TRY(write_config(folder, parameters));
    for (size_t i = 0; i < LS_COUNT(cases); i++) LS_TRY(measure_types(folder, cases[i].file, cases[i].graph, threads));
    return ls_ok();
}

int main(int argc, char **argv) {
    LS_PATH folder = NULL;
    ls_status status = ls_path_print(&folder, "%s/longspan-weights-XXXXXX", argc > 1 ? argv[1] : "/tmp");
    if (status.code == LS_OK && mkdtemp(folder) == NULL) status = ls_error(LS_IO, "cannot make %s", folder);
    if (status.code == LS_OK) {
        status = run(folder, (argc > 2 ? atoll(argv[2]) : 250) * 1000000, argc > 3 ? atoi(argv[3]) : 0);
        const ls_status removed = ls_file_remove_tree(folder);
        if (status.code == LS_OK) status = removed;
    }
    if (status.code != LS_OK) fprintf(stderr, "weights: %s\n", status.text);
    return status.code != LS_OK;
}
