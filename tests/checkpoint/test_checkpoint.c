/*
 * Checkpoints: every mesh saves and loads the same bits, every corrupted byte is found, and a failed save leaves
 * the older checkpoints.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_impl.h"
#include "model/model.h"
#include "support/meshes.h"
#include "support/momentum.h"
#include "support/saved_model.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "support/worlds.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char small_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 13, \"hidden_size\": 10, \"intermediate_size\": 7,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6}";

typedef struct mesh_case {
    int dp, ring, ulysses, tp;
    const char *strategy;
} mesh_case;

static const mesh_case ONE = {1, 1, 1, 1, "local"}, TWO = {1, 2, 1, 1, "ring"}, THREE = {1, 3, 1, 1, "ring"},
                       FOUR = {2, 1, 2, 1, "ulysses"}, TENSOR = {1, 2, 1, 2, "ring"};

/* What the ranks of one run do: load a checkpoint, or fill all state, and save. */
typedef struct work {
    mesh_case mesh;
    ls_dtype dtype;
    const char *config; /* file */
    const char *path;   /* of a checkpoint, to load; NULL: the state is filled */
    const char *folder; /* to save to; NULL: nothing is saved */
    int64_t step;       /* to save, or that was saved */
    int keep;
    const ls_optimizer *optimizer; /* NULL: AdamW */
    const ls_shard_mode *shard;    /* NULL: the usual */
    double salt;                   /* what is saved differs by it */
    /* results */
    ls_status status; /* of rank 0 */
    int successes;    /* ranks that returned LS_OK */
    char saved[512];
    pthread_mutex_t lock;
} work;

/*
 * State of an element of a parameter: the same on any mesh. Kinds are 0 master and then the optimiser's states; there
 * are zeros of both signs and denormals among them.
 */
static double value_of(const work *w, int kind, const ls_flat *flat, int64_t element) {
    const int64_t i = ((int64_t)flat->number << 24) + element;
    if (i % 97 == 5) return -0.0;
    if (i % 89 == 7) return 1e-42;
    return w->salt * ls_rng_normal(5, (uint64_t)kind, (uint64_t)i);
}

static bool same_bits(const void *data, int64_t at, ls_dtype dtype, double x) {
    const float f = (float)x;
    const ls_bf16 h = ls_bf16_from_f32(f);
    if (dtype == LS_F64) return memcmp((const double *)data + at, &x, sizeof x) == 0;
    if (dtype == LS_F32) return memcmp((const float *)data + at, &f, sizeof f) == 0;
    return memcmp((const ls_bf16 *)data + at, &h, sizeof h) == 0;
}

static void set(void *data, int64_t at, ls_dtype dtype, double x) {
    if (dtype == LS_F64)
        ((double *)data)[at] = x;
    else if (dtype == LS_F32)
        ((float *)data)[at] = (float)x;
    else
        ((ls_bf16 *)data)[at] = ls_bf16_from_f32((float)x);
}

/* A tensor of parameters: in their type (0), masters (1; where the types are one, the same), the optimiser's states. */
static const ls_binding *tensor(const ls_image *image, int k) {
    const char *masters = image->dtype != image->accumulator ? LS_BIND_MASTER : LS_BIND_PARAMETERS;
    return ls_image_find(image, k == 0 ? LS_BIND_PARAMETERS : k == 1 ? masters : image->states[k - 2].binding);
}

static int tensors(const ls_image *image) { return 2 + image->n_states; }

/* Whether parameter f has tensor k: some states are of some parameters alone. */
static bool has(const ls_image *image, int f, int k) {
    return k < 2 || ls_flat_has(&image->flats[f], &image->states[k - 2]);
}

/* The parts of a parameter that this rank holds of a tensor, one after the other; *p: begin with 0. */
static bool next_part(const ls_executor *ex, const ls_binding *t, const ls_flat *flat, int *p, ls_flat_piece *part) {
    const ls_image *image = ls_executor_image(ex);
    for (part->count = 0; *p < image->n_pieces && part->count == 0; ++*p) {
        const ls_flat_piece piece = ls_image_held(image, t, *p, ls_executor_rank(ex));
        *part = ls_piece_within(&piece, flat->start, flat->count);
    }
    return part->count > 0;
}

