/*
 * Training on pairs of answers. A step first runs all of its micro-batches forward; rank 0 adds up the
 * log-probabilities of each answer, and finds the loss and, by its derivative, a weight for each token. The backward
 * pass then runs with the loss Σ weight · log-probability, whose gradient is that of the loss of the pairs.
 *
 * Losses with a reference need the log-probabilities of all answers before the first step. They are found once, and
 * kept in the run's folder.
 */
#include "train/train_impl.h"

#include "eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE "reference.npy" /* f8: of all documents, set after set */

/* The sets of answers of a training, those that are trained on first. */
enum { MOST_SETS = 64 };
typedef struct answer_set {
    const ls_data *data;
    int64_t first; /* its documents among all */
    int64_t documents;
} answer_set;

struct ls_comparing {
    const ls_training *t;
    const ls_rank *rank;
    answer_set *set; /* [mixture's sets + evaluation's] */
    int n_sets;
    int64_t documents;
    double *reference;     /* by document; rank 0 alone */
    ls_data_piece *pieces; /* of one sequence */
};

/* --- sums of answers ---------------------------------------------------------------------------------------------- */

/* What is done with the pairs of a sequence: called for each, its pieces in the order of the sequence. */
typedef ls_status (*on_pair)(void *context, const answer_set *set, const ls_data_piece piece[2],
                             const ls_answer_sums sums[2]);

/*
 * losses[S]: minus the log-probabilities of a sequence's labels; where a label is ignored, nothing that counts.
 */
static ls_status add_up(const ls_comparing *c, const answer_set *set, int64_t index, const float *losses,
                        const int32_t *labels, on_pair call, void *context) {
    int64_t n = 0;
    LS_TRY(ls_data_pieces(set->data, index, c->pieces, &n));
    for (int64_t k = 0; k + 1 < n; k += 2) {
        ls_answer_sums sums[2] = {{.own = 0}, {.own = 0}};
        for (int i = 0; i < 2; i++) {
            const ls_data_piece *piece = &c->pieces[k + i];
            for (int64_t at = piece->place; at < piece->place + piece->length; at++) {
                sums[i].own -= labels[at] != LS_LABEL_IGNORED ? (double)losses[at] : 0;
                sums[i].tokens += labels[at] != LS_LABEL_IGNORED;
            }
            if (c->reference != NULL) sums[i].reference = c->reference[set->first + piece->document];
        }
        if (sums[0].tokens > 0 && sums[1].tokens > 0) LS_TRY(call(context, set, &c->pieces[k], sums));
    }
    return ls_ok();
}

/* --- what a step finds -------------------------------------------------------------------------------------------- */

typedef struct finding {
    const ls_comparing *c;
    const ls_answer_loss *loss;
    ls_answer_settings settings;
    ls_answers_figures sum;
    int64_t wanted_tokens;
    double wanted_loss; /* of them */
    float *weights;     /* [S] of the sequence at work; NULL: the loss alone is wanted */
} finding;

static finding begin_finding(const ls_comparing *c) {
    const ls_train_options *o = &c->t->options;
    return (finding){.c = c, .loss = c->t->compares, .settings = {o->loss_beta, o->loss_gamma}};
}

static void put_weight(float *weights, const int32_t *labels, const ls_data_piece *piece, double weight) {
    for (int64_t at = piece->place; at < piece->place + piece->length; at++)
        if (labels[at] != LS_LABEL_IGNORED) weights[at] += (float)weight;
}

typedef struct weighing {
    finding *f;
    const int32_t *labels; /* of the sequence at work, where f wants weights */
} weighing;

static ls_status find_pair(void *context, const answer_set *set, const ls_data_piece piece[2],
                           const ls_answer_sums sums[2]) {
    const weighing *w = context;
    finding *f = w->f;
    (void)set;
    const ls_answers_loss found = f->loss->of_pair(sums, &f->settings);
    const bool gains = f->loss->reference;
    double reward[2];
    for (int i = 0; i < 2; i++) {
        reward[i] = f->settings.beta * (gains ? sums[i].own - sums[i].reference : sums[i].own / (double)sums[i].tokens);
        f->sum.reward[i] += reward[i];
        /* The backward pass minimises the sum of weight · loss of a token, where that is minus its log-probability. */
        if (f->weights != NULL) put_weight(f->weights, w->labels, &piece[i], -found.weight[i]);
    }
    f->sum.pairs++;
    f->sum.loss += found.loss;
    f->sum.right += reward[0] > reward[1];
    f->wanted_tokens += sums[0].tokens;
    f->wanted_loss -= sums[0].own;
    return ls_ok();
}

/* Means over pairs; where answers are imitated, too, what that adds. */
static ls_answers_figures end_finding(const finding *f) {
    ls_answers_figures made = f->sum;
    const double pairs = (double)made.pairs;
    made.loss = made.pairs > 0 ? made.loss / pairs : NAN;
    for (int i = 0; i < 2; i++) made.reward[i] /= pairs;
    made.right /= pairs;
    if (f->loss->imitates) made.loss += f->wanted_loss / (double)f->wanted_tokens;
    return made;
}

