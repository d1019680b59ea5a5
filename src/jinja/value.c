#include "jinja/value.h"
#include "base/base.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

/* --- texts -------------------------------------------------------------------------------------------------------- */

jinja_text jinja_text_of_utf8(ls_arena *arena, const char *utf8, size_t bytes, uint32_t marks) {
    jinja_char *chars = LS_NEW_ARRAY(arena, jinja_char, bytes);
    size_t n = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0xfffd;
        const int length = ls_utf8_decode(utf8 + at, bytes - at, &code);
        chars[n++] = code | marks;
        at += length > 0 ? (size_t)length : 1;
    }
    return (jinja_text){chars, n};
}

jinja_text jinja_text_of_ascii(ls_arena *arena, const char *ascii) {
    return jinja_text_of_utf8(arena, ascii, strlen(ascii), 0);
}

const char *jinja_printable(jinja_text text, char *out, size_t room) {
    char utf8[1200];
    size_t used = 0;
    for (size_t i = 0; i < text.n && used + 4 < sizeof utf8; i++)
        used += (size_t)ls_utf8_encode(text.at[i] & JINJA_CODE, utf8 + used);
    ls_utf8_printable(utf8, used, out, room);
    for (char *c = out; *c != 0; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    return out;
}

bool jinja_is(jinja_text text, const char *ascii) {
    size_t i = 0;
    for (; i < text.n && ascii[i] != 0; i++)
        if ((text.at[i] & JINJA_CODE) != (unsigned char)ascii[i]) return false;
    return i == text.n && ascii[i] == 0;
}

size_t jinja_common_length(jinja_text a, jinja_text b) {
    size_t n = 0;
    while (n < a.n && n < b.n && ((a.at[n] ^ b.at[n]) & JINJA_CODE) == 0) n++;
    return n;
}

/* --- lists and dicts ---------------------------------------------------------------------------------------------- */

int jinja_depth(jinja_value value) {
    if (jinja_has_list(value)) return value.list->depth + 1;
    return value.kind == JINJA_DICT ? value.dict->depth + 1 : 0;
}

jinja_list *jinja_list_new(ls_arena *arena, size_t capacity) {
    jinja_list *list = LS_NEW(arena, jinja_list);
    if (capacity > 0) list->item = LS_NEW_ARRAY(arena, jinja_value, capacity);
    list->capacity = capacity;
    return list;
}

void jinja_list_add(ls_arena *arena, jinja_list *list, jinja_value value) {
    *LS_PUSH(arena, list->item, list->n, list->capacity) = value;
    list->depth = (int)ls_max(list->depth, jinja_depth(value));
}

jinja_dict *jinja_dict_new(ls_arena *arena) { return LS_NEW(arena, jinja_dict); }

jinja_value *jinja_dict_find_ascii(const jinja_dict *dict, const char *key) {
    for (size_t i = 0; i < dict->n; i++)
        if (dict->pair[i].key.kind == JINJA_TEXT && jinja_is(dict->pair[i].key.text, key)) return &dict->pair[i].value;
    return NULL;
}

void jinja_dict_append(ls_arena *arena, jinja_dict *dict, jinja_value key, jinja_value value) {
    *LS_PUSH(arena, dict->pair, dict->n, dict->capacity) = (struct jinja_pair){key, value};
    dict->depth = (int)ls_max(dict->depth, ls_max(jinja_depth(key), jinja_depth(value)));
}

void jinja_dict_set_ascii(ls_arena *arena, jinja_dict *dict, const char *key, jinja_value value) {
    jinja_value *found = jinja_dict_find_ascii(dict, key);
    if (found == NULL) {
        jinja_dict_append(arena, dict, jinja_of_text(jinja_text_of_ascii(arena, key)), value);
        return;
    }
    *found = value;
    dict->depth = (int)ls_max(dict->depth, jinja_depth(value));
}

/* --- conversion from JSON ----------------------------------------------------------------------------------------- */

static jinja_value of_array(ls_arena *arena, ls_json_value json, uint32_t marks) {
    const size_t n = ls_json_count(json);
    jinja_list *list = jinja_list_new(arena, n);
    for (size_t i = 0; i < n; i++) jinja_list_add(arena, list, jinja_of_json(arena, ls_json_item(json, i), marks));
    return jinja_of_list(JINJA_LIST, list);
}

static jinja_value of_object(ls_arena *arena, ls_json_value json, uint32_t marks) {
    jinja_dict *dict = jinja_dict_new(arena);
    void *cursor = NULL;
    const char *key;
    ls_json_value member;
    while (ls_json_next(json, &cursor, &key, &member)) {
        const jinja_text name = jinja_text_of_utf8(arena, key, strlen(key), marks);
        jinja_dict_append(arena, dict, jinja_of_text(name), jinja_of_json(arena, member, marks));
    }
    return jinja_of_dict(dict);
}

jinja_value jinja_of_json(ls_arena *arena, ls_json_value json, uint32_t marks) {
    const ls_json_plain s = ls_json_plain_of(json);
    switch (s.kind) {
    case LS_JSON_NULL:
        return jinja_none();
    case LS_JSON_BOOL:
        return jinja_bool(s.truth);
    case LS_JSON_INT:
        return jinja_int(s.integer);
    case LS_JSON_REAL:
        return jinja_real(s.real);
    case LS_JSON_TEXT:
        return jinja_of_text(jinja_text_of_utf8(arena, s.text, s.bytes, marks));
    case LS_JSON_ARRAY:
        return of_array(arena, json, marks);
    case LS_JSON_OBJECT:
        return of_object(arena, json, marks);
    }
    return jinja_none();
}

/* --- Python's rules ----------------------------------------------------------------------------------------------- */

static const struct kind_row {
    const char *name;
    bool number, list;
} kinds[JINJA_KINDS] = {
    [JINJA_MISSING] = {"nothing", false, false},
    [JINJA_UNDEFINED] = {"undefined", false, false},
    [JINJA_NONE] = {"None", false, false},
    [JINJA_BOOL] = {"bool", true, false},
    [JINJA_INT] = {"int", true, false},
    [JINJA_FLOAT] = {"float", true, false},
    [JINJA_TEXT] = {"str", false, false},
    [JINJA_LIST] = {"list", false, true},
    [JINJA_TUPLE] = {"tuple", false, true},
    [JINJA_RANGE] = {"range", false, true},
    [JINJA_VIEW] = {"view of a dict", false, true},
    [JINJA_GENERATOR] = {"generator", false, true},
    [JINJA_DICT] = {"dict", false, false},
    [JINJA_NAMESPACE] = {"namespace", false, false},
    [JINJA_MACRO] = {"macro", false, false},
    [JINJA_LOOP] = {"loop", false, false},
    [JINJA_METHOD] = {"method", false, false},
    [JINJA_GLOBAL] = {"function", false, false},
};

const char *jinja_type_name(jinja_value value) { return kinds[value.kind].name; }
bool jinja_is_number(jinja_value value) { return kinds[value.kind].number; }
bool jinja_has_list(jinja_value value) { return kinds[value.kind].list; }

double jinja_as_real(jinja_value number) {
    return number.kind == JINJA_FLOAT ? number.real
           : number.kind == JINJA_INT ? (double)number.integer
                                      : (double)number.truth;
}

bool jinja_true(jinja_value v) {
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return v.truth;
    case JINJA_INT:
        return v.integer != 0;
    case JINJA_FLOAT:
        return v.real != 0;
    case JINJA_TEXT:
        return v.text.n > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW:
        return v.list->n > 0;
    case JINJA_DICT:
        return v.dict->n > 0;
    default:
        return true;
    }
}
