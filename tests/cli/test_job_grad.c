/*
 * The grad command as a function: every mesh against one rank. f64 tests the logic (1e-12), f32 the precision (loss
 * 1e-6, gradients 1e-5 against f64 on the same rounded weights). Heads are shared unevenly, S does not divide, some
 * labels are ignored.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "support/emulated.h"
#include "support/kernel_call.h"
#include "support/scratch.h"

enum { B = 2, S = 37, V = 32 };

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 32,\n"
    " \"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 8,\n"
    " \"num_key_value_heads\": 2, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0,\n"
    " \"tie_word_embeddings\": %s}\n";

static int32_t token_at(int64_t i) { return (int32_t)(ls_rng_bits(5, 0, (uint64_t)i) % V); }

/* --- labels ------------------------------------------------------------------------------------------------------- */

typedef bool (*counts_rule)(int64_t position);
static bool everywhere(int64_t position) { return position >= 0; }
static bool on_the_last_rank(int64_t position) { return position >= S - 4; } /* of 8 contiguous parts */
static bool sparse(int64_t position) { return position % 5 == 2 && position < 20; }
static bool nowhere(int64_t position) { return position < 0; }

static int write_tokens(void **state, counts_rule counts) {
    int32_t tokens[B * S], labels[B * S];
    int valid = 0;
    for (int64_t i = 0; i < B * S; i++) {
        tokens[i] = token_at(i);
        labels[i] = counts(i % S) ? token_at(i + 1) : -100;
        valid += labels[i] != -100;
    }
    const int64_t shape[] = {B, S};
    assert_ok(ls_npy_write(scratch_path(state, "tokens.npy"), LS_NPY_I4, 2, shape, tokens));
    assert_ok(ls_npy_write(scratch_path(state, "labels.npy"), LS_NPY_I4, 2, shape, labels));
    return valid;
}

