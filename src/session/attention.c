/*
 * Attention alone (include/longspan/attention.h): one op and its gradient as a graph, compiled into two programs that
 * the ranks run.
 */
#include "session/attention_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the graph ---------------------------------------------------------------------------------------------------- */

const char *const ls_attention_input[LS_ATTENTION_INPUTS] = {"q", "k", "v", "grad_o", "sink"};
const char *const ls_attention_result[LS_ATTENTION_RESULTS] = {"o", "lse", "dq", "dk", "dv", "dsink"};

/* A copy of the mask whose document bounds live in the graph's arena. */
static ls_mask copy_mask(ls_graph *g, const ls_mask *given) {
    ls_mask mask = {.n = 0};
    if (given == NULL) return mask;
    mask = *given;
    for (int i = 0; i < mask.n; i++) {
        ls_mask_term *t = &mask.term[i];
        if (t->kind == LS_MASK_DOCUMENTS)
            t->ends = ls_arena_copy(g->arena, t->ends, sizeof *t->ends * (size_t)t->n_ends);
    }
    return mask;
}

/* The number of elements of a value head. */
static int64_t value_size(const ls_attention_options *o) { return o->value_size != 0 ? o->value_size : o->head_size; }

static ls_tensor add_input(ls_graph *g, const ls_attention_options *o, int i) {
    const int64_t heads = i == LS_K || i == LS_V ? o->kv_heads : o->heads,
                  size = i == LS_V || i == LS_GRAD_O ? value_size(o) : o->head_size;
    const ls_shape tokens = {
        4,
        {{o->batch, LS_FACTOR_BATCH}, {o->seq, LS_FACTOR_SEQUENCE}, {heads, LS_FACTOR_NONE}, {size, LS_FACTOR_NONE}}};
    const ls_shape sink = {1, {{o->heads, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, ls_attention_input[i], o->dtype, i == LS_SINK ? &sink : &tokens);
}

static ls_status differentiate(ls_attention_graph *a, const ls_tensor in[], bool sink) {
    ls_derivative d = {.n_roots = 1,
                       .root = {a->result[LS_O]},
                       .seed = {in[LS_GRAD_O]},
                       .n_wanted = sink ? 4 : 3,
                       .wanted = {in[LS_Q], in[LS_K], in[LS_V], in[LS_SINK]}};
    LS_TRY(ls_differentiate(a->graph, &d));
    memcpy(&a->result[LS_DQ], d.gradient, sizeof d.gradient[0] * (size_t)d.n_wanted);
    a->n_results = LS_DQ + d.n_wanted;
    /* Each rank has a partial sum; a cast needs the whole tensor, so the compiler adds the partial sums before it. */
    if (sink) a->result[LS_DSINK] = ls_cast(a->graph, a->result[LS_DSINK], a->graph->dtype);
    return ls_ok();
}

ls_status ls_attention_graph_build(const ls_attention_options *o, ls_attention_graph *out) {
    ls_graph *g = ls_graph_create(o->dtype);
    *out = (ls_attention_graph){.graph = g, .n_results = LS_DQ};
    ls_tensor in[LS_ATTENTION_INPUTS] = {LS_NO_TENSOR};
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) {
        const bool given = i == LS_SINK ? o->sink : i != LS_GRAD_O || o->gradients;
        if (given) in[i] = add_input(g, o, i);
    }
    const ls_mask mask = copy_mask(g, o->mask);
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)o->head_size);
    out->result[LS_O] = ls_attention_with_sink(g, in[LS_Q], in[LS_K], in[LS_V], in[LS_SINK], &mask, scale, o->softcap);
    out->result[LS_LSE] = ls_attention_lse(g, out->result[LS_O]);
    LS_TRY(ls_graph_status(g));
    out->forward_nodes = g->n_nodes;
    if (o->gradients) LS_TRY(differentiate(out, in, o->sink));
    for (int i = 0; i < out->n_results; i++) ls_named(g, out->result[i], "%s", ls_attention_result[i]);
    return ls_graph_status(g);
}

ls_job ls_attention_graph_job(const ls_attention_graph *g, bool apart) {
    return (ls_job){.graph = g->graph,
                    .programs = apart ? ls_apart_programs(g->graph, g->forward_nodes, LS_PROGRAM_BACKWARD)
                                      : ls_plain_programs(g->graph, g->forward_nodes),
                    .fetch = g->result,
                    .n_fetch = g->n_results};
}

/* --- an attention and its ranks ----------------------------------------------------------------------------------- */

struct ls_attention_state {
    const ls_shared_attention *attention;
    ls_rank *rank;
    bool forward_done;
};

/* --- options ------------------------------------------------------------------------------------------------------ */

