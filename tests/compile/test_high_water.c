/*
 * The memory that a rank maps is used. Both arenas are filled with a pattern before a step (of two micro-batches in
 * f32, of one in bf16) and before an evaluation; hardly any of it is left afterwards. As a number the pattern is
 * tiny, so sums that begin as zeros may begin with it. Rows of the embedding that no token reads keep the pattern
 * and count as untouched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"
#include "run/run.h"
#include "support/meshes.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "support/worlds.h"
#include "weights/weights.h"

enum { V = 512, MOST_TOKENS = 8192 };
static const uint64_t PATTERN = 0x0da20da20da20da2u; /* 1e-30 as bf16 and f32 */

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 512, \"hidden_size\": 64, \"intermediate_size\": 192,"
    " \"num_hidden_layers\": 3, \"num_attention_heads\": 8, \"num_key_value_heads\": 4,"
    " \"max_position_embeddings\": 4096}";

typedef struct example {
    int dp, ring, ulysses;
    const char *strategy;
    ls_layout_kind layout;
    ls_dtype dtype;
    int64_t S;
    ls_saving saving;
    int threads;
} example;

static const example examples[] = {
    {1, 1, 1, "local", LS_LAYOUT_CONTIGUOUS, LS_F32, 768, {0}, 1},
    {1, 2, 1, "ring", LS_LAYOUT_ZIGZAG, LS_F32, 1024, {0}, 2},
    {1, 3, 1, "ring", LS_LAYOUT_STRIPED, LS_BF16, 1023, {0}, 1},
    {1, 1, 2, "ulysses", LS_LAYOUT_CONTIGUOUS, LS_BF16, 1024, {0}, 2},
    {1, 2, 2, "usp", LS_LAYOUT_ZIGZAG, LS_F32, 1601, {0}, 1},
    {2, 2, 1, "ring", LS_LAYOUT_STRIPED, LS_BF16, 1024, {0}, 1},
    {2, 1, 2, "ulysses", LS_LAYOUT_ZIGZAG, LS_F32, 768, {0}, 1},
    {1, 2, 1, "ring", LS_LAYOUT_ZIGZAG, LS_BF16, 2048, {.drop = 1 << 20}, 1},
    {1, 2, 1, "ring", LS_LAYOUT_ZIGZAG, LS_F32, 1024, {.drop = 20, .tile = LS_TILE_ALL, .tile_rows = 64}, 1},
};

typedef struct shared {
    const example *e;
    ls_model *model;
    const ls_job *job;
    ls_target target;
    int32_t tokens[MOST_TOKENS], labels[MOST_TOKENS], positions[MOST_TOKENS];
    size_t mapped[8], untouched[8]; /* by rank, both arenas */
    char where[8][200];
} shared;

static void scatter(ls_executor *ex, const char *name, const void *global) {
    LS_ASSERT(ls_executor_scatter(ex, ls_image_find(ls_executor_image(ex), name), global).code == LS_OK);
}

static void poison(void *bytes, size_t n) {
    for (size_t i = 0; i < n / sizeof PATTERN; i++) ((uint64_t *)bytes)[i] = PATTERN;
}

/* All but what the executor has written: tables. */
static void poison_arenas(ls_executor *ex, void *const *arena) {
    const ls_image *image = ls_executor_image(ex);
    void **tables = calloc((size_t)image->n_buffers, sizeof *tables);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->kind != LS_BUFFER_TABLE) continue;
        tables[i] = malloc(b->bytes + 1);
        memcpy(tables[i], (char *)arena[b->space] + b->offset, b->bytes);
    }
    for (int s = 0; s < LS_SPACES; s++) poison(arena[s], image->bytes[s]);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (tables[i] != NULL) memcpy((char *)arena[b->space] + b->offset, tables[i], b->bytes);
        free(tables[i]);
    }
    free(tables);
}

static void set_step(shared *s, ls_executor *ex) {
    const ls_image *image = ls_executor_image(ex);
    scatter(ex, "tokens", s->tokens);
    scatter(ex, "labels", s->labels);
    scatter(ex, "positions", s->positions);
    const float scale = 1.0f / (float)s->e->S;
    const double hyper[LS_HYPERS] = {1e-3, 1, 1, 0.9, 0.95}, totals[LS_TOTALS] = {0};
    write_tensor(ex, LS_BIND_SCALE, 1, &scale);
    write_tensor(ex, LS_BIND_HYPER, LS_HYPERS, hyper);
    write_tensor(ex, LS_BIND_TOTALS, LS_TOTALS, totals);
    assert_int_equal(image->accumulator, LS_F32);
}

/*
 * The buffer in which most is left, for the message: of those that persist, or of the bytes' many owners the largest.
 */
static void find_where(const ls_image *image, void *const *arena, char *out, size_t room) {
    size_t most = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        size_t left = 0;
        if (b->program >= 0 && b->first < 0) continue;
        const uint64_t *word = (const uint64_t *)(const void *)((char *)arena[b->space] + b->offset);
        for (size_t w = 0; w < b->bytes / sizeof *word; w++) left += word[w] == PATTERN ? sizeof *word : 0;
        if (left <= most) continue;
        most = left;
        snprintf(out, room, "%zu of the %zu bytes of \"%s\" (%s, program %d)", left, b->bytes, b->name,
                 ls_buffer_kind_name(b->kind), b->program);
    }
}

