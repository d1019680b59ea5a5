/* longspan train */
#include "cli/cli_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct train_flags {
    cli_common common;
    ls_option_list data, groups;
    const char *save_every;
    ls_train_options options;
} train_flags;

/* The defaults here are only for --help: see forget_defaults. */
#define AT(field) offsetof(train_flags, options.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT(
        "model", "PATH", AT(model),
        "config.json, or graph.json of an imported model; or a folder with one and, to continue a model, its "
        "*.safetensors"),
    CLI_REQUIRED_LIST("data", "PATH", offsetof(train_flags, data),
                      CLI_DATA_HELP
                      "; or several data sets, each as NAME@WEIGHT=PATH, of which WEIGHT sequences are read in turn"),
    CLI_REQUIRED_TEXT("out", "DIR", AT(out),
                      "folder for run.json, metrics.jsonl, loss.svg, loss_by_position.svg and checkpoints"),
    CLI_INT("seq", "N", "1024", 1, CLI_ANY, AT(seq), "tokens of a sequence (N + 1 are read)"),
    CLI_PACK(AT(pack)),
    CLI_FLAG(
        "group-by-length", AT(group_by_length),
        "a step's sequences hold documents of similar lengths, so that dp replicas have similarly much to do; the order of the steps "
        "is random. Not with --pack join"),
    CLI_INT(
        "steps", "N", "100", 1, CLI_ANY, AT(steps),
        "optimiser steps in all, including those before a resume; with --resume a larger number continues a run that is done, with the "
        "schedule of the new number"),
    CLI_FLOAT("epochs", "X", NULL, 1e-9, 1e9, AT(epochs), "instead of --steps: how many times the data is read"),
    CLI_INT("batch", "N", "1", 1, CLI_ANY, AT(batch), "sequences of a step, over all dp ranks and micro-batches"),
    CLI_INT("accumulate", "N", "1", 1, CLI_ANY, AT(accumulate), "micro-batches that a step is cut into"),
    CLI_FLOAT("lr", "X", "1e-3", 1e-30, CLI_ANY, AT(lr), "largest learning rate"),
    CLI_FLOAT("min-lr", "X", NULL, 0, CLI_ANY, AT(min_lr),
              "learning rate of the last step, unless the schedule is constant; a tenth of --lr when left out"),
    CLI_INT("warmup", "N", "0", 0, CLI_ANY, AT(warmup), "steps of linear warm-up"),
    CLI_CHOICE(
        "schedule", "NAME", "cosine|linear|constant|wsd", "cosine", AT(schedule),
        "learning rate after the warm-up: cosine and linear fall to --min-lr over all steps, wsd in the last fifth of "
        "them, constant does not fall"),
    CLI_OPTIMIZER(
        AT(optimizer),
        "what makes steps of gradients; --lr, --weight-decay and --clip are for all of them, and an option that it does not "
        "have is refused"),
    CLI_FLOAT("beta1", "X", NULL, 1e-9, 0.999999999, AT(beta1), "of adamw, lion and muon; 0.9 when left out"),
    CLI_FLOAT("beta2", "X", NULL, 1e-9, 0.999999999, AT(beta2),
              "of adamw and muon (0.95 when left out) and lion (0.99 when left out)"),
    CLI_FLOAT("eps", "X", NULL, 1e-30, 1, AT(eps), "of adamw and muon; 1e-8 when left out"),
    CLI_FLOAT("momentum", "X", NULL, 0, 0.999999999, AT(momentum),
              "of sgd (0.9 when left out) and muon (0.95 when left out); 0: none"),
    CLI_FLAG("nesterov", AT(nesterov), "of sgd: the step looks ahead along the momentum"),
    CLI_FLOAT(
        "weight-decay", "X", NULL, 0, CLI_ANY, AT(weight_decay),
        "decay of parameters with two or more dimensions: matrices and embeddings, not norms and biases; with sgd a part of the "
        "gradient; 0: none; when left out 0.1, with sgd 0"),
    CLI_LIST(
        "group", "PATTERN:WHAT", offsetof(train_flags, groups),
        "settings for parameters whose names match (with * and ?): 'PATTERN:lr=0.1,decay=0' trains them with a tenth of --lr and no "
        "decay, 'PATTERN:frozen' not at all, 'PATTERN:frozen=bf16|f32' neither, and kept in that type, "
        "'PATTERN:optimizer=adamw' not with muon. If several groups match a name, the last one counts"),
    CLI_LORA(offsetof(train_flags, common.adapter.lora)),
    CLI_CHOICE(
        "loss", "NAME", "sft|distil|dpo|ipo|hinge|simpo|orpo|kto|reward", "sft", AT(loss),
        "what is minimised: the loss of tokens, or their divergence from a teacher (--records teacher), or one that compares pairs of answers (--records preference), or kto, which judges single ones "
        "(--records label); for dpo, ipo, hinge and kto the model at the start is the reference; reward trains a head that scores answers, of pairs, in the "
        "place of that of words"),
    CLI_FLOAT("distil-weight", "X", "1", 1e-9, 1, AT(distil_weight),
              "of distil: X times the divergence from the teacher, and 1 - X times the loss of the labels"),
    CLI_FLOAT("loss-beta", "X", "0.1", 1e-9, 1e6, AT(loss_beta), "beta of a loss of answers"),
    CLI_FLOAT("loss-gamma", "X", "0.5", 0, 1e6, AT(loss_gamma),
              "of simpo: the margin, beta times as large as in its mean log-probabilities"),
    CLI_FLOAT("center-rewards", "X", "0", 0, 1e6, AT(center_rewards),
              "of reward: X times the square of what both scores of a pair add up to, which holds scores around 0"),
    CLI_CHOICE(
        "imitate", "WHAT", "text|answers", "text", AT(imitate),
        "of orpo: what is learnt of wanted answers besides: the whole text with its prompt, as TRL has it, or the answers alone, as in the paper"),
    CLI_FLOAT("desirable-weight", "X", "1", 1e-9, 1e6, AT(desirable_weight),
              "of kto: factor of the loss of answers that are wanted"),
    CLI_FLOAT("undesirable-weight", "X", "1", 1e-9, 1e6, AT(undesirable_weight),
              "of kto: factor of the loss of other answers"),
    CLI_FLOAT("label-smoothing", "X", "0", 0, 1, AT(label_smoothing),
              "of sft: each label has 1 - X of its weight, and all words share X; evaluations have it, too"),
    CLI_FLOAT(
        "z-loss", "X", "0", 0, 1e6, AT(z_loss),
        "of sft: each token's loss has X times the square of log Z, the logarithm of the sum that softmax divides by, as in PaLM"),
    CLI_FLOAT(
        "neftune", "ALPHA", "0", 0, 1e6, AT(neftune),
        "of sft: in steps, not in evaluations, embeddings have uniform noise within ALPHA / sqrt(tokens of a sequence * width)"),
    CLI_EMA(AT(ema)),
    CLI_FLOAT("clip", "X", "1", 0, CLI_ANY, AT(clip), "largest norm of the gradient; 0: no clipping"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", NULL, AT(dtype), "element type; f32 when left out"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of weights and of the order of the data"),
    {.name = "save-every",
     .metavar = "N",
     .type = LS_OPTION_TEXT,
     .initial = "15m",
     .offset = offsetof(train_flags, save_every),
     .help =
         "steps between checkpoints, or a time (90s, 15m, 2h), of which the two newest checkpoints are kept; 0: only at the end"},
    CLI_INT("keep", "N", "0", 0, CLI_ANY, AT(keep), "how many of the newest checkpoints to keep; 0: all"),
    CLI_FLAG(
        "keep-best", AT(keep_best),
        "save a checkpoint after each evaluation that is the best so far; it is kept whatever --keep says, and DIR/best is a link to it"),
    CLI_FLAG("resume", AT(resume), "continue from the newest checkpoint in --out; flags must agree with its run.json"),
    CLI_FLAG("replan", AT(replan), "with --resume: allow another mesh, strategy or instruction set"),
    CLI_FLAG("trust-data", AT(trust_data),
             "do not compare token shards with their checksums first, which takes as long as reading them once"),
    CLI_INT(
        "restart", "N", "0", 0, 1000000, AT(restarts),
        "start the ranks again from the newest good checkpoint when one dies (killed, out of memory, crashed), at most N times, and "
        "not if the last such start made no progress"),
    CLI_INT(
        "patience", "N", "0", 0, 1000000000, AT(patience),
        "with --keep-best: stop when N evaluations in a row were not better than the best (early stopping); 0: never"),
    CLI_TEXT(
        "eval-data", "PATH", AT(eval_data),
        "text to evaluate on, read and packed like --data; or several as NAME=PATH,NAME=PATH, of which the first decides what is best"),
    CLI_INT("eval-every", "N", NULL, 1, CLI_ANY, AT(eval_every),
            "steps between evaluations; a tenth of --steps when left out"),
    CLI_INT("eval-sequences", "N", "0", 0, CLI_ANY, AT(eval_sequences),
            "sequences of --eval-data that an evaluation reads, evenly spread over it; 0: all"),
    CLI_FLOAT("max-seconds", "S", "0", 0, CLI_ANY, AT(max_seconds),
              "stop after this time, with a checkpoint; 0: no limit"),
    CLI_FLAG("tensorboard", AT(tensorboard), "write an event file for TensorBoard to --out too"),
    CLI_TEXT("trace", "FILE", AT(trace),
             "write a trace of each queue of each rank in about the last 4 steps, as JSON for ui.perfetto.dev"),
};

