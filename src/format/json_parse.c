/*
 * The JSON parser. A document becomes nodes of 16 bytes in one array, whose size is known before parsing: it follows
 * from the commas, colons and opening brackets of the text. The front of the array is a stack of parsed values. When an
 * array or object is closed, its children move from the stack to the back of the array, next to each other. Texts are
 * stored one after the other in a pool with the size of the document. So a document of n bytes takes two allocations
 * with at most 9n bytes, whatever its contents.
 *
 * The members of an object are a hash table. Bucket i is a linked list of members: its head is in the `link` of the
 * i-th key, and the `link` of each value has the next member. A link is the index of a member plus 1; 0: the end.
 */
#include "base/base.h"
#include "format/format_impl.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 2048, MOST_MEMBERS = (1 << 28) - 1 };

typedef struct parser {
    const char *text, *at, *end;
    bool record;              /* see ls_json_parse_record */
    struct ls_json_node *top; /* the next free node of the stack */
    struct ls_json_node *low; /* the first node of the back part of the array */
    char *pool;               /* the next free byte for texts */
    const char *wanted;       /* the address in the pool of a text that is searched; NULL: none */
    const char *found;        /* the place of that text in the document */
    int depth;
    const char *problem; /* the first problem; NULL: none */
    const char *token;   /* the place of the problem */
    size_t length;       /* the bytes to quote there; 0: none */
} parser;

/* ---- problems ---- */

/* Records a problem, unless there is one already. Returns false. */
static bool fail(parser *p, const char *problem, const char *token, size_t length) {
    if (p->problem == NULL) {
        p->problem = problem;
        p->token = token;
        p->length = length;
    }
    return false;
}

static bool is_word_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '+' ||
           c == '.';
}

/* Records a problem with the token at the current place. */
static bool fail_here(parser *p, const char *problem) {
    if (p->at == p->end) return fail(p, "premature end of input", p->at, 0);
    size_t length = 0;
    while (p->at + length < p->end && is_word_byte(p->at[length])) length++;
    return fail(p, problem, p->at, length > 0 ? length : 1);
}

static const char duplicate[] = "duplicate object key", not_utf8[] = "bytes that are not UTF-8";

/* The error for the recorded problem. */
static ls_status make_error(const parser *p, const char *name) {
    int line = 1, column = 1;
    for (const char *c = p->text; c < p->token; c++) {
        if (*c == '\n') line++, column = 0;
        column += ((unsigned char)*c & 0xc0) != 0x80;
    }
    char near[80] = "";
    if (p->length > 0) snprintf(near, sizeof near, " near '%.*s'", (int)ls_min(60, (int64_t)p->length), p->token);
    return ls_error(LS_INVALID, "%s: not valid JSON%s, line %d column %d: %s%s", name,
                    p->problem == not_utf8 ? " (not UTF-8)" : "", line, column, p->problem, near);
}

/* ---- texts ---- */

