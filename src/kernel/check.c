/*
 * The types and shapes of the contract in kernel.h, in a form that the program checks: one row per kernel.
 *
 * An operand is "name TYPE[dims]".
 *   ?name    is optional (the last input only)
 *   ~TYPE    may be strided outside the last dimension;  ~~TYPE anywhere; otherwise dense
 *   TYPE     T the kernel's element type, G its accumulator, X either, C either or f32, F any floating type,
 *            or a type's name
 *   dims     capital letter: one dimension; small letter: any number of leading dimensions, merged;
 *            number: that many elements. A letter stands for the same size everywhere in the row.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel_impl.h"

typedef struct signature {
    const char *name, *in, *out;
    bool params;
    ls_status (*further)(const ls_kernel_call *call); /* checks that a row cannot express; may be NULL */
} signature;

static ls_status check_activation(const ls_kernel_call *call);
static ls_status check_conv(const ls_kernel_call *call);
static ls_status check_conv_dw(const ls_kernel_call *call);
static ls_status check_matmul(const ls_kernel_call *call);
static ls_status check_attention(const ls_kernel_call *call);
static ls_status check_even_head(const ls_kernel_call *call);

#define ATTENTION_INPUTS "q ~T[B,N,H,D] k ~T[B,K,J,D] v ~T[B,K,J,D] spans i32[B,N,W] kpos i32[K]"

static const signature signatures[] = {
    {"embedding", "ids i32[n] table T[V,E]", "y T[n,E]", false, NULL},
    {"embedding_grad", "ids i32[n] dy T[n,E]", "dtable G[V,E]", true, NULL},
    {"matmul", "A T[a,I] B T[b,J] ?bias T[N]", "C C[m,N]", true, check_matmul},
    {"column_sum", "x T[n,N]", "y G[N]", false, NULL},
    {"rmsnorm", "x T[n,E] weight T[E]", "y T[n,E] rstd G[n]", true, NULL},
    {"rmsnorm_grad", "x T[n,E] weight T[E] rstd G[n] dy T[n,E]", "dx T[n,E] dweight G[E]", true, NULL},
    {"layernorm", "x T[n,E] weight T[E] ?bias T[E]", "y T[n,E] mean G[n] rstd G[n]", true, NULL},
    {"layernorm_grad", "x T[n,E] weight T[E] mean G[n] rstd G[n] dy T[n,E]", "dx T[n,E] dweight G[E]", false,
     NULL},
    {"rope_table", "positions i32[n]", "table G[n,D]", true, check_even_head},
    {"rotate", "x T[n,H,D] table G[n,D]", "y T[n,H,D]", true, check_even_head},
    {"swiglu", "gate T[n] up T[n]", "y T[n]", false, NULL},
    {"swiglu_grad", "gate T[n] up T[n] dy T[n]", "dgate T[n] dup T[n]", false, NULL},
    {"activation", "x T[n]", "y T[n]", true, check_activation},
    {"activation_grad", "dy T[n] x X[n]", "dx T[n]", true, check_activation},
    {"conv", "x ~T[B,M,E] weight T[W,E]", "y ~T[B,N,E]", true, check_conv},
    {"conv_dw", "x ~T[B,M,E] dy ~T[B,N,E]", "dweight G[W,E]", true, check_conv_dw},
    {"add", "a T[n] b T[n]", "y T[n]", false, NULL},
    {"mul", "a T[n] b T[n]", "y T[n]", false, NULL},
    {"scale", "x T[n]", "y T[n]", true, NULL},
    {"scale_by", "x T[n] c G[1]", "y T[n]", false, NULL},
    {"cast", "x ~~T[n]", "y ~~F[n]", false, NULL},
    {"cross_entropy", "logits X[n,V] labels i32[n]", "loss G[n] lse G[n]", false, NULL},
    {"cross_entropy_grad", "logits X[n,V] labels i32[n] lse G[n] dloss G[n]", "dlogits T[n,V]", false, NULL},
    {"sum", "x G[n]", "y G[1]", false, NULL},
    {"broadcast", "c G[1]", "y G[n]", false, NULL},
    {"attention", ATTENTION_INPUTS, "o ~G[B,N,H,D] lse ~G[B,H,N]", true, check_attention},
    {"cache_write", "x T[B,M,H,D] positions i32[B,M] kpos i32[K]", "cache T[B,K,H,D]", false, NULL},
    {"attention_sink", "sink T[H]", "o ~G[B,N,H,D] lse G[B,H,N]", false, NULL},
    {"attention_sink_grad", "sink T[H] lse G[B,H,N] delta G[B,H,N]", "dsink G[H]", false, NULL},
    {"attention_merge", "part ~G[B,N,H,D] part_lse G[B,H,N]", "o ~G[B,N,H,D] lse G[B,H,N]", false, NULL},
    {"attention_delta", "o T[B,N,H,D] do T[B,N,H,D]", "delta G[B,H,N]", false, NULL},
    {"attention_grad", ATTENTION_INPUTS " do ~T[B,N,H,D] lse ~G[B,H,N] delta ~G[B,H,N]",
     "dq ~G[B,N,H,D] dk ~G[B,K,J,D] dv ~G[B,K,J,D]", true, check_attention},
    {"accumulate", "x ~~X[n]", "y ~~G[n]", false, NULL},
    {"copy", "x ~~T[n]", "y ~~T[n]", false, NULL},
    {"fill", "", "y T[n]", false, NULL},
    {"sum_squares", "x G[n]", "y f64[1]", false, NULL},
    {"step_control", "totals f64[3] hyper f64[5]", "control f64[6]", false, NULL},
    {"adamw", "grad G[n] control f64[6]", "master G[n] m G[n] v G[n] param T[n]", true, NULL},
};

