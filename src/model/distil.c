/*
 * Finds a teacher's likeliest words, and builds the loss of a model that learns from them. Minus the log-probability of
 * each of these words is a cross-entropy, so the logits are read tile by tile, and each rank reads its part of the
 * vocabulary, as for labels.
 */
#include "graph/graph.h"
#include "model/model_impl.h"

#define NUMBER(x) \
    { .code = LS_MAP_NUMBER, .number = (x) }
#define STEP(id, first, second, third) \
    { .code = LS_MAP_##id, .a = (first), .b = (second), .c = (third) }

static ls_tensor map(ls_graph *g, const ls_tensor *in, int n_in, const ls_map_step *steps, int n_steps) {
    return ls_map(g, in, n_in, &(ls_expression){.step = steps, .n_steps = n_steps, .wide = 1});
}

/* exp(x) if there is a word, otherwise 0. */
static ls_tensor share(ls_graph *g, ls_tensor x, ls_tensor ids) {
    static const ls_map_step steps[] = {NUMBER(LS_LABEL_IGNORED), STEP(EQ, 1, 2, 0), NUMBER(0), STEP(EXP, 0, 0, 0),
                                        STEP(WHERE, 3, 4, 5)};
    return map(g, (ls_tensor[]){x, ids}, 2, steps, LS_COUNT(steps));
}

/* p (log p + loss), where loss is minus log q; 0 if there is no word, since p is 0 then. */
static ls_tensor term(ls_graph *g, ls_tensor p, ls_tensor logprob, ls_tensor loss) {
    static const ls_map_step steps[] = {NUMBER(0), STEP(EQ, 0, 3, 0), STEP(ADD, 1, 2, 0), STEP(MUL, 0, 5, 0),
                                        STEP(WHERE, 4, 3, 6)};
    return map(g, (ls_tensor[]){p, logprob, loss}, 3, steps, LS_COUNT(steps));
}

/*
 * Adds the term of all other words to the sum of the terms. Their probability is 1 - p for the teacher and 1 - q for
 * the model, each at least 1e-7. The result is 0 where the label is ignored.
 */
static ls_tensor with_others(ls_graph *g, ls_tensor sum, ls_tensor p, ls_tensor q, ls_tensor labels) {
    enum { SUM, P, Q, LABEL, MOST, P_MOST, P_NEG, LOG_R, Q_MOST, Q_NEG, LOG_S, R, GAP, TAIL, ALL, IGNORED, IS, ZERO };
    static const ls_map_step steps[] = {NUMBER(1 - 1e-7),
                                        STEP(MIN, P, MOST, 0),
                                        STEP(NEG, P_MOST, 0, 0),
                                        STEP(LOG1P, P_NEG, 0, 0),
                                        STEP(MIN, Q, MOST, 0),
                                        STEP(NEG, Q_MOST, 0, 0),
                                        STEP(LOG1P, Q_NEG, 0, 0),
                                        STEP(EXP, LOG_R, 0, 0),
                                        STEP(SUB, LOG_R, LOG_S, 0),
                                        STEP(MUL, R, GAP, 0),
                                        STEP(ADD, SUM, TAIL, 0),
                                        NUMBER(LS_LABEL_IGNORED),
                                        STEP(EQ, LABEL, IGNORED, 0),
                                        NUMBER(0),
                                        STEP(WHERE, IS, ZERO, ALL)};
    return map(g, (ls_tensor[]){sum, p, q, labels}, 4, steps, LS_COUNT(steps));
}

static ls_tensor plus(ls_graph *g, ls_tensor sum, ls_tensor x) {
    static const ls_map_step step = STEP(ADD, 0, 1, 0);
    return sum.id == 0 ? x : map(g, (ls_tensor[]){sum, x}, 2, &step, 1);
}

/* part · divergence + rest · the label's own loss. */
static ls_tensor mix(ls_graph *g, ls_tensor divergence, double part, ls_tensor hard, double rest) {
    const ls_map_step steps[] = {NUMBER(part), STEP(MUL, 0, 2, 0), NUMBER(rest), STEP(MUL, 1, 4, 0),
                                 STEP(ADD, 3, 5, 0)};
    return map(g, (ls_tensor[]){divergence, hard}, 2, steps, LS_COUNT(steps));
}

ls_tensor ls_distilled(const ls_model *model, ls_graph *g, const ls_language_model *lm) {
    const ls_distillation *of = &model->teacher;
    const double T = of->temperature;
    const ls_tensor logits = T != 1 ? ls_scale(g, lm->logits, 1 / T) : lm->logits;
    ls_tensor sum = LS_NO_TENSOR, p = LS_NO_TENSOR, q = LS_NO_TENSOR;
    const ls_model_input *in = model->teacher_inputs->input;
    static const ls_map_step negative = STEP(NEG, 0, 0, 0);
    for (int i = 0; i < of->k; i++) {
        const ls_tensor ids = ls_input_like(g, in[i].name, lm->tokens);
        const ls_tensor logprob = ls_input_typed(g, in[of->k + i].name, ls_dtype_accumulator(g->dtype), lm->tokens);
        const ls_tensor loss = ls_cross_entropy(g, logits, ids), of_teacher = share(g, logprob, ids);
        p = plus(g, p, of_teacher);
        q = plus(g, q, share(g, map(g, &loss, 1, &negative, 1), ids));
        sum = plus(g, sum, term(g, of_teacher, logprob, loss));
    }
    const ls_tensor divergence = with_others(g, sum, p, q, lm->labels);
    if (of->weight < 1)
        return mix(g, divergence, of->weight * T * T, ls_cross_entropy(g, lm->logits, lm->labels), 1 - of->weight);
    return T != 1 ? ls_scale(g, divergence, T * T) : divergence;
}

/*
 * A word's log-probability: its logit minus that of the likeliest word, whose log-probability is minus the loss.
 * Limited to 0 against rounding.
 */
static ls_tensor logprobs_of(ls_graph *g, ls_tensor values, ls_tensor best, ls_tensor loss) {
    static const ls_map_step steps[] = {STEP(SUB, 0, 1, 0), STEP(SUB, 3, 2, 0), NUMBER(0), STEP(MIN, 4, 5, 0)};
    return map(g, (ls_tensor[]){values, best, loss}, 3, steps, LS_COUNT(steps));
}

ls_likeliest ls_model_likeliest(ls_graph *g, ls_tensor logits, int k, int64_t words, double temperature) {
    const ls_tensor_info *of = ls_graph_tensor(g, logits);
    const int64_t B = of->shape.dim[0].size, S = of->shape.dim[1].size, V = of->shape.dim[2].size;
    const int64_t flat[] = {B, S}, single[] = {B, S, 1};
    const ls_tensor x = temperature != 1 ? ls_scale(g, logits, 1 / temperature) : logits;
    ls_tensor ids;
    const ls_tensor values = ls_topk(g, words < V ? ls_slice(g, x, 2, 0, words, 1) : x, k, &ids);
    const ls_tensor first = ls_reshape(g, ls_slice(g, ids, 2, 0, 1, 1), 2, flat);
    const ls_tensor loss = ls_reshape(g, ls_cross_entropy(g, x, first), 3, single);
    const ls_tensor logprobs = logprobs_of(g, values, ls_slice(g, values, 2, 0, 1, 1), loss);
    return (ls_likeliest){ls_named(g, ids, LS_MODEL_TOP_IDS), ls_named(g, logprobs, LS_MODEL_TOP_LOGPROBS)};
}