static void write_config(void **state, const char *tied) {
    char text[1024];
    snprintf(text, sizeof text, config, tied);
    assert_ok(ls_file_make_folders(scratch_path(state, "model")));
    assert_ok(ls_file_remove_tree(scratch_path(state, "model/model.safetensors")));
    (void)scratch_text(state, "model/config.json", text);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static bool as_threads(void) {
    const char *sanitizer = getenv("LS_TEST_SANITIZER");
    return sanitizer != NULL && strcmp(sanitizer, "thread") == 0;
}

/*
 * oneDNN is not instrumented: how ranks that are threads share its cache of descriptions safely cannot be seen by the
 * sanitizer, which then calls reading them a race. What is looked for here is in our own code.
 */
static const char *isa(void) { return as_threads() ? "ref" : NULL; }

static const char *or_auto(const char *name) { return name != NULL ? name : "auto"; }

static ls_status run_job(void **state, const char *labels, const char *dtype, const ls_spread *spread, const char *out,
                         ls_grad_result *result) {
    char model[512], tokens[512], label[512], file[512];
    snprintf(model, sizeof model, "%s", scratch_path(state, "model"));
    snprintf(tokens, sizeof tokens, "%s", scratch_path(state, "tokens.npy"));
    snprintf(label, sizeof label, "%s", scratch_path(state, labels != NULL ? labels : ""));
    snprintf(file, sizeof file, "%s", scratch_path(state, out));
    const ls_grad_job job = {.model = model,
                             .tokens = tokens,
                             .labels = labels != NULL ? label : NULL,
                             .dtype = dtype,
                             .out = file,
                             .seed = 3,
                             .spread = *spread};
    return ls_run_grad(&job, result);
}

static ls_grad_result run(void **state, const char *dtype, const ls_spread *spread, const char *out) {
    ls_grad_result result = {.loss = NAN};
    const ls_status status = run_job(state, "labels.npy", dtype, spread, out, &result);
    if (status.code != LS_OK) fail_msg("%s: %s", or_auto(spread->strategy), status.text);
    return result;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static double *numbers(const ls_st_tensor *t) {
    double *x = malloc(sizeof *x * (size_t)t->count + 1);
    assert_ok(ls_st_convert(t, 0, t->count, LS_F64, x));
    return x;
}

static double squares(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sum;
}

/* "model.layers.1.mlp.up_proj.weight" and "model.layers.0...." are one kind. */
static bool same_kind(const char *a, const char *b) {
    const char *dot_a = strstr(a, "layers."), *dot_b = strstr(b, "layers.");
    if (dot_a == NULL || dot_b == NULL) return strcmp(a, b) == 0;
    return strcmp(strchr(dot_a + 7, '.'), strchr(dot_b + 7, '.')) == 0;
}

static double norm_of_kind(const ls_st_file *file, const char *name) {
    double sum = 0;
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *t = ls_st_at(file, i);
        if (!same_kind(t->name, name)) continue;
        double *x = numbers(t);
        sum += squares(x, NULL, t->count);
        free(x);
    }
    return sqrt(sum);
}

/* The largest error over all gradients: |g - g*| / max(|g*|, 1e-3 of the norm of its kind over the layers). */
static double largest_gradient_error(void **state, const char *file, const char *reference, char worst[128]) {
    ls_st_file *a, *b;
    double most = 0;
    assert_ok(ls_st_open(scratch_path(state, file), &a));
    assert_ok(ls_st_open(scratch_path(state, reference), &b));
    assert_int_equal(ls_st_count(a), ls_st_count(b));
    for (int64_t i = 0; i < ls_st_count(b); i++) {
        const ls_st_tensor *right = ls_st_at(b, i), *tensor;
        assert_ok(ls_st_need(a, right->name, right->ndim, right->shape, &tensor));
        double *x = numbers(tensor), *y = numbers(right);
        const double norm = fmax(sqrt(squares(y, NULL, right->count)), 1e-3 * norm_of_kind(b, right->name));
        const double error = sqrt(squares(x, y, right->count)) / norm;
        if (!(error <= most)) {
            most = error;
            snprintf(worst, 128, "%s", right->name);
        }
        free(x);
        free(y);
    }
    ls_st_close(a);
    ls_st_close(b);
    return most;
}

static void compare(void **state, const ls_spread *spread, const char *dtype, const ls_grad_result *one,
                    double loss_tolerance, double tolerance) {
    const ls_grad_result many = run(state, dtype, spread, "many.safetensors");
    char worst[128] = "";
    const double error = largest_gradient_error(state, "many.safetensors", "one.safetensors", worst);
    assert_int_equal(many.tokens, one->tokens);
    if (!(fabs(many.loss - one->loss) <= loss_tolerance * fabs(one->loss)))
        fail_msg("%s %s %s: loss %.17g, expected %.17g", dtype, or_auto(spread->strategy), or_auto(spread->mesh),
                 many.loss, one->loss);
    if (!(error <= tolerance))
        fail_msg("%s %s %s %s: gradient of %s is off by %g", dtype, or_auto(spread->strategy), or_auto(spread->mesh),
                 or_auto(spread->layout), worst, error);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static const ls_spread alone = {.ranks = 1, .threads = 1};

static const struct {
    int64_t ranks;
    const char *strategy, *mesh, *layout;
} meshes[] = {
    {2, "ring", NULL, "zigzag"},
    {3, "ring", NULL, "contiguous"},
    {4, "ring", NULL, "striped"},
    {8, "ring", NULL, "zigzag"},
    {2, "ulysses", NULL, "contiguous"},
    {3, "ulysses", NULL, "contiguous"},
    {4, "ulysses", NULL, "zigzag"},
    {8, "ulysses", NULL, "contiguous"},
    {4, "usp", "ring=2,ulysses=2", "zigzag"},
    {8, "usp", "ring=4,ulysses=2", "zigzag"},
    {8, "usp", "ring=2,ulysses=4", "contiguous"},
    {2, "local", "dp=2", "contiguous"},
    {4, "ring", "dp=2,ring=2", "zigzag"},
};

/* On every `every`-th mesh; repeated by an emulator on a third of these: still ring, ulysses, usp and dp. */
static void over_meshes(void **state, const char *dtype, const ls_grad_result *one, double loss_tolerance,
                        double tolerance, int every) {
    const size_t step = (size_t)every * (is_repeated() ? 3 : 1);
    for (size_t i = 0; i < LS_COUNT(meshes); i += step) {
        const ls_spread spread = {.ranks = meshes[i].ranks,
                                  .strategy = meshes[i].strategy,
                                  .mesh = meshes[i].mesh,
                                  .layout = meshes[i].layout,
                                  .threads = 1,
                                  .isa = isa(),
                                  .as_threads = as_threads()};
        compare(state, &spread, dtype, one, loss_tolerance, tolerance);
    }
}

static void test_f64(void **state) {
    write_config(state, "false");
    assert_int_equal(write_tokens(state, everywhere), B * S);
    const ls_grad_result one = run(state, "f64", &alone, "one.safetensors");
    assert_int_equal(one.tokens, B * S);
    assert_true(fabs(one.loss - log(V)) < 0.3); /* small random weights guess */
    over_meshes(state, "f64", &one, 1e-12, 1e-12, 1);
}

static void test_tied(void **state) {
    skip_if_repeated();
    write_config(state, "true");
    (void)write_tokens(state, everywhere);
    const ls_grad_result one = run(state, "f64", &alone, "one.safetensors");
    over_meshes(state, "f64", &one, 1e-12, 1e-12, 4);
}

static void test_uneven_labels(void **state) {
    skip_if_repeated();
    write_config(state, "false");
    static const counts_rule rules[] = {on_the_last_rank, sparse};
    for (size_t i = 0; i < LS_COUNT(rules); i++) {
        const int valid = write_tokens(state, rules[i]);
        assert_true(valid > 0 && valid < B * S / 4);
        const ls_grad_result one = run(state, "f64", &alone, "one.safetensors");
        assert_int_equal(one.tokens, valid);
        over_meshes(state, "f64", &one, 1e-12, 1e-12, 2);
    }
}

static void test_no_labels(void **state) {
    skip_if_repeated();
    write_config(state, "false");
    assert_int_equal(write_tokens(state, nowhere), 0);
    const ls_spread spread = {.ranks = 2, .strategy = "ring", .threads = 1, .isa = isa(), .as_threads = as_threads()};
    const ls_grad_result result = run(state, "f32", &spread, "one.safetensors");
    assert_int_equal(result.tokens, 0);
    assert_true(result.loss == 0);
    ls_st_file *file;
    assert_ok(ls_st_open(scratch_path(state, "one.safetensors"), &file));
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        double *x = numbers(ls_st_at(file, i));
        assert_true(squares(x, NULL, ls_st_at(file, i)->count) == 0);
        free(x);
    }
    ls_st_close(file);
}

/* Weights in f32, large enough for attention to matter, under the names of a file of gradients. */
static void write_weights(void **state) {
    ls_st_file *names;
    ls_st_entry entries[64] = {{0}};
    ls_st_plan *plan;
    ls_st_writer *writer;
    assert_ok(ls_st_open(scratch_path(state, "one.safetensors"), &names));
    const int64_t n = ls_st_count(names);
    assert_in_range(n, 1, LS_COUNT(entries));
    for (int64_t i = 0; i < n; i++) {
        const ls_st_tensor *t = ls_st_at(names, i);
        entries[i] = (ls_st_entry){.name = t->name, .dtype = LS_ST_F32, .ndim = t->ndim};
        memcpy(entries[i].shape, t->shape, sizeof t->shape);
    }
    assert_ok(ls_st_plan_create(entries, n, NULL, 0, &plan));
    assert_ok(ls_st_create(scratch_path(state, "model/model.safetensors"), plan, &writer));
    for (int64_t i = 0; i < n; i++) {
        const ls_st_tensor *t = ls_st_at(names, i);
        double *x = malloc(sizeof *x * (size_t)t->count);
        float *y = malloc(sizeof *y * (size_t)t->count);
        fill_normal(x, t->count, 100 + (uint64_t)i);
        for (int64_t j = 0; j < t->count; j++) y[j] = (float)((t->ndim == 1 ? 1 : 0) + 0.2 * x[j]);
        assert_ok(ls_st_write(writer, i, 0, y, t->count * (int64_t)sizeof *y));
        free(x);
        free(y);
    }
    assert_ok(ls_st_finish(writer));
    ls_st_plan_destroy(plan);
    ls_st_close(names);
}

static void test_f32(void **state) {
    write_config(state, "false");
    (void)write_tokens(state, everywhere);
    (void)run(state, "f32", &alone, "one.safetensors");
    write_weights(state);
    const ls_grad_result one = run(state, "f64", &alone, "one.safetensors");
    over_meshes(state, "f32", &one, 1e-6, 1e-5, 1);
    compare(state, &alone, "f32", &one, 1e-6, 1e-5);
}

/* Without labels: the next token of the same row. */
static void test_default_labels(void **state) {
    skip_if_repeated();
    write_config(state, "false");
    int32_t labels[B * S];
    (void)write_tokens(state, everywhere);
    for (int64_t i = 0; i < B * S; i++) labels[i] = i % S == S - 1 ? -100 : token_at(i + 1);
    const int64_t shape[] = {B, S};
    assert_ok(ls_npy_write(scratch_path(state, "labels.npy"), LS_NPY_I4, 2, shape, labels));
    const ls_grad_result given = run(state, "f64", &alone, "one.safetensors");
    ls_grad_result derived;
    assert_ok(run_job(state, NULL, "f64", &alone, "many.safetensors", &derived));
    assert_int_equal(derived.tokens, B * (S - 1));
    assert_true(derived.loss == given.loss);
    char worst[128];
    assert_true(largest_gradient_error(state, "many.safetensors", "one.safetensors", worst) == 0);
}

static void test_refusals(void **state) {
    skip_if_repeated();
    write_config(state, "false");
    (void)write_tokens(state, everywhere);
    ls_grad_result result;
    int32_t tokens[B * S] = {0};
    const int64_t shape[] = {B, S}, narrow[] = {B, S - 1};
    tokens[S + 3] = V;
    assert_ok(ls_npy_write(scratch_path(state, "labels.npy"), LS_NPY_I4, 2, narrow, tokens));
    assert_error(run_job(state, "labels.npy", "f32", &alone, "x", &result), LS_INVALID, "labels.npy: shape is [2,36]",
                 "[2,37] like the tokens");
    assert_ok(ls_npy_write(scratch_path(state, "labels.npy"), LS_NPY_I4, 2, shape, tokens));
    assert_error(run_job(state, "labels.npy", "f32", &alone, "x", &result), LS_INVALID, "row 1, column 3 is 32",
                 "-100");
    assert_ok(ls_npy_write(scratch_path(state, "tokens.npy"), LS_NPY_I4, 2, shape, tokens));
    assert_error(run_job(state, NULL, "f32", &alone, "x", &result), LS_INVALID, "tokens.npy: row 1, column 3 is 32",
                 "0 to 31");
    (void)write_tokens(state, everywhere);
    assert_error(run_job(state, NULL, "f32", &alone, "nowhere/x", &result), LS_IO, "nowhere/x", "");
    assert_false(ls_file_exists(scratch_path(state, "x")));
    const ls_spread heads = {.ranks = 9, .strategy = "ulysses", .threads = 1};
    assert_error(run_job(state, NULL, "f32", &heads, "x", &result), LS_USAGE, "ulysses=9", "8 query heads");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),       cmocka_unit_test(test_tied), cmocka_unit_test(test_uneven_labels),
        cmocka_unit_test(test_no_labels), cmocka_unit_test(test_f32),  cmocka_unit_test(test_default_labels),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