/* Element `at` of the flat space as one of the whole parameter. */
static int64_t whole_of(const ls_executor *ex, const ls_flat *flat, int64_t at) {
    int64_t follow;
    return ls_flat_whole(ls_executor_image(ex), flat, ls_executor_rank(ex), at - flat->start, &follow);
}

static void fill_state(const work *w, ls_executor *ex) {
    const ls_image *image = ls_executor_image(ex);
    for (int f = 0; f < image->n_flats; f++) {
        const ls_flat *flat = &image->flats[f];
        void *values = malloc(sizeof(double) * (size_t)flat->count);
        for (int k = 0; k < tensors(image); k++) {
            if (!has(image, f, k)) continue;
            const ls_binding *t = tensor(image, k);
            ls_flat_piece part;
            for (int p = 0; next_part(ex, t, flat, &p, &part);) {
                const ls_operand to = ls_operand_slice(t->operand, 0, part.at, part.count);
                for (int64_t i = 0; i < part.count; i++)
                    set(values, i, to.view.dtype,
                        value_of(w, k > 0 ? k - 1 : 0, flat, whole_of(ex, flat, part.start + i)));
                LS_ASSERT(ls_executor_write(ex, &to, values).code == LS_OK);
            }
        }
        free(values);
    }
}

/* Whether a part of tensor k has the elements of parameter f. */
static ls_status check_part(const work *w, const ls_executor *ex, int k, int f, const ls_flat_piece *part) {
    const ls_image *image = ls_executor_image(ex);
    const ls_flat *flat = &image->flats[f];
    const ls_binding *t = tensor(image, k);
    const ls_operand from = ls_operand_slice(t->operand, 0, part->at, part->count);
    void *values = copy_of_operand(ex, &from);
    ls_status status = ls_ok();
    for (int64_t i = 0; i < part->count && status.code == LS_OK; i++) {
        if (!same_bits(values, i, from.view.dtype,
                       value_of(w, k > 0 ? k - 1 : 0, flat, whole_of(ex, flat, part->start + i))))
            status = ls_error(LS_DIVERGED, "%s of %s, element %lld differs", t->name, flat->name,
                              (long long)(part->start + i));
    }
    free(values);
    return status;
}

static ls_status check_state(const work *w, ls_executor *ex) {
    const ls_image *image = ls_executor_image(ex);
    for (int f = 0; f < image->n_flats; f++) {
        for (int k = 0; k < tensors(image); k++) {
            if (!has(image, f, k)) continue;
            ls_flat_piece part;
            for (int p = 0; next_part(ex, tensor(image, k), &image->flats[f], &p, &part);)
                LS_TRY(check_part(w, ex, k, f, &part));
        }
    }
    return ls_ok();
}

static ls_status load_and_save(const work *w, ls_executor *ex, ls_comm *comm, char saved[512]) {
    if (w->path == NULL) {
        fill_state(w, ex);
    } else {
        ls_train_state state;
        LS_TRY(ls_checkpoint_load(ex, comm, w->path, NULL, NULL, &state, NULL));
        if (state.step != w->step || state.seed != UINT64_MAX - 3 || state.sequences != 77 ||
            state.last_loss != 1.0 / 3)
            return ls_error(LS_DIVERGED, "the state differs");
        LS_TRY(check_state(w, ex));
    }
    if (w->folder == NULL) return ls_ok();
    const ls_train_state state = {w->step, UINT64_MAX - 3, 77, 1.0 / 3, 0, {NULL}};
    LS_PATH made = NULL;
    LS_TRY(ls_checkpoint_save(ex, comm, w->folder, &state, &(ls_model_text){.file = "config.json", .text = small_config}, w->keep));
    LS_TRY(ls_checkpoint_path(w->folder, w->step, &made));
    snprintf(saved, 512, "%s", made);
    return ls_ok();
}

