/* Which layers of a config.json see a window of the sequence only. */
#include "model/model_impl.h"

#include <string.h>

static void set_windowed(ls_model_config *config, int64_t layer) {
    config->windowed[layer / 8] = (uint8_t)(config->windowed[layer / 8] | 1u << layer % 8);
}

bool ls_config_is_written(ls_json_value root, const char *wanted) {
    void *cursor = NULL;
    const char *key = NULL;
    ls_json_value value;
    while (ls_json_next(root, &cursor, &key, &value))
        if (strcmp(key, wanted) == 0) return true;
    return false;
}

static ls_status read_type(ls_json_value item, int64_t layer, ls_model_config *out) {
    const char *type = NULL;
    LS_TRY(ls_json_as_text(item, &type));
    if (strcmp(type, "full_attention") == 0) return ls_ok();
    const bool window = strcmp(type, "sliding_attention") == 0;
    if (window && out->window > 0) {
        set_windowed(out, layer);
        return ls_ok();
    }
    ls_status status = window ? ls_json_error(item, "sliding_window to be given")
                              : ls_json_error(item, "\"full_attention\" or \"sliding_attention\"");
    status.code = LS_UNSUPPORTED;
    return status;
}

ls_status ls_config_window(ls_json_value root, int64_t initial, ls_model_config *out) {
    const int64_t missing = ls_config_is_written(root, "sliding_window") ? 0 : initial;
    return ls_json_int_or(root, "sliding_window", missing, 1, (int64_t)LS_MOST_POSITIONS, &out->window);
}

ls_status ls_config_layer_types(ls_json_value root, ls_layer_rule otherwise, int64_t first,
                                ls_model_config *out) {
    ls_json_value types;
    const int64_t L = out->sizes.L;
    if (!ls_json_has(root, "layer_types")) {
        for (int64_t i = 0; i < L; i++)
            if (otherwise(i, first)) set_windowed(out, i);
        return ls_ok();
    }
    LS_TRY(ls_json_array(root, "layer_types", &types));
    if (ls_json_count(types) != (size_t)L)
        return ls_json_error(types, "an array of one type for each of the %lld layers", (long long)L);
    for (int64_t i = 0; i < L; i++) LS_TRY(read_type(ls_json_item(types, (size_t)i), i, out));
    return ls_ok();
}

static bool from_there_on(int64_t layer, int64_t first) { return layer >= first; }

ls_status ls_config_later_windows(ls_json_value root, ls_model_config *out) {
    bool on = false;
    int64_t first = 28;
    LS_TRY(ls_json_bool_or(root, "use_sliding_window", false, &on));
    LS_TRY(ls_json_int_or(root, "max_window_layers", first, 0, LS_MOST_LAYERS, &first));
    LS_TRY(ls_config_window(root, 4096, out));
    if (!on) out->window = 0;
    return ls_config_layer_types(root, from_there_on, first, out);
}