_Static_assert(LS_TOTALS == 3 && LS_HYPERS == 5 && LS_CONTROLS == 6, "the rows of step_control and adamw");

typedef struct operand {
    char name[16], type[8];
    bool optional, outer_strided, strided;
    int n; /* entries of dims */
    struct {
        char letter;  /* 0 for a number */
        int64_t size; /* of a number */
    } dims[LS_MAX_DIMS];
} operand;

typedef struct matching {
    const char *kernel;
    ls_dtype T;
    int64_t size[128]; /* of each letter; -1 while unknown */
} matching;

typedef struct view_text {
    char text[96];
} view_text;

static view_text print_view(const ls_view *view) {
    view_text out;
    size_t used = (size_t)snprintf(out.text, sizeof out.text, "%s[", ls_dtype_name(view->dtype));
    for (int d = 0; d < view->ndim; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)view->size[d]);
    snprintf(out.text + used, sizeof out.text - used, "]");
    return out;
}

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
    case 'C':
        return is_t || is_g || is == LS_F32;
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
    if (strcmp(type, "C") == 0) return "the kernel's type, its accumulator or f32";
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
                        print_view(view).text, type_words(o->type, m->T));
    const bool merges = !isupper((unsigned char)o->dims[0].letter);
    if (merges ? view->ndim < o->n - 1 : view->ndim != o->n)
        return ls_error(LS_INVALID, "kernel %s: %s is %s, expected %s%d dimensions", m->kernel, o->name,
                        print_view(view).text, merges ? "at least " : "", merges ? o->n - 1 : o->n);
    for (int i = 0; i < o->n; i++) {
        const int letter = (unsigned char)o->dims[i].letter;
        const int64_t is = size_at(o, view, i), expected = letter == 0 ? o->dims[i].size : m->size[letter];
        if (letter != 0 && expected < 0)
            m->size[letter] = is;
        else if (is != expected)
            return ls_error(LS_INVALID, "kernel %s: %s is %s: its %s is %lld, expected %lld", m->kernel,
                            o->name, print_view(view).text, i + 1 == o->n && i > 0 ? "last size" : "size",
                            (long long)is, (long long)expected);
    }
    if (!strides_fit(o, view))
        return ls_error(LS_INVALID, "kernel %s: %s is %s with gaps, expected dense%s", m->kernel, o->name,
                        print_view(view).text, o->outer_strided ? " rows" : "");
    return ls_ok();
}

static ls_status match_all(matching *m, const char *row, const char *side, const ls_view *views, int n) {
    operand o;
    int at = 0;
    for (const char *text = row; (text = next_operand(text, &o)) != NULL;) {
        if (at >= n && o.optional) continue;
        if (at >= n)
            return ls_error(LS_INVALID, "kernel %s: %d %ss, %s is missing", m->kernel, n, side, o.name);
        LS_TRY(match(m, &o, &views[at]));
        at++;
    }
    if (at != n) return ls_error(LS_INVALID, "kernel %s: %d %ss, expected %d", m->kernel, n, side, at);
    return ls_ok();
}

