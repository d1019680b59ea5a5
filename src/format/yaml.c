/* Reads YAML with libyaml, and writes the events that it reports as JSON. */
#include "format/yaml.h"

#include "base/base.h"
#include "format/file.h"
#include "format/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if LS_HAVE_YAML
#include <yaml.h>

enum { DEEPEST = 64 };

typedef struct reading {
    const char *name;
    yaml_parser_t parser;
    ls_json_buffer json;
    struct open {
        bool mapping;
        size_t n;    /* texts written so far; in a mapping, keys and values both count */
    } open[DEEPEST]; /* the outermost first; before it the document, which counts as a list */
    int depth;
} reading;

static ls_status mistake(const reading *r, yaml_mark_t at, const char *what) {
    return ls_error(LS_INVALID, "%s: line %zu, column %zu: %s", r->name, at.line + 1, at.column + 1, what);
}

/* --- scalars ------------------------------------------------------------------------------------------------------ */

static bool is_one_of(const char *text, const char *const *words) {
    while (*words != NULL && strcmp(text, *words) != 0) words++;
    return *words != NULL;
}

/* Whether the text is an integer of 64 bits: digits, perhaps after a sign, and nothing else. */
static bool is_integer(const char *text, long long *out) {
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    errno = 0;
    if (*digits == 0 || digits[strspn(digits, "0123456789")] != 0) return false;
    *out = strtoll(text, &end, 10);
    return errno == 0;
}

static bool is_real(const char *text, double *out) {
    const char *digits = text + (*text == '-' || *text == '+');
    char *end;
    if (*digits == 0 || digits[strspn(digits, "0123456789.eE+-")] != 0 || strpbrk(digits, "0123456789") == NULL)
        return false;
    *out = ls_real_of(text, &end);
    return *end == 0 && isfinite(*out);
}

static ls_status add_text(reading *r, const char *text) { return ls_json_buffer_text(&r->json, text, strlen(text)); }

static ls_status add_plain(reading *r, const char *text) {
    static const char *const none[] = {"", "~", "null", "Null", "NULL", NULL},
                             *const yes[] = {"true", "True", "TRUE", NULL},
                             *const no[] = {"false", "False", "FALSE", NULL};
    long long integer;
    double real;
    if (is_one_of(text, none)) return ls_json_buffer_print(&r->json, "null");
    if (is_one_of(text, yes)) return ls_json_buffer_print(&r->json, "true");
    if (is_one_of(text, no)) return ls_json_buffer_print(&r->json, "false");
    if (is_integer(text, &integer)) return ls_json_buffer_print(&r->json, "%lld", integer);
    return is_real(text, &real) ? ls_json_buffer_print(&r->json, "%.17g", real) : add_text(r, text);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Whether the next text is the key of a mapping. */
static bool wants_key(const reading *r) { return r->open[r->depth].mapping && r->open[r->depth].n % 2 == 0; }

/* Writes the separator before the next text. */
static ls_status separate(reading *r) {
    struct open *in = &r->open[r->depth];
    const char *between = in->n == 0 ? "" : in->mapping && in->n % 2 == 1 ? ":" : ",";
    in->n++;
    return ls_json_buffer_print(&r->json, "%s", between);
}

static ls_status scalar(reading *r, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    const bool plain = !wants_key(r) && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != event->data.scalar.length) return mistake(r, event->start_mark, "a NUL in a text");
    LS_TRY(separate(r));
    return plain ? add_plain(r, text) : add_text(r, text);
}

static ls_status open_value(reading *r, const yaml_event_t *event, bool mapping) {
    if (wants_key(r)) return mistake(r, event->start_mark, "a key that is a list or a mapping; expected a text");
    if (r->depth + 1 == DEEPEST) return mistake(r, event->start_mark, "lists and mappings nest too deeply");
    LS_TRY(separate(r));
    r->open[++r->depth] = (struct open){.mapping = mapping};
    return ls_json_buffer_print(&r->json, mapping ? "{" : "[");
}

static ls_status close_value(reading *r) {
    return ls_json_buffer_print(&r->json, r->open[r->depth--].mapping ? "}" : "]");
}

static ls_status refuse_marks(const reading *r, const yaml_event_t *event, const yaml_char_t *anchor,
                              const yaml_char_t *tag) {
    if (anchor != NULL) return mistake(r, event->start_mark, "an anchor; expected values written out");
    return tag == NULL ? ls_ok() : mistake(r, event->start_mark, "a tag; expected plain values");
}

static ls_status take(reading *r, const yaml_event_t *event, int *documents) {
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++*documents == 1 ? ls_ok() : mistake(r, event->start_mark, "a second document; expected one");
    case YAML_ALIAS_EVENT:
        return mistake(r, event->start_mark, "an alias; expected values written out");
    case YAML_SCALAR_EVENT:
        LS_TRY(refuse_marks(r, event, event->data.scalar.anchor, event->data.scalar.tag));
        return scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        LS_TRY(refuse_marks(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag));
        return open_value(r, event, false);
    case YAML_MAPPING_START_EVENT:
        LS_TRY(refuse_marks(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag));
        return open_value(r, event, true);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_value(r);
    default:
        return ls_ok();
    }
}

static ls_status read_events(reading *r, int *documents) {
    for (bool at_end = false; !at_end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&r->parser, &event))
            return mistake(r, r->parser.problem_mark, r->parser.problem != NULL ? r->parser.problem : "no YAML");
        at_end = event.type == YAML_STREAM_END_EVENT;
        const ls_status status = take(r, &event, documents);
        yaml_event_delete(&event);
        LS_TRY(status);
    }
    return ls_ok();
}

ls_status ls_yaml_parse(const char *name, const char *text, size_t bytes, ls_json **out) {
    LS_NEED(text, "text");
    reading r = {.name = name};
    int documents = 0;
    if (!yaml_parser_initialize(&r.parser)) return ls_error(LS_NO_MEMORY, "no memory for %s", name);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    ls_status status = read_events(&r, &documents);
    if (status.code == LS_OK && documents == 0) status = ls_json_buffer_print(&r.json, "null");
    if (status.code == LS_OK) status = ls_json_parse(name, r.json.at, r.json.n, out);
    ls_json_buffer_free(&r.json);
    yaml_parser_delete(&r.parser);
    return status;
}
#else
ls_status ls_yaml_parse(const char *name, const char *text, size_t bytes, ls_json **out) {
    (void)text, (void)bytes, (void)out;
    return ls_error(LS_UNSUPPORTED,
                    "%s is YAML, which this build cannot read: libyaml was missing (Debian: libyaml-dev)", name);
}
#endif

ls_status ls_yaml_read(const char *file, size_t most_bytes, ls_json **out) {
    char *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_file_read(file, most_bytes, &text, &bytes));
    const ls_status status = ls_yaml_parse(file, text, bytes, out);
    free(text);
    return status;
}
