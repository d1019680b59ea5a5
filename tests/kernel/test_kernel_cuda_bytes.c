/*
 * The bytes that token-wise kernels of CUDA move between memory and chip, counted: pages that each launch of a call
 * reads and writes, of operands and of the workspace. What a launch reads again counts once, as the caches hold the
 * rows on which its blocks work; from one launch to the next they hold nothing. The least is each operand once. Only
 * x86-64 says whether it was a read or a write that a page refused.
 */
#include "support/kernel_call.h"
#include "support/kernel_examples.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "cuda/emulation.h"
#include "kernel/cuda/table.h"

enum { PAGE = 4096, PAGES = 1 << 15, READ = 1, WRITTEN = 2 };

static char *memory;
static size_t used;
static char touched[PAGES];
static int64_t n_read, n_written, n_launches;

static void begin_launch(void) {
    memset(touched, 0, sizeof touched);
    n_launches++;
    assert_int_equal(mprotect(memory, used, PROT_NONE), 0);
}

static void *take(size_t bytes) {
    void *p = memory + used;
    used += (size_t)ls_round_up((int64_t)bytes, PAGE);
    LS_ASSERT(used <= (size_t)PAGES * PAGE);
    return p;
}

#ifdef __x86_64__
static bool is_write(const void *context) {
    return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}
#else
static bool is_write(const void *context) { return context == NULL; }
#endif

