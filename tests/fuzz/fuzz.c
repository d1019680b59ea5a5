/*
 * The table of targets, and functions that targets share: checks of statuses, inputs as files. Failures to make a file
 * abort.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const fuzz_target *const fuzz_targets[] = {
    &fuzz_adapter,      &fuzz_added,
    &fuzz_checkpoint,   &fuzz_config,
    &fuzz_data_text,    &fuzz_export,
    &fuzz_graph,        &fuzz_host_rates,
    &fuzz_imported,     &fuzz_jinja,
    &fuzz_journal,      &fuzz_json,
    &fuzz_json_edit,    &fuzz_jsonl,
    &fuzz_mask,         &fuzz_npy,
    &fuzz_options,      &fuzz_parquet,
    &fuzz_records,      &fuzz_rendezvous,
    &fuzz_rope_change,  &fuzz_run_json,
    &fuzz_safetensors,  &fuzz_shard,
    &fuzz_shards,       &fuzz_source,
    &fuzz_stream,       &fuzz_tcp,
    &fuzz_tokenizer,    &fuzz_tokenizer_config,
    &fuzz_utf8,         &fuzz_vocabulary_files,
    &fuzz_weight_index, &fuzz_weights,
    &fuzz_yaml,
};
const int fuzz_target_count = LS_COUNT(fuzz_targets);

/* Control characters, which may change a terminal: C0, DEL, and C1, which is two bytes of UTF-8. */
static bool has_control(const char *text) {
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 32 || *c == 127 || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)) return true;
    return false;
}

bool fuzz_done(ls_status status) {
    LS_ASSERT((status.code == LS_OK) == !status.text[0]);
    LS_ASSERT(!has_control(status.text));
    LS_ASSERT(ls_utf8_valid_prefix(status.text, strlen(status.text)) == strlen(status.text));
    LS_ASSERT(status.code != LS_NO_MEMORY);
    return status.code == LS_OK;
}

bool fuzz_read(ls_status status, const char *path) {
    LS_ASSERT(status.code == LS_OK || strstr(status.text, path));
    return fuzz_done(status);
}

void fuzz_touch(const void *data, size_t bytes) {
    const volatile uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) (void)p[i];
}

char *fuzz_text(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1);
    LS_ASSERT(text);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    return text;
}

fuzz_bytes fuzz_part(fuzz_bytes *rest) {
    enum { DIVIDER = 0x1e };
    const uint8_t *divider = rest->n > 0 ? memchr(rest->at, DIVIDER, rest->n) : NULL;
    const fuzz_bytes part = {rest->at, divider ? (size_t)(divider - rest->at) : rest->n};
    const size_t used = part.n + (divider != NULL);
    *rest = (fuzz_bytes){rest->at + used, rest->n - used};
    return part;
}

uint8_t fuzz_choice(fuzz_bytes *rest) {
    if (rest->n == 0) return 0;
    const uint8_t choice = rest->at[0];
    *rest = (fuzz_bytes){rest->at + 1, rest->n - 1};
    return choice;
}

fuzz_file fuzz_file_make(const uint8_t *data, size_t bytes) {
    fuzz_file file = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};
    LS_ASSERT(file.fd >= 0 && write(file.fd, data, bytes) == (ssize_t)bytes);
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

void fuzz_file_close(fuzz_file *file) { close(file->fd); }

fuzz_folder fuzz_folder_make(void) {
    const char *parent = getenv("TMPDIR");
    fuzz_folder folder;
    snprintf(folder.path, sizeof folder.path, "%s/longspan-fuzz-XXXXXX", parent ? parent : "/tmp");
    LS_ASSERT(mkdtemp(folder.path));
    return folder;
}

void fuzz_folder_path(const fuzz_folder *folder, const char *name, char **out) {
    LS_ASSERT(fuzz_done(ls_path_join(folder->path, name, out)));
}

void fuzz_folder_put(const fuzz_folder *folder, const char *name, const void *data, size_t bytes) {
    LS_PATH path = NULL;
    fuzz_folder_path(folder, name, &path);
    FILE *file = fopen(path, "wb");
    LS_ASSERT(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

void fuzz_folder_remove(const fuzz_folder *folder) { LS_ASSERT(ls_file_remove_tree(folder->path).code == LS_OK); }
