/*
 * Any model.safetensors is refused, or gives the weights of a test model, the same numbers in every type. The model has
 * the parameters model.a [2,2] and model.b [3]; a file may also have "head", a copy of model.a, and tensors that end
 * with .derived, and may leave out "model.".
 */
#include "weights/weights.h"
#include "fuzz/fuzz.h"

#include <math.h>
#include <string.h>

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void check_flat(const ls_weight_source *source, const ls_flat *flat) {
    double exact[4], one;
    float single[4];
    if (!fuzz_done(source->read(source->context, flat, 0, flat->count, exact))) return; /* it is not what its copy is */
    LS_ASSERT(fuzz_done(source->convert(source->context, flat, 0, flat->count, LS_F32, single)));
    for (int64_t i = 0; i < flat->count; i++) {
        LS_ASSERT(fuzz_done(source->read(source->context, flat, i, 1, &one)) && same(one, exact[i]));
        LS_ASSERT(same((double)single[i], (double)(float)exact[i]));
    }
}

static void run(const uint8_t *data, size_t bytes) {
    static const char *const derived[] = {".derived", NULL};
    static const ls_weight_copy copy = {"head", "model.a"};
    static const ls_weight_spelling spellings[] = {{"model.", ""}, {NULL, NULL}};
    static const ls_weight_rules rules = {.derived = derived, .copies = &copy, .n_copies = 1, .spellings = spellings};
    ls_flat flats[] = {{.name = "model.a", .shape = {.ndim = 2, .dim = {{.size = 2}, {.size = 2}}}, .count = 4},
                       {.name = "model.b", .shape = {.ndim = 1, .dim = {{.size = 3}}}, .start = 4, .count = 3}};
    const ls_image image = {.flats = flats, .n_flats = LS_COUNT(flats)};
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "model.safetensors", data, bytes);
    ls_weight_source source;
    if (fuzz_read(ls_weights_open_folder(folder.path, &image, &rules, &source), folder.path)) {
        LS_ASSERT(ls_weights_from_file(&source));
        for (int i = 0; i < image.n_flats; i++) check_flat(&source, &flats[i]);
        ls_weights_close(&source);
    }
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_weights = {.name = "weights", .run = run, .repair = fuzz_safetensors_repair};
