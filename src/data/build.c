/* Text to shards: batches are read one after the other, encoded by all threads, and written in their order. */
#include "data/build_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DOCUMENTS = 1 << 22 }; /* of a shard: its index is in memory while it is written */
#define SECONDS_BETWEEN_LINES 2.0
enum { MOST_TOLD = 5 }; /* records that are left out are named, the first few */

typedef struct build {
    const ls_build_options *options;
    ls_input_list inputs;
    ls_shard_kind kind;
    ls_build_state state;
    ls_source *source;
    ls_record_encoder *encoder;
    ls_shard_writer *writer; /* NULL: the next document begins a shard */
    ls_pool *pool;
    bool in_document;
    int64_t resumed, told;
    ls_progress progress;
    double began, said;
    int64_t began_tokens;
} build;

/* --- documents -------------------------------------------------------------------------------------------------------------- */

static ls_status finish_shard(build *b, ls_place next) {
    ls_shard_header header;
    ls_shard_writer *writer = b->writer;
    b->writer = NULL;
    b->state.place = next;
    LS_TRY(ls_shard_finish(writer, &header));
    b->state.longest = ls_max(b->state.longest, (int64_t)header.longest);
    return ls_journal_add(b->options, &b->state, &header);
}

/* What stands before its text is a label to be learnt where all is. */
static ls_status begin_document(build *b, bool learnt) {
    const ls_frame *frame = &b->state.frame;
    uint8_t marks[LS_FRAME_MOST];
    memset(marks, learnt, sizeof marks);
    LS_TRY(ls_shard_append(b->writer, frame->begin, marks, frame->n_begin));
    b->in_document = true;
    b->state.tokens += frame->n_begin;
    return ls_ok();
}

static ls_status end_document(build *b, bool learnt, ls_place next) {
    LS_TRY(ls_shard_end_document(b->writer, learnt));
    b->in_document = false;
    b->state.tokens += b->state.frame.end >= 0;
    b->state.documents++;
    const ls_shard_header *so_far = ls_shard_so_far(b->writer);
    if ((int64_t)so_far->tokens < b->options->shard_tokens && so_far->documents < MOST_DOCUMENTS)
        return ls_ok();
    return finish_shard(b, next);
}

static ls_status leave_out(build *b, const ls_record *record) {
    const ls_status why = ls_records_explain(b->encoder, record);
    if (!b->options->skip_bad) return why;
    if (b->told++ < MOST_TOLD) ls_log("left out: %s", why.text);
    b->state.bad++;
    return ls_ok();
}

/* next: where the record behind this one begins. */
static ls_status add(build *b, const ls_record *record, const ls_encoded *encoded, ls_place next) {
    if (encoded->bad) {
        LS_TRY(leave_out(b, record));
        return b->in_document && record->last ? end_document(b, true, next)
                                              : ls_ok(); /* without its last part */
    }
    if (encoded->n == 0 && record->last && !b->in_document) {
        b->state.empty++;
        return ls_ok();
    }
    if (b->writer == NULL) {
        char path[LS_FILE_PATH];
        LS_TRY(ls_build_shard_path(b->options, b->state.n_shards, path));
        LS_TRY(ls_shard_create(path, &b->kind, &b->writer));
    }
    if (!b->in_document) LS_TRY(begin_document(b, encoded->learnt == NULL));
    LS_TRY(ls_shard_append(b->writer, encoded->ids, encoded->learnt, encoded->n));
    b->state.tokens += encoded->n;
    return record->last ? end_document(b, encoded->end_learnt, next) : ls_ok();
}

/* --- progress --------------------------------------------------------------------------------------------------------------- */

/* Of the inputs before a place, and of that one as far as it was read where its size tells. */
static int64_t bytes_before(const build *b, ls_place place) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < ls_min(place.input, b->inputs.n); i++) bytes += b->inputs.input[i].bytes;
    if (place.input >= b->inputs.n) return bytes;
    const ls_input *in = &b->inputs.input[place.input];
    return bytes + (in->compressed ? 0 : ls_min(place.offset, in->bytes));
}

static void tell(build *b, bool last) {
    const double now = ls_seconds();
    if (b->progress.total == 0) return; /* over in no time */
    if (!last && now - b->said < (b->progress.terminal ? 0.1 : SECONDS_BETWEEN_LINES)) return;
    b->said = now;
    char note[120];
    snprintf(note, sizeof note, "%.2f M tokens · %.2f M tokens/s", (double)b->state.tokens / 1e6,
             (double)(b->state.tokens - b->began_tokens) / 1e6 / (now - b->began + 1e-9));
    ls_progress_show(&b->progress, bytes_before(b, ls_source_place(b->source)) >> 20, note);
}

/* --- the whole -------------------------------------------------------------------------------------------------------------- */

