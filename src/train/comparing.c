/*
 * Training on pairs of answers, or on answers that are judged one by one, each of which is paired with an answer to
 * another prompt. A step first runs all of its micro-batches forward. Rank 0 adds up the log-probabilities of each
 * answer, and finds the loss and, from its derivative, a weight for each token. The backward pass then runs with the
 * loss Σ weight · log-probability, whose gradient equals that of the loss of the pairs.
 *
 * Losses with a reference need the log-probabilities of all answers before the first step. They are computed once, and
 * kept in the run's folder.
 */
#include "train/train_impl.h"

#include "eval/eval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFERENCE "reference.npy" /* f8, for all documents, set after set */

/* The sets of answers of a training; those that are trained on come first. */
enum { MOST_SETS = 64 };
typedef struct answer_set {
    const ls_data *data;
    int64_t first; /* number of its first document among the documents of all sets */
    int64_t documents;
} answer_set;

struct ls_comparing {
    const ls_training *t;
    const ls_rank *rank;
    answer_set *set; /* [mixture's sets + evaluation's] */
    int n_sets;
    int64_t documents;
    double *reference;     /* by document; on rank 0 only */
    ls_data_piece *pieces; /* pieces of one sequence */
    uint8_t *answers;      /* [S] of one sequence: whether a label is a token of an answer */
};

/* --- sums of answers ---------------------------------------------------------------------------------------------- */

/* Called for each pair of a sequence, with its two pieces in the order of the sequence. */
typedef ls_status (*on_pair)(void *context, const answer_set *set, const ls_data_piece piece[2],
                             const ls_answer_sums sums[2]);

/*
 * losses[S]: minus the log-probabilities of a sequence's labels; values at ignored labels do not count. Leaves the
 * sequence's pieces and answers in *c.
 */
static ls_status add_up(const ls_comparing *c, const answer_set *set, int64_t index, const float *losses,
                        const int32_t *labels, on_pair call, void *context) {
    int64_t n = 0;
    LS_TRY(ls_data_pieces(set->data, index, c->pieces, &n));
    LS_TRY(ls_data_answers(set->data, index, c->answers));
    for (int64_t k = 0; k + 1 < n; k += 2) {
        ls_answer_sums sums[2] = {{.own = 0}, {.own = 0}};
        for (int i = 0; i < 2; i++) {
            const ls_data_piece *piece = &c->pieces[k + i];
            for (int64_t at = piece->place; at < piece->place + piece->length; at++) {
                const bool learnt = labels[at] != LS_LABEL_IGNORED;
                sums[i].own -= c->answers[at] ? (double)losses[at] : 0;
                sums[i].tokens += c->answers[at];
                sums[i].learnt -= learnt ? (double)losses[at] : 0;
                sums[i].learnt_tokens += learnt;
            }
            if (c->reference != NULL) sums[i].reference = c->reference[set->first + piece->document];
        }
        if (sums[0].tokens > 0 && sums[1].tokens > 0) LS_TRY(call(context, set, &c->pieces[k], sums));
    }
    return ls_ok();
}

/* --- what a step finds -------------------------------------------------------------------------------------------- */

/* A pair, with its sums and the loss that was found from them. */
typedef struct judged_pair {
    ls_answer_sums sums[2];
    ls_answers_loss found;
} judged_pair;

/* The pairs of a step or of an evaluation, in the order in which they are found. */
typedef struct finding {
    const ls_comparing *c;
    const ls_answer_loss *loss;
    ls_answer_settings settings;
    judged_pair *pair;
    int64_t n, capacity;
    int64_t wanted_tokens;
} finding;

static finding begin_finding(const ls_comparing *c) {
    const ls_train_options *o = &c->t->options;
    return (finding){.c = c,
                     .loss = c->t->compares,
                     .settings = {.beta = o->loss_beta,
                                  .gamma = o->loss_gamma,
                                  .centre = o->center_rewards,
                                  .desirable = o->desirable_weight,
                                  .undesirable = o->undesirable_weight}};
}

