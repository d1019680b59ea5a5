/* Any bytes are refused as JSON, or every getter returns a proper status for every member. */
#include "fuzz/fuzz.h"

#include <math.h>

static void call_getters(ls_json_value object, const char *key) {
    int64_t i;
    double d;
    bool b;
    const char *text;
    ls_json_value inner;
    fuzz_done(ls_json_int(object, key, 0, 10, &i));
    fuzz_done(ls_json_double_or(object, key, 1, -1, INFINITY, &d));
    fuzz_done(ls_json_bool(object, key, &b));
    fuzz_done(ls_json_text(object, key, &text));
    fuzz_done(ls_json_array(object, key, &inner));
    fuzz_done(ls_json_object(object, key, &inner));
}

/* The reader limits the depth, so recursion is safe. */
static void visit_all(ls_json_value value) {
    void *cursor = NULL;
    const char *key;
    ls_json_value member;
    int64_t number;
    fuzz_done(ls_json_as_int(value, INT64_MIN, INT64_MAX, &number));
    if (fuzz_done(ls_json_as_array(value)))
        for (size_t i = 0; i < ls_json_count(value); i++) visit_all(ls_json_item(value, i));
    while (ls_json_next(value, &cursor, &key, &member)) {
        call_getters(value, key);
        visit_all(member);
    }
}

static void run(const uint8_t *data, size_t bytes) {
    ls_json *document;
    if (!fuzz_read(ls_json_parse("fuzz", (const char *)data, bytes, &document), "fuzz")) return;
    visit_all(ls_json_root(document));
    ls_json_free(document);
}

const fuzz_target fuzz_json = {.name = "json", .run = run};
