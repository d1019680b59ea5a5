#include "saved_model.h"
#include "meshes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "run/run.h"
#include "scratch.h"
#include "support/worlds.h"

const char saved_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 13,\n\t\"hidden_size\": 10, \"intermediate_size\": 7,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6,\n"
    " \"rms_norm_eps\": 1e-05, \"eos_token_id\": [2, 7] , \"bos_token_id\": 1, \"our_field\": {\"deep\": [1.50, null]},"
    " \"torch_dtype\" : \"bfloat16\", \"model_type\": \"llama\"}\n";

/* ---- a checkpoint of a model's own weights, by ranks that are threads ---- */

static ls_status make_image(const saving *s, const ls_model *model, ls_graph *g, int rank, ls_image **image) {
    ls_language_model lm;
    ls_machine machine;
    ls_machine_detect(&machine);
    LS_TRY(ls_model_build(model, g, 1, 8, true, &lm));
    const ls_job job = {.graph = g, .programs = ls_training_programs(g, 0, LS_UPDATE_APPLY, 0)};
    const ls_target target = {.mesh = mesh_of(1, s->ranks, 1),
                              .rank = rank,
                              .strategy = s->ranks == 1 ? "local" : "ring",
                              .isa = machine.isa,
                              .threads = 1};
    return ls_compile(&job, &target, image);
}

static ls_status save_rank(ls_comm *comm, void *context) {
    const saving *s = context;
    ls_model *model = NULL;
    ls_image *image = NULL;
    ls_executor *ex = NULL;
    ls_weight_source source;
    const ls_train_state state = {.step = 12, .seed = 3, .sequences = 48, .last_loss = 2.5};
    ls_graph *g = ls_graph_create(s->dtype);
    LS_TRY(ls_model_open(s->model, &model));
    LS_TRY(make_image(s, model, g, ls_comm_rank(comm), &image));
    LS_TRY(ls_executor_create(image, comm, &ex));
    LS_TRY(ls_model_weights(model, image, 5, &source));
    LS_TRY(ls_weights_fill(ex, &source));
    ls_weights_close(&source);
    const ls_model_text written = ls_model_written(model);
    LS_TRY(ls_checkpoint_save(ex, comm, s->run, &state, &written, 0));
    ls_executor_destroy(ex);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    ls_model_close(model);
    return ls_ok();
}

void save_model(const saving *s) {
    ls_model *model = NULL;
    ls_image *images[16];
    ls_world *world = NULL;
    assert_true(s->ranks <= (int)LS_COUNT(images));
    assert_ok(ls_model_open(s->model, &model));
    for (int r = 0; r < s->ranks; r++) {
        ls_graph *g = ls_graph_create(s->dtype);
        assert_ok(make_image(s, model, g, r, &images[r]));
        ls_graph_destroy(g);
    }
    assert_ok(world_of_images(images, s->ranks, NULL, 20, &world));
    for (int r = 0; r < s->ranks; r++) ls_image_destroy(images[r]);
    assert_ok(ls_launch(world, s->ranks, true, save_rank, (void *)(uintptr_t)s));
    ls_world_destroy(world);
    ls_model_close(model);
}

/* ---- files ---- */

kept_path path_in(void **state, const char *path) {
    kept_path made;
    const int length = snprintf(made.text, sizeof made.text, "%s/%s", (const char *)*state, path);
    assert_true(length < (int)sizeof made.text);
    return made;
}

char *read_whole(const char *folder, const char *file) {
    LS_PATH path = NULL;
    char *text = NULL;
    size_t bytes = 0;
    assert_ok(ls_path_join(folder, file, &path));
    assert_ok(ls_file_read(path, 1 << 26, &text, &bytes));
    return text;
}

void assert_same_file(const char *a, const char *b) {
    ls_file_map x, y;
    assert_ok(ls_file_map_open(a, &x));
    assert_ok(ls_file_map_open(b, &y));
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    ls_file_map_close(&x);
    ls_file_map_close(&y);
}