static ls_status make_image(const work *w, ls_model *model, ls_graph *g, int rank, ls_image **image) {
    ls_language_model lm;
    ls_machine machine;
    ls_machine_detect(&machine);
    LS_TRY(ls_model_build(model, g, 4, 11, true, &lm));
    const ls_job job = {.graph = g,
                        .programs = ls_training_programs(g, lm.forward_nodes, LS_UPDATE_APPLY, 0),
                        .optimizer = w->optimizer};
    const ls_target target = {.mesh = mesh_with_tp(w->mesh.dp, w->mesh.ring, w->mesh.ulysses, w->mesh.tp),
                              .rank = rank,
                              .strategy = w->mesh.strategy,
                              .isa = machine.isa,
                              .threads = 1,
                              .shard = w->shard};
    return ls_compile(&job, &target, image);
}

static ls_status rank_main(ls_comm *comm, void *context) {
    work *w = context;
    ls_model *model = NULL;
    ls_image *image = NULL;
    ls_executor *ex = NULL;
    char saved[512] = "";
    ls_graph *g = ls_graph_create(w->dtype);
    LS_TRY(ls_model_open(w->config, &model));
    LS_TRY(make_image(w, model, g, ls_comm_rank(comm), &image));
    LS_TRY(ls_executor_create(image, comm, &ex));
    const ls_status status = load_and_save(w, ex, comm, saved);
    pthread_mutex_lock(&w->lock);
    if (ls_comm_rank(comm) == 0) {
        w->status = status;
        memcpy(w->saved, saved, sizeof saved);
    }
    w->successes += status.code == LS_OK;
    pthread_mutex_unlock(&w->lock);
    ls_executor_destroy(ex);
    ls_image_destroy(image);
    ls_graph_destroy(g);
    ls_model_close(model);
    return ls_comm_barrier(comm);
}

/* Runs it on all ranks; they must all succeed or all fail. Returns rank 0's status. */
static ls_status run(work *w) {
    ls_model *model = NULL;
    ls_image *images[16];
    ls_world *world = NULL;
    const int ranks = w->mesh.dp * w->mesh.ring * w->mesh.ulysses * w->mesh.tp;
    assert_true(ranks <= (int)LS_COUNT(images));
    assert_ok(ls_model_open(w->config, &model));
    ls_graph *g = NULL;
    for (int r = 0; r < ranks; r++, ls_graph_destroy(g))
        assert_ok(make_image(w, model, g = ls_graph_create(w->dtype), r, &images[r]));
    assert_ok(world_of_images(images, ranks, NULL, 20, &world));
    for (int r = 0; r < ranks; r++) ls_image_destroy(images[r]);
    pthread_mutex_init(&w->lock, NULL);
    w->successes = 0;
    assert_ok(ls_launch(world, ranks, true, rank_main, w));
    pthread_mutex_destroy(&w->lock);
    assert_int_equal(w->successes, w->status.code == LS_OK ? ranks : 0);
    ls_world_destroy(world);
    ls_model_close(model);
    return w->status;
}

static work make_work(void **state, mesh_case mesh, ls_dtype dtype) {
    return (work){.mesh = mesh, .dtype = dtype, .config = *state, .step = 10, .salt = 1};
}

/* A fresh folder with a config.json; every test has its own. */
static int set_up(void **state) {
    if (scratch_make(state) != 0) return -1;
    (void)scratch_text(state, "config.json", small_config);
    return 0;
}

static int count_entries(const char *folder, const char *part) {
    ls_file_names names;
    int n = 0;
    assert_ok(ls_file_list(folder, &names));
    for (size_t i = 0; i < names.count; i++) n += strstr(names.name[i], part) != NULL;
    ls_file_names_free(&names);
    return n;
}

static void save_ok(void **state, mesh_case mesh, ls_dtype dtype, int64_t step, int keep) {
    work w = make_work(state, mesh, dtype);
    w.folder = *state;
    w.step = step;
    w.keep = keep;
    assert_ok(run(&w));
}

static ls_status load(void **state, mesh_case mesh, ls_dtype dtype, const char *path, int64_t step) {
    work w = make_work(state, mesh, dtype);
    w.path = path;
    w.step = step;
    return run(&w);
}

