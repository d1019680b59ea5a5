/* What the targets share: statuses, and inputs as files. A machine that cannot make a file cannot fuzz. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool fuzz_done(ls_status status) {
    LS_ASSERT((status.code == LS_OK) == !status.text[0]);
    LS_ASSERT(!strchr(status.text, '\n'));
    LS_ASSERT(status.code != LS_NO_MEMORY);
    return status.code == LS_OK;
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

void fuzz_folder_put(const fuzz_folder *folder, const char *name, const void *data, size_t bytes) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    FILE *file = fopen(path, "wb");
    LS_ASSERT(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
}

void fuzz_folder_remove(const fuzz_folder *folder) {
    LS_ASSERT(ls_file_remove_tree(folder->path).code == LS_OK);
}
