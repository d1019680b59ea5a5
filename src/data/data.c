/* Training data: opens a corpus, packs it into sequences, and reads sequences in a shuffled order. */
#include "data/data.h"
#include "data/left_out_impl.h"
#include "data/order_impl.h"
#include "data/pack_impl.h"
#include "data/records_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_data {
    ls_corpus corpus;
    const ls_packer *packer;
    ls_packed packed;
    ls_data_summary summary;
    ls_document_counts counts; /* counts of what is kept, and of what was left out when it was read or built */
    ls_document_counts longer; /* counts of what is left out because of the length of a sequence */
    int64_t S;
    int32_t vocabulary;
    int32_t filler; /* the id of padding: the end of document, if there is one */
    ls_epoch_order order;
    bool compares, judges; /* kinds of answers that the documents are (find_answers) */
};

/* ---- opening ---- */

/* "a.txt" or "a.txt and 3 more", for errors about all paths. */
static ls_status name_paths(const ls_data_options *options, char **out) {
    const int more = options->n_paths - 1;
    return more > 0 ? ls_path_print(out, "%s and %d more", options->paths[0], more)
                    : ls_path_print(out, "%s", options->paths[0]);
}

static ls_status check_text(const ls_data_options *options, const ls_data *data, const ls_texts *texts) {
    LS_PATH names = NULL;
    LS_TRY(name_paths(options, &names));
    if (data->corpus.documents > 0) return ls_ok();
    return ls_error(LS_INVALID, "no text in %s: %lld files, of which %lld are empty and %lld binary", names,
                    (long long)texts->files, (long long)texts->empty, (long long)texts->binary);
}

static ls_status check_sequences(const ls_data_options *options, const ls_data *data) {
    LS_PATH names = NULL;
    LS_TRY(name_paths(options, &names));
    if (data->packed.sequences > 0) return ls_ok();
    return ls_error(LS_INVALID, "%s: %lld tokens in %lld documents, but a sequence of %lld needs at least %lld tokens",
                    names, (long long)data->corpus.tokens, (long long)data->corpus.documents,
                    (long long)options->sequence, (long long)(data->packer->apart ? 2 : options->sequence + 1));
}

static ls_status check_options(const ls_data_options *options) {
    if (options->n_paths < 1) return ls_error(LS_INVALID, "no data given, expected files or folders of text");
    if (options->sequence < 1 || options->sequence >= INT64_MAX / 8)
        return ls_error(LS_INVALID, "sequence length is %lld, expected at least 1", (long long)options->sequence);
    return ls_ok();
}

static ls_status open_shards(const ls_data_options *options, ls_data *data) {
    for (int i = 0; i < options->n_paths; i++) {
        if (!ls_is_shards(options->paths[i]))
            return ls_error(LS_INVALID, "%s holds token shards, and %s text; expected one or the other",
                            options->paths[0], options->paths[i]);
        LS_TRY(ls_shard_set_add(&data->corpus.shards, options->paths[i]));
    }
    LS_TRY(ls_shard_set_check(&data->corpus.shards, ls_tokenizer_fingerprint(options->tokenizer),
                              ls_tokenizer_name(options->tokenizer), data->vocabulary));
    if (options->verify)
        LS_TRY(ls_shard_set_verify(&data->corpus.shards, options->process, ls_max(1, options->processes)));
    const ls_shard_set *set = &data->corpus.shards;
    data->summary.shards = set->n;
    data->counts = (ls_document_counts){.empty = set->empty, .bad = set->bad, .left_out = set->left_out};
    return ls_corpus_complete(&data->corpus, data->vocabulary);
}

/* Finds out whether documents are pairs of answers, or of a judged answer and another one. Shards hold neither. */
static ls_status find_answers(const ls_data_options *options, ls_data *data) {
    const ls_record_kind *kind;
    LS_TRY(ls_record_kind_find(options->form.records != NULL ? options->form.records : "text", &kind));
    data->compares = kind->compares && !ls_is_shards(options->paths[0]);
    data->judges = kind->judges && data->compares;
    return ls_ok();
}