/* --- the weights of a step ---------------------------------------------------------------------------------------- */

/* A sequence of a step, with its tokens and labels. */
typedef struct step_sequence {
    const answer_set *set;
    int64_t own; /* its number there */
    int32_t *tokens, *labels;
} step_sequence;

static ls_status read_sequence(const ls_comparing *c, int64_t index, step_sequence *of) {
    of->set = &c->set[ls_mixture_find(&c->t->mixture, index, &of->own)];
    ls_sample sample = {.tokens = of->tokens, .labels = of->labels};
    return ls_data_read(of->set->data, of->own, NULL, &sample);
}

/* The wanted answers of a sequence are learnt as they are, too. */
static ls_status imitate(const ls_comparing *c, const step_sequence *of, int64_t wanted_tokens, float *weights) {
    int64_t n = 0;
    LS_TRY(ls_data_pieces(of->set->data, of->own, c->pieces, &n));
    for (int64_t k = 0; k + 1 < n; k += 2) put_weight(weights, of->labels, &c->pieces[k], 1 / (double)wanted_tokens);
    return ls_ok();
}

static ls_status weigh_sequences(const ls_comparing *c, step_sequence *of, int64_t first, int64_t n,
                                 const float *losses, float *weights, ls_answers_figures *out) {
    const int64_t S = c->t->options.seq;
    finding f = begin_finding(c);
    memset(weights, 0, sizeof *weights * (size_t)(n * S));
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(read_sequence(c, first + i, of));
        f.weights = weights + i * S;
        weighing w = {&f, of->labels};
        LS_TRY(add_up(c, of->set, of->own, losses + i * S, of->labels, find_pair, &w));
    }
    *out = end_finding(&f);
    /* How many pairs and tokens a mean is over is known only now. */
    for (int64_t i = 0; i < n * S; i++) weights[i] = (float)((double)weights[i] / (double)ls_max(1, f.sum.pairs));
    for (int64_t i = 0; i < n && f.loss->imitates; i++) {
        LS_TRY(read_sequence(c, first + i, of));
        LS_TRY(imitate(c, of, f.wanted_tokens, weights + i * S));
    }
    return ls_ok();
}

/* On rank 0, which has the losses of all tokens. */
static ls_status weigh_step(const ls_comparing *c, int64_t first, int64_t n, const float *losses, float *weights,
                            ls_answers_figures *out) {
    const int64_t S = c->t->options.seq;
    int32_t *ids = malloc(sizeof *ids * (size_t)(2 * S));
    if (ids == NULL) return ls_error(LS_NO_MEMORY, "no memory for a sequence of labels");
    step_sequence of = {.tokens = ids, .labels = ids + S};
    const ls_status status = weigh_sequences(c, &of, first, n, losses, weights, out);
    free(ids);
    return status;
}

static ls_status give_weights(void *context, size_t at, void *out, size_t bytes) {
    memcpy(out, (const char *)context + at, bytes);
    return ls_ok();
}

static ls_status take_weights(void *context, int rank, size_t at, const void *data, size_t bytes) {
    if (rank == 0) memmove((char *)context + at, data, bytes);
    return ls_ok();
}

ls_status ls_comparing_weigh(void *context, int64_t first, int64_t n, const float *losses, float *weights,
                             ls_answers_figures *out) {
    const ls_comparing *c = context;
    const size_t bytes = sizeof *weights * (size_t)(n * c->t->options.seq);
    const bool finds = c->rank->rank == 0;
    LS_TRY(ls_comm_agree(c->rank->comm, finds ? weigh_step(c, first, n, losses, weights, out) : ls_ok()));
    LS_TRY(ls_comm_broadcast(c->rank->comm, out, sizeof *out));
    const ls_comm_pieces all = {finds ? bytes : 0, give_weights, finds ? NULL : take_weights, weights};
    return ls_comm_gather(c->rank->comm, &all, true);
}

/* --- forward passes over whole sets ------------------------------------------------------------------------------- */

typedef struct passing {
    const ls_comparing *c;
    const answer_set *set;
    int64_t n, next; /* sequences, spread over the set as an evaluation spreads them; and the number of the next one */
    on_pair call;
    void *context;
    ls_status status;
} passing;

static void pass_sequence(void *context, const ls_sample *sample, const float *losses) {
    passing *p = context;
    const int64_t index = ls_part_start(ls_data_summarise(p->set->data)->windows, p->n, p->next++);
    if (p->status.code == LS_OK) p->status = add_up(p->c, p->set, index, losses, sample->labels, p->call, p->context);
}

