/*
 * Trains a small model on the recall task over several ranks until its answers are right, and prints the accuracy.
 * Exits with 0 if the accuracy on fresh sequences reaches the target. Built and run by run.sh. It uses Longspan's
 * internal headers, because the command `train` reads text and scores no answers.
 */
#include "outcome.h"
#include "task.h"

#include "graph/graph.h"
#include "model/model.h"
#include "train/train.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index of the first sequence for measurements; training uses smaller indices only. */
#define FRESH ((int64_t)1 << 40)
enum { MEASURE_EVERY = 20, MEASURE_SEQUENCES = 16, FINAL_SEQUENCES = 64 };

typedef struct recall {
    recall_task task;
    int64_t batch, steps;
    double lr, target;
    const char *model_path;
    const char *compare; /* folder for the comparison with a training on one rank; NULL: no comparison */
    ls_spread spread;
    ls_model *model;
    const char *logits; /* name of the tensor */
} recall;

/* Makes the whole sequence, whichever part is wanted, because its random numbers are drawn one after the other. */
static ls_status read_sequence(const recall_task *task, int64_t index, const ls_data_part *part, ls_sample *out) {
    int32_t *tokens = malloc(2 * sizeof *tokens * (size_t)task->S);
    if (tokens == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)task->S);
    recall_sequence(task, index, tokens, tokens + task->S);
    ls_sample_take(&(ls_sample){.tokens = tokens, .labels = tokens + task->S}, task->S, part, out);
    free(tokens);
    return ls_ok();
}

static ls_status read_training(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    return read_sequence(context, index, part, out);
}

static ls_status read_fresh(const void *context, int64_t index, const ls_data_part *part, ls_sample *out) {
    return read_sequence(context, FRESH + index, part, out);
}

typedef struct score {
    const char *logits;
    int64_t right, asked;
} score;

/* Counts the right greedy answers among this rank's tokens, after the program evaluate. */
static void count_right(void *context, const ls_rank *rank) {
    score *s = context;
    const ls_binding *binding = ls_image_find(rank->image, s->logits);
    const int64_t V = binding->operand.view.size[2];
    const int64_t n = ls_view_elements(&binding->operand.view) / V;
    float *logits = malloc(sizeof *logits * (size_t)(n * V));
    int32_t *labels = malloc(sizeof *labels * (size_t)n);
    LS_ASSERT(logits != NULL && labels != NULL);
    LS_ASSERT(ls_executor_read(rank->executor, &binding->operand, logits).code == LS_OK);
    LS_ASSERT(ls_executor_read(rank->executor, &ls_image_find(rank->image, "labels")->operand, labels).code == LS_OK);
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] == LS_LABEL_IGNORED) continue;
        int64_t best = 0;
        for (int64_t v = 1; v < V; v++)
            if (logits[i * V + v] > logits[i * V + best]) best = v;
        s->right += best == labels[i];
        s->asked++;
    }
    free(logits);
    free(labels);
}

static ls_status measure(const recall *r, const ls_rank *rank, int64_t sequences, score *out) {
    const ls_sequences fresh = {.sample = read_fresh, .context = &r->task};
    score mine = {.logits = r->logits};
    const ls_evaluation all = {.from = &fresh, .n = sequences, .on_batch = count_right, .context = &mine};
    LS_TRY(ls_rank_evaluate(rank, &all, NULL));
    const int64_t counts[2] = {mine.right, mine.asked};
    int64_t *each = calloc((size_t)rank->ranks, sizeof counts);
    LS_ASSERT(each != NULL);
    const ls_status status = ls_comm_exchange(rank->comm, counts, sizeof counts, each);
    *out = (score){.logits = r->logits};
    for (int p = 0; p < rank->ranks; p++) {
        out->right += each[2 * p];
        out->asked += each[2 * p + 1];
    }
    free(each);
    return status;
}

/* The share of all pairs (position of an entry, position of a question) whose two positions are on different ranks. */
static double count_crossing(int64_t S, const ls_layout *layout) {
    int32_t *owner = calloc((size_t)(2 * S), sizeof *owner), *held = owner + S;
    LS_ASSERT(owner != NULL);
    for (int p = 0; p < layout->P; p++) {
        ls_layout_positions(layout, p, held);
        for (int64_t i = 0; i < ls_layout_count(layout, p); i++) owner[held[i]] = p;
    }
    int64_t crossing = 0;
    for (int64_t entry = S / 4; entry < S / 2; entry++)
        for (int64_t question = 3 * S / 4; question < S; question++) crossing += owner[entry] != owner[question];
    free(owner);
    return (double)crossing / ((double)S / 4 * (double)S / 4);
}