static ls_status open_texts(const ls_data_options *options, ls_data *data) {
    ls_texts texts = {0};
    for (int i = 0; i < options->n_paths; i++)
        if (ls_is_shards(options->paths[i]))
            return ls_error(LS_INVALID, "%s holds text, and %s token shards; expected one or the other",
                            options->paths[0], options->paths[i]);
    data->corpus.store = ls_store_empty(data->vocabulary);
    const ls_texts_options reading = {.paths = options->paths,
                                      .n_paths = options->n_paths,
                                      .tokenizer = options->tokenizer,
                                      .folder = options->folder,
                                      .form = &options->form};
    LS_TRY(ls_texts_read(&reading, &data->corpus, &texts));
    LS_TRY(check_text(options, data, &texts));
    if (data->judges) LS_TRY(ls_corpus_mismatch(&data->corpus));
    if (data->compares && options->scored) LS_TRY(ls_corpus_score(&data->corpus, options->pad, data->filler));
    if (data->compares && !data->judges && options->imitated) LS_TRY(ls_corpus_imitate(&data->corpus));
    data->counts = (ls_document_counts){
        .binary = texts.binary, .empty = texts.empty, .bad = texts.bad, .left_out = texts.left_out};
    return ls_corpus_complete(&data->corpus, data->vocabulary);
}

/* Whether some tokens are learnt and others not. */
static bool is_partly_learnt(const ls_corpus *corpus) {
    for (int64_t p = 0; p < corpus->n_parts; p++)
        if (corpus->parts[p].learnt != NULL) return true;
    return false;
}

/* A document may have one token more than a sequence has inputs: its last label. */
static ls_status limit_documents(const ls_data_options *options, ls_data *data) {
    ls_too_long too_long;
    ls_left_out longer = {0};
    LS_TRY(ls_too_long_find(options->form.too_long, is_partly_learnt(&data->corpus), &too_long));
    ls_corpus_limit(&data->corpus, options->sequence + 1, too_long, &longer);
    data->counts.documents = data->corpus.documents - longer.unlearnt;
    data->counts.tokens = data->corpus.tokens - longer.tokens;
    data->counts.learnt = ls_corpus_learnt(&data->corpus);
    /* Splitting a text into windows leaves nothing out. */
    if (too_long != LS_TOO_LONG_SPLIT || is_partly_learnt(&data->corpus)) data->longer.left_out = longer;
    return ls_ok();
}

/* For pairs, which are either whole in a sequence or left out. */
static void count_documents(ls_data *data) {
    data->counts.documents = data->corpus.documents;
    data->counts.tokens = data->corpus.tokens;
    data->counts.learnt = ls_corpus_learnt(&data->corpus);
}

/*
 * The work of attention for each sequence of an epoch, in the packer's order: the sum of the squared lengths of its
 * passages and of its padding. The caller frees *out.
 */
static ls_status find_work(const ls_data *data, int64_t **out) {
    const int64_t n = data->packed.sequences, S = data->S;
    ls_passage *passages = malloc((size_t)(S + 1) * sizeof *passages);
    int64_t *work = malloc((size_t)n * sizeof *work);
    for (int64_t i = 0; i < n && passages != NULL && work != NULL; i++) {
        const int64_t some = data->packer->passages(&data->packed, &data->corpus, S, i, passages);
        int64_t room = S, sum = 0;
        for (int64_t k = 0; k < some; k++) {
            sum += passages[k].length * passages[k].length;
            room -= passages[k].length;
        }
        work[i] = sum + room * room;
    }
    const bool made = passages != NULL && work != NULL;
    free(passages);
    if (!made) free(work);
    if (!made) return ls_error(LS_NO_MEMORY, "no memory for the lengths in %lld sequences", (long long)n);
    *out = work;
    return ls_ok();
}

