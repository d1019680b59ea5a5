/* JSON as text of any size and depth, built piece by piece. */
#include "format/json_text.h"

#include "base/base.h"
#include "format/format_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_json_buffer_add(ls_json_buffer *b, const char *bytes, size_t n) {
    if (n > b->capacity - b->n) {
        const size_t wanted = 2 * (b->n + n) + 256;
        char *grown = realloc(b->at, wanted);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", wanted);
        b->at = grown;
        b->capacity = wanted;
    }
    if (n > 0) memcpy(b->at + b->n, bytes, n);
    b->n += n;
    return ls_ok();
}

ls_status ls_json_buffer_print(ls_json_buffer *b, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int n = ls_vprint(text, sizeof text, format, arguments);
    va_end(arguments);
    LS_ASSERT(n >= 0 && (size_t)n < sizeof text);
    return ls_json_buffer_add(b, text, (size_t)n);
}

void ls_json_buffer_free(ls_json_buffer *b) {
    free(b->at);
    *b = (ls_json_buffer){0};
}

ls_status ls_json_buffer_text(ls_json_buffer *b, const char *text, size_t n) {
    size_t done = 0;
    LS_TRY(ls_json_buffer_add(b, "\"", 1));
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 32 && c != '"' && c != '\\') continue;
        LS_TRY(ls_json_buffer_add(b, text + done, i - done));
        LS_TRY(ls_json_buffer_print(b, "\\u%04x", c));
        done = i + 1;
    }
    LS_TRY(ls_json_buffer_add(b, text + done, n - done));
    return ls_json_buffer_add(b, "\"", 1);
}

static ls_status add_node(ls_json_buffer *b, const struct ls_json_node *node);

/* The members of an object, or the items of an array. */
static ls_status add_children(ls_json_buffer *b, const struct ls_json_node *node, bool members) {
    LS_TRY(ls_json_buffer_add(b, members ? "{" : "[", 1));
    for (uint32_t i = 0; i < node->count; i++) {
        if (i > 0) LS_TRY(ls_json_buffer_add(b, ",", 1));
        if (members) LS_TRY(add_node(b, &node->child[2 * i]));
        if (members) LS_TRY(ls_json_buffer_add(b, ":", 1));
        LS_TRY(add_node(b, &node->child[members ? 2 * i + 1 : i]));
    }
    return ls_json_buffer_add(b, members ? "}" : "]", 1);
}

static ls_status add_node(ls_json_buffer *b, const struct ls_json_node *node) {
    switch ((ls_json_node_kind)node->kind) {
    case LS_NODE_OBJECT:
        return add_children(b, node, true);
    case LS_NODE_ARRAY:
        return add_children(b, node, false);
    case LS_NODE_TEXT:
        return ls_json_buffer_text(b, node->text, node->count);
    case LS_NODE_INTEGER:
        return ls_json_buffer_print(b, "%" PRId64, node->integer);
    case LS_NODE_REAL: {
        char text[40];
        const int n = ls_print(text, sizeof text, "%.17g", node->real);
        LS_TRY(ls_json_buffer_add(b, text, (size_t)n));
        /* Without a point or an exponent it would be read as an integer. */
        return strpbrk(text, ".en") == NULL ? ls_json_buffer_add(b, ".0", 2) : ls_ok();
    }
    case LS_NODE_TRUE:
        return ls_json_buffer_add(b, "true", 4);
    case LS_NODE_FALSE:
        return ls_json_buffer_add(b, "false", 5);
    case LS_NODE_NOT_FINITE:
        return ls_json_buffer_add(b, node->text + 1, node->count - 1);
    case LS_NODE_NULL:
        break;
    }
    return ls_json_buffer_add(b, "null", 4);
}

ls_status ls_json_buffer_value(ls_json_buffer *b, ls_json_value value) {
    return value.json != NULL ? add_node(b, value.json) : ls_json_buffer_add(b, "null", 4);
}
