/*
 * The options of a training as one table, with defaults, limits, and whether a resumed run may change an option; and
 * the learning rate. In ls_train_options, a value of zero or NULL means that the option was not given.
 */
#include "train/train_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum setting_kind { INTEGER, REAL, TEXT, FLAG } setting_kind;

typedef struct setting {
    const char *name; /* field of run.json; the flag has - in place of _ */
    setting_kind kind;
    size_t at;          /* offset in ls_train_options */
    double initial;     /* the default */
    const char *text;   /* the default of a TEXT */
    double least, most; /* limits of a number */
    bool may_change;    /* a resumed run may have another value */
    bool may_lack;      /* run.json files of older versions lack the field, which then means the default */
    /* 1 + its offset in ls_hyperparameters; the optimiser tells whether it has this number, and its default */
    size_t hyper;
} setting;

#define AT(field) offsetof(ls_train_options, field)
#define HYPER(field) (1 + offsetof(ls_hyperparameters, field))
/* Zero means that a number was not given. If the lower limit is -1, a caller gives -1 for zero. */
static const setting settings[] = {
    {"seq", INTEGER, AT(seq), 1024, NULL, 1, 1 << 30, false, false, 0},
    {"batch", INTEGER, AT(batch), 1, NULL, 1, 1 << 24, false, false, 0},
    {"accumulate", INTEGER, AT(accumulate), 1, NULL, 1, 1 << 24, false, false, 0},
    {"pack", TEXT, AT(pack), 0, "auto", 0, 0, false, true, 0},
    {"group_by_length", FLAG, AT(group_by_length), 0, NULL, 0, 1, false, true, 0},
    {"format", TEXT, AT(form.format), 0, "auto", 0, 0, false, true, 0},
    {"field", TEXT, AT(form.field), 0, "text", 0, 0, false, true, 0},
    {"records", TEXT, AT(form.records), 0, "text", 0, 0, false, true, 0},
    {"template", TEXT, AT(form.chat), 0, "auto", 0, 0, false, true, 0},
    {"system", TEXT, AT(form.system), 0, NULL, 0, 0, false, true, 0},
    {"today", TEXT, AT(form.today), 0, NULL, 0, 0, false, true, 0},
    {"too_long", TEXT, AT(form.too_long), 0, "auto", 0, 0, false, true, 0},
    {"encoding", TEXT, AT(form.encoding), 0, "utf-8", 0, 0, false, true, 0},
    {"begin", TEXT, AT(form.begin), 0, "auto", 0, 0, false, true, 0},
    {"end", TEXT, AT(form.end), 0, "auto", 0, 0, false, true, 0},
    {"rope_scaling", TEXT, AT(rope.scaling), 0, "", 0, 0, false, true, 0},
    {"rope_theta", REAL, AT(rope.theta), 0, NULL, 0, 1e30, false, true, 0},
    {"adapter", TEXT, AT(adapter.folder), 0, NULL, 0, 0, false, true, 0},
    {"lora", TEXT, AT(adapter.lora), 0, NULL, 0, 0, false, true, 0},
    {"base", TEXT, AT(adapter.base), 0, NULL, 0, 0, false, true, 0},
    {"loss", TEXT, AT(loss), 0, LS_LOSS_OF_TOKENS, 0, 0, false, true, 0},
    {"distil_weight", REAL, AT(distil_weight), 1, NULL, 0, 1, false, true, 0},
    {"loss_beta", REAL, AT(loss_beta), 0.1, NULL, 0, 1e6, false, true, 0},
    {"loss_gamma", REAL, AT(loss_gamma), 0.5, NULL, -1, 1e6, false, true, 0},
    {"center_rewards", REAL, AT(center_rewards), 0, NULL, 0, 1e6, false, true, 0},
    {"desirable_weight", REAL, AT(desirable_weight), 1, NULL, 0, 1e6, false, true, 0},
    {"undesirable_weight", REAL, AT(undesirable_weight), 1, NULL, 0, 1e6, false, true, 0},
    {"imitate", TEXT, AT(imitate), 0, "text", 0, 0, false, true, 0},
    {"label_smoothing", REAL, AT(label_smoothing), 0, NULL, 0, 1, false, true, 0},
    {"z_loss", REAL, AT(z_loss), 0, NULL, 0, 1e6, false, true, 0},
    {"neftune", REAL, AT(neftune), 0, NULL, 0, 1e6, false, true, 0},
    {"dtype", TEXT, AT(dtype), 0, "f32", 0, 0, false, false, 0},
    {"seed", INTEGER, AT(seed), 0, NULL, -1, 9e18, false, false, 0},
    {"steps", INTEGER, AT(steps), 100, NULL, 1, 1e12, true, false, 0},
    {"epochs", REAL, AT(epochs), 0, NULL, 0, 1e9, true, true, 0},
    {"lr", REAL, AT(lr), 1e-3, NULL, 0, 1e300, false, false, 0},
    {"min_lr", REAL, AT(min_lr), NAN, NULL, -1, 1e300, false, true, 0},
    {"warmup", INTEGER, AT(warmup), 0, NULL, -1, 1e12, false, false, 0},
    {"schedule", TEXT, AT(schedule), 0, "cosine", 0, 0, false, false, 0},
    {"optimizer", TEXT, AT(optimizer), 0, "adamw", 0, 0, false, true, 0}, /* before the rows that depend on it */
    {"beta1", REAL, AT(beta1), 0, NULL, 0, 0.999999999, false, false, HYPER(beta1)},
    {"beta2", REAL, AT(beta2), 0, NULL, 0, 0.999999999, false, false, HYPER(beta2)},
    {"eps", REAL, AT(eps), 0, NULL, 0, 1, false, false, HYPER(epsilon)},
    {"weight_decay", REAL, AT(weight_decay), 0, NULL, -1, 1e6, false, false, HYPER(weight_decay)},
    {"momentum", REAL, AT(momentum), 0, NULL, -1, 0.999999999, false, true, HYPER(momentum)},
    {"nesterov", FLAG, AT(nesterov), 0, NULL, 0, 1, false, true, HYPER(nesterov)},
    {"ema", REAL, AT(ema), 0, NULL, 0, 0.9999999, false, true, 0},
    {"clip", REAL, AT(clip), 1.0, NULL, -1, 1e300, false, false, 0},
    {"save_every", INTEGER, AT(save_every), 0, NULL, 0, 1e12, true, false, 0},
    {"save_seconds", REAL, AT(save_seconds), 900, NULL, -1, 1e16, true, true, 0},
    {"keep", INTEGER, AT(keep), 0, NULL, -1, 1e9, true, false, 0},
    {"keep_best", FLAG, AT(keep_best), 0, NULL, 0, 1, true, true, 0},
    {"patience", INTEGER, AT(patience), 0, NULL, 0, 1e9, true, true, 0},
    {"eval_data", TEXT, AT(eval_data), 0, NULL, 0, 0, true, true, 0},
    {"eval_every", INTEGER, AT(eval_every), 0, NULL, 0, 1e12, true, false, 0},
    {"eval_sequences", INTEGER, AT(eval_sequences), 0, NULL, -1, 1e12, true, true, 0},
    {"max_seconds", REAL, AT(max_seconds), 0, NULL, -1, 1e300, true, false, 0},
    {"tensorboard", FLAG, AT(tensorboard), 0, NULL, 0, 1, true, true, 0},
};
#undef HYPER
#undef AT

