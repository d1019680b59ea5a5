/* Weights: files in every form, what is wrong with them listed, random ones the same for any mesh and type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "model/model.h"
#include "test_format_scratch.h"

#include <math.h>

static const char small_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 29, \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"mlp_bias\": true}";

/* ---- one rank's executor, or one of several ---- */

typedef struct place {
    ls_model *model;
    ls_graph *graph;
    ls_image *image;
    ls_world *world;
    ls_comm *comm;
    ls_executor *executor;
} place;

static void open_place(void **state, ls_dtype dtype, int ranks, int rank, place *p) {
    ls_language_model lm;
    ls_machine machine;
    ls_machine_detect(&machine);
    *p = (place){.graph = ls_graph_create(dtype)};
    assert_ok(ls_model_open(*state, &p->model));
    assert_ok(ls_model_build(p->model, p->graph, 1, 8, true, &lm));
    const ls_job job = {.graph = p->graph, .update = LS_UPDATE_ADAMW};
    const ls_target target = {.mesh = ls_mesh_make(1, ranks, 1),
                              .rank = rank,
                              .strategy = ranks == 1 ? "local" : "ring",
                              .isa = machine.isa,
                              .threads = 3};
    assert_ok(ls_compile(&job, &target, &p->image));
    assert_ok(ls_world_for(p->image, NULL, false, 20, &p->world));
    assert_ok(ls_world_join(p->world, rank, &p->comm));
    assert_ok(ls_executor_create(p->image, p->comm, &p->executor));
}

static void close_place(place *p) {
    ls_executor_destroy(p->executor);
    ls_comm_leave(p->comm);
    ls_world_destroy(p->world);
    ls_image_destroy(p->image);
    ls_graph_destroy(p->graph);
    ls_model_close(p->model);
}

static double element(const void *data, ls_dtype dtype, int64_t i) {
    if (dtype == LS_F64) return ((const double *)data)[i];
    if (dtype == LS_F32) return (double)((const float *)data)[i];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
}

static const ls_flat *find_flat(const ls_image *image, const char *name) {
    for (int i = 0; i < image->n_flats; i++)
        if (strcmp(image->flats[i].name, name) == 0) return &image->flats[i];
    return NULL;
}

static double parameter(const place *p, const char *name, int64_t i) {
    const ls_flat *flat = find_flat(p->image, name);
    assert_non_null(flat);
    return element(ls_executor_tensor(p->executor, LS_BIND_PARAMETERS), p->image->dtype, flat->start + i);
}

static ls_status fill_own(place *p, uint64_t seed, bool from_file) {
    ls_weight_source source;
    LS_TRY(ls_model_weights(p->model, p->image, seed, &source));
    assert_int_equal(ls_weights_from_file(&source), from_file);
    const ls_status status = ls_weights_fill(p->executor, &source);
    ls_weights_close(&source);
    return status;
}

/* ---- random ---- */

static double to_type(double x, ls_dtype dtype) {
    const float f = (float)x;
    return dtype == LS_F64 ? x : dtype == LS_F32 ? (double)f : (double)ls_bf16_to_f32(ls_bf16_from_f32(f));
}

/* The same numbers, rounded, for every type and on every rank; masters are their rank's part of them. */
static void test_random_any_mesh(void **state) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    place one;
    open_place(state, LS_F64, 1, 0, &one);
    assert_ok(fill_own(&one, 42, false));
    const double *wide = ls_executor_tensor(one.executor, LS_BIND_PARAMETERS);
    for (size_t c = 0; c < 3 * LS_COUNT(types); c++) {
        place p;
        const ls_dtype T = types[c / 3];
        open_place(state, T, 3, (int)(c % 3), &p);
        assert_ok(fill_own(&p, 42, false));
        const ls_image *image = p.image;
        const void *narrow = ls_executor_tensor(p.executor, LS_BIND_PARAMETERS);
        for (int f = 0; f < image->n_flats; f++) {
            for (int64_t i = image->flats[f].start; i < image->flats[f].start + image->flats[f].count; i++) {
                assert_true(element(narrow, T, i) == to_type(wide[i], T));
            }
        }
        int64_t owned = 0;
        for (int k = 0; k < image->n_pieces; k++) {
            const ls_operand master = ls_image_master(image, &image->pieces[k]);
            for (int f = 0; f < image->n_flats; f++) {
                const ls_flat_piece part =
                    ls_piece_within(&image->pieces[k], image->flats[f].start, image->flats[f].count);
                const int64_t behind = part.start - image->pieces[k].start;
                for (int64_t i = 0; i < part.count; i++)
                    assert_true(element(ls_executor_address(p.executor, &master), image->accumulator,
                                        behind + i) == to_type(wide[part.start + i], image->accumulator));
                owned += part.count;
            }
        }
        assert_true(owned > 0);
        close_place(&p);
    }
    close_place(&one);
}

