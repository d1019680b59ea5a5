/*
 * Attention as calls on a caller's arrays that are in memory of a GPU, and made by the caller's stream (longspan/
 * attention.h): against attention by its formula; behind work of the stream that is late; refusals. On the driver for
 * tests and kernels that were compiled for the host; with LS_TEST_GPU=1 on this machine's GPU.
 */
#include "device/cuda/driver.h"
#include "longspan/attention.h"
#include "support/fake_cuda.h"
#include "support/plain_attention.h"
#include "support/spread.h"
#include "support/world.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { B = 2, S = 37, HQ = 4, HKV = 2, D = 16 };
static const plain_sizes sizes = {B, S, HQ, HKV, D, D};
/* Of f32, as for all kernels of a GPU; products of S terms. */
#define TOLERANCE 2e-6

static const ls_mask masks[] = {
    {.n = 1, .term = {{.kind = LS_MASK_CAUSAL}}},
    {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = 9, .first = 2}}},
};

/* --- the caller's side of the GPU --------------------------------------------------------------------------------- */

/* What a program that uses CUDA has by itself. */
typedef struct caller {
    ls_cuda_driver driver;
    ls_cuda_context context;
    ls_cuda_stream stream;
    int handle;
} caller;

#define must(call) assert_int_equal((call), LS_CUDA_SUCCESS)

static caller make_caller(void) {
    caller c;
    assert_ok(ls_cuda_driver_load(&c.driver));
    must(c.driver.cuDeviceGet(&c.handle, 0));
    must(c.driver.cuDevicePrimaryCtxRetain(&c.context, c.handle));
    must(c.driver.cuCtxSetCurrent(c.context));
    must(c.driver.cuStreamCreateWithPriority(&c.stream, LS_CUDA_STREAM_NON_BLOCKING, 0));
    return c;
}

static void free_caller(const caller *c) {
    must(c->driver.cuStreamDestroy_v2(c->stream));
    must(c->driver.cuDevicePrimaryCtxRelease_v2(c->handle));
}

/* Floats of the device, and what they are to be, or were, in pinned memory. */
typedef struct memory {
    ls_cuda_address at;
    float *host;
    size_t bytes;
} memory;

static memory make_memory(const caller *c, int64_t n) {
    memory m = {.bytes = sizeof(float) * (size_t)n};
    void *host;
    must(c->driver.cuMemAlloc_v2(&m.at, m.bytes));
    must(c->driver.cuMemHostAlloc(&host, m.bytes, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED));
    m.host = host;
    for (int64_t i = 0; i < n; i++) m.host[i] = NAN;
    return m;
}

static void free_memory(const caller *c, const memory *m) {
    must(c->driver.cuMemFree_v2(m->at));
    must(c->driver.cuMemFreeHost(m->host));
}

static void upload(const caller *c, const memory *m) {
    must(c->driver.cuMemcpyHtoDAsync_v2(m->at, m->host, m->bytes, c->stream));
}

