/*
 * longspan steps: optimiser steps, or gradients, for batches that another program supplies one by one. Requests come as
 * lines on standard input, arrays as files; each request is answered by one line of JSON on standard output.
 *
 * Rank 0 reads the line and sends it to the other ranks. While no line comes, it tells them so every second, so that no
 * rank mistakes a slow caller for a peer that hangs.
 */
#include "checkpoint/checkpoint.h"
#include "cli/grad_impl.h"
#include "train/train.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_MILLISECONDS 1000
#define NO_OPTIMIZER "none"

typedef struct steps_flags {
    cli_common common;
    const char *model, *dtype, *optimizer;
    int64_t seq, batch, accumulate;
    ls_option_list groups;
    double beta1, beta2, eps, weight_decay, momentum;
    bool nesterov, documents, weighted;
    int64_t teacher;
    double distil_weight, distil_temperature;
} steps_flags;

/* A line of standard input. Rank 0's becomes that of all ranks (ls_comm_broadcast). */
typedef struct request {
    int verb; /* row of `verbs`, or one of the numbers below */
    double lr, clip;
    char folder[960];
} request;
enum { NOTHING_YET = -1, END = -2, UNKNOWN = -3 };
_Static_assert(sizeof(request) <= LS_COMM_VALUE, "a request is broadcast as one value");

/* One run: values that are the same on all ranks, and counts of each rank. */
typedef struct steps_run {
    const steps_flags *flags;
    ls_dtype dtype;
    ls_model *model;
    ls_graph *graph;
    ls_hyperparameters hyper;
    const ls_optimizer *optimizer; /* NULL: gradients only */
    ls_st_plan *plan;              /* of a file of gradients */
    int64_t micro_batch;           /* sequences of one run of a program */
    int64_t updates;               /* done */
    int64_t sequences;             /* sequences in these updates */
    ls_mask_term *documents; /* [micro_batch] each sequence as one document, for planning the programs; NULL: none */
    int32_t ends[2];
    char pending[sizeof(request) + 64];
    size_t bytes; /* of pending */
} steps_run;

/* --- requests ----------------------------------------------------------------------------------------------------- */

static ls_status do_step(steps_run *s, ls_rank *rank, const request *q);
static ls_status do_grad(steps_run *s, ls_rank *rank, const request *q);
static ls_status do_logprobs(steps_run *s, ls_rank *rank, const request *q);
static ls_status do_load(steps_run *s, ls_rank *rank, const request *q);
static ls_train_origin origin_of(const steps_run *s) {
    return (ls_train_origin){s->optimizer, s->hyper, s->flags->seq, s->flags->batch};
}

static ls_status do_save(steps_run *s, ls_rank *rank, const request *q);
static ls_status do_resume(steps_run *s, ls_rank *rank, const request *q);

static const struct verb {
    const char *name;
    bool numbers, folder; /* what follows the verb: LR CLIP, then FOLDER */
    ls_status (*run)(steps_run *s, ls_rank *rank, const request *q);
} verbs[] = {
    {"step", true, true, do_step},  {"grad", false, true, do_grad},     {"load", false, false, do_load},
    {"save", false, true, do_save}, {"resume", false, true, do_resume}, {"logprobs", false, true, do_logprobs},
};

static request parse(const char *line) {
    request q = {.verb = UNKNOWN};
    for (int v = 0; v < (int)CLI_COUNT(verbs); v++) {
        const size_t n = strlen(verbs[v].name);
        if (strncmp(line, verbs[v].name, n) != 0 || (line[n] != ' ' && line[n] != 0)) continue;
        int at = 0;
        const char *rest = line + n;
        if (verbs[v].numbers && sscanf(rest, " %lf %lf%n", &q.lr, &q.clip, &at) != 2) break;
        if (!(q.lr >= 0 && isfinite(q.lr) && q.clip >= 0 && isfinite(q.clip))) break;
        rest += at;
        if (verbs[v].folder != (rest[0] == ' ' && rest[1] != 0) || strlen(rest) > sizeof q.folder) break;
        snprintf(q.folder, sizeof q.folder, "%s", verbs[v].folder ? rest + 1 : "");
        q.verb = v;
        return q;
    }
    snprintf(q.folder, sizeof q.folder, "%.*s", (int)sizeof q.folder - 1, line); /* for the message */
    return q;
}