static ls_status find_order(const ls_data_options *options, ls_data *data) {
    int64_t *work = NULL;
    data->order = (ls_epoch_order){.n = data->packed.sequences, .shuffle = options->shuffle, .seed = options->seed};
    if (options->group == 0) return ls_ok();
    if (!data->packer->apart)
        return ls_error(LS_USAGE,
                        "--group-by-length with --pack %s, whose sequences are all full and one document each; "
                        "expected best, stream or pairs",
                        data->packer->name);
    LS_TRY(find_work(data, &work));
    const ls_status status = ls_order_group(&data->order, options->group, work);
    free(work);
    return status;
}

static ls_status open_corpus(const ls_data_options *options, ls_data *data) {
    LS_TRY(find_answers(options, data));
    LS_TRY(ls_is_shards(options->paths[0]) ? open_shards(options, data) : open_texts(options, data));
    LS_TRY(ls_packer_find(options->pack, is_partly_learnt(&data->corpus), data->compares, &data->packer));
    if (data->packer->pairs)
        count_documents(data);
    else
        LS_TRY(limit_documents(options, data));
    LS_TRY(data->packer->create(&data->corpus, options->sequence, &data->packed));
    LS_TRY(check_sequences(options, data));
    LS_TRY(find_order(options, data));
    ls_data_summary *s = &data->summary;
    s->binary_files = data->counts.binary;
    s->empty = data->counts.empty;
    s->bad = data->counts.bad;
    s->documents = data->corpus.documents;
    s->tokens = data->corpus.tokens;
    s->longest_document = data->corpus.longest;
    s->windows = data->packed.sequences;
    s->whole_windows = data->packed.whole;
    s->padding = data->packed.padding;
    return ls_ok();
}

ls_status ls_data_open(const ls_data_options *options, ls_data **out) {
    LS_TRY(check_options(options));
    double started = ls_seconds();
    ls_data *data = calloc(1, sizeof *data);
    if (!data) return ls_error(LS_NO_MEMORY, "no memory for the training data");
    data->vocabulary = ls_tokenizer_vocabulary(options->tokenizer);
    data->filler = ls_max(0, ls_tokenizer_end_of_document(options->tokenizer));
    data->S = options->sequence;
    const ls_status status = open_corpus(options, data);
    if (status.code != LS_OK) {
        ls_data_close(data);
        return status;
    }
    data->summary.seconds = ls_seconds() - started;
    *out = data;
    return status;
}

void ls_data_close(ls_data *data) {
    if (!data) return;
    if (data->packer != NULL && data->packer->destroy != NULL && data->packed.state != NULL)
        data->packer->destroy(data->packed.state);
    ls_order_free(&data->order);
    ls_corpus_free(&data->corpus);
    free(data);
}

const ls_data_summary *ls_data_summarise(const ls_data *data) { return &data->summary; }
const char *ls_data_pack(const ls_data *data) { return data->packer->name; }
bool ls_data_apart(const ls_data *data) { return data->packer->apart; }
bool ls_data_pairs(const ls_data *data) { return data->packer->pairs; }
bool ls_data_judges(const ls_data *data) { return data->judges; }

int ls_data_teacher(const ls_data *data, double *temperature) {
    if (temperature != NULL) *temperature = data->corpus.teacher.temperature;
    return data->corpus.teacher.k;
}

ls_status ls_data_balance(const ls_data *data, int64_t micro_batches, int replicas, double *grouped, double *shuffled) {
    const ls_epoch_order by_chance = {.n = data->order.n, .shuffle = true, .seed = data->order.seed};
    const ls_step_parts parts = {data->order.batch, micro_batches, replicas};
    int64_t *work = NULL;
    LS_TRY(find_work(data, &work));
    *grouped = ls_order_balance(&data->order, work, &parts);
    *shuffled = ls_order_balance(&by_chance, work, &parts);
    free(work);
    return ls_ok();
}

void ls_data_log_packing(const ls_data *data) {
    const ls_data_summary *d = &data->summary;
    if (!data->packer->apart) return;
    ls_log("packed (%s): documents do not see each other; %.2f %% of the places are empty", data->packer->name,
           100.0 * (double)d->padding / ((double)d->windows * (double)data->S));
}

