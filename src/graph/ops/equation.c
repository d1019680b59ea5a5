/*
 * ls_einsum: brings an equation of letters to a normal form. A letter is of kind n (batched, in all three tensors), i
 * (rows, in a and the result), j (columns, in b and the result) or k (summed, in a and b). If one operand has no tokens
 * and no letter is in all three tensors, the result is a product of matrices; otherwise a contract for each token.
 * Operands are permuted and reshaped as needed.
 */
#include "graph/ops/contract_impl.h"

#include <string.h>

enum { A, B, RESULT, TENSORS };

typedef char letters[LS_MAX_DIMS + 1]; /* a text of letters */

typedef struct equation {
    const char *text;
    letters of[TENSORS];   /* of the operands and the result, as written */
    letters tokens;        /* those of the batch and the sequence */
    letters n, i, j, k;    /* the letters of each kind, in the order of the result; k in that of b */
    int64_t size[128];     /* by letter */
    ls_factor factor[128]; /* by letter */
} equation;

/* In every locale the letters of ASCII, which the tables by letter have room for. */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static bool has(const char *text, char letter) { return letter != 0 && strchr(text, letter) != NULL; }

static void append(char *text, char letter) {
    const size_t n = strlen(text);
    text[n] = letter;
    text[n + 1] = 0;
}

static const char *join(letters out, const char *a, const char *b, const char *c) {
    out[0] = 0;
    const char *const parts[] = {a, b, c};
    for (int p = 0; p < 3; p++)
        for (const char *l = parts[p]; *l != 0 && strlen(out) < LS_MAX_DIMS; l++) append(out, *l);
    return out;
}

