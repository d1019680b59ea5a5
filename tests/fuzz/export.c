/*
 * Any checkpoint whose hashes are right is refused, or the exported folder has its tensors by name, and its config with
 * no change but the type of the weights. The first byte chooses that type; then come config.json and model.safetensors,
 * separated by the byte 0x1e.
 */
#include "checkpoint/checkpoint_impl.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void put_file(const fuzz_folder *folder, ls_checkpoint_record *record, int file, ls_named_piece *piece,
                     fuzz_bytes data) {
    if (data.n == 0) return;
    fuzz_folder_put(folder, ls_checkpoint_file_name(file), data.at, data.n);
    *piece = (ls_named_piece){"all", 0, (int64_t)data.n, ls_hash_bytes(data.at, data.n)};
    record->file[file] = (ls_recorded_file){(int64_t)data.n, 1, piece};
}

/* Writes a checkpoint with the right hashes in state.json. */
static void put_checkpoint(const fuzz_folder *folder, fuzz_bytes config, fuzz_bytes model) {
    ls_checkpoint_record record = {.type = "F32"};
    ls_named_piece pieces[LS_CHECKPOINT_FILES];
    put_file(folder, &record, LS_CHECKPOINT_CONFIG, &pieces[LS_CHECKPOINT_CONFIG], config);
    put_file(folder, &record, LS_CHECKPOINT_MODEL, &pieces[LS_CHECKPOINT_MODEL], model);
    put_file(folder, &record, LS_CHECKPOINT_OPTIMIZER, &pieces[LS_CHECKPOINT_OPTIMIZER],
             (fuzz_bytes){(const uint8_t *)"-", 1});
    LS_ASSERT(fuzz_done(ls_record_write(&record, folder->path)));
}

/* A hash of all members of a config except the type. */
static uint64_t hash_config(const char *folder) {
    LS_PATH path = NULL;
    ls_json *document;
    uint64_t hash = 0;
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    LS_ASSERT(fuzz_done(ls_path_join(folder, "config.json", &path)));
    LS_ASSERT(fuzz_done(ls_json_read(path, LS_JSON_MOST_BYTES, &document)));
    while (ls_json_next(ls_json_root(document), &cursor, &key, &value))
        if (strcmp(key, "dtype") != 0 && strcmp(key, "torch_dtype") != 0)
            hash += ls_json_hash(value) ^ ls_rng_stream(key);
    ls_json_free(document);
    return hash;
}

static ls_st_file *open_model(const char *folder) {
    LS_PATH path = NULL;
    ls_st_file *file;
    LS_ASSERT(fuzz_done(ls_path_join(folder, "model.safetensors", &path)));
    LS_ASSERT(fuzz_done(ls_st_open(path, &file)));
    return file;
}

static void check_tensors(const char *from, const char *to, const ls_export_result *result) {
    ls_st_file *before = open_model(from), *after = open_model(to);
    LS_ASSERT(ls_st_count(before) == ls_st_count(after) && ls_st_count(after) == result->tensors);
    for (int64_t i = 0; i < ls_st_count(before); i++) {
        const ls_st_tensor *t = ls_st_at(before, i), *found;
        LS_ASSERT(fuzz_done(ls_st_need(after, t->name, t->ndim, t->shape, &found)));
        LS_ASSERT(found->dtype == result->dtype);
    }
    ls_st_close(before);
    ls_st_close(after);
}

static void run(const uint8_t *data, size_t bytes) {
    static const ls_st_dtype types[] = {LS_ST_DTYPES, LS_ST_F32, LS_ST_F16, LS_ST_BF16};
    fuzz_bytes rest = {data, bytes};
    const ls_st_dtype type = types[fuzz_choice(&rest) % LS_COUNT(types)];
    const fuzz_bytes config = fuzz_part(&rest);
    fuzz_folder folder = fuzz_folder_make();
    LS_PATH out = NULL;
    put_checkpoint(&folder, config, rest);
    fuzz_folder_path(&folder, "out", &out);
    const ls_export_options options = {.checkpoint = folder.path, .out = out, .dtype = type};
    ls_export_result result;
    if (fuzz_read(ls_checkpoint_export(&options, &result), folder.path)) {
        check_tensors(folder.path, out, &result);
        LS_ASSERT(hash_config(folder.path) == hash_config(out));
    } else {
        LS_ASSERT(!ls_file_exists(out));
    }
    fuzz_folder_remove(&folder);
}

static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    fuzz_bytes rest = {data, bytes};
    (void)fuzz_part(&rest);
    const size_t used = bytes - rest.n;
    return used + fuzz_safetensors_repair(data + used, rest.n, room - used);
}

const fuzz_target fuzz_export = {.name = "export", .run = run, .repair = repair};
