/*
 * Losses that compare a wanted answer with another answer to the same prompt, or judge a single answer; each is a row.
 * A loss is a function of the log-probabilities of both answers, so its derivative with respect to the log-probability
 * of a token is the same for all tokens of an answer. The backward pass uses these derivatives as weights of tokens.
 */
#include "train/train_impl.h"

#include <math.h>
#include <string.h>

/* log(sigmoid(x)), and 1 - sigmoid(x), without overflow. */
static double log_sigmoid(double x) { return x >= 0 ? -log1p(exp(-x)) : x - log1p(exp(x)); }
static double other_sigmoid(double x) { return x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x)); }

static double mean(const ls_answer_sums *a) { return a->own / (double)a->tokens; }
static double gain(const ls_answer_sums *a) { return a->own - a->reference; }

/*
 * -log sigmoid(beta · x), where x is some figure of the wanted answer minus that of the other answer. A slope is the
 * derivative of the figure with respect to the log-probability of a token.
 */
static ls_answers_loss sigmoid_of(double beta, double x, double wanted_slope, double other_slope) {
    const double by = -beta * other_sigmoid(beta * x);
    return (ls_answers_loss){.loss = -log_sigmoid(beta * x), .weight = {by * wanted_slope, -by * other_slope}};
}

/* Rafailov et al., "Direct preference optimization" (arXiv 2305.18290), equation 7. */
static ls_answers_loss dpo(const ls_answer_sums a[2], const ls_answer_settings *s) {
    return sigmoid_of(s->beta, gain(&a[0]) - gain(&a[1]), 1, 1);
}

/*
 * Azar et al., "A general theoretical paradigm to understand learning from human preferences" (arXiv 2310.12036),
 * equation 17, with means over the tokens of an answer, as in TRL.
 */
static ls_answers_loss ipo(const ls_answer_sums a[2], const ls_answer_settings *s) {
    const double n[] = {(double)a[0].tokens, (double)a[1].tokens};
    const double off = gain(&a[0]) / n[0] - gain(&a[1]) / n[1] - 1 / (2 * s->beta);
    return (ls_answers_loss){.loss = off * off, .weight = {2 * off / n[0], -2 * off / n[1]}};
}

/* Meng et al., "SimPO" (arXiv 2405.14734), equation 6. */
static ls_answers_loss simpo(const ls_answer_sums a[2], const ls_answer_settings *s) {
    const double margin = s->gamma / s->beta;
    return sigmoid_of(s->beta, mean(&a[0]) - mean(&a[1]) - margin, 1 / (double)a[0].tokens, 1 / (double)a[1].tokens);
}

/* Zhao et al., "SLiC-HF" (arXiv 2305.10425), with the gain over a reference, as in TRL. */
static ls_answers_loss hinge(const ls_answer_sums a[2], const ls_answer_settings *s) {
    const double missing = 1 - s->beta * (gain(&a[0]) - gain(&a[1])), by = missing > 0 ? s->beta : 0;
    return (ls_answers_loss){.loss = fmax(missing, 0), .weight = {-by, by}};
}

/*
 * The log-odds of an answer, from the mean log-probability of its tokens; slope: its derivative with respect to that of
 * one token.
 */
static double log_odds(const ls_answer_sums *a, double *slope) {
    const double x = fmin(mean(a), -1e-12); /* a probability of 1 has no finite odds */
    *slope = 1 / (-expm1(x) * (double)a->tokens);
    return x - log(-expm1(x));
}

/*
 * Hong et al., "ORPO" (arXiv 2403.07691), equations 6 and 7; the caller adds the mean loss of the wanted answer's
 * tokens.
 */
static ls_answers_loss orpo(const ls_answer_sums a[2], const ls_answer_settings *s) {
    double slope[2];
    const double x = log_odds(&a[0], &slope[0]) - log_odds(&a[1], &slope[1]);
    ls_answers_loss made = sigmoid_of(1, x, slope[0], slope[1]);
    made.loss *= s->beta;
    for (int i = 0; i < 2; i++) made.weight[i] *= s->beta;
    return made;
}

/*
 * Ethayarajh et al., "KTO" (arXiv 2402.01306), equation 7, as in TRL: 1 - sigmoid(beta · (gain - divergence)) for a
 * wanted answer; the opposite sign for another answer.
 */
static ls_answers_loss kto(const ls_answer_sums a[2], const ls_answer_settings *s) {
    const double sign = a->wanted ? 1 : -1, factor = a->wanted ? s->desirable : s->undesirable;
    const double x = sign * s->beta * (gain(a) - s->divergence), loss = other_sigmoid(x);
    return (ls_answers_loss){.loss = factor * loss, .weight = {-factor * sign * s->beta * loss * (1 - loss), 0}};
}

/*
 * The pair model of Bradley and Terry; Ouyang et al., "InstructGPT" (arXiv 2203.02155), equation 1; with the margin of
 * Touvron et al., "Llama 2" (arXiv 2307.09288), equation 2, and a term that keeps scores around 0, as in Eisenstein et
 * al. (arXiv 2312.09244), section 2.
 */
static ls_answers_loss reward(const ls_answer_sums a[2], const ls_answer_settings *s) {
    const double sum = a[0].own + a[1].own;
    ls_answers_loss made = sigmoid_of(1, a[0].own - a[1].own - a[0].margin, 1, 1);
    made.loss += s->centre * sum * sum;
    for (int i = 0; i < 2; i++) made.weight[i] += 2 * s->centre * sum;
    return made;
}

static const ls_answer_loss rows[] = {
    {.name = "dpo", .about = "direct preference optimisation", .reference = true, .of_pair = dpo},
    {.name = "ipo", .about = "identity preference optimisation", .reference = true, .of_pair = ipo},
    {.name = "hinge", .about = "SLiC-HF, over a reference", .reference = true, .of_pair = hinge},
    {.name = "simpo", .about = "simple preference optimisation", .of_pair = simpo},
    {.name = "kto", .about = "Kahneman-Tversky optimisation", .reference = true, .judges = true, .of_pair = kto},
    {.name = "reward", .about = "a reward model, by pairs", .scores = true, .of_pair = reward},
    {.name = "orpo", .about = "odds ratio preference optimisation", .imitates = true, .of_pair = orpo},
};

ls_status ls_loss_find(const char *name, const ls_answer_loss **out, bool *distils) {
    char known[200] = LS_LOSS_OF_TOKENS ", " LS_LOSS_OF_TEACHER;
    *out = NULL;
    *distils = name != NULL && strcmp(name, LS_LOSS_OF_TEACHER) == 0;
    if (name == NULL || *distils || strcmp(name, LS_LOSS_OF_TOKENS) == 0) return ls_ok();
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, ", %s", rows[i].name);
        if (strcmp(rows[i].name, name) == 0) *out = &rows[i];
    }
    return *out != NULL ? ls_ok() : ls_error(LS_USAGE, "--loss is '%s'; known are %s", name, known);
}
