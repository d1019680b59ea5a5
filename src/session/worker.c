/*
 * A worker is one rank of an engine: it sets inputs and parameters, runs steps, and reads parameters, gradients and
 * tensors.
 */
#include "session/session_impl.h"
#include "weights/weights.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names -------------------------------------------------------------------------------------------------------- */

/* LS_INVALID unless w is the worker that ls_engine_run passes to `work`. */
static ls_status check_worker(const ls_worker *w) {
    if (w != NULL && w->state != NULL) return ls_ok();
    return ls_error(LS_INVALID, "no worker; expected the one that ls_engine_run gives to `work`");
}

/* Checks that all ranks make the same call. The text also names what the rank does from now on, for messages. */
LS_PRINTF(2, 3) static ls_status meet(const ls_worker *w, const char *format, ...) {
    char doing[LS_COMM_DOING];
    va_list args;
    va_start(args, format);
    ls_vprint(doing, sizeof doing, format, args);
    va_end(args);
    ls_comm *comm = w->state->rank->comm;
    ls_comm_doing(comm, "%s", doing);
    return ls_comm_meet(comm);
}

/* Whether the engine, and not the user, sets this input. */
static bool is_own(const char *name) { return strcmp(name, LS_BIND_SCALE) == 0; }

/* LS_USAGE: the graph has nothing of that kind with that name; the message lists the names that exist. */
static ls_status unknown_name(const ls_worker *w, const char *kind, const char *name, ls_role role) {
    const ls_graph *g = w->state->engine->graph;
    char known[256] = "";
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        const size_t used = strlen(known);
        if (info->role == role && !is_own(info->name) && used + strlen(info->name) + 8 < sizeof known)
            snprintf(known + used, sizeof known - used, "%s\"%s\"", used > 0 ? ", " : "", info->name);
    }
    return ls_error(LS_USAGE, "the graph has no %s \"%s\"; expected one of %s", kind, name, known);
}

/* The parameter with that name, or NULL. */
static const ls_flat *find_parameter(const ls_worker *w, const char *name) {
    const ls_image *image = w->state->rank->image;
    for (int f = 0; f < image->n_flats; f++) {
        if (strcmp(image->flats[f].name, name) == 0) return &image->flats[f];
    }
    return NULL;
}

/* --- inputs and parameters ---------------------------------------------------------------------------------------- */

static ls_tensor find_input(const ls_graph *g, const char *name) {
    for (int t = 1; t < g->n_tensors; t++) {
        if (g->tensors[t].role == LS_ROLE_INPUT && strcmp(g->tensors[t].name, name) == 0 && !is_own(name))
            return ls_graph_at(g, t);
    }
    return LS_NO_TENSOR;
}

static ls_status check_ids(const ls_tensor_info *input, const ls_id_range *range, const int32_t *values) {
    const int64_t n = ls_shape_elements(&input->shape), row = input->shape.dim[input->shape.ndim - 1].size;
    for (int64_t i = 0; i < n; i++) {
        if (ls_id_within(range, values[i])) continue;
        return ls_error(LS_INVALID, "input \"%s\" is %d at row %lld, column %lld; expected 0 to %lld%s", input->name,
                        values[i], (long long)(i / row), (long long)(i % row), (long long)(range->count - 1),
                        range->may_ignore ? ", or -100" : "");
    }
    return ls_ok();
}

/* Finds the input of that name; whole: it must hold integers. */
static ls_status find_typed(const ls_worker *w, const char *name, bool whole, ls_tensor *out) {
    const ls_graph *g = w->state->engine->graph;
    *out = find_input(g, name);
    if (out->id == 0) return unknown_name(w, "input", name, LS_ROLE_INPUT);
    const ls_dtype dtype = ls_graph_tensor(g, *out)->dtype;
    if ((dtype == LS_I32) == whole) return ls_ok();
    return ls_error(LS_USAGE, "input \"%s\" is %s; expected %s", name, ls_dtype_name(dtype),
                    whole ? "ls_worker_set_real_input" : "ls_worker_set_input");
}