/* Counts the sequences of an epoch in which no label is learnt. */
static ls_status count_idle(const ls_data *data, int64_t *out) {
    const ls_corpus *c = &data->corpus;
    ls_passage *passages = malloc((size_t)(data->S + 1) * sizeof *passages);
    if (passages == NULL) return ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)data->S);
    *out = 0;
    for (int64_t i = 0; i < data->packed.sequences; i++) {
        bool learns = false;
        const int64_t n = data->packer->passages(&data->packed, c, data->S, i, passages);
        /*
         * The first token of a joined sequence is not a label; nor is that of a passage if documents do not see each
         * other.
         */
        for (int64_t k = 0; k < n && !learns; k++) {
            const bool first = data->packer->apart || k == 0;
            const int64_t labels = passages[k].length - (data->packer->apart ? 0 : first);
            learns = ls_corpus_learns(c, passages[k].start + first, labels);
        }
        *out += !learns;
    }
    free(passages);
    return ls_ok();
}

void ls_data_log_left_out(const ls_data *data) {
    char longer[100];
    int64_t idle = 0;
    snprintf(longer, sizeof longer, "documents of more than %lld tokens: %s", (long long)data->S + 1,
             ls_too_long_name(data->corpus.too_long));
    ls_left_out_log(&data->counts, "documents that were too long when the shards were built (--longest)");
    ls_left_out_log(&data->longer, longer);
    if (data->packed.left_out > 0)
        ls_log("  %12lld  documents in pairs that are longer than a sequence of %lld: left out",
               (long long)data->packed.left_out, (long long)data->S);
    if (!is_partly_learnt(&data->corpus)) return;
    const ls_status status = count_idle(data, &idle);
    if (status.code != LS_OK)
        ls_log("sequences without anything to learn are not counted: %s", status.text);
    else if (idle > 0)
        ls_log("  %12lld  of %lld sequences have nothing to learn", (long long)idle, (long long)data->packed.sequences);
}

void ls_data_log_table(const ls_data *data) {
    ls_document_counts_log(&data->counts);
    ls_data_log_left_out(data);
}

/* ---- sequences ---- */

/* A sequence that is being read, from its first input on. */
typedef struct reading {
    const ls_data *data;
    ls_passage *passages; /* of the sequence, in order */
    int64_t n;
    int64_t k, place; /* the passage that was looked at last (n: after all of them), and the place where it begins */
    int32_t *ids;     /* [S + 1]: room for some of the tokens */
    uint8_t *learnt;  /* [S + 1] */
    ls_sample *out;
    int64_t written; /* number of inputs that were written to *out */
} reading;

static void reading_end(const reading *r) {
    free(r->passages);
    free(r->ids);
    free(r->learnt);
}

/*
 * Finds the passages of a sequence, and allocates room for their tokens. out may be NULL. reading_end must be called
 * also after a failure.
 */