/* Evaluates the first n sequences of a set. What `call` fails with on rank 0 is the status of all. */
static ls_status pass_set(passing *p, int64_t n, ls_progress *progress) {
    const ls_comparing *c = p->c;
    p->n = n;
    const ls_text_sequences text = {p->set->data, n, ls_model_takes(c->t->model).marks, c->t->options.seq};
    const ls_sequences from = ls_text_sequences_of(&text);
    const ls_evaluation all = {.from = &from, .n = n, .progress = progress, .on_sequence = pass_sequence, .context = p};
    LS_TRY(ls_rank_evaluate(c->rank, &all, NULL));
    return ls_comm_agree(c->rank->comm, p->status);
}

ls_status ls_comparing_evaluate(const ls_comparing *c, int set, int64_t n, double *loss) {
    finding f = begin_finding(c);
    weighing w = {.f = &f};
    passing p = {.c = c, .set = &c->set[c->t->mixture.n + set], .call = find_pair, .context = &w, .status = ls_ok()};
    LS_TRY(pass_set(&p, n, NULL));
    *loss = end_finding(&f).loss;
    return ls_comm_broadcast(c->rank->comm, loss, sizeof *loss);
}

/* --- the reference ------------------------------------------------------------------------------------------------ */

static ls_status keep_pair(void *context, const answer_set *set, const ls_data_piece piece[2],
                           const ls_answer_sums sums[2]) {
    ls_comparing *c = context;
    for (int i = 0; i < 2; i++) c->reference[set->first + piece[i].document] = sums[i].own;
    return ls_ok();
}

static ls_status find_reference(ls_comparing *c) {
    LS_PATH path = NULL;
    for (int k = 0; k < c->n_sets; k++) {
        const int64_t n = ls_data_summarise(c->set[k].data)->windows;
        passing p = {.c = c, .set = &c->set[k], .call = keep_pair, .context = c, .status = ls_ok()};
        ls_progress progress = ls_progress_start("reference", n);
        LS_TRY(pass_set(&p, n, progress.terminal && c->rank->rank == 0 ? &progress : NULL));
        if (progress.terminal && c->rank->rank == 0) ls_progress_end(&progress);
    }
    if (c->rank->rank != 0) return ls_ok();
    ls_log("reference: log-probabilities of %lld answers, by the weights of the start", (long long)c->documents);
    LS_TRY(ls_record_path(c->t, REFERENCE, &path));
    return ls_npy_write(path, LS_NPY_F8, 1, &c->documents, c->reference);
}

static ls_status read_reference(ls_comparing *c) {
    LS_PATH path = NULL;
    ls_npy file;
    if (c->rank->rank != 0) return ls_ok();
    LS_TRY(ls_record_path(c->t, REFERENCE, &path));
    LS_TRY(ls_npy_open(path, &file));
    const bool fits = file.type == LS_NPY_F8 && file.ndim == 1 && file.count == c->documents;
    if (fits) memcpy(c->reference, file.data, sizeof *c->reference * (size_t)c->documents);
    ls_npy_close(&file);
    return fits ? ls_ok()
                : ls_error(LS_INVALID, "%s: expected f8 of %lld answers, as many as --data and --eval-data have", path,
                           (long long)c->documents);
}

/* --- a rank's ----------------------------------------------------------------------------------------------------- */

static ls_status add_sets(ls_comparing *c) {
    const ls_training *t = c->t;
    c->set = calloc((size_t)t->mixture.n + (size_t)t->eval_sets.n, sizeof *c->set);
    c->pieces = malloc(sizeof *c->pieces * ((size_t)t->options.seq + 1));
    if (c->set == NULL || c->pieces == NULL) return ls_error(LS_NO_MEMORY, "no memory for the pairs of a training");
    for (int k = 0; k < t->mixture.n + t->eval_sets.n; k++) {
        const ls_data *data = k < t->mixture.n ? t->mixture.set[k].data : t->eval_sets.data[k - t->mixture.n];
        const int64_t documents = ls_data_summarise(data)->documents;
        c->set[c->n_sets++] = (answer_set){data, c->documents, documents};
        c->documents += documents;
    }
    if (!t->compares->reference || c->rank->rank != 0) return ls_ok();
    c->reference = calloc((size_t)c->documents + 1, sizeof *c->reference);
    return c->reference != NULL ? ls_ok()
                                : ls_error(LS_NO_MEMORY, "no memory for %lld answers", (long long)c->documents);
}

ls_status ls_comparing_create(const ls_training *t, const ls_rank *rank, ls_comparing **out) {
    ls_comparing *c = calloc(1, sizeof *c);
    if (c == NULL) return ls_error(LS_NO_MEMORY, "no memory for the pairs of a training");
    c->t = t;
    c->rank = rank;
    const ls_status status = add_sets(c);
    if (status.code == LS_OK)
        *out = c;
    else
        ls_comparing_destroy(c);
    return status;
}

ls_status ls_comparing_begin(ls_comparing *c) {
    if (!c->t->compares->reference) return ls_ok();
    return ls_comm_agree(c->rank->comm, c->t->resumed_from != NULL ? read_reference(c) : find_reference(c));
}

void ls_comparing_destroy(ls_comparing *c) {
    if (c == NULL) return;
    free(c->set);
    free(c->reference);
    free(c->pieces);
    free(c);
}