/* values: those of all tokens, in the input's type. */
static ls_status set_values(ls_worker *w, const char *name, const void *values) {
    ls_worker_state *s = w->state;
    const ls_image *image = s->rank->image;
    LS_TRY(ls_rank_scatter_micro(s->rank, name, s->micro, values));
    s->input_set[ls_image_find(image, name) - image->bindings] = 1 + s->micro;
    return ls_ok();
}

ls_status ls_worker_set_input(ls_worker *w, const char *name, const int32_t *values) {
    ls_tensor input;
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    LS_NEED(values, "values");
    LS_TRY(find_typed(w, name, true, &input));
    const ls_graph *g = w->state->engine->graph;
    const ls_id_range range = ls_graph_id_range(g, input);
    LS_TRY(check_ids(ls_graph_tensor(g, input), &range, values));
    return set_values(w, name, values);
}

ls_status ls_worker_set_real_input(ls_worker *w, const char *name, const double *values) {
    ls_tensor input;
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    LS_NEED(values, "values");
    LS_TRY(find_typed(w, name, false, &input));
    const ls_tensor_info *info = ls_graph_tensor(w->state->engine->graph, input);
    const int64_t n = ls_shape_elements(&info->shape);
    void *rounded = malloc((size_t)n * ls_dtype_bytes(info->dtype));
    if (rounded == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld numbers", (long long)n);
    ls_weights_narrow(values, n, info->dtype, rounded);
    const ls_status status = set_values(w, name, rounded);
    free(rounded);
    return status;
}

ls_status ls_worker_set_parameter(ls_worker *w, const char *name, const double *values) {
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    LS_NEED(values, "values");
    const ls_flat *flat = find_parameter(w, name);
    if (flat == NULL) return unknown_name(w, "parameter", name, LS_ROLE_PARAMETER);
    LS_TRY(ls_weights_store(w->state->rank->executor, flat, values));
    w->state->parameter_set[flat - w->state->rank->image->flats] = true;
    return ls_ok();
}

ls_status ls_worker_set_random(ls_worker *w, double deviation, uint64_t seed) {
    LS_TRY(check_worker(w));
    if (!(deviation >= 0) || !isfinite(deviation))
        return ls_error(LS_INVALID, "a deviation of %g; expected a finite number, not negative", deviation);
    const ls_image *image = w->state->rank->image;
    ls_weight_source source;
    LS_TRY(ls_weights_open_random(seed, deviation, &source));
    const ls_status status = ls_weights_fill(w->state->rank->executor, &source);
    ls_weights_close(&source);
    for (int f = 0; f < image->n_flats && status.code == LS_OK; f++) w->state->parameter_set[f] = true;
    return status;
}

/* Copies an input of one micro-batch to another one, slice by slice. */
static ls_status copy_input(const ls_rank *rank, const char *name, int from, int to) {
    const ls_operand *one = &ls_image_find(rank->image, name)->operand;
    void *values = malloc(ls_view_bytes(&one->view) + 1);
    if (values == NULL) return ls_error(LS_NO_MEMORY, "no memory for input \"%s\"", name);
    ls_status status = ls_ok();
    for (int s = 0; s < rank->image->slices && status.code == LS_OK; s++) {
        status = ls_executor_read(rank->executor, &ls_image_find_micro(rank->image, name, from, s)->operand, values);
        if (status.code != LS_OK) break;
        status = ls_executor_write(rank->executor, &ls_image_find_micro(rank->image, name, to, s)->operand, values);
    }
    free(values);
    return status;
}

/*
 * An input that was not set for this micro-batch gets the value that was set last. That was for another micro-batch,
 * whose input lies elsewhere.
 */
static ls_status carry_input(const ls_worker_state *s, const char *name, int *set) {
    if (*set == 0) return ls_error(LS_USAGE, "input \"%s\" was not set", name);
    if (*set != 1 + s->micro) LS_TRY(copy_input(s->rank, name, *set - 1, s->micro));
    *set = 1 + s->micro;
    return ls_ok();
}

/* LS_USAGE unless every input and parameter has been set. */
static ls_status check_all_set(const ls_worker *w) {
    const ls_worker_state *s = w->state;
    const ls_graph *g = s->engine->graph;
    const ls_image *image = s->rank->image;
    for (int i = 0; i < image->n_bindings; i++) {
        const char *name = image->bindings[i].name;
        if (find_input(g, name).id != 0) LS_TRY(carry_input(s, name, &s->input_set[i]));
    }
    for (int f = 0; f < image->n_flats; f++) {
        if (!s->parameter_set[f]) return ls_error(LS_USAGE, "parameter \"%s\" was not set", image->flats[f].name);
    }
    return ls_ok();
}

/* --- tensors that a worker reads ---------------------------------------------------------------------------------- */

/* Converts n elements, from element `first` on, to f64. */
static void widen(ls_dtype dtype, const void *from, int64_t first, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_number_at(from, dtype, first + i);
}

/* A whole array that is read as f64. */
typedef struct read_array {
    ls_dtype dtype;
    /* the ranks' terms are added, in the order of the ranks, so that the result has the same bits in every run */
    bool partial;
    double *out;
} read_array;

/* Adds or copies one row of elements. */
static void read_row(const read_array *a, const char *from, int64_t first, int64_t n) {
    if (!a->partial) {
        widen(a->dtype, from, 0, n, a->out + first);
        return;
    }
    for (int64_t i = 0; i < n; i++) a->out[first + i] += ls_number_at(from, a->dtype, i);
}

static ls_status read_rows(void *context, const ls_range *rows, const void *data) {
    const read_array *a = context;
    const size_t element = ls_dtype_bytes(a->dtype);
    for (int64_t r = 0; r < rows->count[0]; r++) {
        const int64_t at = (int64_t)rows->offset + r * rows->stride[0];
        read_row(a, (const char *)data + (size_t)r * rows->length, at / (int64_t)element,
                 (int64_t)(rows->length / element));
    }
    return ls_ok();
}

/* Collective: reads a whole fetched tensor on each rank whose `out` is not NULL. */
static ls_status read_tensor(const ls_worker *w, const char *name, double *out) {
    const ls_rank *rank = w->state->rank;
    ls_comm_doing(rank->comm, "tensor \"%s\"", name);
    const ls_image *image = rank->image;
    const ls_binding *binding = ls_image_find(image, name);
    read_array array = {.dtype = binding->operand.view.dtype, .out = out};
    array.partial = binding->partial != 0;
    const int64_t n = array.partial && out != NULL ? ls_shape_elements(&binding->shape) : 0;
    for (int64_t i = 0; i < n; i++) out[i] = 0;
    for (int s = 0; s < image->slices; s++)
        LS_TRY(ls_rank_gather(rank, ls_image_find_micro(image, name, image->micro_batches - 1, s), true,
                              out != NULL ? read_rows : NULL, &array));
    return ls_ok();
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* The context of `feed`. */
typedef struct feeding {
    ls_worker *worker;
    const ls_step *step;
} feeding;

/* Lets the caller set the inputs of a micro-batch, and checks that none is missing. */
static ls_status feed(void *context, int64_t micro_batch) {
    const feeding *f = context;
    ls_worker_state *s = f->worker->state;
    s->micro = (int)(micro_batch % s->rank->image->micro_batches);
    if (f->step->feed != NULL) LS_TRY(ls_status_sound(f->step->feed(f->worker, micro_batch, f->step->context)));
    return check_all_set(f->worker);
}

/* A step without tokens. It only tells all ranks whether one of them was asked to stop. */
static ls_status run_empty_step(const ls_rank *rank, ls_step_result *out) {
    double stop = ls_comm_stop_requested(rank->comm);
    LS_TRY(ls_rank_sum(rank, &stop, 1));
    out->stop = stop > 0;
    return ls_ok();
}

/* If a loss is not finite: LS_DIVERGED names the first layer that could not compute all of the last micro-batch. */
static ls_status check_computed(const ls_worker *w, double loss) {
    const ls_graph *g = w->state->engine->graph;
    for (int i = 0; i < g->n_shortfalls && !isfinite(loss); i++) {
        double count = 0;
        LS_TRY(read_tensor(w, ls_graph_tensor(g, g->shortfalls[i].count)->name, &count));
        if (count > 0) return ls_error(LS_DIVERGED, "%.0f %s", count, g->shortfalls[i].what);
    }
    return ls_ok();
}

static ls_status run_evaluation(ls_worker *w, const ls_step *step, ls_step_result *out) {
    feeding f = {w, step};
    ls_step_sums sums;
    LS_TRY(ls_rank_evaluate_step(w->state->rank,
                                 &(ls_micro_batches){w->state->engine->options.micro_batches, feed, NULL, &f}, &sums));
    out->loss = sums.loss / (double)step->tokens;
    out->stop = sums.stop;
    return check_computed(w, out->loss);
}

static ls_status run_step(ls_worker *w, const ls_step *step, ls_step_result *out) {
    const ls_rank *rank = w->state->rank;
    const ls_engine_options *o = &w->state->engine->options;
    feeding f = {w, step};
    const ls_step_numbers numbers = {.divisor = (double)step->tokens,
                                     .update = w->state->updates + 1,
                                     .lr = step->lr,
                                     .clip = step->clip,
                                     .beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .stop = ls_comm_stop_requested(rank->comm)};
    LS_TRY(ls_rank_clear_sums(rank, o->micro_batches));
    LS_TRY(ls_rank_put_number(rank, LS_BIND_LOSS, 0));
    LS_TRY(ls_rank_run_step(rank, &numbers, &(ls_micro_batches){o->micro_batches, feed, NULL, &f}));
    ls_step_sums sums;
    LS_TRY(ls_rank_read_step(rank, &sums));
    out->loss = sums.loss / (double)step->tokens;
    out->grad_norm = sums.grad_norm;
    out->applied = sums.applied;
    out->stop = sums.stop;
    w->state->updates += sums.applied;
    return check_computed(w, out->loss);
}

typedef ls_status (*step_function)(ls_worker *w, const ls_step *step, ls_step_result *out);

static ls_status check_and_time(ls_worker *w, const char *name, const ls_step *step, step_function run,
                                ls_step_result *result) {
    LS_NEED(step, "step");
    LS_NEED(result, "result");
    ls_rank *rank = w->state->rank;
    const double start = ls_seconds(), waited = ls_executor_times(rank->executor).waiting;
    if (step->tokens < 0)
        return ls_error(LS_INVALID, "a step over %lld tokens; expected 0 or more", (long long)step->tokens);
    if (!(step->lr >= 0 && isfinite(step->lr)) || !(step->clip >= 0 && isfinite(step->clip)))
        return ls_error(LS_INVALID, "lr %g, clip %g; expected finite numbers, not negative", step->lr, step->clip);
    LS_TRY(
        meet(w, "%s of %lld tokens with lr %.17g and clip %.17g", name, (long long)step->tokens, step->lr, step->clip));
    ls_step_result made = {.loss = NAN, .grad_norm = NAN};
    LS_TRY(step->tokens > 0 ? run(w, step, &made) : run_empty_step(rank, &made));
    made.seconds = ls_seconds() - start;
    made.wait_seconds = ls_executor_times(rank->executor).waiting - waited;
    *result = made;
    return ls_ok();
}

ls_status ls_worker_step(ls_worker *w, const ls_step *step, ls_step_result *result) {
    LS_TRY(check_worker(w));
    if (w->state->engine->options.purpose == LS_TO_EVALUATE)
        return ls_error(LS_USAGE, "a step on an engine that was opened to evaluate");
    return check_and_time(w, "a step", step, run_step, result);
}

ls_status ls_worker_evaluate(ls_worker *w, const ls_step *step, ls_step_result *result) {
    LS_TRY(check_worker(w));
    return check_and_time(w, "an evaluation", step, run_evaluation, result);
}

/* --- parameters and gradients ------------------------------------------------------------------------------------- */

/* A parameter, or its gradient, that is read as f64. */
typedef struct read_flat {
    ls_dtype dtype;
    double *out;
} read_flat;

static ls_status read_elements(void *context, const ls_flat *flat, int64_t whole, const void *data, int64_t n) {
    const read_flat *r = context;
    (void)flat;
    widen(r->dtype, data, 0, n, r->out + whole);
    return ls_ok();
}

/* Collective: reads all of the parameter, from a tensor of the flat space, on each rank whose `out` is not NULL. */
static ls_status gather_flat(const ls_rank *rank, const char *name, ls_dtype dtype, const ls_flat *flat, double *out) {
    read_flat r = {.dtype = dtype};
    r.out = out;
    return ls_rank_gather_flat(rank, name, dtype, flat, true, out != NULL ? read_elements : NULL, &r);
}

enum { READ_COUNT = 4096 }; /* number of elements that are read at a time */

ls_status ls_worker_get_parameter(ls_worker *w, const char *name, double *out) {
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    const ls_rank *rank = w->state->rank;
    const ls_flat *flat = find_parameter(w, name);
    if (flat == NULL) return unknown_name(w, "parameter", name, LS_ROLE_PARAMETER);
    LS_TRY(meet(w, "parameter \"%s\"", name));
    const char *values = ls_flat_values(rank->image, flat);
    const ls_binding *binding = ls_image_find(rank->image, values);
    if (binding == NULL || binding->sharded || flat->cut != 0 || ls_mesh_stages(&rank->image->mesh) > 1)
        return gather_flat(rank, values, flat->dtype, flat, out);
    if (out == NULL) return ls_ok();
    double narrow[READ_COUNT];
    for (ls_flat_runs r = ls_flat_runs_of(rank->image, binding, flat, rank->rank, 0); ls_flat_next(&r);) {
        for (int64_t done = 0, n; done < r.run.part.count; done += n) {
            n = ls_min(READ_COUNT, r.run.part.count - done);
            const ls_operand from = ls_operand_slice(binding->operand, 0, r.run.part.at + done, n);
            LS_TRY(ls_executor_read(rank->executor, &from, narrow));
            widen(flat->dtype, narrow, 0, n, out + r.run.whole + done);
        }
    }
    return ls_ok();
}

ls_status ls_worker_get_gradient(ls_worker *w, const char *name, double *out) {
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    const ls_rank *rank = w->state->rank;
    const ls_flat *flat = find_parameter(w, name);
    if (flat == NULL) return unknown_name(w, "parameter", name, LS_ROLE_PARAMETER);
    if (w->state->engine->options.purpose != LS_TO_DIFFERENTIATE)
        return ls_error(LS_USAGE, "gradient of \"%s\": only an engine opened to differentiate keeps it", name);
    if (!flat->trained) return ls_error(LS_USAGE, "gradient of \"%s\": it is not trained and has none", name);
    ls_comm_doing(rank->comm, "gradient of \"%s\"", name);
    return gather_flat(rank, LS_BIND_SHARD, rank->image->accumulator, flat, out);
}

static bool is_readable(const ls_engine *e, const char *name) {
    for (int i = 0; i < e->options.n_read; i++) {
        if (strcmp(ls_graph_tensor(e->graph, e->options.read[i])->name, name) == 0) return true;
    }
    return false;
}

ls_status ls_worker_get_tensor(ls_worker *w, const char *name, double *out) {
    LS_TRY(check_worker(w));
    LS_NEED(name, "name");
    if (!is_readable(w->state->engine, name))
        return ls_error(LS_USAGE, "tensor \"%s\" was not among those to be read when the engine was opened", name);
    return read_tensor(w, name, out);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

ls_status ls_worker_gather(ls_worker *w, const void *mine, size_t bytes, void *all) {
    LS_TRY(check_worker(w));
    LS_NEED(mine, "mine");
    LS_NEED(all, "all");
    ls_comm_doing(w->state->rank->comm, "ls_worker_gather");
    return ls_comm_exchange(w->state->rank->comm, mine, bytes, all);
}
