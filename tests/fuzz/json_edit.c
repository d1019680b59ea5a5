/* Setting a member of any object changes that member only, and it can be read back. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char key[] = "dtype";

/* A hash of all members except the one that is set. */
static uint64_t hash_others(ls_json_value root) {
    uint64_t hash = 0;
    void *cursor = NULL;
    const char *name;
    ls_json_value member;
    while (ls_json_next(root, &cursor, &name, &member))
        if (strcmp(name, key) != 0) hash += ls_json_hash(member) ^ ls_rng_stream(name);
    return hash;
}

static void check_edit(const char *text, ls_json_value root) {
    char *edited = NULL;
    ls_json *again;
    const char *value;
    size_t from, to;
    if (!fuzz_done(ls_json_set_member(text, key, "\"new\"", &edited))) return;
    LS_ASSERT(fuzz_done(ls_json_parse("edited", edited, strlen(edited), &again)));
    LS_ASSERT(fuzz_done(ls_json_text(ls_json_root(again), key, &value)) && strcmp(value, "new") == 0);
    LS_ASSERT(hash_others(ls_json_root(again)) == hash_others(root));
    LS_ASSERT(ls_json_find_member(edited, key, &from, &to) && strncmp(edited + from, "\"new\"", to - from) == 0);
    ls_json_free(again);
    free(edited);
}

static void run(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    ls_json *document;
    if (fuzz_done(ls_json_parse("fuzz", text, strlen(text), &document))) {
        if (fuzz_done(ls_json_as_object(ls_json_root(document)))) check_edit(text, ls_json_root(document));
        ls_json_free(document);
    }
    free(text);
}

const fuzz_target fuzz_json_edit = {.name = "json_edit", .run = run};