static ls_status find_pair(void *context, const answer_set *set, const ls_data_piece piece[2],
                           const ls_answer_sums sums[2]) {
    finding *f = context;
    if (f->n == f->capacity) {
        const int64_t wanted = 2 * f->capacity + 256;
        judged_pair *grown = realloc(f->pair, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld pairs of answers", (long long)wanted);
        f->pair = grown;
        f->capacity = wanted;
    }
    judged_pair *p = &f->pair[f->n++];
    *p = (judged_pair){.sums = {sums[0], sums[1]}};
    p->sums[0].margin = ls_data_margin(set->data, piece[0].document);
    return f->loss->judges ? ls_data_wanted(set->data, piece[0].document, &p->sums[0].wanted) : ls_ok();
}

/* The mean gain in log-probability of answers to other prompts over the reference; at least 0. */
static double divergence(const finding *f) {
    double sum = 0;
    for (int64_t k = 0; k < f->n; k++) sum += f->pair[k].sums[1].own - f->pair[k].sums[1].reference;
    return f->n > 0 ? fmax(sum / (double)f->n, 0) : 0;
}

static double reward_of(const finding *f, const ls_answer_sums *a) {
    if (f->loss->scores) return a->own;
    return f->settings.beta * (f->loss->reference ? a->own - a->reference : a->own / (double)a->tokens);
}

/* Means over the answers of the pairs. A loss that judges has one answer per pair. */
static void find_rewards(const finding *f, ls_answers_figures *out) {
    int64_t n[2] = {0, 0}, right = 0;
    double sum[2] = {0, 0};
    for (int64_t k = 0; k < f->n; k++) {
        const ls_answer_sums *a = f->pair[k].sums;
        const bool judged = f->loss->judges;
        for (int i = 0; i < (judged ? 1 : 2); i++) {
            const int to = judged && !a->wanted ? 1 : i;
            sum[to] += reward_of(f, &a[i]);
            n[to]++;
        }
        right += !judged && reward_of(f, &a[0]) > reward_of(f, &a[1]);
    }
    for (int i = 0; i < 2; i++) out->reward[i] = n[i] > 0 ? sum[i] / (double)n[i] : NAN;
    out->right = f->loss->judges || f->n == 0 ? NAN : (double)right / (double)f->n;
}

/*
 * Called when all pairs are known. The loss is a mean over the pairs. If answers are also imitated, the mean loss of
 * the tokens that are learnt in the documents of the wanted answers is added.
 */
static void judge(finding *f, ls_answers_figures *out) {
    double loss = 0, wanted_loss = 0;
    f->settings.divergence = f->loss->judges ? divergence(f) : 0;
    f->wanted_tokens = 0;
    for (int64_t k = 0; k < f->n; k++) {
        judged_pair *p = &f->pair[k];
        p->found = f->loss->of_pair(p->sums, &f->settings);
        loss += p->found.loss;
        wanted_loss -= p->sums[0].learnt;
        f->wanted_tokens += p->sums[0].learnt_tokens;
    }
    *out = (ls_answers_figures){.pairs = f->n,
                                .loss = f->n > 0 ? loss / (double)f->n : NAN,
                                .divergence = f->loss->judges ? f->settings.divergence : NAN};
    if (f->loss->imitates) out->loss += wanted_loss / (double)f->wanted_tokens;
    find_rewards(f, out);
}

/* --- the weights of a step ---------------------------------------------------------------------------------------- */

/* A sequence of a step, with its tokens and labels. */
typedef struct step_sequence {
    const answer_set *set;
    int64_t own; /* index of the pair in the step */
    int32_t *tokens, *labels;
} step_sequence;

static ls_status read_sequence(const ls_comparing *c, int64_t index, step_sequence *of) {
    of->set = &c->set[ls_mixture_find(&c->t->mixture, index, &of->own)];
    ls_sample sample = {.tokens = of->tokens, .labels = of->labels};
    return ls_data_read(of->set->data, of->own, NULL, &sample);
}

/* Writes the weights of one sequence after the other. */
typedef struct weighing {
    const finding *f;
    int64_t next; /* index of the next pair */
    const int32_t *labels;
    float *weights; /* [S] */
} weighing;

/*
 * The backward pass minimises the sum of weight · loss over the tokens, where a token's loss is minus its
 * log-probability.
 */
static ls_status weigh_pair(void *context, const answer_set *set, const ls_data_piece piece[2],
                            const ls_answer_sums sums[2]) {
    weighing *w = context;
    const finding *f = w->f;
    const ls_answers_loss *found = &f->pair[w->next++].found;
    (void)set, (void)sums;
    for (int i = 0; i < 2; i++) {
        const double imitated = i == 0 && f->loss->imitates ? 1 / (double)f->wanted_tokens : 0;
        const double compared = -found->weight[i] / (double)f->n;
        for (int64_t at = piece[i].place; at < piece[i].place + piece[i].length; at++)
            if (w->labels[at] != LS_LABEL_IGNORED)
                w->weights[at] = (float)(imitated + (f->c->answers[at] ? compared : 0));
    }
    return ls_ok();
}

/* Finds the pairs of the sequences of a step; reads each sequence into `of`. */
static ls_status find_pairs(finding *f, step_sequence *of, int64_t first, int64_t n, const float *losses) {
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(read_sequence(f->c, first + i, of));
        LS_TRY(add_up(f->c, of->set, of->own, losses + i * f->c->t->options.seq, of->labels, find_pair, f));
    }
    return ls_ok();
}

