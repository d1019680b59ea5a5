/*
 * The addresses of src/kernel/cuda, compiled for this host (tests/cuda), where operands have more than 2^32 elements,
 * as those of a sequence of a million tokens do. Operands are ranges of addresses without memory behind them, far
 * apart; of each grid only the first and the last block is executed (EMULATED_BLOCKS), and the libraries that stand in
 * for NVIDIA's read and write the ends of what is described to them. So each operand must be accessed where it begins
 * and where it ends, and nothing beside one: an offset that was cut off to 32 bits does neither. Each call is a
 * process.
 */
#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/fake/load.h"
#include "cuda/far_planted.h"
#include "kernel/cuda/table.h"

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* Tokens of 4,096 elements, of which 15/16 are more than 2^32 (NEAR). */
#define TOKENS ((int64_t)1200008)
#define WIDTH ((int64_t)4096)
#define ELEMENTS (TOKENS * WIDTH)
/* Two of these are as many. */
#define LONG_ROW (ELEMENTS / 2)

enum { LETTERS = 10, OPERANDS = LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS };
#define IN(i) (1U << (i))
#define OUT(i) (1U << (LS_KERNEL_INPUTS + (i)))

/* The sizes of a contract's letters (contracts.c) in a call, in their order. */
typedef struct sizes {
    ls_kernel_id of;
    const char *letters;
    int64_t size[LETTERS];
    const void *params;
    int64_t last;   /* number in operands of i32: 0 before, this one at the end */
    unsigned apart; /* operands of which only neighbouring elements of blocks that are left out lead to an end */
    bool wide;      /* operands that may have the kernel's type or its accumulator's have this one */
    bool turned;    /* input 0 is a matrix of WIDTH rows that lies transposed */
    bool more;      /* any block may have what lies near an end: many of them are executed */
} sizes;

static const ls_norm_params norm = {.epsilon = 1e-5};
static const ls_gated_norm_params gate_first = {.epsilon = 1e-5, .gate_first = true};
static const ls_noise_params noisy = {.amplitude = 0.5};
static const ls_embedding_params embedding = {.padding = -1};
static const ls_activation_params gelu = {.kind = LS_ACTIVATION_GELU};
static const ls_rope_params rope = {.theta = 10000};
static const ls_rotate_params rotate;
static const ls_conv_params conv;
static const ls_recurrence_params forwards, backwards = {.backwards = true};
static const ls_linear_recurrence_params added, delta = {.delta = true};
static const ls_map_params sigmoid = {
    .n_in = 1, .n_steps = 1, .n_results = 1, .result = {1}, .step = {{LS_MAP_SIGMOID, 0, 0, 0, 0}}};
static const ls_reduce_max_params to_first;
static const ls_contract_params products;
static const ls_scale_params twice = {.factor = 2};
static const ls_exact_params numbers, squares = {.squares = true};
static const ls_adamw_params adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
static const ls_sgd_params sgd = {.momentum = 0.9};
static const ls_lion_params lion = {.beta1 = 0.9, .beta2 = 0.99};
static const ls_momentum_params momentum = {.momentum = 0.9};
static const ls_descend_params descend = {.factor = 1};
static const ls_combine_params combine = {.a = 1, .b = 1};
static const ls_matmul_params plain, a_turned = {.transpose_a = true}, b_turned = {.transpose_b = true};
static const ls_attention_params each = {.scale = 0.1,
                                         .group = 1,
                                         .accumulate_dq = true,
                                         .band = {true, 1 - TOKENS, 0}},
                                 shared = {.scale = 0.1, .group = 4, .merge = true, .band = {true, 1 - TOKENS, 0}},
                                 windows = {.scale = 0.1, .group = 1, .softcap = 30};

