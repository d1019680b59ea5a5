/* Builds a folder of shards from text: reads the documents in order, and begins a new shard when one is full. */
#include "data/build_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DOCUMENTS = 1 << 22 }; /* in a shard; its index is in memory while it is written */
#define SECONDS_BETWEEN_LINES 2.0  /* between lines of progress, if standard error is not a terminal */

typedef struct build {
    const ls_build_options *options;
    ls_input_list inputs;
    ls_shard_kind kind;
    ls_build_state state;
    ls_shard_writer *writer; /* NULL: the next document begins a shard */
    int64_t resumed;         /* shards written by an earlier build */
    ls_place place;          /* how far the inputs have been read */
    bool has_journal;
    ls_progress progress;
    double start, last_shown; /* seconds */
    int64_t resumed_tokens;   /* tokens written by an earlier build */
} build;

/* ---- documents ---- */

static ls_status finish_shard(build *b, ls_place next) {
    ls_shard_header header;
    ls_shard_writer *writer = b->writer;
    b->writer = NULL;
    b->state.place = next;
    LS_TRY(ls_shard_finish(writer, &header));
    return ls_journal_add(b->options, &b->state, &header);
}

static ls_status begin_document(void *context, bool framed, bool learnt) {
    build *b = context;
    const ls_frame *frame = &b->state.form.frame;
    uint8_t marks[LS_FRAME_MOST];
    LS_PATH path = NULL;
    if (b->writer == NULL) {
        LS_TRY(ls_build_shard_path(b->options, b->state.n_shards, &path));
        LS_TRY(ls_shard_create(path, &b->kind, &b->writer));
    }
    memset(marks, learnt, sizeof marks);
    return ls_shard_append(b->writer, frame->begin, marks, framed ? frame->n_begin : 0);
}

static ls_status append(void *context, const int32_t *ids, const uint8_t *learnt, int64_t n) {
    build *b = context;
    return ls_shard_append(b->writer, ids, learnt, n);
}

static ls_status end_document(void *context, bool learnt, ls_place next) {
    build *b = context;
    LS_TRY(ls_shard_end_document(b->writer, learnt));
    const ls_shard_header *so_far = ls_shard_so_far(b->writer);
    if ((int64_t)so_far->tokens < b->options->shard_tokens && so_far->documents < MOST_DOCUMENTS) return ls_ok();
    return finish_shard(b, next);
}

/* ---- progress ---- */

/*
 * Bytes of the inputs before a place. Of a compressed input only the whole size is known; it counts when the input
 * ends.
 */
static int64_t bytes_before(const build *b, ls_place place) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < ls_min(place.input, b->inputs.n); i++) bytes += b->inputs.input[i].bytes;
    if (place.input >= b->inputs.n) return bytes;
    const ls_input *in = &b->inputs.input[place.input];
    return bytes + (in->compressed ? 0 : ls_min(place.offset, in->bytes));
}

static void show_progress(build *b, bool last) {
    const double now = ls_seconds();
    if (b->progress.total == 0) return; /* less than a MiB of text */
    if (!last && now - b->last_shown < (b->progress.terminal ? 0.1 : SECONDS_BETWEEN_LINES)) return;
    b->last_shown = now;
    char note[120];
    ls_print(note, sizeof note, "%.2f M tokens · %.2f M tokens/s", (double)b->state.count.tokens / 1e6,
             (double)(b->state.count.tokens - b->resumed_tokens) / 1e6 / (now - b->start + 1e-9));
    ls_progress_show(&b->progress, bytes_before(b, b->place) >> 20, note);
}

static ls_status after_batch(void *context, ls_place place) {
    build *b = context;
    b->place = place;
    show_progress(b, false);
    if (b->options->stop == NULL || *b->options->stop == 0) return ls_ok();
    if (b->state.n_shards == 0)
        return ls_error(LS_INTERRUPTED, "interrupted before the first shard was complete: nothing is kept");
    return ls_error(LS_INTERRUPTED,
                    "interrupted: %lld shards are complete; the same command with --resume continues after them",
                    (long long)b->state.n_shards);
}

/* ---- building ---- */

