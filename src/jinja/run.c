/* The state of a rendering: limits, errors, output buffers, lists. */
#include "jinja/run_impl.h"

#include <stdarg.h>
#include <string.h>

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

jinja_value jinja_refuse_operands(jinja_run *r, const char *op, jinja_value a, jinja_value b) {
    char shown[80];
    const jinja_value *u = a.kind == JINJA_UNDEFINED ? &a : b.kind == JINJA_UNDEFINED ? &b : NULL;
    if (u != NULL)
        return jinja_fail(r, LS_INVALID, "'%s' is undefined and cannot be an operand of %s",
                          jinja_printable(u->text, shown, sizeof shown), op);
    return jinja_fail(r, LS_INVALID, "%s is not possible between a %s and a %s", op, jinja_type_name(a),
                      jinja_type_name(b));
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