/* Sets options that were not given to zero, which means the library's default, or the value of the resumed run. */
static void forget_defaults(train_flags *flags) {
    for (size_t i = 0; i < CLI_COUNT(options); i++) {
        const ls_option *row = &options[i];
        char *target = (char *)flags + row->offset;
        if (flags->common.given[i] || row->initial == NULL) continue;
        const size_t bytes = row->type == LS_OPTION_CHOICE ? sizeof(char *) : sizeof(int64_t);
        memset(target, 0, bytes);
    }
}

/* If zero was given for one of these, it becomes -1, because zero means that an option was not given. */
static const size_t zeros[] = {
    AT(seed),         AT(warmup),   AT(keep),   AT(eval_sequences), AT(clip),
    AT(weight_decay), AT(momentum), AT(min_lr), AT(max_seconds),    AT(loss_gamma),
};

static void mark_zeros(train_flags *flags) {
    for (size_t i = 0; i < CLI_COUNT(options) * CLI_COUNT(zeros); i++) {
        const size_t row = i / CLI_COUNT(zeros), at = zeros[i % CLI_COUNT(zeros)];
        if (!flags->common.given[row] || options[row].offset != at) continue;
        char *target = (char *)flags + at;
        if (options[row].type == LS_OPTION_INT && *(int64_t *)target == 0) *(int64_t *)target = -1;
        if (options[row].type == LS_OPTION_FLOAT && *(double *)target == 0) *(double *)target = -1;
    }
}