static ls_status read_documents(build *b) {
    const ls_build_options *o = b->options;
    const ls_document_form *form = &b->state.form;
    /* The end of document is not learnt after a document that was cut. */
    const bool cuts = o->longest > 0 && form->too_long == LS_TOO_LONG_CUT;
    const ls_document_sink sink = {
        .context = b, .begin = begin_document, .append = append, .end = end_document, .batch = after_batch};
    const ls_document_reading reading = {.form = form,
                                         .tokenizer = o->tokenizer,
                                         .inputs = &b->inputs,
                                         .from = b->state.place,
                                         .threads = o->threads,
                                         .longest = o->longest};
    if (form->kind->compares)
        return ls_error(
            LS_UNSUPPORTED,
            "--records is '%s': shards hold no pairs of answers and no judged answers; expected train to read the records",
            form->kind->name);
    if (form->kind->teaches)
        return ls_error(LS_UNSUPPORTED,
                        "--records is '%s': shards hold no words of a teacher; expected train to read the records",
                        form->kind->name);
    if (b->state.place.input > b->inputs.n || b->state.place.line < 1)
        return ls_error(LS_INVALID, "%s/" LS_SHARDS_JOURNAL " is damaged: it continues at file %lld of %lld", o->out,
                        (long long)b->state.place.input, (long long)b->inputs.n);
    b->kind = (ls_shard_kind){ls_tokenizer_fingerprint(o->tokenizer), ls_tokenizer_vocabulary(o->tokenizer),
                              form->frame.end, form->kind->learnt || cuts};
    LS_TRY(ls_documents_read(&reading, &sink, &b->state.count));
    if (b->writer != NULL) LS_TRY(finish_shard(b, b->place));
    if (b->state.count.documents > 0) return ls_ok();
    return ls_error(LS_INVALID, "no text in %s: %lld files, %lld records empty, %lld left out", o->paths[0],
                    (long long)b->inputs.n, (long long)b->state.count.empty, (long long)b->state.count.bad);
}

static ls_status build_folder(build *b) {
    const ls_build_options *o = b->options;
    bool done = false;
    if (o->form.too_long != NULL && o->longest == 0)
        return ls_error(LS_USAGE, "--too-long %s needs --longest, which says how many tokens are too long",
                        o->form.too_long);
    LS_TRY(ls_document_form_find(&o->form, o->tokenizer, o->folder, &b->state.form));
    LS_TRY(ls_inputs_find(o->paths, o->n_paths, b->state.form.options.format, &b->inputs));
    b->state.request = ls_build_request(o, &b->state, &b->inputs);
    LS_TRY(ls_file_make_folders(o->out));
    LS_TRY(ls_journal_begin(o, &b->state, &done));
    b->has_journal = true;
    if (done) {
        b->resumed = b->state.n_shards;
        ls_log("%s is complete; nothing is left to do", o->out);
        return ls_ok();
    }
    b->resumed = b->state.n_shards;
    b->resumed_tokens = b->state.count.tokens;
    if (b->resumed > 0) ls_log("resuming after shard %lld", (long long)b->resumed - 1);
    b->place = b->state.place;
    b->progress = ls_progress_start("MiB of text", bytes_before(b, (ls_place){b->inputs.n, 0, 1}) >> 20);
    const ls_status status = read_documents(b);
    if (status.code == LS_OK) show_progress(b, true);
    ls_progress_end(&b->progress);
    LS_TRY(status);
    return ls_journal_end(o, &b->state, &b->inputs);
}

static void log_table(const build *b) {
    char longer[100];
    snprintf(longer, sizeof longer, "documents of more than %lld tokens: %s", (long long)b->options->longest,
             b->state.form.too_long == LS_TOO_LONG_SPLIT ? "kept (split)" : ls_too_long_name(b->state.form.too_long));
    ls_document_counts_log(&b->state.count);
    ls_left_out_log(&b->state.count, longer);
}

static void describe(const build *b, ls_build_summary *out) {
    const ls_build_state *s = &b->state;
    *out = (ls_build_summary){.inputs = b->inputs.n,
                              .input_bytes = bytes_before(b, (ls_place){b->inputs.n, 0, 1}),
                              .documents = s->count.documents,
                              .tokens = s->count.tokens,
                              .longest = s->count.longest,
                              .learnt = s->count.learnt,
                              .left_out = s->count.left_out,
                              .empty = s->count.empty,
                              .bad = s->count.bad,
                              .shards = s->n_shards,
                              .resumed = b->resumed,
                              .seconds = ls_seconds() - b->start};
    ls_frame_text(b->options->tokenizer, s->form.frame.begin, s->form.frame.n_begin, out->begin, sizeof out->begin);
    ls_frame_text(b->options->tokenizer, &s->form.frame.end, 1, out->end, sizeof out->end);
}

ls_status ls_shards_build(const ls_build_options *options, ls_build_summary *out) {
    build b = {.options = options, .start = ls_seconds()};
    const ls_status status = build_folder(&b);
    if (status.code == LS_OK) {
        describe(&b, out);
        log_table(&b);
    }
    ls_shard_abandon(b.writer);
    if (status.code != LS_OK && b.has_journal && b.state.n_shards == 0) {
        const ls_status dropped = ls_journal_drop(options);
        if (dropped.code != LS_OK) ls_log("%s", dropped.text); /* the error of the build matters more */
    }
    ls_inputs_free(&b.inputs);
    ls_document_form_free(&b.state.form);
    free(b.state.shards);
    return status;
}
