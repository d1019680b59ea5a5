/*
 * The bytes that run.json predicts are those that the operating system reports for a rank; activations shrink with
 * the ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "comm/comm_impl.h"
#include "support/emulated.h"
#include "support/train.h"

static ls_json_value rank_bytes(ls_json *run, int rank) {
    ls_json_value all;
    assert_ok(ls_json_array(ls_json_root(run), "predicted_bytes", &all));
    return ls_json_item(all, (size_t)rank);
}

static int64_t number(ls_json_value object, const char *key) {
    int64_t value;
    assert_ok(ls_json_int(object, key, 0, INT64_MAX, &value));
    return value;
}

static ls_json *read_run(const char *out) {
    char path[600];
    snprintf(path, sizeof path, "%s/run.json", out);
    ls_json *run;
    assert_ok(ls_json_read(path, LS_JSON_MOST_BYTES, &run));
    return run;
}

/* Bytes that a process maps under a name, from /proc/PID/smaps. */
static int64_t mapped_as(pid_t pid, const char *name) {
    char path[64], line[600];
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int64_t bytes = 0;
    unsigned long start, end;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strstr(line, name) != NULL) bytes += (int64_t)(end - start);
    fclose(file);
    return bytes;
}

/*
 * Whether the process has an anonymous mapping of exactly this size; kernels without names for mappings show no more.
 */
static bool maps_exactly(pid_t pid, int64_t bytes) {
    char path[64], line[600];
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    bool found = false;
    unsigned long start, end, inode;
    while (fgets(line, sizeof line, file) != NULL)
        found |= sscanf(line, "%lx-%lx rw-p %*x %*s %lu", &start, &end, &inode) == 3 && inode == 0 &&
                 (int64_t)(end - start) == bytes;
    fclose(file);
    return found;
}

/* Reports when the system does not say what a process maps. */
static bool without_maps(void) {
    if (access("/proc/self/smaps", R_OK) == 0) return false;
    print_message("there is no /proc/self/smaps here: what a rank maps cannot be asked\n");
    return true;
}

static int64_t round_page(int64_t bytes) { return (int64_t)ls_round_up((size_t)bytes, (size_t)sysconf(_SC_PAGESIZE)); }

/* Texts of a few sequences and of a part of one. */
static const char *make_documents(void **state) {
    enum { DOCUMENTS = 40 };
    assert_ok(ls_file_make_folders(scratch_path(state, "documents")));
    for (int i = 0; i < DOCUMENTS; i++) {
        char name[40];
        snprintf(name, sizeof name, "documents/%02d.txt", i);
        make_text(state, name, (size_t)(20 + 11 * i));
    }
    return scratch_path(state, "documents");
}

typedef struct mapped_job {
    const char *pack, *shard, *offload, *mesh, *pipeline; /* mesh: NULL where Longspan chooses; else with stages */
    bool frozen; /* matrices are not trained: of these the ranks have one copy */
} mapped_job;

static void check_mapped(void **state, mapped_job job) {
    enum { RANKS = 3 };
    static const char *const frozen = "*proj*:frozen";
    char name[80];
    snprintf(name, sizeof name, "%s-%s-%s-%s-%d", job.pack, job.shard, job.offload,
             job.mesh != NULL ? job.pipeline : "", job.frozen);
    run_paths *p = make_paths(state, name);
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    const char *documents = make_documents(state);
    options.data = &documents;
    options.pack = job.pack;
    options.spread.ranks = RANKS;
    options.spread.shard = job.shard;
    options.spread.offload = job.offload;
    options.spread.mesh = job.mesh;
    options.spread.pipeline = job.pipeline;
    options.groups = &frozen;
    options.n_groups = job.frozen;
    options.steps = 100000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 3);
    ls_json *predicted = read_run(p->out);
    const int64_t common = number(rank_bytes(predicted, 0), "common");
    assert_int_equal(common > 0, job.frozen && strcmp(job.shard, "parameters") != 0);
    int64_t heaps = common, differ = 0;
    for (int r = 0; r < RANKS; r++) {
        const pid_t pid = rank_process(run.pid, r);
        assert_true(pid > 0);
        const int64_t expected = round_page(number(rank_bytes(predicted, r), "private")),
                      host = round_page(number(rank_bytes(predicted, r), "host"));
        const int64_t named = mapped_as(pid, "[anon:longspan]");
        assert_int_equal(host > 0, strcmp(job.offload, "none") != 0);
        if (named != 0) assert_int_equal(named, expected + host);
        /* The system may show two arenas that follow each other as one mapping. */
        assert_true(maps_exactly(pid, expected) || maps_exactly(pid, expected + host));
        assert_false(maps_exactly(pid, expected + host + sysconf(_SC_PAGESIZE)));
        heaps += number(rank_bytes(predicted, r), "symmetric");
        differ += number(rank_bytes(predicted, r), "symmetric") != number(rank_bytes(predicted, 0), "symmetric");
    }
    /*
     * One mapping holds all heaps, each with the inbox of host collectives and rounded to pages, and a board of
     * signals; and, once, what the ranks have in common.
     */
    const int64_t inbox = 2 * (int64_t)ls_host_inbox_bytes(RANKS);
    const int64_t shared = mapped_as(rank_process(run.pid, 0), "longspan-heap");
    assert_true(shared >= heaps);
    assert_true(shared <= heaps + RANKS * (inbox + 2 * 4096) + 32768);
    assert_int_equal(differ > 0, job.mesh != NULL); /* stages have other heaps each */
    ls_json_free(predicted);
    (void)kill(run.pid, SIGKILL);
    (void)end_run(&run, NULL);
    free(p);
}

