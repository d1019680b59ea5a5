/*
 * Any calls of the public functions that build a graph fail, or return a tensor of the graph. The first error stays; a
 * graph without an error compiles for a few ranks or is refused. The input is a list of calls: a byte for the function,
 * then bytes that choose its arguments.
 */
#include "graph/graph.h"
#include "fuzz/fuzz.h"
#include "longspan/longspan.h"

#include <math.h>
#include <string.h>

enum { MOST_TENSORS = 64, MOST_CALLS = 200 };

/* The graph that is built, another graph, and the tensors of both. */
typedef struct building {
    fuzz_bytes rest;
    ls_graph *graph, *other;
    ls_tensor tensor[MOST_TENSORS];
    int n;
} building;

static const char *choose_name(building *b) {
    static const char *const names[] = {"tokens", "labels", "w", "x", "b.bias", "", "step", "\x1b[2J\n", "%s%n"};
    const uint8_t choice = fuzz_choice(&b->rest);
    return choice == 0xff ? NULL : names[choice % LS_COUNT(names)];
}

static int64_t choose_size(building *b) {
    static const int64_t sizes[] = {1, 2,  3,         4,         6,       8,         12,      16,
                                    0, -1, INT64_MAX, INT64_MIN, 1 << 20, INT32_MAX, 1 << 30, 5};
    return sizes[fuzz_choice(&b->rest) % LS_COUNT(sizes)];
}

static double choose_number(building *b) {
    static const double numbers[] = {1, 0, -1, 1e-6, 0.5, 1e300, 1e-300, NAN, INFINITY, -INFINITY, 10000, 30};
    return numbers[fuzz_choice(&b->rest) % LS_COUNT(numbers)];
}

static ls_tensor choose_tensor(building *b) {
    const uint8_t choice = fuzz_choice(&b->rest);
    if (choice >= 0xfe) return choice == 0xfe ? LS_NO_TENSOR : (ls_tensor){fuzz_choice(&b->rest), 0x12345};
    return b->n > 0 ? b->tensor[choice % b->n] : LS_NO_TENSOR;
}

static const int64_t *choose_sizes(building *b, int64_t out[8]) {
    for (int i = 0; i < 4; i++) out[i] = choose_size(b);
    return fuzz_choice(&b->rest) == 0xff ? NULL : out;
}

static const ls_mask *choose_mask(building *b, ls_mask *out) {
    static const int32_t ends[] = {0, 3, 8, 8, 16};
    const uint8_t choice = fuzz_choice(&b->rest);
    if (choice == 0xff) return NULL;
    *out = (ls_mask){.n = choice % 8 - 1};
    for (int i = 0; i < LS_MASK_TERMS; i++) {
        const uint8_t kind = fuzz_choice(&b->rest);
        ls_mask_term *term = &out->term[i];
        *term = (ls_mask_term){.kind = (ls_mask_kind)(kind % 6 - 1)};
        term->window = choose_size(b);
        term->first = choose_size(b);
        term->ends = kind & 64 ? NULL : ends;
        term->n_ends = kind & 32 ? 4 : 3;
    }
    return out;
}

/*
 * The arguments of a call. They are read before the call, because C does not define the order in which arguments are
 * evaluated.
 */
typedef struct arguments {
    ls_tensor x, y, z;
    const char *name;
    int64_t i, j;
    double u, v;
    ls_dtype dtype;
} arguments;

static arguments choose_arguments(building *b) {
    arguments a;
    a.x = choose_tensor(b);
    a.y = choose_tensor(b);
    a.z = choose_tensor(b);
    a.name = choose_name(b);
    a.i = choose_size(b);
    a.j = choose_size(b);
    a.u = choose_number(b);
    a.v = choose_number(b);
    a.dtype = (ls_dtype)(fuzz_choice(&b->rest) % 6 - 1);
    return a;
}

/* --- one function for each public function; some choose further arguments ----------------------------------------- */

#define CALL(name, call) \
    static ls_tensor name(building *b, ls_graph *g, const arguments *a) { return (void)b, (void)a, (call); }
CALL(tokens, ls_tokens(g, a->name, a->i, a->j))
CALL(input_like, ls_input_like(g, a->name, a->x))
CALL(parameter, ls_parameter(g, a->name, (int)a->i, choose_sizes(b, (int64_t[8]){0})))
CALL(parameter_named, ls_parameter_named(g, (int)a->i, choose_sizes(b, (int64_t[8]){0}), "p.%d", b->n))
CALL(named, ls_named(g, a->x, "%s", a->name != NULL ? a->name : "n"))
CALL(embedding, ls_embedding_padded(g, a->x, a->y, a->i))
CALL(linear, ls_linear(g, a->x, a->y, a->z))
CALL(linear_wide, ls_linear_wide(g, a->x, a->y))
CALL(linear_transposed, ls_linear_transposed(g, a->x, a->y, a->z))
CALL(rmsnorm, ls_rmsnorm_offset(g, a->x, a->y, a->u, a->v))
CALL(gated_norm, ls_gated_norm(g, a->x, a->y, a->z, a->u, a->i % 2 != 0))
CALL(layernorm, ls_layernorm(g, a->x, a->y, a->z, a->u))
CALL(rotate, ls_rotate(g, a->x, a->y))
CALL(lse, ls_attention_lse(g, a->x))
CALL(swiglu, ls_swiglu(g, a->x, a->y))
CALL(gelu, ls_gelu(g, a->x))
CALL(gelu_tanh, ls_gelu_tanh(g, a->x))
CALL(relu, ls_relu(g, a->x))
CALL(silu, ls_silu(g, a->x))
CALL(softcap, ls_softcap(g, a->x, a->u))
CALL(add, ls_add(g, a->x, a->y))
CALL(mul, ls_mul(g, a->x, a->y))
CALL(scale, ls_scale(g, a->x, a->u))
CALL(cast, ls_cast(g, a->x, a->dtype))
CALL(shift, ls_shift(g, a->x, a->i))
CALL(conv, ls_conv(g, a->x, a->y))
CALL(reshape, ls_reshape(g, a->x, (int)a->i, choose_sizes(b, (int64_t[8]){0})))
CALL(split_last, ls_split_last(g, a->x, a->i, a->j))
CALL(merge_last, ls_merge_last(g, a->x))
CALL(join, ls_join(g, 3, (const ls_tensor[]){a->x, a->y, a->z}))
CALL(cross_entropy, ls_cross_entropy(g, a->x, a->y))
CALL(sum, ls_sum(g, a->x))

