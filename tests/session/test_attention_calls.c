/*
 * Attention as calls on the caller's whole arrays (longspan/attention.h): against attention by its formula, for arrays
 * in any order of dimensions; calls in any order, from several threads, on several attentions; refusals.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "longspan/attention.h"
#include "support/plain_attention.h"
#include "support/spread.h"
#include "tensor/tensor.h"

enum { B = 2, S = 41, HQ = 4, HKV = 2, D = 8, E = 5 };
static const plain_sizes sizes = {B, S, HQ, HKV, D, E};

#define assert_ok(call)                                          \
    do {                                                         \
        const ls_status status_ = (call);                        \
        if (status_.code != LS_OK) fail_msg("%s", status_.text); \
    } while (0)

static void assert_refused(ls_status status, ls_code code, const char *part) {
    if (status.code != code || strstr(status.text, part) == NULL)
        fail_msg("%s: %s; expected %s", ls_code_name(status.code), status.text, part);
}

static const int32_t document_ends[] = {0, 1, 20, 20, S};
static const ls_mask masks[] = {
    {.n = 0},
    {.n = 1, .term = {{.kind = LS_MASK_CAUSAL}}},
    {.n = 2,
     .term = {{.kind = LS_MASK_WINDOW, .window = 9, .first = 2},
              {.kind = LS_MASK_DOCUMENTS, .ends = document_ends, .n_ends = 5}}},
};

static ls_attention_options options_for(const ls_mask *mask, ls_spread spread) {
    return (ls_attention_options){.batch = B,
                                  .seq = S,
                                  .heads = HQ,
                                  .kv_heads = HKV,
                                  .head_size = D,
                                  .value_size = E,
                                  .dtype = LS_F64,
                                  .mask = mask,
                                  .gradients = true,
                                  .spread = spread};
}

static ls_shared_attention *opened(const ls_attention_options *options) {
    ls_shared_attention *a;
    assert_ok(ls_shared_attention_open(options, &a));
    return a;
}

/* --- arrays in the caller's memory -------------------------------------------------------------------------------- */

/* Orders of the dimensions; GAPS: rows lie apart, and tokens run backwards. */
typedef enum order { TOKENS_FIRST, HEADS_FIRST, GAPS, ORDERS } order;

typedef struct array {
    double *memory;
    ls_attention_strided at;
    int64_t heads, size; /* elements of a head */
} array;

static array make_array(order o, int64_t heads, int64_t size) {
    enum { GAP = 3 };
    array a = {.heads = heads, .size = size};
    const int64_t row = o == GAPS ? size + GAP : size, all = B * S * heads * row;
    a.memory = malloc(sizeof(double) * (size_t)all);
    assert_non_null(a.memory);
    for (int64_t i = 0; i < all; i++) a.memory[i] = NAN;
    a.at = (ls_attention_strided){.data = a.memory, .batch = S * heads * row, .token = heads * row, .head = row};
    if (o == HEADS_FIRST) a.at.token = row, a.at.head = S * row;
    if (o == GAPS) a.at.data = a.memory + (S - 1) * a.at.token, a.at.token = -a.at.token;
    return a;
}

static double *element(const array *a, int64_t b, int64_t s, int64_t h, int64_t d) {
    return (double *)a->at.data + b * a->at.batch + s * a->at.token + h * a->at.head + d;
}

/* Copies to or from [B,S,heads,size]. */
static void move(const array *a, double *dense, bool in) {
    for (int64_t b = 0, i = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < a->heads; h++)
                for (int64_t d = 0; d < a->size; d++, i++) {
                    if (in) *element(a, b, s, h, d) = dense[i];
                    if (!in) dense[i] = *element(a, b, s, h, d);
                }
}

enum { Q, K, V, GRAD_O, O, DQ, DK, DV, ARRAYS };

typedef struct arrays {
    array all[ARRAYS];
    double lse[B * HQ * S], sink[HQ], dsink[HQ];
    ls_attention_arrays call;
} arrays;

static arrays *make_arrays(const plain_attention *p, order o) {
    arrays *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (int i = 0; i < ARRAYS; i++) {
        a->all[i] = make_array(o, i == K || i == V || i == DK || i == DV ? HKV : HQ,
                               i == V || i == GRAD_O || i == O || i == DV ? E : D);
        if (i <= GRAD_O) move(&a->all[i], p->in[i], true);
    }
    if (p->sink != NULL) memcpy(a->sink, p->sink, sizeof a->sink);
    a->call = (ls_attention_arrays){.q = a->all[Q].at,
                                    .k = a->all[K].at,
                                    .v = a->all[V].at,
                                    .o = a->all[O].at,
                                    .lse = a->lse,
                                    .sink = a->sink,
                                    .grad_o = a->all[GRAD_O].at,
                                    .dq = a->all[DQ].at,
                                    .dk = a->all[DK].at,
                                    .dv = a->all[DV].at,
                                    .dsink = a->dsink};
    return a;
}

