/* Weights out of files: every type into every type, shards and indices, and every mistake in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/format.h"
#include "support/scratch.h"
#include "support/tensors.h"
#include "support/weight_files.h"

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

static void write_index(void **state, const place *p, const char *first, const char *second) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_open_object(w, "weight_map");
    for (int f = 0; f < p->image->n_flats; f++)
        ls_json_put_text(w, p->image->flats[f].name, f < p->image->n_flats / 2 ? first : second);
    ls_json_close(w);
    assert_ok(ls_json_end_file(w, scratch_path(state, "model.safetensors.index.json")));
}

/* Shards by an index, and shards by their ending alone. */
static void test_shards(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const int half = p.image->n_flats / 2;
    write_weights(p.image, scratch_path(state, "a.safetensors"), (file_case){.dtype = LS_ST_F32, .to = half});
    write_weights(p.image, scratch_path(state, "b.safetensors"), (file_case){.dtype = LS_ST_BF16, .from = half});
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    write_weights(p.image, scratch_path(state, "stray.safetensors"), (file_case){.dtype = LS_ST_F32, .to = 2});
    assert_error(fill_own(&p, 1, true), LS_INVALID, "2 in more than one file (model.embed_tokens.weight", *state);
    /* The index does not name the stray one. */
    write_index(state, &p, "a.safetensors", "b.safetensors");
    assert_ok(fill_own(&p, 1, true));
    check_filled(&p);
    assert_int_equal(unlink(scratch_path(state, "b.safetensors")), 0);
    assert_error(fill_own(&p, 1, true), LS_IO, "1 of the 2 files that it names are missing: b.safetensors",
                 "No such file");
    (void)scratch_text(state, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../a.safetensors\"}}");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "weight_map.a is \"../a.safetensors\"", "same folder");
    (void)scratch_text(state, "model.safetensors.index.json", "{\"weight_map\": {}}");
    assert_error(fill_own(&p, 1, true), LS_INVALID, "weight_map", "expected an object with");
    close_place(&p);
}

/* What an index says must be so: its files are there, in the folder, and its tensors in them. */
static void test_wrong_index(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const int half = p.image->n_flats / 2;
    write_weights(p.image, scratch_path(state, "a.safetensors"), (file_case){.dtype = LS_ST_F32, .to = half});
    write_weights(p.image, scratch_path(state, "b.safetensors"), (file_case){.dtype = LS_ST_F32, .from = half});
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
        {"{\"weight_map\": {\"a\": \"..\"}}", "weight_map.a is \"..\", expected the name of a file in the same"},
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
    ls_json_writer *w = ls_json_begin(0);
    ls_json_open_object(w, "weight_map");
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.safetensors", i);
        ls_json_put_text(w, name, name);
    }
    ls_json_close(w);
    assert_ok(ls_json_end_file(w, scratch_path(state, "model.safetensors.index.json")));
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
        void *one = copy_of_tensor(direct.executor, LS_BIND_PARAMETERS),
             *other = copy_of_tensor(by_way.executor, LS_BIND_PARAMETERS);
        assert_memory_equal(one, other, (size_t)(last->start + last->count) * ls_dtype_bytes(T));
        free(one);
        free(other);
        for (int k = 0; k < image->n_pieces; k++) {
            const ls_operand master = ls_image_master(image, &image->pieces[k]);
            one = copy_of_operand(direct.executor, &master);
            other = copy_of_operand(by_way.executor, &master);
            assert_memory_equal(one, other, (size_t)image->pieces[k].count * ls_dtype_bytes(image->accumulator));
            free(one);
            free(other);
        }
        close_place(&direct);
        close_place(&by_way);
    }
}

static void test_wrong_files(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const char *path = scratch_path(state, "model.safetensors");
    write_weights(
        p.image, path,
        (file_case){.dtype = LS_ST_F32, .drop = "model.norm.weight", .add = "model.what", .reshape = "lm_head.weight"});
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
    return strcmp(flat->name, "model.norm.weight") == 0 ? ls_error(LS_IO, "%s cannot be read", flat->name) : ls_ok();
}

static void test_source_fails(void **state) {
    place p;
    open_place(state, LS_F32, 1, 0, &p);
    const ls_weight_source source = {.read = refuse};
    assert_error(ls_weights_fill(p.executor, &source), LS_IO, "model.norm.weight", "cannot be read");
    close_place(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_weights_scene, scratch_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_one_file),        TEST(test_shards), TEST(test_wrong_index), TEST(test_long_index),
        TEST(test_foreign_weights), TEST(test_direct), TEST(test_wrong_files), TEST(test_source_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