/* The learning rate: a short warm-up, then a linear decay to a tenth. */
static double rate(const recall *r, int64_t step) {
    const double warm = step < 20 ? (double)(step + 1) / 20 : 1.0;
    return r->lr * warm * (1.0 - 0.9 * (double)step / (double)r->steps);
}

/* Runs one step. LS_INTERRUPTED or LS_DIVERGED ends the training. */
static ls_status advance(const recall *r, const ls_rank *rank, ls_trainer *trainer, int64_t step, double *loss) {
    const ls_sequences from = {.sample = read_training, .context = &r->task};
    const ls_step_hyper hyper = {.lr = rate(r, step), .clip = 1.0, .beta1 = 0.9, .beta2 = 0.95};
    const ls_wish wish = {.stop = ls_comm_stop_requested(rank->comm) ? LS_STOP_SIGNAL : LS_STOP_NOT};
    ls_step_report report;
    LS_TRY(ls_trainer_step(trainer, &from, step, &hyper, wish, &report));
    if (!report.applied) return ls_error(LS_DIVERGED, "step %lld: loss is not finite", (long long)step + 1);
    if (report.wish.stop != LS_STOP_NOT)
        return ls_error(LS_INTERRUPTED, "stopped after step %lld", (long long)step + 1);
    *loss = report.loss;
    return ls_ok();
}

static double accuracy_of(const score *s) { return s->asked > 0 ? (double)s->right / (double)s->asked : 0.0; }

/* Trains until the accuracy reaches the target on a few sequences and then on many. */
static ls_status train(const recall *r, const ls_rank *rank, ls_trainer *trainer, outcome *out) {
    const double began = ls_seconds();
    ls_progress progress = ls_progress_start("recall", r->steps);
    score s = {.asked = 0}, all = {.asked = 0};
    int64_t step = 0;
    double loss = 0;
    while (step < r->steps && accuracy_of(&all) < r->target) {
        LS_TRY(advance(r, rank, trainer, step, &loss));
        out->loss[step] = loss;
        step++;
        if (step % MEASURE_EVERY != 0 && step != r->steps) continue;
        LS_TRY(measure(r, rank, MEASURE_SEQUENCES, &s));
        if (accuracy_of(&s) >= r->target || step == r->steps) LS_TRY(measure(r, rank, FINAL_SEQUENCES, &all));
        char note[120];
        snprintf(note, sizeof note, "loss %.4f · right %.1f %%", loss, 100.0 * accuracy_of(&s));
        if (rank->rank == 0) ls_progress_show(&progress, step, note);
    }
    if (rank->rank == 0) ls_progress_end(&progress);
    const size_t *planned = rank->image->bytes;
    *out = (outcome){.ranks = rank->ranks,
                     .steps = step,
                     .queries = all.asked,
                     .planned = (int64_t)(planned[LS_PRIVATE] + planned[LS_SYMMETRIC]),
                     .measured = ls_resident_bytes(rank).arenas,
                     .accuracy = accuracy_of(&all),
                     .crossing = count_crossing(r->task.S, &rank->image->layout),
                     .seconds = ls_seconds() - began};
    return ls_ok();
}

static size_t outcome_bytes(const recall *r) { return sizeof(outcome) + (size_t)r->steps * sizeof(double); }

static ls_status work(ls_rank *rank, const void *input, void *result) {
    const recall *r = input;
    ls_weight_source source;
    LS_TRY(ls_model_weights(r->model, rank->image, r->task.seed, &source));
    ls_status status = ls_weights_fill(rank->executor, &source);
    ls_weights_close(&source);
    LS_TRY(status);
    ls_trainer *trainer;
    LS_TRY(ls_trainer_create(rank, r->batch, 1, r->task.S, LS_MEAN_LABELS, &trainer));
    status = train(r, rank, trainer, result);
    ls_trainer_destroy(trainer);
    return status;
}

static ls_status run_graph(recall *r, ls_graph *graph, outcome *out) {
    ls_language_model lm;
    LS_TRY(ls_model_build(r->model, graph, r->batch, r->task.S, true, &lm));
    r->logits = ls_graph_tensor(graph, lm.logits)->name;
    const ls_job job = {.graph = graph,
                        .programs = ls_training_programs(graph, lm.forward_nodes, LS_UPDATE_APPLY, 0),
                        .hyper = {0.9, 0.95, 1e-8, 0.01},
                        .fetch = &lm.logits,
                        .n_fetch = 1};
    ls_session *session;
    LS_TRY(ls_session_open(&job, &r->spread, &session));
    ls_log("%s", ls_session_plan(session)->reason);
    const ls_status status = ls_session_run(session, work, r, out, outcome_bytes(r));
    ls_session_close(session);
    return status;
}

