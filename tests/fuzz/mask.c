/*
 * Any text of a mask is refused, or its printed form reads back as the same mask. npy.c tests masks with files of
 * documents.
 */
#include "fuzz/fuzz.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Reads the terms of a mask as ls_mask_text_read does. */
static bool read_terms(const char *text, ls_mask *out) {
    *out = (ls_mask){.n = 0};
    char *copy = strdup(text);
    bool good = true;
    LS_ASSERT(copy);
    for (char *rest = copy, *term; good && (term = strsep(&rest, "+"));) good = fuzz_done(ls_mask_add_term(out, term));
    free(copy);
    return good;
}

static void run(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes), printed[512];
    ls_mask mask, again;
    if (read_terms(text, &mask)) {
        LS_ASSERT(fuzz_done(ls_mask_check(&mask, 8)));
        ls_mask_print(&mask, printed, sizeof printed);
        LS_ASSERT(read_terms(printed, &again) && again.n == mask.n);
        for (int t = 0; t < mask.n; t++) {
            const ls_mask_term *a = &mask.term[t], *b = &again.term[t];
            LS_ASSERT(a->kind == b->kind && a->window == b->window && a->first == b->first);
        }
    }
    free(text);
}

const fuzz_target fuzz_mask = {.name = "mask", .run = run};
