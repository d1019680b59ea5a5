/*
 * Values of a template, as Python has them. Everything lies in an arena and is never changed once it can be seen, but for namespaces;
 * so texts and lists are shared freely.
 *
 * A text is an array of letters: a code point each, with marks of where it comes from. Whatever is done to a text, a letter
 * keeps its marks: at the end they say which letters the conversation brought.
 */
#ifndef LS_JINJA_VALUE_H
#define LS_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "format/format.h"

typedef uint32_t jinja_char;
#define JINJA_CODE 0x1fffffu          /* a letter's code point; above it: */
#define JINJA_FROM_DATA (1u << 31)    /* the conversation brought it, not the template */
#define JINJA_FROM_MESSAGE (1u << 30) /* ... in the message that was marked so */
#define JINJA_GENERATED (1u << 29)    /* it stands in a generation block */

typedef struct jinja_text {
    const jinja_char *at;
    size_t n;
} jinja_text;

typedef enum jinja_kind {
    JINJA_MISSING, /* an argument that was not given; no template sees it */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,      /* of a dict: its keys, values, items */
    JINJA_GENERATOR, /* what may be walked through once */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_METHOD,
    JINJA_GLOBAL,
    JINJA_KINDS
} jinja_kind;

typedef struct jinja_value {
    jinja_kind kind;
    bool safe; /* a text that the filter safe made: what is added to it is escaped */
    union {
        bool truth;
        int64_t integer;
        double real;
        jinja_text text; /* of an undefined value: its name */
        struct jinja_list *list;
        struct jinja_dict *dict;
        struct jinja_macro *macro;
        struct jinja_loop *loop;
        struct jinja_method_of *method;
        const struct jinja_function *global;
    };
} jinja_value;

typedef struct jinja_list {
    jinja_value *item;
    size_t n, capacity;
    size_t next;       /* of a generator: the first item that was not taken */
    int depth;         /* of lists and dicts inside one another */
    const char *shown; /* of a view: what Python calls it */
} jinja_list;

typedef struct jinja_dict {
    struct jinja_pair {
        jinja_value key, value;
    } * pair; /* in the order in which keys came */
    size_t n, capacity;
    int depth;
} jinja_dict;

static inline jinja_value jinja_none(void) { return (jinja_value){.kind = JINJA_NONE}; }
static inline jinja_value jinja_bool(bool truth) { return (jinja_value){.kind = JINJA_BOOL, .truth = truth}; }
static inline jinja_value jinja_int(int64_t i) { return (jinja_value){.kind = JINJA_INT, .integer = i}; }
static inline jinja_value jinja_real(double d) { return (jinja_value){.kind = JINJA_FLOAT, .real = d}; }
static inline jinja_value jinja_of_text(jinja_text text) {
    return (jinja_value){.kind = JINJA_TEXT, .text = text};
}
static inline jinja_value jinja_undefined(jinja_text name) {
    return (jinja_value){.kind = JINJA_UNDEFINED, .text = name};
}
static inline jinja_value jinja_of_list(jinja_kind kind, jinja_list *list) {
    return (jinja_value){.kind = kind, .list = list};
}
static inline jinja_value jinja_of_dict(jinja_dict *dict) {
    return (jinja_value){.kind = JINJA_DICT, .dict = dict};
}

/* Letters of UTF-8, each with `marks`; wrong bytes become U+FFFD. */
jinja_text jinja_text_of_utf8(ls_arena *arena, const char *utf8, size_t bytes, uint32_t marks);
jinja_text jinja_text_of_ascii(ls_arena *arena, const char *ascii); /* without marks */
/* UTF-8 for messages: printable, cut to `room`. */
const char *jinja_printable(jinja_text text, char *out, size_t room);
bool jinja_is(jinja_text text, const char *ascii);
bool jinja_text_equal(jinja_text a, jinja_text b);
int jinja_text_order(jinja_text a, jinja_text b); /* < 0, 0, > 0, by code points */

/* The value of JSON. All texts of it get `marks`, names of members too. */
jinja_value jinja_of_json(ls_arena *arena, ls_json_value json, uint32_t marks);

jinja_list *jinja_list_new(ls_arena *arena, size_t capacity);
void jinja_list_add(ls_arena *arena, jinja_list *list, jinja_value value);
jinja_dict *jinja_dict_new(ls_arena *arena);
/* The value of a key; NULL: there is none. */
jinja_value *jinja_dict_find(const jinja_dict *dict, jinja_value key);
jinja_value *jinja_dict_find_ascii(const jinja_dict *dict, const char *key);
/* Sets it where it stands, else behind all others. */
void jinja_dict_set(ls_arena *arena, jinja_dict *dict, jinja_value key, jinja_value value);
void jinja_dict_set_ascii(ls_arena *arena, jinja_dict *dict, const char *key, jinja_value value);

int jinja_depth(jinja_value value);
bool jinja_true(jinja_value value);             /* as Python's bool() */
bool jinja_equal(jinja_value a, jinja_value b); /* as == */
const char *jinja_type_name(jinja_value value); /* as Python calls it */
bool jinja_is_number(jinja_value value);        /* bool, int, float */
bool jinja_has_list(jinja_value value);         /* its payload is a list */
bool jinja_may_be_key(jinja_value value);       /* of a dict: hashable, in Python's words */
double jinja_as_real(jinja_value number);

#endif
