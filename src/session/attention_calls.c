/*
 * Attention as calls on the caller's whole arrays (include/longspan/attention.h). The ranks are threads that remain
 * between calls. In a call, each copies its part of the arrays into its own memory, runs a program, and copies its part
 * of the results back.
 */
#include "session/attention_impl.h"

#include <unistd.h>

/* What a call asks the ranks to do. */
typedef struct task {
    bool backward;
    const ls_attention_arrays *call;
} task;

/* --- the arrays of a call ----------------------------------------------------------------------------------------- */

typedef enum array_kind { TOKENS, LSE, SINK } array_kind;
typedef enum use { UNUSED, READ, WRITTEN, WANTED } use; /* WANTED: written if the caller gave an array */

/* The arrays by their names in the image, and how a forward and a backward call use each. */
static const struct {
    const char *name;
    array_kind kind;
    size_t at; /* offset in ls_attention_arrays */
    use in[2]; /* use in a forward call, in a backward call */
} arrays[] = {
#define ARRAY(name, kind, forward, backward)                                    \
    {                                                                           \
#name, kind, offsetof(ls_attention_arrays, name), { forward, backward } \
    }
    ARRAY(q, TOKENS, READ, READ),        ARRAY(k, TOKENS, READ, READ),       ARRAY(v, TOKENS, READ, READ),
    ARRAY(sink, SINK, READ, READ),       ARRAY(o, TOKENS, WRITTEN, READ),    ARRAY(lse, LSE, WANTED, READ),
    ARRAY(grad_o, TOKENS, UNUSED, READ), ARRAY(dq, TOKENS, UNUSED, WANTED),  ARRAY(dk, TOKENS, UNUSED, WANTED),
    ARRAY(dv, TOKENS, UNUSED, WANTED),   ARRAY(dsink, SINK, UNUSED, WANTED),
#undef ARRAY
};

typedef struct place {
    void *data;
    int64_t strides[4]; /* in elements */
} place;

static place place_of(const ls_attention_options *o, const ls_attention_arrays *call, size_t i) {
    const void *at = (const char *)call + arrays[i].at;
    if (arrays[i].kind == SINK) return (place){*(void *const *)at, {1}};
    if (arrays[i].kind == LSE) return (place){*(void *const *)at, {o->heads * o->seq, o->seq, 1}};
    const ls_attention_strided *a = at;
    return (place){a->data, {a->batch, a->token, a->head, 1}};
}

static bool exists(const ls_attention_options *o, size_t i) { return arrays[i].kind != SINK || o->sink; }

/* LS_INVALID: elements of a result would overlap. */
static ls_status check_result(const ls_attention_options *o, const place *p, size_t i) {
    const int64_t sizes[] = {o->batch, o->seq, o->heads};
    static const char *const names[] = {"batch", "token", "head"};
    for (int d = 0; arrays[i].kind == TOKENS && d < 3; d++) {
        if (sizes[d] > 1 && p->strides[d] == 0)
            return ls_error(LS_INVALID, "attention: %s has stride 0 for each %s; expected one that keeps results apart",
                            arrays[i].name, names[d]);
    }
    return ls_ok();
}

/* LS_INVALID unless the bounds of each sequence ascend from 0 to its length. */
static ls_status check_documents(const ls_attention_options *o, const ls_attention_arrays *c) {
    if (c->ends == NULL) return ls_ok();
    if (!o->documents) return ls_error(LS_USAGE, "documents on an attention that was opened without documents");
    LS_NEED(c->n_ends, "n_ends");
    for (int64_t b = 0; b < o->batch; b++) {
        const ls_mask documents = {
            .n = 1, .term = {{.kind = LS_MASK_DOCUMENTS, .ends = c->ends + b * c->room, .n_ends = c->n_ends[b]}}};
        LS_TRY(ls_error_in(ls_mask_check(&documents, o->seq), "attention: documents of sequence %lld", (long long)b));
    }
    return ls_ok();
}

/* LS_USAGE: the ranks cannot copy from and to a GPU. */
static ls_status check_device(const ls_shared_attention *a, const ls_attention_arrays *c) {
    const char *name = ls_session_plan(a->session)->target.device;
    ls_device_traits device;
    if (!c->on_device) return ls_ok();
    LS_TRY(ls_device_choose(name, &name, &device));
    if (device.submits) return ls_ok();
    return ls_error(LS_USAGE, "attention: arrays on a GPU and ranks on the device %s; expected the device cuda", name);
}

static ls_status check_call(const ls_shared_attention *a, const task *t) {
    const char *what = t->backward ? "backward" : "forward";
    if (a->process != getpid())
        return ls_error(LS_USAGE,
                        "attention: %s in a process that was forked from the one that opened it; open "
                        "another here",
                        what);
    if (a->ran) return ls_error(LS_USAGE, "attention: %s after ls_shared_attention_run; open another", what);
    if (t->backward && !a->options.gradients)
        return ls_error(LS_USAGE, "backward on an attention that was opened without gradients");
    for (size_t i = 0; i < LS_COUNT(arrays); i++) {
        const use u = arrays[i].in[t->backward];
        const place p = place_of(&a->options, t->call, i);
        if (u == UNUSED || !exists(&a->options, i)) continue;
        if (p.data == NULL && u != WANTED)
            return ls_error(LS_INVALID, "attention: %s without %s; expected the address of an array", what,
                            arrays[i].name);
        if (p.data != NULL && u != READ) LS_TRY(check_result(&a->options, &p, i));
    }
    LS_TRY(check_device(a, t->call));
    return check_documents(&a->options, t->call);
}