static void test_random_distribution(void **state) {
    place p;
    double sum = 0, squares = 0, fourth = 0, product = 0;
    open_place(state, LS_F64, 1, 0, &p);
    assert_ok(fill_own(&p, 1, false));
    const ls_flat *flat = find_flat(p.image, "model.layers.0.mlp.up_proj.weight");
    const double *x = (const double *)ls_executor_tensor(p.executor, LS_BIND_PARAMETERS) + flat->start;
    ls_weight_source source;
    assert_ok(ls_model_weights(p.model, p.image, 1, &source));
    /* Far behind the parameter's end the same stream goes on: enough numbers for a tight bound. */
    enum { N = 400000 };
    double *many = malloc(sizeof *many * N);
    assert_ok(source.read(source.context, flat, 0, N, many));
    for (int i = 0; i < N; i++) {
        const double y = many[i] / 0.02;
        sum += y;
        squares += y * y;
        fourth += y * y * y * y;
        if (i > 0) product += y * many[i - 1] / 0.02;
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
    assert_true(fabs(product / N) < 5 / sqrt(N));
    /* Any part by itself is the same part. */
    double part[7];
    assert_ok(source.read(source.context, flat, 5, 7, part));
    assert_memory_equal(part, many + 5, sizeof part);
    assert_memory_equal(x, many, sizeof *x * (size_t)flat->count);
    assert_true(parameter(&p, "model.layers.0.mlp.up_proj.bias", 3) == 0.0);
    assert_true(parameter(&p, "model.layers.1.input_layernorm.weight", 3) == 1.0);
    assert_true(parameter(&p, "model.norm.weight", 15) == 1.0);
    assert_true(parameter(&p, "model.layers.1.mlp.up_proj.weight", 0) != x[0]);
    const double before = x[0];
    assert_ok(fill_own(&p, 2, false));
    assert_true(x[0] != before);
    free(many);
    ls_weights_close(&source);
    close_place(&p);
}

/* ---- files ---- */

typedef struct file_case {
    const char *drop, *add, *reshape; /* a tensor that is left out, one too many, one with another shape */
    ls_st_dtype dtype;
    int from, to; /* which of the parameters; to 0: all */
} file_case;

/* Element i of parameter number f in a file: exact in every type. */
static double file_value(int f, int64_t i) { return (double)((f * 7 + i) % 251 - 125) / 64; }

static void encode(ls_st_dtype dtype, double x, char *out) {
    const float f = (float)x;
    const ls_bf16 b = ls_bf16_from_f32(f);
    /* F16 of a number with few digits: the exponent's bias moved, the fraction cut. */
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint16_t h =
        x == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000u) | (((bits >> 13) & 0x3ffffu) - (112u << 10)));
    if (dtype == LS_ST_F64)
        memcpy(out, &x, sizeof x);
    else if (dtype == LS_ST_F32)
        memcpy(out, &f, sizeof f);
    else
        memcpy(out, dtype == LS_ST_F16 ? &h : &b, sizeof h);
}

static void write_weights(const ls_image *image, const char *path, file_case c) {
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
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_st_create(path, plan, &writer));
    const int64_t size = (int64_t)ls_st_dtype_bytes(c.dtype);
    for (int t = 0; t < n; t++) {
        for (int64_t i = 0; i < ls_st_plan_bytes(plan, t) / size; i++) {
            char bytes[8] = {0};
            encode(c.dtype, file_value(number[t], i), bytes);
            assert_ok(ls_st_write(writer, t, i * size, bytes, size));
        }
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
}

static void check_filled(const place *p) {
    const void *data = ls_executor_tensor(p->executor, LS_BIND_PARAMETERS);
    for (int f = 0; f < p->image->n_flats; f++)
        for (int64_t i = 0; i < p->image->flats[f].count; i++)
            assert_true(element(data, p->image->dtype, p->image->flats[f].start + i) ==
                        to_type(file_value(f, i), p->image->dtype));
}

