/*
 * longspan checkpoint: the contents of a checkpoint, its verification, and its export as a folder that other programs
 * load.
 */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/* Reads run.json beside the checkpoint at `path`; *out stays as it is if there is none. */
static ls_status read_run(const char *path, ls_json **out) {
    LS_PATH name = NULL;
    LS_TRY(ls_path_join(path, "../run.json", &name));
    return ls_file_exists(name) ? ls_json_read(name, LS_JSON_MOST_BYTES, out) : ls_ok();
}

/* The path itself if it is a folder, else the folder of the file. */
static ls_status folder_of(const char *path, char **out) {
    return ls_file_is_folder(path) ? ls_path_print(out, "%s", path) : ls_path_parent(path, out);
}

/* *out becomes the model's path in run.json; NULL: there is none. The text lives as long as *run. */
static ls_status recorded_model(const char *checkpoint, ls_json **run, const char **out) {
    *out = NULL;
    LS_TRY(read_run(checkpoint, run));
    if (*run == NULL) return ls_ok();
    return ls_json_text(ls_json_field(ls_json_root(*run), "model"), "path", out);
}

/*
 * Finds the folder with the tokenizer's files: that of --model, that of the model from which the run was started, or
 * the folder that the run exported at its end. If there is none, *out stays NULL, and a line is logged.
 */
static ls_status find_tokenizer_files(const ls_export_job *job, const char *checkpoint, char **out) {
    LS_PATH exported = NULL;
    ls_json *run = NULL;
    const char *model = job->model;
    if (model != NULL && !ls_file_exists(model))
        return ls_error(LS_USAGE, "--model %s does not exist; expected the folder of a model", model);
    LS_TRY(ls_path_join(checkpoint, "../model", &exported));
    ls_status status = model != NULL ? ls_ok() : recorded_model(checkpoint, &run, &model);
    if (status.code == LS_OK && model != NULL && ls_file_exists(model))
        status = folder_of(model, out);
    else if (status.code == LS_OK && ls_file_is_folder(exported))
        status = ls_path_print(out, "%s", exported);
    else if (status.code == LS_OK)
        ls_log("no tokenizer is copied: %s; --model FOLDER names one",
               model == NULL ? "there is no run.json that says where the model came from"
                             : "its model does not exist any more");
    ls_json_free(run);
    return status;
}

static void print_export(const ls_export_job *job, const ls_export_result *r, double seconds, FILE *out) {
    char bytes[LS_BYTES_TEXT], time[LS_SECONDS_TEXT];
    ls_print_line(out, "%s: %lld tensors, %.2f M parameters in %s, %s in %d file%s, %s", job->out,
                  (long long)r->tensors, (double)r->parameters / 1e6, ls_st_dtype_name(r->dtype),
                  ls_bytes_text((double)r->bytes, bytes), r->files, r->files == 1 ? "" : "s",
                  ls_seconds_text(seconds, time));
    ls_print_line(out, "carried over: %s", r->carried[0] != 0 ? r->carried : "nothing");
    if (r->averaged)
        ls_print_line(out, "the weights are the average (--ema) of the training; --last has those of its last step");
    if (job->merge)
        ls_print_line(out,
                      "merged: the adapter changes its matrices by %.3g (root mean square), rounding to %s by %.3g",
                      r->change, ls_st_dtype_name(r->dtype), r->rounding);
}

static void print_export_json(const ls_export_job *job, const char *checkpoint, const ls_export_result *r,
                              double seconds, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "out", job->out);
    ls_json_put_text(w, "checkpoint", checkpoint);
    ls_json_put_text(w, "dtype", ls_st_dtype_name(r->dtype));
    ls_json_put_int(w, "tensors", r->tensors);
    ls_json_put_int(w, "parameters", r->parameters);
    ls_json_put_int(w, "bytes", r->bytes);
    ls_json_put_int(w, "files", r->files);
    ls_json_put_text(w, "carried", r->carried);
    ls_json_put_bool(w, "averaged", r->averaged);
    if (job->merge) {
        ls_json_put_double(w, "change", r->change);
        ls_json_put_double(w, "rounding", r->rounding);
    }
    ls_json_put_double(w, "seconds", seconds);
    ls_json_end(w, out);
}

