/* Masks as text, and the check of those that come from outside. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tensor/mask.h"

static void print_term(const ls_mask_term *term, char *out, size_t bytes) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        snprintf(out, bytes, "causal");
        return;
    case LS_MASK_PREFIX:
        snprintf(out, bytes, "prefix:%lld", (long long)term->first);
        return;
    case LS_MASK_DOCUMENTS:
        snprintf(out, bytes, "documents");
        return;
    case LS_MASK_WINDOW:
        if (term->first > 0)
            snprintf(out, bytes, "window:%lld:%lld", (long long)term->window, (long long)term->first);
        else
            snprintf(out, bytes, "window:%lld", (long long)term->window);
        return;
    }
}

void ls_mask_print(const ls_mask *mask, char *out, size_t bytes) {
    if (mask->n == 0) {
        snprintf(out, bytes, "full");
        return;
    }
    size_t used = 0;
    for (int t = 0; t < mask->n && used < bytes; t++) {
        char term[64] = "";
        print_term(&mask->term[t], term, sizeof term);
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", t > 0 ? "+" : "", term);
    }
}

/* Reads ":N" at *text, N >= least in decimal digits, and moves behind it. */
static bool read_number(const char **text, int64_t least, int64_t *out) {
    const char *at = *text;
    if (at[0] != ':' || at[1] < '0' || at[1] > '9') return false;
    char *end;
    errno = 0;
    long long value = strtoll(at + 1, &end, 10);
    if (errno != 0 || value < least) return false;
    *text = end;
    *out = value;
    return true;
}

/* "window:W" or "window:W:N" behind the name. */
static bool read_window(const char *rest, ls_mask_term *term) {
    if (!read_number(&rest, 1, &term->window)) return false;
    return rest[0] == 0 || (read_number(&rest, 0, &term->first) && rest[0] == 0);
}

static bool read_prefix(const char *rest, ls_mask_term *term) {
    return read_number(&rest, 0, &term->first) && rest[0] == 0;
}

/* What stands behind `name` in text, or NULL when it does not begin with it. */
static const char *after(const char *text, const char *name) {
    size_t n = strlen(name);
    return strncmp(text, name, n) == 0 ? text + n : NULL;
}

ls_status ls_mask_add_term(ls_mask *mask, const char *text) {
    if (strcmp(text, "full") == 0) return ls_ok();

    ls_mask_term term = {.kind = LS_MASK_CAUSAL};
    const char *window = after(text, "window"), *prefix = after(text, "prefix");
    bool good = strcmp(text, "causal") == 0;
    if (window != NULL) {
        term.kind = LS_MASK_WINDOW;
        good = read_window(window, &term);
    } else if (prefix != NULL) {
        term.kind = LS_MASK_PREFIX;
        good = read_prefix(prefix, &term);
    }
    if (!good)
        return ls_error(
            LS_USAGE,
            "mask term '%s', expected full, causal, window:W or window:W:N (W at least 1), prefix:N, or "
            "documents:FILE",
            text);
    if (mask->n >= LS_MASK_TERMS)
        return ls_error(LS_USAGE, "mask term '%s' is one too many, at most %d can be joined", text,
                        LS_MASK_TERMS);
    mask->term[mask->n++] = term;
    return ls_ok();
}

static ls_status check_documents(const ls_mask_term *term, int64_t S) {
    if (term->ends == NULL) return ls_error(LS_INVALID, "documents: there are no ends (NULL)");
    if (term->n_ends < 2)
        return ls_error(LS_INVALID, "documents: %d cumulative lengths, expected at least 2 (from 0 to %lld)",
                        term->n_ends, (long long)S);
    if (term->ends[0] != 0)
        return ls_error(LS_INVALID, "documents: cumulative length 0 is %d, expected 0", term->ends[0]);
    for (int i = 1; i < term->n_ends; i++)
        if (term->ends[i] < term->ends[i - 1])
            return ls_error(LS_INVALID, "documents: cumulative length %d is %d, less than %d before it", i,
                            term->ends[i], term->ends[i - 1]);
    int last = term->n_ends - 1;
    if (term->ends[last] != S)
        return ls_error(LS_INVALID,
                        "documents: the last cumulative length (entry %d) is %d, expected S = %lld", last,
                        term->ends[last], (long long)S);
    return ls_ok();
}

static ls_status check_term(const ls_mask_term *term, int i, int64_t S) {
    switch (term->kind) {
    case LS_MASK_CAUSAL:
        return ls_ok();
    case LS_MASK_WINDOW:
        if (term->window >= 0 && term->first >= 0 && (term->window > 0 || term->first > 0)) return ls_ok();
        return ls_error(LS_INVALID,
                        "mask term %d has window %lld, first %lld; expected at least 0, and one of them more",
                        i, (long long)term->window, (long long)term->first);
    case LS_MASK_PREFIX:
        if (term->first >= 0) return ls_ok();
        return ls_error(LS_INVALID, "mask term %d has first %lld; expected at least 0", i,
                        (long long)term->first);
    case LS_MASK_DOCUMENTS:
        return check_documents(term, S);
    }
    return ls_error(LS_INVALID, "mask term %d is of kind %d; expected one of ls_mask_kind", i,
                    (int)term->kind);
}

ls_status ls_mask_check(const ls_mask *mask, int64_t S) {
    if (mask->n < 0 || mask->n > LS_MASK_TERMS)
        return ls_error(LS_INVALID, "a mask of %d terms; expected 0 to %d", mask->n, LS_MASK_TERMS);
    for (int t = 0; t < mask->n; t++) LS_TRY(check_term(&mask->term[t], t, S));
    return ls_ok();
}