static ls_status reading_begin(const ls_data *data, int64_t index, ls_sample *out, reading *r) {
    const size_t room = (size_t)data->S + 1;
    *r = (reading){.data = data,
                   .passages = malloc(room * sizeof *r->passages),
                   .ids = malloc(room * sizeof *r->ids),
                   .learnt = malloc(room),
                   .out = out};
    if (r->passages == NULL || r->ids == NULL || r->learnt == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a sequence of %lld tokens", (long long)data->S);
    r->n =
        data->packer->passages(&data->packed, &data->corpus, data->S, ls_order_place(&data->order, index), r->passages);
    return ls_ok();
}

/* The passage at place `at`, which does not decrease from call to call; NULL: `at` is after all passages. */
static const ls_passage *passage_at(reading *r, int64_t at) {
    for (; r->k < r->n && at >= r->place + r->passages[r->k].length; r->k++) r->place += r->passages[r->k].length;
    return r->k < r->n ? &r->passages[r->k] : NULL;
}

/* Reads n tokens of the corpus to ids + to. */
static ls_status read_tokens(const reading *r, int64_t start, int64_t n, int64_t to) {
    if (r->out->tokens == NULL) return ls_ok();
    return ls_corpus_read(&r->data->corpus, start, n, r->ids + to, r->learnt + to, &r->out->bytes);
}

/*
 * Writes the next `count` inputs: their tokens are ids[0, count), their labels the ids after these, and their positions
 * begin with `position`.
 */
static void write_inputs(reading *r, int64_t count, int64_t position) {
    const ls_sample *out = r->out;
    for (int64_t i = 0; i < count && out->tokens != NULL; i++) {
        out->tokens[r->written + i] = r->ids[i];
        out->labels[r->written + i] = r->learnt[i + 1] ? r->ids[i + 1] : LS_LABEL_IGNORED;
    }
    for (int64_t i = 0; i < count && out->positions != NULL; i++)
        out->positions[r->written + i] = (int32_t)(position + i);
    r->written += count;
}

/* Reads a teacher's words for n tokens (first < 0: none), which are the labels of the inputs from `at` on. */
static void read_words(const reading *r, int64_t first, int64_t n, int64_t at) {
    const int k = r->data->corpus.teacher.k;
    if (r->out->teacher_ids == NULL) return;
    ls_corpus_words(&r->data->corpus, first, n, r->out->teacher_ids + at * k, r->out->teacher_logprobs + at * k);
}

/*
 * Reads inputs from .. from + count - 1 of a sequence whose passages are S + 1 tokens together, the last of which is
 * only a label.
 */
static ls_status read_joined(reading *r, int64_t from, int64_t count) {
    int32_t *seen = r->out->seen != NULL ? r->out->seen + r->written : NULL;
    for (int64_t done = 0, some; done <= count; done += some) {
        const ls_passage *p = passage_at(r, from + done);
        LS_ASSERT(p != NULL);
        const int64_t offset = from + done - r->place;
        some = ls_min(p->length - offset, count + 1 - done);
        LS_TRY(read_tokens(r, p->start + offset, some, done));
        /* A token is the label of the input before it; the first token is not a label. */
        const int64_t first = done == 0;
        read_words(r, p->start + offset + first, some - first, r->written + done + first - 1);
        for (int64_t i = first; i < some && seen != NULL; i++) seen[done + i - 1] = (int32_t)(offset + i);
    }
    write_inputs(r, count, from);
    return ls_ok();
}

/* The same if a passage is inputs whose labels are the tokens one position later; padding follows the last passage. */
static ls_status read_apart(reading *r, int64_t from, int64_t count) {
    for (int64_t done = 0, some; done < count; done += some) {
        const ls_passage *p = passage_at(r, from + done);
        const int64_t offset = from + done - r->place;
        some = p != NULL ? ls_min(p->length - offset, count - done) : count - done;
        if (p != NULL) LS_TRY(read_tokens(r, p->start + offset, some + 1, 0));
        for (int64_t i = 0; i <= some && p == NULL; i++) {
            r->ids[i] = r->data->filler;
            r->learnt[i] = false;
        }
        read_words(r, p != NULL ? p->start + offset + 1 : -1, some, r->written);
        for (int64_t i = 0; i < some && r->out->seen != NULL; i++)
            r->out->seen[r->written + i] = (int32_t)(offset + i + 1);
        write_inputs(r, some, offset);
    }
    return ls_ok();
}

static ls_status read_run(reading *r, const ls_layout_run *run) {
    const int64_t each = run->step == 1 ? run->count : 1;
    for (int64_t i = 0; i < run->count; i += each) {
        const int64_t from = run->first + i * run->step;
        LS_TRY(r->data->packer->apart ? read_apart(r, from, each) : read_joined(r, from, each));
    }
    return ls_ok();
}

/* Writes where documents end. For attention and positions, a joined sequence is one document. */
static void write_ends(const reading *r) {
    const int64_t S = r->data->S;
    ls_sample *out = r->out;
    int64_t end = 0;
    out->n_ends = 0;
    if (out->ends == NULL) return;
    out->ends[out->n_ends++] = 0;
    for (int64_t k = 0; k < r->n && r->data->packer->apart; k++)
        out->ends[out->n_ends++] = (int32_t)(end += r->passages[k].length);
    if (end < S) out->ends[out->n_ends++] = (int32_t)S;
}

ls_status ls_data_read(const ls_data *data, int64_t index, const ls_data_part *part, ls_sample *out) {
    const ls_layout_run all = {0, data->S, 1};
    const ls_data_part whole = {&all, 1};
    reading r;
    ls_status status = reading_begin(data, index, out, &r);
    if (part == NULL) part = &whole;
    out->bytes = 0;
    if (status.code == LS_OK) write_ends(&r);
    for (int i = 0; i < part->n_runs && status.code == LS_OK; i++) status = read_run(&r, &part->runs[i]);
    reading_end(&r);
    return status;
}

void ls_sample_take(const ls_sample *whole, int64_t S, const ls_data_part *part, ls_sample *out) {
    int64_t n = 0;
    for (int r = 0; r < part->n_runs; r++) {
        for (int64_t i = 0; i < part->runs[r].count; i++, n++) {
            const int64_t at = part->runs[r].first + i * part->runs[r].step;
            const int32_t position = whole->positions != NULL ? whole->positions[at] : (int32_t)at;
            if (out->tokens != NULL) out->tokens[n] = whole->tokens[at];
            if (out->labels != NULL) out->labels[n] = whole->labels[at];
            if (out->positions != NULL) out->positions[n] = position;
            if (out->seen != NULL) out->seen[n] = position + 1;
        }
    }
    out->bytes = 0;
    out->n_ends = 0;
    if (out->ends == NULL) return;
    const int32_t one[] = {0, (int32_t)S};
    out->n_ends = whole->positions != NULL ? whole->n_ends : 2;
    memcpy(out->ends, whole->positions != NULL ? whole->ends : one, sizeof *one * (size_t)out->n_ends);
}

void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out) {
    reading r;
    LS_ASSERT(!data->packer->apart);
    if (reading_begin(data, index, NULL, &r).code != LS_OK)
        ls_panic(__FILE__, __LINE__, "no memory for a sequence of %lld tokens", (long long)data->S);
    int64_t filled = 0;
    for (int64_t k = 0; k < r.n; filled += r.passages[k++].length) {
        const ls_passage *p = &r.passages[k];
        if (ls_corpus_read(&data->corpus, p->start, p->length, out + filled, NULL, NULL).code == LS_OK) continue;
        for (int64_t i = filled; i < filled + p->length; i++)
            if (out[i] < 0 || out[i] >= data->vocabulary) out[i] = data->filler;
    }
    reading_end(&r);
}