static void test_hash(void **state) {
    (void)state;
    /* Known answers of XXH64 with seed 0. */
    char text[101];
    for (int i = 0; i < 101; i++) text[i] = (char)i;
    assert_true(ls_hash_bytes("", 0) == 0xEF46DB3751D8E999u);
    assert_true(ls_hash_bytes("a", 1) == 0xD24EC4F1A98C6E5Bu);
    assert_true(ls_hash_bytes("abc", 3) == 0x44BC2CF5AD770999u);
    assert_true(ls_hash_bytes(text, 101) == 0xe99038495f85381eu);
}

static void test_any_mesh(void **state) {
    const mesh_case meshes[] = {ONE, TWO, THREE, FOUR, TENSOR};
    const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        for (size_t a = 0; a < LS_COUNT(meshes); a++) {
            work w = make_work(state, meshes[a], types[t]);
            w.folder = *state;
            w.step = (int64_t)(t * 10 + a);
            assert_ok(run(&w));
            for (size_t b = 0; b < LS_COUNT(meshes); b++) assert_ok(load(state, meshes[b], types[t], w.saved, w.step));
        }
    }
    /* The same masters whatever the type of the parameters: f32 goes on in bf16, f64 does not. */
    LS_PATH path = NULL;
    assert_ok(load(state, TWO, LS_BF16, scratch_path(state, "checkpoint-00000001"), 1));
    assert_ok(ls_checkpoint_find(*state, &path));
    assert_string_equal(path, scratch_path(state, "checkpoint-00000024"));
    assert_error(load(state, TWO, LS_F32, path, 24), LS_INVALID, "it holds F64", "needs F32");
}

/* A checkpoint that does not name its optimiser, as of older versions, is refused where there are other states. */
static void test_another_optimizer(void **state) {
    static const struct { const ls_optimizer *was, *is; } pairs[] = {{&momentum, NULL}, {NULL, &ls_optimizer_lion}};
    for (size_t i = 0; i < LS_COUNT(pairs); i++) {
        work w = make_work(state, TWO, LS_BF16), same = make_work(state, THREE, LS_BF16);
        w.folder = *state, same.optimizer = w.optimizer = pairs[i].was;
        assert_ok(run(&w));
        same.path = w.saved;
        assert_ok(run(&same));
        same.optimizer = pairs[i].is;
        assert_error(run(&same), LS_INVALID, "optimizer.safetensors: tensor", "is a state that the optimiser of this");
    }
}

/* Files of both folders that have one of the names are the same. */
static void assert_same_files(const char *a, const char *b, const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        LS_PATH one = NULL;
        LS_PATH other = NULL;
        assert_ok(ls_path_join(a, names[i], &one));
        assert_ok(ls_path_join(b, names[i], &other));
        assert_same_file(one, other);
    }
}

/*
 * From mesh to mesh, and from each mode of sharding to each: each stop loads what the one before saved, has all weights
 * and states, and saves them again; the files stay the same, and so does what is exported of them.
 */
