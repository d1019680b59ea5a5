/*
 * Any --rope-scaling and --rope-theta with any config.json are refused, or the changed config is a model of the same
 * sizes, and fields that are not about rotary positions are unchanged. The input is scaling, theta and config,
 * separated by the byte 0x1e.
 */
#include "fuzz/fuzz.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static bool is_rotary(const char *key) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters", "rope_theta", "max_position_embeddings"};
    for (size_t i = 0; i < LS_COUNT(keys); i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* A hash of all members that are not about rotary positions. */
static uint64_t hash_others(const char *text) {
    ls_json *document;
    uint64_t hash = 0;
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    LS_ASSERT(fuzz_done(ls_json_parse("fuzz", text, strlen(text), &document)));
    while (ls_json_next(ls_json_root(document), &cursor, &key, &value))
        if (!is_rotary(key)) hash += ls_json_hash(value) ^ ls_rng_stream(key);
    ls_json_free(document);
    return hash;
}

static void check_model(const ls_model *model, const char *config) {
    ls_model *again;
    LS_ASSERT(hash_others(ls_model_written(model).text) == hash_others(config));
    LS_ASSERT(fuzz_done(ls_model_open_text("again", ls_model_written(model).text, &again)));
    const ls_model_sizes a = ls_model_describe(model), b = ls_model_describe(again);
    LS_ASSERT(a.V == b.V && a.E == b.E && a.L == b.L && a.D == b.D && a.longest == b.longest);
    LS_ASSERT(ls_model_parameters(model) == ls_model_parameters(again));
    ls_model_close(again);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const fuzz_bytes scaling = fuzz_part(&rest), theta = fuzz_part(&rest);
    char *scaling_text = fuzz_text(scaling.at, scaling.n), *theta_text = fuzz_text(theta.at, theta.n);
    char *config = fuzz_text(rest.at, rest.n);
    const ls_rope_change change = {.scaling = scaling_text, .theta = strtod(theta_text, NULL)};
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "config.json", config, strlen(config));
    ls_model *model;
    if (fuzz_done(ls_model_open_changed(folder.path, &change, &model))) {
        check_model(model, config);
        ls_model_close(model);
    }
    fuzz_folder_remove(&folder);
    free(scaling_text);
    free(theta_text);
    free(config);
}

const fuzz_target fuzz_rope_change = {.name = "rope_change", .run = run};