static ls_status check_sizes(const ls_attention_options *o) {
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", o->batch},         {"seq", o->seq},
                 {"heads", o->heads},         {"kv_heads", o->kv_heads},
                 {"head_size", o->head_size}, {"value_size", value_size(o)}};
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
            return ls_error(LS_INVALID, "attention: %s is %lld; expected 1 to %d", sizes[i].name,
                            (long long)sizes[i].value, INT32_MAX);
    }
    const double elements =
        (double)o->batch * (double)o->seq * (double)o->heads * (double)ls_max(o->head_size, value_size(o));
    if (elements > 0x1p58)
        return ls_error(LS_INVALID, "attention: arrays of %g elements; expected at most 2^58", elements);
    if (o->heads % o->kv_heads != 0)
        return ls_error(LS_INVALID, "attention: %lld query heads and %lld KV heads; expected a multiple",
                        (long long)o->heads, (long long)o->kv_heads);
    return ls_ok();
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* All processes of launched ranks must have been given the same options. */
static ls_status compare_processes(const ls_attention_options *o) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add(alike, "element type", "%s", ls_dtype_name(o->dtype));
    ls_alike_add(alike, "shape", "batch %lld, seq %lld, %lld heads, %lld KV heads of %lld, values of %lld",
                 (long long)o->batch, (long long)o->seq, (long long)o->heads, (long long)o->kv_heads,
                 (long long)o->head_size, (long long)value_size(o));
    ls_alike_add(alike, "scale", "%.17g", o->scale);
    ls_alike_add(alike, "softcap", "%.17g", o->softcap);
    ls_alike_add(alike, "sink", "%d", o->sink);
    ls_alike_add(alike, "documents of each call", "%d", o->documents);
    ls_alike_add(alike, "gradients", "%d", o->gradients);
    for (int i = 0; o->mask != NULL && i < o->mask->n; i++) {
        const ls_mask_term *term = &o->mask->term[i];
        ls_alike_add(alike, "mask", "term %d: kind %d, window %lld, first %lld", i, (int)term->kind,
                     (long long)term->window, (long long)term->first);
        ls_alike_add_bytes(alike, "documents", term->ends, (size_t)term->n_ends * sizeof *term->ends);
    }
    return ls_alike_end(alike, ls_ok());
}

/* The full mask needs a term; without one, the programs would have no table of what a query sees. */
static void prepare_documents(ls_shared_attention *a) {
    a->bounds[1] = (int32_t)a->options.seq;
    a->whole = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = a->bounds, .n_ends = 2};
    a->only_documents = (ls_mask){.n = 1, .term = {a->whole}};
    if (a->options.mask == NULL || a->options.mask->n == 0) a->options.mask = &a->only_documents;
}

static ls_status open_all(ls_shared_attention *a) {
    const ls_attention_options *o = &a->options;
    if ((int)o->dtype < 0 || o->dtype >= LS_DTYPES)
        return ls_error(LS_INVALID, "attention: element type %d; expected one of ls_dtype", (int)o->dtype);
    LS_TRY(check_sizes(o));
    if (o->mask != NULL) LS_TRY(ls_error_in(ls_mask_check(o->mask, o->seq), "attention"));
    if (o->documents) prepare_documents(a);
    LS_TRY(ls_attention_graph_build(o, &a->graph));
    a->job = ls_attention_graph_job(&a->graph, true);
    if (o->documents) {
        a->job.documents = &a->whole;
        a->job.n_documents = 1;
    }
    LS_TRY(compare_processes(o));
    LS_TRY(ls_session_open(&a->job, &o->spread, &a->session));
    a->backward = ls_program_find(ls_session_image(a->session), LS_PROGRAM_BACKWARD);
    return ls_ok();
}

ls_status ls_shared_attention_open(const ls_attention_options *options, ls_shared_attention **out) {
    LS_NEED(options, "options");
    LS_NEED(out, "out");
    ls_shared_attention *a = calloc(1, sizeof *a);
    if (a == NULL) return ls_error(LS_NO_MEMORY, "no memory for an attention");
    a->options = *options;
    a->process = getpid();
    pthread_mutex_init(&a->lock, NULL);
    const ls_status status = open_all(a);
    a->options.mask = NULL; /* the caller may free the mask; the graph has a copy */
    if (status.code != LS_OK) {
        ls_shared_attention_close(a);
        return status;
    }
    *out = a;
    return ls_ok();
}

void ls_shared_attention_close(ls_shared_attention *a) {
    /* a forked copy of the process does not have the threads of the ranks */
    if (a == NULL || a->process != getpid()) return;
    ls_session_close(a->session);
    pthread_mutex_destroy(&a->lock);
    ls_graph_destroy(a->graph.graph);
    free(a);
}

ls_spread_result ls_shared_attention_describe(const ls_shared_attention *a) {
    if (a == NULL) return (ls_spread_result){.seconds = 0};
    return ls_session_describe(a->session);
}