static void test_chain(void **state) {
    static const struct {
        mesh_case mesh;
        int shard;
    } stops[] = {
        {{2, 1, 1, 1, "local"}, LS_SHARD_NONE},          {{1, 4, 1, 1, "ring"}, LS_SHARD_PARAMETERS},
        {{1, 1, 1, 1, "local"}, LS_SHARD_PARAMETERS},    {{2, 1, 2, 1, "ulysses"}, LS_SHARD_OPTIMIZER},
        {{1, 5, 1, 1, "ring"}, LS_SHARD_OPTIMIZER},      {{1, 3, 1, 1, "gather"}, LS_SHARD_PARAMETERS},
        {{2, 2, 2, 1, "usp"}, LS_SHARD_GRADIENTS},       {{1, 1, 4, 1, "ulysses"}, LS_SHARD_GRADIENTS},
        {{4, 1, 1, 1, "local"}, LS_SHARD_PARAMETERS},    {{1, 1, 1, 1, "local"}, LS_SHARD_NONE},
        {{1, 2, 1, 1, "tokenring"}, LS_SHARD_OPTIMIZER}, {{4, 1, 2, 1, "ulysses"}, LS_SHARD_NONE},
        {{2, 3, 1, 1, "ring"}, LS_SHARD_GRADIENTS},      {{1, 1, 1, 1, "local"}, LS_SHARD_OPTIMIZER},
        {{2, 4, 2, 1, "usp"}, LS_SHARD_GRADIENTS},       {{1, 1, 2, 1, "ulysses"}, LS_SHARD_NONE},
        {{2, 1, 1, 1, "local"}, LS_SHARD_NONE},          {{1, 1, 1, 2, "local"}, LS_SHARD_NONE},
        {{2, 1, 1, 2, "local"}, LS_SHARD_PARAMETERS},    {{1, 3, 1, 1, "ring"}, LS_SHARD_GRADIENTS},
        {{1, 2, 1, 2, "ring"}, LS_SHARD_GRADIENTS},      {{1, 1, 2, 2, "ulysses"}, LS_SHARD_OPTIMIZER},
        {{1, 1, 1, 1, "local"}, LS_SHARD_NONE},
    };
    static const struct {
        const ls_optimizer *optimizer;
        ls_dtype dtype;
    } kinds[] = {{&ls_optimizer_adamw, LS_F32},
                 {&ls_optimizer_adamw, LS_BF16},
                 {&ls_optimizer_muon, LS_F32},
                 {&ls_optimizer_muon, LS_BF16}};
    static const char *const saved[] = {"model.safetensors", "optimizer.safetensors", "config.json"};
    static const char *const exported[] = {"model.safetensors", "config.json", "generation_config.json"};
    for (size_t k = 0; k < LS_COUNT(kinds); k++) {
        kept_path first = {""}, first_export = {""}, last = {""};
        for (size_t i = 0; i < LS_COUNT(stops); i++) {
            if (stops[i].mesh.tp > 1 && kinds[k].optimizer->update_matrices != NULL) continue; /* refused by name */
            char name[32], out[32];
            snprintf(name, sizeof name, "kind%zu-stop%zu", k, i);
            snprintf(out, sizeof out, "kind%zu-exported%zu", k, i);
            const kept_path folder = path_in(state, name), export = path_in(state, out);
            work w = make_work(state, stops[i].mesh, kinds[k].dtype);
            w.shard = &ls_shard_modes[stops[i].shard];
            w.optimizer = kinds[k].optimizer;
            w.path = i == 0 ? NULL : last.text;
            w.folder = folder.text;
            assert_ok(run(&w));
            ls_export_result result;
            const ls_export_options options = {.checkpoint = w.saved, .out = export.text, .dtype = LS_ST_BF16};
            assert_ok(ls_checkpoint_export(&options, &result));
            snprintf(last.text, sizeof last.text, "%s", w.saved);
            if (i == 0) {
                first = last;
                first_export = export;
                continue;
            }
            assert_same_files(first.text, last.text, saved, LS_COUNT(saved));
            assert_same_files(first_export.text, export.text, exported, LS_COUNT(exported));
        }
    }
}

static void flip(const char *path, int64_t at) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

/* A bit flipped anywhere is seen, whichever rank reads it, and named; turned back, all is well. */
static void test_corruption(void **state) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"};
    save_ok(state, TWO, LS_BF16, 10, 0);
    LS_PATH path = NULL;
    LS_PATH folder = NULL;
    assert_ok(ls_checkpoint_find(*state, &folder));
    for (size_t f = 0; f < LS_COUNT(names); f++) {
        struct stat info;
        assert_ok(ls_path_join(folder, names[f], &path));
        assert_int_equal(stat(path, &info), 0);
        for (int64_t at = 0; at < info.st_size;
             at += at + 1 == info.st_size ? 1 : ls_min(info.st_size / 23 + 1, info.st_size - 1 - at)) {
            flip(path, at);
            assert_error(load(state, at % 2 ? THREE : ONE, LS_BF16, folder, 10), LS_INVALID, names[f], "corrupted");
            flip(path, at);
        }
    }
    assert_ok(load(state, THREE, LS_BF16, folder, 10));
    /* The piece is named. */
    assert_ok(ls_path_join(folder, "optimizer.safetensors", &path));
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    flip(path, info.st_size - 1);
    assert_error(load(state, FOUR, LS_BF16, folder, 10), LS_INVALID, "optimizer.safetensors", "(v lm_head.weight)");
}

