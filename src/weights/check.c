/* Whether files hold what the model needs: everything that is wrong in one line, by kind, and of many the first. */
#include "weights/weights_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_complain(ls_complaint *c, const char *format, ...) {
    char item[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    const size_t used = strlen(c->list);
    const bool fits = used + strlen(item) + sizeof ", , ..." <= sizeof c->list;
    const bool cut = used >= 3 && strcmp(c->list + used - 3, "...") == 0;
    if (c->count == 0)
        snprintf(c->list, sizeof c->list - sizeof ", ...", "%s", item);
    else if (!cut)
        snprintf(c->list + used, sizeof c->list - used, ", %s", fits ? item : "...");
    c->count++;
}

enum { MISSING, EXTRA, MISSHAPEN, REPEATED, NO_FLOATS, MISPLACED, UNEQUAL, KINDS };

typedef struct checking {
    const ls_weight_files *files;
    const ls_image *image;
    const ls_weight_rules *rules;
    const char **expected; /* [n_flats] names as the files have them, sorted */
    ls_complaint complaints[KINDS];
} checking;

/* ---- each parameter ---- */

static void shape_text(int ndim, const int64_t *size, char *out, size_t room) {
    size_t used = (size_t)snprintf(out, room, "[");
    for (int i = 0; i < ndim && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%lld", i ? "," : "", (long long)size[i]);
    if (used < room) snprintf(out + used, room - used, "]");
}

static bool same_shape(const ls_st_tensor *t, const ls_shape *shape) {
    bool same = t->ndim == shape->ndim;
    for (int i = 0; same && i < shape->ndim; i++) same = t->shape[i] == shape->dim[i].size;
    return same;
}

static void check_flat(checking *c, const ls_flat *flat) {
    int times = 0;
    const char *name = ls_weight_files_name(c->files, flat->name);
    const ls_st_tensor *t = ls_weight_files_find(c->files, name, &times);
    if (t == NULL) {
        ls_complain(&c->complaints[MISSING], "%s", name);
        return;
    }
    if (times > 1) ls_complain(&c->complaints[REPEATED], "%s", name);
    if (t->dtype > LS_ST_BF16)
        ls_complain(&c->complaints[NO_FLOATS], "%s is %s", name, ls_st_dtype_name(t->dtype));
    if (same_shape(t, &flat->shape)) return;
    char found[96], wanted[64];
    shape_text(t->ndim, t->shape, found, sizeof found);
    ls_shape_print(&flat->shape, wanted, sizeof wanted);
    ls_complain(&c->complaints[MISSHAPEN], "%s is %s, expected %s", name, found, wanted);
}

/* ---- each tensor ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_derived(const char *name, const ls_weight_rules *rules) {
    const size_t n = strlen(name);
    for (const char *const *end = rules->derived; end != NULL && *end != NULL; end++)
        if (n >= strlen(*end) && strcmp(name + n - strlen(*end), *end) == 0) return true;
    return false;
}

static bool same_numbers(const ls_st_tensor *a, const ls_st_tensor *b) {
    enum { BLOCK = 4096, FORGET = 1 << 20 }; /* elements */
    double x[BLOCK], y[BLOCK];
    bool same = a->count == b->count;
    for (int64_t i = 0; i < a->count && same; i += BLOCK) {
        const int64_t n = ls_min(BLOCK, a->count - i);
        same = ls_st_convert(a, i, n, LS_F64, x).code == LS_OK &&
               ls_st_convert(b, i, n, LS_F64, y).code == LS_OK;
        for (int64_t k = 0; k < n && same; k++) same = x[k] == y[k] || (isnan(x[k]) && isnan(y[k]));
        if ((i + n) % FORGET == 0) {
            ls_st_forget(a, i + n - FORGET, FORGET);
            ls_st_forget(b, i + n - FORGET, FORGET);
        }
    }
    return same;
}

/* A tensor that the model has as a parameter of another name. */
static bool is_copy(checking *c, const ls_st_tensor *t) {
    const ls_weight_rules *rules = c->rules;
    if (rules->copy == NULL || rules->original == NULL || strcmp(t->name, rules->copy) != 0) return false;
    const ls_st_tensor *original =
        ls_weight_files_find(c->files, ls_weight_files_name(c->files, rules->original), NULL);
    if (original != NULL && !same_numbers(t, original))
        ls_complain(&c->complaints[UNEQUAL], "%s is not %s", t->name, original->name);
    return true;
}

static void check_tensor(checking *c, const ls_st_tensor *t) {
    if (bsearch(&t->name, c->expected, (size_t)c->image->n_flats, sizeof *c->expected, by_name) != NULL)
        return;
    if (!is_derived(t->name, c->rules) && !is_copy(c, t)) ls_complain(&c->complaints[EXTRA], "%s", t->name);
}

/* ---- all ---- */

static ls_status tell(const checking *c, const char *what) {
    char text[sizeof((ls_status){0}).text] = "";
    for (int k = 0; k < KINDS; k++) {
        const size_t used = strlen(text);
        if (c->complaints[k].count > 0)
            snprintf(text + used, sizeof text - used, "%s%d %s (%s)", used ? "; " : "",
                     c->complaints[k].count, c->complaints[k].kind, c->complaints[k].list);
    }
    if (text[0] == 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: its tensors are not the model's: %s", what, text);
}

ls_status ls_weight_files_check(const ls_weight_files *files, const char *what,
                                const ls_weight_listing *listing, const ls_image *image,
                                const ls_weight_rules *rules) {
    checking c = {.files = files,
                  .image = image,
                  .rules = rules,
                  .complaints = {{"missing", 0, ""},
                                 {"extra", 0, ""},
                                 {"misshapen", 0, ""},
                                 {"in more than one file", 0, ""},
                                 {"of another type than F64, F32, F16, BF16", 0, ""},
                                 {"not in the file that the index says", 0, ""},
                                 {"not tied, though the config says so", 0, ""}}};
    c.expected = calloc((size_t)image->n_flats + 1, sizeof *c.expected);
    if (c.expected == NULL) return ls_error(LS_NO_MEMORY, "no memory to check %s", what);
    for (int i = 0; i < image->n_flats; i++) {
        c.expected[i] = ls_weight_files_name(files, image->flats[i].name);
        check_flat(&c, &image->flats[i]);
    }
    qsort(c.expected, (size_t)image->n_flats, sizeof *c.expected, by_name);
    for (int f = 0; f < files->n; f++)
        for (int64_t t = 0; t < ls_st_count(files->file[f]); t++)
            check_tensor(&c, ls_st_at(files->file[f], t));
    for (size_t i = 0; i < listing->n_indexed; i++) {
        const ls_indexed *entry = &listing->indexed[i];
        if (ls_st_find(files->file[entry->file], entry->tensor) == NULL)
            ls_complain(&c.complaints[MISPLACED], "%s: %s", entry->tensor, entry->name);
    }
    free(c.expected);
    return tell(&c, what);
}
