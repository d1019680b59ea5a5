/* Engines (include/longspan/engine.h): checks a user's graph, completes it with gradients, compiles and runs it. */
#include "session/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the graph, completed ----------------------------------------------------------------------------------------- */

/* LS_INVALID for a name that one of the program's own tensors has. */
static ls_status check_name_free(const ls_engine *e, const char *name) {
    static const char *const reserved[] = {LS_BIND_TOTALS, LS_BIND_RESULT,     LS_BIND_HYPER,     LS_BIND_CONTROL,
                                           LS_BIND_LOSS,   LS_BIND_PARAMETERS, LS_BIND_GRADIENTS, LS_BIND_SHARD,
                                           LS_BIND_MASTER, LS_BIND_FROZEN,     LS_BIND_KEPT,      LS_BIND_SCALE,
                                           LS_BIND_GROUPS, LS_BIND_SETTINGS};
    const ls_optimizer *optimizer = ls_job_optimizer(&e->job);
    bool taken = false;
    for (size_t i = 0; i < LS_COUNT(reserved); i++) taken |= strcmp(name, reserved[i]) == 0;
    for (int i = 0; i < optimizer->n_states; i++) taken |= strcmp(name, optimizer->states[i].binding) == 0;
    if (taken) return ls_error(LS_INVALID, "tensor \"%s\": Longspan uses this name itself; choose another", name);
    return ls_ok();
}

static ls_status check_leaves(const ls_engine *e) {
    const ls_graph *g = e->graph;
    int parameters = 0;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        if (info->role == LS_ROLE_ACCUMULATOR)
            return ls_error(LS_USAGE, "this graph belongs to another engine already; build it again");
        if (info->role == LS_ROLE_INPUT) LS_TRY(check_name_free(e, info->name));
        parameters += info->role == LS_ROLE_PARAMETER;
    }
    if (parameters == 0 && e->options.purpose != LS_TO_EVALUATE)
        return ls_error(LS_USAGE, "the graph has no parameters; it can only be opened to evaluate");
    return ls_ok();
}

static ls_status check_read(const ls_engine *e) {
    const ls_engine_options *o = &e->options;
    for (int i = 0; i < o->n_read; i++) {
        if (!ls_graph_has(e->graph, o->read[i]))
            return ls_error(LS_INVALID, "options.read[%d] is not a tensor of this graph", i);
        const ls_tensor_info *info = ls_graph_tensor(e->graph, o->read[i]);
        LS_TRY(check_name_free(e, info->name));
        if (info->role != LS_ROLE_VALUE)
            return ls_error(LS_INVALID, "tensor \"%s\" is to be read, but no op makes it", info->name);
        for (int k = 0; k < i; k++) {
            if (strcmp(ls_graph_tensor(e->graph, o->read[k])->name, info->name) == 0)
                return ls_error(LS_INVALID, "two tensors to be read are called \"%s\"", info->name);
        }
    }
    return ls_ok();
}

static ls_status check_loss(const ls_engine *e, ls_tensor loss) {
    const ls_graph *g = e->graph;
    if (loss.id == 0 && e->options.purpose == LS_TO_EVALUATE) return ls_ok();
    if (!ls_graph_has(g, loss)) return ls_error(LS_INVALID, "the loss is no tensor of this graph");
    const ls_tensor_info *info = ls_graph_tensor(g, loss);
    if (ls_shape_elements(&info->shape) != 1 || info->shape.ndim != 1 || info->dtype != g->accumulator ||
        info->role != LS_ROLE_VALUE)
        return ls_error(LS_INVALID, "the loss \"%s\" is %s with %d dimensions; expected %s[1], as ls_sum gives",
                        info->name, ls_dtype_name(info->dtype), info->shape.ndim, ls_dtype_name(g->accumulator));
    return ls_ok();
}

