/* Opens what a training reads: the model with the changes that the options ask for, its tokenizer, and the texts. */
#include "train/train_impl.h"

#include "checkpoint/checkpoint.h"
#include "eval/eval.h"

#include <string.h>

/*
 * Adapts the model to sequences longer than it was made for, with a warning, because the user may not have intended it.
 */
static ls_status lengthen_model(const ls_training *t) {
    const int64_t longest = ls_model_describe(t->model).longest, S = t->options.seq;
    bool longer;
    LS_TRY(ls_model_lengthen(t->model, S, &longer));
    if (longer)
        ls_log(
            "warning: --seq %lld is more than max_position_embeddings %lld of %s: weights trained with that have not seen the "
            "positions beyond it (--rope-scaling stretches positions); the config.json that is saved says %lld",
            (long long)S, (long long)longest, t->options.model, (long long)S);
    return ls_ok();
}

/* A resumed run has the adapter of its checkpoint. */
static ls_status adapt_model(const ls_training *t) {
    char text[200];
    const ls_adapter_choice of_checkpoint = {.folder = t->resumed_from, .base = t->options.adapter.base};
    LS_TRY(ls_model_adapt(t->model, ls_checkpoint_has_adapter(t->resumed_from) ? &of_checkpoint : &t->options.adapter));
    LS_TRY(ls_model_check_trained(t->model));
    if (ls_model_print_adapter(t->model, text, sizeof text)) ls_log("adapter: %s", text);
    return ls_ok();
}

/*
 * A loss of answers is a function of log-probabilities, and is found before the backward pass; options that would
 * change these are refused. The loss of a teacher's words does not support smoothed labels.
 */
static ls_status change_loss(const ls_training *t) {
    const ls_train_options *o = &t->options;
    const bool noisy = o->neftune > 0 && t->compares != NULL;
    const char *flag = o->label_smoothing > 0 ? "--label-smoothing"
                       : o->z_loss > 0        ? "--z-loss"
                       : noisy                ? "--neftune"
                                              : NULL;
    if (flag != NULL && (t->compares != NULL || t->distils))
        return ls_error(LS_USAGE, "%s with --loss %s; expected --loss " LS_LOSS_OF_TOKENS, flag, o->loss);
    if (o->distil_weight != 1 && !t->distils)
        return ls_error(LS_USAGE, "--distil-weight with --loss %s; expected --loss " LS_LOSS_OF_TEACHER, o->loss);
    LS_TRY(ls_model_smooth(t->model, o->label_smoothing, o->z_loss));
    return ls_model_noise(t->model, o->neftune);
}

/* A new adapter also trains the scoring head; the folder of an existing adapter has the head. */
static ls_status score_model(const ls_training *t) {
    if (t->compares == NULL || !t->compares->scores) return ls_ok();
    LS_TRY(ls_model_score(t->model));
    if (t->record == NULL && ls_model_head_apart(t->model) && t->options.adapter.folder == NULL)
        ls_log(
            "--loss %s: the head of words gives way to one that scores, score.weight, which begins with random numbers",
            t->compares->name);
    return ls_ok();
}

ls_status ls_training_open_model(ls_training *t) {
    LS_TRY(ls_model_open_changed(t->options.model, &t->options.rope, &t->model));
    LS_TRY(ls_loss_find(t->options.loss, &t->compares, &t->distils));
    LS_TRY(score_model(t));
    LS_TRY(adapt_model(t));
    if (t->compares == NULL || !t->compares->scores) LS_TRY(ls_model_check_words(t->model));
    LS_TRY(ls_model_check_fed(t->model));
    LS_TRY(lengthen_model(t));
    if (t->compares != NULL) LS_TRY(ls_model_weigh(t->model));
    LS_TRY(change_loss(t));
    LS_TRY(ls_tokenizer_open_model(ls_model_folder(t->model), &t->tokenizer));
    const ls_model_sizes sizes = ls_model_describe(t->model);
    if (sizes.V < ls_tokenizer_vocabulary(t->tokenizer))
        return ls_error(LS_INVALID, "%s: vocab_size is %lld, but the tokenizer \"%s\" has %d tokens", t->options.model,
                        (long long)sizes.V, ls_tokenizer_name(t->tokenizer),
                        (int)ls_tokenizer_vocabulary(t->tokenizer));
    ls_log("model: %s, %.2f M parameters", ls_model_architecture(t->model),
           (double)ls_model_parameters(t->model) / 1e6);
    ls_tokenizer_log(t->tokenizer, sizes.V);
    return ls_ok();
}

static void log_set(const ls_training *t, const ls_mixed_set *set) {
    const ls_data_summary *d = ls_data_summarise(set->data);
    if (set->name != NULL)
        ls_log("--data %s: %.1f %% of the sequences", set->name,
               100.0 * (double)set->weight / (double)t->mixture.period);
    ls_log("text: %lld documents, %.2f M tokens, %lld sequences of %lld; a unigram model would reach %.4f nats",
           (long long)d->documents, (double)d->tokens / 1e6, (long long)d->windows, (long long)t->options.seq,
           ls_data_unigram_nats(set->data));
    ls_data_log_table(set->data);
    ls_data_log_packing(set->data);
}

