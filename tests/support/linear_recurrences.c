#include "support/linear_recurrences.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/meshes.h"

enum { B = 2, S = 37, V = 9, EMBEDDING = 6, WIDTH = 4 };

/* Heads of keys and of values, the elements of each, and the rule. */
typedef struct form {
    int64_t K, H, D, E;
    enum { NONE, OF_HEADS, OF_ELEMENTS } decay;
    bool beta, delta, documents, unmasked;
} form;

static ls_tensor matrix(ls_graph *g, int layer, const char *name, int64_t rows) {
    return ls_parameter_named(g, 2, (int64_t[]){rows, EMBEDDING}, "%s %d", name, layer);
}

/* Of the type of states, between 0 and 2: of a gate, and minus that, of a decay. */
static ls_tensor gates(ls_graph *g, ls_tensor x, int layer, const char *name, int64_t n, double sign) {
    const ls_tensor raw = ls_linear(g, x, matrix(g, layer, name, n), LS_NO_TENSOR);
    const ls_map_step step[] = {
        {LS_MAP_SIGMOID, 0, 0, 0, 0}, {LS_MAP_NUMBER, 0, 0, 0, 2 * sign}, {LS_MAP_MUL, 1, 2, 0, 0}};
    const ls_expression expression = {.step = step, .n_steps = LS_COUNT(step), .wide = 1, .n_results = 1};
    return ls_map(g, &raw, 1, &expression);
}

static ls_tensor heads(ls_graph *g, ls_tensor x, int layer, const char *name, int64_t H, int64_t D, double scale) {
    const ls_tensor flat = ls_linear(g, x, matrix(g, layer, name, H * D), LS_NO_TENSOR);
    return ls_split_last(g, ls_softcap(g, flat, scale), H, D);
}

/* The reach of a convolution that layers begin with where there are documents. */
static ls_tensor layer_of(ls_graph *g, const form *f, ls_tensor places, ls_tensor reach, ls_tensor x, int layer) {
    ls_linear_state rule = {.delta = f->delta, .unmasked = f->unmasked};
    if (f->decay == OF_HEADS) rule.decay = gates(g, x, layer, "decay", f->H, -0.3);
    if (f->decay == OF_ELEMENTS)
        rule.decay = ls_split_last(g, gates(g, x, layer, "decay", f->H * f->D, -0.3), f->H, f->D);
    if (f->beta) rule.beta = gates(g, x, layer, "beta", f->H, 0.5);
    if (f->documents) {
        const ls_tensor taps = ls_parameter_named(g, 2, (int64_t[]){WIDTH, EMBEDDING}, "taps %d", layer);
        rule.places = places;
        const ls_tensor y =
            ls_conv_within(g, x, taps, &(ls_conv_form){.reach = reach, .last_first = layer > 0, .silu = layer > 0});
        x = layer > 0 ? y : ls_silu(g, y);
    }
    const ls_tensor q = heads(g, x, layer, "q", f->K, f->D, 1), k = heads(g, x, layer, "k", f->K, f->D, 0.4),
                    v = heads(g, x, layer, "v", f->H, f->E, 1);
    const ls_tensor o = ls_named(g, ls_linear_recurrence(g, q, k, v, &rule), "states %d", layer);
    const ls_tensor back = ls_parameter_named(g, 2, (int64_t[]){EMBEDDING, f->H * f->E}, "o %d", layer);
    return ls_add(g, x, ls_linear(g, ls_merge_last(g, o), back, LS_NO_TENSOR));
}

static ls_tensor network_of(ls_graph *g, const form *f) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), places = ls_input_like(g, "places", tokens);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "table", 2, (int64_t[]){V, EMBEDDING}));
    const ls_tensor reach = f->documents ? ls_conv_reach(g, places, WIDTH) : LS_NO_TENSOR;
    for (int layer = 0; layer < 2; layer++) x = layer_of(g, f, places, reach, x, layer);
    const ls_tensor logits = ls_linear_wide(g, x, ls_parameter(g, "head", 2, (int64_t[]){V, EMBEDDING}));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

/* name, heads of keys and of values, elements of both, decay, beta, delta, documents, unmasked */
#define FORMS(X)                                              \
    X(linear_attention, 2, 2, 5, 3, NONE, 0, 0, 0, 0)         \
    X(mamba, 1, 3, 4, 6, OF_HEADS, 1, 0, 0, 0)                \
    X(gated_attention, 3, 3, 4, 5, OF_ELEMENTS, 0, 0, 0, 0)   \
    X(delta, 2, 4, 4, 3, NONE, 1, 1, 0, 0)                    \
    X(gated_delta, 2, 6, 5, 4, OF_HEADS, 1, 1, 0, 0)          \
    X(delta_of_elements, 7, 7, 3, 2, OF_ELEMENTS, 1, 1, 0, 0) \
    X(packed_mamba, 2, 4, 4, 3, OF_HEADS, 0, 0, 1, 0)         \
    X(packed_delta, 2, 4, 4, 5, OF_ELEMENTS, 1, 1, 1, 0)      \
    X(unmasked, 2, 4, 4, 3, NONE, 1, 0, 0, 1)                 \
    X(packed_linear, 5, 5, 3, 4, NONE, 0, 0, 1, 0)            \
    X(packed_gated, 3, 6, 4, 2, OF_ELEMENTS, 1, 0, 1, 0)      \
    X(packed_plain_delta, 1, 1, 4, 6, NONE, 1, 1, 1, 0)       \
    X(packed_gated_delta, 1, 2, 6, 5, OF_HEADS, 1, 1, 1, 0)

#define BUILD(name, ...)                     \
    static ls_tensor name(ls_graph *g) {     \
        static const form f = {__VA_ARGS__}; \
        return network_of(g, &f);            \
    }
FORMS(BUILD)

#define ROW(name, ...) {#name, name, .ids = V},
const network linear_networks[] = {FORMS(ROW)};
const int n_linear_networks = (int)LS_COUNT(linear_networks);

const network *linear_network(const char *name) {
    int k = 0;
    while (strcmp(linear_networks[k].name, name) != 0) k++;
    return &linear_networks[k];
}

linear_bounds linear_bounds_of(const network *n, ls_dtype T) {
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    linear_bounds out;
    ls_status status = network_solve(n, &alone, LS_F64, T, &out.exact);
    if (status.code != LS_OK) fail_msg("%s: %s", n->name, status.text);
    out.n = out.exact.image->n_flats + 1;
    out.most = calloc((size_t)out.n, sizeof *out.most);
    status = network_own_errors(n, T, 1, &out.exact, out.most);
    if (status.code != LS_OK) fail_msg("%s: %s", n->name, status.text);
    for (int i = 0; i < out.n; i++)
        out.most[i] = T == LS_F32 ? fmax(1e-5, 2 * out.most[i]) : 2 * out.most[i] + ldexp(1, -9);
    return out;
}

void linear_bounds_check(const linear_bounds *bounds, const network_result *many, const char *what) {
    for (int i = 0; i < bounds->n; i++) {
        const double error = network_error_of_kind(many, &bounds->exact, i - 1);
        if (!(error <= bounds->most[i]))
            fail_msg("%s: result %d is off by %g, more than %g", what, i - 1, error, bounds->most[i]);
    }
}

void linear_bounds_free(linear_bounds *bounds) {
    free(bounds->most);
    network_free(&bounds->exact);
}
