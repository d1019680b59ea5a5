/* The part of json.h that edits texts: a member of the outermost object is found by its bytes, so that all others stay. */
#include "format/format_impl.h"
#include "format/json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text is known to be JSON; all the same nothing here goes past its end, whatever it is. */
static const char *skip_space(const char *p) { return p + strspn(p, " \t\r\n"); }

/* p is at the opening quote; the result behind the closing one. */
static const char *skip_string(const char *p) {
    for (p++; *p != 0 && *p != '"'; p++)
        if (*p == '\\' && p[1] != 0) p++;
    return *p == 0 ? p : p + 1;
}

static const char *skip_value(const char *p) {
    int depth = 0;
    do {
        if (*p == '"')
            p = skip_string(p);
        else if (*p == '{' || *p == '[')
            depth++, p++;
        else if (*p == '}' || *p == ']')
            depth--, p++;
        else if (depth > 0)
            p += 1 + strcspn(p + 1, "\"{}[]");
        else
            p += strcspn(p, ",}] \t\r\n");
    } while (depth > 0 && *p != 0);
    return p;
}

/* Whether the string at p, quotes and escapes included, is `key`. */
static bool is_key(const char *p, const char *end, const char *key) {
    json_t *string = json_loadb(p, (size_t)(end - p), JSON_DECODE_ANY, NULL);
    const bool same = json_is_string(string) && strcmp(json_string_value(string), key) == 0;
    json_decref(string);
    return same;
}

bool ls_json_find_member(const char *text, const char *key, size_t *from, size_t *to) {
    const char *p = skip_space(text);
    if (*p != '{') return false;
    for (p = skip_space(p + 1); *p == '"'; p = skip_space(p)) {
        const char *name = p, *name_end = skip_string(p);
        p = skip_space(name_end);
        if (*p != ':') return false;
        const char *value = skip_space(p + 1), *end = skip_value(value);
        if (is_key(name, name_end, key)) {
            *from = (size_t)(value - text);
            *to = (size_t)(end - text);
            return true;
        }
        p = skip_space(end);
        if (*p != ',') return false;
        p = skip_space(p + 1);
    }
    return false;
}

/* Texts one after the other. */
static ls_status join(const char *first, size_t first_bytes, const char *middle, const char *rest,
                      char **out) {
    const size_t n = strlen(middle), m = strlen(rest);
    char *joined = malloc(first_bytes + n + m + 1);
    if (joined == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu bytes of JSON", first_bytes + n + m);
    memcpy(joined, first, first_bytes);
    memcpy(joined + first_bytes, middle, n);
    memcpy(joined + first_bytes + n, rest, m + 1);
    *out = joined;
    return ls_ok();
}

/* Behind the opening brace, spaced as what follows it is. */
static ls_status insert(const char *text, const char *key, const char *value, char **out) {
    const char *brace = strchr(text, '{');
    if (brace == NULL)
        return ls_error(LS_INVALID, "\"%s\" cannot be set in a text that is no JSON object", key);
    json_t *name = json_string(key);
    char *quoted = name == NULL ? NULL : json_dumps(name, JSON_ENCODE_ANY);
    json_decref(name);
    const char *next = skip_space(brace + 1);
    const int space = (int)(next - brace - 1);
    char *member = NULL;
    const bool made = quoted != NULL && asprintf(&member, "%.*s%s: %s%s", space, brace + 1, quoted, value,
                                                 *next == '}' ? "" : ",") >= 0;
    free(quoted);
    if (!made) return ls_error(LS_NO_MEMORY, "no memory for \"%s\", or it is not UTF-8", key);
    const ls_status status = join(text, (size_t)(brace + 1 - text), member, brace + 1, out);
    free(member);
    return status;
}

ls_status ls_json_set_member(const char *text, const char *key, const char *value, char **out) {
    size_t from = 0, to = 0;
    if (!ls_json_find_member(text, key, &from, &to)) return insert(text, key, value, out);
    return join(text, from, value, text + to, out);
}
