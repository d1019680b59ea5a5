/*
 * state.json: the state of the training, and the hash of each piece of the other files. Reads and writes it, and checks
 * the bytes of a checkpoint against it.
 */
#include "checkpoint/checkpoint_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char STATE[] = "state.json", FORMAT[] = "longspan checkpoint 1", HASH_KEY[] = "\"state_hash\"",
                  ZEROS[] = "0000000000000000";

enum { DIGITS = 16 };

const char *ls_record_name(void) { return STATE; }

const char *ls_checkpoint_file_name(int file) {
    static const char *const names[LS_CHECKPOINT_FILES] = {"model.safetensors", "optimizer.safetensors", "config.json",
                                                           "graph.json", "adapter_config.json"};
    return names[file];
}

/* ---- writing ---- */

/*
 * The digits of state_hash; NULL if the text has none. The hash is that of the text with zeros in place of these
 * digits.
 */
static char *find_digits(char *text) {
    char *key = strstr(text, HASH_KEY);
    char *quote = key == NULL ? NULL : strchr(key + sizeof HASH_KEY - 1, '"');
    return quote == NULL || strlen(quote + 1) < DIGITS ? NULL : quote + 1;
}

static void put_file(ls_json_writer *w, const char *name, const ls_recorded_file *file) {
    char digits[DIGITS + 1];
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "name", name);
    ls_json_put_int(w, "bytes", file->bytes);
    ls_json_open_array(w, "pieces");
    for (int i = 0; i < file->n_pieces; i++) {
        const ls_named_piece *piece = &file->pieces[i];
        snprintf(digits, sizeof digits, "%016" PRIx64, piece->hash);
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "of", piece->name);
        ls_json_put_int(w, "start", piece->start);
        ls_json_put_int(w, "bytes", piece->bytes);
        ls_json_put_text(w, "xxh64", digits);
        ls_json_close(w);
    }
    ls_json_close(w);
    ls_json_close(w);
}

ls_status ls_record_write(const ls_checkpoint_record *record, const char *folder) {
    LS_PATH path = NULL;
    char digits[DIGITS + 1];
    size_t bytes = 0;
    LS_TRY(ls_path_join(folder, STATE, &path));
    ls_json_writer *w = ls_json_begin(1);
    ls_json_put_text(w, "format", FORMAT);
    ls_json_put_int(w, "step", record->state.step);
    ls_json_put_int(w, "seed", (int64_t)record->state.seed); /* reinterpreted: JSON integers are signed */
    ls_json_put_int(w, "sequences", record->state.sequences);
    ls_json_put_double(w, "last_loss", record->state.last_loss);
    ls_origin_write(w, &record->state.origin);
    ls_json_put_text(w, "type", record->type);
    if (record->state.base != 0) ls_json_put_hex(w, "base", record->state.base);
    ls_json_open_array(w, "files");
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++)
        if (record->file[f].bytes > 0) put_file(w, ls_checkpoint_file_name(f), &record->file[f]);
    ls_json_close(w);
    ls_json_put_text(w, "state_hash", ZEROS);
    ls_json_close(w);
    const char *written = ls_json_written(w, &bytes);
    char *text = malloc(bytes + 1);
    ls_status status = ls_error(LS_NO_MEMORY, "no memory to write %s", path);
    if (text != NULL) {
        memcpy(text, written, bytes + 1);
        snprintf(digits, sizeof digits, "%016" PRIx64, ls_hash_bytes(text, bytes));
        memcpy(find_digits(text), digits, DIGITS);
        status = ls_file_write(path, text, bytes);
    }
    free(text);
    ls_json_writer_destroy(w);
    return status;
}

/* ---- reading ---- */