/*
 * For arrays on a device, with ranks that also use a device: LS_INVALID names an array that is not there; otherwise
 * blocks until the arrays have been computed.
 */
static ls_status follow_caller(const ls_shared_attention *a, const task *t) {
    ls_executor *executor = ls_session_first_executor(a->session);
    for (size_t i = 0; i < LS_COUNT(arrays); i++) {
        const place p = place_of(&a->options, t->call, i);
        if (arrays[i].in[t->backward] == UNUSED || !exists(&a->options, i) || p.data == NULL) continue;
        LS_TRY(ls_error_in(ls_executor_knows(executor, p.data), "attention: %s", arrays[i].name));
    }
    return ls_error_in(ls_executor_follow(executor, t->call->stream), "attention");
}

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

/* Copies this rank's part of array i from the caller, or to the caller. */
static ls_status copy(const ls_attention_options *o, const ls_rank *rank, const task *t, size_t i, bool in) {
    const place p = place_of(o, t->call, i);
    const ls_binding *binding = ls_image_find(rank->image, arrays[i].name);
    if (p.data == NULL || binding == NULL || (!in && !ls_rank_contributes(rank, binding))) return ls_ok();
    ls_executor *executor = rank->executor;
    if (t->call->on_device && in) return ls_executor_scatter_on_device(executor, binding, p.data, p.strides);
    if (t->call->on_device) return ls_executor_gather_on_device(executor, binding, p.data, p.strides);
    if (in) return ls_executor_scatter_strided(executor, binding, p.data, p.strides);
    return ls_executor_gather_strided(executor, binding, p.data, p.strides);
}

static ls_status copy_all(const ls_attention_options *o, const ls_rank *rank, const task *t, bool in) {
    for (size_t i = 0; i < LS_COUNT(arrays); i++) {
        const use u = arrays[i].in[t->backward];
        if (u != UNUSED && (u == READ) == in) LS_TRY(copy(o, rank, t, i, in));
    }
    return t->call->on_device ? ls_executor_finish_on_device(rank->executor) : ls_ok();
}

static ls_status set_documents(const ls_attention_options *o, const ls_rank *rank, const ls_attention_arrays *c) {
    const ls_mesh *mesh = &rank->image->mesh;
    const int64_t first = o->batch / ls_mesh_replicas(mesh) * ls_mesh_replica(mesh, rank->rank);
    if (c->ends == NULL) return ls_executor_set_documents(rank->executor, 0, NULL, NULL, 0);
    return ls_executor_set_documents(rank->executor, 0, c->ends + first * c->room, c->n_ends + first, c->room);
}

typedef struct server {
    const ls_shared_attention *attention;
    const ls_rank *rank;
    bool ran; /* whether some program has run */
} server;

static ls_status do_task(void *state, const void *given) {
    server *s = state;
    const task *t = given;
    const ls_attention_options *o = &s->attention->options;
    ls_executor *executor = s->rank->executor;
    /* The programs are proved only for the order in which a forward pass comes first; it may read arbitrary numbers. */
    if (t->backward && !s->ran) LS_TRY(ls_executor_run(executor, s->rank->evaluate));
    s->ran = true;
    LS_TRY(set_documents(o, s->rank, t->call));
    LS_TRY(copy_all(o, s->rank, t, true));
    LS_TRY(ls_executor_run(executor, t->backward ? s->attention->backward : s->rank->evaluate));
    return copy_all(o, s->rank, t, false);
}

static ls_status serve(ls_rank *rank, const void *input, void *result) {
    server s = {.attention = input, .rank = rank};
    (void)result;
    return ls_crew_serve(rank->crew, rank->rank, do_task, &s);
}

/* --- the caller --------------------------------------------------------------------------------------------------- */

static ls_status call_ranks(ls_shared_attention *a, const task *t) {
    if (!a->called) a->started = ls_session_start(a->session, serve, a);
    a->called = true;
    LS_TRY(a->started);
    if (t->call->on_device) LS_TRY(follow_caller(a, t));
    return ls_session_call(a->session, t);
}

static ls_status call(ls_shared_attention *a, const ls_attention_arrays *call, bool backward) {
    const task t = {.backward = backward, .call = call};
    LS_NEED(a, "attention");
    LS_NEED(call, "call");
    LS_TRY(check_call(a, &t));
    pthread_mutex_lock(&a->lock);
    const ls_status status = call_ranks(a, &t);
    pthread_mutex_unlock(&a->lock);
    return status;
}

ls_status ls_shared_attention_forward(ls_shared_attention *a, const ls_attention_arrays *c) {
    return call(a, c, false);
}

ls_status ls_shared_attention_backward(ls_shared_attention *a, const ls_attention_arrays *c) {
    return call(a, c, true);
}