static void test_one_file(void **state) {
    static const ls_st_dtype types[] = {LS_ST_F64, LS_ST_F32, LS_ST_F16, LS_ST_BF16};
    static const ls_dtype graphs[] = {LS_F64, LS_F32, LS_BF16};
    for (size_t c = 0; c < LS_COUNT(types) * LS_COUNT(graphs); c++) {
        place p;
        open_place(state, graphs[c % LS_COUNT(graphs)], 1, 0, &p);
        const file_case file = {.dtype = types[c / LS_COUNT(graphs)],
                                .add = "model.layers.0.self_attn.rotary_emb.inv_freq"};
        write_weights(p.image, scratch_path(state, "model.safetensors"), file);
        assert_ok(fill_own(&p, 1, true));
        check_filled(&p);
        close_place(&p);
    }
}

/* Shards by an index, and shards by their ending alone. */
static void test_shards(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const int half = p.image->n_flats / 2;
    write_weights(p.image, scratch_path(state, "a.safetensors"), (file_case){.dtype = LS_ST_F32, .to = half});
    write_weights(p.image, scratch_path(state, "b.safetensors"),
                  (file_case){.dtype = LS_ST_BF16, .from = half});
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_weights(p.image, scratch_path(state, "stray.safetensors"),
                  (file_case){.dtype = LS_ST_F32, .to = 2});
    assert_error(fill_own(&p, 1, true), LS_INVALID, "2 in more than one file (model.embed_tokens.weight",
                 *state);
    /* The index does not name the stray one. */
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_object(w, NULL);
    ls_json_open_object(w, "weight_map");
    for (int f = 0; f < p.image->n_flats; f++)
        ls_json_put_text(w, p.image->flats[f].name, f < half ? "a.safetensors" : "b.safetensors");
    ls_json_close(w);
    ls_json_close(w);
    assert_ok(ls_json_write_file(w, scratch_path(state, "model.safetensors.index.json")));
    ls_json_writer_destroy(w);
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    assert_int_equal(unlink(scratch_path(state, "b.safetensors")), 0);
    assert_error(fill_own(&p, 1, true), LS_IO, "1 of the 2 files that it names are missing: b.safetensors",
                 "No such file");
    (void)scratch_text(state, "model.safetensors.index.json",
                       "{\"weight_map\": {\"a\": \"../a.safetensors\"}}");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "weight_map.a is \"../a.safetensors\"", "same folder");
    (void)scratch_text(state, "model.safetensors.index.json", "{\"weight_map\": {}}");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "weight_map", "expected an object with");
    close_place(&p);
}

static void write_index(void **state, const place *p, const char *first, const char *second) {
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_object(w, NULL);
    ls_json_open_object(w, "weight_map");
    for (int f = 0; f < p->image->n_flats; f++)
        ls_json_put_text(w, p->image->flats[f].name, f < p->image->n_flats / 2 ? first : second);
    ls_json_close(w);
    ls_json_close(w);
    assert_ok(ls_json_write_file(w, scratch_path(state, "model.safetensors.index.json")));
    ls_json_writer_destroy(w);
}

/* What an index says must be so: its files are there, in the folder, and its tensors in them. */
static void test_wrong_index(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const int half = p.image->n_flats / 2;
    write_weights(p.image, scratch_path(state, "a.safetensors"), (file_case){.dtype = LS_ST_F32, .to = half});
    write_weights(p.image, scratch_path(state, "b.safetensors"),
                  (file_case){.dtype = LS_ST_F32, .from = half});
    write_index(state, &p, "a.safetensors", "b.safetensors");
    assert_ok(fill_own(&p, 1, true));
    /* All files that are not there, at once. */
    write_index(state, &p, "x.safetensors", "y.safetensors");
    assert_error(fill_own(&p, 1, true), LS_IO, "2 of the 2 files that it names are missing",
                 "x.safetensors, y.safetensors");
    /* The files change places. */
    write_index(state, &p, "b.safetensors", "a.safetensors");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "27 not in the file that the index says (", ", ...)");
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"{\"weight_map\": {\"a\": \"..\"}}",
         "weight_map.a is \"..\", expected the name of a file in the same"},
        {"{\"weight_map\": {\"a\": \".\"}}", "expected the name of a file in the same"},
        {"{\"weight_map\": {\"a\": \"\"}}", "expected the name of a file in the same"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "expected the name of a file in the same"},
        {"{\"weight_map\": {\"a\": \"x/../../a\"}}", "expected the name of a file in the same"},
        {"{\"weight_map\": {\"a\": 3}}", "weight_map.a is 3"},
        {"{\"weight_map\": [\"a\"]}", "weight_map is an array"},
        {"{\"weight_map\": {\"a\": \"b\", \"a\": \"c\"}}", "duplicate"},
        {"{}", "weight_map is missing"},
        {"[]", "the document is an array"},
        {"", "not valid JSON"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        (void)scratch_text(state, "model.safetensors.index.json", cases[i].text);
        assert_error(fill_own(&p, 1, true), LS_INVALID, "model.safetensors.index.json", cases[i].word);
    }
    close_place(&p);
}