/* A scalar of the record that is changed by an editor is no better than a bit. */
static void test_state_of_record(void **state) {
    ls_train_state s;
    save_ok(state, ONE, LS_F32, 10, 0);
    const char *folder = scratch_path(state, "checkpoint-00000010");
    assert_ok(ls_checkpoint_state(folder, &s));
    assert_true(s.step == 10 && s.seed == UINT64_MAX - 3 && s.sequences == 77 && s.last_loss == 1.0 / 3);
    LS_PATH path = NULL;
    char *text, *step;
    size_t bytes;
    assert_ok(ls_path_join(folder, "state.json", &path));
    assert_ok(ls_file_read(path, 1 << 20, &text, &bytes));
    step = strstr(text, "\"step\": 10");
    assert_non_null(step);
    step[strlen("\"step\": 10") - 1] = '2';
    assert_ok(ls_file_write(path, text, bytes));
    assert_error(ls_checkpoint_state(folder, &s), LS_INVALID, "state.json", "corrupted");
    assert_ok(ls_file_write(path, text, bytes / 2));
    assert_error(ls_checkpoint_state(folder, &s), LS_INVALID, "state.json", "corrupted");
    free(text);
    assert_error(ls_checkpoint_state(scratch_path(state, "nothing"), &s), LS_IO, "state.json", "No such file");
}

static void test_truncated(void **state) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    LS_PATH path = NULL;
    LS_PATH folder = NULL;
    for (int f = 0; f < 2; f++) {
        save_ok(state, TWO, LS_F32, f, 0);
        assert_ok(ls_checkpoint_find(*state, &folder));
        assert_ok(ls_path_join(folder, names[f], &path));
        for (int cut = 0; cut < 3; cut++) {
            struct stat info;
            assert_int_equal(stat(path, &info), 0);
            assert_int_equal(truncate(path, cut == 2 ? 0 : info.st_size - 1 - cut * 100), 0);
            assert_error(load(state, THREE, LS_F32, folder, f), LS_INVALID, names[f], "it is cut");
        }
        assert_int_equal(unlink(path), 0);
        assert_error(load(state, THREE, LS_F32, folder, f), LS_IO, names[f], "No such file");
    }
}

