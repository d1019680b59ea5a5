#include "masks.h"

#include <stdio.h>
#include <string.h>

ls_mask mask_of_terms(const char *terms, const int32_t *ends, int n_ends) {
    ls_mask mask = {0};
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", terms);
    for (char *term; (term = strsep(&rest, "+")) != NULL;) {
        ls_mask_term *added = &mask.term[mask.n];
        long long first;
        if (strcmp(term, "documents") == 0) {
            *added = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = n_ends};
            mask.n++;
        } else if (sscanf(term, "first:%lld", &first) == 1) {
            *added = (ls_mask_term){.kind = LS_MASK_WINDOW, .window = 0, .first = first};
            mask.n++;
        } else {
            const ls_status status = ls_mask_add_term(&mask, term);
            LS_ASSERT(status.code == LS_OK);
        }
    }
    return mask;
}