/* Adds the sum of the loss over micro-batches, and the gradients, to the graph. */
static ls_status complete(ls_engine *e, ls_tensor loss) {
    ls_graph *g = e->graph;
    LS_TRY(ls_graph_status(g));
    LS_TRY(check_leaves(e));
    LS_TRY(check_read(e));
    LS_TRY(check_loss(e, loss));
    if (loss.id != 0) LS_TRY(ls_graph_accumulate_loss(g, loss));
    e->forward_nodes = g->n_nodes;
    if (e->options.purpose == LS_TO_EVALUATE) return ls_ok();
    return ls_graph_differentiate_loss(g, loss);
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static ls_status check_unit(const char *name, double value) {
    if (value >= 0 && value < 1) return ls_ok();
    return ls_error(LS_USAGE, "%s is %g; expected at least 0 and less than 1", name, value);
}

/* An option's number becomes its default if it is 0. `at` is its offset in ls_hyperparameters. */
static ls_status take_number(const ls_optimizer *optimizer, const char *option, size_t at, double *number) {
    if (*number == 0)
        *number = ls_optimizer_initial(optimizer, at);
    else if (!ls_optimizer_has(optimizer, at))
        return ls_optimizer_lacks(optimizer, at, option);
    return ls_ok();
}

/* Takes the choice of the optimiser and its defaults from the options; a weight decay of 0 means none. */
static ls_status choose_optimizer(ls_engine_options *o, ls_job *job) {
    LS_TRY(ls_optimizer_find(o->optimizer, &job->optimizer));
    LS_TRY(take_number(job->optimizer, "beta1", offsetof(ls_hyperparameters, beta1), &o->beta1));
    LS_TRY(take_number(job->optimizer, "beta2", offsetof(ls_hyperparameters, beta2), &o->beta2));
    LS_TRY(take_number(job->optimizer, "epsilon", offsetof(ls_hyperparameters, epsilon), &o->epsilon));
    LS_TRY(take_number(job->optimizer, "momentum", offsetof(ls_hyperparameters, momentum), &o->momentum));
    double nesterov = o->nesterov ? 1 : 0;
    LS_TRY(take_number(job->optimizer, "nesterov", offsetof(ls_hyperparameters, nesterov), &nesterov));
    LS_TRY(check_unit("beta1", o->beta1));
    LS_TRY(check_unit("beta2", o->beta2));
    LS_TRY(check_unit("momentum", fmax(o->momentum, 0)));
    if (!(o->epsilon >= 0 && isfinite(o->epsilon)) || !(o->weight_decay >= 0 && isfinite(o->weight_decay)))
        return ls_error(LS_USAGE, "epsilon %g, weight decay %g; expected finite numbers, not negative", o->epsilon,
                        o->weight_decay);
    job->hyper = (ls_hyperparameters){o->beta1, o->beta2, o->epsilon, o->weight_decay, fmax(o->momentum, 0), nesterov};
    return ls_ok();
}

enum { MOST_MICRO_BATCHES = 1 << 24 }; /* as for a training */

static ls_status fill_defaults(ls_engine_options *o) {
    if (o->micro_batches == 0) o->micro_batches = 1;
    if (o->micro_batches < 1 || o->micro_batches > MOST_MICRO_BATCHES)
        return ls_error(LS_USAGE, "%lld micro-batches; expected 1 to %d", (long long)o->micro_batches,
                        MOST_MICRO_BATCHES);
    return ls_ok();
}

static const ls_update update_for[] = {[LS_TO_TRAIN] = LS_UPDATE_APPLY, [LS_TO_DIFFERENTIATE] = LS_UPDATE_REDUCE};

static bool is_among(const ls_tensor *list, int n, ls_tensor t) {
    bool among = false;
    for (int i = 0; i < n; i++) among |= list[i].id == t.id;
    return among;
}

/* Collects what the user reads, and what a worker reads if a loss is not finite. */
static ls_status copy_read(ls_engine *e) {
    const int n = e->options.n_read, more = e->graph->n_shortfalls;
    const ls_tensor *given = e->options.read;
    e->options.read = NULL;
    if (n < 0 || (n > 0 && given == NULL))
        return ls_error(LS_INVALID, "options.n_read is %d%s", n,
                        n > 0 ? ", but options.read is NULL" : "; expected 0 or more");
    if (n + more == 0) return ls_ok();
    ls_tensor *own = malloc(sizeof *own * (size_t)(n + more));
    if (own == NULL) return ls_error(LS_NO_MEMORY, "no memory for a list of %d tensors", n + more);
    if (n > 0) memcpy(own, given, sizeof *own * (size_t)n);
    for (int i = 0; i < more; i++) {
        const ls_tensor count = e->graph->shortfalls[i].count;
        if (!is_among(own, n, count)) own[e->options.n_read++] = count;
    }
    e->options.read = own;
    return ls_ok();
}

/* All processes of launched ranks must have been given the same. */
static ls_status compare_processes(const ls_engine_options *o) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add(alike, "purpose", "%d", (int)o->purpose);
    ls_alike_add(alike, "micro-batches", "%lld", (long long)o->micro_batches);
    ls_alike_add_text(alike, "optimizer", o->optimizer);
    ls_alike_add(alike, "beta1", "%.17g", o->beta1);
    ls_alike_add(alike, "beta2", "%.17g", o->beta2);
    ls_alike_add(alike, "epsilon", "%.17g", o->epsilon);
    ls_alike_add(alike, "weight decay", "%.17g", o->weight_decay);
    ls_alike_add(alike, "momentum", "%.17g", o->momentum);
    ls_alike_add(alike, "nesterov", "%d", o->nesterov);
    return ls_alike_end(alike, ls_ok());
}

