/* Growing buffers. */
#include "base/base.h"
#include "text/text_impl.h"

#include <stdlib.h>
#include <string.h>

bool ls_reserve(void **items, size_t count, size_t *capacity, size_t more, size_t size) {
    if (more <= *capacity - count) return true;
    size_t wanted = *capacity > more ? 2 * *capacity : count + more, bytes;
    if (wanted < 64) wanted = 64;
    void *grown = __builtin_mul_overflow(wanted, size, &bytes) ? NULL : realloc(*items, bytes);
    if (!grown) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

bool ls_token_list_reserve(ls_token_list *list, size_t more) {
    void *items = list->id;
    bool done = ls_reserve(&items, list->count, &list->capacity, more, sizeof *list->id);
    list->id = items;
    return done;
}

bool ls_text_reserve(ls_text *text, size_t more) {
    void *items = text->byte;
    bool done = ls_reserve(&items, text->count, &text->capacity, more, 1);
    text->byte = items;
    return done;
}

bool ls_text_append(ls_text *text, const char *bytes, size_t n) {
    if (!ls_text_reserve(text, n)) return false;
    if (n > 0) memcpy(text->byte + text->count, bytes, n);
    text->count += n;
    return true;
}

const char *ls_text_find(const char *text, size_t bytes, const char *part, size_t n) {
    if (n > 16) return memmem(text, bytes, part, n);
    while (bytes >= n) {
        const char *found = memchr(text, part[0], bytes - n + 1);
        if (!found || memcmp(found, part, n) == 0) return found;
        bytes -= (size_t)(found + 1 - text);
        text = found + 1;
    }
    return NULL;
}

ls_status ls_no_memory(size_t bytes) {
    return ls_error(LS_NO_MEMORY, "no memory to tokenize a text of %zu bytes", bytes);
}
