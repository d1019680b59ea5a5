/*
 * Ranks that are processes have each a copy of the context. Rank 0 merges what they changed: a difference is the
 * exclusive or of a byte now and before, so the differences of ranks that wrote different bytes can be joined in any
 * order. It is done a window at a time; a rank gives its difference only where it has one.
 */
#include "session/context.h"

#include "session/home.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 16 };

ls_status ls_context_open(void *data, size_t bytes, bool as_threads, ls_context *out) {
    ls_context made = {.data = data, .bytes = bytes};
    if (bytes > 0 && !(as_threads && ls_home_starts_ranks())) {
        made.before = malloc(bytes);
        if (made.before == NULL) return ls_error(LS_NO_MEMORY, "no memory for a copy of a context of %zu bytes", bytes);
        memcpy(made.before, data, bytes);
    }
    *out = made;
    return ls_ok();
}

void ls_context_close(ls_context *context) {
    free(context->before);
    *context = (ls_context){.data = NULL};
}

typedef struct window {
    const uint8_t *now, *before;
    uint8_t *merged; /* on rank 0: `before` with the differences that have come */
    bool changed;    /* on rank 0: by any rank */
} window;

static ls_status give_difference(void *context, size_t at, void *out, size_t bytes) {
    const window *w = context;
    for (size_t i = 0; i < bytes; i++) ((uint8_t *)out)[i] = w->now[at + i] ^ w->before[at + i];
    return ls_ok();
}

static ls_status take_difference(void *context, int rank, size_t at, const void *data, size_t bytes) {
    (void)rank;
    window *w = context;
    for (size_t i = 0; i < bytes; i++) w->merged[at + i] ^= ((const uint8_t *)data)[i];
    w->changed = true;
    return ls_ok();
}

static ls_status return_window(const ls_context *c, ls_comm *comm, size_t from, uint8_t *merged) {
    const size_t bytes = ls_min(c->bytes - from, (size_t)WINDOW);
    window w = {(const uint8_t *)c->data + from, (const uint8_t *)c->before + from, merged, false};
    const bool differs = memcmp(w.now, w.before, bytes) != 0;
    memcpy(merged, w.before, bytes);
    LS_TRY(ls_comm_gather(comm, &(ls_comm_pieces){differs ? bytes : 0, give_difference, take_difference, &w}, false));
    return w.changed ? ls_comm_send_home(comm, (char *)c->data + from, merged, bytes) : ls_ok();
}

ls_status ls_context_return(const ls_context *c, ls_comm *comm, ls_status status) {
    if (c->before == NULL || (status.code != LS_OK && status.code != LS_INTERRUPTED)) return status;
    uint8_t *merged = malloc(WINDOW);
    ls_status returned = ls_comm_agree(
        comm, merged != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory to return %zu bytes", c->bytes));
    for (size_t from = 0; from < c->bytes && returned.code == LS_OK; from += WINDOW)
        returned = return_window(c, comm, from, merged);
    free(merged);
    return status.code == LS_OK ? returned : status;
}