static void free_arrays(arrays *a) {
    for (int i = 0; i < ARRAYS; i++) free(a->all[i].memory);
    free(a);
}

static void assert_equals(const arrays *a, const plain_attention *p, const char *what) {
    static const struct {
        int array, plain;
        const char *name;
    } results[] = {{O, PLAIN_O, "o"}, {DQ, PLAIN_DQ, "dq"}, {DK, PLAIN_DK, "dk"}, {DV, PLAIN_DV, "dv"}};
    double dense[B * S * HQ * D];
    for (size_t i = 0; i < LS_COUNT(results); i++) {
        const array *made = &a->all[results[i].array];
        move(made, dense, false);
        const double error = relative_error(dense, p->out[results[i].plain], B * S * made->heads * made->size, 1e-30);
        if (!(error <= 1e-12)) fail_msg("%s: %s: %.3e", what, results[i].name, error);
    }
    const double error = relative_error(a->lse, p->out[PLAIN_LSE], B * HQ * S, 1e-30);
    if (!(error <= 1e-12)) fail_msg("%s: lse: %.3e", what, error);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static void check(const plain_attention *p, const ls_attention_options *options, const char *what) {
    ls_shared_attention *attention = opened(options);
    for (order o = 0; o < ORDERS; o++) {
        arrays *a = make_arrays(p, o);
        assert_ok(ls_shared_attention_forward(attention, &a->call));
        assert_ok(ls_shared_attention_backward(attention, &a->call));
        assert_equals(a, p, what);
        free_arrays(a);
    }
    ls_shared_attention_close(attention);
}

static void test_formula(void **state) {
    (void)state;
    static const ls_spread spreads[] = {
        {.ranks = 1},
        {.ranks = 1, .threads = 2},
        {.ranks = 2, .strategy = "ring", .transfers = "put"},
        {.ranks = 3, .strategy = "gather"},
        {.ranks = 3, .strategy = "tokenring"},
        {.ranks = 3, .strategy = "burst"},
        {.ranks = 2, .strategy = "rsa"},
        {.mesh = "outer=2,ring=2", .strategy = "double-ring"},
        {.ranks = 4, .strategy = "ulysses"},
        {.mesh = "ring=2,ulysses=2", .layout = "zigzag", .transfers = "in-place"},
        {.mesh = "dp=2,ring=2", .layout = "striped"},
    };
    for (int m = 0; m < (int)LS_COUNT(masks); m++) {
        const plain_extras extras = {.sink = m == 2, .softcap = m == 1 ? 3 : 0};
        plain_attention p = plain_attention_make(sizes, &masks[m], extras, 1, 7);
        for (size_t i = 0; i < LS_COUNT(spreads); i++) {
            ls_attention_options options = options_for(&masks[m], spreads[i]);
            options.sink = extras.sink;
            options.softcap = extras.softcap;
            options.scale = p.scale;
            char what[96];
            snprintf(what, sizeof what, "mask %d, spread %d", m, (int)i);
            check(&p, &options, what);
        }
        plain_attention_free(&p);
    }
}

/* On a device whose memory the host cannot address. */
static void test_other_device(void **state) {
    (void)state;
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, 8);
    ls_attention_options options =
        options_for(&masks[1], (ls_spread){.ranks = 2, .strategy = "ring", .device = "delayed:1"});
    options.scale = p.scale;
    check(&p, &options, "delayed");
    plain_attention_free(&p);
}