/* --- the value of one setting ------------------------------------------------------------------------------------- */

static void *field(ls_train_options *options, const setting *s) { return (char *)options + s->at; }

static double number(const ls_train_options *options, const setting *s) {
    const void *at = (const char *)options + s->at;
    if (s->kind == FLAG) return *(const bool *)at;
    return s->kind == INTEGER ? (double)*(const int64_t *)at : *(const double *)at;
}

static const char *text(const ls_train_options *options, const setting *s) {
    return *(const char *const *)(const void *)((const char *)options + s->at);
}

static bool is_given(const ls_train_options *options, const setting *s) {
    return s->kind == TEXT ? text(options, s) != NULL : number(options, s) != 0.0;
}

/* A number below zero becomes zero, which it stands for. */
static void settle_zero(ls_train_options *options, const setting *s) {
    if (s->kind == INTEGER && number(options, s) < 0) *(int64_t *)field(options, s) = 0;
    if (s->kind == REAL && number(options, s) < 0) *(double *)field(options, s) = 0;
}

/* optimizer: that of the options. */
static void set_default(ls_train_options *options, const ls_optimizer *optimizer, const setting *s) {
    const double initial = s->hyper > 0 ? ls_optimizer_initial(optimizer, s->hyper - 1) : s->initial;
    if (s->kind == TEXT)
        *(const char **)field(options, s) = s->text;
    else if (s->kind == INTEGER)
        *(int64_t *)field(options, s) = (int64_t)initial;
    else if (s->kind == FLAG)
        *(bool *)field(options, s) = initial != 0;
    else
        *(double *)field(options, s) = initial;
}

