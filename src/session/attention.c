/* Attention alone (include/longspan/attention.h): one op and its gradient as a graph, spread over ranks, in two programs. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

struct ls_shared_attention {
    ls_attention_options options;
    ls_attention_graph graph;
    ls_job job;
    ls_session *session;
    bool ran;
    ls_attention_work work; /* while it runs */
    void *context;
};

struct ls_attention_state {
    const ls_shared_attention *attention;
    ls_rank *rank;
    bool forward; /* has been called */
};

/* --- options ----------------------------------------------------------------------------------------------------------------- */

static ls_status check_sizes(const ls_attention_options *o) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", o->batch},
                 {"seq", o->seq},
                 {"heads", o->heads},
                 {"kv_heads", o->kv_heads},
                 {"head_size", o->head_size}};
    double elements = 1;
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
            return ls_error(LS_INVALID, "attention: %s is %lld; expected 1 to %d", sizes[i].name,
                            (long long)sizes[i].value, INT32_MAX);
        elements *= (double)sizes[i].value;
    }
    if (elements > 0x1p58)
        return ls_error(LS_INVALID, "attention: arrays of %g elements; expected at most 2^58", elements);
    if (o->heads % o->kv_heads != 0)
        return ls_error(LS_INVALID, "attention: %lld query heads and %lld KV heads; expected a multiple",
                        (long long)o->heads, (long long)o->kv_heads);
    return ls_ok();
}

/* --- opening ----------------------------------------------------------------------------------------------------------------- */

static ls_status open_all(ls_shared_attention *a) {
    const ls_attention_options *o = &a->options;
    if ((int)o->dtype < 0 || o->dtype >= LS_DTYPES)
        return ls_error(LS_INVALID, "attention: element type %d; expected one of ls_dtype", (int)o->dtype);
    LS_TRY(check_sizes(o));
    if (o->mask != NULL) LS_TRY(ls_error_in(ls_mask_check(o->mask, o->seq), "attention"));
    LS_TRY(ls_attention_graph_build(o, &a->graph));
    a->job = ls_attention_graph_job(&a->graph);
    a->job.apart = LS_PROGRAM_BACKWARD;
    return ls_session_open(&a->job, &o->spread, &a->session);
}

ls_status ls_shared_attention_open(const ls_attention_options *options, ls_shared_attention **out) {
    LS_NEED(options, "options");
    LS_NEED(out, "out");
    ls_shared_attention *a = calloc(1, sizeof *a);
    if (a == NULL) return ls_error(LS_NO_MEMORY, "no memory for an attention");
    a->options = *options;
    const ls_status status = open_all(a);
    a->options.mask = NULL; /* the caller's */
    if (status.code != LS_OK) {
        ls_shared_attention_close(a);
        return status;
    }
    *out = a;
    return ls_ok();
}

void ls_shared_attention_close(ls_shared_attention *a) {
    if (a == NULL) return;
    ls_session_close(a->session);
    ls_graph_destroy(a->graph.graph);
    free(a);
}

ls_spread_result ls_shared_attention_describe(const ls_shared_attention *a) {
    if (a == NULL) return (ls_spread_result){.seconds = 0};
    return ls_session_describe(a->session);
}

const ls_session *ls_shared_attention_session(const ls_shared_attention *a) { return a->session; }

/* --- on a rank --------------------------------------------------------------------------------------------------------------- */

static ls_attention_array array_of(const ls_rank *rank, const char *name) {
    const ls_binding *binding = ls_image_find(rank->image, name);
    ls_attention_array array = {.data = NULL};
    if (binding == NULL) return array;
    const ls_view *v = &binding->operand.view;
    array = (ls_attention_array){
        .data = ls_executor_address(rank->executor, &binding->operand), .dtype = v->dtype, .ndim = v->ndim};
    memcpy(array.size, v->size, sizeof array.size[0] * (size_t)v->ndim);
    return array;
}