const ls_session *ls_shared_attention_session(const ls_shared_attention *a) { return a->session; }

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static ls_attention_array array_of(const ls_rank *rank, const char *name) {
    const ls_binding *binding = ls_image_find(rank->image, name);
    ls_attention_array array = {.data = NULL};
    if (binding == NULL) return array;
    const ls_view *v = &binding->operand.view;
    array = (ls_attention_array){
        .data = ls_executor_host_address(rank->executor, &binding->operand), .dtype = v->dtype, .ndim = v->ndim};
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
    r.first_batch = r.batch * ls_mesh_replica(&image->mesh, rank->rank);
    r.n = r.q.size[1];
    return r;
}

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const ls_shared_attention *a = input;
    ls_attention_state state = {.attention = a, .rank = rank};
    ls_attention_rank r = rank_of(rank);
    if (r.q.data == NULL)
        return ls_error(LS_UNSUPPORTED, "attention on a device whose memory the host cannot address; expected cpu");
    r.state = &state;
    int32_t *positions = malloc(sizeof *positions * (size_t)r.n);
    if (positions == NULL) return ls_error(LS_NO_MEMORY, "no memory for the positions of %lld tokens", (long long)r.n);
    ls_layout_positions(&rank->image->layout, ls_mesh_sequence_index(&rank->image->mesh, rank->rank), positions);
    r.positions = positions;
    const ls_status status = ls_status_sound(a->work(&r, a->input, result));
    free(positions);
    return status;
}

ls_status ls_shared_attention_run(ls_shared_attention *a, ls_attention_work work, const void *input, void *result,
                                  size_t bytes) {
    LS_NEED(a, "attention");
    LS_NEED(work, "work");
    if (bytes > 0) LS_NEED(result, "result");
    if (a->ran || a->called) return ls_error(LS_USAGE, "this attention has run; open another");
    a->ran = true;
    a->work = work;
    a->input = input;
    return ls_session_run(a->session, on_rank, a, result, bytes);
}

/* LS_INVALID unless r is the rank that ls_shared_attention_run passes to `work`. */
static ls_status check_rank(const ls_attention_rank *r) {
    if (r != NULL && r->state != NULL) return ls_ok();
    return ls_error(LS_INVALID, "no rank; expected the one that ls_shared_attention_run gives to `work`");
}

ls_status ls_attention_forward(ls_attention_rank *r) {
    LS_TRY(check_rank(r));
    LS_TRY(ls_executor_run(r->state->rank->executor, r->state->rank->evaluate));
    r->state->forward_done = true;
    return ls_ok();
}

ls_status ls_attention_backward(ls_attention_rank *r) {
    LS_TRY(check_rank(r));
    if (!r->state->attention->options.gradients)
        return ls_error(LS_USAGE, "backward on an attention that was opened without gradients");
    if (!r->state->forward_done) return ls_error(LS_USAGE, "backward before any forward: there is no o, no lse");
    return ls_executor_run(r->state->rank->executor, r->state->attention->backward);
}

/* Finds the array of that name, if this attention has one. */
static ls_status find_array(const ls_attention_rank *r, const char *name, const ls_binding **out) {
    const ls_image *image = r->state->rank->image;
    char known[128] = "";
    for (int i = 0; i < LS_ATTENTION_INPUTS + LS_ATTENTION_RESULTS; i++) {
        const bool input = i < LS_ATTENTION_INPUTS;
        const char *one = input ? ls_attention_input[i] : ls_attention_result[i - LS_ATTENTION_INPUTS];
        const size_t used = strlen(known);
        *out = ls_image_find(image, one);
        if (*out != NULL && strcmp(one, name) == 0) return ls_ok();
        if (*out != NULL) snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", one);
    }
    return ls_error(LS_USAGE, "this attention has no array \"%s\"; expected one of %s", name, known);
}

ls_status ls_attention_get(ls_attention_rank *r, const char *name, void *out) {
    const ls_binding *binding;
    LS_TRY(check_rank(r));
    LS_NEED(name, "name");
    LS_TRY(find_array(r, name, &binding));
    ls_comm_doing(r->state->rank->comm, "array \"%s\"", name);
    return ls_rank_gather_tensor(r->state->rank, binding, true, out);
}

ls_status ls_attention_gather(ls_attention_rank *r, const void *mine, size_t bytes, void *all) {
    LS_TRY(check_rank(r));
    LS_NEED(mine, "mine");
    LS_NEED(all, "all");
    return ls_comm_exchange(r->state->rank->comm, mine, bytes, all);
}

ls_status ls_attention_barrier(ls_attention_rank *r, bool *stop) {
    LS_TRY(check_rank(r));
    const ls_rank *rank = r->state->rank;
    if (stop == NULL) return ls_comm_barrier(rank->comm);
    int64_t asked = ls_comm_stop_requested(rank->comm);
    LS_TRY(ls_comm_max_i64(rank->comm, &asked, 1));
    *stop = asked != 0;
    return ls_ok();
}