ls_status ls_kernel_check(const char *name, ls_dtype T, const ls_kernel_call *call) {
    for (size_t i = 0; i < LS_COUNT(signatures); i++) {
        const signature *s = &signatures[i];
        if (strcmp(s->name, name) != 0) continue;
        matching m = {.kernel = name, .T = T};
        for (size_t letter = 0; letter < LS_COUNT(m.size); letter++) m.size[letter] = -1;
        LS_TRY(match_all(&m, s->in, "input", call->in, call->n_in));
        LS_TRY(match_all(&m, s->out, "output", call->out, call->n_out));
        if (s->params && call->params == NULL)
            return ls_error(LS_INVALID, "kernel %s: params are missing", name);
        return s->further != NULL ? s->further(call) : ls_ok();
    }
    return ls_error(LS_INVALID, "kernel %s is not in the contract", name);
}

static ls_status check_activation(const ls_kernel_call *call) {
    const ls_activation_params *p = call->params;
    if ((unsigned)p->kind >= LS_ACTIVATIONS)
        return ls_error(LS_INVALID, "kernel activation: kind is %d, expected 0 to %d", (int)p->kind,
                        LS_ACTIVATIONS - 1);
    if (p->kind == LS_ACTIVATION_SOFTCAP && !(p->cap > 0))
        return ls_error(LS_INVALID, "kernel activation: softcap's cap is %g, expected a positive number",
                        p->cap);
    return ls_ok();
}

static ls_status check_taps(const char *name, int64_t in, int64_t out, int64_t taps) {
    if (in == out + taps - 1) return ls_ok();
    return ls_error(LS_INVALID, "kernel %s: %lld tokens for %lld and %lld taps, expected %lld", name,
                    (long long)in, (long long)out, (long long)taps, (long long)(out + taps - 1));
}

static ls_status check_conv(const ls_kernel_call *call) {
    return check_taps("conv", call->in[0].size[1], call->out[0].size[1], call->in[1].size[0]);
}

static ls_status check_conv_dw(const ls_kernel_call *call) {
    return check_taps("conv_dw", call->in[0].size[1], call->in[1].size[1], call->out[0].size[0]);
}

static ls_status check_matmul(const ls_kernel_call *call) {
    const ls_matmul_params *p = call->params;
    const ls_view A = ls_view_rows(call->in[0]), B = ls_view_rows(call->in[1]),
                  C = ls_view_rows(call->out[0]);
    const char *a_is = p->transpose_a ? " transposed" : "", *b_is = p->transpose_b ? " transposed" : "";
    const int64_t M = A.size[p->transpose_a], a_inner = A.size[!p->transpose_a];
    const int64_t N = B.size[!p->transpose_b], b_inner = B.size[p->transpose_b];
    if (a_inner != b_inner)
        return ls_error(LS_INVALID, "kernel matmul: A is %s%s, B is %s%s, inner sizes differ",
                        print_view(&A).text, a_is, print_view(&B).text, b_is);
    if (C.size[0] != M || C.size[1] != N)
        return ls_error(LS_INVALID, "kernel matmul: A is %s%s, B is %s%s, C is %s, expected [%lld,%lld]",
                        print_view(&A).text, a_is, print_view(&B).text, b_is, print_view(&C).text,
                        (long long)M, (long long)N);
    return ls_ok();
}

static ls_status check_attention(const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const int64_t query_heads = call->in[0].size[2], heads = call->in[1].size[2],
                  columns = call->in[3].size[2];
    if (columns < 2 || columns % 2 != 0)
        return ls_error(LS_INVALID, "kernel attention: spans have %lld columns, expected pairs",
                        (long long)columns);
    if (p->group < 1)
        return ls_error(LS_INVALID, "kernel attention: group is %d, expected at least 1", p->group);
    if (!(p->softcap >= 0))
        return ls_error(LS_INVALID, "kernel attention: softcap is %g, expected 0 or more", p->softcap);
    const int64_t first = p->first_q / p->group - p->first_kv;
    const int64_t last = (p->first_q + query_heads - 1) / p->group - p->first_kv;
    if (query_heads > 0 && (p->first_q < 0 || first < 0 || last >= heads))
        return ls_error(
            LS_INVALID,
            "kernel attention: query heads %d to %lld in groups of %d read key heads %lld to %lld of %lld",
            p->first_q, (long long)(p->first_q + query_heads - 1), p->group, (long long)first,
            (long long)last, (long long)heads);
    return ls_ok();
}

static ls_status check_even_head(const ls_kernel_call *call) {
    const ls_view *table = &call->out[0];
    const int64_t D = table->size[table->ndim - 1];
    if (D % 2 != 0)
        return ls_error(LS_INVALID, "kernel rope: head size is %lld, expected an even number", (long long)D);
    return ls_ok();
}
