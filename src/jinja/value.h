/*
 * The values of a template, which follow Python's rules. All of them lie in an arena. A value that a template can reach
 * never changes, except a namespace; so values share their texts and lists.
 *
 * A text is an array of characters. Each character is a code point with marks that say where it comes from. It keeps
 * its marks in every operation on texts, so the rendered text shows which characters came from the conversation.
 */
#ifndef LS_JINJA_VALUE_H
#define LS_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "format/format.h"

typedef uint32_t jinja_char;
#define JINJA_CODE 0x1fffffu          /* mask of the code point; the marks are the bits above it */
#define JINJA_FROM_DATA (1u << 31)    /* the character comes from the variables, not from the template */
#define JINJA_FROM_MESSAGE (1u << 30) /* and there, from the message that the caller marked with this */
#define JINJA_GENERATED (1u << 29)    /* a generation block wrote it */
#define JINJA_CALLERS (0xffu << 21)   /* these mean what the caller says */

typedef struct jinja_text {
    const jinja_char *at;
    size_t n;
} jinja_text;

typedef enum jinja_kind {
    JINJA_MISSING, /* an argument that a call does not have; templates never get this value */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,      /* a dict's keys(), values() or items() */
    JINJA_GENERATOR, /* items that can be read once */
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
    /* A text from the filter `safe`: other texts are escaped for HTML when they are joined to it */
    bool safe;
    union {
        bool truth;
        int64_t integer;
        double real;
        jinja_text text; /* for JINJA_UNDEFINED: the name of the variable */
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
    size_t next;       /* in a generator: the index of the next item to read */
    int depth;         /* levels of lists and dicts inside this one */
    const char *shown; /* for a view: its type's name in Python */
} jinja_list;

typedef struct jinja_dict {
    struct jinja_pair {
        jinja_value key, value;
    } * pair; /* in insertion order */
    size_t n, capacity;
    int depth;
} jinja_dict;

static inline jinja_value jinja_none(void) { return (jinja_value){.kind = JINJA_NONE}; }
static inline jinja_value jinja_bool(bool truth) { return (jinja_value){.kind = JINJA_BOOL, .truth = truth}; }
static inline jinja_value jinja_int(int64_t i) { return (jinja_value){.kind = JINJA_INT, .integer = i}; }
static inline jinja_value jinja_real(double d) { return (jinja_value){.kind = JINJA_FLOAT, .real = d}; }
static inline jinja_value jinja_of_text(jinja_text text) { return (jinja_value){.kind = JINJA_TEXT, .text = text}; }
static inline jinja_value jinja_undefined(jinja_text name) {
    return (jinja_value){.kind = JINJA_UNDEFINED, .text = name};
}
static inline jinja_value jinja_of_list(jinja_kind kind, jinja_list *list) {
    return (jinja_value){.kind = kind, .list = list};
}
static inline jinja_value jinja_of_dict(jinja_dict *dict) { return (jinja_value){.kind = JINJA_DICT, .dict = dict}; }

/* The characters of UTF-8, each with `marks`. Each byte that is not valid becomes U+FFFD. */
jinja_text jinja_text_of_utf8(ls_arena *arena, const char *utf8, size_t bytes, uint32_t marks);
jinja_text jinja_text_of_ascii(ls_arena *arena, const char *ascii); /* no marks */
/* Writes a text into out[room] as UTF-8 for a message: printable, on one line, cut to fit. Returns `out`. */
const char *jinja_printable(jinja_text text, char *out, size_t room);
bool jinja_is(jinja_text text, const char *ascii);
/* The number of characters at the beginning of both texts that are equal, apart from their marks. */
size_t jinja_common_length(jinja_text a, jinja_text b);

/* Converts JSON. All its texts get `marks`, the names of members too. */
jinja_value jinja_of_json(ls_arena *arena, ls_json_value json, uint32_t marks);

jinja_list *jinja_list_new(ls_arena *arena, size_t capacity);
void jinja_list_add(ls_arena *arena, jinja_list *list, jinja_value value);
jinja_dict *jinja_dict_new(ls_arena *arena);
/* The value of a key, or NULL. It may be overwritten. */
jinja_value *jinja_dict_find_ascii(const jinja_dict *dict, const char *key);
/* Replaces the value of a key, or appends the key. */
void jinja_dict_set_ascii(ls_arena *arena, jinja_dict *dict, const char *key, jinja_value value);
/* Appends a key that the dict does not have yet. */
void jinja_dict_append(ls_arena *arena, jinja_dict *dict, jinja_value key, jinja_value value);

int jinja_depth(jinja_value value);
bool jinja_true(jinja_value value);             /* Python's bool() */
const char *jinja_type_name(jinja_value value); /* its type in Python */
bool jinja_is_number(jinja_value value);        /* bool, int, float */
bool jinja_has_list(jinja_value value);         /* value.list is set */
double jinja_as_real(jinja_value number);

#endif