/* Reads the four hexadecimal digits after "\u". */
static bool read_hex(parser *p, uint32_t *out) {
    *out = 0;
    if (p->end - p->at < 4) return false;
    for (int i = 0; i < 4; i++, p->at++) {
        const char c = *p->at;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Reads the character after "\u", which may be a pair of surrogates. */
static bool read_unicode(parser *p) {
    const char *start = p->at - 2;
    uint32_t code, second;
    if (!read_hex(p, &code)) return fail(p, "invalid escape", start, 2);
    if (code >= 0xd800 && code < 0xdc00) {
        const bool pair = p->end - p->at >= 2 && p->at[0] == '\\' && p->at[1] == 'u';
        p->at += pair ? 2 : 0;
        if (!pair || !read_hex(p, &second) || second < 0xdc00 || second > 0xdfff)
            return fail(p, "invalid Unicode surrogate", start, 6);
        code = 0x10000 + ((code - 0xd800) << 10) + (second - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return fail(p, "invalid Unicode surrogate", start, 6);
    }
    if (code == 0 && !p->record) return fail(p, "\\u0000 is not allowed", start, 6);
    p->pool += ls_utf8_encode(code, p->pool);
    return true;
}

static bool read_escape(parser *p) {
    static const char letters[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    const char *start = p->at++;
    if (p->at == p->end) return fail_here(p, "");
    const char letter = *p->at++;
    if (letter == 'u') return read_unicode(p);
    const char *found = letter != 0 ? strchr(letters, letter) : NULL;
    if (found == NULL) return fail(p, "invalid escape", start, 2);
    *p->pool++ = characters[found - letters];
    return true;
}

/* Reads a text from its opening quote on, into the pool with a 0 after it. */
static bool read_text(parser *p, struct ls_json_node *out) {
    const char *start = p->at++;
    const char *text = p->pool;
    if (text == p->wanted) p->found = start;
    while (p->at < p->end && *p->at != '"') {
        const unsigned char c = (unsigned char)*p->at;
        if (c >= 0x20 && c < 0x80 && c != '\\') {
            *p->pool++ = *p->at++;
        } else if (c == '\\') {
            if (!read_escape(p)) return false;
        } else if (c < 0x20) {
            return fail(p, "a control character in a text", start, (size_t)(p->at - start));
        } else {
            const size_t n = (size_t)ls_utf8_decode(p->at, (size_t)(p->end - p->at), NULL);
            if (n == 0) return fail(p, not_utf8, p->at, 0);
            memcpy(p->pool, p->at, n);
            p->pool += n;
            p->at += n;
        }
    }
    if (p->at == p->end) return fail_here(p, "");
    p->at++;
    *out = (struct ls_json_node){.kind = LS_NODE_TEXT, .count = (uint32_t)(p->pool - text), .text = text};
    *p->pool++ = 0;
    return true;
}

/* ---- numbers and words ---- */

static bool is_digit(const parser *p) { return p->at < p->end && *p->at >= '0' && *p->at <= '9'; }

static bool skip_digits(parser *p) {
    if (!is_digit(p)) return false;
    while (is_digit(p)) p->at++;
    return true;
}

/* Reads [start, at) as a real number. */
static bool read_real(parser *p, const char *start, struct ls_json_node *out) {
    char few[64];
    const size_t n = (size_t)(p->at - start);
    char *copy = n < sizeof few ? few : malloc(n + 1);
    if (copy == NULL) return fail(p, "no memory for a number", start, 0);
    memcpy(copy, start, n);
    copy[n] = 0;
    const double value = ls_real_of(copy, NULL);
    if (copy != few) free(copy);
    if (!isfinite(value)) return fail(p, "real number overflow", start, n);
    *out = (struct ls_json_node){.kind = LS_NODE_REAL, .real = value};
    return true;
}

/* An integer of more than 64 bits is a real number. */
static bool read_number(parser *p, struct ls_json_node *out) {
    const char *start = p->at;
    const bool negative = *p->at == '-';
    int64_t value = 0;
    bool fits = true, whole = true;
    p->at += negative;
    const char *digits = p->at;
    if (!is_digit(p)) return p->at = start, fail_here(p, "invalid token");
    for (; is_digit(p); p->at++)
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_sub_overflow(value, *p->at - '0', &value); /* negative, because -2^63 must fit */
    if (*digits == '0' && p->at > digits + 1) return p->at = start, fail_here(p, "invalid token");
    if (p->at < p->end && *p->at == '.') {
        whole = false;
        p->at++;
        if (!skip_digits(p)) return p->at = start, fail_here(p, "invalid token");
    }
    if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
        whole = false;
        p->at++;
        if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
        if (!skip_digits(p)) return p->at = start, fail_here(p, "invalid token");
    }
    if (p->at < p->end && is_word_byte(*p->at)) return p->at = start, fail_here(p, "invalid token");
    if (!whole || !fits || (!negative && value == INT64_MIN)) return read_real(p, start, out);
    *out = (struct ls_json_node){.kind = LS_NODE_INTEGER, .integer = negative ? value : -value};
    return true;
}

/* The text of a number that is not finite is a NUL and its name, so that it does not equal any text of a document. */
static const struct {
    const char *word;
    struct ls_json_node node;
} words[] = {
    {"true", {.kind = LS_NODE_TRUE}},
    {"false", {.kind = LS_NODE_FALSE}},
    {"null", {.kind = LS_NODE_NULL}},
    {"NaN", {.kind = LS_NODE_NOT_FINITE, .count = 4, .text = "\0NaN"}},
    {"Infinity", {.kind = LS_NODE_NOT_FINITE, .count = 9, .text = "\0Infinity"}},
    {"-Infinity", {.kind = LS_NODE_NOT_FINITE, .count = 10, .text = "\0-Infinity"}},
};

static bool read_word(parser *p, struct ls_json_node *out) {
    size_t length = 0;
    while (p->at + length < p->end && is_word_byte(p->at[length])) length++;
    for (size_t i = 0; i < LS_COUNT(words); i++) {
        if (strlen(words[i].word) != length || memcmp(words[i].word, p->at, length) != 0) continue;
        *out = words[i].node;
        p->at += length;
        return true;
    }
    return fail_here(p, "invalid token");
}

/* ---- members by name ---- */

static uint64_t bucket_of(const struct ls_json_node *object, const char *key, size_t bytes) {
    /*
     * The key is an address, which the author of a file cannot know, so nobody can choose names that all fall into one
     * bucket.
     */
    return ls_hash_keyed(key, bytes, (uint64_t)(uintptr_t)object->child) % object->count;
}

struct ls_json_node *ls_json_member(const struct ls_json_node *object, const char *key, size_t bytes) {
    if (object == NULL || object->kind != LS_NODE_OBJECT || object->count == 0) return NULL;
    for (uint32_t i = object->child[2 * bucket_of(object, key, bytes)].link; i != 0;) {
        struct ls_json_node *member = &object->child[2 * (size_t)(i - 1)];
        if (member->count == bytes && memcmp(member->text, key, bytes) == 0) return &member[1];
        i = member[1].link;
    }
    return NULL;
}

static void link_member(struct ls_json_node *object, uint32_t i) {
    struct ls_json_node *member = &object->child[2 * (size_t)i];
    struct ls_json_node *first = &object->child[2 * bucket_of(object, member->text, member->count)];
    member[1].link = first->link;
    first->link = i + 1;
}

/*
 * Builds the hash table of an object. Of equal names in a record, the later value replaces the earlier one. If members
 * were removed this way, the table is built again, because its size has changed.
 */
static bool index_members(parser *p, struct ls_json_node *object) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < object->count; i++) object->child[2 * (size_t)i].link = 0;
    for (uint32_t i = 0; i < object->count; i++) {
        struct ls_json_node *member = &object->child[2 * (size_t)i];
        struct ls_json_node *same = ls_json_member(object, member->text, member->count);
        if (same != NULL && !p->record) {
            p->wanted = member->text;
            return fail(p, duplicate, p->at, 0);
        }
        if (same != NULL) {
            const uint32_t link = same->link;
            *same = member[1];
            same->link = link;
            continue;
        }
        const uint32_t first = object->child[2 * (size_t)kept].link; /* a bucket's head: it does not move */
        if (kept < i) memcpy(&object->child[2 * (size_t)kept], member, 2 * sizeof *member);
        object->child[2 * (size_t)kept].link = first;
        link_member(object, kept++);
    }
    if (kept == object->count) return true;
    object->count = kept;
    return index_members(p, object);
}

/* ---- the document ---- */

static bool read_value(parser *p);

static void skip_space(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r')) p->at++;
}

/* Reads the character c if it is the next one after white space. */
static bool accept(parser *p, char c) {
    skip_space(p);
    if (p->at == p->end || *p->at != c) return false;
    p->at++;
    return true;
}

static void push(parser *p, struct ls_json_node node) {
    LS_ASSERT(p->top < p->low); /* the array has a node for each comma, colon and bracket */
    *p->top++ = node;
}

/* Reads the name of a member and the colon. */
static bool read_name(parser *p) {
    struct ls_json_node name;
    skip_space(p);
    if (p->at == p->end || *p->at != '"') return fail_here(p, "a name in quotes expected");
    const char *start = p->at;
    if (!read_text(p, &name)) return false;
    if (memchr(name.text, 0, name.count) != NULL)
        return fail(p, "NUL byte in object key not supported", start, (size_t)(p->at - start));
    push(p, name);
    return accept(p, ':') || fail_here(p, "':' expected");
}

/* Moves the children of a node, which are on the stack from `base` on, to the back part of the array. */
static void move_children(parser *p, struct ls_json_node *base, struct ls_json_node *out) {
    const size_t n = (size_t)(p->top - base);
    p->low -= n;
    memmove(p->low, base, n * sizeof *base);
    p->top = base;
    out->child = p->low;
}

static bool read_container(parser *p) {
    const bool object = *p->at == '{';
    const char closing = object ? '}' : ']';
    struct ls_json_node *base = p->top, node = {.kind = object ? LS_NODE_OBJECT : LS_NODE_ARRAY};
    if (++p->depth > MOST_DEPTH) return fail(p, "maximum parsing depth reached", p->at, 1);
    p->at++;
    for (bool more = !accept(p, closing); more;) {
        if (object && !read_name(p)) return false;
        if (!read_value(p)) return false;
        node.count++;
        more = accept(p, ',');
        if (!more && !accept(p, closing)) return fail_here(p, object ? "'}' expected" : "']' expected");
    }
    p->depth--;
    move_children(p, base, &node);
    if (node.count > MOST_MEMBERS) return fail(p, "too many values in one array or object", p->at, 0);
    if (object && !index_members(p, &node)) return false;
    push(p, node);
    return true;
}

static bool read_value(parser *p) {
    struct ls_json_node node = {.kind = LS_NODE_NULL};
    skip_space(p);
    if (p->at == p->end) return fail_here(p, "");
    if (*p->at == '{' || *p->at == '[') return read_container(p);
    const bool number = (*p->at >= '0' && *p->at <= '9') || (*p->at == '-' && p->end - p->at > 1 && p->at[1] != 'I');
    if (!(*p->at == '"' ? read_text(p, &node) : number ? read_number(p, &node) : read_word(p, &node))) return false;
    push(p, node);
    return true;
}

static void begin(parser *p, struct ls_json_node *nodes, size_t n, char *pool) {
    p->top = nodes;
    p->low = nodes + n;
    p->pool = pool;
    p->at = p->text;
    p->depth = 0;
    p->problem = NULL;
}

static bool read_document(parser *p) {
    if (!read_value(p)) return false;
    skip_space(p);
    return p->at == p->end || fail_here(p, "end of file expected");
}

/* The position after the string that begins with a quote at `at`. */
static size_t end_of_string(const char *text, size_t bytes, size_t at) {
    for (at++; at < bytes && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at < bytes ? at + 1 : bytes;
}

/* After a duplicate name, parses the document again to find its place in the text. */
static void find_duplicate(parser *p, struct ls_json_node *nodes, size_t n, char *pool) {
    if (p->problem != duplicate) return;
    begin(p, nodes, n, pool);
    (void)read_document(p);
    LS_ASSERT(p->found != NULL);
    p->token = p->found;
    p->length = end_of_string(p->found, (size_t)(p->end - p->found), 0);
}

/* ---- the interface ---- */

/*
 * Counts the nodes of a document. Each item of an array and each name of a member follows a comma or the opening
 * bracket of a container that is not empty. Each value of a member follows a colon. The root follows nothing.
 */
static void count(const char *text, size_t bytes, int64_t *values, int64_t *names) {
    *values = 1;
    *names = 0;
    for (size_t at = 0; at < bytes;) {
        const char c = text[at], next = at + 1 < bytes ? text[at + 1] : 0;
        *values += c == ',' || (c == '[' && next != ']') || (c == '{' && next != '}');
        *names += c == ':';
        at = c == '"' ? end_of_string(text, bytes, at) : at + 1;
    }
}

int64_t ls_json_values(const char *text, size_t bytes) {
    int64_t values, names;
    count(text, bytes, &values, &names);
    return values;
}

ls_status ls_json_parse_nodes(const char *name, const char *text, size_t bytes, bool record,
                              struct ls_json_node **nodes, char **pool) {
    int64_t values, names;
    count(text, bytes, &values, &names);
    const size_t n = (size_t)(values + names);
    *nodes = bytes <= UINT32_MAX ? malloc(n * sizeof **nodes) : NULL;
    *pool = *nodes != NULL ? malloc(bytes + 1) : NULL;
    if (*pool == NULL)
        return ls_error(LS_NO_MEMORY, "%s: no memory for %zu bytes of JSON with %lld values", name, bytes,
                        (long long)values);
    parser p = {.text = text, .end = text + bytes, .record = record};
    begin(&p, *nodes, n, *pool);
    if (read_document(&p)) return ls_ok();
    find_duplicate(&p, *nodes, n, *pool);
    return make_error(&p, name);
}
