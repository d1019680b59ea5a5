/* Masks from the command line; document ends come from .npy files. */
#include "job/job_impl.h"

#include <stdio.h>
#include <string.h>

static ls_status add_documents(const char *path, int64_t S, ls_mask_text *out) {
    if (out->mask.n == LS_MASK_TERMS)
        return ls_error(LS_USAGE,
                        "mask term 'documents:%s': the mask has %d terms already, expected at most %d", path,
                        LS_MASK_TERMS, LS_MASK_TERMS);
    ls_array *ends = &out->ends[out->n_ends];
    LS_TRY(ls_array_read_integers(path, ends));
    out->n_ends++;
    if (ends->ndim != 1) {
        char shape[96];
        ls_sizes_print(ends->ndim, ends->size, shape, sizeof shape);
        return ls_error(LS_INVALID,
                        "%s: shape is %s, expected one dimension: cumulative lengths from 0 to %lld", path,
                        shape, (long long)S);
    }
    ls_mask_term *term = &out->mask.term[out->mask.n++];
    *term = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends->data, .n_ends = (int)ends->count};
    return ls_error_in(ls_mask_check(&out->mask, S), "%s", path);
}

static ls_status add_term(const char *term, int64_t S, ls_mask_text *out) {
    static const char documents[] = "documents:";
    if (strncmp(term, documents, sizeof documents - 1) == 0 && term[sizeof documents - 1] != 0)
        return add_documents(term + sizeof documents - 1, S, out);
    return ls_mask_add_term(&out->mask, term);
}

ls_status ls_mask_text_read(const char *text, int64_t S, ls_mask_text *out) {
    *out = (ls_mask_text){.mask = {.n = 0}};
    for (const char *at = text;;) {
        const size_t length = strcspn(at, "+");
        LS_PATH term = NULL;
        LS_TRY(ls_path_print(&term, "%.*s", (int)length, at));
        LS_TRY(add_term(term, S, out));
        if (at[length] == 0) return ls_ok();
        at += length + 1;
    }
}

void ls_mask_text_free(ls_mask_text *mask) {
    for (int i = 0; i < mask->n_ends; i++) ls_array_free(&mask->ends[i]);
    mask->n_ends = 0;
}