/* Documents that come with each call are as documents of the mask, and differ from sequence to sequence. */
static void test_documents(void **state) {
    (void)state;
    static const int32_t ends[B][4] = {{0, 7, 30, S}, {0, S}};
    static const int32_t n_ends[B] = {4, 2};
    static const ls_spread spreads[] = {
        {.ranks = 1}, {.ranks = 3, .strategy = "ring"}, {.mesh = "dp=2,ulysses=2"}, {.mesh = "dp=2,ring=2"}};
    for (int m = 0; m < 2; m++) {
        ls_mask inside = masks[m];
        inside.term[inside.n++] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends[0], .n_ends = 4};
        plain_attention whole = plain_attention_make(sizes, &masks[m], (plain_extras){.sink = false}, 1, 3);
        plain_attention packed = plain_attention_make(sizes, &inside, (plain_extras){.sink = false}, 1, 3);
        for (size_t i = 0; i < LS_COUNT(spreads); i++) {
            ls_attention_options options = options_for(&masks[m], spreads[i]);
            options.documents = true;
            ls_shared_attention *attention = opened(&options);
            arrays *a = make_arrays(&whole, HEADS_FIRST);
            for (int told = 1; told >= 0; told--) {
                a->call.ends = told ? ends[0] : NULL;
                a->call.n_ends = n_ends;
                a->call.room = 4;
                assert_ok(ls_shared_attention_forward(attention, &a->call));
                assert_ok(ls_shared_attention_backward(attention, &a->call));
                double o[B * S * HQ * E],
                    *of[B] = {told ? packed.out[PLAIN_O] : whole.out[PLAIN_O], whole.out[PLAIN_O]};
                move(&a->all[O], o, false);
                for (int b = 0; b < B; b++) {
                    const int at = b * S * HQ * E;
                    assert_true(relative_error(o + at, of[b] + at, S * HQ * E, 1e-30) < 1e-12);
                }
                if (!told) assert_equals(a, &whole, "no documents");
            }
            a->call.ends = ends[1]; /* n_ends of the first says that 4 follow */
            assert_refused(ls_shared_attention_forward(attention, &a->call), LS_INVALID, "documents of sequence 0");
            free_arrays(a);
            ls_shared_attention_close(attention);
        }
        plain_attention_free(&whole);
        plain_attention_free(&packed);
    }
}

/* The gradient of a sink is the sum over all ranks: what one rank finds, and written once. */
static void test_sink(void **state) {
    (void)state;
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = true}, 1, 9);
    double one[HQ] = {0};
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
        ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = ranks});
        options.sink = true;
        ls_shared_attention *attention = opened(&options);
        arrays *a = make_arrays(&p, HEADS_FIRST);
        assert_ok(ls_shared_attention_forward(attention, &a->call));
        assert_ok(ls_shared_attention_backward(attention, &a->call));
        if (ranks == 1) memcpy(one, a->dsink, sizeof one);
        assert_true(relative_error(a->dsink, one, HQ, 1e-30) < 1e-12);
        assert_true(one[0] != 0);
        free_arrays(a);
        ls_shared_attention_close(attention);
    }
    plain_attention_free(&p);
}

/* As of several layers: backward in reverse, and on an attention that never ran forward. */
static void test_any_order(void **state) {
    (void)state;
    enum { LAYERS = 3 };
    plain_attention p[LAYERS];
    arrays *a[LAYERS];
    ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = 2, .strategy = "ring"});
    ls_shared_attention *attention = opened(&options), *other = opened(&options);
    for (int l = 0; l < LAYERS; l++) {
        p[l] = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, (uint64_t)l);
        a[l] = make_arrays(&p[l], HEADS_FIRST);
        assert_true(fabs(p[l].scale - 1 / sqrt(D)) < 1e-15);
        assert_ok(ls_shared_attention_forward(attention, &a[l]->call));
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        assert_ok(ls_shared_attention_backward(l == 1 ? other : attention, &a[l]->call));
        assert_equals(a[l], &p[l], "in reverse");
        free_arrays(a[l]);
        plain_attention_free(&p[l]);
    }
    ls_shared_attention_close(attention);
    ls_shared_attention_close(other);
}

/* What is not wanted is not written; inputs may be the same for all sequences. */
static void test_parts(void **state) {
    (void)state;
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, 5);
    const ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = 3});
    ls_shared_attention *attention = opened(&options);
    arrays *whole = make_arrays(&p, TOKENS_FIRST), *part = make_arrays(&p, TOKENS_FIRST);
    for (int i = K; i <= V; i++) {
        double *x = whole->all[i].memory;
        const int64_t n = S * HKV * whole->all[i].size;
        memcpy(x + n, x, sizeof *x * (size_t)n);
    }
    part->call.k.batch = part->call.v.batch = 0;
    assert_ok(ls_shared_attention_forward(attention, &whole->call));
    assert_ok(ls_shared_attention_backward(attention, &whole->call));
    assert_ok(ls_shared_attention_forward(attention, &part->call));
    part->call.dq.data = part->call.dv.data = NULL;
    assert_ok(ls_shared_attention_backward(attention, &part->call));
    const size_t wide = sizeof(double) * B * S * HQ * E, narrow = sizeof(double) * B * S * HKV * D;
    assert_memory_equal(part->all[O].memory, whole->all[O].memory, wide);
    assert_memory_equal(part->all[DK].memory, whole->all[DK].memory, narrow);
    assert_true(isnan(part->all[DQ].memory[0]) && isnan(part->all[DV].memory[0]));
    free_arrays(whole);
    free_arrays(part);
    plain_attention_free(&p);
    ls_shared_attention_close(attention);
}

