#include "data/marked.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static ls_status no_memory(size_t bytes) {
    return ls_error(LS_NO_MEMORY, "no memory for a record of %zu bytes", bytes);
}

static ls_status mark(ls_marked_text *m, size_t start, size_t end) {
    if (m->n_learnt > 0 && m->learnt[m->n_learnt - 1].end == start) {
        m->learnt[m->n_learnt - 1].end = end;
        return ls_ok();
    }
    if (m->n_learnt == m->learnt_capacity) {
        const size_t wanted = 2 * m->learnt_capacity + 16;
        struct ls_marked_stretch *grown = realloc(m->learnt, wanted * sizeof *grown);
        if (grown == NULL) return no_memory(wanted * sizeof *grown);
        m->learnt = grown;
        m->learnt_capacity = wanted;
    }
    m->learnt[m->n_learnt++] = (struct ls_marked_stretch){start, end};
    return ls_ok();
}

ls_status ls_marked_append(ls_marked_text *m, const char *text, size_t bytes, bool learnt) {
    if (bytes == 0) return ls_ok();
    if (m->bytes + bytes > m->capacity) {
        const size_t wanted = 2 * (m->bytes + bytes);
        char *grown = realloc(m->text, wanted);
        if (grown == NULL) return no_memory(wanted);
        m->text = grown;
        m->capacity = wanted;
    }
    memcpy(m->text + m->bytes, text, bytes);
    m->bytes += bytes;
    return learnt ? mark(m, m->bytes - bytes, m->bytes) : ls_ok();
}

void ls_marked_free(ls_marked_text *m) {
    free(m->text);
    free(m->learnt);
    *m = (ls_marked_text){0};
}