static void predicted_is_mapped(void **state) {
    if (sanitized_by("thread") || without_maps()) skip(); /* ranks share one process there */
    static const char *const packs[] = {"join", "best", "stream"};
    for (size_t i = 0; i < LS_COUNT(packs); i++)
        check_mapped(state, (mapped_job){.pack = packs[i], .shard = "optimizer", .offload = "none"});
    static const char *const modes[] = {"none", "gradients", "parameters"};
    for (size_t i = 0; i < LS_COUNT(modes); i++)
        check_mapped(state, (mapped_job){.pack = "join", .shard = modes[i], .offload = "none"});
    check_mapped(state, (mapped_job){.pack = "join", .shard = "optimizer", .offload = "all"});
    check_mapped(state, (mapped_job){.pack = "join", .shard = "optimizer", .offload = "none", .frozen = true});
    static const char *const pipelines[] = {"1f1b", "zero-bubble"};
    for (size_t i = 0; i < LS_COUNT(pipelines); i++)
        check_mapped(
            state,
            (mapped_job){.pack = "join", .shard = "none", .offload = "none", .mesh = "pp=3", .pipeline = pipelines[i]});
}

/* Large enough that the arenas dominate the memory of the process. */
static const char *larger_model(void **state) {
    return scratch_text(state, "larger.json",
                        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 2048,"
                        " \"hidden_size\": 256, \"intermediate_size\": 1024, \"num_hidden_layers\": 3,"
                        " \"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"max_position_embeddings\": 4096}");
}

/* A line "RssAnon:  123 kB" of /proc/PID/status, in bytes. */
static int64_t resident_anonymous(pid_t pid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    long long kilobytes = -1;
    while (kilobytes < 0 && fgets(line, sizeof line, file) != NULL) (void)sscanf(line, "RssAnon: %lld kB", &kilobytes);
    fclose(file);
    return kilobytes < 0 ? -1 : (int64_t)kilobytes * 1024;
}

/* Where the mapping of that name ends in the process. */
static uint64_t mapping_end(pid_t pid, const char *name) {
    char path[64], line[600];
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    unsigned long start, end, found = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strstr(line, name) != NULL) found = end;
    fclose(file);
    return found;
}

/* Bytes of [start, start + bytes) that the process has touched; all of them where the system does not tell. */
static int64_t resident_in(pid_t pid, uint64_t start, int64_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    FILE *file = fopen(path, "rb");
    const int64_t page = sysconf(_SC_PAGESIZE), pages = bytes / page;
    if (file == NULL || fseek(file, (long)((int64_t)start / page * 8), SEEK_SET) != 0) return bytes;
    int64_t resident = 0;
    for (int64_t i = 0; i < pages; i++) {
        uint64_t entry = UINT64_MAX;
        if (fread(&entry, sizeof entry, 1, file) != 1) entry = UINT64_MAX;
        resident += entry >> 63 != 0 ? page : 0;
    }
    fclose(file);
    return resident;
}