/* Whether `path` is the folder of an adapter alone, which is not a checkpoint. */
static bool is_adapter(const char *path) {
    LS_PATH state = NULL;
    return ls_checkpoint_has_adapter(path) && ls_path_join(path, "state.json", &state).code == LS_OK &&
           !ls_file_exists(state);
}

/* Opens the model into which the adapter is merged: that of --model, or the one that the adapter names. */
static ls_status open_merged(const ls_export_job *job, const char *path, ls_model **out) {
    if (!ls_checkpoint_has_adapter(path))
        return ls_error(LS_USAGE, "--merge: %s has no adapter; expected the folder of one, or a run that trained one",
                        path);
    LS_TRY(ls_model_open(job->model != NULL ? job->model : path, out));
    if (job->model != NULL) LS_TRY(ls_model_adapt(*out, &(ls_adapter_choice){.folder = path}));
    ls_model_keep(*out, LS_DTYPES); /* write all parameters in full */
    return ls_ok();
}

static ls_status export_merged(const ls_export_job *job, const char *path, ls_export_options *options,
                               ls_export_result *result) {
    ls_model *model = NULL;
    ls_status status = open_merged(job, path, &model);
    if (status.code == LS_OK) {
        options->merge = model;
        options->carry = ls_model_folder(model);
        status = ls_checkpoint_export(options, result);
    }
    ls_model_close(model);
    return status;
}

ls_status ls_run_export(const ls_export_job *job, bool json, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    LS_NEED(job->checkpoint, "job->checkpoint");
    const double began = ls_seconds();
    LS_PATH source = NULL;
    LS_PATH path = NULL;
    ls_export_options options = {.out = job->out, .shard_bytes = job->shard_bytes, .last = job->last};
    ls_export_result result;
    const bool alone = job->merge && is_adapter(job->checkpoint);
    if (job->out == NULL) return ls_error(LS_USAGE, "--out is missing; expected a folder to export to");
    LS_TRY(ls_export_dtype(job->dtype, &options.dtype));
    LS_TRY(alone ? ls_path_print(&path, "%s", job->checkpoint) : ls_checkpoint_resolve(job->checkpoint, &path));
    options.checkpoint = alone ? NULL : path;
    if (job->merge) {
        LS_TRY(export_merged(job, path, &options, &result));
    } else {
        if (!ls_checkpoint_has_adapter(path)) LS_TRY(find_tokenizer_files(job, path, &source));
        options.carry = source;
        LS_TRY(ls_checkpoint_export(&options, &result));
    }
    if (json)
        print_export_json(job, path, &result, ls_seconds() - began, out);
    else
        print_export(job, &result, ls_seconds() - began, out);
    return ls_ok();
}

/* --- inspect ------------------------------------------------------------------------------------------------------ */

typedef struct opened {
    char *path;
    ls_checkpoint_info info;
    ls_model *model; /* NULL: there is no model file */
    ls_json *run;    /* run.json of its run; NULL: there is none */
    ls_st_file *weights;
} opened;

static ls_status open_checkpoint(const char *path, opened *c) {
    LS_PATH name = NULL;
    LS_TRY(ls_checkpoint_resolve(path, &c->path));
    LS_TRY(ls_checkpoint_describe(c->path, &c->info));
    for (int i = 0; ls_model_file(i) != NULL && c->model == NULL; i++) {
        LS_TRY(ls_path_join(c->path, ls_model_file(i), &name));
        if (ls_file_exists(name)) LS_TRY(ls_model_open(name, &c->model));
    }
    LS_TRY(read_run(c->path, &c->run));
    LS_TRY(ls_path_join(c->path, "model.safetensors", &name));
    return ls_st_open(name, &c->weights);
}

static void close_checkpoint(opened *c) {
    free(c->path);
    ls_model_close(c->model);
    ls_json_free(c->run);
    ls_st_close(c->weights);
}

/* ---- as JSON ---- */

static void put_model(const ls_model *model, ls_json_writer *w) {
    if (model == NULL) {
        ls_json_put_null(w, "model");
        return;
    }
    ls_json_open_object(w, "model");
    ls_model_put(model, w);
    ls_json_close(w);
}