static ls_status put_weights(const finding *f, step_sequence *of, int64_t first, int64_t n, const float *losses,
                             float *weights) {
    const int64_t S = f->c->t->options.seq;
    weighing w = {.f = f, .labels = of->labels};
    memset(weights, 0, sizeof *weights * (size_t)(n * S));
    for (int64_t i = 0; i < n; i++) {
        LS_TRY(read_sequence(f->c, first + i, of));
        w.weights = weights + i * S;
        LS_TRY(add_up(f->c, of->set, of->own, losses + i * S, of->labels, weigh_pair, &w));
    }
    return ls_ok();
}

/* Called on rank 0, which has the losses of all tokens. */
static ls_status weigh_step(const ls_comparing *c, int64_t first, int64_t n, const float *losses, float *weights,
                            ls_answers_figures *out) {
    const int64_t S = c->t->options.seq;
    int32_t *ids = malloc(sizeof *ids * (size_t)(2 * S));
    if (ids == NULL) return ls_error(LS_NO_MEMORY, "no memory for a sequence of labels");
    step_sequence of = {.tokens = ids, .labels = ids + S};
    finding f = begin_finding(c);
    ls_status status = find_pairs(&f, &of, first, n, losses);
    judge(&f, out);
    if (status.code == LS_OK) status = put_weights(&f, &of, first, n, losses, weights);
    free(f.pair);
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
    const ls_comm_pieces all = {finds ? bytes : 0, give_weights, finds ? NULL : take_weights, weights, 0};
    return ls_comm_gather(c->rank->comm, &all, true);
}

/* --- forward passes over whole sets ------------------------------------------------------------------------------- */

typedef struct passing {
    const ls_comparing *c;
    const answer_set *set;
    /* number of sequences, chosen from the whole set as in an evaluation; and the number of the next one */
    int64_t n, next;
    on_pair call;
    void *context;
    ls_status status;
} passing;

static void pass_sequence(void *context, const ls_sample *sample, const float *losses) {
    passing *p = context;
    const int64_t index = ls_part_start(ls_data_summarise(p->set->data)->windows, p->n, p->next++);
    if (p->status.code == LS_OK) p->status = add_up(p->c, p->set, index, losses, sample->labels, p->call, p->context);
}

/* Evaluates the first n sequences of a set. If `call` fails on rank 0, all ranks get its status. */
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
    ls_answers_figures figures;
    passing p = {.c = c, .set = &c->set[c->t->mixture.n + set], .call = find_pair, .context = &f, .status = ls_ok()};
    const ls_status status = pass_set(&p, n, NULL);
    judge(&f, &figures);
    free(f.pair);
    LS_TRY(status);
    *loss = figures.loss;
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

/* --- the state of a rank ------------------------------------------------------------------------------------------ */

static ls_status add_sets(ls_comparing *c) {
    const ls_training *t = c->t;
    c->set = calloc((size_t)t->mixture.n + (size_t)t->eval_sets.n, sizeof *c->set);
    c->pieces = malloc(sizeof *c->pieces * ((size_t)t->options.seq + 1));
    c->answers = malloc((size_t)t->options.seq);
    if (c->set == NULL || c->pieces == NULL || c->answers == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the pairs of a training");
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
    free(c->answers);
    free(c);
}