/* The flag of a setting: "--min-lr". */
static void flag_of(const char *name, char *out, size_t room) {
    snprintf(out, room, "--%s", name);
    for (char *c = out + 2; *c; c++)
        if (*c == '_') *c = '-';
}

/* Checks the limits of an option that was given. */
static ls_status check_limits(const ls_train_options *options, const ls_optimizer *optimizer, const setting *s) {
    if (s->kind == TEXT) return ls_ok();
    char flag[40];
    flag_of(s->name, flag, sizeof flag);
    if (s->hyper > 0 && !ls_optimizer_has(optimizer, s->hyper - 1))
        return ls_optimizer_lacks(optimizer, s->hyper - 1, flag);
    const double value = number(options, s), least = fmax(s->least, 0);
    if (value == -1 && s->least < 0) return ls_ok();
    if (value >= least && value <= s->most) return ls_ok(); /* the comparison is false for NaN */
    return ls_error(LS_USAGE, "%s is %.15g; expected %.15g to %.15g", flag, value, least, s->most);
}

/* --- resuming ----------------------------------------------------------------------------------------------------- */

/* Whether --replan allows another value for this option. */
static bool is_of_spread(const char *name) {
    static const char *const names[] = {"ranks",   "threads", "mesh",      "strategy", "layout",  "transfers",
                                        "shard",   "sums",    "isa",       "device",   "kernels", "recompute",
                                        "offload", "tile",    "tile_rows", "pipeline", "slices"};
    for (size_t i = 0; i < LS_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static ls_status contradiction(const ls_training *t, const char *name, const char *is, const char *was) {
    char flag[40];
    flag_of(name, flag, sizeof flag);
    return ls_error(LS_USAGE, "%s %s contradicts %s/run.json, which says %s; leave it out, %suse another --out", flag,
                    is, t->options.out, was, is_of_spread(name) ? "allow it with --replan, or " : "or ");
}

/* was NULL: the earlier run was started without this option. */
static ls_status agree_text(const ls_training *t, const char *name, const char *is, const char *was) {
    if (was == NULL) return contradiction(t, name, is, "nothing");
    return strcmp(is, was) == 0 ? ls_ok() : contradiction(t, name, is, was);
}

static ls_status agree_number(const ls_training *t, const char *name, double is, double was) {
    if (is == was) return ls_ok();
    char text_is[40], text_was[40];
    ls_print(text_is, sizeof text_is, "%.15g", is);
    ls_print(text_was, sizeof text_was, "%.15g", was);
    return contradiction(t, name, text_is, text_was);
}

/*
 * Reads the value of a setting from run.json into *recorded, and checks its limits. Other fields of *recorded stay as
 * they are.
 */
static ls_status read_back(ls_json_value object, const setting *s, ls_train_options *recorded) {
    if (s->kind == TEXT) return ls_json_text(object, s->name, (const char **)field(recorded, s));
    if (s->kind == FLAG) return ls_json_bool(object, s->name, (bool *)field(recorded, s));
    if (s->kind == INTEGER)
        return ls_json_int(object, s->name, (int64_t)s->least, (int64_t)s->most, (int64_t *)field(recorded, s));
    return ls_json_double(object, s->name, s->least, s->most, (double *)field(recorded, s));
}

/* given: the option was given now. */
static ls_status resume_setting(ls_training *t, ls_json_value object, const ls_optimizer *optimizer, const setting *s,
                                bool given) {
    ls_train_options recorded = t->options;
    if (s->may_lack && !ls_json_has(object, s->name))
        set_default(&recorded, optimizer, s);
    else
        LS_TRY(read_back(object, s, &recorded));
    settle_zero(&recorded, s);
    if (given) {
        if (s->may_change) return ls_ok();
        return s->kind == TEXT ? agree_text(t, s->name, text(&t->options, s), text(&recorded, s))
                               : agree_number(t, s->name, number(&t->options, s), number(&recorded, s));
    }
    t->options = recorded;
    return ls_ok();
}

/* The groups must be given completely or not at all, because their order matters. */
static ls_status resume_groups(ls_training *t, ls_json_value object) {
    ls_train_options *o = &t->options;
    ls_json_value list = {0};
    size_t n = 0;
    if (ls_json_has(object, "groups")) {
        LS_TRY(ls_json_array(object, "groups", &list));
        n = ls_json_count(list);
    }
    if (o->n_groups > 0 && (size_t)o->n_groups != n)
        return ls_error(LS_USAGE, "--group has %d groups, and %s/run.json %zu; leave it out, or use another --out",
                        o->n_groups, o->out, n);
    t->groups = calloc(n + 1, sizeof *t->groups);
    if (t->groups == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu groups of parameters", n);
    for (size_t i = 0; i < n; i++) {
        LS_TRY(ls_json_as_text(ls_json_item(list, i), &t->groups[i]));
        if (o->n_groups > 0) LS_TRY(agree_text(t, "group", o->groups[i], t->groups[i]));
    }
    o->groups = t->groups;
    o->n_groups = (int)n;
    return ls_ok();
}

/* Whether the resumed run evaluated other sequences. Files of older versions do not tell which. */
static ls_status compare_evaluations(ls_training *t, ls_json_value object) {
    const ls_train_options *o = &t->options;
    const char *data;
    int64_t sequences;
    LS_TRY(ls_json_text_or(object, "eval_data", NULL, &data));
    LS_TRY(ls_json_int_or(object, "eval_sequences", -1, -1, INT64_MAX, &sequences));
    const bool same = o->eval_data == NULL || (data != NULL && strcmp(data, o->eval_data) == 0);
    if (!same || sequences != o->eval_sequences) t->other_evaluations = t->start.step;
    return ls_ok();
}

static bool is_chosen(const char *name) { return name != NULL && strcmp(name, "auto") != 0; }

/* run.json has the number of recomputed results: "none" is 0. */
static const char *recompute_number(const char *recompute) { return strcmp(recompute, "none") == 0 ? "0" : recompute; }

/* The same choice can be written in several ways. */
static ls_status agree_offload(const ls_training *t, const char *is, const char *was) {
    char normal[LS_OFFLOAD_TEXT];
    ls_saving saving = {0};
    int state = 0;
    LS_TRY(ls_offload_parse(is, &saving.offload, &state));
    saving.offload_state = state > 0;
    ls_offload_print(&saving, normal);
    return agree_text(t, "offload", normal, was);
}

static ls_status resume_mesh(ls_training *t, const char *recorded) {
    if (t->options.spread.mesh == NULL) return ls_ok();
    ls_mesh is, was;
    LS_TRY(ls_mesh_parse(t->options.spread.mesh, &is));
    LS_TRY(ls_mesh_parse(recorded, &was));
    if (!ls_mesh_allows(&is, &was)) return contradiction(t, "mesh", t->options.spread.mesh, recorded);
    return ls_ok();
}

/* Takes the spread of the resumed run unless --replan is given. */
static ls_status resume_spread(ls_training *t, ls_json_value run) {
    ls_json_value object;
    LS_TRY(ls_json_object(run, "spread", &object));
    ls_spread was = t->options.spread;
    LS_TRY(ls_json_int(object, "ranks", 1, INT32_MAX, &was.ranks));
    LS_TRY(ls_json_int(object, "threads", 1, 1 << 20, &was.threads));
    LS_TRY(ls_json_text(object, "strategy", &was.strategy));
    LS_TRY(ls_json_text(object, "mesh", &was.mesh));
    LS_TRY(ls_json_text(object, "layout", &was.layout));
    LS_TRY(ls_json_text(object, "isa", &was.isa));
    /*
     * Runs of older versions lack these fields. Those runs used a cpu, took kernels in the order of the table, cut the
     * optimiser's state, used puts, kept all results in memory of the device, and had no tiles.
     */
    LS_TRY(ls_json_text_or(object, "device", "cpu", &was.device));
    LS_TRY(ls_json_text_or(object, "kernels", "table", &was.kernels));
    LS_TRY(ls_json_text_or(object, "shard", "optimizer", &was.shard));
    LS_TRY(ls_json_text_or(object, "sums", "fast", &was.sums));
    LS_TRY(ls_json_text_or(object, "pipeline", "none", &was.pipeline));
    if (strcmp(was.pipeline, "none") == 0) was.pipeline = NULL;
    LS_TRY(ls_json_int_or(object, "slices", 1, 1, INT32_MAX, &was.slices));
    LS_TRY(ls_json_text_or(object, "transfers", "put", &was.transfers));
    LS_TRY(ls_json_text_or(object, "recompute", "0", &was.recompute));
    LS_TRY(ls_json_text_or(object, "offload", "none", &was.offload));
    LS_TRY(ls_json_text_or(object, "tile", "none", &was.tile));
    LS_TRY(ls_json_int_or(object, "tile_rows", 0, 0, INT64_MAX, &was.tile_rows));
    if (!is_chosen(t->options.spread.sums)) t->options.spread.sums = was.sums; /* a resumed run keeps its numbers */
    if (t->options.replan) return ls_ok();
    const ls_spread *is = &t->options.spread;
    if (is->ranks != 0) LS_TRY(agree_number(t, "ranks", (double)is->ranks, (double)was.ranks));
    if (is->threads != 0) LS_TRY(agree_number(t, "threads", (double)is->threads, (double)was.threads));
    if (is_chosen(is->strategy)) LS_TRY(agree_text(t, "strategy", is->strategy, was.strategy));
    if (is_chosen(is->layout)) LS_TRY(agree_text(t, "layout", is->layout, was.layout));
    if (is_chosen(is->transfers)) LS_TRY(agree_text(t, "transfers", is->transfers, was.transfers));
    if (is_chosen(is->shard)) LS_TRY(agree_text(t, "shard", is->shard, was.shard));
    if (is_chosen(is->sums)) LS_TRY(agree_text(t, "sums", is->sums, was.sums));
    if (is->pipeline != NULL)
        LS_TRY(agree_text(t, "pipeline", is->pipeline, was.pipeline != NULL ? was.pipeline : "none"));
    if (is->slices != 0) LS_TRY(agree_number(t, "slices", (double)is->slices, (double)was.slices));
    if (is_chosen(is->isa)) LS_TRY(agree_text(t, "isa", is->isa, was.isa));
    if (is->device != NULL) LS_TRY(agree_text(t, "device", is->device, was.device));
    if (is->kernels != NULL) LS_TRY(agree_text(t, "kernels", is->kernels, was.kernels));
    if (is_chosen(is->recompute)) LS_TRY(agree_text(t, "recompute", recompute_number(is->recompute), was.recompute));
    if (is_chosen(is->offload)) LS_TRY(agree_offload(t, is->offload, was.offload));
    if (is_chosen(is->tile)) LS_TRY(agree_text(t, "tile", is->tile, was.tile));
    if (is->tile_rows != 0) LS_TRY(agree_number(t, "tile_rows", (double)is->tile_rows, (double)was.tile_rows));
    LS_TRY(resume_mesh(t, was.mesh));
    t->options.spread = was;
    return ls_ok();
}

/* Canonical sums are added up one sequence after the other, so a replica has one sequence per micro-batch. */
static ls_status settle_micro_batches(const ls_training *t, ls_train_options *o) {
    const bool chosen = t->record == NULL && o->accumulate != 1;
    bool canonical;
    ls_mesh mesh = {0};
    LS_TRY(ls_canonical_parse(o->spread.sums, &canonical));
    if (!canonical) return ls_ok();
    if (o->spread.mesh != NULL) LS_TRY(ls_mesh_parse(o->spread.mesh, &mesh));
    const int replicas = ls_mesh_replicas(&mesh);
    if (o->batch % replicas != 0)
        return ls_error(LS_USAGE, "--batch %lld does not divide by %d replicas", (long long)o->batch, replicas);
    const int64_t micro_batches = o->batch / replicas;
    if (chosen && o->accumulate != micro_batches)
        return ls_error(LS_USAGE,
                        "--accumulate %lld; with --sums canonical, --batch %lld and %d replicas expected %lld, a "
                        "sequence of each replica at a time",
                        (long long)o->accumulate, (long long)o->batch, replicas, (long long)micro_batches);
    o->accumulate = micro_batches;
    return ls_ok();
}

/* --- all settings ------------------------------------------------------------------------------------------------- */

static ls_status check_together(const ls_train_options *o) {
    if (strcmp(o->dtype, "f32") != 0 && strcmp(o->dtype, "bf16") != 0)
        return ls_error(LS_USAGE, "--dtype is %s; expected f32 or bf16", o->dtype);
    LS_TRY(ls_schedule_check(o->schedule));
    if (strcmp(o->imitate, "text") != 0 && strcmp(o->imitate, "answers") != 0)
        return ls_error(LS_USAGE, "--imitate is %s; expected text or answers", o->imitate);
    if (o->min_lr > o->lr) return ls_error(LS_USAGE, "--min-lr %g is more than --lr %g", o->min_lr, o->lr);
    if (o->batch % o->accumulate != 0)
        return ls_error(LS_USAGE, "--batch %lld does not divide into --accumulate %lld micro-batches",
                        (long long)o->batch, (long long)o->accumulate);
    if (o->eval_every > 0 && o->eval_data == NULL)
        return ls_error(LS_USAGE, "--eval-every %lld needs --eval-data", (long long)o->eval_every);
    if (o->eval_sequences > 0 && o->eval_data == NULL)
        return ls_error(LS_USAGE, "--eval-sequences %lld needs --eval-data", (long long)o->eval_sequences);
    if (o->keep_best && o->eval_data == NULL) return ls_error(LS_USAGE, "--keep-best needs --eval-data");
    if (o->patience > 0 && !o->keep_best)
        return ls_error(LS_USAGE, "--patience %lld needs --keep-best", (long long)o->patience);
    return ls_ok();
}

ls_status ls_settings_resolve(ls_training *t) {
    ls_train_options *o = &t->options;
    ls_json_value object = {0};
    if (t->record != NULL) {
        const ls_json_value run = ls_json_root(t->record);
        LS_TRY(ls_json_object(run, "settings", &object));
        LS_TRY(resume_spread(t, run));
        LS_TRY(resume_groups(t, object));
    }
    const bool by_steps = o->save_every != 0, by_time = o->save_seconds != 0;
    if (by_steps && !by_time) o->save_seconds = -1;
    const bool steps_given = o->steps != 0;
    const ls_optimizer *optimizer = NULL; /* set before a row that depends on it is reached */
    for (size_t i = 0; i < LS_COUNT(settings); i++) {
        const setting *s = &settings[i];
        if (s->hyper > 0 && optimizer == NULL) LS_TRY(ls_optimizer_find(o->optimizer, &optimizer));
        const bool given = is_given(o, s);
        if (given) LS_TRY(check_limits(o, optimizer, s));
        settle_zero(o, s);
        if (t->record != NULL)
            LS_TRY(resume_setting(t, object, optimizer, s, given));
        else if (!given)
            set_default(o, optimizer, s);
    }
    if (by_time && !by_steps) o->save_every = 0; /* --save-every replaces both values of the resumed run */
    if (steps_given) o->epochs = 0;              /* --steps replaces --epochs of the resumed run */
    if (isnan(o->min_lr)) o->min_lr = o->lr / 10;
    /* Runs of older versions learnt only the answers. */
    if (t->record != NULL && !ls_json_has(object, "imitate")) o->imitate = "answers";
    if (t->record != NULL) LS_TRY(compare_evaluations(t, object));
    LS_TRY(settle_micro_batches(t, o));
    return check_together(o);
}

/*
 * Logs that the learning rate of the next step does not continue that of the last step, because the schedule differs.
 */
static ls_status log_learning_rate(const ls_training *t) {
    const ls_train_options *o = &t->options;
    const int64_t done = t->start.step;
    double last;
    LS_TRY(ls_record_learning_rate(t, done, &last));
    const double expected = ls_schedule_lr(o, done);
    if (!isfinite(last) || fabs(last - expected) <= 1e-9 * expected) return ls_ok();
    ls_log("the schedule (%s) is that of %lld steps from here on: the learning rate of step %lld is %.3g, and that of "
           "step %lld was %.3g",
           o->schedule, (long long)o->steps, (long long)done + 1, ls_schedule_lr(o, done + 1), (long long)done, last);
    return ls_ok();
}

static void log_evaluations(const ls_training *t) {
    const ls_train_options *o = &t->options;
    if (t->eval_data == NULL) return;
    for (int i = 0; i < t->eval_sets.n; i++) {
        const char *name = t->eval_sets.name[i] != NULL ? t->eval_sets.name[i] : o->eval_data;
        const int64_t all = ls_data_summarise(t->eval_sets.data[i])->windows;
        const int64_t some = ls_settings_evaluated(t, t->eval_sets.data[i]);
        if (o->eval_sequences > all)
            ls_log("--eval-sequences %lld: %s has %lld", (long long)o->eval_sequences, name, (long long)all);
        ls_log("evaluation: %s%lld of %lld sequences of %s, every %lld steps and at the end", some == all ? "all " : "",
               (long long)some, (long long)all, name, (long long)o->eval_every);
    }
}

int64_t ls_settings_evaluated(const ls_training *t, const ls_data *data) {
    if (data == NULL) return 0;
    const int64_t all = ls_data_summarise(data)->windows, wanted = t->options.eval_sequences;
    return wanted > 0 ? ls_min(wanted, all) : all;
}

ls_status ls_settings_count_steps(ls_training *t) {
    ls_train_options *o = &t->options;
    const double sequences = (double)ls_data_summarise(t->data)->windows;
    if (o->epochs > 0 && t->mixture.n > 1)
        return ls_error(LS_USAGE, "--epochs %g with several data sets, each of which has its own; expected --steps",
                        o->epochs);
    if (o->epochs > 0) {
        const double steps = ceil(o->epochs * sequences / (double)o->batch);
        if (steps > 1e12)
            return ls_error(LS_USAGE, "--epochs %g are %.3g steps; expected at most 1e12", o->epochs, steps);
        o->steps = ls_max((int64_t)steps, 1);
        ls_log("epochs: %g of %.0f sequences are %lld steps", o->epochs, sequences, (long long)o->steps);
    }
    if (o->eval_data != NULL && o->eval_every == 0) o->eval_every = ls_max(o->steps / 10, 1);
    if (o->steps < t->start.step)
        return ls_error(LS_USAGE, "--steps %lld is less than the %lld steps of %s that are done", (long long)o->steps,
                        (long long)t->start.step, o->out);
    log_evaluations(t);
    if (t->record != NULL && o->steps == t->start.step)
        ls_log("all %lld steps are done; a larger --steps continues the run", (long long)o->steps);
    else if (t->record != NULL)
        LS_TRY(log_learning_rate(t));
    return ls_ok();
}

void ls_settings_add(const ls_training *t, ls_alike *alike) {
    char flag[40];
    for (int i = 0; i < t->options.n_groups; i++) ls_alike_add(alike, "--group", "%s", t->options.groups[i]);
    for (size_t i = 0; i < LS_COUNT(settings); i++) {
        flag_of(settings[i].name, flag, sizeof flag);
        if (settings[i].kind == TEXT)
            ls_alike_add_text(alike, flag, text(&t->options, &settings[i]));
        else
            ls_alike_add(alike, flag, "%.17g", number(&t->options, &settings[i]));
    }
}

void ls_settings_write(const ls_training *t, ls_json_writer *w) {
    ls_json_open_array(w, "groups");
    for (int i = 0; i < t->options.n_groups; i++) ls_json_put_text(w, NULL, t->options.groups[i]);
    ls_json_close(w);
    for (size_t i = 0; i < LS_COUNT(settings); i++) {
        const setting *s = &settings[i];
        if (s->kind == TEXT)
            ls_json_put_text(w, s->name, text(&t->options, s));
        else if (s->kind == FLAG)
            ls_json_put_bool(w, s->name, number(&t->options, s) != 0);
        else if (s->kind == INTEGER)
            ls_json_put_int(w, s->name, *(const int64_t *)(const void *)((const char *)&t->options + s->at));
        else
            ls_json_put_double(w, s->name, number(&t->options, s));
    }
}