/* An index with so many files would be no index; found out without opening one. */
static void test_long_index(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_object(w, NULL);
    ls_json_open_object(w, "weight_map");
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.safetensors", i);
        ls_json_put_text(w, name, name);
    }
    ls_json_close(w);
    ls_json_close(w);
    assert_ok(ls_json_write_file(w, scratch_path(state, "model.safetensors.index.json")));
    ls_json_writer_destroy(w);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "weight_map names more than 10000 files", *state);
    close_place(&p);
}

/* Weights of another format are not passed over for random ones. */
static void test_foreign_weights(void **state) {
    static const char *const names[] = {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.gguf",
                                        "consolidated.00.pth"};
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        (void)scratch_text(state, names[i], "");
        assert_error(fill_own(&p, 1, true), LS_UNSUPPORTED, names[i], "expected *.safetensors");
        assert_int_equal(unlink(scratch_path(state, names[i])), 0);
    }
    assert_ok(fill_own(&p, 1, false));
    close_place(&p);
}

/* Every type of file into every type of graph, at any mesh: the same bits as by way of f64. */
static void test_direct(void **state) {
    static const ls_st_dtype types[] = {LS_ST_F64, LS_ST_F32, LS_ST_F16, LS_ST_BF16};
    static const ls_dtype graphs[] = {LS_F64, LS_F32, LS_BF16};
    for (size_t c = 0; c < LS_COUNT(types) * LS_COUNT(graphs); c++) {
        place direct, by_way;
        ls_weight_source source;
        const ls_dtype T = graphs[c % LS_COUNT(graphs)];
        open_place(state, T, 3, (int)(c % 3), &direct);
        open_place(state, T, 3, (int)(c % 3), &by_way);
        write_weights(direct.image, scratch_path(state, "model.safetensors"),
                      (file_case){.dtype = types[c / LS_COUNT(graphs)]});
        assert_ok(ls_model_weights(direct.model, direct.image, 1, &source));
        assert_non_null(source.convert);
        assert_ok(ls_weights_fill(direct.executor, &source));
        source.convert = NULL;
        assert_ok(ls_weights_fill(by_way.executor, &source));
        ls_weights_close(&source);
        const ls_image *image = direct.image;
        check_filled(&direct);
        const ls_flat *last = &image->flats[image->n_flats - 1];
        assert_memory_equal(ls_executor_tensor(direct.executor, LS_BIND_PARAMETERS),
                            ls_executor_tensor(by_way.executor, LS_BIND_PARAMETERS),
                            (size_t)(last->start + last->count) * ls_dtype_bytes(T));
        for (int k = 0; k < image->n_pieces; k++) {
            const ls_operand master = ls_image_master(image, &image->pieces[k]);
            assert_memory_equal(ls_executor_address(direct.executor, &master),
                                ls_executor_address(by_way.executor, &master),
                                (size_t)image->pieces[k].count * ls_dtype_bytes(image->accumulator));
        }
        close_place(&direct);
        close_place(&by_way);
    }
}

/* ---- tied weights, names without a prefix ---- */

static const char tied_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 29, \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"tie_word_embeddings\": true}";

