/*
 * Every pair of operands that src/kernel/contracts.c allows in one place, for every kernel, instruction set and type
 * of this machine, and for CUDA's as compiled for this host (tests/cuda): the results have the bits of operands that
 * lie apart. Outputs are placed in all combinations of allowed places; inputs that may share an output also share one
 * array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cuda/table.h"
#include "support/kernel_call.h"

enum { OPERANDS = LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS, LABELS = 1003, IDS = 9, MOST = 61000 };

/*
 * Long enough for several parts, and no multiple of a vector; type: T, G as in kernel.h, L labels, I ids; of adamw C
 * control, U groups, S settings.
 */
typedef struct operand {
    char type;
    int ndim;
    int64_t size[3];
} operand;

typedef struct example {
    const char *name;
    const char *params;
    size_t params_bytes;
    int n_params; /* different ones to try */
    operand in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
} example;

static const ls_activation_params activations[] = {{LS_ACTIVATION_GELU, 0},
                                                   {LS_ACTIVATION_GELU_TANH, 0},
                                                   {LS_ACTIVATION_RELU, 0},
                                                   {LS_ACTIVATION_SILU, 0},
                                                   {LS_ACTIVATION_SOFTCAP, 5}};
static const ls_norm_params norms[] = {{.epsilon = 1e-5, .offset = 0.75}};
static const ls_gated_norm_params gated_norms[] = {{.epsilon = 1e-5}, {.epsilon = 1e-5, .gate_first = true}};
static const ls_rotate_params rotations[] = {{false}, {true}};
static const ls_noise_params noises[] = {{0.4}};
static const ls_cross_entropy_params entropies[] = {{0.9, 1e-3, 0.02}};
static const ls_scale_params factors[] = {{0.37}};
static const ls_adamw_params adamws[] = {{0.9, 0.95, 1e-8}};
static const ls_sgd_params sgds[] = {{0.9, false}, {0.8, true}};
static const ls_lion_params lions[] = {{0.9, 0.99}};
static const ls_descend_params descents[] = {{0.7}};
/* Of two results inputs as they are; and one result alone. */
static const ls_map_params sums[] = {{.n_in = 7,
                                      .n_steps = 6,
                                      .n_results = 4,
                                      .result = {12, 1, 8, 6},
                                      .step = {{LS_MAP_ADD, 0, 1, 0, 0},
                                               {LS_MAP_MUL, 7, 2, 0, 0},
                                               {LS_MAP_ADD, 8, 3, 0, 0},
                                               {LS_MAP_MUL, 9, 4, 0, 0},
                                               {LS_MAP_ADD, 10, 5, 0, 0},
                                               {LS_MAP_MUL, 11, 6, 0, 0}}}};
static const ls_map_params product[] = {
    {.n_in = 2, .n_steps = 1, .n_results = 1, .result = {2}, .step = {{LS_MAP_MUL, 0, 1, 0, 0}}}};
#define PARAMS(list) (const char *)(list), sizeof(list)[0], LS_COUNT(list)
#define NONE NULL, 0, 1

#define LONG(t)            \
    {                      \
        t, 1, { MOST - 9 } \
    }
#define SHORT(t)      \
    {                 \
        t, 1, { 777 } \
    }
#define UNITS(t)                      \
    {                                 \
        t, 1, { 1900 * LS_FLAT_UNIT } \
    }
#define ROWS(t)            \
    {                      \
        t, 2, { 150, 301 } \
    }
#define ROW(t)        \
    {                 \
        t, 1, { 301 } \
    }
#define COLUMN(t)     \
    {                 \
        t, 1, { 150 } \
    }

