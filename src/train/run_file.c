/* run.json: describes a training, and tells whether a resumed one is the same. */
#include "train/train_impl.h"

#include "ls_version.h"

#include <string.h>

static void write_model(const ls_training *t, ls_json_writer *w) {
    ls_json_open_object(w, "model");
    ls_json_put_text(w, "path", t->options.model);
    ls_model_put(t->model, w);
    ls_json_put_text(w, "config", ls_model_written(t->model).text);
    ls_json_close(w);
}

static void write_data(const ls_training *t, ls_json_writer *w) {
    const ls_data_summary *d = ls_data_summarise(t->data);
    ls_json_open_object(w, "data");
    ls_json_open_array(w, "paths");
    for (int i = 0; i < t->options.n_data; i++) ls_json_put_text(w, NULL, t->options.data[i]);
    ls_json_close(w);
    ls_json_put_text(w, "tokenizer", ls_tokenizer_name(t->tokenizer));
    ls_json_put_int(w, "documents", d->documents);
    ls_json_put_int(w, "tokens", d->tokens);
    ls_json_put_int(w, "sequences", d->windows);
    ls_json_put_int(w, "longest_document", d->longest_document);
    ls_json_put_double(w, "unigram_nats", t->unigram);
    ls_json_put_hex(w, "content", t->content);
    ls_json_close(w);
}

static void write_spread(const ls_training *t, ls_json_writer *w) {
    const ls_plan *plan = ls_session_plan(t->session);
    const ls_spread_result spread = ls_session_describe(t->session);
    char drop[24];
    ls_json_open_object(w, "spread");
    ls_json_put_int(w, "ranks", ls_session_ranks(t->session));
    ls_json_put_int(w, "threads", plan->target.threads);
    ls_json_put_text(w, "strategy", spread.strategy);
    ls_json_put_text(w, "mesh", spread.mesh);
    ls_json_put_text(w, "layout", spread.layout);
    ls_json_put_text(w, "transfers", spread.transfers);
    ls_json_put_text(w, "shard", spread.shard);
    ls_json_put_text(w, "sums", spread.sums);
    ls_json_put_text(w, "pipeline", spread.pipeline);
    ls_json_put_int(w, "slices", spread.slices);
    ls_json_put_text(w, "isa", spread.isa);
    ls_json_put_text(w, "device", spread.device);
    ls_json_put_text(w, "kernels", spread.kernels);
    snprintf(drop, sizeof drop, "%lld", (long long)spread.recompute);
    ls_json_put_text(w, "recompute", drop);
    ls_json_put_text(w, "offload", spread.offload);
    ls_json_put_text(w, "tile", spread.tile);
    ls_json_put_int(w, "tile_rows", spread.tile_rows);
    ls_json_put_int(w, "memory", t->options.spread.memory);
    ls_json_put_bool(w, "as_threads", t->options.spread.as_threads);
    ls_json_put_text(w, "reason", plan->reason);
    ls_json_close(w);
}

static bool is_given(const ls_train_options *o, const char *name) {
    bool found = false;
    for (int i = 0; i < o->n_given; i++) found |= strcmp(o->given[i].name, name) == 0;
    return found;
}

static void write_option(ls_json_writer *w, const char *name, const char *const *values, size_t n) {
    if (n == 0) ls_json_put_bool(w, name, true);
    if (n == 1) ls_json_put_text(w, name, values[0]);
    if (n > 1) ls_json_open_array(w, name);
    for (size_t i = 0; i < n && n > 1; i++) ls_json_put_text(w, NULL, values[i]);
    if (n > 1) ls_json_close(w);
}

/* Writes an option of the run that is resumed. */
static ls_status write_earlier(ls_json_writer *w, const char *name, ls_json_value value) {
    const char *text;
    if (ls_json_is_array(value)) {
        ls_json_open_array(w, name);
        for (size_t i = 0; i < ls_json_count(value); i++) {
            LS_TRY(ls_json_as_text(ls_json_item(value, i), &text));
            ls_json_put_text(w, NULL, text);
        }
        ls_json_close(w);
        return ls_ok();
    }
    if (ls_json_plain_of(value).kind == LS_JSON_BOOL) {
        ls_json_put_bool(w, name, true);
        return ls_ok();
    }
    LS_TRY(ls_json_as_text(value, &text));
    ls_json_put_text(w, name, text);
    return ls_ok();
}

/*
 * Writes the options as they were given, for --config. For a resumed run, options of the earlier run that were not
 * given again are included.
 */