/* Runs one training; *out has outcome_bytes, to be freed by the caller. */
static ls_status run(recall *r, outcome **out) {
    *out = calloc(1, outcome_bytes(r));
    if (*out == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld losses", (long long)r->steps);
    ls_graph *graph = ls_graph_create(LS_F32);
    const ls_status status = run_graph(r, graph, *out);
    ls_graph_destroy(graph);
    return status;
}

/* Trains on one rank, then on many, with the same task and initial weights, and compares the two. */
static ls_status run_both(recall *r, outcome **one, outcome **many) {
    const ls_spread spread = r->spread;
    r->spread = (ls_spread){.ranks = 1, .as_threads = spread.as_threads};
    LS_TRY(run(r, one));
    r->spread = spread;
    LS_TRY(run(r, many));
    return outcome_compare(*one, *many, r->compare);
}

static int report(const recall *r, const outcome *o) {
    printf(
        "accuracy %.4f on %lld answers (target %.2f), %.1f %% of them copied from another rank, each from more than %lld "
        "tokens back\nS %lld, %lld ranks with at most %lld tokens each, %lld steps, %.1f s\n",
        o->accuracy, (long long)o->queries, r->target, 100.0 * o->crossing, (long long)r->task.S / 4,
        (long long)r->task.S, (long long)r->spread.ranks, (long long)ls_ceil_div(r->task.S, r->spread.ranks),
        (long long)o->steps, o->seconds);
    return o->accuracy >= r->target ? 0 : 1;
}

static ls_status parse(int argc, char **argv, recall *r) {
    static const struct option flags[] = {
        {"seq", 1, 0, 'S'},  {"ranks", 1, 0, 'r'},    {"batch", 1, 0, 'b'}, {"steps", 1, 0, 'n'},
        {"lr", 1, 0, 'l'},   {"target", 1, 0, 't'},   {"seed", 1, 0, 's'},  {"strategy", 1, 0, 'y'},
        {"mesh", 1, 0, 'm'}, {"ranks-as", 1, 0, 'a'}, {"model", 1, 0, 'c'}, {"compare", 1, 0, 'o'},
        {0, 0, 0, 0}};
    for (int c; (c = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        if (c == 'S')
            r->task.S = atoll(optarg);
        else if (c == 'r')
            r->spread.ranks = atoll(optarg);
        else if (c == 'b')
            r->batch = atoll(optarg);
        else if (c == 'n')
            r->steps = atoll(optarg);
        else if (c == 'l')
            r->lr = atof(optarg);
        else if (c == 't')
            r->target = atof(optarg);
        else if (c == 's')
            r->task.seed = (uint64_t)atoll(optarg);
        else if (c == 'y')
            r->spread.strategy = optarg;
        else if (c == 'm')
            r->spread.mesh = optarg;
        else if (c == 'c')
            r->model_path = optarg;
        else if (c == 'o')
            r->compare = optarg;
        else if (c == 'a')
            r->spread.as_threads = strcmp(optarg, "threads") == 0;
        else
            return ls_error(LS_USAGE,
                            "known flags: --seq --ranks --batch --steps --lr --target --seed --strategy --mesh "
                            "--ranks-as --model --compare");
    }
    if (r->task.S % 4 != 0 || r->task.S < 4 * RECALL_KEYS)
        return ls_error(LS_USAGE, "--seq %lld; expected a multiple of 4, %d at least", (long long)r->task.S,
                        4 * RECALL_KEYS);
    if (r->spread.ranks < 1 || r->batch < 1 || r->steps < 1)
        return ls_error(LS_USAGE, "--ranks %lld, --batch %lld, --steps %lld; expected 1 or more",
                        (long long)r->spread.ranks, (long long)r->batch, (long long)r->steps);
    return ls_ok();
}

int main(int argc, char **argv) {
    recall r = {.task = {4096, 1},
                .batch = 8,
                .steps = 1500,
                .lr = 3e-3,
                .target = 0.99,
                .model_path = "examples/recall/config.json",
                .spread = {.ranks = 4}};
    ls_status status = parse(argc, argv, &r);
    if (status.code == LS_OK) status = ls_model_open(r.model_path, &r.model);
    if (status.code != LS_OK) {
        ls_log("%s", status.text);
        return 2;
    }
    outcome *one = NULL, *out = NULL;
    status = r.compare != NULL ? run_both(&r, &one, &out) : run(&r, &out);
    if (status.code != LS_OK) ls_log("%s", status.text);
    const int code = status.code == LS_OK ? report(&r, out) : 1;
    free(one);
    free(out);
    ls_model_close(r.model);
    return code;
}