int count_names(const char *folder, const char *part) {
    ls_file_names names;
    int n = 0;
    assert_ok(ls_file_list(folder, &names));
    for (size_t i = 0; i < names.count; i++) n += strstr(names.name[i], part) != NULL;
    ls_file_names_free(&names);
    return n;
}

/* Bits of an element: all kinds of numbers, but no signalling NaN, which does not survive any arithmetic. */
static uint64_t bits_of(ls_st_dtype dtype, uint64_t seed) {
    const uint64_t r = ls_rng_bits(11, 0, seed);
    if (dtype == LS_ST_F32) {
        const uint64_t kinds[] = {0x00000001, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00001, 0x007fffff};
        return r % 9 == 0 ? kinds[r / 9 % 6] : (uint64_t)(0x3c000000u + (r >> 32 & 0x80ffffffu));
    }
    const uint64_t f16[] = {0x0001, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0x03ff, 0x7bff},
                   bf16[] = {0x0001, 0x8000, 0x7f80, 0xff80, 0x7fc1, 0x007f, 0x7f7f};
    if (r % 9 == 0) return (dtype == LS_ST_F16 ? f16 : bf16)[r / 9 % 7];
    return 0x3800u + (r >> 32 & 0x83ffu);
}

static void write_element(void *to, ls_st_dtype dtype, uint64_t bits) {
    const uint32_t wide = (uint32_t)bits;
    const uint16_t narrow = (uint16_t)bits;
    if (dtype == LS_ST_F32)
        memcpy(to, &wide, sizeof wide);
    else
        memcpy(to, &narrow, sizeof narrow);
}

void make_model(const char *folder, const char *config, ls_st_dtype dtype) {
    LS_PATH path = NULL;
    ls_model *model = NULL;
    ls_image *image = NULL;
    ls_st_entry entries[64];
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    assert_ok(ls_file_make_folders(folder));
    assert_ok(ls_path_join(folder, "config.json", &path));
    assert_ok(ls_file_write(path, config, strlen(config)));
    const saving one = {.dtype = LS_F32, .ranks = 1};
    ls_graph *g = ls_graph_create(LS_F32);
    assert_ok(ls_model_open(folder, &model));
    assert_ok(make_image(&one, model, g, 0, &image));
    const int n = image->n_flats;
    assert_true(n <= (int)LS_COUNT(entries));
    for (int i = 0; i < n; i++) {
        const ls_flat *flat = &image->flats[n - 1 - i]; /* not in our own order */
        entries[i] = (ls_st_entry){flat->name, dtype, flat->shape.ndim, {0}};
        for (int d = 0; d < flat->shape.ndim; d++) entries[i].shape[d] = flat->shape.dim[d].size;
    }
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_path_join(folder, "model.safetensors", &path));
    assert_ok(ls_st_create(path, plan, &writer));
    uint64_t seed = 0;
    for (int i = 0; i < n; i++) {
        const int64_t size = (int64_t)ls_st_dtype_bytes(dtype), bytes = ls_st_plan_bytes(plan, i);
        char *data = malloc((size_t)bytes);
        assert_non_null(data);
        for (int64_t k = 0; k < bytes / size; k++) write_element(data + k * size, dtype, bits_of(dtype, seed++));
        assert_ok(ls_st_write(writer, i, 0, data, bytes));
        free(data);
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    ls_model_close(model);
}

scene make_scene(void **state, const char *config) {
    const scene s = {path_in(state, "model"), path_in(state, "run"), path_in(state, "run/checkpoint-00000012"),
                     path_in(state, "out")};
    make_model(s.model.text, config, LS_ST_F32);
    const saving saved = {s.model.text, s.run.text, LS_F32, 1};
    save_model(&saved);
    return s;
}

void flip_byte(const char *path, int64_t offset) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)offset, offset < 0 ? SEEK_END : SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}