static ls_status write_options(const ls_training *t, ls_json_writer *w) {
    const ls_train_options *o = &t->options;
    void *cursor = NULL;
    const char *key;
    ls_json_value value, earlier = {.json = NULL};
    if (t->record != NULL) earlier = ls_json_field(ls_json_root(t->record), "options");
    ls_json_open_object(w, "options");
    while (ls_json_next(earlier, &cursor, &key, &value))
        if (!is_given(o, key)) LS_TRY(write_earlier(w, key, value));
    for (int i = 0; i < o->n_given; i++) write_option(w, o->given[i].name, o->given[i].values, (size_t)o->given[i].n);
    ls_json_close(w);
    return ls_ok();
}

static void write_memory(const ls_training *t, ls_json_writer *w) {
    ls_json_open_array(w, "predicted_bytes"); /* for the ranks that have the first sequence, one per stage */
    const ls_mesh *mesh = &ls_session_plan(t->session)->target.mesh;
    const ls_team team = ls_mesh_team(mesh, ls_mesh_axes(mesh, LS_AXIS_SEQUENCE) | ls_mesh_axes(mesh, LS_AXIS_STAGE));
    for (int i = 0; i < ls_team_size(&team); i++) {
        const ls_rank_bytes *b = ls_session_bytes(t->session, ls_team_member(&team, 0, i));
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "private", b->space[LS_PRIVATE]);
        ls_json_put_int(w, "symmetric", b->space[LS_SYMMETRIC]);
        ls_json_put_int(w, "host", b->space[LS_HOST]);
        ls_json_put_int(w, "common", b->space[LS_COMMON]);
        ls_json_put_int(w, "persistent", b->persistent);
        ls_json_put_int(w, "activations", b->activations);
        ls_json_put_int(w, "slots", b->slots);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_put_int(w, "one_rank_bytes", t->one_rank_bytes);
}

ls_status ls_record_run(const ls_training *t) {
    LS_PATH path = NULL;
    char frame[32];
    LS_TRY(ls_record_path(t, "run.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "version", LS_VERSION);
    ls_json_put_text(w, "commit", LS_COMMIT);
    write_model(t, w);
    write_data(t, w);
    ls_json_open_object(w, "settings");
    ls_settings_write(t, w);
    ls_json_close(w);
    ls_groups_write(&t->job, w);
    const ls_status options = write_options(t, w);
    if (options.code != LS_OK) {
        ls_json_writer_destroy(w);
        return options;
    }
    write_spread(t, w);
    snprintf(frame, sizeof frame, "%016llx", (unsigned long long)ls_image_frame(ls_session_image(t->session)));
    ls_json_put_text(w, "program", frame);
    write_memory(t, w);
    return ls_json_end_file(w, path);
}

/*
 * Compares the hash of the data, which distinguishes texts with equal token counts. run.json files of older versions
 * have none.
 */
static ls_status check_content(const ls_training *t, ls_json_value data) {
    const char *recorded;
    char here[20];
    LS_TRY(ls_json_text_or(data, "content", NULL, &recorded));
    snprintf(here, sizeof here, "%016llx", (unsigned long long)t->content);
    if (recorded == NULL || strcmp(recorded, here) == 0) return ls_ok();
    return ls_error(LS_USAGE,
                    "--data is not the text of %s/run.json: as many tokens, but of other content (%s, expected %.20s)",
                    t->options.out, here, recorded);
}

/* The seed in run.json may have been edited; the seed in the checkpoint is protected by a hash. */
static ls_status check_seed(const ls_training *t) {
    if (t->options.seed == t->start.seed) return ls_ok();
    return ls_error(LS_USAGE, "%s/run.json: seed is %llu, but %s was trained with %llu; expected the same",
                    t->options.out, (unsigned long long)t->options.seed, t->resumed_from,
                    (unsigned long long)t->start.seed);
}

ls_status ls_record_check(const ls_training *t) {
    LS_TRY(check_seed(t));
    ls_json_value run = ls_json_root(t->record), model, data;
    LS_TRY(ls_json_object(run, "model", &model));
    LS_TRY(ls_json_object(run, "data", &data));
    const char *config;
    LS_TRY(ls_json_text(model, "config", &config));
    const ls_model_text model_text = ls_model_written(t->model);
    if (strcmp(config, model_text.text) != 0)
        return ls_error(LS_USAGE, "--model %s is not the model of %s/run.json; expected the same %s", t->options.model,
                        t->options.out, model_text.file);
    const ls_data_summary *d = ls_data_summarise(t->data);
    int64_t tokens;
    double nats;
    LS_TRY(ls_json_int(data, "tokens", 0, INT64_MAX, &tokens));
    LS_TRY(ls_json_double(data, "unigram_nats", 0, 1e9, &nats));
    if (tokens != d->tokens || nats != t->unigram)
        return ls_error(LS_USAGE, "--data is not the text of %s/run.json: %lld tokens, expected %lld%s", t->options.out,
                        (long long)d->tokens, (long long)tokens, tokens == d->tokens ? " of other content" : "");
    return check_content(t, data);
}