/* No room for the files: every rank says so, and the earlier checkpoint is as it was. */
static void test_no_space(void **state) {
    save_ok(state, TWO, LS_F32, 10, 0);
    struct rlimit old, small;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    assert_int_equal(sigaction(SIGXFSZ, &ignore, &before), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    static const rlim_t limits[] = {2000, 14000}; /* the first file does not fit; only the second does not */
    for (size_t i = 0; i < LS_COUNT(limits); i++) {
        work w = make_work(state, THREE, LS_F32);
        w.folder = *state;
        w.step = 11;
        small.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const ls_status status = run(&w);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_error(status, LS_IO, i == 0 ? "model.safetensors" : "optimizer.safetensors", "File too large");
        assert_int_equal(count_entries(*state, "checkpoint-"), 1);
        assert_ok(load(state, THREE, LS_F32, scratch_path(state, "checkpoint-00000010"), 10));
    }
    sigaction(SIGXFSZ, &before, NULL);
    save_ok(state, THREE, LS_F32, 11, 0);
}

static void test_cannot_write(void **state) {
    work w = make_work(state, TWO, LS_F32);
    w.folder = scratch_text(state, "file", "no folder");
    assert_error(run(&w), LS_IO, "file", "rank 0");
}

static void test_keep_and_find(void **state) {
    LS_PATH path = NULL;
    assert_error(ls_checkpoint_find(*state, &path), LS_INVALID, "no checkpoint in", *state);
    assert_error(ls_checkpoint_find(scratch_path(state, "nowhere"), &path), LS_INVALID, "no checkpoint in", "nowhere");
    for (int step = 1; step <= 3; step++) save_ok(state, ONE, LS_F32, step, 0);
    assert_int_equal(count_entries(*state, "checkpoint-"), 3);
    save_ok(state, TWO, LS_F32, 100000007, 2);
    assert_int_equal(count_entries(*state, "checkpoint-"), 2);
    assert_true(ls_file_exists(scratch_path(state, "checkpoint-00000003")));
    assert_ok(ls_checkpoint_find(*state, &path));
    assert_string_equal(path, scratch_path(state, "checkpoint-100000007"));
    /* What a crash leaves is no checkpoint, and is cleaned by the next save; other things are not touched. */
    assert_ok(ls_file_make_folders(scratch_path(state, "checkpoint-200000000.partial/deep")));
    assert_ok(ls_file_make_folders(scratch_path(state, "checkpoint-best")));
    assert_ok(ls_checkpoint_find(*state, &path));
    assert_string_equal(path, scratch_path(state, "checkpoint-100000007"));
    save_ok(state, TWO, LS_F32, 5, 1); /* goes back: the one just written stays, the newest of the others goes */
    assert_int_equal(count_entries(*state, "checkpoint-"), 2);
    assert_true(ls_file_exists(scratch_path(state, "checkpoint-00000005")));
    assert_true(ls_file_exists(scratch_path(state, "checkpoint-best")));
}

/* The same step once more replaces it. */
static void test_again(void **state) {
    save_ok(state, ONE, LS_F32, 10, 0);
    work w = make_work(state, TWO, LS_F32);
    w.folder = *state;
    w.salt = 3;
    assert_ok(run(&w));
    assert_int_equal(count_entries(*state, "checkpoint-"), 1);
    assert_error(load(state, ONE, LS_F32, w.saved, 10), LS_DIVERGED, "differs", "");
    work again = make_work(state, ONE, LS_F32);
    again.path = w.saved;
    again.salt = 3;
    assert_ok(run(&again));
}

static void test_other_model(void **state) {
    save_ok(state, TWO, LS_F32, 10, 0);
    char text[512];
    snprintf(text, sizeof text, "%s", small_config);
    *(strstr(text, "\"vocab_size\": 13") + strlen("\"vocab_size\": 1")) = '4';
    (void)scratch_text(state, "config.json", text);
    assert_error(load(state, TWO, LS_F32, scratch_path(state, "checkpoint-00000010"), 10), LS_INVALID,
                 "model.safetensors", "model.embed_tokens.weight is [13,10], expected [14,10]");
}

/* A checkpoint as a source of weights, in another type. */
static void test_weights(void **state) {
    const work saved = make_work(state, TWO, LS_BF16);
    work other = make_work(state, ONE, LS_F64);
    ls_model *model = NULL;
    ls_image *image = NULL;
    ls_weight_source source;
    double x[3];
    save_ok(state, TWO, LS_BF16, 10, 0);
    const char *path = scratch_path(state, "checkpoint-00000010");
    ls_graph *g = ls_graph_create(LS_F64);
    assert_ok(ls_model_open(*state, &model));
    assert_ok(make_image(&other, model, g, 0, &image));
    assert_ok(ls_checkpoint_weights(path, NULL, image, NULL, &source));
    assert_true(ls_weights_from_file(&source));
    const ls_flat *flat = &image->flats[image->n_flats - 1];
    assert_ok(source.read(source.context, flat, 4, 3, x));
    for (int i = 0; i < 3; i++) assert_true(x[i] == (float)value_of(&saved, 0, flat, 4 + i));
    ls_weights_close(&source);
    LS_PATH file = NULL;
    assert_ok(ls_path_join(path, "model.safetensors", &file));
    flip(file, 3000);
    assert_error(ls_checkpoint_weights(path, NULL, image, NULL, &source), LS_INVALID, "model.safetensors", "corrupted");
    ls_image_destroy(image);
    ls_graph_destroy(g);
    ls_model_close(model);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_hash),          TEST(test_any_mesh),   TEST(test_another_optimizer),
        TEST(test_chain),         TEST(test_corruption), TEST(test_state_of_record),
        TEST(test_truncated),     TEST(test_no_space),   TEST(test_cannot_write),
        TEST(test_keep_and_find), TEST(test_again),      TEST(test_other_model),
        TEST(test_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