/* Parameters from a file under other names; head: lm_head.weight as well, the table but for `change` in its last element. */
static void write_named(const ls_image *image, const char *path, const char *without, bool head,
                        double change) {
    ls_st_entry entries[64];
    int n = image->n_flats;
    for (int f = 0; f <= n; f++) {
        const ls_flat *flat = &image->flats[f < n ? f : 0];
        const size_t cut = strncmp(flat->name, without, strlen(without)) == 0 ? strlen(without) : 0;
        entries[f] = (ls_st_entry){f < n ? flat->name + cut : "lm_head.weight",
                                   f < n ? LS_ST_F32 : LS_ST_BF16,
                                   flat->shape.ndim,
                                   {0}};
        for (int d = 0; d < flat->shape.ndim; d++) entries[f].shape[d] = flat->shape.dim[d].size;
    }
    ls_st_plan *plan = NULL;
    ls_st_writer *writer = NULL;
    assert_ok(ls_st_plan_create(entries, n + head, NULL, 0, &plan));
    assert_ok(ls_st_create(path, plan, &writer));
    for (int f = 0; f < n + head; f++) {
        const int64_t size = (int64_t)ls_st_dtype_bytes(entries[f].dtype),
                      count = ls_st_plan_bytes(plan, f) / size;
        for (int64_t i = 0; i < count; i++) {
            char bytes[8];
            encode(entries[f].dtype, file_value(f % n, i) + (f == n && i == count - 1 ? change : 0), bytes);
            assert_ok(ls_st_write(writer, f, i * size, bytes, size));
        }
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
}

static void test_tied(void **state) {
    place p;
    (void)scratch_text(state, "config.json", tied_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "", false, 0); /* as it should be: there is no head */
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "", true, 0); /* the table once more, though of another type */
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "", true, 0.5);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "1 not tied, though the config says so",
                 "(lm_head.weight is not model.embed_tokens.weight)");
    close_place(&p);
}

/* A model that was saved without its head lacks "model." in all names; in some of them it is a mistake. */
static void test_bare_names(void **state) {
    place p;
    (void)scratch_text(state, "config.json", tied_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "model.", false, 0);
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "model.", true, 0);
    assert_ok(fill_own(&p, 1, true));
    write_named(p.image, path, "model.layers.0.mlp.", false, 0);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "3 missing (model.layers.0.mlp.", "3 extra (");
    close_place(&p);
}

static void test_wrong_files(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const char *path = scratch_path(state, "model.safetensors");
    write_weights(p.image, path,
                  (file_case){.dtype = LS_ST_F32,
                              .drop = "model.norm.weight",
                              .add = "model.what",
                              .reshape = "lm_head.weight"});
    const ls_status status = fill_own(&p, 1, true);
    assert_error(status, LS_INVALID, "1 missing (model.norm.weight)", "1 extra (model.what)");
    assert_error(status, LS_INVALID, "1 misshapen (lm_head.weight is [30,16], expected [29,16])", *state);
    write_weights(p.image, path, (file_case){.dtype = LS_ST_I32, .from = 3});
    assert_error(fill_own(&p, 1, true), LS_INVALID, "3 missing (model.embed_tokens.weight, ",
                 "of another type than F64");
    /* Of many, the first are named. */
    write_weights(p.image, path, (file_case){.dtype = LS_ST_F32, .from = p.image->n_flats - 1});
    assert_error(fill_own(&p, 1, true), LS_INVALID, "26 missing (model.embed_tokens.weight, ", ", ...)");
    (void)scratch_text(state, "model.safetensors", "junk");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "model.safetensors", "");
    close_place(&p);
}

static ls_status refuse(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    (void)context;
    for (int64_t i = 0; i < count; i++) out[i] = (double)start;
    return strcmp(flat->name, "model.norm.weight") == 0 ? ls_error(LS_IO, "%s cannot be read", flat->name)
                                                        : ls_ok();
}

static void test_source_fails(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const ls_weight_source source = {.read = refuse};
    assert_error(ls_weights_fill(p.executor, &source), LS_IO, "model.norm.weight", "cannot be read");
    close_place(&p);
}

static int set_up(void **state) {
    if (scratch_make(state) != 0) return -1;
    (void)scratch_text(state, "config.json", small_config);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_random_any_mesh),
        TEST(test_random_distribution),
        TEST(test_one_file),
        TEST(test_shards),
        TEST(test_wrong_index),
        TEST(test_long_index),
        TEST(test_foreign_weights),
        TEST(test_direct),
        TEST(test_tied),
        TEST(test_bare_names),
        TEST(test_wrong_files),
        TEST(test_source_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