/* Only a loss of scores reads the margins of records. */
static void log_margins(const ls_training *t, const ls_data *data) {
    const long long n = ls_data_margins(data), pairs = ls_data_summarise(data)->documents / 2;
    if (n == 0) return;
    if (t->compares == NULL || !t->compares->scores)
        ls_log("margin: %lld of %lld pairs have one, which --loss %s does not read", n, pairs, t->options.loss);
    else if (n < pairs)
        ls_log("margin: %lld of %lld pairs have one; that of the others is 0", n, pairs);
}

/* Whether a set has the answers that the loss needs: pairs, or judged answers. */
static ls_status check_pairs(const ls_training *t, const char *flag, const ls_data *data) {
    if (ls_data_pairs(data) && t->compares != NULL && ls_data_judges(data) != t->compares->judges)
        return ls_error(LS_USAGE, "%s: --loss %s %s", flag, t->compares->name,
                        t->compares->judges ? "judges answers one by one; expected --records label"
                                            : "compares pairs of answers; expected --records preference");
    log_margins(t, data);
    if (ls_data_pairs(data) == (t->compares != NULL)) return ls_ok();
    if (t->compares == NULL)
        return ls_error(LS_USAGE, "%s: %s, and --loss %s learns tokens; expected a loss that %s", flag,
                        ls_data_judges(data) ? "answers that are judged" : "pairs of answers", t->options.loss,
                        ls_data_judges(data) ? "judges, kto" : "compares, as dpo");
    return ls_error(LS_USAGE, "%s: --loss %s %s answers; expected --records %s, packed as pairs", flag,
                    t->compares->name, t->compares->judges ? "judges" : "compares",
                    t->compares->judges ? "label" : "preference");
}

/*
 * Whether a set has a teacher's words, if the loss reads them, and as many as of->k says. For the first set of->k is 0,
 * and is set.
 */
static ls_status check_teacher(const ls_training *t, const char *flag, const ls_data *data, ls_distillation *of) {
    double temperature;
    const int k = ls_data_teacher(data, &temperature);
    if (!t->distils && k == 0) return ls_ok();
    if (!t->distils)
        return ls_error(LS_USAGE,
                        "%s: words of a teacher, which --loss %s does not read; expected --loss " LS_LOSS_OF_TEACHER
                        ", or --records ids",
                        flag, t->options.loss);
    if (k == 0)
        return ls_error(LS_USAGE, "%s: --loss %s learns from a teacher's words; expected --records teacher", flag,
                        t->options.loss);
    if (of->k == 0) {
        of->k = k;
        of->temperature = temperature;
    }
    if (k == of->k && temperature == of->temperature) return ls_ok();
    return ls_error(LS_USAGE, "%s: %d words of a teacher at temperature %g; expected %d at %g, as in --data", flag, k,
                    temperature, of->k, of->temperature);
}

/* The number of a teacher's words in the texts decides how many the loss reads. */
static ls_status distil(const ls_training *t) {
    ls_distillation of = {.weight = t->options.distil_weight};
    for (int i = 0; i < t->mixture.n; i++) LS_TRY(check_teacher(t, "--data", t->mixture.set[i].data, &of));
    for (int i = 0; i < t->eval_sets.n; i++) LS_TRY(check_teacher(t, "--eval-data", t->eval_sets.data[i], &of));
    if (!t->distils) return ls_ok();
    ls_log("teacher: %d words in the place of each learnt token, at temperature %g; %g of the loss", of.k,
           of.temperature, of.weight);
    return ls_model_distil(t->model, &of);
}

ls_status ls_training_open_text(ls_training *t) {
    const ls_train_options *o = &t->options;
    ls_launched launched;
    LS_TRY(ls_launched_find(&launched));
    const ls_model_sizes sizes = ls_model_describe(t->model);
    const ls_data_options text = {.paths = o->data,
                                  .n_paths = o->n_data,
                                  .tokenizer = t->tokenizer,
                                  .folder = ls_model_folder(t->model),
                                  .form = o->form,
                                  .sequence = o->seq,
                                  .seed = o->seed,
                                  .shuffle = true,
                                  .group = o->group_by_length ? o->batch : 0,
                                  .pack = o->pack,
                                  .scored = t->compares != NULL && t->compares->scores,
                                  .pad = sizes.pads ? (int32_t)sizes.pad : -1,
                                  .imitated =
                                      t->compares != NULL && t->compares->imitates && strcmp(o->imitate, "text") == 0,
                                  .verify = !o->trust_data,
                                  .process = launched.rank,
                                  .processes = launched.ranks};
    LS_TRY(ls_mixture_open(&text, &t->mixture));
    t->data = t->mixture.set[0].data;
    for (int i = 0; i < t->mixture.n; i++) LS_TRY(check_pairs(t, "--data", t->mixture.set[i].data));
    if (ls_data_apart(t->data)) LS_TRY(ls_model_check_apart(t->model, o->seq));
    for (int i = 0; i < t->mixture.n; i++)
        t->unigram +=
            ls_data_unigram_nats(t->mixture.set[i].data) * (double)t->mixture.set[i].weight / (double)t->mixture.period;
    t->content = ls_mixture_content(&t->mixture);
    for (int i = 0; i < t->mixture.n; i++) log_set(t, &t->mixture.set[i]);
    LS_TRY(ls_eval_sets_open(o->eval_data, &text, t->model, &t->eval_sets));
    t->eval_data = t->eval_sets.data[0];
    for (int i = 0; i < t->eval_sets.n; i++) LS_TRY(check_pairs(t, "--eval-data", t->eval_sets.data[i]));
    return distil(t);
}
