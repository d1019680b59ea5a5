/* A kernel by itself, on data of its own, timed; and the calls of attention that are timed this way. */
#include "plan/plan.h"

#include "device/device.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/*
 * Places the operands that have no data from offset `at` on, and returns the end. memory NULL: only counts the bytes.
 */
static size_t place(ls_view *views, int n, size_t at, char *memory) {
    for (int i = 0; i < n; i++) {
        if (views[i].data != NULL) continue;
        LS_ASSERT(ls_view_is_dense(&views[i]));
        if (memory != NULL) {
            views[i].data = memory + at;
            if (views[i].dtype != LS_I32) ls_view_fill(&views[i], (uint32_t)at + 1);
        }
        at += ls_round_up(ls_view_bytes(&views[i]), LINE);
    }
    return at;
}

static ls_status set_up(ls_timed_call *t) {
    ls_kernel_call *call = &t->call;
    size_t at = place(call->in, call->n_in, 0, NULL);
    at = place(call->out, call->n_out, at, NULL);
    t->bytes = at + (t->kernel->workspace != NULL ? t->kernel->workspace(call) : 0);
    LS_TRY(ls_memory_map(t->bytes, &t->memory));
    if (t->bytes > 0) memset(t->memory, 0, t->bytes); /* touches every page */
    place(call->out, call->n_out, place(call->in, call->n_in, 0, t->memory), t->memory);
    call->workspace = t->memory != NULL ? (char *)t->memory + at : NULL;
    return t->kernel->prepare != NULL ? t->kernel->prepare(call, &t->state) : ls_ok();
}

ls_status ls_timed_call_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool, const ls_kernel_call *call,
                             ls_timed_call *out) {
    ls_timed_call timed = {.call = *call, .pool = pool};
    timed.call.threads = ls_pool_threads(pool);
    LS_TRY(
        ls_kernel_find(&(ls_kernel_request){.id = id, .dtype = dtype, .isa = isa, .call = &timed.call}, &timed.kernel));
    const ls_status status = set_up(&timed);
    if (status.code != LS_OK)
        ls_timed_call_close(&timed);
    else
        *out = timed;
    return status;
}

double ls_timed_call_run(const ls_timed_call *t) {
    const double start = ls_seconds();
    t->kernel->run(&t->call, t->state, t->pool);
    return ls_seconds() - start;
}

void ls_timed_call_close(ls_timed_call *t) {
    if (t->state != NULL && t->kernel->release != NULL) t->kernel->release(t->state);
    ls_memory_unmap(t->memory, t->bytes);
}

/* --- calls on several cores at once ------------------------------------------------------------------------------- */

ls_status ls_timed_calls_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool, const ls_kernel_call *call,
                              ls_timed_calls *out) {
    int n = ls_pool_threads(pool);
    ls_timed_calls calls = {.pool = pool};
    calls.call = calloc((size_t)n, sizeof *calls.call);
    calls.seconds = calloc((size_t)n, sizeof *calls.seconds);
    ls_status status = ls_ok();
    if (calls.call == NULL || calls.seconds == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory to time %d calls of %s", n, ls_contracts[id].name);
    while (status.code == LS_OK && calls.n < n) {
        status = ls_timed_call_open(id, dtype, isa, NULL, call, &calls.call[calls.n]);
        if (status.code != LS_OK) break;
        const size_t each = ls_max(1, (int64_t)calls.call[0].bytes), some = ls_machine_available() / 4;
        if (calls.n++ == 0 && some > 0) n = (int)ls_max(1, ls_min(n, (int64_t)(some / each)));
    }
    if (status.code != LS_OK) {
        ls_timed_calls_close(&calls);
        return status;
    }
    *out = calls;
    return status;
}

typedef struct start {
    const ls_timed_calls *calls;
    atomic_int ready;
} start;

/* Each thread runs exactly one call, because it waits here until all calls have been taken. */
static void run_call(void *context, int i, int thread) {
    (void)thread;
    start *s = context;
    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->ready) < s->calls->n) {
    }
    s->calls->seconds[i] = ls_timed_call_run(&s->calls->call[i]);
}

double ls_timed_calls_run(const ls_timed_calls *calls) {
    start s = {.calls = calls};
    double sum = 0;
    ls_pool_run(calls->pool, calls->n, run_call, &s);
    for (int i = 0; i < calls->n; i++) sum += calls->seconds[i];
    return sum / calls->n;
}

void ls_timed_calls_close(ls_timed_calls *calls) {
    for (int i = 0; i < calls->n; i++) ls_timed_call_close(&calls->call[i]);
    free(calls->call);
    free(calls->seconds);
}

/* --- calls of attention ------------------------------------------------------------------------------------------- */

enum { SPANS = 3 }; /* index of the operand with the table of visible keys */

ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int pass, const ls_attention_shape *shape,
                                      const ls_mask *mask) {
    const int64_t S = shape->S, Hq = shape->Hq, Hkv = shape->Hkv, D = shape->D;
    const int width = ls_mask_width(mask);
    const ls_dtype G = ls_dtype_accumulator(T);
    const int64_t q[] = {1, S, Hq, D}, kv[] = {1, S, Hkv, D}, rows[] = {1, Hq, S}, spans[] = {1, S, 2 * width};
    int32_t *at = LS_NEW_ARRAY(arena, int32_t, S);
    ls_span *seen = LS_NEW_ARRAY(arena, ls_span, S * width);
    for (int64_t i = 0; i < S; i++) at[i] = (int32_t)i;
    ls_mask_table(mask, S, at, S, seen);
    ls_view span = ls_view_dense(NULL, LS_I32, 3, spans), position = ls_view_dense(NULL, LS_I32, 1, &S);
    span.data = seen;
    position.data = at;
    ls_attention_params *params = LS_NEW_ARRAY(arena, ls_attention_params, 1);
    *params = (ls_attention_params){.scale = 1 / sqrt((double)D), .group = (int)(Hq / Hkv)};
    ls_kernel_call call = {.n_in = SPANS + 2,
                           .in = {ls_view_dense(NULL, T, 4, q), ls_view_dense(NULL, T, 4, kv),
                                  ls_view_dense(NULL, T, 4, kv), span, position},
                           .params = params};
    const ls_view lse = ls_view_dense(NULL, G, 3, rows), o = ls_view_dense(NULL, G, 4, q);
    call.out[call.n_out++] = o; /* or dq */
    if (pass == LS_FORWARD) {
        call.out[call.n_out++] = lse;
        return call;
    }
    call.in[call.n_in++] = ls_view_dense(NULL, T, 4, q);
    call.in[call.n_in++] = lse;
    call.in[call.n_in++] = ls_view_dense(NULL, G, 3, rows);
    for (int i = 0; i < 2; i++) call.out[call.n_out++] = ls_view_dense(NULL, G, 4, kv);
    return call;
}

ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape) {
    const int64_t q[] = {1, shape->S, shape->Hq, shape->D}, rows[] = {1, shape->Hq, shape->S};
    const ls_view o = ls_view_dense(NULL, T, 4, q);
    return (ls_kernel_call){
        .n_in = 2, .in = {o, o}, .n_out = 1, .out = {ls_view_dense(NULL, ls_dtype_accumulator(T), 3, rows)}};
}

double ls_attention_call_pairs(const ls_kernel_call *call) {
    const ls_view *table = &call->in[SPANS];
    const ls_span *seen = table->data;
    int64_t keys = 0;
    for (int64_t i = 0; i < table->size[1] * table->size[2] / 2; i++) keys += ls_max(0, seen[i].hi - seen[i].lo);
    return (double)(keys * call->in[0].size[2]);
}