static ls_tensor attend(building *b, ls_graph *g, const arguments *a) {
    ls_mask mask;
    const ls_tensor sink = choose_tensor(b);
    return ls_attention_with_sink(g, a->x, a->y, a->z, sink, choose_mask(b, &mask), a->u, a->v);
}

static ls_tensor rope(building *b, ls_graph *g, const arguments *a) {
    static const char *const scalings[] = {NULL, "linear", "dynamic", "yarn", "llama3", "none"};
    ls_rope r = {.theta = a->u, .factor = a->v};
    double *const numbers[] = {&r.low_factor, &r.high_factor, &r.original_length, &r.length, &r.attention_factor};
    r.scaling = scalings[fuzz_choice(&b->rest) % LS_COUNT(scalings)];
    for (size_t i = 0; i < LS_COUNT(numbers); i++) *numbers[i] = choose_number(b);
    return ls_rope_table(g, a->x, a->i, &r);
}

static ls_tensor split(building *b, ls_graph *g, const arguments *a) {
    ls_tensor part[3];
    int64_t size[8];
    ls_split(g, a->x, 3, choose_sizes(b, size), part);
    return part[fuzz_choice(&b->rest) % 3];
}

static ls_tensor (*const calls[])(building *b, ls_graph *g, const arguments *a) = {
    tokens,
    input_like,
    parameter,
    parameter_named,
    named,
    embedding,
    linear,
    linear_wide,
    linear_transposed,
    rmsnorm,
    gated_norm,
    layernorm,
    rope,
    rotate,
    attend,
    lse,
    swiglu,
    gelu,
    gelu_tanh,
    relu,
    silu,
    softcap,
    add,
    mul,
    scale,
    cast,
    shift,
    conv,
    reshape,
    split_last,
    merge_last,
    split,
    join,
    cross_entropy,
    sum,
};

static ls_tensor make_call(building *b) {
    ls_graph *g = fuzz_choice(&b->rest) == 0xff ? NULL : b->graph;
    const uint8_t op = fuzz_choice(&b->rest);
    const arguments a = choose_arguments(b);
    return calls[op % LS_COUNT(calls)](b, g, &a);
}

/* Small enough to be compiled many times a second. */
static bool is_small(const ls_graph *g) {
    int64_t elements = 0;
    for (int t = 1; t < g->n_tensors; t++) {
        const int64_t more = ls_shape_elements(&g->tensors[t].shape);
        if (more > 4096) return false;
        elements += more;
    }
    return elements < 1 << 16 && g->n_nodes < 40;
}

static void compile(const building *b, ls_tensor loss, uint8_t choice) {
    const ls_engine_options options = {.purpose = (ls_purpose)(choice % 3),
                                       .micro_batches = 1 + (choice >> 2) % 2,
                                       .spread = {.ranks = 1 + (choice >> 4) % 3, .threads = 1, .isa = "ref"}};
    ls_engine *engine = NULL;
    if (fuzz_done(ls_engine_open(b->graph, loss, &options, &engine))) {
        const ls_spread_result described = ls_engine_describe(engine);
        LS_ASSERT(described.predicted_bytes >= 0 && described.predicted_bytes < 1 << 30);
    }
    ls_engine_close(engine);
}

static void run(const uint8_t *data, size_t bytes) {
    static const ls_dtype types[] = {LS_F32, LS_F64, LS_BF16, LS_I32, (ls_dtype)77};
    building b = {.rest = {data, bytes}};
    b.graph = ls_graph_create(types[fuzz_choice(&b.rest) % LS_COUNT(types)]);
    const uint8_t choice = fuzz_choice(&b.rest);
    b.other = ls_graph_create(LS_F32);
    b.tensor[b.n++] = ls_tokens(b.other, "tokens", 1, 8);
    ls_tensor loss = LS_NO_TENSOR;
    for (int i = 0; i < MOST_CALLS && b.rest.n > 0 && b.n < MOST_TENSORS; i++) {
        const bool good = ls_graph_status(b.graph).code == LS_OK;
        const ls_tensor made = make_call(&b);
        LS_ASSERT(made.id == 0 || (good && ls_graph_has(b.graph, made)));
        if (made.id == 0) continue;
        b.tensor[b.n++] = loss = made;
    }
    if (fuzz_done(ls_graph_status(b.graph)) && is_small(b.graph)) compile(&b, loss, choice);
    ls_graph_destroy(b.graph);
    ls_graph_destroy(b.other);
}

const fuzz_target fuzz_graph = {.name = "graph", .run = run};