static ls_status check_state_hash(const char *path, char *text, size_t bytes) {
    char found[DIGITS + 1] = "", expected[DIGITS + 1] = "";
    char *digits = find_digits(text);
    if (digits == NULL) return ls_error(LS_INVALID, "%s: corrupted: it has no state_hash", path);
    memcpy(expected, digits, DIGITS);
    memcpy(digits, ZEROS, DIGITS);
    snprintf(found, sizeof found, "%016" PRIx64, ls_hash_bytes(text, bytes));
    if (strcmp(found, expected) != 0)
        return ls_error(LS_INVALID, "%s: corrupted: the hash of its text is %s, expected %s", path, found, expected);
    return ls_ok();
}

static ls_status read_hash(ls_json_value object, const char *key, uint64_t *out) {
    const char *digits = NULL;
    LS_TRY(ls_json_text(object, key, &digits));
    if (strlen(digits) != DIGITS || strspn(digits, "0123456789abcdef") != DIGITS)
        return ls_json_error(ls_json_field(object, key), "%d hexadecimal digits", DIGITS);
    *out = strtoull(digits, NULL, 16);
    return ls_ok();
}

static ls_status read_pieces(ls_json_value list, ls_arena *arena, ls_recorded_file *out) {
    int64_t at = 0;
    out->n_pieces = (int)ls_json_count(list);
    out->pieces = LS_NEW_ARRAY(arena, ls_named_piece, out->n_pieces);
    for (int i = 0; i < out->n_pieces; i++) {
        const ls_json_value item = ls_json_item(list, (size_t)i);
        ls_named_piece *piece = &out->pieces[i];
        const char *name = NULL;
        LS_TRY(ls_json_text(item, "of", &name));
        LS_TRY(ls_json_int(item, "start", at, at, &piece->start)); /* must begin where the piece before it ends */
        LS_TRY(ls_json_int(item, "bytes", 1, out->bytes - at, &piece->bytes));
        LS_TRY(read_hash(item, "xxh64", &piece->hash));
        piece->name = ls_arena_strdup(arena, name);
        at += piece->bytes;
    }
    if (at != out->bytes) return ls_json_error(list, "pieces that cover all %lld bytes", (long long)out->bytes);
    return ls_ok();
}

static ls_status read_file(ls_json_value item, ls_arena *arena, ls_checkpoint_record *out) {
    const char *name = NULL;
    ls_json_value pieces;
    LS_TRY(ls_json_text(item, "name", &name));
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++) {
        if (strcmp(name, ls_checkpoint_file_name(f)) != 0) continue;
        LS_TRY(ls_json_int(item, "bytes", 1, INT64_MAX / 2, &out->file[f].bytes));
        LS_TRY(ls_json_array(item, "pieces", &pieces));
        return read_pieces(pieces, arena, &out->file[f]);
    }
    return ls_json_error(ls_json_field(item, "name"), "a file of a checkpoint");
}

/*
 * A record whose hash is right but whose format is another one is intact, and of another version: it is not damaged,
 * and must not be overwritten.
 */
static ls_status check_format(ls_json_value root) {
    const char *format = NULL;
    LS_TRY(ls_json_text(root, "format", &format));
    if (strcmp(format, FORMAT) == 0) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: format is \"%.60s\", but this version reads \"%s\"; expected the version that wrote it, or "
                    "another --out",
                    root.file, format, FORMAT);
}

static ls_status read_fields(ls_json_value root, ls_arena *arena, ls_checkpoint_record *out) {
    const char *type = NULL;
    int64_t seed = 0;
    ls_json_value files;
    LS_TRY(check_format(root));
    LS_TRY(ls_json_int(root, "step", 0, INT64_MAX, &out->state.step));
    LS_TRY(ls_json_int(root, "seed", INT64_MIN, INT64_MAX, &seed));
    LS_TRY(ls_json_int(root, "sequences", 0, INT64_MAX, &out->state.sequences));
    LS_TRY(ls_json_double_or(root, "last_loss", (double)NAN, -INFINITY, INFINITY, &out->state.last_loss));
    LS_TRY(ls_origin_read(root, &out->state.origin));
    LS_TRY(ls_json_text(root, "type", &type));
    if (ls_json_has(root, "base")) LS_TRY(read_hash(root, "base", &out->state.base));
    LS_TRY(ls_json_array(root, "files", &files));
    for (size_t i = 0; i < ls_json_count(files); i++) LS_TRY(read_file(ls_json_item(files, i), arena, out));
    if (out->file[LS_CHECKPOINT_MODEL].bytes == 0 || out->file[LS_CHECKPOINT_OPTIMIZER].bytes == 0)
        return ls_json_error(files, "model.safetensors and optimizer.safetensors among them");
    out->state.seed = (uint64_t)seed;
    out->type = ls_arena_strdup(arena, type);
    return ls_ok();
}