ls_status ls_data_pieces(const ls_data *data, int64_t index, ls_data_piece *out, int64_t *pieces) {
    reading r;
    const ls_status status = reading_begin(data, index, NULL, &r);
    int64_t place = 0, n = 0;
    for (int64_t k = 0; k < r.n && place < data->S; k++) { /* r.n is 0 after a failure */
        int64_t start;
        const int64_t length = ls_min(r.passages[k].length, data->S - place); /* the last token is only a label */
        const int64_t document = ls_corpus_document(&data->corpus, r.passages[k].start, &start);
        out[n++] = (ls_data_piece){place, document, r.passages[k].start - start, length};
        place += length;
    }
    reading_end(&r);
    if (status.code == LS_OK) *pieces = n;
    return status;
}

ls_status ls_data_answers(const ls_data *data, int64_t index, uint8_t *out) {
    reading r;
    const ls_corpus *c = &data->corpus;
    /* marks of the store, which is the only part */
    const uint64_t *marks = c->answers != NULL ? c->answers : c->learnt;
    const ls_status status = reading_begin(data, index, NULL, &r);
    LS_ASSERT(data->packer->pairs);
    memset(out, 0, (size_t)data->S);
    for (int64_t k = 0; k < r.n; out += r.passages[k++].length) /* r.n is 0 after a failure */
        for (int64_t i = 0; i < r.passages[k].length; i++) out[i] = ls_mark_at(marks, r.passages[k].start + i + 1);
    reading_end(&r);
    return status;
}

