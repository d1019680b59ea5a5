/* Weights of a model: random ones are the same for any mesh and type; tied ones, and names without their prefix. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "support/weight_files.h"

#include <math.h>

/* The same numbers, rounded, for every type and on every rank; masters are their rank's part of them. */
static void test_random_any_mesh(void **state) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    place one;
    open_place(state, LS_F64, 1, 0, &one);
    assert_ok(fill_own(&one, 42, false));
    double *wide = copy_of_tensor(one.executor, LS_BIND_PARAMETERS);
    for (size_t c = 0; c < 3 * LS_COUNT(types); c++) {
        place p;
        const ls_dtype T = types[c / 3];
        open_place(state, T, 3, (int)(c % 3), &p);
        assert_ok(fill_own(&p, 42, false));
        const ls_image *image = p.image;
        void *narrow = copy_of_tensor(p.executor, LS_BIND_PARAMETERS);
        for (int f = 0; f < image->n_flats; f++) {
            const int64_t moved = one.image->flats[f].start - image->flats[f].start;
            for (int64_t i = image->flats[f].start; i < image->flats[f].start + image->flats[f].count; i++) {
                assert_true(element(narrow, T, i) == to_type(wide[i + moved], T));
            }
        }
        int64_t owned = 0;
        for (int k = 0; k < image->n_pieces; k++) {
            const ls_flat_piece piece = ls_image_piece(image, k, (int)(c % 3));
            const ls_operand master = ls_image_master(image, &piece);
            void *masters = copy_of_operand(p.executor, &master);
            for (int f = 0; f < image->n_flats; f++) {
                const ls_flat_piece part = ls_piece_within(&piece, image->flats[f].start, image->flats[f].count);
                const int64_t behind = part.start - piece.start;
                const int64_t moved = one.image->flats[f].start - image->flats[f].start;
                for (int64_t i = 0; i < part.count; i++)
                    assert_true(element(masters, image->accumulator, behind + i) ==
                                to_type(wide[part.start + moved + i], image->accumulator));
                owned += part.count;
            }
            free(masters);
        }
        assert_true(owned > 0);
        free(narrow);
        close_place(&p);
    }
    free(wide);
    close_place(&one);
}

static void test_random_distribution(void **state) {
    place p;
    double sum = 0, squares = 0, fourth = 0, product = 0;
    open_place(state, LS_F64, 1, 0, &p);
    assert_ok(fill_own(&p, 1, false));
    const ls_flat *flat = find_flat(p.image, "model.layers.0.mlp.up_proj.weight");
    const ls_operand at = ls_image_elements(p.image, LS_BIND_PARAMETERS, flat->start, flat->count);
    double *x = copy_of_operand(p.executor, &at);
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
    free(x);
    x = copy_of_operand(p.executor, &at);
    assert_true(x[0] != before);
    free(x);
    free(many);
    ls_weights_close(&source);
    close_place(&p);
}

static const char tied_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 29, \"hidden_size\": 16, \"intermediate_size\": 24,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"tie_word_embeddings\": true}";

/*
 * Parameters from a file under other names, which begin with `instead` where the parameter's begins with `without`;
 * further (NULL: none): a tensor as well, the table but for `change` in its last element.
 */
static void write_named(const ls_image *image, const char *path, const char *without, const char *instead,
                        const char *further, double change) {
    ls_st_entry entries[64];
    int number[64];
    char names[64][128];
    const int n = image->n_flats;
    for (int f = 0; f <= n; f++) {
        number[f] = f % n;
        const ls_flat *flat = &image->flats[f < n ? f : 0];
        const bool cut = strncmp(flat->name, without, strlen(without)) == 0;
        snprintf(names[f], sizeof names[f], "%s%s", cut ? instead : "", flat->name + (cut ? strlen(without) : 0));
        entries[f] = (ls_st_entry){f < n ? names[f] : further, f < n ? LS_ST_F32 : LS_ST_BF16, flat->shape.ndim, {0}};
        for (int d = 0; d < flat->shape.ndim; d++) entries[f].shape[d] = flat->shape.dim[d].size;
    }
    write_entries(path, entries, number, n + (further != NULL), further != NULL ? change : 0);
}

