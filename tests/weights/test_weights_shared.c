/* Weights that the ranks fill together have the bits of those that each fills alone, and each reads only its share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/train.h"

#include "model/model.h"
#include "support/tensors.h"
#include "weights/weights.h"

enum { MOST_RANKS = 5 };

/* A source that counts what is taken from it. */
typedef struct counted {
    ls_weight_source source;
    _Atomic int64_t elements;
    int64_t fails_from; /* of the flat space; -1: nowhere */
} counted;

static ls_status read_counted(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    counted *c = context;
    atomic_fetch_add(&c->elements, count);
    if (c->fails_from >= 0 && flat->start + start + count > c->fails_from) return ls_error(LS_IO, "a bad block");
    return c->source.read(c->source.context, flat, start, count, out);
}

typedef struct work {
    const ls_model *model;
    int64_t *taken; /* elements, by rank; ranks are threads, and each writes its own */
    bool fails;
} work;

static int64_t elements_of(const ls_image *image) {
    int64_t n = 0;
    for (int i = 0; i < image->n_flats; i++) n += image->flats[i].count;
    return n;
}

/* Compares the parameters, and the masters if there are some, with those that this rank fills alone. */
static ls_status compare(const ls_rank *rank, ls_weight_source *source) {
    const ls_image *image = rank->image;
    const char *names[] = {LS_BIND_PARAMETERS, LS_BIND_MASTER};
    char *copy[LS_COUNT(names)] = {NULL};
    size_t bytes[LS_COUNT(names)] = {0};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        const ls_binding *binding = ls_image_find(image, names[i]);
        if (binding == NULL) continue;
        const ls_view *view = &binding->operand.view;
        bytes[i] = ls_dtype_bytes(view->dtype) * (size_t)ls_view_elements(view);
        copy[i] = copy_of_operand(rank->executor, &binding->operand);
        LS_TRY(ls_executor_clear(rank->executor, &binding->operand));
    }
    ls_status status = ls_weights_fill(rank->executor, source);
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        if (copy[i] == NULL) continue;
        char *alone = copy_of_tensor(rank->executor, names[i]);
        if (memcmp(copy[i], alone, bytes[i]) != 0) status = ls_error(LS_INVALID, "%s differs", names[i]);
        free(alone);
        free(copy[i]);
    }
    return status;
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const work *w = input;
    counted c = {.fails_from = w->fails ? elements_of(rank->image) - 1 : -1};
    LS_TRY(ls_model_weights(w->model, rank->image, 11, &c.source));
    const ls_weight_source source = {.read = read_counted, .context = &c};
    ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    w->taken[rank->rank] = c.elements;
    if (status.code == LS_OK) status = compare(rank, &c.source);
    ls_weights_close(&c.source);
    return status;
}

static void run(void **state, ls_dtype dtype, int ranks, bool fails) {
    int64_t taken[MOST_RANKS] = {0};
    work w = {.fails = fails, .taken = taken};
    ls_model *model;
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(dtype);
    assert_ok(ls_model_open(tiny_model(state), &model));
    assert_ok(ls_model_build(model, graph, 1, 32, true, &lm));
    const ls_job job = {.graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_APPLY, 0)};
    const ls_spread spread = {.ranks = ranks, .threads = 2, .as_threads = true};
    ls_session *session;
    w.model = model;
    assert_ok(ls_session_open(&job, &spread, &session));
    const int64_t all = elements_of(ls_session_image(session));
    const ls_status status = ls_session_run(session, on_rank, &w, NULL, 0);
    if (fails)
        assert_error(status, LS_IO, "a bad block", "rank ");
    else
        assert_ok(status);
    /* A rank's share, and in bf16 also its masters; shares are cut where padding lies, too. */
    const int64_t most = ranks == 1 ? all : (all / ranks + 4096) * (dtype == LS_BF16 ? 2 : 1);
    for (int r = 0; r < ranks; r++) assert_in_range(taken[r], all / ranks / 2, most);
    ls_session_close(session);
    ls_graph_destroy(graph);
    ls_model_close(model);
}