static ls_attention_rank rank_of(const ls_rank *rank) {
    const ls_image *image = rank->image;
    ls_attention_rank r = {.rank = rank->rank, .ranks = rank->ranks};
    ls_attention_array *const in[LS_ATTENTION_INPUTS] = {&r.q, &r.k, &r.v, &r.grad_o, &r.sink};
    ls_attention_array *const out[LS_ATTENTION_RESULTS] = {&r.o, &r.lse, &r.dq, &r.dk, &r.dv, &r.dsink};
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) *in[i] = array_of(rank, ls_attention_input[i]);
    for (int i = 0; i < LS_ATTENTION_RESULTS; i++) *out[i] = array_of(rank, ls_attention_result[i]);
    r.batch = r.q.size[0];
    r.first_batch = r.batch * ls_mesh_coordinate(&image->mesh, rank->rank, LS_AXIS_DP);
    r.n = r.q.size[1];
    return r;
}

static ls_status on_rank(ls_rank *rank, void *context) {
    const ls_shared_attention *a = context;
    ls_attention_state state = {.attention = a, .rank = rank};
    ls_attention_rank r = rank_of(rank);
    r.state = &state;
    int32_t *positions = malloc(sizeof *positions * (size_t)r.n);
    if (positions == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the positions of %lld tokens", (long long)r.n);
    ls_layout_positions(&rank->image->layout, ls_mesh_sequence_index(&rank->image->mesh, rank->rank),
                        positions);
    r.positions = positions;
    const ls_status status = a->work(&r, a->context);
    free(positions);
    return status;
}

ls_status ls_shared_attention_run(ls_shared_attention *a, ls_attention_work work, void *context,
                                  size_t bytes) {
    LS_NEED(a, "attention");
    LS_NEED(work, "work");
    if (bytes > 0) LS_NEED(context, "context");
    if (a->ran) return ls_error(LS_USAGE, "this attention has run; open another");
    void *shared = NULL;
    if (bytes > 0) {
        LS_TRY(ls_shared_map(bytes, &shared));
        memcpy(shared, context, bytes);
    }
    a->ran = true;
    a->work = work;
    a->context = bytes > 0 ? shared : context;
    const ls_status status = ls_session_run(a->session, on_rank, a);
    if (bytes > 0) memcpy(context, shared, bytes);
    ls_shared_unmap(shared, bytes);
    return status;
}

/* A call on something else than the rank that `work` was given. */
static ls_status check_rank(const ls_attention_rank *r) {
    if (r != NULL && r->state != NULL) return ls_ok();
    return ls_error(LS_INVALID, "no rank; expected the one that ls_shared_attention_run gives to `work`");
}

ls_status ls_attention_forward(ls_attention_rank *r) {
    LS_TRY(check_rank(r));
    LS_TRY(ls_executor_run(r->state->rank->executor, LS_PROGRAM_EVALUATE));
    r->state->forward = true;
    return ls_ok();
}

ls_status ls_attention_backward(ls_attention_rank *r) {
    LS_TRY(check_rank(r));
    if (!r->state->attention->options.gradients)
        return ls_error(LS_USAGE, "backward on an attention that was opened without gradients");
    if (!r->state->forward) return ls_error(LS_USAGE, "backward before any forward: there is no o, no lse");
    return ls_executor_run(r->state->rank->executor, LS_PROGRAM_BACKWARD);
}

ls_status ls_attention_barrier(ls_attention_rank *r, bool *stop) {
    LS_TRY(check_rank(r));
    const ls_rank *rank = r->state->rank;
    if (stop == NULL) return ls_comm_barrier(rank->comm);
    const bool mine = ls_comm_stop_requested(rank->comm);
    bool *all = malloc(sizeof *all * (size_t)rank->ranks);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "no memory for the wishes of %d ranks", rank->ranks);
    const ls_status status = ls_comm_exchange(rank->comm, &mine, sizeof mine, all);
    bool any = false;
    for (int i = 0; i < rank->ranks && status.code == LS_OK; i++) any |= all[i];
    if (status.code == LS_OK) *stop = any;
    free(all);
    return status;
}
