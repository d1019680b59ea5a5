/*
 * Records the progress of a build: build.jsonl while it runs, shards.json when it is done. A line of the journal holds
 * the request, the state of the build after a shard, and the shard's checksum. The first line is written before the
 * first shard.
 */
#include "data/build_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Field i of the state with its name, without the fields of left_out; NULL past the last one. */
static int64_t *count_field(ls_build_state *s, size_t i, const char **name) {
    const struct {
        const char *name;
        int64_t *at;
    } fields[] = {{"input", &s->place.input},         {"offset", &s->place.offset}, {"line", &s->place.line},
                  {"documents", &s->count.documents}, {"tokens", &s->count.tokens}, {"longest", &s->count.longest},
                  {"learnt", &s->count.learnt},       {"empty", &s->count.empty},   {"bad", &s->count.bad}};
    if (i >= LS_COUNT(fields)) return NULL;
    *name = fields[i].name;
    return fields[i].at;
}

static void put_left_out(ls_json_writer *w, const ls_left_out *left_out) {
    ls_left_out copy = *left_out;
    const char *name;
    const int64_t *field;
    for (size_t i = 0; (field = ls_left_out_field(&copy, i, &name)) != NULL; i++) ls_json_put_int(w, name, *field);
}

/* Older versions do not have all of these counts. */
static ls_status read_left_out(ls_json_value object, ls_left_out *out) {
    const char *name;
    int64_t *field;
    for (size_t i = 0; (field = ls_left_out_field(out, i, &name)) != NULL; i++)
        LS_TRY(ls_json_int_or(object, name, 0, 0, INT64_MAX / 2, field)); /* / 2: more is added later */
    return ls_ok();
}

/* ---- the request: a hash of everything that the shards depend on ---- */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const uint64_t pair[2] = {hash, ls_hash_bytes(data, bytes)};
    return ls_hash_bytes(pair, sizeof pair);
}

static uint64_t mix_text(uint64_t hash, const char *text) { return mix(hash, text, strlen(text)); }

uint64_t ls_build_request(const ls_build_options *o, const ls_build_state *s, const ls_input_list *inputs) {
    const ls_frame *frame = &s->form.frame;
    const uint64_t numbers[] = {ls_tokenizer_fingerprint(o->tokenizer),
                                (uint64_t)ls_tokenizer_vocabulary(o->tokenizer),
                                (uint64_t)frame->end,
                                (uint64_t)o->shard_tokens,
                                (uint64_t)inputs->n,
                                (uint64_t)o->longest,
                                (uint64_t)s->form.too_long};
    uint64_t hash = mix(0, numbers, sizeof numbers);
    hash = mix(hash, frame->begin, (size_t)frame->n_begin * sizeof *frame->begin);
    hash = mix_text(mix_text(hash, s->form.options.field), s->form.options.records);
    hash = mix_text(hash, s->form.options.encoding);
    if (s->form.chat.jinja != NULL) hash = mix(hash, &s->form.chat.hash, sizeof s->form.chat.hash);
    if (s->form.chat.system != NULL) hash = mix_text(hash, s->form.chat.system);
    for (int64_t i = 0; i < inputs->n; i++) {
        const ls_input *in = &inputs->input[i];
        const int64_t facts[] = {in->bytes, in->changed, in->kind, in->compressed};
        hash = mix(mix_text(hash, in->path), facts, sizeof facts);
    }
    return hash;
}

ls_status ls_build_path(const ls_build_options *o, const char *name, char **out) {
    return ls_path_join(o->out, name, out);
}

ls_status ls_build_shard_path(const ls_build_options *o, int64_t shard, char **out) {
    char name[64];
    snprintf(name, sizeof name, "shard-%06lld" LS_SHARD_SUFFIX, (long long)shard);
    return ls_build_path(o, name, out);
}

static ls_status get_hex(ls_json_value object, const char *key, uint64_t *out) {
    const char *text;
    LS_TRY(ls_json_text(object, key, &text));
    *out = strtoull(text, NULL, 16);
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return ls_json_error(ls_json_field(object, key), "16 hexadecimal digits");
    return ls_ok();
}

/* ---- the journal ---- */

