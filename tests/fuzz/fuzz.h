/*
 * Fuzz targets: one file and one row of fuzz_targets for each reader of what others wrote. A target checks more than that
 * nothing crashes: errors are one line, and what a reader accepts keeps the reader's promises.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"
#include "format/format.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name; /* of its inputs corpus/NAME/ and its words words/NAME */
    /* Reads any bytes; aborts on a broken promise. */
    void (*run)(const uint8_t *data, size_t bytes);
    /*
     * Makes right what the format derives from the rest (a length, a checksum), so that mutations get past it. Returns the bytes
     * used, at most room. NULL where nothing is derived.
     */
    size_t (*repair)(uint8_t *data, size_t bytes, size_t room);
} fuzz_target;

extern const fuzz_target *const fuzz_targets[];
extern const int fuzz_target_count;

/* Whether it is done. An error has one line of text, and never is a lack of memory: no number in an input may ask for much. */
bool fuzz_done(ls_status status);
/* The same of what reads a file (or a folder), by its path: an error names it. */
bool fuzz_read(ls_status status, const char *path);

/* Reads every byte, so that a sanitizer sees one that must not be read. */
void fuzz_touch(const void *data, size_t bytes);

/* The bytes with a 0 behind them, for readers of text; free() it. */
char *fuzz_text(const uint8_t *data, size_t bytes);

/* Bytes, some of an input. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t n;
} fuzz_bytes;

/* Inputs of several files are divided by the byte 0x1e: takes the first, and the divider, from the rest. */
fuzz_bytes fuzz_part(fuzz_bytes *rest);
/* Takes the first byte from the rest: a choice that a target has. 0 when there is none. */
uint8_t fuzz_choice(fuzz_bytes *rest);

/* A file in memory, for readers that take a path. */
typedef struct fuzz_file {
    int fd;
    char path[40];
} fuzz_file;

fuzz_file fuzz_file_make(const uint8_t *data, size_t bytes);
void fuzz_file_close(fuzz_file *file);

/* A folder of its own below TMPDIR, for readers that look for a name. */
typedef struct fuzz_folder {
    char path[256];
} fuzz_folder;

fuzz_folder fuzz_folder_make(void);
void fuzz_folder_path(const fuzz_folder *folder, const char *name, char **out);
void fuzz_folder_put(const fuzz_folder *folder, const char *name, const void *data, size_t bytes);
void fuzz_folder_remove(const fuzz_folder *folder);

#endif
