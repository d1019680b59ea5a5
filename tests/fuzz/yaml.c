/* Any bytes are refused as YAML, or become a JSON document. */
#include "fuzz/fuzz.h"

static void run(const uint8_t *data, size_t bytes) {
    ls_json *document;
    if (!fuzz_read(ls_yaml_parse("fuzz", (const char *)data, bytes, &document), "fuzz")) return;
    LS_ASSERT(ls_json_root(document).file != NULL);
    ls_json_free(document);
}

const fuzz_target fuzz_yaml = {.name = "yaml", .run = run};