/* Parses a number of steps ("100") or a time ("90s", "15m", "2h"). 0 of either: no checkpoints before the end. */
static ls_status parse_save_every(const char *text, ls_train_options *o) {
    static const char units[] = "smh";
    static const double seconds[] = {1, 60, 3600};
    const size_t digits = strspn(text, "0123456789");
    const bool timed = text[digits] != 0;
    const char *unit = timed && text[digits + 1] == 0 ? strchr(units, text[digits]) : NULL;
    if (digits == 0 || digits > 12 || (timed && unit == NULL))
        return ls_error(LS_USAGE, "--save-every is '%s'; expected a number of steps, or a time such as 90s, 15m or 2h",
                        text);
    const int64_t number = strtoll(text, NULL, 10);
    o->save_every = timed ? 0 : number;
    o->save_seconds = timed && number > 0 ? (double)number * seconds[unit - units] : -1;
    return ls_ok();
}

static void print_positions(const ls_loss_table *t, const char *out) {
    const ls_loss_bin *near = &t->bin[0], *far = &t->bin[t->n - 1];
    printf("positions   %s/loss_by_position.svg: loss %.4f with %lld to %lld tokens of the document before", out,
           near->loss, (long long)near->first, (long long)near->last);
    if (t->n > 1) printf(", %.4f with %lld to %lld", far->loss, (long long)far->first, (long long)far->last);
    printf(" (%lld sequences)\n", (long long)t->sequences);
}