ls_status ls_record_read(const char *folder, ls_arena *arena, ls_checkpoint_record *out) {
    LS_PATH path = NULL;
    char *text = NULL;
    size_t bytes = 0;
    ls_json *document = NULL;
    ls_checkpoint_record record = {0};
    LS_TRY(ls_path_join(folder, STATE, &path));
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &text, &bytes));
    ls_status status = check_state_hash(path, text, bytes);
    if (status.code == LS_OK) status = ls_json_parse(path, text, bytes, &document);
    free(text);
    LS_TRY(status);
    status = read_fields(ls_json_root(document), arena, &record);
    ls_json_free(document);
    if (status.code == LS_OK) *out = record;
    return status;
}

bool ls_record_averages(const ls_checkpoint_record *record) {
    static const char before[] = LS_AVERAGE_SAVED " ";
    const ls_recorded_file *file = &record->file[LS_CHECKPOINT_OPTIMIZER];
    for (int i = 0; i < file->n_pieces; i++)
        if (strncmp(file->pieces[i].name, before, sizeof before - 1) == 0) return true;
    return false;
}

bool ls_checkpoint_has_adapter(const char *path) {
    LS_PATH config = NULL;
    return path != NULL && ls_path_join(path, ls_checkpoint_file_name(LS_CHECKPOINT_ADAPTER), &config).code == LS_OK &&
           ls_file_exists(config);
}

ls_status ls_checkpoint_state(const char *path, ls_train_state *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    const ls_status status = ls_record_read(path, arena, &record);
    if (status.code == LS_OK) *out = record.state;
    ls_arena_destroy(arena);
    return status;
}

/* ---- checking ---- */

ls_status ls_piece_check_length(const char *path, const ls_file_map *map, const ls_recorded_file *file) {
    if ((int64_t)map->bytes == file->bytes) return ls_ok();
    return ls_error(LS_INVALID, "%s is %zu bytes long, expected %lld: it is cut or was changed", path, map->bytes,
                    (long long)file->bytes);
}

ls_status ls_piece_check(const char *path, const ls_file_map *map, const ls_named_piece *piece) {
    const uint64_t hash = ls_hash_bytes(map->data + piece->start, (size_t)piece->bytes);
    if (hash == piece->hash) return ls_ok();
    return ls_error(
        LS_INVALID, "%s: corrupted in bytes %lld to %lld (%s): their hash is %016" PRIx64 ", expected %016" PRIx64,
        path, (long long)piece->start, (long long)(piece->start + piece->bytes - 1), piece->name, hash, piece->hash);
}

/* ---- describing and verifying a checkpoint ---- */

static void describe(const ls_checkpoint_record *record, ls_checkpoint_info *out) {
    out->state = record->state;
    out->averaged = ls_record_averages(record);
    snprintf(out->type, sizeof out->type, "%s", record->type);
    out->file[out->n_files++] = (ls_checkpoint_file){.name = ls_record_name(), .pieces = 1};
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++) {
        const ls_recorded_file *file = &record->file[f];
        if (file->bytes > 0)
            out->file[out->n_files++] = (ls_checkpoint_file){
                .name = ls_checkpoint_file_name(f), .bytes = file->bytes, .pieces = file->n_pieces};
    }
}

