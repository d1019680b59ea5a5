/* The checkpoint command's export: which checkpoint, into which folder, and whose tokenizer goes with it. */
#include "checkpoint/checkpoint.h"
#include "job/job_impl.h"
#include "longspan/checkpoint.h"
#include "longspan/units.h"

#include <string.h>

/* The folder that a path means: itself, or the one that the file lies in. */
static ls_status folder_of(const char *path, char **out) {
    return ls_file_is_directory(path) ? ls_path_print(out, "%s", path) : ls_path_parent(path, out);
}

/* What run.json says of the model; NULL: nothing. The text is the document's. */
static ls_status recorded_model(const char *checkpoint, ls_json **run, const char **out) {
    *out = NULL;
    LS_TRY(ls_job_read_run(checkpoint, run));
    if (*run == NULL) return ls_ok();
    return ls_json_text(ls_json_field(ls_json_root(*run), "model"), "path", out);
}

/*
 * The folder of the tokenizer's files: of the model that was named, of the one that the run was started from, or what the run exported
 * at its end. NULL: none is known, which is said.
 */
static ls_status find_source(const ls_export_job *job, const char *checkpoint, char **out) {
    LS_PATH exported = NULL;
    ls_json *run = NULL;
    const char *model = job->model;
    if (model != NULL && !ls_file_exists(model))
        return ls_error(LS_USAGE, "--model %s is not there; expected the folder of a model", model);
    LS_TRY(ls_path_join(checkpoint, "../model", &exported));
    ls_status status = model != NULL ? ls_ok() : recorded_model(checkpoint, &run, &model);
    if (status.code == LS_OK && model != NULL && ls_file_exists(model))
        status = folder_of(model, out);
    else if (status.code == LS_OK && ls_file_is_directory(exported))
        status = ls_path_print(out, "%s", exported);
    else if (status.code == LS_OK)
        ls_log("no tokenizer is carried over: %s; --model FOLDER names one",
               model == NULL ? "there is no run.json that says where the model came from"
                             : "its model is not there any more");
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
    ls_json_put_double(w, "seconds", seconds);
    ls_json_end(w, out);
}

ls_status ls_run_export(const ls_export_job *job, bool json, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    LS_NEED(job->checkpoint, "job->checkpoint");
    const double began = ls_seconds();
    LS_PATH source = NULL;
    LS_PATH checkpoint_path = NULL;
    ls_export_options options = {.out = job->out, .shard_bytes = job->shard_bytes};
    ls_export_result result;
    if (job->out == NULL) return ls_error(LS_USAGE, "--out is missing; expected a folder to export to");
    LS_TRY(ls_export_dtype(job->dtype, &options.dtype));
    LS_TRY(ls_checkpoint_resolve(job->checkpoint, &checkpoint_path));
    LS_TRY(find_source(job, checkpoint_path, &source));
    options.checkpoint = checkpoint_path;
    options.carry = source;
    LS_TRY(ls_checkpoint_export(&options, &result));
    if (json)
        print_export_json(job, checkpoint_path, &result, ls_seconds() - began, out);
    else
        print_export(job, &result, ls_seconds() - began, out);
    return ls_ok();
}