double ls_data_margin(const ls_data *data, int64_t document) {
    const ls_corpus *c = &data->corpus;
    const bool has = document / 2 < c->n_margins && !isnan(c->margins[document / 2]);
    return has ? (double)c->margins[document / 2] : 0;
}

int64_t ls_data_margins(const ls_data *data) {
    const ls_corpus *c = &data->corpus;
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_margins; i++) n += !isnan(c->margins[i]);
    return n;
}

ls_status ls_data_wanted(const ls_data *data, int64_t document, bool *out) {
    const ls_document found = ls_corpus_nth(&data->corpus, document);
    int32_t id;
    uint8_t marked;
    LS_TRY(ls_corpus_read(&data->corpus, found.start, 1, &id, &marked, NULL));
    *out = marked;
    return ls_ok();
}

/* ---- what identifies data ---- */

/* A bijection in which each bit affects all bits: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t ls_data_hash(int64_t first, const ls_data_part *part, const int32_t *tokens, const int32_t *labels) {
    uint64_t sum = 0;
    for (int r = 0; r < part->n_runs; r++) {
        const ls_layout_run *run = &part->runs[r];
        for (int64_t i = 0; i < run->count; i++) {
            const uint64_t ids = (uint64_t)(uint32_t)*tokens++ << 32 | (uint32_t)*labels++;
            sum += mix(mix((uint64_t)(first + run->first + i * run->step)) ^ ids);
        }
    }
    return sum;
}

uint64_t ls_data_content(const ls_data *data) {
    const ls_corpus *c = &data->corpus;
    uint64_t content = 0;
    for (int64_t i = 0; i < c->shards.n; i++) {
        const uint64_t parts[] = {content, c->shards.shard[i].header->checksum};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    for (int64_t i = 0; i < c->n_parts && c->shards.n == 0; i++) {
        const ls_corpus_part *p = &c->parts[i];
        const size_t marks = p->learnt != NULL ? (size_t)ls_ceil_div(p->count, 64) * sizeof *p->learnt : 0;
        const uint64_t parts[] = {content, ls_hash_bytes(p->tokens, (size_t)p->count * (size_t)p->width),
                                  ls_hash_bytes(p->ends, (size_t)p->documents * sizeof *p->ends),
                                  ls_hash_bytes(p->learnt, marks)};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    const ls_teacher_words *t = &c->teacher;
    if (t->k > 0) {
        const uint64_t parts[] = {content, (uint64_t)t->k, ls_hash_bytes(&t->temperature, sizeof t->temperature),
                                  ls_hash_bytes(t->ids, (size_t)t->n * sizeof *t->ids),
                                  ls_hash_bytes(t->logprobs, (size_t)t->n * sizeof *t->logprobs)};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    if (c->n_margins == 0) return content;
    const uint64_t margins[] = {content, ls_hash_bytes(c->margins, (size_t)c->n_margins * sizeof *c->margins)};
    return ls_hash_bytes(margins, sizeof margins);
}

double ls_data_unigram_nats(const ls_data *data) {
    int64_t *counts = calloc((size_t)data->vocabulary, sizeof *counts);
    if (!counts) ls_panic(__FILE__, __LINE__, "no memory for the counts of %d tokens", data->vocabulary);
    ls_corpus_count(&data->corpus, counts);
    double nats = 0, total = (double)data->corpus.tokens;
    for (int32_t id = 0; id < data->vocabulary; id++) {
        if (counts[id] == 0) continue;
        double share = (double)counts[id] / total;
        nats -= share * log(share);
    }
    free(counts);
    return nats;
}
