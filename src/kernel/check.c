/*
 * Checks a call against the operands of its contract (contracts.c), and answers what contracts say.
 *
 * An operand is "name TYPE[dims]".
 *
 *   ?name    is optional, as are all operands after it
 *   ~TYPE    may be strided outside the last dimension;  ~~TYPE anywhere; otherwise dense
 *   TYPE     T the kernel's element type, G its accumulator, X either, E either or i32, C either or f32, F any
 *            floating type, Q any type of blocks, or a type's name
 *   dims     capital letter: one dimension; small letter: any number of leading dimensions, merged;
 *            number: that many elements. A letter stands for the same size everywhere in the row.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel_impl.h"

typedef struct operand {
    char name[16], type[8];
    bool optional, outer_strided, strided;
    int n; /* entries of dims */
    struct {
        char letter;  /* 0 for a number */
        int64_t size; /* if it is a number */
    } dims[LS_MAX_DIMS];
} operand;

typedef struct matching {
    const char *kernel;
    ls_dtype T;
    int64_t size[128]; /* of each letter; -1 while unknown */
} matching;

/* Copies the text before `stop` to `out`, and returns the text after it. */
static const char *copy_until(const char *text, char stop, char *out, size_t bytes) {
    const char *end = strchr(text, stop);
    LS_ASSERT(end != NULL && (size_t)(end - text) < bytes);
    memcpy(out, text, (size_t)(end - text));
    out[end - text] = 0;
    return end + 1;
}

/* Reads one operand of a row and returns the text after it, or NULL at the end of the row. */
static const char *next_operand(const char *text, operand *out) {
    while (*text == ' ') text++;
    if (*text == 0) return NULL;
    *out = (operand){.optional = *text == '?'};
    text = copy_until(text + out->optional, ' ', out->name, sizeof out->name);
    int tildes = (int)strspn(text, "~");
    out->outer_strided = tildes >= 1;
    out->strided = tildes >= 2;
    text = copy_until(text + tildes, '[', out->type, sizeof out->type);
    while (*text != ']') {
        LS_ASSERT(out->n < LS_MAX_DIMS);
        if (isalpha((unsigned char)*text)) {
            out->dims[out->n].letter = *text++;
        } else {
            char *end;
            out->dims[out->n].size = strtoll(text, &end, 10);
            text = end;
        }
        out->n++;
        if (*text == ',') text++;
    }
    return text + 1;
}

static bool type_fits(const char *type, ls_dtype T, ls_dtype is) {
    const bool is_t = is == T, is_g = is == ls_dtype_accumulator(T);
    switch (type[1] == 0 ? type[0] : 0) {
    case 'T':
        return is_t;
    case 'G':
        return is_g;
    case 'X':
        return is_t || is_g;
    case 'E':
        return is_t || is_g || is == LS_I32;
    case 'C':
        return is_t || is_g || is == LS_F32;
    case 'Q':
        return ls_dtype_is_block(is);
    case 'F':
        return is == LS_F32 || is == LS_F64 || is == LS_BF16;
    default:
        return strcmp(type, ls_dtype_name(is)) == 0;
    }
}

static const char *type_words(const char *type, ls_dtype T) {
    if (strcmp(type, "T") == 0) return ls_dtype_name(T);
    if (strcmp(type, "G") == 0) return ls_dtype_name(ls_dtype_accumulator(T));
    if (strcmp(type, "X") == 0) return "the kernel's type or its accumulator";
    if (strcmp(type, "E") == 0) return "the kernel's type, its accumulator or i32";
    if (strcmp(type, "C") == 0) return "the kernel's type, its accumulator or f32";
    if (strcmp(type, "Q") == 0) return "blocks of numbers";
    if (strcmp(type, "F") == 0) return "f32, f64 or bf16";
    return type;
}

static bool strides_fit(const operand *o, const ls_view *view) {
    if (o->strided || ls_view_is_dense(view)) return true;
    int last = view->ndim - 1;
    return o->outer_strided && (view->stride[last] == 1 || view->size[last] == 1);
}

/* The size that entry i of dims has in the view. Only entry 0 may stand for several dimensions. */
static int64_t size_at(const operand *o, const ls_view *view, int i) {
    int apart = o->n - 1; /* dimensions after the first entry */
    if (i > 0) return view->size[view->ndim - apart + i - 1];
    int64_t merged = 1;
    for (int d = 0; d < view->ndim - apart; d++) merged *= view->size[d];
    return merged;
}