static const char *const run_texts[] = {"strategy", "mesh", "layout"};

/* A text in the object `spread` of run.json; NULL if it is missing or is not a text. */
static const char *run_text(const ls_json *run, const char *name) {
    const char *text = NULL;
    const ls_status status = ls_json_text(ls_json_field(ls_json_root(run), "spread"), name, &text);
    return status.code == LS_OK ? text : NULL;
}

static int64_t run_ranks(const ls_json *run) {
    int64_t ranks = 0;
    const ls_status status = ls_json_int(ls_json_field(ls_json_root(run), "spread"), "ranks", 1, INT32_MAX, &ranks);
    return status.code == LS_OK ? ranks : 0;
}

static void put_run(const ls_json *run, ls_json_writer *w) {
    if (run == NULL) {
        ls_json_put_null(w, "run");
        return;
    }
    ls_json_open_object(w, "run");
    ls_json_put_int(w, "ranks", run_ranks(run));
    for (size_t i = 0; i < LS_COUNT(run_texts); i++) ls_json_put_text(w, run_texts[i], run_text(run, run_texts[i]));
    ls_json_close(w);
}

static void put_tensors(const ls_st_file *file, ls_json_writer *w) {
    ls_json_open_array(w, "tensors");
    for (int64_t i = 0; i < ls_st_count(file); i++) {
        const ls_st_tensor *t = ls_st_at(file, i);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", t->name);
        ls_json_put_text(w, "dtype", ls_st_dtype_name(t->dtype));
        ls_json_open_array(w, "shape");
        for (int d = 0; d < t->ndim; d++) ls_json_put_int(w, NULL, t->shape[d]);
        ls_json_close(w);
        ls_json_put_int(w, "bytes", (int64_t)t->bytes);
        ls_json_close(w);
    }
    ls_json_close(w);
}

static void put_state(const opened *c, ls_json_writer *w) {
    ls_json_put_text(w, "path", c->path);
    ls_json_put_int(w, "step", c->info.state.step);
    ls_json_put_int(w, "seed", (int64_t)c->info.state.seed);
    ls_json_put_int(w, "sequences", c->info.state.sequences);
    ls_json_put_double(w, "last_loss", c->info.state.last_loss);
    ls_json_put_text(w, "type", c->info.type);
    ls_json_put_bool(w, "averaged", c->info.averaged);
}

static void print_json(const opened *c, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    put_state(c, w);
    put_model(c->model, w);
    put_run(c->run, w);
    ls_json_open_array(w, "files");
    for (int i = 0; i < c->info.n_files; i++) {
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", c->info.file[i].name);
        ls_json_put_int(w, "bytes", c->info.file[i].bytes);
        ls_json_close(w);
    }
    ls_json_close(w);
    put_tensors(c->weights, w);
    ls_json_end(w, out);
}

/* ---- as words ---- */

static void print_model(const ls_model *model, FILE *out) {
    if (model == NULL) {
        ls_print_line(out, "model       unknown: there is neither a config.json nor a graph.json");
        return;
    }
    char text[400];
    ls_model_print(model, text, sizeof text);
    ls_print_line(out, "model       %s", text);
}

static void print_run(const ls_json *run, FILE *out) {
    if (run == NULL) {
        ls_print_line(out, "run         unknown: there is no run.json beside it");
        return;
    }
    char texts[256] = "";
    for (size_t i = 0; i < LS_COUNT(run_texts); i++) {
        const char *text = run_text(run, run_texts[i]);
        const size_t used = strlen(texts);
        if (text != NULL) snprintf(texts + used, sizeof texts - used, " · %s", text);
    }
    ls_print_line(out, "run         %lld ranks%s", (long long)run_ranks(run), texts);
}

static void print_tensor(const ls_st_tensor *t, int width, FILE *out) {
    char bytes[LS_BYTES_TEXT], shape[160] = "";
    for (int d = 0; d < t->ndim; d++) {
        const size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%lld", d ? "," : "", (long long)t->shape[d]);
    }
    ls_print_line(out, "  %-*s  %s  [%s]  %s", width, t->name, ls_st_dtype_name(t->dtype), shape,
                  ls_bytes_text((double)t->bytes, bytes));
}