static void test_tied(void **state) {
    place p;
    (void)scratch_text(state, "config.json", tied_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "", "", NULL, 0); /* as it should be: there is no head */
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "", "", "lm_head.weight", 0); /* the table once more, though of another type */
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "", "", "lm_head.weight", 0.5);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "1 not tied, though the config says so",
                 "(lm_head.weight is not model.embed_tokens.weight)");
    /* Who reads a part of the table compares that part: the first half is right. */
    ls_weight_source source;
    double half[29 * 16 / 2];
    const ls_flat *table = find_flat(p.image, "model.embed_tokens.weight");
    assert_ok(ls_model_weights(p.model, p.image, 1, &source));
    assert_ok(source.read(source.context, table, 0, LS_COUNT(half), half));
    assert_int_equal(source.bytes_read(source.context), LS_COUNT(half) * (4 + (4 + 2))); /* f32; both, one is bf16 */
    assert_error(source.read(source.context, table, LS_COUNT(half), LS_COUNT(half), half), LS_INVALID, "1 not tied",
                 "model.safetensors");
    ls_weights_close(&source);
    close_place(&p);
}

/* A model that was saved without its head lacks "model." in all names; in some of them it is a mistake. */
static void test_bare_names(void **state) {
    place p;
    (void)scratch_text(state, "config.json", tied_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "model.", "", NULL, 0);
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_named(p.image, path, "model.", "", "lm_head.weight", 0);
    assert_ok(fill_own(&p, 1, true));
    write_named(p.image, path, "model.layers.0.mlp.", "", NULL, 0);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "3 missing (model.layers.0.mlp.", "3 extra (");
    close_place(&p);
}

static const char wrapped_config[] =
    "{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", \"text_config\": "
    "{\"vocab_size\": 29, \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 1, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 4}}";

/* Opens the model's own weights, and gives what they leave out. */
static void check_left_out(place *p, const char *expected) {
    ls_weight_source source;
    assert_ok(ls_model_weights(p->model, p->image, 1, &source));
    if (expected == NULL)
        assert_null(source.left_out);
    else
        assert_string_equal(source.left_out, expected);
    ls_weights_close(&source);
    assert_ok(fill_own(p, 1, true));
    check_filled(p);
}

/* Heads for further tokens are left out by name; other tensors are a mistake. */
static void test_further_heads(void **state) {
    place p;
    (void)scratch_text(state, "config.json", tied_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "", "", NULL, 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "", "", "mtp.layers.0.mlp.weight", 0);
    check_left_out(&p, "1 tensors (mtp.layers.0.mlp.weight)");
    write_named(p.image, path, "", "", "model.mtp_layers.0.mlp.weight", 0);
    check_left_out(&p, "1 tensors (model.mtp_layers.0.mlp.weight)");
    write_named(p.image, path, "", "", "vision_tower.weight", 0);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "1 extra (vision_tower.weight)", "");
    close_place(&p);
}

/* The text model of a model with more in it, under both names that it has there. */
static void test_wrapped(void **state) {
    place p;
    (void)scratch_text(state, "config.json", wrapped_config);
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    assert_string_equal(ls_model_architecture(p.model), "Gemma3ForCausalLM");
    assert_null(strstr(ls_model_written(p.model).text, "text_config"));
    write_named(p.image, path, "", "language_model.", "vision_tower.weight", 0);
    check_left_out(&p, "1 tensors (vision_tower.weight)");
    write_named(p.image, path, "", "language_model.", "language_model.lm_head.weight", 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "model.", "model.language_model.", "model.vision_tower.weight", 0);
    check_left_out(&p, "1 tensors (model.vision_tower.weight)");
    write_named(p.image, path, "", "", NULL, 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "", "language_model.", "language_model.other.weight", 0);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "1 extra (language_model.other.weight)", "");
    close_place(&p);
}

/* The library writes a text model by itself under the names that it has in a larger one, if it has read these. */
static void test_text_model_alone(void **state) {
    place p;
    (void)scratch_text(state, "config.json",
                       "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"vocab_size\": 29, \"hidden_size\": 16,"
                       " \"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
                       " \"num_key_value_heads\": 2, \"head_dim\": 8, \"layer_types\": [\"full_attention\"]}");
    const char *path = scratch_path(state, "model.safetensors");
    open_place(state, LS_F32, 1, 0, &p);
    write_named(p.image, path, "model.", "model.language_model.", NULL, 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "model.", "", NULL, 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "", "", NULL, 0);
    check_left_out(&p, NULL);
    write_named(p.image, path, "model.layers.0.mlp.", "model.language_model.layers.0.mlp.", NULL, 0);
    assert_error(fill_own(&p, 1, true), LS_INVALID, "3 missing (model.layers.0.mlp.", "3 extra (");
    close_place(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_weights_scene, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_random_any_mesh),  TEST(test_random_distribution), TEST(test_tied),
        TEST(test_bare_names),       TEST(test_further_heads),       TEST(test_wrapped),
        TEST(test_text_model_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