/* ---- what ranks of a host have in common ---- */

/* Compares the parameters, which no program changes, with the source. */
static ls_status compare_common(const ls_rank *rank, const ls_weight_source *source) {
    const ls_image *image = rank->image;
    assert_true(image->bytes[LS_COMMON] > 0);
    for (int f = 0; f < image->n_flats; f++) {
        const ls_flat *flat = &image->flats[f];
        double *wide = malloc(sizeof *wide * (size_t)flat->count);
        char *narrow = malloc(sizeof(double) * (size_t)flat->count);
        LS_TRY(source->read(source->context, flat, 0, flat->count, wide));
        ls_weights_narrow(wide, flat->count, flat->dtype, narrow);
        const ls_operand at = ls_image_elements(image, ls_flat_values(image, flat), flat->start, flat->count);
        char *copy = copy_of_operand(rank->executor, &at);
        const bool same = memcmp(copy, narrow, ls_dtype_bytes(flat->dtype) * (size_t)flat->count) == 0;
        free(copy);
        free(narrow);
        free(wide);
        if (!same) return ls_error(LS_INVALID, "%s differs", flat->name);
    }
    return ls_ok();
}

static ls_status on_rank_in_common(ls_rank *rank, const void *input, void *result) {
    (void)result;
    const work *w = input;
    counted c = {.fails_from = -1};
    LS_TRY(ls_model_weights(w->model, rank->image, 11, &c.source));
    const ls_weight_source source = {.read = read_counted, .context = &c};
    ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    w->taken[rank->rank] = c.elements;
    if (status.code == LS_OK) status = compare_common(rank, &c.source);
    ls_weights_close(&c.source);
    return status;
}

/* hosts: of LONGSPAN_HOSTS; NULL: one. */
static void run_in_common(void **state, ls_dtype dtype, int ranks, const char *hosts) {
    int64_t taken[MOST_RANKS] = {0};
    work w = {.taken = taken};
    ls_model *model;
    ls_language_model lm;
    ls_graph *graph = ls_graph_create(dtype);
    assert_ok(ls_model_open(tiny_model(state), &model));
    assert_ok(ls_model_build(model, graph, 1, 32, true, &lm));
    const ls_job job = {
        .graph = graph, .programs = ls_training_programs(graph, 0, LS_UPDATE_REDUCE, 0), .filled_together = true};
    const ls_spread spread = {.ranks = ranks, .threads = 2, .as_threads = true};
    ls_session *session;
    w.model = model;
    if (hosts != NULL) setenv(LS_HOSTS_VARIABLE, hosts, 1);
    assert_ok(ls_session_open(&job, &spread, &session));
    const int64_t all = elements_of(ls_session_image(session));
    assert_ok(ls_session_run(session, on_rank_in_common, &w, NULL, 0));
    for (int r = 0; r < ranks; r++) assert_in_range(taken[r], all / ranks / 2, all / ranks + 4096);
    unsetenv(LS_HOSTS_VARIABLE);
    ls_session_close(session);
    ls_graph_destroy(graph);
    ls_model_close(model);
}

/* Each element is read once, also by hosts that exchange what each has read. */
static void test_common(void **state) {
    run_in_common(state, LS_F32, 2, NULL);
    run_in_common(state, LS_BF16, 3, NULL);
    run_in_common(state, LS_BF16, 4, "0,0,1,1");
}

static void test_shares(void **state) {
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++) {
        run(state, LS_F32, ranks, false);
        run(state, LS_BF16, ranks, false);
    }
}

/* The last element cannot be read: all ranks fail, and name the rank that should have read it. */
static void test_failure(void **state) { run(state, LS_F32, 3, true); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shares, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(test_common, scratch_make, scratch_remove),
        cmocka_unit_test_setup_teardown(test_failure, scratch_make, scratch_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