static ls_status size_of_record(const char *path, int64_t *bytes) {
    LS_PATH name = NULL;
    ls_file_map map;
    LS_TRY(ls_path_join(path, ls_record_name(), &name));
    LS_TRY(ls_file_map_open(name, &map));
    *bytes = (int64_t)map.bytes;
    ls_file_map_close(&map);
    return ls_ok();
}

static ls_status read_record(const char *path, ls_arena *arena, ls_checkpoint_record *record, ls_checkpoint_info *out) {
    ls_checkpoint_info info = {.n_files = 0};
    LS_TRY(ls_record_read(path, arena, record));
    describe(record, &info);
    LS_TRY(size_of_record(path, &info.file[0].bytes));
    *out = info;
    return ls_ok();
}

ls_status ls_checkpoint_describe(const char *path, ls_checkpoint_info *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    const ls_status status = read_record(path, arena, &record, out);
    ls_arena_destroy(arena);
    return status;
}

typedef struct verification {
    const char *path;
    int next, every; /* pieces until the next one that is checked, counted over all files; one in `every` is */
    ls_progress progress;
    int64_t done; /* bytes checked so far */
    double last_shown;
} verification;

static void show_progress(verification *v, int64_t bytes) {
    const double now = ls_seconds();
    v->done += bytes;
    if (now - v->last_shown < (v->progress.terminal ? 0.1 : 2.0)) return;
    v->last_shown = now;
    ls_progress_show(&v->progress, v->done >> 20, "MiB");
}

static void count_bad(ls_checkpoint_file *out, ls_status status) {
    if (status.code == LS_OK) return;
    if (out->bad++ == 0) out->status = status;
}

static void verify_file(verification *v, const ls_recorded_file *file, ls_checkpoint_file *out) {
    LS_PATH path = NULL;
    ls_file_map map = {0};
    out->status = ls_ok();
    ls_status status = ls_path_join(v->path, out->name, &path);
    if (status.code == LS_OK) status = ls_file_map_open(path, &map);
    if (status.code == LS_OK) status = ls_piece_check_length(path, &map, file);
    count_bad(out, status);
    for (int i = 0; i < file->n_pieces && status.code == LS_OK; i++) {
        const ls_named_piece *piece = &file->pieces[i];
        if (v->next-- > 0) continue;
        v->next = v->every - 1;
        count_bad(out, ls_piece_check(path, &map, piece));
        ls_file_forget(map.data + piece->start, (size_t)piece->bytes);
        show_progress(v, piece->bytes);
    }
    ls_file_map_close(&map);
}

static void verify_files(const char *path, int first, int every, const ls_checkpoint_record *record,
                         ls_checkpoint_info *info) {
    int64_t total = 0;
    for (int f = 0; f < LS_CHECKPOINT_FILES; f++) total += record->file[f].bytes / every;
    verification v = {.path = path,
                      .next = first,
                      .every = every,
                      .progress = ls_progress_start("verifying", total >> 20),
                      .last_shown = ls_seconds()};
    for (int f = 0, i = 1; f < LS_CHECKPOINT_FILES; f++)
        if (record->file[f].bytes > 0) verify_file(&v, &record->file[f], &info->file[i++]);
    ls_progress_end(&v.progress);
}

ls_status ls_checkpoint_verify_some(const char *path, int first, int every, ls_checkpoint_info *out) {
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    ls_checkpoint_info info = {.n_files = 1, .file = {{.name = ls_record_name(), .pieces = 1}}};
    const ls_status status = read_record(path, arena, &record, &info);
    if (status.code == LS_OK)
        verify_files(path, first, every, &record, &info);
    else
        count_bad(&info.file[0], status);
    ls_arena_destroy(arena);
    if (status.code == LS_NO_MEMORY) return status;
    *out = info;
    return ls_ok();
}

ls_status ls_checkpoint_verify(const char *path, ls_checkpoint_info *out) {
    return ls_checkpoint_verify_some(path, 0, 1, out);
}