static const example examples[] = {
    {"add", NONE, {LONG('T'), LONG('T')}, {LONG('T')}},
    {"mul", NONE, {LONG('T'), LONG('T')}, {LONG('T')}},
    {"scale", PARAMS(factors), {LONG('T')}, {LONG('T')}},
    {"scale_by", NONE, {LONG('T'), {'G', 1, {1}}}, {LONG('T')}},
    {"rmsnorm", PARAMS(norms), {ROWS('T'), ROW('T')}, {ROWS('T'), COLUMN('G')}},
    {"rmsnorm_grad", PARAMS(norms), {ROWS('T'), ROW('T'), COLUMN('G'), ROWS('T')}, {ROWS('T'), ROW('G')}},
    {"gated_norm", PARAMS(gated_norms), {ROWS('T'), ROW('T'), ROWS('T')}, {ROWS('T')}},
    {"gated_norm_grad",
     PARAMS(gated_norms),
     {ROWS('T'), ROW('T'), ROWS('T'), ROWS('T')},
     {ROWS('T'), ROW('G'), ROWS('T')}},
    {"layernorm", PARAMS(norms), {ROWS('T'), ROW('T'), ROW('T')}, {ROWS('T'), COLUMN('G'), COLUMN('G')}},
    {"layernorm_grad", NONE, {ROWS('T'), ROW('T'), COLUMN('G'), COLUMN('G'), ROWS('T')}, {ROWS('T'), ROW('G')}},
    {"rotate", PARAMS(rotations), {{'T', 3, {190, 3, 70}}, {'G', 2, {190, 70}}}, {{'T', 3, {190, 3, 70}}}},
    {"swiglu", NONE, {LONG('T'), LONG('T')}, {LONG('T')}},
    {"swiglu_grad", NONE, {LONG('T'), LONG('T'), LONG('T')}, {LONG('T'), LONG('T')}},
    {"activation", PARAMS(activations), {LONG('T')}, {LONG('T')}},
    {"activation_grad", PARAMS(activations), {LONG('T'), LONG('T')}, {LONG('T')}},
    {"cross_entropy_grad",
     NONE,
     {{'T', 2, {60, LABELS}}, {'L', 1, {60}}, {'G', 1, {60}}, {'G', 1, {60}}},
     {{'T', 2, {60, LABELS}}}},
    {"noise", PARAMS(noises), {ROWS('T'), {'L', 1, {150}}}, {ROWS('T')}},
    {"cross_entropy_grad",
     PARAMS(entropies),
     {{'G', 2, {60, LABELS}}, {'L', 1, {60}}, {'G', 1, {60}}, {'G', 1, {60}}},
     {{'T', 2, {60, LABELS}}}},
    {"cross_entropy_grad", /* logits wider than their gradient under bf16 */
     NONE,
     {{'G', 2, {60, LABELS}}, {'L', 1, {60}}, {'G', 1, {60}}, {'G', 1, {60}}},
     {{'T', 2, {60, LABELS}}}},
    {"cross_entropy_grad", /* the same of long rows */
     NONE,
     {{'G', 2, {9, 5 * LABELS}}, {'L', 1, {9}}, {'G', 1, {9}}, {'G', 1, {9}}},
     {{'T', 2, {9, 5 * LABELS}}}},
    {"adamw",
     PARAMS(adamws),
     {UNITS('G'), {'C', 1, {LS_CONTROLS}}, {'U', 1, {1900}}, {'S', 2, {2, 2}}},
     {UNITS('G'), UNITS('G'), UNITS('G'), UNITS('T')}},
    {"sgd",
     PARAMS(sgds),
     {UNITS('G'), {'C', 1, {LS_CONTROLS}}, {'U', 1, {1900}}, {'S', 2, {2, 2}}},
     {UNITS('G'), UNITS('G'), UNITS('T')}},
    {"lion",
     PARAMS(lions),
     {UNITS('G'), {'C', 1, {LS_CONTROLS}}, {'U', 1, {1900}}, {'S', 2, {2, 2}}},
     {UNITS('G'), UNITS('G'), UNITS('T')}},
    {"descend",
     PARAMS(descents),
     {UNITS('T'), {'C', 1, {LS_CONTROLS}}, {'U', 1, {1900}}, {'S', 2, {2, 2}}},
     {UNITS('G'), UNITS('T')}},
    {"normalize", NONE, {LONG('T')}, {LONG('T')}},
    {"softmax", NONE, {ROWS('T')}, {ROWS('T')}},
    {"softmax_grad", NONE, {ROWS('T'), ROWS('T')}, {ROWS('T')}},
    {"map",
     PARAMS(sums),
     {SHORT('T'), SHORT('T'), SHORT('T'), SHORT('T'), SHORT('T'), SHORT('T'), SHORT('T')},
     {SHORT('T'), SHORT('T'), SHORT('T'), SHORT('T')}},
    {"map", PARAMS(product), {LONG('T'), LONG('T')}, {LONG('T')}},
    {"scale_rows", NONE, {{'I', 1, {150}}, ROWS('T'), {'T', 2, {IDS, 301}}}, {ROWS('T')}},
};