static void on_fault(int number, siginfo_t *info, void *context) {
    const size_t page = (size_t)((char *)info->si_addr - memory) / PAGE;
    if ((char *)info->si_addr < memory || page >= PAGES) {
        signal(number, SIG_DFL); /* the instruction faults again */
        return;
    }
    const bool write = is_write(context);
    n_read += !write;
    n_written += write;
    touched[page] |= (char)(write ? WRITTEN : READ);
    (void)mprotect(memory + page * PAGE, PAGE, write ? PROT_READ | PROT_WRITE : PROT_READ);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

enum {
    ROWS = 512,
    E = 2048,
    V = 256,
    HEADS = 16,
    D = E / HEADS,
    UNITS = ROWS * E / LS_FLAT_UNIT,
    MANY = 2048,
    W = 1040
};

static const ls_norm_params norm = {.epsilon = 1e-5, .offset = 0.75};
static const ls_gated_norm_params gate_behind = {.epsilon = 1e-5};
static const ls_activation_params gelu = {LS_ACTIVATION_GELU_TANH, 0};
static const ls_scale_params half = {0.5};
static const ls_combine_params both = {-1.3, 0.6};
static const ls_rotate_params forward = {false};
static const ls_embedding_params every = {.padding = -1};
static const ls_noise_params noisy = {.amplitude = 0.5};
static const ls_sgd_params sgd = {.momentum = 0.9};
static const ls_lion_params lion = {0.9, 0.99};
static const ls_momentum_params momentum = {0.95};
static const ls_descend_params descend = {1.7};

/* MATRIX('T', NORMAL): an operand of type T. */
#define MATRIX(type, contents) \
    { type, contents, 2, {ROWS, E}, 0 }
/* So many rows that few sums are made beside them. */
#define TALL(type, contents) \
    { type, contents, 2, {MANY, W}, 0 }
#define WIDTH(type) \
    { type, NORMAL, 1, {W}, 0 }
#define HEIGHT(contents) \
    { 'G', contents, 1, {MANY}, 0 }
#define FLAT(type, contents) \
    { type, contents, 1, {ROWS * E}, 0 }
#define ROW(type, contents) \
    { type, contents, 1, {E}, 0 }
#define COLUMN(type, contents) \
    { type, contents, 1, {ROWS}, 0 }
#define OF_HEADS(type, contents) \
    { type, contents, 4, {1, ROWS, HEADS, D}, 0 }
#define OF_LSE(contents) \
    { 'G', contents, 3, {1, HEADS, ROWS}, 0 }
#define ONE(type) \
    { type, NORMAL, 1, {1}, 0 }
#define IDS_BELOW(limit) \
    { 'I', IDS, 1, {ROWS}, limit }
#define TABLE(type) \
    { type, NORMAL, 2, {V, E}, 0 }
#define X MATRIX('T', NORMAL)
#define Y MATRIX('T', POISON)
#define UPDATED FLAT('G', NORMAL)
#define CONTROL_OF \
    { 'D', CONTROL, 1, {LS_CONTROLS}, 0 }
#define GROUPS_OF \
    { 'I', IDS, 1, {UNITS}, 1 }
#define SETTINGS_OF \
    { 'D', SETTINGS, 2, {1, 2}, 0 }

/* most: of the least that it may move. */
static const struct {
    example e;
    double most;
} calls[] = {
    {{"add", NULL, 2, 1, {X, X}, {Y}}, 1},
    {{"mul", NULL, 2, 1, {X, X}, {Y}}, 1},
    {{"scale", &half, 1, 1, {X}, {Y}}, 1},
    {{"scale_by", NULL, 2, 1, {X, ONE('G')}, {Y}}, 1},
    {{"combine", &both, 1, 1, {X}, {X}}, 1},
    {{"cast", NULL, 1, 1, {X}, {MATRIX('G', POISON)}}, 1},
    {{"accumulate", NULL, 1, 1, {X}, {MATRIX('G', NORMAL)}}, 1},
    {{"activation", &gelu, 1, 1, {X}, {Y}}, 1},
    {{"activation_grad", &gelu, 2, 1, {X, X}, {Y}}, 1},
    {{"swiglu", NULL, 2, 1, {X, X}, {Y}}, 1},
    {{"swiglu_grad", NULL, 3, 2, {X, X, X}, {Y, Y}}, 1},
    {{"rmsnorm", &norm, 2, 2, {X, ROW('T', NORMAL)}, {Y, COLUMN('G', POISON)}}, 1},
    {{"gated_norm", &gate_behind, 3, 1, {X, ROW('T', NORMAL), X}, {Y}}, 1},
    {{"layernorm", &norm, 3, 3, {X, ROW('T', NORMAL), ROW('T', NORMAL)}, {Y, COLUMN('G', POISON), COLUMN('G', POISON)}},
     1},
    {{"rmsnorm_grad",
      &norm,
      4,
      2,
      {TALL('T', NORMAL), WIDTH('T'), HEIGHT(POSITIVE), TALL('T', NORMAL)},
      {TALL('T', POISON), WIDTH('G')}},
     1.1},
    {{"gated_norm_grad",
      &gate_behind,
      4,
      3,
      {TALL('T', NORMAL), WIDTH('T'), TALL('T', NORMAL), TALL('T', NORMAL)},
      {TALL('T', POISON), WIDTH('G'), TALL('T', POISON)}},
     1.1},
    {{"layernorm_grad",
      &norm,
      5,
      2,
      {TALL('T', NORMAL), WIDTH('T'), HEIGHT(NORMAL), HEIGHT(POSITIVE), TALL('T', NORMAL)},
      {TALL('T', POISON), WIDTH('G')}},
     1.1},
    {{"column_sum", NULL, 1, 1, {X}, {ROW('G', NORMAL)}}, 1.2},
    {{"sum_squares", NULL, 1, 1, {MATRIX('G', NORMAL)}, {ONE('D')}}, 1.2},
    {{"rotate",
      &forward,
      2,
      1,
      {{'T', NORMAL, 3, {ROWS, HEADS, D}, 0}, {'G', NORMAL, 2, {ROWS, D}, 0}},
      {{'T', POISON, 3, {ROWS, HEADS, D}, 0}}},
     1},
    {{"cross_entropy", NULL, 2, 2, {X, IDS_BELOW(E)}, {COLUMN('G', POISON), COLUMN('G', POISON)}}, 1},
    {{"cross_entropy_grad", NULL, 4, 1, {X, IDS_BELOW(E), COLUMN('G', NORMAL), COLUMN('G', NORMAL)}, {Y}}, 1},
    {{"noise", &noisy, 2, 1, {X, IDS_BELOW(V)}, {Y}}, 1},
    {{"embedding", NULL, 2, 1, {IDS_BELOW(V), TABLE('T')}, {Y}}, 1},
    {{"embedding_grad", &every, 2, 1, {IDS_BELOW(V), X}, {TABLE('G')}}, 1.2},
    {{"attention_delta", NULL, 2, 1, {OF_HEADS('T', NORMAL), OF_HEADS('T', NORMAL)}, {OF_LSE(POISON)}}, 1},
    {{"attention_merge", NULL, 2, 2, {OF_HEADS('G', NORMAL), OF_LSE(NORMAL)}, {OF_HEADS('G', NORMAL), OF_LSE(NORMAL)}},
     1},
    {{"adamw",
      &example_adamw,
      4,
      4,
      {UPDATED, CONTROL_OF, GROUPS_OF, SETTINGS_OF},
      {UPDATED, UPDATED, FLAT('G', POSITIVE), FLAT('T', POISON)}},
     1},
    {{"sgd", &sgd, 4, 3, {UPDATED, CONTROL_OF, GROUPS_OF, SETTINGS_OF}, {UPDATED, UPDATED, FLAT('T', POISON)}}, 1},
    {{"lion", &lion, 4, 3, {UPDATED, CONTROL_OF, GROUPS_OF, SETTINGS_OF}, {UPDATED, UPDATED, FLAT('T', POISON)}}, 1},
    {{"momentum", &momentum, 4, 2, {UPDATED, CONTROL_OF, GROUPS_OF, SETTINGS_OF}, {UPDATED, FLAT('T', POISON)}}, 1},
    {{"descend", &descend, 4, 2, {FLAT('T', NORMAL), CONTROL_OF, GROUPS_OF, SETTINGS_OF}, {UPDATED, FLAT('T', POISON)}},
     1},
};

/* Moves it to pages of its own, whose number it returns. */
static int64_t move(array *a) {
    const size_t bytes = ls_dtype_bytes(a->dtype) * (size_t)a->n;
    void *const to = take(bytes);
    memcpy(to, a->typed, bytes);
    free(a->typed);
    a->typed = to;
    return ls_ceil_div((int64_t)bytes, (int64_t)PAGE);
}

static int64_t least_of(const example *e, array *in, array *out) {
    int64_t pages = 0;
    for (int i = 0; i < e->n_in; i++) {
        in[i] = make_array(&e->in[i], LS_BF16, (uint64_t)i);
        pages += move(&in[i]);
    }
    for (int i = 0; i < e->n_out; i++) {
        out[i] = make_array(&e->out[i], LS_BF16, (uint64_t)(100 + i));
        pages += move(&out[i]) * (e->out[i].contents == POISON ? 1 : 2); /* written; or read and written */
    }
    return pages;
}

static void count_call(const example *e, double most) {
    array in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    used = 0;
    const int64_t least = least_of(e, in, out);
    ls_kernel_call call = make_call(e, in, out, false);
    const ls_kernel_request request = {
        .id = ls_kernel_named(e->name), .dtype = LS_BF16, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF, .call = &call};
    const ls_kernel *const *const tables[] = {ls_cuda_kernels};
    const ls_kernel *kernel = ls_kernel_choose(tables, 1, &request);
    assert_non_null(kernel);
    if (kernel->workspace != NULL) call.workspace = take(kernel->workspace(&call));
    void *state = NULL;
    assert_int_equal(kernel->prepare(&call, &state).code, LS_OK);
    n_read = n_written = n_launches = 0;
    emulation_before_grids(begin_launch);
    assert_int_equal(kernel->launch(&call, state, NULL).code, LS_OK);
    emulation_before_grids(NULL);
    assert_int_equal(mprotect(memory, used, PROT_READ | PROT_WRITE), 0);
    if (kernel->release != NULL) kernel->release(state);
    for (int i = 0; i < e->n_in; i++) free(in[i].exact);
    for (int i = 0; i < e->n_out; i++) free(out[i].exact);
    const double ratio = (double)(n_read + n_written) / (double)least;
    printf("%-20s %2lld launches, reads %6lld, writes %6lld pages; of the least %.3f\n", e->name, (long long)n_launches,
           (long long)n_read, (long long)n_written, ratio);
    if (n_launches == 0 || ratio > most || ratio < 0.9) fail_msg("%s: expected 0.9 to %g", e->name, most);
}

static void bytes_of_calls(void **unused) {
    (void)unused;
#ifndef __x86_64__
    print_message("pages tell reads from writes on x86-64 only\n");
    skip();
#endif
    static char handlers[1 << 16];
    assert_int_equal(sigaltstack(&(stack_t){.ss_sp = handlers, .ss_size = sizeof handlers}, NULL), 0);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before;
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    for (size_t i = 0; i < LS_COUNT(calls); i++) count_call(&calls[i].e, calls[i].most);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(munmap(memory, (size_t)PAGES * PAGE), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_of_calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
