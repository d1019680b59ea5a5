/* A worker: one rank of an engine. Inputs, parameters, steps. */
#include "session/session_impl.h"
#include "weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------------------------------------- */

ls_status ls_worker_check(const ls_worker *w) {
    if (w != NULL && w->state != NULL) return ls_ok();
    return ls_error(LS_INVALID, "no worker; expected the one that ls_engine_run gives to `work`");
}

static bool is_own(const char *name) { return strcmp(name, LS_BIND_SCALE) == 0; }

ls_status ls_worker_unknown(const ls_worker *w, const char *kind, const char *name, ls_role role) {
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

const ls_flat *ls_worker_flat(const ls_worker *w, const char *name) {
    const ls_image *image = w->state->rank->image;
    for (int f = 0; f < image->n_flats; f++) {
        if (strcmp(image->flats[f].name, name) == 0) return &image->flats[f];
    }
    return NULL;
}

/* --- what goes in -------------------------------------------------------------------------------------------------------------- */

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
        return ls_error(LS_INVALID, "input \"%s\" is %d at row %lld, column %lld; expected 0 to %lld%s",
                        input->name, values[i], (long long)(i / row), (long long)(i % row),
                        (long long)(range->count - 1), range->may_ignore ? ", or -100" : "");
    }
    return ls_ok();
}

ls_status ls_worker_set_input(ls_worker *w, const char *name, const int32_t *values) {
    LS_TRY(ls_worker_check(w));
    LS_NEED(name, "name");
    LS_NEED(values, "values");
    const ls_graph *g = w->state->engine->graph;
    const ls_image *image = w->state->rank->image;
    const ls_tensor input = find_input(g, name);
    if (input.id == 0) return ls_worker_unknown(w, "input", name, LS_ROLE_INPUT);
    const ls_id_range range = ls_graph_id_range(g, input);
    LS_TRY(check_ids(ls_graph_tensor(g, input), &range, values));
    const ls_binding *binding = ls_image_find(image, name);
    ls_executor_scatter(w->state->rank->executor, binding, values);
    w->state->input_set[binding - image->bindings] = true;
    return ls_ok();
}

ls_status ls_worker_set_parameter(ls_worker *w, const char *name, const double *values) {
    LS_TRY(ls_worker_check(w));
    LS_NEED(name, "name");
    LS_NEED(values, "values");
    const ls_flat *flat = ls_worker_flat(w, name);
    if (flat == NULL) return ls_worker_unknown(w, "parameter", name, LS_ROLE_PARAMETER);
    ls_weights_store(w->state->rank->executor, flat, 0, flat->count, values);
    w->state->parameter_set[flat - w->state->rank->image->flats] = true;
    return ls_ok();
}