static void resident_is_predicted(void **state) {
    if (sanitized_by("address") || sanitized_by("thread") || without_maps())
        skip(); /* a sanitizer's own memory is anonymous too */
    enum { RANKS = 2, SAMPLES = 40 };
    run_paths *p = make_paths(state, "resident");
    ls_train_options options = tiny_options(larger_model(state), p->data, p->out);
    options.seq = 2048;
    options.batch = options.accumulate = 1;
    options.steps = 100000;
    child_run run = start_run(&options, NULL);
    wait_for_step(&run, p->out, 2);
    ls_json *predicted = read_run(p->out);
    int64_t most[RANKS] = {0}, bound[RANKS];
    for (int r = 0; r < RANKS; r++) {
        const int64_t bytes =
            number(rank_bytes(predicted, r), "private") + number(rank_bytes(predicted, r), "symmetric");
        assert_true(bytes > 96 << 20); /* the allowance must not be most of the bound */
        bound[r] = bytes + bytes / 20 + (64 << 20);
    }
    const int64_t symmetric = number(rank_bytes(predicted, 0), "symmetric");
    const int64_t stride =
        round_page((int64_t)ls_round_up((size_t)symmetric, 64) + 2 * (int64_t)ls_host_inbox_bytes(RANKS));
    for (int i = 0; i < SAMPLES; i++) { /* over more than a step */
        for (int r = 0; r < RANKS; r++) {
            const pid_t pid = rank_process(run.pid, r);
            assert_true(pid > 0);
            const uint64_t heap = mapping_end(pid, "longspan-heap") - (uint64_t)((RANKS - r) * stride);
            const int64_t anonymous = resident_anonymous(pid);
            assert_true(anonymous > 0);
            most[r] = ls_max(most[r], anonymous + resident_in(pid, heap, stride));
        }
        usleep(50000);
    }
    for (int r = 0; r < RANKS; r++) {
        print_message("rank %d: %.1f MiB resident, %.1f MiB allowed\n", r, (double)most[r] / 1048576,
                      (double)bound[r] / 1048576);
        assert_true(most[r] <= bound[r]);
        assert_true(2 * most[r] > bound[r] - (64 << 20)); /* it is the arenas that are seen */
    }
    ls_json_free(predicted);
    (void)kill(run.pid, SIGKILL);
    (void)end_run(&run, NULL);
    free(p);
}

static void measured_is_predicted(void **state) {
    run_paths *p = make_paths(state, "measured");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.steps = 3;
    train_as_predicted(&options);
    free(p);
}

static ls_json *predict(void **state, int64_t ranks, const char *strategy) {
    char name[32];
    snprintf(name, sizeof name, "act-%ld-%s", (long)ranks, strategy);
    run_paths *p = make_paths(state, name);
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.seq = 4096; /* oneDNN's scratch, half a MiB however short the part, must not dominate */
    options.batch = options.accumulate = options.steps = 1;
    options.warmup = 0;
    options.spread.ranks = ranks;
    options.spread.strategy = strategy;
    TRAIN_RESULT result = {.steps = 0};
    assert_ok(train_into(&options, &result));
    ls_json *run = read_run(p->out);
    free(p);
    return run;
}

static void activations_shrink_with_ranks(void **state) {
    ls_json *alone = predict(state, 1, "local");
    const double whole = (double)number(rank_bytes(alone, 0), "activations");
    assert_true(whole > 1e6);
    for (int64_t ranks = 2; ranks <= 4; ranks *= 2) {
        ls_json *shared = predict(state, ranks, "ring");
        for (int r = 0; r < ranks; r++) {
            const double part = (double)number(rank_bytes(shared, r), "activations");
            if (!(part <= 1.1 * whole / (double)ranks))
                fail_msg("rank %d of %d: %.0f bytes of activations, of %.0f on one rank", r, (int)ranks, part, whole);
        }
        ls_json_free(shared);
    }
    ls_json_free(alone);
}

static void what_does_not_fit_is_refused(void **state) {
    skip_if_repeated();
    run_paths *p = make_paths(state, "fits");
    ls_train_options options = tiny_options(p->model, p->data, p->out);
    options.spread.memory = 100000;
    options.spread.mesh = "ring=2"; /* of which more ranks need not be tried */
    TRAIN_RESULT result = {.steps = 0};
    assert_error(train_into(&options, &result), LS_NO_MEMORY, "--memory allows 100000", "a rank needs");
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_is_mapped),          cmocka_unit_test(resident_is_predicted),
        cmocka_unit_test(measured_is_predicted),        cmocka_unit_test(activations_shrink_with_ranks),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