static const operand *operand_at(const example *e, int i) {
    return i < LS_KERNEL_INPUTS ? &e->in[i] : &e->out[i - LS_KERNEL_INPUTS];
}

static ls_dtype dtype_of(const operand *o, ls_dtype T) {
    if (o->type == 'L' || o->type == 'U' || o->type == 'I') return LS_I32;
    if (o->type == 'C' || o->type == 'S') return LS_F64;
    return o->type == 'G' ? ls_dtype_accumulator(T) : T;
}

static int64_t count_of(const operand *o) {
    int64_t n = 1;
    for (int d = 0; d < o->ndim; d++) n *= o->size[d];
    return n;
}

static void fill(void *data, const operand *o, ls_dtype dtype, uint64_t stream) {
    static const double control[LS_CONTROLS] = {1, 0.7, 1e-2, 0.271, 0.0297, 3};
    for (int64_t i = 0, n = count_of(o); i < n; i++) {
        const double x = (double)(((uint64_t)i + 40013 * stream) * 2654435761u % 2003) / 400 - 2.5;
        if (o->type == 'L')
            ((int32_t *)data)[i] = i % 5 == 3 ? -100 : (int32_t)(i * 89 % LABELS);
        else if (o->type == 'I')
            ((int32_t *)data)[i] = i % 5 == 3 ? LS_ID_ELSEWHERE : (int32_t)(i * 89 % IDS);
        else if (o->type == 'C')
            ((double *)data)[i] = control[i];
        else if (o->type == 'U') /* every unit is updated: one that is not would keep what lies in either place */
            ((int32_t *)data)[i] = (int32_t)(i / 3 % 2);
        else if (o->type == 'S')
            ((double *)data)[i] = 1 - 0.3 * (double)i;
        else if (dtype == LS_F64)
            ((double *)data)[i] = x * x;
        else if (dtype == LS_F32)
            ((float *)data)[i] = (float)(o->type == 'G' ? x * x : x); /* v of adamw and rstd are positive */
        else
            ((ls_bf16 *)data)[i] = ls_bf16_from_f32((float)x);
    }
}

/* Where each operand lies: place[i] == i in an array of its own, else in that operand's. */
static void run_placed(const ls_kernel *kernel, const example *e, int param, int threads, const int *place,
                       char **arrays) {
    ls_kernel_call call = {.threads = threads,
                           .params = e->params != NULL ? e->params + (size_t)param * e->params_bytes : NULL};
    for (int i = OPERANDS - 1; i >= 0; i--) { /* inputs last: they are what lies there at first */
        const operand *o = operand_at(e, i);
        if (o->type != 0) fill(arrays[place[i]], o, dtype_of(o, kernel->dtype), (uint64_t)place[i]);
    }
    for (int i = 0; i < OPERANDS; i++) {
        const operand *o = operand_at(e, i);
        if (o->type == 0) continue;
        const ls_view view = ls_view_dense(arrays[place[i]], dtype_of(o, kernel->dtype), o->ndim, o->size);
        if (i < LS_KERNEL_INPUTS)
            call.in[call.n_in++] = view;
        else
            call.out[call.n_out++] = view;
    }
    call_kernel_on(kernel, threads, call);
}

/* Both ways: with outputs in place, and with the same inputs in one array but outputs apart. */
static void compare(const ls_kernel *kernel, const example *e, const int *place, const int *apart) {
    char *arrays[2][OPERANDS];
    for (int i = 0; i < OPERANDS; i++) arrays[0][i] = malloc(8 * MOST), arrays[1][i] = malloc(8 * MOST);
    for (int param = 0; param < e->n_params; param++) {
        const int threads = 1 + param % 3 + (param == e->n_params - 1);
        run_placed(kernel, e, param, threads, apart, arrays[0]);
        run_placed(kernel, e, param, threads, place, arrays[1]);
        for (int i = LS_KERNEL_INPUTS; i < OPERANDS; i++) {
            const operand *o = operand_at(e, i);
            const size_t bytes = (size_t)count_of(o) * ls_dtype_bytes(dtype_of(o, kernel->dtype));
            if (o->type != 0 && memcmp(arrays[0][i], arrays[1][place[i]], bytes) != 0)
                fail_msg("%s, %s, isa %s, %d threads: output %d in the place of operand %d differs", e->name,
                         ls_dtype_name(kernel->dtype), kernel_isa_name(kernel), threads, i - LS_KERNEL_INPUTS,
                         place[i]);
        }
    }
    for (int i = 0; i < OPERANDS; i++) free(arrays[0][i]), free(arrays[1][i]);
}

