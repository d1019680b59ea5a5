/*
 * Renders the templates in lines of JSON, for comparison with the reference (tests/reference/compare_jinja.py):
 * {"template": TEXT, "variables": OBJECT} gives {"text": TEXT} or {"error": TEXT}.
 */
#include "jinja/jinja.h"
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *to_utf8(jinja_text text) {
    char *utf8 = malloc(4 * text.n + 1);
    size_t n = 0;
    for (size_t i = 0; utf8 != NULL && i < text.n; i++) n += (size_t)ls_utf8_encode(text.at[i] & JINJA_CODE, utf8 + n);
    if (utf8 != NULL) utf8[n] = 0;
    return utf8;
}

static ls_status render(ls_json_value line, char **out) {
    const char *source;
    jinja_text text;
    ls_jinja *jinja = NULL;
    const ls_jinja_options options = {.today = {.tm_year = 125, .tm_mon = 6, .tm_mday = 9, .tm_wday = 3}};
    LS_TRY(ls_json_text(line, "template", &source));
    LS_TRY(ls_jinja_read("template", source, strlen(source), &jinja));
    ls_arena *arena = ls_arena_create();
    const jinja_value variables = jinja_of_json(arena, ls_json_field(line, "variables"), JINJA_FROM_DATA);
    const ls_status status = variables.kind == JINJA_DICT
                                 ? ls_jinja_render(jinja, arena, variables.dict, &options, &text)
                                 : ls_error(LS_INVALID, "variables is no object");
    if (status.code == LS_OK) *out = to_utf8(text);
    ls_arena_destroy(arena);
    ls_jinja_free(jinja);
    return status;
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        ls_json *document = NULL;
        char *text = NULL;
        ls_status status = ls_json_parse("line", line, (size_t)n, &document);
        if (status.code == LS_OK) status = render(ls_json_root(document), &text);
        ls_json_writer *w = ls_json_begin(0);
        if (status.code == LS_OK)
            ls_json_put_text(w, "text", text);
        else
            ls_json_put_text(w, "error", status.text);
        ls_json_end(w, stdout);
        ls_json_free(document);
        free(text);
    }
    free(line);
    return 0;
}