static ls_status add_shard(ls_build_state *s, ls_built_shard shard) {
    if (s->n_shards == s->shard_capacity) {
        const int64_t wanted = 2 * s->shard_capacity + 64;
        ls_built_shard *grown = realloc(s->shards, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for a list of %lld shards", (long long)wanted);
        s->shards = grown;
        s->shard_capacity = wanted;
    }
    s->shards[s->n_shards++] = shard;
    return ls_ok();
}

static ls_status append_line(const ls_build_options *o, ls_build_state *s) {
    LS_PATH path = NULL;
    LS_TRY(ls_build_path(o, LS_SHARDS_JOURNAL, &path));
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "shard", s->n_shards - 1);
    ls_json_put_hex(w, "request", s->request);
    if (s->n_shards > 0) ls_json_put_hex(w, "checksum", s->shards[s->n_shards - 1].checksum);
    const char *name;
    const int64_t *field;
    for (size_t i = 0; (field = count_field(s, i, &name)) != NULL; i++) ls_json_put_int(w, name, *field);
    put_left_out(w, &s->count.left_out);
    return ls_jsonl_append(path, w); /* not synced: a shard whose line is lost is built again */
}

ls_status ls_journal_add(const ls_build_options *o, ls_build_state *s, const ls_shard_header *shard) {
    LS_TRY(add_shard(s, (ls_built_shard){shard->checksum, (int64_t)shard->tokens, (int64_t)shard->documents}));
    return append_line(o, s);
}

/* Checks that the shard exists with the checksum of the line. */
static ls_status check_shard(const ls_build_options *o, int64_t i, uint64_t checksum, ls_built_shard *out) {
    LS_PATH path = NULL;
    ls_shard shard;
    LS_TRY(ls_build_shard_path(o, i, &path));
    LS_TRY(ls_shard_open(path, &shard));
    const ls_shard_header h = *shard.header;
    ls_shard_close(&shard);
    if (h.checksum != checksum)
        return ls_error(LS_INVALID, "%s: checksum is %016" PRIx64 ", but the journal beside it says %016" PRIx64, path,
                        h.checksum, checksum);
    *out = (ls_built_shard){h.checksum, (int64_t)h.tokens, (int64_t)h.documents};
    return ls_ok();
}

static ls_status request_error(const ls_build_options *o, const char *what) {
    return ls_error(LS_USAGE, "%s holds %s of other files, options or tokenizer than given now; use another --out",
                    o->out, what);
}

/* Checks that the totals of a line are the sums over the shards so far. */
static ls_status check_totals(ls_json_value line, const ls_build_state *s) {
    int64_t documents = 0, tokens = 0, value;
    for (int64_t i = 0; i < s->n_shards; i++) {
        documents += s->shards[i].documents;
        tokens += s->shards[i].tokens;
    }
    LS_TRY(ls_json_int(line, "documents", documents, documents, &value));
    return ls_json_int(line, "tokens", tokens, tokens, &value);
}

static ls_status read_line(const ls_build_options *o, ls_json_value line, ls_build_state *s) {
    int64_t shard;
    uint64_t request, checksum;
    ls_built_shard built;
    const int64_t expected = s->place.line == 0 ? -1 : s->n_shards; /* the first line does not concern a shard */
    LS_TRY(ls_json_int(line, "shard", expected, expected, &shard));
    LS_TRY(get_hex(line, "request", &request));
    if (request != s->request) return request_error(o, "an unfinished build");
    const char *name;
    int64_t *field;
    for (size_t i = 0; (field = count_field(s, i, &name)) != NULL; i++)
        LS_TRY(ls_json_int(line, name, 0, INT64_MAX / 2, field)); /* / 2: more is added later */
    LS_TRY(read_left_out(line, &s->count.left_out));
    if (shard < 0) return check_totals(line, s);
    LS_TRY(get_hex(line, "checksum", &checksum));
    LS_TRY(check_shard(o, shard, checksum, &built));
    LS_TRY(add_shard(s, built));
    return check_totals(line, s);
}

/*
 * Reads lines up to the first that a loss of power has damaged. *whole: bytes before that line, or of the whole text.
 */
