#include "job/stop.h"
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

static ls_status read_ids(ls_json_value value, int64_t V, ls_stops *out) {
    const bool several = ls_json_is_array(value);
    const size_t n = several ? ls_json_count(value) : 1;
    if (n > LS_MOST_STOPS) return ls_json_error(value, "at most %d tokens", LS_MOST_STOPS);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        LS_TRY(ls_json_as_int(several ? ls_json_item(value, i) : value, 0, V - 1, &id));
        out->id[out->n++] = (int32_t)id;
    }
    return ls_ok();
}

/* Nothing is added where the text does not say it. */
static ls_status read_text(const char *name, const char *text, int64_t V, ls_stops *out) {
    ls_json *document;
    LS_TRY(ls_json_parse(name, text, strlen(text), &document));
    const ls_json_value root = ls_json_root(document);
    const bool said = ls_json_has(root, "eos_token_id");
    const ls_status status = said ? read_ids(ls_json_field(root, "eos_token_id"), V, out) : ls_ok();
    ls_json_free(document);
    return status;
}

static ls_status read_generation(const ls_model *model, ls_stops *out) {
    LS_PATH path = NULL;
    char *text;
    size_t bytes;
    LS_TRY(ls_path_join(ls_model_directory(model), "generation_config.json", &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    const ls_status status = read_text(path, text, ls_model_describe(model).V, out);
    free(text);
    return status;
}

ls_status ls_stops_read(const ls_trained *trained, ls_stops *out) {
    const ls_model *model = trained->model;
    ls_stops stops = {.n = 0};
    LS_TRY(read_generation(model, &stops));
    if (stops.n == 0)
        LS_TRY(read_text("config.json", ls_model_config_text(model), ls_model_describe(model).V, &stops));
    const int32_t end = ls_tokenizer_end_of_document(trained->tokenizer);
    if (stops.n == 0 && end >= 0) stops.id[stops.n++] = end;
    *out = stops;
    return ls_ok();
}

bool ls_stops_have(const ls_stops *stops, int32_t id) {
    for (int i = 0; i < stops->n; i++)
        if (stops->id[i] == id) return true;
    return false;
}
