/* Which layers of a config.json see a window of the sequence only. */
#include "model/model_impl.h"

#include <string.h>

static void set_windowed(ls_model_config *config, int64_t layer) {
    config->windowed[layer / 8] = (uint8_t)(config->windowed[layer / 8] | 1u << layer % 8);
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

ls_status ls_config_windows(ls_json_value root, ls_model_config *out) {
    ls_json_value types;
    const int64_t L = out->sizes.L;
    const ls_window_rule *rule = &out->windows;
    if (!rule->on) out->window = 0;
    if (rule->every == 0) return ls_ok();
    if (!ls_json_has(root, "layer_types")) {
        for (int64_t i = rule->first; i < L; i += rule->every) set_windowed(out, i);
        return ls_ok();
    }
    LS_TRY(ls_json_array(root, "layer_types", &types));
    if (ls_json_count(types) != (size_t)L)
        return ls_json_error(types, "an array of one type for each of the %lld layers", (long long)L);
    for (int64_t i = 0; i < L; i++) LS_TRY(read_type(ls_json_item(types, (size_t)i), i, out));
    return ls_ok();
}
