/* Whatever the bytes, JSON is refused, or every getter answers for every member, and errors stay one line. */
#include "base/base.h"
#include "format/format.h"
#include "fuzz_file.h"

#include <math.h>
#include <string.h>

static void check(ls_status status) {
    LS_ASSERT((status.code == LS_OK) == !status.text[0]);
    LS_ASSERT(!strchr(status.text, '\n'));
}

static void ask(ls_json_value object, const char *key) {
    int64_t i;
    double d;
    bool b;
    const char *text;
    ls_json_value inner;
    check(ls_json_int(object, key, 0, 10, &i));
    check(ls_json_double_or(object, key, 1, -1, INFINITY, &d));
    check(ls_json_bool(object, key, &b));
    check(ls_json_text(object, key, &text));
    check(ls_json_array(object, key, &inner));
    check(ls_json_object(object, key, &inner));
}

/* The nesting is bounded by the reader. */
static void walk(ls_json_value value) {
    void *cursor = NULL;
    const char *key;
    ls_json_value member;
    int64_t number;
    check(ls_json_as_int(value, INT64_MIN, INT64_MAX, &number));
    if (ls_json_as_array(value).code == LS_OK)
        for (size_t i = 0; i < ls_json_count(value); i++) walk(ls_json_item(value, i));
    while (ls_json_next(value, &cursor, &key, &member)) {
        ask(value, key);
        walk(member);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_json *document;
    ls_status status = ls_json_parse("fuzz", (const char *)data, bytes, &document);
    check(status);
    if (status.code != LS_OK) return 0;
    walk(ls_json_root(document));
    ls_json_free(document);
    return 0;
}