static ls_status run(build *b) {
    const ls_record *records;
    size_t n;
    for (;;) {
        LS_TRY(ls_source_next(b->source, &records, &n));
        if (n == 0) break;
        LS_TRY(ls_records_run(b->encoder, records, n));
        for (size_t i = 0; i < n; i++) {
            const ls_encoded encoded = ls_records_result(b->encoder, i);
            const ls_place next = i + 1 < n ? records[i + 1].at : ls_source_place(b->source);
            LS_TRY(add(b, &records[i], &encoded, next));
        }
        tell(b, false);
    }
    if (b->writer != NULL) LS_TRY(finish_shard(b, ls_source_place(b->source)));
    if (b->state.documents > 0) return ls_ok();
    return ls_error(LS_INVALID, "no text in %s: %lld files, %lld records empty, %lld left out",
                    b->options->paths[0], (long long)b->inputs.n, (long long)b->state.empty,
                    (long long)b->state.bad);
}

static ls_status open_all(build *b) {
    const ls_build_options *o = b->options;
    const ls_encode_options encode = {
        .tokenizer = o->tokenizer, .field = o->field, .records = o->records, .chat = &b->state.chat};
    const ls_record_kind *kind = NULL;
    LS_TRY(ls_record_kind_find(o->records, &kind));
    b->kind = (ls_shard_kind){ls_tokenizer_fingerprint(o->tokenizer), ls_tokenizer_vocabulary(o->tokenizer),
                              b->state.frame.end, kind->learnt};
    if (o->threads > 1) LS_TRY(ls_pool_create(o->threads, true, &b->pool));
    LS_TRY(ls_records_create(&encode, b->inputs.input, b->pool, &b->encoder));
    if (b->state.place.input > b->inputs.n || b->state.place.line < 1)
        return ls_error(LS_INVALID, "%s/" LS_SHARDS_JOURNAL ": goes on at file %lld of %lld", o->out,
                        (long long)b->state.place.input, (long long)b->inputs.n);
    return ls_source_open(b->inputs.input, b->inputs.n, o->tokenizer, b->state.place, &b->source);
}

/* What stands around a document; a conversation begins with what its template says. */
static ls_status find_form(const ls_build_options *o, ls_build_state *state) {
    const ls_record_kind *kind = NULL;
    const char *begin = o->begin;
    LS_TRY(ls_record_kind_find(o->records, &kind));
    if (kind->chat) {
        LS_TRY(ls_chat_open(o->tokenizer, o->chat, o->folder, o->system, &state->chat));
        state->chat.begins = ls_frame_is_auto(begin);
        if (state->chat.begins && !state->chat.begin_of_folder) begin = "none";
    }
    return ls_frame_find(o->tokenizer, begin, o->end, &state->frame);
}

static ls_status make(build *b) {
    const ls_build_options *o = b->options;
    bool done = false;
    LS_TRY(ls_inputs_find(o->paths, o->n_paths, o->format, &b->inputs));
    LS_TRY(find_form(o, &b->state));
    b->state.request = ls_build_request(o, &b->state, &b->inputs);
    LS_TRY(ls_file_make_directories(o->out));
    LS_TRY(ls_journal_begin(o, &b->state, &done));
    if (done) {
        b->resumed = b->state.n_shards;
        ls_log("%s is complete: nothing is left to do", o->out);
        return ls_ok();
    }
    b->resumed = b->state.n_shards;
    b->began_tokens = b->state.tokens;
    if (b->resumed > 0) ls_log("going on behind shard %lld", (long long)b->resumed - 1);
    LS_TRY(open_all(b));
    b->progress = ls_progress_start("MiB of text", bytes_before(b, (ls_place){b->inputs.n, 0, 1}) >> 20);
    const ls_status status = run(b);
    if (status.code == LS_OK) tell(b, true);
    ls_progress_end(&b->progress);
    LS_TRY(status);
    return ls_journal_end(o, &b->state, &b->inputs);
}

static void describe(const build *b, ls_build_summary *out) {
    const ls_build_state *s = &b->state;
    *out = (ls_build_summary){.inputs = b->inputs.n,
                              .input_bytes = bytes_before(b, (ls_place){b->inputs.n, 0, 1}),
                              .documents = s->documents,
                              .tokens = s->tokens,
                              .longest = s->longest,
                              .empty = s->empty,
                              .bad = s->bad,
                              .shards = s->n_shards,
                              .resumed = b->resumed,
                              .seconds = ls_seconds() - b->began};
    ls_frame_text(b->options->tokenizer, s->frame.begin, s->frame.n_begin, out->begin, sizeof out->begin);
    ls_frame_text(b->options->tokenizer, &s->frame.end, 1, out->end, sizeof out->end);
}

ls_status ls_shards_build(const ls_build_options *options, ls_build_summary *out) {
    build b = {.options = options, .began = ls_seconds()};
    const ls_status status = make(&b);
    if (status.code == LS_OK) describe(&b, out);
    ls_shard_abandon(b.writer);
    ls_source_close(b.source);
    ls_records_destroy(b.encoder);
    ls_pool_destroy(b.pool);
    ls_inputs_free(&b.inputs);
    ls_chat_close(&b.state.chat);
    free(b.state.shards);
    return status;
}