static bool allowed(const ls_kernel *kernel, const example *e, int output, int other) {
    const size_t written = ls_dtype_bytes(dtype_of(&e->out[output], kernel->dtype));
    const size_t there = ls_dtype_bytes(dtype_of(operand_at(e, other), kernel->dtype));
    return written <= there && ls_kernel_works_in_place(kernel->id, output, other, written < there);
}

/* Outputs from `output` on, in all combinations of places that nobody else has taken. */
static int place_outputs(const ls_kernel *kernel, const example *e, int output, int *place) {
    int apart[OPERANDS], pairs = 0;
    if (output == LS_KERNEL_OUTPUTS || e->out[output].type == 0) {
        for (int i = 0; i < OPERANDS; i++) apart[i] = i < LS_KERNEL_INPUTS ? place[i] : i;
        compare(kernel, e, place, apart);
        return 0;
    }
    const int self = LS_KERNEL_INPUTS + output;
    place[self] = self;
    pairs += place_outputs(kernel, e, output + 1, place);
    for (int other = 0; other < OPERANDS; other++) {
        bool free_there = operand_at(e, other)->type != 0 && allowed(kernel, e, output, other);
        for (int k = 0; k < output; k++) free_there &= place[LS_KERNEL_INPUTS + k] != other;
        if (!free_there) continue;
        place[self] = other;
        pairs += 1 + place_outputs(kernel, e, output + 1, place);
    }
    place[self] = self;
    return pairs;
}

/* Inputs that the first output may overwrite all in one array, and the output there. */
static void place_on_equal_inputs(const ls_kernel *kernel, const example *e) {
    int place[OPERANDS], apart[OPERANDS], first = -1, equal = 0;
    for (int i = 0; i < OPERANDS; i++) place[i] = i;
    for (int i = 0; i < LS_KERNEL_INPUTS; i++) {
        if (e->in[i].type == 0 || !allowed(kernel, e, 0, i)) continue;
        first = first < 0 ? i : first;
        place[i] = first;
        equal++;
    }
    if (equal < 2) return;
    memcpy(apart, place, sizeof apart);
    place[LS_KERNEL_INPUTS] = first;
    compare(kernel, e, place, apart);
}

static bool works_in_place(ls_kernel_id kernel) {
    bool any = false;
    for (int k = 0; k < LS_KERNEL_OUTPUTS; k++)
        for (int i = 0; i < OPERANDS; i++) any |= ls_kernel_works_in_place(kernel, k, i, false);
    return any;
}

/* Tries all pairs of a kernel, and returns how many. */
static int try_pairs(const ls_kernel *kernel) {
    int place[OPERANDS], found = 0, pairs = 0;
    for (int k = 0; k < OPERANDS; k++) place[k] = k;
    for (const example *e = examples; e < examples + LS_COUNT(examples); e++) {
        if (strcmp(e->name, ls_kernel_name(kernel)) != 0) continue;
        pairs += place_outputs(kernel, e, 0, place);
        place_on_equal_inputs(kernel, e);
        found++;
    }
    if (found == 0) fail_msg("kernel %s works in place and has no example here", ls_kernel_name(kernel));
    return pairs;
}

static void every_pair_gives_the_same_bits(void **state) {
    (void)state;
    int kernels = 0, pairs = 0;
    const ls_kernel *kernel;
    for (int i = 0; (kernel = ls_kernel_at(i)) != NULL; i++) {
        if (!kernel_runs_here(kernel) || !works_in_place(kernel->id)) continue;
        pairs += try_pairs(kernel);
        kernels++;
    }
    print_message("%d kernels, %d pairs in place\n", kernels, pairs);
    assert_true(kernels >= (int)LS_COUNT(examples) && pairs > kernels);
}

/* The kernels of src/kernel/cuda, compiled for this host (tests/cuda). */
static void every_pair_on_cuda(void **state) {
    (void)state;
    int kernels = 0, pairs = 0;
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++) {
        if (!works_in_place((*row)->id)) continue;
        pairs += try_pairs(*row);
        kernels++;
    }
    assert_true(kernels > 0 && pairs > kernels);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair_gives_the_same_bits),
                                       cmocka_unit_test(every_pair_on_cuda)};
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