#define OF_ELEMENTS(id, p) \
    { .of = LS_KERNEL_##id, .letters = "n", .size = {ELEMENTS + 5}, .params = p }
#define OF_UPDATE(id, p, unused)                                                                             \
    {                                                                                                        \
        .of = LS_KERNEL_##id, .letters = "nuK", .size = {ELEMENTS, ELEMENTS / LS_FLAT_UNIT, 1}, .params = p, \
        .apart = unused                                                                                      \
    }
#define OF_ROWS(id, names, p) \
    { .of = LS_KERNEL_##id, .letters = names, .size = {TOKENS, WIDTH}, .params = p }

/* Of a token of each of many sequences: a state has as many elements as a row elsewhere. None has places. */
#define OF_STATES(id, Z, unused)                                                                      \
    {                                                                                                 \
        .of = LS_KERNEL_##id, .letters = "BNKDHEACXZ", .size = {TOKENS, 1, 1, 64, 1, 64, 1, 1, 0, Z}, \
        .params = &delta, .apart = unused                                                             \
    }

static const sizes cases[] = {
    OF_ELEMENTS(ADD, NULL),
    OF_ELEMENTS(MUL, NULL),
    OF_ELEMENTS(SCALE, &twice),
    OF_ELEMENTS(SCALE_BY, NULL),
    OF_ELEMENTS(COMBINE, &combine),
    OF_ELEMENTS(MAP, &sigmoid),
    {.of = LS_KERNEL_MAP, .letters = "n", .size = {ELEMENTS}, .params = &sigmoid}, /* in groups */
    OF_ELEMENTS(ACTIVATION, &gelu),
    OF_ELEMENTS(ACTIVATION_GRAD, &gelu),
    OF_ELEMENTS(SWIGLU, NULL),
    OF_ELEMENTS(SWIGLU_GRAD, NULL),
    OF_ELEMENTS(COPY, NULL),
    OF_ELEMENTS(CAST, NULL),
    OF_ELEMENTS(ACCUMULATE, NULL),
    {.of = LS_KERNEL_COPY, .letters = "n", .size = {ELEMENTS}, .turned = true},
    {.of = LS_KERNEL_CAST, .letters = "n", .size = {ELEMENTS}, .turned = true},
    {.of = LS_KERNEL_ACCUMULATE, .letters = "n", .size = {ELEMENTS}, .turned = true},
    OF_ELEMENTS(FILL, NULL),
    OF_ELEMENTS(OFFLOAD, NULL),
    OF_ELEMENTS(FETCH, NULL),
    OF_ELEMENTS(SUM, NULL),
    OF_ELEMENTS(SUM_SQUARES, NULL),
    OF_ELEMENTS(NORMALIZE, NULL),
    OF_ELEMENTS(EXACT_SUM, &numbers),
    OF_ELEMENTS(EXACT_SUM, &squares),
    {.of = LS_KERNEL_EXACT_VALUE, .letters = "N", .size = {1 << 26}},
    {.of = LS_KERNEL_STEP_CONTROL},
    OF_UPDATE(ADAMW, &adamw, 0),
    OF_UPDATE(SGD, &sgd, 0),
    OF_UPDATE(LION, &lion, 0),
    OF_UPDATE(MOMENTUM, &momentum, IN(3)), /* it needs no settings */
    OF_UPDATE(DESCEND, &descend, 0),
    {.of = LS_KERNEL_REDUCE, .letters = "ORI", .size = {TOKENS, WIDTH, 1}},
    {.of = LS_KERNEL_REDUCE, .letters = "ORI", .size = {TOKENS, WIDTH, 1}, .wide = true},
    {.of = LS_KERNEL_REDUCE, .letters = "ORI", .size = {2, TOKENS / 2, WIDTH}},
    {.of = LS_KERNEL_REDUCE_MAX, .letters = "ORI", .size = {TOKENS, WIDTH, 1}},
    {.of = LS_KERNEL_REDUCE_MAX, .letters = "ORI", .size = {TOKENS / 2, 2, WIDTH}},
    {.of = LS_KERNEL_REDUCE_MAX_GRAD, .letters = "ORI", .size = {TOKENS / 2, 2, WIDTH}, .params = &to_first},
    OF_ROWS(SOFTMAX, "nK", NULL),
    OF_ROWS(SOFTMAX_GRAD, "nK", NULL),
    {.of = LS_KERNEL_TAKE_ALONG, .letters = "nKJ", .size = {TOKENS, WIDTH, WIDTH}, .last = WIDTH - 1},
    {.of = LS_KERNEL_TAKE_ALONG_GRAD, .letters = "nJK", .size = {TOKENS, WIDTH, WIDTH}, .last = WIDTH - 1},
    {.of = LS_KERNEL_TOPK, .letters = "nKJ", .size = {TOKENS, WIDTH, 2}},
    {.of = LS_KERNEL_CONTRACT, .letters = "MNIKLJ", .size = {1, TOKENS, 64, 64, 1, 64}, .params = &products},
    {.of = LS_KERNEL_NOISE, .letters = "nE", .size = {TOKENS, WIDTH}, .params = &noisy, .last = TOKENS - 1},
    OF_ROWS(COLUMN_SUM, "nN", NULL),
    OF_ROWS(RMSNORM, "nE", &norm),
    OF_ROWS(RMSNORM_GRAD, "nE", &norm),
    {.of = LS_KERNEL_GATED_NORM, .letters = "nEg", .size = {TOKENS, WIDTH, 8}, .params = &gate_first},
    {.of = LS_KERNEL_GATED_NORM_GRAD, .letters = "nEg", .size = {TOKENS, WIDTH, 1}, .params = &gate_first},
    OF_ROWS(LAYERNORM, "nE", &norm),
    OF_ROWS(LAYERNORM_GRAD, "nE", &norm),
    {.of = LS_KERNEL_ADD_ROWS, .letters = "NM", .size = {2, LONG_ROW}},
    {.of = LS_KERNEL_ROPE_TABLE, .letters = "nD", .size = {32 * TOKENS, 128}, .params = &rope},
    {.of = LS_KERNEL_ROTATE, .letters = "nHD", .size = {TOKENS, 32, 128}, .params = &rotate},
    {.of = LS_KERNEL_CONV,
     .letters = "BMERNX",
     .size = {1, TOKENS + 3, WIDTH, 4, TOKENS, 0},
     .params = &conv,
     .apart = IN(2)},
    {.of = LS_KERNEL_CONV_SILU_GRAD,
     .letters = "BMERNX",
     .size = {1, TOKENS + 3, WIDTH, 4, TOKENS, 0},
     .params = &conv,
     .apart = IN(3)},
    {.of = LS_KERNEL_CONV_DW,
     .letters = "BMENRX",
     .size = {1, TOKENS + 3, WIDTH, TOKENS, 4, 0},
     .params = &conv,
     .apart = IN(2)},
    {.of = LS_KERNEL_RECURRENCE, .letters = "BNKE", .size = {1, TOKENS, 1, WIDTH}, .params = &forwards},
    {.of = LS_KERNEL_RECURRENCE, .letters = "BNKE", .size = {1, TOKENS, 1, WIDTH}, .params = &backwards},
    {.of = LS_KERNEL_RECURRENCE, .letters = "BNKE", .size = {1, TOKENS, 2, WIDTH / 2}, .params = &backwards},
    {.of = LS_KERNEL_RECURRENCE_MAP, .letters = "BNKEJ", .size = {1, TOKENS, 1, WIDTH, 2}, .params = &forwards},
    {.of = LS_KERNEL_RECURRENCE_FOLLOW, .letters = "MJBKE", .size = {2, 2, 1, 1, LONG_ROW}, .params = &forwards},
    OF_STATES(LINEAR_RECURRENCE, 0, IN(5)),
    OF_STATES(LINEAR_RECURRENCE_GRAD, 0, IN(5) | OUT(0) | OUT(1) | OUT(3) | OUT(4)),
    OF_STATES(LINEAR_RECURRENCE_MAP, 2 * WIDTH, IN(1) | IN(4)),
    OF_STATES(LINEAR_RECURRENCE_BACK, 2 * WIDTH, IN(4) | IN(5)),
    {.of = LS_KERNEL_LINEAR_RECURRENCE_FOLLOW,
     .letters = "MBHZDE",
     .size = {2, TOKENS, 1, WIDTH + 1, 64, 64},
     .params = &added},
    {.of = LS_KERNEL_LOCAL_IDS, .letters = "n", .size = {ELEMENTS}, .params = &embedding},
    {.of = LS_KERNEL_EMBEDDING, .letters = "nVE", .size = {TOKENS, TOKENS, WIDTH}, .last = TOKENS - 1, .more = true},
    /* Tokens are sorted by blocks that are left out, and those of zeros are all the first. */
    {.of = LS_KERNEL_EMBEDDING_GRAD,
     .letters = "nEV",
     .size = {TOKENS, WIDTH, TOKENS},
     .params = &embedding,
     .last = TOKENS - 1,
     .apart = IN(1) | OUT(0)},
    {.of = LS_KERNEL_EMBEDDING_GRAD, .letters = "nEV", .size = {3, LONG_ROW, 3}, .params = &embedding, .last = 2},
    {.of = LS_KERNEL_DEAL_ROWS, .letters = "nEMR", .size = {TOKENS, WIDTH, 1 + TOKENS, TOKENS}, .more = true},
    {.of = LS_KERNEL_COLLECT_ROWS, .letters = "nRE", .size = {TOKENS, TOKENS, WIDTH}, .more = true},
    {.of = LS_KERNEL_SCALE_ROWS, .letters = "nEV", .size = {TOKENS, WIDTH, TOKENS}, .last = TOKENS - 1, .more = true},
    {.of = LS_KERNEL_CROSS_ENTROPY, .letters = "nV", .size = {TOKENS, 128256}, .last = 128255},
    {.of = LS_KERNEL_CROSS_ENTROPY, .letters = "nV", .size = {TOKENS, 128256}, .last = 128255, .wide = true},
    {.of = LS_KERNEL_CROSS_ENTROPY_MERGE, .letters = "PN", .size = {2, ELEMENTS / 4}},
    {.of = LS_KERNEL_CROSS_ENTROPY_GRAD, .letters = "nV", .size = {TOKENS, 128256}, .last = 128255},
    {.of = LS_KERNEL_CROSS_ENTROPY_GRAD, .letters = "nV", .size = {TOKENS, 128256}, .last = 128255, .wide = true},
    {.of = LS_KERNEL_CACHE_WRITE,
     .letters = "BMHDK",
     .size = {1, TOKENS, 32, 128, TOKENS},
     .last = TOKENS - 1,
     .more = true},
    {.of = LS_KERNEL_ATTENTION_SINK, .letters = "HBND", .size = {32, 1, TOKENS, 128}},
    {.of = LS_KERNEL_ATTENTION_SINK_GRAD, .letters = "HBN", .size = {TOKENS, 1, WIDTH}},
    {.of = LS_KERNEL_ATTENTION_MERGE, .letters = "BNHD", .size = {1, TOKENS, 32, 128}},
    {.of = LS_KERNEL_ATTENTION_DELTA, .letters = "BNHD", .size = {1, TOKENS, 32, 128}},
#define FEW (TOKENS / 32) /* tokens of as many elements */
#define ATTENTION_CASE(id, tokens, heads, kv_heads, head, what)                                                   \
    {                                                                                                             \
        .of = LS_KERNEL_##id, .letters = "BNHDEKJW", .size = {1, tokens, heads, head, head, tokens, kv_heads, 2}, \
        .params = &(what), .last = TOKENS - 1                                                                     \
    }
    ATTENTION_CASE(ATTENTION, TOKENS, 32, 32, 128, each),
    ATTENTION_CASE(ATTENTION, FEW, 1024, 256, 128, shared),
    ATTENTION_CASE(ATTENTION, FEW, 512, 512, 256, windows),
    ATTENTION_CASE(ATTENTION_GRAD, TOKENS, 32, 32, 128, each),
    ATTENTION_CASE(ATTENTION_GRAD, FEW, 1024, 256, 128, shared),
    ATTENTION_CASE(ATTENTION_GRAD, FEW, 512, 512, 256, windows),
#define SCORES(id, queries, keys, heads, head) \
    { .of = LS_KERNEL_##id, .letters = "BNKHJDW", .size = {1, queries, keys, heads, heads, head, 2}, .params = &each }
#define SCORES_OF(id) SCORES(id, FEW, 128, 1024, 128), SCORES(id, 128, FEW, 1024, 128), SCORES(id, 69000, 71000, 1, 64)
    SCORES_OF(ATTENTION_PRODUCTS),
    SCORES_OF(ATTENTION_SOFTMAX),
    SCORES_OF(ATTENTION_WEIGHTED),
    SCORES_OF(ATTENTION_WEIGHTED_BACK),
    SCORES_OF(ATTENTION_SOFTMAX_GRAD),
#define PRODUCT(a, i, b, j, m, n, how, wider) \
    { .of = LS_KERNEL_MATMUL, .letters = "aIbJNm", .size = {a, i, b, j, n, m}, .params = &(how), .wide = wider }
    PRODUCT(TOKENS, WIDTH, WIDTH, 72, TOKENS, 72, plain, false),
    PRODUCT(TOKENS, 64, 64, WIDTH, TOKENS, WIDTH, plain, true),
    PRODUCT(72, WIDTH, TOKENS, WIDTH, 72, TOKENS, b_turned, false),
    PRODUCT(1024, 4 * TOKENS, 1024, 72, 4 * TOKENS, 72, a_turned, true),
    PRODUCT(1024, 72, 1024, 4 * TOKENS, 72, 4 * TOKENS, a_turned, true),
};

/* --- operands ----------------------------------------------------------------------------------------------------- */

/* A range of addresses, with as many as 32 bits can be wrong by on both sides that nobody may access. */
enum { PAGE = 4096 };
#define GUARD ((size_t)1 << 36)

typedef struct range {
    char *begin;
    size_t bytes;
} range;

/* What is said of a call that is wrong, by the process that makes it; ranges for its handler of signals. */
static struct {
    int to;
    const ls_contract *contract;
    range of[OPERANDS + 1]; /* the last: the workspace */
} here;

static void say(const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)!write(here.to, text, (size_t)ls_min(n, (int)sizeof text - 1));
}

static void name_of(int operand, char out[16]) {
    const bool is_input = operand < LS_KERNEL_INPUTS;
    if (operand == OPERANDS)
        snprintf(out, 16, "workspace");
    else
        snprintf(out, 16, "%s %d", is_input ? "input" : "output", is_input ? operand : operand - LS_KERNEL_INPUTS);
}

/* An access beside all operands: how far from the nearest one. */
static void fault(int number, siginfo_t *info, void *context) {
    (void)context;
    const char *at = info->si_addr;
    char name[16] = "no operand";
    long long least = INT64_MAX;
    for (int o = 0; o <= OPERANDS; o++) {
        const range *r = &here.of[o];
        if (r->begin == NULL) continue;
        const long long away = at < r->begin ? at - r->begin : at - (r->begin + r->bytes);
        if (llabs(away) >= llabs(least)) continue;
        least = away;
        name_of(o, name);
    }
    say("%s is accessed %lld bytes %s", name, llabs(least), least < 0 ? "before its begin" : "behind its end");
    signal(number, SIG_DFL);
    _exit(0);
}

static bool reserve(size_t bytes, range *out) {
    const size_t whole = ls_round_up(bytes, PAGE);
    char *const all = mmap(NULL, whole + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all + GUARD, whole, PROT_READ | PROT_WRITE) != 0) return false;
    *out = (range){all + GUARD, bytes};
    return madvise(out->begin, whole, MADV_NOHUGEPAGE) == 0 ||
           true; /* a kernel without large pages has no such advice */
}

/*
 * Whether a page of the bytes first .. past - 1 is there, because it was accessed. Where blocks go over elements in
 * turns, any of them may have the last one: so the last of NEAR parts counts as the end.
 */
enum { NEAR = 16 };
static bool is_touched(const range *r, size_t first, size_t past) {
    const size_t from = first / PAGE, pages = ls_ceil_div((int64_t)past, PAGE) - from;
    unsigned char *const there = malloc(pages);
    bool any = false;
    if (there == NULL || mincore(r->begin + from * PAGE, pages * PAGE, there) != 0) return false;
    for (size_t p = 0; p < pages; p++) any |= (there[p] & 1) != 0;
    free(there);
    return any;
}

static ls_dtype type_of(const char *type, const sizes *s, ls_dtype T) {
    const ls_dtype G = ls_dtype_accumulator(T);
    if (strcmp(type, "i32") == 0) return LS_I32;
    if (strcmp(type, "f64") == 0) return LS_F64;
    if (strcmp(type, "T") == 0) return T;
    if (strcmp(type, "G") == 0) return G;
    if (strcmp(type, "F") == 0) return T == LS_F32 ? LS_BF16 : LS_F32;
    return s->wide ? G : T;
}

static int64_t size_of(const sizes *s, const char **dims) {
    if (!isalpha((unsigned char)**dims)) return strtoll(*dims, (char **)dims, 10);
    const char *const at = strchr(s->letters, *(*dims)++);
    if (at == NULL) fail_msg("%s: no size of %c", ls_contracts[s->of].name, (*dims)[-1]);
    return s->size[at - s->letters];
}

/* The views that the text of a contract has ("name TYPE[dims] ..."), without data and without what is optional. */
static int read_views(const char *text, const sizes *s, ls_dtype T, ls_view *out) {
    int n = 0, used;
    char name[16], type[8], dims[32];
    while (sscanf(text, " %15s %*[~]%7[^[][%31[^]]]%n", name, type, dims, &used) == 3 ||
           sscanf(text, " %15s %7[^[][%31[^]]]%n", name, type, dims, &used) == 3) {
        int64_t size[LS_MAX_DIMS];
        int ndim = 0;
        text += used;
        if (name[0] == '?') continue;
        for (const char *at = dims; *at != 0; at += *at == ',') size[ndim++] = size_of(s, &at);
        out[n++] = ls_view_dense(NULL, type_of(type, s, T), ndim, size);
    }
    return n;
}

static ls_kernel_call call_of(const sizes *s, ls_dtype T) {
    ls_kernel_call call = {.params = s->params, .threads = 1};
    call.n_in = read_views(ls_contracts[s->of].in, s, T, call.in);
    call.n_out = read_views(ls_contracts[s->of].out, s, T, call.out);
    if (s->turned) {
        ls_view *const x = &call.in[0], *const y = &call.out[0];
        *x = *y = (ls_view){.dtype = x->dtype, .ndim = 2, .size = {WIDTH, ELEMENTS / WIDTH}, .stride = {1, WIDTH}};
        y->dtype = type_of(s->of == LS_KERNEL_CAST ? "F" : s->of == LS_KERNEL_COPY ? "T" : "G", s, T);
        y->stride[0] = ELEMENTS / WIDTH;
        y->stride[1] = 1;
    }
    return call;
}

/* Gives it memory, `off` elements behind the begin of a page. */
static bool place(ls_view *v, range *out, int off) {
    const size_t each_bytes = ls_dtype_bytes(v->dtype);
    if (!reserve(ls_view_bytes(v) + each_bytes * (size_t)off, out)) return false;
    v->data = out->begin + each_bytes * (size_t)off;
    return true;
}

static bool attends(ls_kernel_id id) { return id == LS_KERNEL_ATTENTION || id == LS_KERNEL_ATTENTION_GRAD; }

/* An element becomes 1. */
static void put_one(ls_view *v, int64_t at) {
    const float one = 1;
    const size_t bytes = ls_dtype_bytes(v->dtype);
    memcpy((char *)v->data + bytes * (size_t)at, (const char *)&one + sizeof one - bytes, bytes);
}

/* Every query sees the keys at position 0. */
static void see_first_position(ls_view *spans) {
    for (int64_t i = 1; i < ls_view_elements(spans); i += 2) ((int32_t *)spans->data)[i] = 1;
}

/*
 * Spans of the first and the last query, whose dO is not 0; of rows of scores, those of all queries. Of other numbers
 * those near the end become the last one.
 */
static void fill_numbers(const sizes *s, ls_view *v, int operand) {
    const int64_t n = ls_view_elements(v);
    if (s->of == LS_KERNEL_ATTENTION_GRAD && operand == 5) {
        put_one(v, 0);
        put_one(v, n - 1);
    }
    if (v->dtype != LS_I32) return;
    if (s->of == LS_KERNEL_ATTENTION_SOFTMAX || s->of == LS_KERNEL_ATTENTION_SOFTMAX_GRAD) {
        if (v->ndim == 3) see_first_position(v);
        return;
    }
    int32_t *const at = v->data;
    if (attends(s->of) && operand == 3) {
        at[1] = 1;
        at[n - 2] = (int32_t)s->last;
        at[n - 1] = (int32_t)s->last + 1;
        return;
    }
    for (int64_t i = s->more ? n - n / NEAR : n - 1; i < n && s->last > 0; i++) at[i] = (int32_t)s->last;
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

static bool lay_out(const ls_kernel *row, const sizes *s, int off, ls_kernel_call *call) {
    bool is = true;
    for (int i = 0; i < call->n_in; i++) is = is && place(&call->in[i], &here.of[i], off);
    for (int i = 0; i < call->n_out; i++) is = is && place(&call->out[i], &here.of[LS_KERNEL_INPUTS + i], off);
    const size_t scratch = row->workspace != NULL ? row->workspace(call) : 0;
    is = is && reserve(scratch, &here.of[OPERANDS]);
    call->workspace = here.of[OPERANDS].begin;
    if (!is) {
        say("there are no such addresses");
        return false;
    }
    for (int i = 0; i < call->n_in; i++) fill_numbers(s, &call->in[i], i);
    const bool updates = row->id >= LS_KERNEL_ADAMW && ls_contracts[row->id].in[0] != 0 && call->n_in > 1;
    if (updates && strchr(s->letters, 'u') != NULL) ((double *)call->in[1].data)[LS_CONTROL_APPLY] = 1;
    return true;
}

/* A library's row of attention needs no positions: it has the masks that it supports by their shape. */
static unsigned apart_of(const ls_kernel *row, const sizes *s) {
    return s->apart | (attends(row->id) && row->row != NULL ? IN(4) : 0);
}

static void check_ends(const ls_kernel *row, const ls_kernel_call *call, const sizes *s) {
    for (int o = 0; o < OPERANDS; o++) {
        const bool is_input = o < LS_KERNEL_INPUTS;
        const int i = is_input ? o : o - LS_KERNEL_INPUTS;
        if (i >= (is_input ? call->n_in : call->n_out) || (apart_of(row, s) >> o & 1) != 0) continue;
        const range *r = &here.of[o];
        char name[16];
        name_of(o, name);
        if (!is_touched(r, 0, r->bytes / NEAR + 1)) say("%s is not accessed at its begin; ", name);
        if (!is_touched(r, r->bytes - r->bytes / NEAR - 1, r->bytes)) say("%s is not accessed at its end; ", name);
    }
}

static void make_call(const ls_kernel *row, const sizes *s, int off) {
    ls_kernel_call call = call_of(s, row->dtype);
    void *state = NULL;
    if (!lay_out(row, s, off, &call)) return;
    ls_status status = row->prepare(&call, &state);
    if (status.code == LS_UNSUPPORTED && row->refuses) { /* the emulated GPU is one of compute capability 9 */
        setenv("EMULATED_CAPABILITY", "10", 1);
        status = row->prepare(&call, &state);
    }
    if (status.code == LS_OK) status = row->launch(&call, state, NULL);
    if (status.code != LS_OK)
        say("%s", status.text);
    else
        check_ends(row, &call, s);
}

/* Makes the call in a process of its own. What is wrong with it: ""  nothing. */
static void try_call(const ls_kernel *row, const sizes *s, int off, char out[400]) {
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
        here.to = ends[1];
        setenv("EMULATED_BLOCKS", s->more ? "40" : "2", 1);
        make_call(row, s, off);
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n < 399 && (got = read(ends[0], out + n, 399 - n)) > 0;) n += (size_t)got;
    out[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (n == 0 && status != 0) snprintf(out, 400, "its process ended with %d", status);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/*
 * How many sizes the row was tried with, also with operands that lie an element off; attention in bf16 needs them at
 * multiples of 16 bytes. Counts what is wrong.
 */
static int try_row(const ls_kernel *row, int *wrong) {
    const int unit = attends(row->id) && row->dtype == LS_BF16 ? 8 : 1;
    int tried = 0;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        if (cases[i].of != row->id) continue;
        for (int off = 0; off <= unit; off += unit) {
            ls_kernel_call call = call_of(&cases[i], row->dtype);
            char text[400];
            if (row->supports != NULL && !row->supports(&call)) continue;
            try_call(row, &cases[i], off, text);
            tried++;
            if (text[0] == 0) continue;
            print_error("%s %s by %s, sizes %zu, %d off: %s\n", ls_kernel_name(row), ls_dtype_name(row->dtype),
                        ls_kernel_row(row), i, off, text);
            ++*wrong;
        }
    }
    return tried;
}

static void test_every_row(void **state) {
    (void)state;
    int wrong = 0;
    for (const ls_kernel *const *row = ls_cuda_kernels; *row != NULL; row++) {
        const int tried = try_row(*row, &wrong);
        print_message("%s %s by %s: %d calls\n", ls_kernel_name(*row), ls_dtype_name((*row)->dtype),
                      ls_kernel_row(*row), tried);
        wrong += tried == 0;
    }
    assert_int_equal(wrong, 0);
}

/* Rows whose offsets are products of 32 bits, with and without a sign (cuda/far_planted.cu). */
static void test_planted_products(void **state) {
    (void)state;
    static const sizes all = {.of = LS_KERNEL_SCALE, .letters = "n", .size = {ELEMENTS}, .params = &twice},
                       less = {.of = LS_KERNEL_SCALE, .letters = "n", .size = {LONG_ROW}, .params = &twice};
    static const char not_at_end[] = "input 0 is not accessed at its end; output 0 is not accessed at its end; ";
    char text[400];
    try_call(&far_right, &all, 0, text);
    assert_string_equal(text, "");
    try_call(&far_unsigned, &all, 0, text);
    assert_string_equal(text, not_at_end);
    try_call(&far_signed, &less, 0, text);
    if (strstr(text, "input 0 is accessed") != text || strstr(text, "bytes before its begin") == NULL)
        fail_msg("%s", text);
}

/* A grid has at most 2^31 - 1 blocks: one that is larger is refused by name, and nothing is executed. */
static void test_grids(void **state) {
    (void)state;
    extern const ls_kernel ls_cuda_f32_attention;
    static const sizes most = {.of = LS_KERNEL_ATTENTION,
                               .letters = "BNHDEKJW",
                               .size = {1, INT32_MAX, 8, 8, 8, 8, 8, 2},
                               .params = &each,
                               .last = 7};
    sizes more = most;
    char text[400];
    more.size[1]++;
    try_call(&ls_cuda_f32_attention, &more, 0, text);
    assert_string_equal(text, "kernel attention: a grid of 2147483648 blocks; a GPU takes at most 2147483647");
}

static int set_up(void **state) {
    (void)state;
    return fake_load(LS_TEST_FAKES "libcublasLt.so.13", "fake_cublaslt") == NULL ||
           fake_load(LS_TEST_FAKES "libcudnn.so.9", "fake_cudnn") == NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_planted_products), cmocka_unit_test(test_grids),
                                       cmocka_unit_test(test_every_row)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
