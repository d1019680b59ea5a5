/*
 * Any model.safetensors.index.json is refused, or the two tensors of a test model are read from the files that it
 * names, a.safetensors and b.safetensors in the same folder.
 */
#include "fuzz/fuzz.h"
#include "weights/weights.h"

#include <string.h>

static void put_shard(const fuzz_folder *folder, const char *file, const char *tensor, float value) {
    char text[160];
    const int n = snprintf(text + 8, sizeof text - 8,
                           "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", tensor);
    for (int i = 0; i < 8; i++) text[i] = (char)((uint64_t)n >> (8 * i) & 0xff);
    memcpy(text + 8 + n, &value, sizeof value);
    fuzz_folder_put(folder, file, text, 8 + (size_t)n + sizeof value);
}

static void run(const uint8_t *data, size_t bytes) {
    ls_flat flats[] = {{.name = "a", .shape = {.ndim = 1, .dim = {{.size = 1}}}, .count = 1},
                       {.name = "b", .shape = {.ndim = 1, .dim = {{.size = 1}}}, .start = 1, .count = 1}};
    const ls_image image = {.flats = flats, .n_flats = LS_COUNT(flats)};
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "model.safetensors.index.json", data, bytes);
    put_shard(&folder, "a.safetensors", "a", 2);
    put_shard(&folder, "b.safetensors", "b", 3);
    ls_weight_source source;
    if (fuzz_read(ls_weights_open_folder(folder.path, &image, NULL, &source), folder.path)) {
        for (int i = 0; i < image.n_flats; i++) {
            double value = 0;
            LS_ASSERT(fuzz_done(source.read(source.context, &flats[i], 0, 1, &value)) && value == 2 + i);
        }
        ls_weights_close(&source);
    }
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_weight_index = {.name = "weight_index", .run = run};
