/* What the targets share: the input as a file, for readers that take a path. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

typedef struct fuzz_file {
    int fd;
    char path[40];
} fuzz_file;

/* A file in memory; a machine that cannot make one cannot fuzz. */
static inline fuzz_file fuzz_file_make(const uint8_t *data, size_t bytes) {
    fuzz_file file = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};
    if (file.fd < 0 || write(file.fd, data, bytes) != (ssize_t)bytes) abort();
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

/* Reads every byte, so that a sanitizer sees one that must not be read. */
static inline void fuzz_touch(const void *data, size_t bytes) {
    const volatile uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) (void)p[i];
}

#endif
