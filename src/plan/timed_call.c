#include "plan/plan.h"

#include "run/run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/* Bytes of the operands that have no data; with memory they are given theirs. */
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
    if (t->bytes > 0) memset(t->memory, 0, t->bytes); /* every page is there */
    place(call->out, call->n_out, place(call->in, call->n_in, 0, t->memory), t->memory);
    call->workspace = t->memory != NULL ? (char *)t->memory + at : NULL;
    return t->kernel->prepare != NULL ? t->kernel->prepare(call, &t->state) : ls_ok();
}

ls_status ls_timed_call_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                             const ls_kernel_call *call, ls_timed_call *out) {
    ls_timed_call timed = {.call = *call, .pool = pool};
    LS_TRY(ls_kernel_find(id, dtype, isa, &timed.kernel));
    timed.call.threads = ls_pool_threads(pool);
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

/* --- on several cores at once ------------------------------------------------------------------------------------------------ */

ls_status ls_timed_crowd_open(ls_kernel_id id, ls_dtype dtype, ls_isa isa, ls_pool *pool,
                              const ls_kernel_call *call, ls_timed_crowd *out) {
    int n = ls_pool_threads(pool);
    ls_timed_crowd crowd = {.pool = pool};
    crowd.member = calloc((size_t)n, sizeof *crowd.member);
    crowd.seconds = calloc((size_t)n, sizeof *crowd.seconds);
    ls_status status = ls_ok();
    if (crowd.member == NULL || crowd.seconds == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory to time %d calls of %s", n, ls_contracts[id].name);
    while (status.code == LS_OK && crowd.n < n) {
        status = ls_timed_call_open(id, dtype, isa, NULL, call, &crowd.member[crowd.n]);
        if (status.code != LS_OK) break;
        const size_t each = ls_max(1, (int64_t)crowd.member[0].bytes), some = ls_machine_available() / 4;
        if (crowd.n++ == 0 && some > 0) n = (int)ls_max(1, ls_min(n, (int64_t)(some / each)));
    }
    if (status.code != LS_OK) {
        ls_timed_crowd_close(&crowd);
        return status;
    }
    *out = crowd;
    return status;
}

typedef struct start {
    const ls_timed_crowd *crowd;
    atomic_int here;
} start;

/* Whoever waits for the others takes no second call, so each thread has one. */
static void run_member(void *context, int i, int thread) {
    (void)thread;
    start *s = context;
    atomic_fetch_add(&s->here, 1);
    while (atomic_load(&s->here) < s->crowd->n) {
    }
    s->crowd->seconds[i] = ls_timed_call_run(&s->crowd->member[i]);
}

double ls_timed_crowd_run(const ls_timed_crowd *crowd) {
    start s = {.crowd = crowd};
    double sum = 0;
    ls_pool_run(crowd->pool, crowd->n, run_member, &s);
    for (int i = 0; i < crowd->n; i++) sum += crowd->seconds[i];
    return sum / crowd->n;
}

void ls_timed_crowd_close(ls_timed_crowd *crowd) {
    for (int i = 0; i < crowd->n; i++) ls_timed_call_close(&crowd->member[i]);
    free(crowd->member);
    free(crowd->seconds);
}
