/*
 * No memory is allocated in a step: every allocation by any thread while ranks train is counted. The allocation
 * functions of the C library are replaced by ones that count and call the originals. oneDNN allocates in each call
 * (a table of its arguments, some hundred bytes), and in its first calls through the C library; it is recognised by
 * the call stack, and nothing else may allocate.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "model/model.h"
#include "support/train.h"
#include "train/train.h"
#include "weights/weights.h"

static atomic_bool counting;
static atomic_int calls, of_onednn;
static atomic_size_t first_bytes;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
enum { REPLACED = true };

/* Longspan is C without OpenMP, so allocations of the C++ and OpenMP libraries are oneDNN's too. */
static bool is_onednn(const void *caller) {
    static const char *const libraries[] = {"libdnnl", "libstdc++", "libgomp"};
    Dl_info from;
    if (dladdr(caller, &from) == 0 || from.dli_fname == NULL) return false;
    for (size_t i = 0; i < LS_COUNT(libraries); i++)
        if (strstr(from.dli_fname, libraries[i]) != NULL) return true;
    return false;
}

/* Whether one of the functions on the call stack is in oneDNN. */
static bool is_for_onednn(void) {
    void *callers[24];
    const int n = backtrace(callers, LS_COUNT(callers));
    for (int i = 0; i < n; i++)
        if (is_onednn(callers[i])) return true;
    return false;
}

static void count(size_t bytes, const void *caller) {
    if (!atomic_load(&counting)) return;
    if (is_onednn(caller) || is_for_onednn())
        atomic_fetch_add(&of_onednn, 1);
    else if (atomic_fetch_add(&calls, 1) == 0)
        atomic_store(&first_bytes, bytes);
}

#pragma GCC visibility push(default) /* the C library's own calls come here, too */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    count(bytes, __builtin_return_address(0));
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count(n * bytes, __builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    count(bytes, __builtin_return_address(0));
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count(bytes, __builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}
#pragma GCC visibility pop

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    count(bytes, __builtin_return_address(0));
    *out = __libc_memalign(alignment, bytes);
    return *out != NULL ? 0 : ENOMEM;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    count(bytes, __builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file,
                           offset); // NOLINT(performance-no-int-to-ptr)
}
#else
enum { REPLACED = false };
#endif

/* --- a training --------------------------------------------------------------------------------------------------- */

enum { S = 192, V = 256, STEPS = 3, ACCUMULATE = 2 };

typedef struct example {
    ls_dtype dtype;
    ls_spread spread;
} example;

static const example examples[] = {
    {LS_F32, {.ranks = 1, .threads = 2}},
    {LS_BF16, {.ranks = 1, .threads = 2}},
    {LS_F32, {.ranks = 2, .threads = 2, .strategy = "ring", .layout = "zigzag", .transfers = "put"}},
    {LS_BF16, {.ranks = 2, .threads = 1, .strategy = "ring", .layout = "striped", .transfers = "in-place"}},
    {LS_BF16, {.ranks = 2, .threads = 1, .strategy = "ulysses"}},
    {LS_F32, {.ranks = 3, .threads = 1, .mesh = "dp=3"}},
};

static ls_status read_sequence(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    (void)context;
    int32_t tokens[S], labels[S];
    for (int64_t i = 0; i < S; i++) {
        tokens[i] = (int32_t)((index + i) * 89 % V);
        labels[i] = (int32_t)((index + i + 1) * 89 % V);
    }
    ls_sample_take(&(ls_sample){.tokens = tokens, .labels = labels}, S, part, out);
    return ls_ok();
}

/* Counts on all ranks or on none. */
static ls_status set_counting(const ls_rank *rank, bool on) {
    LS_TRY(ls_comm_barrier(rank->comm));
    if (rank->rank == 0) atomic_store(&counting, on);
    return ls_comm_barrier(rank->comm);
}

static ls_status train(const ls_rank *rank, ls_trainer *trainer) {
    const ls_sequences from = {.sample = read_sequence};
    const ls_step_hyper hyper = {1e-3, 1, 0.9, 0.95};
    LS_TRY(set_counting(rank, true));
    for (int64_t step = 0; step < STEPS; step++) {
        ls_step_report report;
        LS_TRY(ls_trainer_step(trainer, &from, step, &hyper, (ls_wish){LS_STOP_NOT}, &report));
        if (!report.applied) return ls_error(LS_INVALID, "step %lld was not applied", (long long)step);
    }
    return set_counting(rank, false);
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    ls_weight_source source;
    LS_TRY(ls_model_weights(input, rank->image, 7, &source));
    ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    const int dp = ls_mesh_replicas(&rank->image->mesh);
    ls_trainer *trainer = NULL;
    if (status.code == LS_OK) status = ls_trainer_create(rank, dp, ACCUMULATE, S, LS_MEAN_LABELS, &trainer);
    if (status.code == LS_OK) status = train(rank, trainer);
    ls_trainer_destroy(trainer);
    return status;
}

static void check(void **state, const example *e) {
    ls_model *model;
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(e->dtype);
    assert_ok(ls_model_open(tiny_model(state), &model));
    assert_ok(ls_model_build(model, graph, e->spread.mesh != NULL ? 3 : 1, S, true, &lm));
    const ls_job job = {.graph = graph,
                        .programs = ls_training_programs(graph, lm.forward_nodes, LS_UPDATE_APPLY, 1),
                        .hyper = {0.9, 0.95, 1e-8, 0.1}};
    ls_spread spread = e->spread;
    spread.as_threads = true; /* that all are counted */
    ls_session *session;
    assert_ok(ls_session_open(&job, &spread, &session));
    atomic_store(&calls, 0);
    atomic_store(&of_onednn, 0);
    assert_ok(ls_session_run(session, on_rank, model, NULL, 0));
    const int allocated = atomic_load(&calls);
    if (allocated != 0)
        fail_msg("%s, %lld ranks, %s: %d allocations in %d steps, the first of %zu bytes", ls_dtype_name(e->dtype),
                 (long long)e->spread.ranks, ls_session_describe(session).strategy, allocated, STEPS,
                 atomic_load(&first_bytes));
    print_message("%s, %lld ranks: none but %d of oneDNN\n", ls_dtype_name(e->dtype), (long long)e->spread.ranks,
                  atomic_load(&of_onednn));
    ls_session_close(session);
    ls_graph_destroy(graph);
    ls_model_close(model);
}

static void steps_allocate_nothing(void **state) {
    if (!REPLACED) skip(); /* a sanitizer has functions of its own */
    for (size_t i = 0; i < LS_COUNT(examples); i++) check(state, &examples[i]);
}

/* The counter itself is tested: allocations that it missed would be missed above too. */
static void allocations_are_counted(void **state) {
    (void)state;
    if (!REPLACED) skip();
    atomic_store(&calls, 0);
    atomic_store(&counting, true);
    ls_arena *arena = ls_arena_create();
    FILE *file = fopen("/proc/self/status", "re"); /* allocates within the C library */
    ls_pool *pool;
    const ls_status status = ls_pool_create(2, false, &pool);
    atomic_store(&counting, false);
    assert_ok(status);
    assert_non_null(file);
    assert_true(atomic_load(&calls) >= 5); /* the arena and its chunk, the file, the pool and its workers */
    ls_pool_destroy(pool);
    assert_int_equal(fclose(file), 0);
    ls_arena_destroy(arena);
}

int main(void) {
    void *caller;
    (void)backtrace(&caller, 1); /* the first call loads a library */
    const struct CMUnitTest tests[] = {cmocka_unit_test(allocations_are_counted),
                                       cmocka_unit_test(steps_allocate_nothing)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