static ls_status read_lines(const ls_build_options *o, const char *path, const char *text, size_t bytes,
                            ls_build_state *s, size_t *whole) {
    const char *end, *last = text + bytes;
    int64_t number = 1;
    for (const char *at = text; at < last; at = end + 1, number++) {
        LS_PATH name = NULL;
        ls_json *line = NULL;
        *whole = (size_t)(at - text);
        end = memchr(at, '\n', (size_t)(last - at));
        if (end == NULL) return ls_ok();
        LS_TRY(ls_path_print(&name, "%s:%lld", path, (long long)number));
        if (ls_json_parse(name, at, (size_t)(end - at), &line).code != LS_OK) return ls_ok();
        const ls_status status = read_line(o, ls_json_root(line), s);
        ls_json_free(line);
        LS_TRY(status);
    }
    *whole = bytes;
    return ls_ok();
}

static ls_status read_journal(const ls_build_options *o, const char *path, ls_build_state *s) {
    char *text = NULL;
    size_t bytes = 0, whole = 0;
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    ls_status status = read_lines(o, path, text, bytes, s, &whole);
    if (status.code == LS_OK && whole < bytes) {
        ls_log("%s is damaged from byte %zu on; the shards after that are made again", path, whole);
        status = ls_file_write(path, text, whole);
    }
    free(text);
    return status;
}

static ls_status read_totals(const ls_build_options *o, ls_json_value root, ls_build_state *s) {
    uint64_t request = 0;
    ls_json_value shards;
    LS_TRY(get_hex(root, "request", &request));
    if (request != s->request) return request_error(o, "token shards");
    LS_TRY(ls_json_int(root, "documents", 0, INT64_MAX, &s->count.documents));
    LS_TRY(ls_json_int(root, "tokens", 0, INT64_MAX, &s->count.tokens));
    LS_TRY(ls_json_int(root, "longest_document", 0, INT64_MAX, &s->count.longest));
    LS_TRY(ls_json_int(root, "empty", 0, INT64_MAX, &s->count.empty));
    LS_TRY(ls_json_int(root, "bad", 0, INT64_MAX, &s->count.bad));
    LS_TRY(ls_json_int(root, "learnt", 0, INT64_MAX, &s->count.learnt));
    LS_TRY(read_left_out(root, &s->count.left_out));
    LS_TRY(ls_json_array(root, "shards", &shards));
    s->n_shards = (int64_t)ls_json_count(shards);
    return ls_ok();
}

static ls_status read_finished(const ls_build_options *o, const char *path, ls_build_state *s) {
    ls_json *document = NULL;
    if (!o->resume) return ls_error(LS_USAGE, "%s holds token shards already; use another --out", o->out);
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &document));
    const ls_status status = read_totals(o, ls_json_root(document), s);
    ls_json_free(document);
    return status;
}

/* Whether a journal has a line about a shard: a complete line after the first, which is intact. */
static ls_status has_shards(const char *path, bool *out) {
    char *text = NULL;
    size_t bytes = 0;
    *out = false;
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    const char *first = memchr(text, '\n', bytes), *last = text + bytes;
    ls_json *line = NULL;
    if (first != NULL && memchr(first + 1, '\n', (size_t)(last - first - 1)) != NULL)
        *out = ls_json_parse(path, text, (size_t)(first - text), &line).code == LS_OK;
    ls_json_free(line);
    free(text);
    return ls_ok();
}

/* Refuses to build into a folder that holds other files. */
static ls_status check_empty(const ls_build_options *o) {
    ls_file_names names = {0};
    LS_TRY(ls_file_list(o->out, &names));
    const ls_status status =
        names.count == 0
            ? ls_ok()
            : ls_error(LS_USAGE, "%s holds other files (%.100s); use an --out that is empty or not there yet", o->out,
                       names.name[0]);
    ls_file_names_free(&names);
    return status;
}