static ls_status open_all(ls_engine *e, ls_tensor loss) {
    ls_engine_options *o = &e->options;
    LS_TRY(copy_read(e));
    if ((int)o->purpose < 0 || o->purpose > LS_TO_EVALUATE)
        return ls_error(LS_USAGE, "purpose %d; expected one of ls_purpose", (int)o->purpose);
    LS_TRY(fill_defaults(o));
    LS_TRY(choose_optimizer(o, &e->job));
    LS_TRY(complete(e, loss));
    e->job.graph = e->graph;
    e->job.programs =
        o->purpose == LS_TO_EVALUATE
            ? ls_forward_programs(e->graph)
            : ls_training_programs(e->graph, e->forward_nodes, update_for[o->purpose], (int)o->micro_batches - 1);
    e->job.fetch = o->read;
    e->job.n_fetch = o->n_read;
    e->job.micro_batches = (int)o->micro_batches;
    LS_TRY(compare_processes(o));
    return ls_session_open(&e->job, &o->spread, &e->session);
}

ls_status ls_engine_open(ls_graph *graph, ls_tensor loss, const ls_engine_options *options, ls_engine **out) {
    LS_NEED(graph, "graph");
    LS_NEED(out, "out");
    ls_engine *e = calloc(1, sizeof *e);
    if (e == NULL) return ls_error(LS_NO_MEMORY, "no memory for an engine");
    e->graph = graph;
    if (options != NULL) e->options = *options;
    const ls_status status = open_all(e, loss);
    if (status.code != LS_OK) {
        ls_engine_close(e);
        return status;
    }
    *out = e;
    return ls_ok();
}

void ls_engine_close(ls_engine *e) {
    if (e == NULL) return;
    ls_session_close(e->session);
    free((void *)(uintptr_t)e->options.read);
    free(e);
}

/* --- description -------------------------------------------------------------------------------------------------- */

ls_spread_result ls_engine_describe(const ls_engine *e) {
    return e != NULL ? ls_session_describe(e->session) : (ls_spread_result){.seconds = 0};
}

const ls_session *ls_engine_session(const ls_engine *e) { return e->session; }

/* --- running ------------------------------------------------------------------------------------------------------ */

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const ls_engine *e = input;
    const ls_image *image = rank->image;
    ls_worker_state state = {.engine = e, .rank = rank};
    ls_worker worker = {
        .rank = rank->rank, .ranks = rank->ranks, .bytes = (int64_t)ls_image_mapped(image), .state = &state};
    state.input_set = calloc((size_t)image->n_bindings + 1, sizeof *state.input_set);
    state.parameter_set = calloc((size_t)image->n_flats + 1, sizeof *state.parameter_set);
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for the worker of rank %d", rank->rank);
    if (state.input_set != NULL && state.parameter_set != NULL)
        status = ls_status_sound(e->work(&worker, e->input, result));
    free(state.input_set);
    free(state.parameter_set);
    return status;
}

ls_status ls_engine_run(ls_engine *e, ls_work work, const void *input, void *result, size_t bytes) {
    LS_NEED(e, "engine");
    LS_NEED(work, "work");
    if (bytes > 0) LS_NEED(result, "result");
    if (e->ran) return ls_error(LS_USAGE, "this engine has run; open another");
    e->ran = true;
    e->work = work;
    e->input = input;
    return ls_session_run(e->session, on_rank, e, result, bytes);
}