ls_status ls_worker_set_random(ls_worker *w, double deviation, uint64_t seed) {
    LS_TRY(ls_worker_check(w));
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

/* Nothing is computed from what nobody gave. */
static ls_status check_given(const ls_worker *w) {
    const ls_worker_state *s = w->state;
    const ls_graph *g = s->engine->graph;
    const ls_image *image = s->rank->image;
    for (int i = 0; i < image->n_bindings; i++) {
        if (!s->input_set[i] && find_input(g, image->bindings[i].name).id != 0)
            return ls_error(LS_USAGE, "input \"%s\" was not set", image->bindings[i].name);
    }
    for (int f = 0; f < image->n_flats; f++) {
        if (!s->parameter_set[f])
            return ls_error(LS_USAGE, "parameter \"%s\" was not set", image->flats[f].name);
    }
    return ls_ok();
}

/* --- steps --------------------------------------------------------------------------------------------------------------------- */

/* A worker and the step that it makes. */
typedef struct making {
    ls_worker *worker;
    const ls_step *step;
} making;

/* The caller's inputs of a micro-batch. */
static ls_status feed(void *context, int64_t micro_batch) {
    const making *m = context;
    if (m->step->feed != NULL) LS_TRY(m->step->feed(m->worker, micro_batch, m->step->context));
    return check_given(m->worker);
}

static double wants_to_stop(const ls_rank *rank) { return ls_comm_stop_requested(rank->comm) ? 1 : 0; }

/* A step without tokens: nothing but the wish to stop. */
static ls_status do_nothing(const ls_rank *rank, ls_step_result *out) {
    double stop = wants_to_stop(rank);
    LS_TRY(ls_rank_sum(rank, &stop, 1));
    out->stop = stop > 0;
    return ls_ok();
}

static ls_status do_evaluate(ls_worker *w, const ls_step *step, ls_step_result *out) {
    const ls_rank *rank = w->state->rank;
    making m = {w, step};
    const double kept = ls_rank_get_number(rank, LS_BIND_LOSS);
    ls_rank_put_number(rank, LS_BIND_LOSS, 0);
    for (int64_t i = 0; i < w->state->engine->options.micro_batches; i++) {
        LS_TRY(feed(&m, i));
        LS_TRY(ls_executor_run(rank->executor, LS_PROGRAM_EVALUATE));
    }
    double sums[] = {ls_rank_get_number(rank, LS_BIND_LOSS), wants_to_stop(rank)};
    ls_rank_put_number(rank, LS_BIND_LOSS, kept);
    LS_TRY(ls_rank_sum(rank, sums, 2));
    out->loss = sums[0] / (double)step->tokens;
    out->stop = sums[1] > 0;
    return ls_ok();
}

/*
 * Where micro-batches are added up, sums start at zero; those that outlive the program and are not applied hold those of the last step. A
 * step of one micro-batch writes them first.
 */
static void zero_sums(const ls_worker *w) {
    const ls_rank *rank = w->state->rank;
    const ls_binding *sums = ls_image_find(rank->image, LS_BIND_GRADIENTS);
    if (sums == NULL || !w->state->engine->job.accumulates) return;
    const size_t element = ls_dtype_bytes(sums->operand.view.dtype);
    memset(ls_executor_address(rank->executor, &sums->operand), 0,
           element * (size_t)ls_view_elements(&sums->operand.view));
}

static ls_status do_step(ls_worker *w, const ls_step *step, ls_step_result *out) {
    const ls_rank *rank = w->state->rank;
    const ls_engine_options *o = &w->state->engine->options;
    making m = {w, step};
    const ls_step_numbers numbers = {.tokens = step->tokens,
                                     .update = w->state->updates + 1,
                                     .lr = step->lr,
                                     .clip = step->clip,
                                     .beta1 = o->beta1,
                                     .beta2 = o->beta2,
                                     .stop = wants_to_stop(rank)};
    zero_sums(w);
    ls_rank_put_number(rank, LS_BIND_LOSS, 0);
    LS_TRY(ls_rank_run_step(rank, &numbers, &(ls_micro_batches){o->micro_batches, feed, &m}));
    const ls_step_sums sums = ls_rank_read_step(rank);
    out->loss = sums.loss / (double)step->tokens;
    out->grad_norm = sums.grad_norm;
    out->applied = sums.applied;
    out->stop = sums.stop > 0;
    w->state->updates += sums.applied;
    return ls_ok();
}

typedef ls_status (*doing)(ls_worker *w, const ls_step *step, ls_step_result *out);

static ls_status timed(ls_worker *w, const ls_step *step, doing what, ls_step_result *result) {
    LS_NEED(step, "step");
    LS_NEED(result, "result");
    ls_rank *rank = w->state->rank;
    const double start = ls_seconds(), waited = ls_executor_times(rank->executor).waiting;
    if (step->tokens < 0)
        return ls_error(LS_INVALID, "a step over %lld tokens; expected 0 or more", (long long)step->tokens);
    if (!(step->lr >= 0 && isfinite(step->lr)) || !(step->clip >= 0 && isfinite(step->clip)))
        return ls_error(LS_INVALID, "lr %g, clip %g; expected finite numbers, not negative", step->lr,
                        step->clip);
    ls_step_result made = {.loss = NAN, .grad_norm = NAN};
    LS_TRY(step->tokens > 0 ? what(w, step, &made) : do_nothing(rank, &made));
    made.seconds = ls_seconds() - start;
    made.wait_seconds = ls_executor_times(rank->executor).waiting - waited;
    *result = made;
    return ls_ok();
}

ls_status ls_worker_step(ls_worker *w, const ls_step *step, ls_step_result *result) {
    LS_TRY(ls_worker_check(w));
    if (w->state->engine->options.purpose == LS_TO_EVALUATE)
        return ls_error(LS_USAGE, "a step on an engine that was opened to evaluate");
    return timed(w, step, do_step, result);
}

ls_status ls_worker_evaluate(ls_worker *w, const ls_step *step, ls_step_result *result) {
    LS_TRY(ls_worker_check(w));
    return timed(w, step, do_evaluate, result);
}