static ls_status step(shared *s, ls_comm *comm, ls_executor *ex) {
    const ls_image *image = ls_executor_image(ex);
    const int rank = ls_comm_rank(comm);
    const ls_operand first = {.buffer = 0};
    char *base = (char *)ls_executor_host_address(ex, &first) - image->buffers[0].offset; /* an input's: private */
    assert_int_equal(image->buffers[0].space, LS_PRIVATE);
    void *const arena[LS_SPACES] = {base, ls_comm_heap(comm)};
    poison_arenas(ex, arena);
    ls_weight_source source;
    LS_TRY(ls_model_weights(s->model, image, 7, &source));
    LS_TRY(ls_weights_fill(ex, &source));
    ls_weights_close(&source);
    set_step(s, ex);
    char ready[8];
    LS_TRY(ls_comm_exchange(comm, "x", 1, ready)); /* nobody puts into a heap that is not ready */
    for (int p = 0; p < image->n_programs; p++) LS_TRY(ls_executor_run(ex, p));
    LS_TRY(ls_comm_exchange(comm, "x", 1, ready));
    for (int a = 0; a < LS_SPACES; a++) {
        s->mapped[rank] += image->bytes[a];
        for (size_t w = 0; w < image->bytes[a] / sizeof PATTERN; w++)
            s->untouched[rank] += ((uint64_t *)arena[a])[w] == PATTERN ? sizeof PATTERN : 0;
    }
    find_where(image, arena, s->where[rank], sizeof s->where[rank]);
    double control[LS_CONTROLS];
    read_tensor(ex, LS_BIND_CONTROL, LS_CONTROLS, control);
    return control[LS_CONTROL_APPLY] == 1 ? ls_ok() : ls_error(LS_INVALID, "the step was not applied");
}

static ls_status rank_main(ls_comm *comm, void *context) {
    shared *s = context;
    ls_target target = s->target;
    target.rank = ls_comm_rank(comm);
    ls_image *image;
    ls_executor *ex;
    LS_TRY(ls_compile(s->job, &target, &image));
    LS_TRY(ls_executor_create(image, comm, &ex));
    assert_int_equal(ls_executor_touched(ex).bytes, image->bytes[LS_PRIVATE] + image->bytes[LS_SYMMETRIC]);
    const ls_status status = step(s, comm, ex);
    ls_executor_destroy(ex);
    ls_image_destroy(image);
    return status;
}

static void check(void **state, const example *e) {
    ls_machine machine;
    ls_machine_detect(&machine);
    shared *s = calloc(1, sizeof *s);
    s->e = e;
    s->target = (ls_target){.mesh = mesh_of(e->dp, e->ring, e->ulysses),
                            .strategy = e->strategy,
                            .layout = e->layout,
                            .isa = machine.isa,
                            .threads = e->threads,
                            .saving = e->saving};
    assert_true(e->dp * e->S <= MOST_TOKENS);
    for (int64_t i = 0; i < e->dp * e->S; i++) {
        s->tokens[i] = (int32_t)(i * 89 % V);
        s->labels[i] = (int32_t)(i * 89 % V + 1) % V;
        s->positions[i] = (int32_t)(i % e->S);
    }
    ls_graph *g = ls_graph_create(e->dtype);
    ls_language_model lm;
    assert_ok(ls_model_open(scratch_text(state, "config.json", config), &s->model));
    assert_ok(ls_model_build(s->model, g, e->dp, e->S, true, &lm));
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, lm.forward_nodes, LS_UPDATE_APPLY, e->dtype == LS_F32),
                        .hyper = {0.9, 0.95, 1e-8, 0.1}};
    s->job = &job;
    ls_world *world;
    const int ranks = ls_mesh_ranks(&s->target.mesh);
    assert_ok(world_of_job(&job, &s->target, NULL, 20, &world));
    assert_ok(ls_launch(world, ranks, true, rank_main, s));
    for (int r = 0; r < ranks; r++) {
        const double share = (double)s->untouched[r] / (double)s->mapped[r];
        print_message("%s %d %d %d %s, rank %d: %.2f %% of %.1f MiB untouched; most: %s\n", e->strategy, e->dp, e->ring,
                      e->ulysses, ls_dtype_name(e->dtype), r, 100 * share, (double)s->mapped[r] / 1048576, s->where[r]);
        assert_true(s->mapped[r] > 1 << 20);
        assert_true(share <= 0.03);
    }
    ls_world_destroy(world);
    ls_graph_destroy(g);
    ls_model_close(s->model);
    free(s);
}

static void hardly_a_byte_is_untouched(void **state) {
    for (size_t i = 0; i < LS_COUNT(examples); i++) check(state, &examples[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hardly_a_byte_is_untouched)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