static void download(const caller *c, const memory *m) {
    must(c->driver.cuMemcpyDtoHAsync_v2(m->host, m->at, m->bytes, c->stream));
    must(c->driver.cuStreamSynchronize(c->stream));
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

/* Orders of the dimensions; GAPS: rows lie apart, and tokens run backwards. */
typedef enum order { TOKENS_FIRST, HEADS_FIRST, GAPS, ORDERS } order;

typedef struct array {
    memory memory;
    ls_attention_strided at;
    int64_t heads;
} array;

static array make_array(const caller *c, order o, int64_t heads) {
    enum { ROW = D + 3 };
    const int64_t row = o == GAPS ? ROW : D;
    array a = {.memory = make_memory(c, B * S * heads * row), .heads = heads};
    a.at = (ls_attention_strided){.batch = S * heads * row, .token = heads * row, .head = row};
    if (o == HEADS_FIRST) a.at.token = row, a.at.head = S * row;
    const int64_t first = o == GAPS ? (S - 1) * a.at.token : 0;
    if (o == GAPS) a.at.token = -a.at.token;
    a.at.data = (char *)(uintptr_t)a.memory.at + first * (int64_t)sizeof(float);
    return a;
}

static float *element(const array *a, int64_t b, int64_t s, int64_t h, int64_t d) {
    const int64_t first = ((char *)a->at.data - (char *)(uintptr_t)a->memory.at) / (int64_t)sizeof(float);
    return a->memory.host + first + b * a->at.batch + s * a->at.token + h * a->at.head + d;
}

/* Copies to or from [B,S,heads,D]. */
static void move(const array *a, double *dense, bool in) {
    for (int64_t b = 0, i = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            for (int64_t h = 0; h < a->heads; h++)
                for (int64_t d = 0; d < D; d++, i++) {
                    if (in) *element(a, b, s, h, d) = (float)dense[i];
                    if (!in) dense[i] = (double)*element(a, b, s, h, d);
                }
}

enum { Q, K, V, GRAD_O, O, DQ, DK, DV, ARRAYS };

typedef struct arrays {
    array all[ARRAYS];
    memory lse, sink, dsink;
    ls_attention_arrays call;
} arrays;

static arrays make_arrays(const caller *c, const plain_attention *p, order o) {
    arrays a;
    for (int i = 0; i < ARRAYS; i++) {
        a.all[i] = make_array(c, o, i == K || i == V || i == DK || i == DV ? HKV : HQ);
        if (i <= GRAD_O) move(&a.all[i], p->in[i], true);
    }
    a.lse = make_memory(c, B * HQ * S);
    a.sink = make_memory(c, HQ);
    a.dsink = make_memory(c, HQ);
    for (int h = 0; h < HQ && p->sink != NULL; h++) a.sink.host[h] = (float)p->sink[h];
    a.call = (ls_attention_arrays){.q = a.all[Q].at,
                                   .k = a.all[K].at,
                                   .v = a.all[V].at,
                                   .o = a.all[O].at,
                                   .lse = (void *)(uintptr_t)a.lse.at,
                                   .sink = (void *)(uintptr_t)a.sink.at,
                                   .grad_o = a.all[GRAD_O].at,
                                   .dq = a.all[DQ].at,
                                   .dk = a.all[DK].at,
                                   .dv = a.all[DV].at,
                                   .dsink = (void *)(uintptr_t)a.dsink.at,
                                   .on_device = true,
                                   .stream = c->stream};
    return a;
}

static void free_arrays(const caller *c, const arrays *a) {
    for (int i = 0; i < ARRAYS; i++) free_memory(c, &a->all[i].memory);
    free_memory(c, &a->lse);
    free_memory(c, &a->sink);
    free_memory(c, &a->dsink);
}

static void upload_inputs(const caller *c, const arrays *a) {
    for (int i = 0; i <= GRAD_O; i++) upload(c, &a->all[i].memory);
    upload(c, &a->sink);
}

static void check_result(const double *x, const double *expected, int64_t n, const char *what, const char *name) {
    const double error = relative_error(x, expected, n, 1e-30);
    if (!(error <= TOLERANCE)) fail_msg("%s: %s: %.3e", what, name, error);
}

static void assert_equals(const caller *c, const arrays *a, const plain_attention *p, const char *what) {
    static const int formula[ARRAYS] = {[O] = PLAIN_O, [DQ] = PLAIN_DQ, [DK] = PLAIN_DK, [DV] = PLAIN_DV};
    static const char *const names[ARRAYS] = {[O] = "o", [DQ] = "dq", [DK] = "dk", [DV] = "dv"};
    double dense[B * S * HQ * D];
    for (int i = O; i < ARRAYS; i++) {
        download(c, &a->all[i].memory);
        move(&a->all[i], dense, false);
        check_result(dense, p->out[formula[i]], B * S * a->all[i].heads * D, what, names[i]);
    }
    download(c, &a->lse);
    for (int64_t i = 0; i < B * HQ * S; i++) dense[i] = (double)a->lse.host[i];
    check_result(dense, p->out[PLAIN_LSE], B * HQ * S, what, "lse");
}

/* The call is one on the host's copies of the arrays. */
static void put_on_host(arrays *a) {
    ls_attention_strided *const of[ARRAYS] = {&a->call.q, &a->call.k,  &a->call.v,  &a->call.grad_o,
                                              &a->call.o, &a->call.dq, &a->call.dk, &a->call.dv};
    for (int i = 0; i < ARRAYS; i++) of[i]->data = element(&a->all[i], 0, 0, 0, 0);
    a->call.lse = a->lse.host;
    a->call.sink = a->sink.host;
    a->call.dsink = a->dsink.host;
    a->call.on_device = false;
}

static ls_attention_options options_for(const plain_attention *p, const ls_mask *mask, ls_spread spread) {
    spread.device = spread.device != NULL ? spread.device : "cuda:0";
    return (ls_attention_options){.batch = B,
                                  .seq = S,
                                  .heads = HQ,
                                  .kv_heads = HKV,
                                  .head_size = D,
                                  .mask = mask,
                                  .scale = p->scale,
                                  .sink = p->sink != NULL,
                                  .gradients = true,
                                  .spread = spread};
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static void check(const caller *c, const plain_attention *p, const ls_attention_options *options, const char *what) {
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(options, &attention));
    for (order o = 0; o < ORDERS; o++) {
        const arrays a = make_arrays(c, p, o);
        upload_inputs(c, &a);
        assert_ok(ls_shared_attention_forward(attention, &a.call));
        assert_ok(ls_shared_attention_backward(attention, &a.call));
        assert_equals(c, &a, p, what);
        free_arrays(c, &a);
    }
    ls_shared_attention_close(attention);
}

static void test_formula(void **state) {
    (void)state;
    static const ls_spread spreads[] = {
        {.ranks = 1},
        {.ranks = 2, .strategy = "ring", .layout = "zigzag"},
        {.ranks = 3, .strategy = "gather", .layout = "striped"},
        {.ranks = 2, .strategy = "ulysses"},
        {.mesh = "dp=2"},
        {.ranks = 3, .strategy = "rsa", .layout = "striped"},
    };
    const caller c = make_caller();
    for (size_t i = 0; i < LS_COUNT(spreads); i++) {
        const ls_mask *mask = &masks[i % LS_COUNT(masks)];
        plain_attention p = plain_attention_make(sizes, mask, (plain_extras){.sink = i == 1}, 1, 7 + i);
        char what[32];
        snprintf(what, sizeof what, "spread %d", (int)i);
        const ls_attention_options options = options_for(&p, mask, spreads[i]);
        check(&c, &p, &options, what);
        plain_attention_free(&p);
    }
    free_caller(&c);
}

/* The gradient of a sink, from arrays of the GPU and from the same arrays of the host, on 1 and 3 ranks. */
static void test_sink(void **state) {
    (void)state;
    const caller c = make_caller();
    plain_attention p = plain_attention_make(sizes, &masks[0], (plain_extras){.sink = true}, 1, 3);
    double first[HQ];
    for (int i = 0; i < 4; i++) {
        const bool host = i & 1;
        const ls_attention_options options =
            options_for(&p, &masks[0], (ls_spread){.ranks = i < 2 ? 1 : 3, .strategy = i < 2 ? NULL : "ring"});
        ls_shared_attention *attention;
        arrays a = make_arrays(&c, &p, TOKENS_FIRST);
        upload_inputs(&c, &a);
        if (host) put_on_host(&a);
        assert_ok(ls_shared_attention_open(&options, &attention));
        assert_ok(ls_shared_attention_forward(attention, &a.call));
        assert_ok(ls_shared_attention_backward(attention, &a.call));
        if (!host) download(&c, &a.dsink);
        for (int h = 0; h < HQ; h++) {
            const double x = (double)a.dsink.host[h];
            if (i == 0) first[h] = x;
            assert_true(fabs(x - first[h]) <= 1e-5 * fabs(first[h]));
        }
        free_arrays(&c, &a);
        ls_shared_attention_close(attention);
    }
    plain_attention_free(&p);
    free_caller(&c);
}

/* --- order of a stream -------------------------------------------------------------------------------------------- */

typedef struct late {
    uint64_t *word;
    bool *released;
} late;

static void *release_late(void *argument) {
    const late *l = argument;
    usleep(100000);
    *l->released = true;
    __atomic_store_n(l->word, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Everything that is put on the stream after this waits for the word. */
static void hold_stream(const caller *c, const uint64_t *word) {
    ls_cuda_address at;
    must(c->driver.cuMemHostGetDevicePointer_v2(&at, (void *)(uintptr_t)word, 0));
    ls_cuda_word_op wait = {.waitValue = {LS_CUDA_WAIT_WORD, at, 1, LS_CUDA_WAIT_GEQ, 0}};
    must(c->driver.cuStreamBatchMemOp_v2(c->stream, 1, &wait, 0));
}

/* The arrays are written when the calls have long begun: these wait for it. */
static void test_late_arrays(void **state) {
    (void)state;
    const caller c = make_caller();
    plain_attention p = plain_attention_make(sizes, &masks[0], (plain_extras){.sink = false}, 1, 5);
    const ls_attention_options options = options_for(&p, &masks[0], (ls_spread){.ranks = 2, .strategy = "ring"});
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(&options, &attention));
    const arrays a = make_arrays(&c, &p, HEADS_FIRST);
    upload_inputs(&c, &a);
    assert_ok(ls_shared_attention_forward(attention, &a.call)); /* the ranks have started */
    for (int backward = 0; backward < 2; backward++) {
        memory word = make_memory(&c, 2);
        bool released = false;
        pthread_t thread;
        memset(word.host, 0, word.bytes);
        must(c.driver.cuMemsetD8Async(a.all[backward ? GRAD_O : Q].memory.at, 0xff, a.all[Q].memory.bytes, c.stream));
        hold_stream(&c, (uint64_t *)word.host);
        upload(&c, &a.all[backward ? GRAD_O : Q].memory);
        assert_int_equal(pthread_create(&thread, NULL, release_late, &(late){(uint64_t *)word.host, &released}), 0);
        assert_ok((backward ? ls_shared_attention_backward : ls_shared_attention_forward)(attention, &a.call));
        assert_true(released);
        pthread_join(thread, NULL);
        free_memory(&c, &word);
    }
    assert_equals(&c, &a, &p, "late");
    free_arrays(&c, &a);
    ls_shared_attention_close(attention);
    plain_attention_free(&p);
    free_caller(&c);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void assert_refused(ls_status status, ls_code code, const char *part) {
    if (status.code != code || strstr(status.text, part) == NULL)
        fail_msg("%s: %s; expected %s", ls_code_name(status.code), status.text, part);
}

/* What is refused changes nothing: the next call is fine. */
static void test_refused(void **state) {
    (void)state;
    const caller c = make_caller();
    plain_attention p = plain_attention_make(sizes, &masks[0], (plain_extras){.sink = false}, 1, 5);
    ls_attention_options options = options_for(&p, &masks[0], (ls_spread){.ranks = 1});
    ls_shared_attention *attention;
    assert_ok(ls_shared_attention_open(&options, &attention));
    const arrays a = make_arrays(&c, &p, TOKENS_FIRST);
    upload_inputs(&c, &a);
    float *const host = malloc(a.all[K].memory.bytes);
    ls_attention_arrays call = a.call;
    call.k.data = host;
    if (!gpu_is_real()) /* some know all memory of the host */
        assert_refused(ls_shared_attention_forward(attention, &call), LS_INVALID, "attention: k: the address 0x");
    assert_ok(ls_shared_attention_forward(attention, &a.call));
    assert_ok(ls_shared_attention_backward(attention, &a.call));
    assert_equals(&c, &a, &p, "after a refusal");
    ls_shared_attention_close(attention);
    options.spread.device = "cpu";
    assert_ok(ls_shared_attention_open(&options, &attention));
    assert_refused(ls_shared_attention_forward(attention, &a.call), LS_USAGE,
                   "attention: arrays on a GPU and ranks on the device cpu; expected the device cuda");
    ls_shared_attention_close(attention);
    free_arrays(&c, &a);
    free(host);
    plain_attention_free(&p);
    free_caller(&c);
}

int main(void) {
    use_gpu("seed=1");
    have_kernels_loaded();
    /* As the header says of programs that use CUDA before the attention does. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "32", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formula), cmocka_unit_test(test_sink),
                                       cmocka_unit_test(test_late_arrays), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