/* Removes temporary files of ls_file_write, which remain if a build is killed while it writes shards.json. */
static ls_status remove_leftovers(const ls_build_options *o) {
    static const char begin[] = LS_SHARDS_FILE ".tmp-";
    ls_file_names names;
    LS_PATH path = NULL;
    LS_TRY(ls_file_list(o->out, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        if (strncmp(names.name[i], begin, strlen(begin)) != 0) continue;
        status = ls_build_path(o, names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_remove_tree(path);
    }
    ls_file_names_free(&names);
    return status;
}

ls_status ls_journal_begin(const ls_build_options *o, ls_build_state *s, bool *done) {
    LS_PATH path = NULL;
    LS_TRY(ls_build_path(o, LS_SHARDS_FILE, &path));
    *done = ls_file_exists(path);
    if (*done) {
        LS_TRY(read_finished(o, path, s));
        return ls_journal_drop(o); /* a build may have been killed just before it removed the journal */
    }
    LS_TRY(ls_build_path(o, LS_SHARDS_JOURNAL, &path));
    bool has_shard = false;
    if (!ls_file_exists(path))
        LS_TRY(check_empty(o));
    else if (!o->resume)
        return ls_error(LS_USAGE, "%s holds an unfinished build; continue with --resume, or remove it: rm -r %s",
                        o->out, o->out);
    LS_TRY(remove_leftovers(o));
    LS_TRY(has_shards(path, &has_shard));
    if (has_shard) return read_journal(o, path, s);
    LS_TRY(ls_file_remove_tree(path)); /* the journal names no shard, so any new build may begin */
    s->place = (ls_place){0, 0, 1};
    LS_TRY(append_line(o, s));
    return ls_file_sync(o->out); /* without the journal the next build would refuse the shards */
}

ls_status ls_journal_drop(const ls_build_options *o) {
    LS_PATH path = NULL;
    LS_TRY(ls_build_path(o, LS_SHARDS_JOURNAL, &path));
    return ls_file_remove_tree(path);
}

/* ---- shards.json ---- */

static void put_shards(const ls_build_state *s, ls_json_writer *w) {
    ls_json_open_array(w, "shards");
    for (int64_t i = 0; i < s->n_shards; i++) {
        char name[64];
        snprintf(name, sizeof name, "shard-%06lld" LS_SHARD_SUFFIX, (long long)i);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "file", name);
        ls_json_put_int(w, "documents", s->shards[i].documents);
        ls_json_put_int(w, "tokens", s->shards[i].tokens);
        ls_json_put_hex(w, "checksum", s->shards[i].checksum);
        ls_json_close(w);
    }
    ls_json_close(w);
}

/* Writes the frame's tokens. A begin token that the chat template writes is not among them. */
static void put_frame(const ls_frame *frame, ls_json_writer *w) {
    ls_json_open_array(w, "begin");
    for (int i = 0; i < frame->n_begin; i++) ls_json_put_int(w, NULL, frame->begin[i]);
    ls_json_close(w);
    ls_json_open_array(w, "end");
    if (frame->end >= 0) ls_json_put_int(w, NULL, frame->end);
    ls_json_close(w);
}

ls_status ls_journal_end(const ls_build_options *o, const ls_build_state *s, const ls_input_list *inputs) {
    LS_PATH path = NULL;
    int64_t bytes = 0;
    for (int64_t i = 0; i < inputs->n; i++) bytes += inputs->input[i].bytes;
    LS_TRY(ls_build_path(o, LS_SHARDS_FILE, &path));
    ls_json_writer *w = ls_json_begin(2);
    ls_json_put_text(w, "format", LS_SHARDS_FORMAT);
    ls_json_open_object(w, "tokenizer");
    ls_json_put_text(w, "name", ls_tokenizer_name(o->tokenizer));
    ls_json_put_hex(w, "fingerprint", ls_tokenizer_fingerprint(o->tokenizer));
    ls_json_put_int(w, "vocabulary", ls_tokenizer_vocabulary(o->tokenizer));
    ls_json_put_int(w, "end_of_document", ls_tokenizer_end_of_document(o->tokenizer));
    ls_json_close(w);
    put_frame(&s->form.frame, w);
    ls_json_put_text(w, "records", s->form.options.records);
    if (s->form.chat.jinja != NULL) ls_json_put_text(w, "template", s->form.chat.name);
    if (s->form.chat.system != NULL) ls_json_put_text(w, "system", s->form.chat.system);
    ls_json_put_int(w, "inputs", inputs->n);
    ls_json_put_int(w, "input_bytes", bytes);
    ls_json_put_int(w, "documents", s->count.documents);
    ls_json_put_int(w, "tokens", s->count.tokens);
    ls_json_put_int(w, "longest_document", s->count.longest);
    ls_json_put_int(w, "empty", s->count.empty);
    ls_json_put_int(w, "bad", s->count.bad);
    ls_json_put_int(w, "learnt", s->count.learnt);
    put_left_out(w, &s->count.left_out);
    ls_json_put_hex(w, "request", s->request);
    put_shards(s, w);
    LS_TRY(ls_json_end_file(w, path));
    return ls_journal_drop(o);
}
