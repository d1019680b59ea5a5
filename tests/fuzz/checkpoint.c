/* Any state.json of a checkpoint is refused, or its pieces cover its files without a gap. */
#include "checkpoint/checkpoint_impl.h"
#include "fuzz/fuzz.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void check_file(const ls_recorded_file *file) {
    int64_t at = 0;
    for (int i = 0; i < file->n_pieces; i++) {
        LS_ASSERT(file->pieces[i].start == at && file->pieces[i].bytes > 0);
        fuzz_touch(file->pieces[i].name, strlen(file->pieces[i].name));
        at += file->pieces[i].bytes;
    }
    LS_ASSERT(at == file->bytes);
}

/* The folder has the model's file only, so all other files are reported as bad. */
static void verify(const char *folder, bool read) {
    ls_checkpoint_info info;
    LS_ASSERT(fuzz_done(ls_checkpoint_verify(folder, &info)) && info.n_files >= 1);
    LS_ASSERT((info.file[0].bad == 0) == read);
    for (int f = 0; f < info.n_files; f++) LS_ASSERT(fuzz_read(info.file[f].status, folder) == (info.file[f].bad == 0));
    LS_ASSERT(fuzz_read(ls_checkpoint_describe(folder, &info), folder) == read);
}

static void run(const uint8_t *data, size_t bytes) {
    static const uint8_t model[20] = {0};
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, "state.json", data, bytes);
    fuzz_folder_put(&folder, "model.safetensors", model, sizeof model);
    ls_arena *arena = ls_arena_create();
    ls_checkpoint_record record;
    ls_train_state state;
    const bool read = fuzz_read(ls_record_read(folder.path, arena, &record), folder.path);
    if (read) {
        LS_ASSERT(record.state.step >= 0 && record.state.sequences >= 0);
        for (int f = 0; f < LS_CHECKPOINT_FILES; f++) check_file(&record.file[f]);
    }
    LS_ASSERT(fuzz_done(ls_checkpoint_state(folder.path, &state)) == read);
    verify(folder.path, read);
    ls_arena_destroy(arena);
    fuzz_folder_remove(&folder);
}

/* Sets state_hash: the hash of the text with zeros in the place of the hash. */
static size_t repair(uint8_t *data, size_t bytes, size_t room) {
    enum { DIGITS = 16 };
    static const char key[] = "\"state_hash\"";
    char digits[DIGITS + 1];
    (void)room;
    uint8_t *at = memmem(data, bytes, key, sizeof key - 1);
    if (!at) return bytes;
    at += sizeof key - 1;
    at = memchr(at, '"', (size_t)(data + bytes - at));
    if (!at || data + bytes - at < DIGITS + 1) return bytes;
    memset(at + 1, '0', DIGITS);
    snprintf(digits, sizeof digits, "%016" PRIx64, ls_hash_bytes(data, bytes));
    memcpy(at + 1, digits, DIGITS);
    return bytes;
}

const fuzz_target fuzz_checkpoint = {.name = "checkpoint", .run = run, .repair = repair};
