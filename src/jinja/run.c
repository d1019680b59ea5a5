/* Renders a template: limits, errors, output buffers, scopes. */
#include "jinja/run_impl.h"

#include <stdarg.h>
#include <string.h>

#define MOST_STEPS ((uint64_t)10000000)
#define MOST_BYTES ((size_t)256 << 20)

/* --- errors and limits -------------------------------------------------------------------------------------------- */

jinja_value jinja_fail(jinja_run *r, ls_code code, const char *format, ...) {
    char text[400];
    va_list values;
    if (!r->failed) {
        va_start(values, format);
        ls_vprint(text, sizeof text, format, values);
        va_end(values);
        r->error = ls_error(code, "%s:%d: %s", r->jinja->file, r->line, text);
        r->failed = true;
    }
    return jinja_undefined((jinja_text){0});
}

bool jinja_has_room(jinja_run *r, size_t count, size_t size) {
    const size_t used = ls_arena_bytes(r->arena), left = used < r->most_bytes ? r->most_bytes - used : 0;
    if (count > left / size)
        jinja_fail(r, LS_INVALID, "rendering takes more than %zu MiB of memory, the most there may be",
                   r->most_bytes >> 20);
    return !r->failed;
}

bool jinja_step(jinja_run *r, size_t steps) {
    r->steps += steps;
    if (r->steps > r->most_steps)
        jinja_fail(r, LS_INVALID, "rendering takes more than %llu steps, the most there may be",
                   (unsigned long long)r->most_steps);
    return jinja_has_room(r, 1, 1);
}

jinja_char *jinja_new_chars(jinja_run *r, size_t count) {
    return jinja_has_room(r, count, sizeof(jinja_char)) && jinja_step_text(r, count)
               ? LS_NEW_ARRAY(r->arena, jinja_char, count)
               : NULL;
}

/* --- buffers ------------------------------------------------------------------------------------------------------ */

static bool grow(jinja_run *r, jinja_buffer *b, size_t count) {
    if (b->n + count <= b->capacity) return true;
    const size_t capacity = (size_t)ls_max((int64_t)(2 * b->capacity), (int64_t)(b->n + count + 16));
    jinja_char *grown = jinja_new_chars(r, capacity);
    if (grown == NULL) return false;
    if (b->n > 0) memcpy(grown, b->at, b->n * sizeof *grown);
    b->at = grown;
    b->capacity = capacity;
    return true;
}

void jinja_put(jinja_run *r, jinja_buffer *b, jinja_text text) {
    if (text.n == 0 || !jinja_step_text(r, text.n) || !grow(r, b, text.n)) return;
    memcpy(b->at + b->n, text.at, text.n * sizeof *b->at);
    b->n += text.n;
}

void jinja_put_char(jinja_run *r, jinja_buffer *b, jinja_char c) {
    if (grow(r, b, 1)) b->at[b->n++] = c;
}

void jinja_put_ascii(jinja_run *r, jinja_buffer *b, const char *ascii) {
    for (; *ascii != 0; ascii++) jinja_put_char(r, b, (unsigned char)*ascii);
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

jinja_list *jinja_new_list(jinja_run *r, size_t capacity) {
    const bool fits = jinja_has_room(r, capacity, sizeof(jinja_value)) && jinja_step(r, 1 + capacity / 8);
    return jinja_list_new(r->arena, fits ? capacity : 0);
}

void jinja_add(jinja_run *r, jinja_list *list, jinja_value value) {
    const size_t more = list->n == list->capacity ? 2 * list->n : 0;
    if (jinja_step(r, 1) && jinja_has_room(r, more, sizeof value)) jinja_list_add(r->arena, list, value);
}

/* --- scopes ------------------------------------------------------------------------------------------------------- */

void jinja_scope_enter(jinja_run *r, jinja_scope *outer) {
    r->scope = LS_NEW(r->arena, jinja_scope);
    r->scope->outer = outer;
}

jinja_value jinja_look_up(jinja_run *r, jinja_text name) {
    const jinja_value key = jinja_of_text(name);
    const jinja_value *found = NULL;
    for (const jinja_scope *s = r->scope; s != NULL && found == NULL; s = s->outer) {
        jinja_step(r, 1);
        found = jinja_find_key(r, &s->names, key);
    }
    if (found == NULL) found = jinja_find_key(r, r->variables, key);
    if (found != NULL) return *found;
    const jinja_function *global = jinja_find_global(name);
    if (global != NULL) return (jinja_value){.kind = JINJA_GLOBAL, .global = global};
    return jinja_undefined(name);
}

jinja_value jinja_capture(jinja_run *r, const jinja_node *body, jinja_scope *outer) {
    jinja_scope *const scope = r->scope;
    jinja_buffer *const out = r->out, captured = {0};
    jinja_buffer inside = captured;
    jinja_scope_enter(r, outer);
    r->out = &inside;
    jinja_execute_all(r, body);
    r->out = out;
    r->scope = scope;
    return jinja_buffer_value(&inside);
}

/* --- rendering ---------------------------------------------------------------------------------------------------- */

ls_status ls_jinja_render(const ls_jinja *jinja, ls_arena *arena, const jinja_dict *variables,
                          const ls_jinja_options *options, jinja_text *out) {
    jinja_buffer buffer = {0};
    jinja_run r = {.jinja = jinja,
                   .arena = arena,
                   .variables = variables,
                   .options = options,
                   .out = &buffer,
                   .most_steps = options->steps > 0 ? options->steps : MOST_STEPS,
                   .most_bytes = (options->bytes > 0 ? options->bytes : MOST_BYTES) + ls_arena_bytes(arena),
                   .line = 1};
    jinja_scope_enter(&r, NULL);
    jinja_execute_all(&r, jinja->body);
    if (options->taken != NULL) *options->taken += r.steps;
    if (r.failed) return r.error;
    *out = (jinja_text){buffer.at, buffer.n};
    return ls_ok();
}
