#include "weight_files.h"
#include "meshes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "scratch.h"
#include "support/worlds.h"
#include "tensors.h"

static const char small_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 29, \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"mlp_bias\": true}";

enum { MOST_OTHERS = 2 };

/* Another rank of the place's world: it creates its executor, as all ranks must, and leaves. */
typedef struct other_rank {
    ls_world *world;
    ls_image *image;
    int rank;
    pthread_t thread;
    ls_status status;
} other_rank;

static void *create_and_leave(void *context) {
    other_rank *o = context;
    ls_comm *comm;
    ls_executor *executor;
    o->status = ls_world_join(o->world, o->rank, &comm);
    if (o->status.code != LS_OK) return NULL;
    o->status = ls_executor_create(o->image, comm, &executor);
    if (o->status.code == LS_OK) ls_executor_destroy(executor);
    ls_comm_leave(comm);
    return NULL;
}

void open_place(void **state, ls_dtype dtype, int ranks, int rank, place *p) {
    ls_language_model lm;
    ls_machine machine;
    ls_machine_detect(&machine);
    *p = (place){.graph = ls_graph_create(dtype)};
    assert_ok(ls_model_open(*state, &p->model));
    assert_ok(ls_model_build(p->model, p->graph, 1, 8, true, &lm));
    const ls_job job = {.graph = p->graph, .programs = ls_training_programs(p->graph, 0, LS_UPDATE_APPLY, 0)};
    ls_target target = {.mesh = mesh_of(1, ranks, 1),
                        .rank = rank,
                        .strategy = ranks == 1 ? "local" : "ring",
                        .isa = machine.isa,
                        .threads = 3};
    assert_ok(ls_compile(&job, &target, &p->image));
    assert_ok(world_of_job(&job, &target, NULL, 20, &p->world));
    other_rank others[MOST_OTHERS];
    assert_true(ranks - 1 <= MOST_OTHERS);
    for (int i = 0; i < ranks - 1; i++) {
        others[i] = (other_rank){.world = p->world, .rank = (rank + 1 + i) % ranks};
        target.rank = others[i].rank;
        assert_ok(ls_compile(&job, &target, &others[i].image));
        assert_int_equal(pthread_create(&others[i].thread, NULL, create_and_leave, &others[i]), 0);
    }
    assert_ok(ls_world_join(p->world, rank, &p->comm));
    assert_ok(ls_executor_create(p->image, p->comm, &p->executor));
    for (int i = 0; i < ranks - 1; i++) {
        assert_int_equal(pthread_join(others[i].thread, NULL), 0);
        assert_ok(others[i].status);
        ls_image_destroy(others[i].image);
    }
}

void close_place(place *p) {
    ls_executor_destroy(p->executor);
    ls_comm_leave(p->comm);
    ls_world_destroy(p->world);
    ls_image_destroy(p->image);
    ls_graph_destroy(p->graph);
    ls_model_close(p->model);
}

double element(const void *data, ls_dtype dtype, int64_t i) {
    if (dtype == LS_F64) return ((const double *)data)[i];
    if (dtype == LS_F32) return (double)((const float *)data)[i];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
}

const ls_flat *find_flat(const ls_image *image, const char *name) {
    for (int i = 0; i < image->n_flats; i++)
        if (strcmp(image->flats[i].name, name) == 0) return &image->flats[i];
    return NULL;
}

double parameter(const place *p, const char *name, int64_t i) {
    const ls_flat *flat = find_flat(p->image, name);
    assert_non_null(flat);
    const ls_operand from = ls_image_elements(p->image, LS_BIND_PARAMETERS, flat->start + i, 1);
    double bytes;
    assert_ok(ls_executor_read(p->executor, &from, &bytes));
    return element(&bytes, p->image->dtype, 0);
}

ls_status fill_own(place *p, uint64_t seed, bool from_file) {
    ls_weight_source source;
    LS_TRY(ls_model_weights(p->model, p->image, seed, &source));
    assert_int_equal(ls_weights_from_file(&source), from_file);
    const ls_status status = ls_weights_fill(p->executor, &source);
    ls_weights_close(&source);
    return status;
}

double to_type(double x, ls_dtype dtype) {
    const float f = (float)x;
    return dtype == LS_F64 ? x : dtype == LS_F32 ? (double)f : (double)ls_bf16_to_f32(ls_bf16_from_f32(f));
}

double file_value(int f, int64_t i) { return (double)((f * 7 + i) % 251 - 125) / 64; }

static void encode(ls_st_dtype dtype, double x, char *out) {
    const float f = (float)x;
    const ls_bf16 b = ls_bf16_from_f32(f);
    /* F16 of a number with few digits: the exponent's bias moved, the fraction cut. */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint16_t h = x == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000u) | (((bits >> 13) & 0x3ffffu) - (112u << 10)));
    if (dtype == LS_ST_F64)
        memcpy(out, &x, sizeof x);
    else if (dtype == LS_ST_F32)
        memcpy(out, &f, sizeof f);
    else
        memcpy(out, dtype == LS_ST_F16 ? &h : &b, sizeof h);
}

void write_entries(const char *path, const ls_st_entry *entries, const int *number, int n, double change) {
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_st_create(path, plan, &writer));
    for (int t = 0; t < n; t++) {
        const int64_t size = (int64_t)ls_st_dtype_bytes(entries[t].dtype), count = ls_st_plan_bytes(plan, t) / size;
        for (int64_t i = 0; i < count; i++) {
            char bytes[8] = {0};
            const bool last = t + 1 == n && i + 1 == count;
            encode(entries[t].dtype, file_value(number[t], i) + (last ? change : 0), bytes);
            assert_ok(ls_st_write(writer, t, i * size, bytes, size));
        }
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
}

void write_weights(const ls_image *image, const char *path, file_case c) {
    ls_st_entry entries[64];
    int number[64], n = 0;
    for (int f = c.from; f < (c.to ? c.to : image->n_flats); f++) {
        const ls_flat *flat = &image->flats[f];
        if (c.drop != NULL && strcmp(flat->name, c.drop) == 0) continue;
        number[n] = f;
        entries[n] = (ls_st_entry){flat->name, c.dtype, flat->shape.ndim, {0}};
        for (int d = 0; d < flat->shape.ndim; d++) entries[n].shape[d] = flat->shape.dim[d].size;
        if (c.reshape != NULL && strcmp(flat->name, c.reshape) == 0) entries[n].shape[0]++;
        n++;
    }
    if (c.add != NULL) {
        number[n] = 0;
        entries[n++] = (ls_st_entry){c.add, c.dtype, 1, {3}};
    }
    write_entries(path, entries, number, n, 0);
}

void check_filled(const place *p) {
    void *data = copy_of_tensor(p->executor, LS_BIND_PARAMETERS);
    for (int f = 0; f < p->image->n_flats; f++)
        for (int64_t i = 0; i < p->image->flats[f].count; i++)
            assert_true(element(data, p->image->dtype, p->image->flats[f].start + i) ==
                        to_type(file_value(f, i), p->image->dtype));
    free(data);
}

int make_weights_scene(void **state) {
    if (scratch_make(state) != 0) return -1;
    (void)scratch_text(state, "config.json", small_config);
    return 0;
}