/* On rank 0: the next request, or NOTHING_YET if none comes for a while. */
static request read_request(steps_run *s) {
    for (;;) {
        char *end = memchr(s->pending, '\n', s->bytes);
        if (end != NULL) {
            *end = 0;
            const request q = parse(s->pending);
            s->bytes -= (size_t)(end + 1 - s->pending);
            memmove(s->pending, end + 1, s->bytes);
            return q;
        }
        if (s->bytes == sizeof s->pending - 1) return (request){.verb = UNKNOWN, .folder = "a line that is too long"};
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        const int ready = poll(&in, 1, IDLE_MILLISECONDS);
        if (ready == 0 || (ready < 0 && errno == EINTR)) return (request){.verb = NOTHING_YET};
        const ssize_t n = read(STDIN_FILENO, s->pending + s->bytes, sizeof s->pending - 1 - s->bytes);
        if (n <= 0) return (request){.verb = END};
        s->bytes += (size_t)n;
    }
}

static ls_status next_request(steps_run *s, const ls_rank *rank, request *out) {
    do {
        if (rank->rank == 0) *out = read_request(s);
        ls_comm_doing(rank->comm, "waiting for a request");
        LS_TRY(ls_comm_broadcast(rank->comm, out, sizeof *out));
    } while (out->verb == NOTHING_YET);
    if (out->verb == UNKNOWN)
        return ls_error(LS_USAGE,
                        "standard input: '%s'; expected 'step LR CLIP FOLDER', 'grad FOLDER', 'logprobs FOLDER', "
                        "'load', 'save FOLDER' or 'resume FOLDER'",
                        out->folder);
    return ls_ok();
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* The path of an array in the folder of a request; NULL: there is no such file. */
static ls_status find_array(const char *folder, const char *name, char **out) {
    LS_TRY(ls_path_print(out, "%s/%s.npy", folder, name));
    if (access(*out, F_OK) == 0) return ls_ok();
    free(*out);
    *out = NULL;
    return ls_ok();
}

/* forward: the inputs of the loss are not read. */
static ls_status read_batch(const steps_run *s, const char *folder, bool forward, ls_grad_inputs *in) {
    const ls_model_inputs takes = ls_model_takes(s->model);
    LS_PATH tokens = NULL;
    LS_PATH labels = NULL;
    LS_PATH positions = NULL;
    LS_PATH documents = NULL;
    LS_TRY(ls_path_print(&tokens, "%s/tokens.npy", folder));
    LS_TRY(find_array(folder, "labels", &labels));
    LS_TRY(find_array(folder, "position-ids", &positions));
    LS_TRY(find_array(folder, "documents", &documents));
    int n = 0;
    const char **others = calloc((size_t)takes.n_others + 1, sizeof *others);
    if (others == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d inputs", takes.n_others);
    ls_status status = ls_ok();
    for (int i = 0; i < takes.n_others && status.code == LS_OK; i++) {
        char *path = NULL;
        if (forward && takes.others[i].of_loss) continue;
        status = ls_path_print(&path, "%s=%s/%s.npy", takes.others[i].name, folder, takes.others[i].name);
        others[n++] = path;
    }
    const ls_grad_job job = {.tokens = tokens,
                             .labels = labels,
                             .positions = positions,
                             .documents = documents,
                             .inputs = others,
                             .n_inputs = n,
                             .forward = forward};
    if (status.code == LS_OK) status = ls_grad_inputs_read(&job, s->model, ls_dtype_accumulator(s->dtype), in);
    for (int i = 0; i < n; i++) free((char *)others[i]);
    free(others);
    LS_TRY(status);
    if (in->tokens.size[0] != s->flags->batch || in->tokens.size[1] != s->flags->seq)
        return ls_error(LS_INVALID, "%s: shape is [%lld,%lld], expected [%lld,%lld] (--batch, --seq)", tokens,
                        (long long)in->tokens.size[0], (long long)in->tokens.size[1], (long long)s->flags->batch,
                        (long long)s->flags->seq);
    if (in->apart && !s->flags->documents)
        return ls_error(LS_INVALID, "%s: a sequence has several documents; expected one, or --documents",
                        documents != NULL ? documents : positions);
    in->apart = s->flags->documents; /* ranks that are given documents must be given those of every batch */
    return ls_ok();
}

/* A batch that is run in micro-batches. */
typedef struct feeding {
    const steps_run *run;
    const ls_rank *rank;
    const ls_grad_inputs *in;
} feeding;

static ls_status feed(void *context, int64_t micro_batch) {
    const feeding *f = context;
    return ls_grad_inputs_put(f->in, f->run->model, f->rank, &(ls_micro_rows){micro_batch, f->run->micro_batch});
}

/* Runs a step on a batch, and reads its numbers. */
static ls_status run_inputs(const steps_run *s, const ls_rank *rank, const request *q, const ls_grad_inputs *in,
                            double divisor, ls_step_sums *sums) {
    feeding f = {s, rank, in};
    const ls_step_numbers numbers = {.divisor = divisor,
                                     .update = s->updates + 1,
                                     .lr = q->lr,
                                     .clip = q->clip,
                                     .beta1 = s->hyper.beta1,
                                     .beta2 = s->hyper.beta2};
    /* Without an update nothing else clears the sums. */
    if (s->optimizer == NULL) LS_TRY(ls_rank_clear_sums(rank, s->flags->accumulate));
    LS_TRY(ls_rank_put_number(rank, LS_BIND_LOSS, 0));
    LS_TRY(ls_rank_run_step(rank, &numbers, &(ls_micro_batches){s->flags->accumulate, feed, NULL, &f}));
    return ls_rank_read_step(rank, sums);
}

/* Reads a batch and runs a step on it. */
static ls_status run_batch(steps_run *s, ls_rank *rank, const request *q, ls_step_sums *sums, double *divisor) {
    ls_grad_inputs in = {.n_others = 0};
    ls_status status = ls_comm_agree(rank->comm, read_batch(s, q->folder, false, &in));
    if (status.code == LS_OK) {
        *divisor = ls_grad_inputs_divisor(&in, s->model);
        status = run_inputs(s, rank, q, &in, *divisor, sums);
    }
    ls_grad_inputs_free(&in);
    return status;
}

/* --- log-probabilities -------------------------------------------------------------------------------------------- */

/* Runs the forward pass on the micro-batches of a batch. losses G[B,S], on rank 0. */
static ls_status run_forward(const steps_run *s, const ls_rank *rank, const ls_grad_inputs *in, char *losses) {
    feeding f = {s, rank, in};
    const size_t each = ls_dtype_bytes(ls_dtype_accumulator(s->dtype)) * (size_t)(s->micro_batch * s->flags->seq);
    const int at_once = rank->image->micro_batches;
    for (int64_t i = 0; i < s->flags->accumulate; i++) {
        LS_TRY(feed(&f, i));
        if (!ls_rank_runs_after(rank, i)) continue;
        LS_TRY(ls_executor_run(rank->executor, rank->evaluate));
        for (int64_t of = i + 1 - at_once; of <= i; of++)
            LS_TRY(ls_rank_gather_micro(rank, LS_TOKEN_LOSSES, of, losses != NULL ? losses + (size_t)of * each : NULL));
    }
    return ls_ok();
}

/* Writes the negated losses; a loss is 0 where the label is ignored. */
static ls_status write_logprobs(const steps_run *s, const char *folder, void *losses) {
    const int64_t size[] = {s->flags->batch, s->flags->seq};
    const bool wide = s->dtype == LS_F64;
    for (int64_t i = 0; i < size[0] * size[1]; i++) {
        float *f32 = (float *)losses + i;
        double *f64 = (double *)losses + i;
        if (wide)
            *f64 = 0 - *f64;
        else
            *f32 = 0 - *f32;
    }
    LS_PATH path = NULL;
    LS_TRY(ls_path_print(&path, "%s/logprobs.npy", folder));
    return ls_npy_write(path, wide ? LS_NPY_F8 : LS_NPY_F4, 2, size, losses);
}

static double mean_of(const ls_step_sums *sums, double divisor) { return divisor != 0 ? sums->loss / divisor : 0; }

static ls_status answer(const char *text) {
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0) return ls_error(LS_IO, "cannot write to standard output");
    return ls_ok();
}

/* --- the verbs ---------------------------------------------------------------------------------------------------- */

static ls_status do_step(steps_run *s, ls_rank *rank, const request *q) {
    if (s->optimizer == NULL)
        return ls_error(LS_USAGE, "standard input: 'step', and --optimizer none; expected 'grad FOLDER'");
    ls_step_sums sums;
    double divisor = 0;
    LS_TRY(run_batch(s, rank, q, &sums, &divisor));
    if (!sums.applied && divisor != 0)
        return ls_error(LS_DIVERGED, "step %lld: the loss or the gradient's norm is not finite",
                        (long long)s->updates + 1);
    s->updates += sums.applied;
    s->sequences += sums.applied ? s->flags->batch : 0;
    if (rank->rank != 0) return ls_ok();
    char text[160];
    snprintf(text, sizeof text, "{\"loss\": %.17g, \"grad_norm\": %.17g, \"step\": %lld}\n", mean_of(&sums, divisor),
             divisor != 0 ? sums.grad_norm : 0, (long long)s->updates);
    return answer(text);
}

static ls_status do_grad(steps_run *s, ls_rank *rank, const request *q) {
    if (s->optimizer != NULL)
        return ls_error(LS_USAGE, "standard input: 'grad', and --optimizer %s; expected --optimizer none",
                        s->optimizer->name);
    ls_step_sums sums;
    double divisor = 0;
    LS_TRY(run_batch(s, rank, q, &sums, &divisor));
    LS_PATH path = NULL;
    LS_TRY(ls_path_print(&path, "%s/gradients.safetensors", q->folder));
    ls_st_writer *writer = NULL;
    ls_status status = rank->rank == 0 ? ls_st_create(path, s->plan, &writer) : ls_ok();
    if (writer != NULL) status = ls_st_finish(writer);
    LS_TRY(ls_comm_agree(rank->comm, status));
    LS_TRY(ls_grad_file_write(rank, path, s->plan));
    if (rank->rank != 0) return ls_ok();
    char text[160];
    snprintf(text, sizeof text, "{\"loss\": %.17g}\n", mean_of(&sums, divisor));
    return answer(text);
}

static ls_status forward_batch(const steps_run *s, ls_rank *rank, const request *q, char *losses) {
    ls_grad_inputs in = {.n_others = 0};
    ls_status status = ls_comm_agree(rank->comm, read_batch(s, q->folder, true, &in));
    if (status.code == LS_OK) status = run_forward(s, rank, &in, losses);
    ls_grad_inputs_free(&in);
    return status;
}

static ls_status do_logprobs(steps_run *s, ls_rank *rank, const request *q) {
    const bool first = rank->rank == 0;
    const size_t n = (size_t)(s->flags->batch * s->flags->seq);
    if (!s->flags->weighted) return ls_error(LS_USAGE, "standard input: 'logprobs'; expected it with --weighted alone");
    char *losses = first ? malloc(n * ls_dtype_bytes(ls_dtype_accumulator(s->dtype))) : NULL;
    ls_status status = ls_ok();
    if (first && losses == NULL) status = ls_error(LS_NO_MEMORY, "no memory for the losses of %zu tokens", n);
    status = ls_comm_agree(rank->comm, status);
    if (status.code == LS_OK) status = forward_batch(s, rank, q, losses);
    if (status.code == LS_OK)
        status = ls_comm_agree(rank->comm, first ? write_logprobs(s, q->folder, losses) : ls_ok());
    free(losses);
    return status.code == LS_OK && first ? answer("{}\n") : status;
}

static ls_status set_weights(const steps_run *s, ls_rank *rank) {
    ls_weight_source source;
    LS_TRY(ls_comm_agree(rank->comm, ls_model_weights(s->model, rank->image, 0, &source)));
    const ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    ls_weights_close(&source);
    return status;
}

/* Loads the weights again, because those in the model's folder have changed. */
static ls_status do_load(steps_run *s, ls_rank *rank, const request *q) {
    (void)q;
    LS_TRY(set_weights(s, rank));
    return rank->rank == 0 ? answer("{}\n") : ls_ok();
}

static ls_status answer_step(const steps_run *s, const ls_rank *rank) {
    if (rank->rank != 0) return ls_ok();
    char text[64];
    snprintf(text, sizeof text, "{\"step\": %lld}\n", (long long)s->updates);
    return answer(text);
}

static ls_status do_save(steps_run *s, ls_rank *rank, const request *q) {
    if (s->optimizer == NULL)
        return ls_error(LS_USAGE, "standard input: 'save', and --optimizer none: the weights are the caller's");
    const ls_train_state state = {.step = s->updates, .sequences = s->sequences, .origin = origin_of(s)};
    const ls_model_text model = ls_model_written(s->model);
    LS_TRY(ls_checkpoint_save(rank->executor, rank->comm, q->folder, &state, &model, 0));
    return answer_step(s, rank);
}

/* Continues from a checkpoint, or from the newest one in a folder. */
static ls_status do_resume(steps_run *s, ls_rank *rank, const request *q) {
    if (s->optimizer == NULL)
        return ls_error(LS_USAGE, "standard input: 'resume', and --optimizer none: the weights are the caller's");
    LS_PATH path = NULL;
    ls_train_state state;
    const ls_train_origin as = origin_of(s);
    LS_TRY(ls_comm_agree(rank->comm, ls_checkpoint_resolve(q->folder, &path)));
    LS_TRY(ls_checkpoint_load(rank->executor, rank->comm, path, s->model, &as, &state, NULL));
    s->updates = state.step;
    s->sequences = state.sequences;
    return answer_step(s, rank);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    (void)result;
    steps_run *s = malloc(sizeof *s); /* each rank has its own, even if ranks are threads */
    if (s == NULL) return ls_error(LS_NO_MEMORY, "no memory for a run");
    *s = *(const steps_run *)input;
    ls_comm_end_at_stop(rank->comm, true);
    ls_status status = set_weights(s, rank);
    if (status.code == LS_OK && rank->rank == 0) status = answer("{\"ready\": true}\n");
    for (request q; status.code == LS_OK;) {
        status = next_request(s, rank, &q);
        if (status.code != LS_OK || q.verb == END) break;
        ls_comm_doing(rank->comm, "%s", verbs[q.verb].name);
        status = verbs[q.verb].run(s, rank, &q);
    }
    free(s);
    return status;
}

#define AT(field) offsetof(steps_flags, field)
/* An option that an optimiser may have, and where its value goes. */
static const struct number {
    const char *option;
    size_t from, to;
} numbers[] = {
    {"--beta1", AT(beta1), offsetof(ls_hyperparameters, beta1)},
    {"--beta2", AT(beta2), offsetof(ls_hyperparameters, beta2)},
    {"--eps", AT(eps), offsetof(ls_hyperparameters, epsilon)},
    {"--weight-decay", AT(weight_decay), offsetof(ls_hyperparameters, weight_decay)},
    {"--momentum", AT(momentum), offsetof(ls_hyperparameters, momentum)},
};
#define LEFT_OUT (-1.0) /* the initial value of these options */

static ls_status find_optimizer(steps_run *s) {
    const steps_flags *f = s->flags;
    if (strcmp(f->optimizer, NO_OPTIMIZER) == 0) return ls_ok();
    LS_TRY(ls_optimizer_find(f->optimizer, &s->optimizer));
    s->hyper = ls_optimizer_defaults(s->optimizer);
    for (size_t i = 0; i < CLI_COUNT(numbers); i++) {
        const double value = *(const double *)((const char *)f + numbers[i].from);
        if (value == LEFT_OUT) continue;
        if (!ls_optimizer_has(s->optimizer, numbers[i].to))
            return ls_optimizer_lacks(s->optimizer, numbers[i].to, numbers[i].option);
        *(double *)((char *)&s->hyper + numbers[i].to) = value;
    }
    const size_t nesterov = offsetof(ls_hyperparameters, nesterov);
    if (f->nesterov && !ls_optimizer_has(s->optimizer, nesterov))
        return ls_optimizer_lacks(s->optimizer, nesterov, "--nesterov");
    if (f->nesterov) s->hyper.nesterov = 1;
    return ls_ok();
}

static ls_status make_documents(steps_run *s) {
    const steps_flags *f = s->flags;
    if (!f->documents) return ls_ok();
    if (!ls_model_takes(s->model).documents) LS_TRY(ls_model_check_apart(s->model, f->seq)); /* says why not */
    s->documents = calloc((size_t)s->micro_batch, sizeof *s->documents);
    s->ends[1] = (int32_t)f->seq;
    if (s->documents == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld documents", (long long)s->micro_batch);
    for (int64_t b = 0; b < s->micro_batch; b++)
        s->documents[b] = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = s->ends, .n_ends = 2};
    return ls_ok();
}

static ls_status make_graph(steps_run *s, const ls_parameter_settings **own, ls_language_model *out) {
    const steps_flags *f = s->flags;
    ls_language_model lm;
    s->graph = ls_graph_create(s->dtype);
    LS_TRY(ls_model_build(s->model, s->graph, s->micro_batch, f->seq, false, &lm));
    *out = lm;
    const ls_groups groups = {f->groups.items, f->groups.count, s->hyper.weight_decay};
    if (s->optimizer != NULL) LS_TRY(ls_groups_apply(&groups, s->model, s->optimizer, s->graph, own));
    return ls_graph_differentiate_loss(s->graph, lm.loss);
}

static ls_status check_flags(const steps_run *s) {
    const steps_flags *f = s->flags;
    LS_TRY(ls_step_size_check(f->seq, f->batch));
    if (f->batch % f->accumulate != 0)
        return ls_error(LS_USAGE, "--batch %lld does not divide into --accumulate %lld micro-batches",
                        (long long)f->batch, (long long)f->accumulate);
    if (f->weighted && f->teacher > 0)
        return ls_error(LS_USAGE, "--weighted and --teacher: both say what the loss is; expected one");
    if (f->teacher == 0 && (f->distil_weight != 1 || f->distil_temperature != 1))
        return ls_error(LS_USAGE, "--distil-weight and --distil-temperature need --teacher, whose words they are for");
    if (s->optimizer == NULL && f->groups.count > 0)
        return ls_error(LS_USAGE, "--group '%s', and --optimizer none: steps are the caller's; expected no group",
                        f->groups.items[0]);
    return ls_ok();
}

static ls_status open_and_run(steps_run *s) {
    const steps_flags *f = s->flags;
    LS_TRY(find_optimizer(s));
    LS_TRY(check_flags(s));
    s->micro_batch = f->batch / f->accumulate;
    LS_TRY(ls_job_dtype(f->dtype, LS_F32, &s->dtype));
    LS_TRY(ls_model_open_changed(f->model, &f->common.rope, &s->model));
    LS_TRY(ls_model_adapt(s->model, &f->common.adapter));
    LS_TRY(ls_model_check_words(s->model));
    if (f->weighted) LS_TRY(ls_model_weigh(s->model));
    if (f->teacher > 0)
        LS_TRY(ls_model_distil(s->model, &(ls_distillation){(int)f->teacher, f->distil_weight, f->distil_temperature}));
    LS_TRY(make_documents(s));
    const ls_parameter_settings *own = NULL;
    ls_language_model lm;
    LS_TRY(make_graph(s, &own, &lm));
    const ls_update update = s->optimizer != NULL ? LS_UPDATE_APPLY : LS_UPDATE_REDUCE;
    const ls_job job = {
        .graph = s->graph,
        .programs = ls_training_programs(s->graph, f->weighted ? lm.forward_nodes : 0, update, (int)f->accumulate - 1),
        .fetch = &lm.token_loss,
        .n_fetch = f->weighted,
        .documents = s->documents,
        .n_documents = s->documents != NULL ? (int)s->micro_batch : 0,
        .optimizer = s->optimizer,
        .hyper = s->hyper,
        .own = own,
        .micro_batches = (int)f->accumulate,
        .filled_together = true};
    const ls_spread spread = cli_spread_of(&f->common);
    ls_session *session;
    LS_TRY(ls_session_open(&job, &spread, &session));
    ls_log("spread: %s", ls_session_plan(session)->reason);
    ls_status status = s->optimizer == NULL ? ls_grad_file_plan(ls_session_image(session), &s->plan) : ls_ok();
    if (status.code == LS_OK) status = ls_session_run(session, on_rank, s, NULL, 0);
    ls_session_close(session);
    return status;
}

static ls_status run(void *context) {
    steps_run s = {.flags = context};
    const ls_status status = open_and_run(&s);
    ls_st_plan_destroy(s.plan);
    free(s.documents);
    ls_graph_destroy(s.graph);
    ls_model_close(s.model);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_INT("seq", "N", "1024", 1, CLI_ANY, AT(seq), "tokens of a sequence"),
    CLI_INT("batch", "N", "1", 1, CLI_ANY, AT(batch), "sequences of a batch"),
    CLI_INT("accumulate", "N", "1", 1, CLI_ANY, AT(accumulate), "micro-batches that a batch is cut into"),
    CLI_FLAG(
        "documents", AT(documents),
        "sequences of a batch may have several documents: position-ids.npy or documents.npy says where each begins"),
    CLI_FLAG(
        "weighted", AT(weighted),
        "what is minimised is the sum of weights.npy times the losses of tokens (minus their log-probabilities), not their mean; "
        "of a model with a config.json"),
    CLI_INT(
        "teacher", "K", "0", 0, LS_MOST_TEACHER, AT(teacher),
        "what is minimised is the divergence from a teacher, of which teacher_ids.0.npy .. (-100: none) and teacher_logprobs.0.npy .. have "
        "the K likeliest words for each label; all others are as one; of a model with a config.json; 0: there is none"),
    CLI_FLOAT("distil-weight", "X", "1", 1e-9, 1, AT(distil_weight),
              "with --teacher: X times the divergence, and 1 - X times the loss of the labels"),
    CLI_FLOAT("distil-temperature", "T", "1", 1e-3, 1e3, AT(distil_temperature),
              "with --teacher: that of its log-probabilities; the model's are taken at it, too"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_CHOICE("optimizer", "NAME", "adamw|sgd|lion|muon|none", "adamw", AT(optimizer),
               "what makes steps of gradients; none: gradients are the answers"),
    CLI_FLOAT("beta1", "X", "-1", -1, 0.999999999, AT(beta1), "of adamw, lion and muon; -1: 0.9"),
    CLI_FLOAT("beta2", "X", "-1", -1, 0.999999999, AT(beta2), "of adamw and muon (-1: 0.95) and lion (-1: 0.99)"),
    CLI_FLOAT("eps", "X", "-1", -1, 1, AT(eps), "of adamw and muon; -1: 1e-8"),
    CLI_FLOAT("momentum", "X", "-1", -1, 0.999999999, AT(momentum), "of sgd (-1: 0.9) and muon (-1: 0.95)"),
    CLI_FLAG("nesterov", AT(nesterov), "of sgd: the step looks ahead along the momentum"),
    CLI_FLOAT("weight-decay", "X", "-1", -1, CLI_ANY, AT(weight_decay),
              "decay of parameters with two or more dimensions; -1: 0.1, with sgd 0"),
    CLI_LIST("group", "PATTERN:WHAT", AT(groups),
             "settings for parameters whose names match, as longspan train takes them; lr is a factor of a step's LR"),
};
#undef AT

const cli_command cli_steps = {
    .name = "steps",
    .summary = "steps or gradients of batches that another program gives one by one",
    .usage = "--model PATH --seq N [--batch B] [--optimizer NAME] [options]",
    .about =
        "For programs with a loop of their own (longspan.compile in Python). Each line of standard input is a request, "
        "and is answered by a line of JSON: 'step LR CLIP FOLDER' takes a step, 'grad FOLDER' writes "
        "FOLDER/gradients.safetensors, 'load' reads the weights of the model's folder again, 'save FOLDER' writes a "
        "checkpoint there, 'resume FOLDER' goes on from a checkpoint, or from the newest one in the folder. FOLDER of a batch has tokens.npy [B,S], and where they are wanted labels.npy, "
        "position-ids.npy, documents.npy and NAME.npy for other inputs, as longspan grad takes them. "
        "With --weighted it has weights.npy, too, and 'logprobs FOLDER' runs the batch forward and writes FOLDER/logprobs.npy f4[B,S], of each "
        "label its log-probability, 0 where it is -100. {\"ready\": true} comes first; "
        "the end of the input ends the command. It reads standard input on rank 0.",
    .opens = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, steps_flags),
};