/* --- threads and processes ---------------------------------------------------------------------------------------- */

typedef struct caller {
    ls_shared_attention *shared, *own;
    const plain_attention *p;
    arrays *a;
    ls_status status;
    pthread_t thread;
} caller;

static ls_status call_often(const caller *c) {
    for (int i = 0; i < 20; i++) {
        LS_TRY(ls_shared_attention_forward(i % 2 ? c->shared : c->own, &c->a->call));
        LS_TRY(ls_shared_attention_backward(i % 2 ? c->own : c->shared, &c->a->call));
    }
    return ls_ok();
}

static void *caller_main(void *argument) {
    caller *c = argument;
    c->status = call_often(c);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    enum { CALLERS = 3 };
    caller callers[CALLERS];
    const ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = 2});
    ls_shared_attention *shared = opened(&options);
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, 6);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.shared = shared, .own = opened(&options), .a = make_arrays(&p, HEADS_FIRST)};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_ok(callers[i].status);
        assert_equals(callers[i].a, &p, "from several threads");
        ls_shared_attention_close(callers[i].own);
        free_arrays(callers[i].a);
    }
    ls_shared_attention_close(shared);
    plain_attention_free(&p);
}

/* A forked copy has no ranks; the process that opened it goes on. */
static void test_fork(void **state) {
    (void)state;
    const ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = 2});
    ls_shared_attention *attention = opened(&options);
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, 6);
    arrays *a = make_arrays(&p, HEADS_FIRST);
    assert_ok(ls_shared_attention_forward(attention, &a->call));
    const pid_t child = fork();
    if (child == 0) {
        const ls_status status = ls_shared_attention_forward(attention, &a->call);
        ls_shared_attention_close(attention);
        _exit(status.code == LS_USAGE && strstr(status.text, "forked") != NULL ? 0 : 1);
    }
    int ended = 1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_ok(ls_shared_attention_backward(attention, &a->call));
    assert_equals(a, &p, "after a fork");
    free_arrays(a);
    plain_attention_free(&p);
    ls_shared_attention_close(attention);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static ls_status nothing(ls_attention_rank *r, const void *input, void *result) {
    (void)r, (void)input, (void)result;
    return ls_ok();
}

static void test_refused(void **state) {
    (void)state;
    ls_attention_options options = options_for(&masks[1], (ls_spread){.ranks = 2, .as_threads = true});
    ls_shared_attention *attention = opened(&options);
    plain_attention p = plain_attention_make(sizes, &masks[1], (plain_extras){.sink = false}, 1, 6);
    arrays *a = make_arrays(&p, HEADS_FIRST);
    ls_attention_arrays call = a->call;
    call.k.data = NULL;
    assert_refused(ls_shared_attention_forward(attention, &call), LS_INVALID, "forward without k");
    call = a->call;
    call.lse = NULL;
    assert_ok(ls_shared_attention_forward(attention, &call));
    assert_refused(ls_shared_attention_backward(attention, &call), LS_INVALID, "backward without lse");
    call = a->call;
    call.dq.head = 0;
    assert_refused(ls_shared_attention_backward(attention, &call), LS_INVALID, "dq has stride 0 for each head");
    call.dq.head = D;
    call.ends = document_ends;
    assert_refused(ls_shared_attention_forward(attention, &call), LS_USAGE, "without documents");
    assert_refused(ls_shared_attention_forward(NULL, &call), LS_INVALID, "attention");
    assert_refused(ls_shared_attention_forward(attention, NULL), LS_INVALID, "call");
    assert_refused(ls_shared_attention_run(attention, nothing, NULL, NULL, 0), LS_USAGE, "has run");
    ls_shared_attention_close(attention);

    options.gradients = false;
    attention = opened(&options);
    assert_refused(ls_shared_attention_backward(attention, &a->call), LS_USAGE, "without gradients");
    assert_ok(ls_shared_attention_run(attention, nothing, NULL, NULL, 0));
    assert_refused(ls_shared_attention_forward(attention, &a->call), LS_USAGE, "after ls_shared_attention_run");
    ls_shared_attention_close(attention);
    free_arrays(a);
    plain_attention_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),   cmocka_unit_test(test_other_device), cmocka_unit_test(test_sink),
        cmocka_unit_test(test_documents), cmocka_unit_test(test_any_order),    cmocka_unit_test(test_parts),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_fork),         cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
