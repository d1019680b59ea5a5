/* Any template is refused with its file and line, or renders within its limits to valid characters. */
#include "jinja/jinja.h"
#include "fuzz/fuzz.h"

#include <string.h>

static const char variables[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \" a \\u00e9\"}, {\"role\": \"assistant\", \"content\": \"b\", "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]}], \"tools\": null, \"s\": \"Text, text\", "
    "\"n\": -7, \"f\": 2.5, \"l\": [3, 1, 2], \"d\": {\"k\": 1, \"e\": []}, \"add_generation_prompt\": true}";

static void render(const ls_jinja *jinja) {
    const ls_jinja_options options = {.today = {.tm_year = 125}, .steps = 200000, .bytes = (size_t)32 << 20};
    ls_json *document;
    jinja_text text;
    LS_ASSERT(fuzz_done(ls_json_parse("variables", variables, sizeof variables - 1, &document)));
    ls_arena *arena = ls_arena_create();
    const jinja_value values = jinja_of_json(arena, ls_json_root(document), JINJA_FROM_DATA);
    if (fuzz_read(ls_jinja_render(jinja, arena, values.dict, &options, &text), "t.jinja"))
        for (size_t i = 0; i < text.n; i++) LS_ASSERT((text.at[i] & JINJA_CODE) < 0x110000);
    ls_arena_destroy(arena);
    ls_json_free(document);
}

static void run(const uint8_t *data, size_t bytes) {
    ls_jinja *jinja;
    if (!fuzz_read(ls_jinja_read("t.jinja", (const char *)data, bytes, &jinja), "t.jinja")) return;
    render(jinja);
    ls_jinja_free(jinja);
}

const fuzz_target fuzz_jinja = {.name = "jinja", .run = run};