static void print_result(const ls_train_result *r, const char *out) {
    char predicted[LS_BYTES_TEXT], measured[LS_BYTES_TEXT], alone[LS_BYTES_TEXT];
    printf("%s\n", r->reason);
    printf("%lld steps%s", (long long)r->steps, r->interrupted ? " (interrupted)" : "");
    if (r->first_loss == r->first_loss) printf(" · loss %.4f → %.4f", r->first_loss, r->last_loss);
    if (r->idle_steps > 0) printf(" · %lld steps had nothing to learn", (long long)r->idle_steps);
    if (r->eval_loss == r->eval_loss) printf(" · evaluation %.4f", r->eval_loss);
    printf(" · unigram %.4f nats\n", r->unigram_loss);
    printf("%.0f tokens/s · waiting %.1f %% of the time\n", r->tokens_per_second, r->wait_fraction * 100);
    printf("memory of a rank: %s predicted, %s measured; one rank alone would need %s\n",
           ls_bytes_text((double)r->predicted_bytes, predicted), ls_bytes_text((double)r->measured_bytes, measured),
           ls_bytes_text((double)r->one_rank_bytes, alone));
    printf("curve       %s/loss.svg\n", out);
    if (r->positions.n > 0) print_positions(&r->positions, out);
    printf("checkpoint  %s\n", r->checkpoint);
    if (r->best_step > 0)
        printf("best        %s/best: evaluation %.4f after step %lld\n", out, r->best_loss, (long long)r->best_step);
    if (r->model != NULL) printf("model       %s\n", r->model);
}

static ls_status run(void *context) {
    train_flags *flags = context;
    ls_train_options *o = &flags->options;
    forget_defaults(flags);
    mark_zeros(flags);
    if (flags->save_every != NULL) LS_TRY(parse_save_every(flags->save_every, o));
    o->data = flags->data.items;
    o->n_data = flags->data.count;
    o->groups = flags->groups.items;
    o->n_groups = flags->groups.count;
    o->spread = cli_spread_of(&flags->common);
    o->rope = flags->common.rope;
    o->adapter = flags->common.adapter;
    o->form = flags->common.form;
    o->given = flags->common.as_given;
    o->n_given = flags->common.n_as_given;
    ls_train_result result = {.steps = 0};
    const ls_status status = ls_train(o, &result);
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) return status;
    if (flags->common.json)
        ls_train_result_json(&result, stdout);
    else
        print_result(&result, o->out);
    ls_train_result_free(&result);
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .summary = "train a model on text, each sequence shared by the ranks",
    .usage = "--model PATH --data PATH... --out DIR [--seq N] [--ranks R] [options]",
    .about =
        "Writes DIR/run.json (all settings, with the defaults and choices), DIR/metrics.jsonl (a line per step), DIR/loss.svg and checkpoints; "
        "at the end DIR/model, a folder that Hugging Face tools load as it is (see checkpoint export), and "
        "DIR/eval.json and DIR/loss_by_position.svg, the loss by the number of tokens of the document before: of the sequences of an evaluation, or without "
        "--eval-data of a few of the training's. "
        "Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP (the terminal closes) end the training after the current step, with a checkpoint; a second Ctrl-C ends it at once. "
        "Options that are left out are chosen, and the choice is printed.",
    .opens = true,
    .reads = true,
    .spreads = true,
    .runs = true,
    .configures = true,
    CLI_OWN(options, run, train_flags),
};