static ls_status refused(const equation *e, const char *why) {
    return ls_error(LS_UNSUPPORTED, "op contract: \"%.40s\": %s", e->text, why);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static ls_status read_text(const char *text, equation *e) {
    *e = (equation){.text = text};
    int t = A;
    for (const char *c = text; *c != 0; c++) {
        if (*c == ',' && t == A) {
            t = B;
        } else if (*c == '-' && c[1] == '>' && t == B) {
            t = RESULT;
            c++;
        } else if (!is_letter(*c) || has(e->of[t], *c) || strlen(e->of[t]) == LS_MAX_DIMS) {
            return ls_error(LS_INVALID, "op contract: \"%.40s\", expected \"letters,letters->letters\", %s", text,
                            "each letter at most once in a tensor");
        } else {
            append(e->of[t], *c);
        }
    }
    return t == RESULT ? ls_ok() : ls_error(LS_INVALID, "op contract: \"%.40s\" has no result", text);
}

/* Reads the sizes of the letters of operand t; a letter must always have the same size and factor. */
static ls_status read_sizes(const ls_graph *g, ls_tensor x, int t, equation *e) {
    const ls_tensor_info *info = ls_graph_tensor(g, x);
    if ((int)strlen(e->of[t]) != info->shape.ndim)
        return ls_error(LS_INVALID, "op contract: \"%.40s\": \"%s\" has %d dimensions for %s", e->text, info->name,
                        info->shape.ndim, e->of[t]);
    if (info->dtype != g->dtype)
        return ls_error(LS_INVALID, "op contract: \"%s\" is %s, expected %s", info->name, ls_dtype_name(info->dtype),
                        ls_dtype_name(g->dtype));
    for (int d = 0; d < info->shape.ndim; d++) {
        const int letter = (unsigned char)e->of[t][d];
        const ls_dim dim = info->shape.dim[d];
        if (e->size[letter] == 0) {
            e->size[letter] = dim.size;
            e->factor[letter] = dim.factor;
        } else if (e->size[letter] != dim.size) {
            return ls_error(LS_INVALID, "op contract: \"%.40s\": %c is %lld and %lld", e->text, letter,
                            (long long)e->size[letter], (long long)dim.size);
        } else if (e->factor[letter] != dim.factor) {
            return refused(e, "tokens of one operand would meet what are no tokens of the other");
        }
    }
    return ls_ok();
}

/*
 * The batch and the sequence must come first, in the same order in all tensors that have them, and the result has them.
 */
static ls_status read_tokens(equation *e) {
    letters of[TENSORS] = {"", "", ""};
    for (int t = A; t < TENSORS; t++)
        for (const char *l = e->of[t]; *l != 0; l++) {
            if (e->factor[(int)*l] == LS_FACTOR_NONE) continue;
            if (strlen(of[t]) != (size_t)(l - e->of[t])) return refused(e, "batch and sequence must come first");
            append(of[t], *l);
        }
    if (of[A][0] != 0 && of[B][0] != 0 && strcmp(of[A], of[B]) != 0)
        return refused(e, "it would multiply different tokens");
    strcpy(e->tokens, of[A][0] != 0 ? of[A] : of[B]);
    return strcmp(of[RESULT], e->tokens) == 0 ? ls_ok()
                                              : refused(e, "it would sum over the batch or the sequence, or turn them");
}

static ls_status read_groups(equation *e) {
    for (const char *l = e->of[RESULT]; *l != 0; l++) {
        const bool in_a = has(e->of[A], *l), in_b = has(e->of[B], *l);
        if (!in_a && !in_b) return refused(e, "a letter of the result is in no operand");
        if (!has(e->tokens, *l)) append(in_a && in_b ? e->n : in_a ? e->i : e->j, *l);
    }
    for (const char *l = e->of[B]; *l != 0; l++)
        if (has(e->of[A], *l) && !has(e->of[RESULT], *l)) append(e->k, *l);
    for (int t = A; t <= B; t++)
        for (const char *l = e->of[t]; *l != 0; l++)
            if (!has(e->of[RESULT], *l) && !has(e->k, *l)) return refused(e, "a letter of one operand alone is lost");
    return ls_ok();
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

static int64_t elements(const equation *e, const char *of) {
    int64_t n = 1;
    for (const char *l = of; *l != 0; l++) n *= e->size[(int)*l];
    return n;
}

/* x, whose letters are `is`, permuted to the order of the letters `to`. */
static ls_tensor turn(ls_graph *g, ls_tensor x, const char *is, const char *to) {
    int order[LS_MAX_DIMS] = {0};
    for (int d = 0; to[d] != 0; d++) order[d] = (int)(strchr(is, to[d]) - is);
    return ls_permute_dims(g, x, order);
}

/*
 * x with other dimensions: one for each letter of `tokens` and of `apart`, then one for each text in `merged`, the
 * product of its letters. merged ends with NULL.
 */
static ls_tensor merge(ls_graph *g, const equation *e, ls_tensor x, const char *tokens, const char *apart,
                       const char *const *merged) {
    if (!ls_graph_usable(g, x, "ls_einsum")) return LS_NO_TENSOR;
    const ls_shape *is = &ls_graph_tensor(g, x)->shape;
    int64_t size[2 * LS_MAX_DIMS];
    int n = 0;
    for (const char *l = tokens; *l != 0; l++) size[n++] = e->size[(int)*l];
    for (const char *l = apart; *l != 0; l++) size[n++] = e->size[(int)*l];
    for (; *merged != NULL; merged++) size[n++] = elements(e, *merged);
    bool same = is->ndim == n;
    for (int d = 0; same && d < n; d++) same = is->dim[d].size == size[d];
    return same ? x : ls_reshape(g, x, n, size);
}

/* The letters of an operand without those of tokens. */
static const char *features(const equation *e, int t, letters out) {
    out[0] = 0;
    for (const char *l = e->of[t]; *l != 0; l++)
        if (!has(e->tokens, *l)) append(out, *l);
    return out;
}

/* Turns y with letters tokens, n, i, j into the result. */
static ls_tensor finish(ls_graph *g, const equation *e, ls_tensor y) {
    letters rest, all;
    join(all, e->tokens, join(rest, e->n, e->i, e->j), "");
    return turn(g, merge(g, e, y, all, "", (const char *const[]){NULL}), all, e->of[RESULT]);
}

/* The product if b is a matrix, or can be reshaped to one: [k,j], or [j,k]. */
static ls_tensor multiply(ls_graph *g, const equation *e, ls_tensor a, ls_tensor b) {
    letters order;
    a = turn(g, a, e->of[A], join(order, e->tokens, e->i, e->k));
    a = merge(g, e, a, e->tokens, e->i, (const char *const[]){e->k, NULL});
    const bool as_it_lies = strcmp(e->of[B], join(order, e->k, e->j, "")) == 0;
    if (as_it_lies)
        return finish(
            g, e,
            ls_linear_transposed(g, a, merge(g, e, b, "", "", (const char *const[]){e->k, e->j, NULL}), LS_NO_TENSOR));
    b = turn(g, b, e->of[B], join(order, e->j, e->k, ""));
    b = merge(g, e, b, "", "", (const char *const[]){e->j, e->k, NULL});
    return finish(g, e, ls_linear(g, a, b, LS_NO_TENSOR));
}

/* An operand as [tokens,n,first,second]; or as [tokens,n,second,first] if it already has this order. */
static ls_tensor normal(ls_graph *g, const equation *e, ls_tensor x, int t, const char *first, const char *second,
                        bool *transposed) {
    letters own, order, all;
    const char *tokens = has(e->of[t], e->tokens[0]) ? e->tokens : "";
    features(e, t, own);
    *transposed =
        strcmp(own, join(order, e->n, second, first)) == 0 && strcmp(own, join(order, e->n, first, second)) != 0;
    if (!*transposed) x = turn(g, x, e->of[t], join(all, tokens, join(order, e->n, first, second), ""));
    const char *const merged[] = {e->n, *transposed ? second : first, *transposed ? first : second, NULL};
    return merge(g, e, x, tokens, "", merged);
}

ls_tensor ls_einsum(ls_graph *g, const char *text, ls_tensor a, ls_tensor b) {
    equation e;
    if (!ls_graph_usable(g, a, "ls_einsum") || !ls_graph_usable(g, b, "ls_einsum")) return LS_NO_TENSOR;
    if (text == NULL) return ls_graph_fail(g, ls_error(LS_INVALID, "op contract: its equation is NULL"));
    ls_status status = read_text(text, &e);
    if (status.code == LS_OK) status = read_sizes(g, a, A, &e);
    if (status.code == LS_OK) status = read_sizes(g, b, B, &e);
    if (status.code == LS_OK) status = read_tokens(&e);
    const bool swaps = status.code == LS_OK && !has(e.of[A], e.tokens[0]) && has(e.of[B], e.tokens[0]);
    if (swaps) {
        letters first;
        strcpy(first, e.of[A]);
        strcpy(e.of[A], e.of[B]);
        strcpy(e.of[B], first);
    }
    if (status.code == LS_OK) status = read_groups(&e);
    if (status.code != LS_OK) return ls_graph_fail(g, status);
    const ls_tensor of_a = swaps ? b : a, of_b = swaps ? a : b;
    if (e.n[0] == 0 && !has(e.of[B], e.tokens[0])) return multiply(g, &e, of_a, of_b);
    bool transpose_a, transpose_b;
    const ls_tensor x = normal(g, &e, of_a, A, e.i, e.k, &transpose_a);
    const ls_tensor y = normal(g, &e, of_b, B, e.k, e.j, &transpose_b);
    return finish(g, &e, ls_contract_normal(g, x, transpose_a, y, transpose_b));
}