static void print_words(const opened *c, FILE *out) {
    char bytes[LS_BYTES_TEXT];
    ls_print_line(out, "checkpoint  %s", c->path);
    ls_print_line(out, "step        %lld · %lld sequences · loss %.4f · seed %llu · %s", (long long)c->info.state.step,
                  (long long)c->info.state.sequences, c->info.state.last_loss, (unsigned long long)c->info.state.seed,
                  c->info.type);
    print_model(c->model, out);
    print_run(c->run, out);
    for (int i = 0; i < c->info.n_files; i++)
        ls_print_line(out, "%s%-22s  %s", i == 0 ? "files       " : "            ", c->info.file[i].name,
                      ls_bytes_text((double)c->info.file[i].bytes, bytes));
    ls_print_line(out, "tensors     %lld%s", (long long)ls_st_count(c->weights),
                  c->info.averaged ? ", the average of the weights (--ema)" : "");
    int width = 0;
    for (int64_t i = 0; i < ls_st_count(c->weights); i++)
        width = (int)ls_max(width, ls_min(60, (int64_t)strlen(ls_st_at(c->weights, i)->name)));
    for (int64_t i = 0; i < ls_st_count(c->weights); i++) print_tensor(ls_st_at(c->weights, i), width, out);
}

ls_status ls_checkpoint_print(const char *path, bool json, FILE *out) {
    LS_NEED(path, "path");
    LS_NEED(out, "out");
    opened c = {.model = NULL};
    const ls_status status = open_checkpoint(path, &c);
    if (status.code == LS_OK) (json ? print_json : print_words)(&c, out);
    close_checkpoint(&c);
    return status;
}

/* --- verify ------------------------------------------------------------------------------------------------------- */

static void print_verdict_json(const char *path, const ls_checkpoint_info *info, int bad, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "path", path);
    ls_json_put_bool(w, "ok", bad == 0);
    ls_json_open_array(w, "files");
    for (int i = 0; i < info->n_files; i++) {
        const ls_checkpoint_file *file = &info->file[i];
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", file->name);
        ls_json_put_bool(w, "ok", file->bad == 0);
        ls_json_put_int(w, "bytes", file->bytes);
        ls_json_put_int(w, "pieces", file->pieces);
        ls_json_put_int(w, "bad", file->bad);
        ls_json_put_text(w, "problem", file->bad > 0 ? file->status.text : NULL);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_end(w, out);
}

static void print_verdict(const char *path, const ls_checkpoint_info *info, FILE *out) {
    ls_print_line(out, "checkpoint  %s", path);
    for (int i = 0; i < info->n_files; i++) {
        const ls_checkpoint_file *file = &info->file[i];
        char bytes[LS_BYTES_TEXT] = "", pieces[48] = "";
        if (file->bytes > 0) (void)ls_bytes_text((double)file->bytes, bytes);
        if (file->bad > 0)
            snprintf(pieces, sizeof pieces, "  %lld of %lld pieces: ", (long long)file->bad, (long long)file->pieces);
        ls_print_line(out, "%-22s  %s%s%*s%s%s", file->name, file->bad == 0 ? "good" : "BAD ",
                      file->bytes > 0 ? "  " : "", file->bytes > 0 ? 10 : 0, bytes, pieces,
                      file->bad > 0 ? file->status.text : "");
    }
}