static ls_status match(matching *m, const operand *o, const ls_view *view) {
    if (!type_fits(o->type, m->T, view->dtype))
        return ls_error(LS_INVALID, "kernel %s: %s is %s, expected type %s", m->kernel, o->name,
                        ls_kernel_view_text(view).text, type_words(o->type, m->T));
    const bool merges = !isupper((unsigned char)o->dims[0].letter);
    if (merges ? view->ndim < o->n - 1 : view->ndim != o->n)
        return ls_error(LS_INVALID, "kernel %s: %s is %s, expected %s%d dimensions", m->kernel, o->name,
                        ls_kernel_view_text(view).text, merges ? "at least " : "", merges ? o->n - 1 : o->n);
    for (int i = 0; i < o->n; i++) {
        const int letter = (unsigned char)o->dims[i].letter;
        const int64_t is = size_at(o, view, i), expected = letter == 0 ? o->dims[i].size : m->size[letter];
        if (letter != 0 && expected < 0)
            m->size[letter] = is;
        else if (is != expected)
            return ls_error(LS_INVALID, "kernel %s: %s is %s: its %s is %lld, expected %lld", m->kernel, o->name,
                            ls_kernel_view_text(view).text, i + 1 == o->n && i > 0 ? "last size" : "size",
                            (long long)is, (long long)expected);
    }
    if (!strides_fit(o, view))
        return ls_error(LS_INVALID, "kernel %s: %s is %s with gaps, expected dense%s", m->kernel, o->name,
                        ls_kernel_view_text(view).text, o->outer_strided ? " rows" : "");
    return ls_ok();
}

static ls_status match_all(matching *m, const char *row, const char *side, const ls_view *views, int n) {
    operand o;
    int at = 0;
    for (const char *text = row; (text = next_operand(text, &o)) != NULL;) {
        if (at >= n && o.optional) continue;
        if (at >= n) return ls_error(LS_INVALID, "kernel %s: %d %ss, %s is missing", m->kernel, n, side, o.name);
        LS_TRY(match(m, &o, &views[at]));
        at++;
    }
    if (at != n) return ls_error(LS_INVALID, "kernel %s: %d %ss, expected %d", m->kernel, n, side, at);
    return ls_ok();
}

ls_status ls_kernel_check(ls_kernel_id id, ls_dtype T, const ls_kernel_call *call) {
    const ls_contract *c = &ls_contracts[id];
    matching m = {.kernel = c->name, .T = T};
    for (size_t letter = 0; letter < LS_COUNT(m.size); letter++) m.size[letter] = -1;
    LS_TRY(match_all(&m, c->in, "input", call->in, call->n_in));
    LS_TRY(match_all(&m, c->out, "output", call->out, call->n_out));
    if (c->params && call->params == NULL) return ls_error(LS_INVALID, "kernel %s: params are missing", c->name);
    return c->check != NULL ? c->check(call) : ls_ok();
}

bool ls_kernel_same_forms(const ls_kernel_call *a, const ls_kernel_call *b) {
    bool same = a->n_in == b->n_in && a->n_out == b->n_out;
    for (int i = 0; same && i < a->n_in; i++) same = ls_view_same_form(&a->in[i], &b->in[i]);
    for (int i = 0; same && i < a->n_out; i++) same = ls_view_same_form(&a->out[i], &b->out[i]);
    return same;
}

/* --- what contracts say ---------------------------------------------------------------------------------------------
 */

ls_kernel_id ls_kernel_named(const char *name) {
    int id = LS_KERNEL_IDS - 1;
    while (id > LS_KERNEL_NONE && strcmp(ls_contracts[id].name, name) != 0) id--;
    return (ls_kernel_id)id;
}

bool ls_kernel_reads_output(ls_kernel_id id, const void *params, int output) {
    const ls_contract *c = &ls_contracts[id];
    const unsigned more = c->reads_too != NULL && params != NULL ? c->reads_too(params) : 0;
    return ((c->reads | more) >> output & 1) != 0;
}

bool ls_kernel_works_in_place(ls_kernel_id id, int output, int other, bool narrows) {
    return (ls_contracts[id].over[output] >> (narrows ? 16 + other : other) & 1) != 0;
}