ls_status ls_checkpoint_print_verdict(const char *path, bool json, FILE *out) {
    LS_NEED(path, "path");
    LS_NEED(out, "out");
    LS_PATH folder = NULL;
    ls_checkpoint_info info;
    LS_TRY(ls_checkpoint_resolve(path, &folder));
    LS_TRY(ls_checkpoint_verify(folder, &info));
    int bad = 0;
    const ls_checkpoint_file *first = NULL;
    for (int i = 0; i < info.n_files; i++) {
        if (info.file[i].bad == 0) continue;
        if (bad++ == 0) first = &info.file[i];
    }
    if (json)
        print_verdict_json(folder, &info, bad, out);
    else
        print_verdict(folder, &info, out);
    if (bad == 0) return ls_ok();
    return ls_error(LS_INVALID, "%d of %d files are bad: %s", bad, info.n_files, first->status.text);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct checkpoint_flags {
    cli_common common;
    const char *action;
    ls_export_job job;
} checkpoint_flags;

#define AT(field) offsetof(checkpoint_flags, field)
static const ls_option options[] = {
    CLI_TEXT("action", "NAME", AT(action), "inspect, verify or export; or the first word after checkpoint"),
    CLI_TEXT("checkpoint", "PATH", AT(job.checkpoint),
             "a checkpoint, or the --out of a training run (its newest one); or the second word"),
    CLI_TEXT("out", "DIR", AT(job.out),
             "export: the folder to write; a new one, or an earlier export, which is replaced"),
    CLI_TEXT(
        "model", "PATH", AT(job.model),
        "export: the model whose tokenizer files are copied, and with --merge the one below the adapter; the model that the run was started from when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16|f16", NULL, AT(job.dtype),
               "export: type of the weights; that of config.json when left out, else f32"),
    CLI_BYTES("shard-size", "BYTES", "5000000000", 1, CLI_ANY, AT(job.shard_bytes),
              "export: most bytes of weights in one file; larger models get several files, with an index"),
    CLI_FLAG(
        "last", AT(job.last),
        "export: of a training with --ema the weights of the last step, not their average, which a checkpoint has in their place"),
    CLI_FLAG(
        "merge", AT(job.merge),
        "export: a whole model with the adapter in its matrices, of a run that trained one, or of an adapter's folder"),
};
#undef AT

static ls_status inspect(const checkpoint_flags *flags) {
    return ls_checkpoint_print(flags->job.checkpoint, flags->common.json, stdout);
}

static ls_status verify(const checkpoint_flags *flags) {
    return ls_checkpoint_print_verdict(flags->job.checkpoint, flags->common.json, stdout);
}

static ls_status export(const checkpoint_flags *flags) {
    return ls_run_export(&flags->job, flags->common.json, stdout);
}

enum { FIRST_OF_EXPORT = 2 }; /* the row of the first option that only export takes */

static const struct {
    const char *name;
    ls_status (*run)(const checkpoint_flags *flags);
    bool exports;
} actions[] = {{"inspect", inspect, false}, {"verify", verify, false}, {"export", export, true}};

static ls_status run(void *context) {
    const checkpoint_flags *flags = context;
    for (size_t i = 0; i < CLI_COUNT(actions); i++) {
        if (flags->action == NULL || strcmp(flags->action, actions[i].name) != 0) continue;
        for (size_t k = FIRST_OF_EXPORT; k < CLI_COUNT(options) && !actions[i].exports; k++)
            if (flags->common.given[k])
                return ls_error(LS_USAGE, "--%s is for export, not for %s", options[k].name, flags->action);
        if (flags->job.checkpoint == NULL)
            return ls_error(LS_USAGE,
                            "checkpoint %s: no path is given; expected a checkpoint, or the --out of a training run",
                            flags->action);
        return actions[i].run(flags);
    }
    return ls_error(LS_USAGE, "checkpoint: '%s' is unknown, expected inspect, verify or export",
                    flags->action == NULL ? "" : flags->action);
}

const cli_command cli_checkpoint = {
    .name = "checkpoint",
    .summary = "show or verify a checkpoint, or export it as a folder for other programs",
    .usage = "inspect|verify|export PATH [--out DIR] [options]",
    .about =
        "inspect: prints step, loss, model, the spread of its run, files and tensors.\n"
        "verify: reads every byte and compares it with its hash; if a file is bad, prints which, with exit code 1.\n"
        "export: writes a folder that Hugging Face tools load as it is: config.json with all its fields, generation_config.json, the tokenizer's "
        "files, and the weights as model.safetensors, or in several files with an index. Needs little memory, whatever the model's size. The folder "
        "gets its name when it is complete; an earlier export of that name is kept until then. Of a run that trained an adapter it writes "
        "adapter_config.json and adapter_model.safetensors, as peft reads them; with --merge a whole model: sums in f32, rounded once, and says how much "
        "rounding changes.",
    CLI_OWN(options, run, checkpoint_flags),
    .takes_word = 2,
};
