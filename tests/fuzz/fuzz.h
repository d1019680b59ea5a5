/*
 * Fuzz targets: one file, and one row in fuzz.c, for each reader of input that others wrote. A target feeds bytes to
 * the reader and aborts unless the reader either returns a proper error (fuzz_read) or returns a result that keeps its
 * contract.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"
#include "format/format.h"
#include "text/text.h"

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_target {
    const char *name; /* its inputs are in tests/corpora/inputs/NAME/, its dictionary in tests/corpora/words/NAME */
    /* Reads any bytes; aborts when the reader breaks its contract. */
    void (*run)(const uint8_t *data, size_t bytes);
    /*
     * Sets lengths and checksums that the format computes from other bytes, so that mutated inputs are not all refused
     * for them. Returns the length of the input, at most `room`. NULL: the format has none.
     */
    size_t (*repair)(uint8_t *data, size_t bytes, size_t room);
} fuzz_target;

extern const fuzz_target fuzz_adapter, fuzz_added, fuzz_checkpoint, fuzz_config, fuzz_data_text, fuzz_export,
    fuzz_graph, fuzz_host_rates, fuzz_imported, fuzz_jinja, fuzz_journal, fuzz_json, fuzz_json_edit, fuzz_jsonl,
    fuzz_mask, fuzz_npy, fuzz_options, fuzz_parquet, fuzz_records, fuzz_rendezvous, fuzz_rope_change, fuzz_run_json,
    fuzz_safetensors, fuzz_shard, fuzz_shards, fuzz_source, fuzz_stream, fuzz_tcp, fuzz_tokenizer,
    fuzz_tokenizer_config, fuzz_utf8, fuzz_vocabulary_files, fuzz_weight_index, fuzz_weights, fuzz_yaml;

extern const fuzz_target *const fuzz_targets[]; /* all of them, in the order of their names */
extern const int fuzz_target_count;

/*
 * Whether a status is LS_OK. Aborts unless an error is one printable line, and for LS_NO_MEMORY: no input may cause a
 * large allocation.
 */
bool fuzz_done(ls_status status);
/* The same for reading a file or folder: an error must name its path. */
bool fuzz_read(ls_status status, const char *path);

/* Reads every byte, so that a sanitizer reports a byte that must not be read. */
void fuzz_touch(const void *data, size_t bytes);

/* A copy with a 0 byte at the end, for readers of strings. The caller frees it. */
char *fuzz_text(const uint8_t *data, size_t bytes);

/* A part of an input. */
typedef struct fuzz_bytes {
    const uint8_t *at;
    size_t n;
} fuzz_bytes;

/* Removes the first part of an input, up to the next byte 0x1e, and that byte from *rest; returns the part. */
fuzz_bytes fuzz_part(fuzz_bytes *rest);
/* Removes the first byte of an input from *rest and returns it, for a choice of the target; 0 when there is none. */
uint8_t fuzz_choice(fuzz_bytes *rest);

/* A file in memory with a path. */
typedef struct fuzz_file {
    int fd;
    char path[40];
} fuzz_file;

fuzz_file fuzz_file_make(const uint8_t *data, size_t bytes);
void fuzz_file_close(fuzz_file *file);

/* A temporary folder, in TMPDIR, for readers that open a folder. */
typedef struct fuzz_folder {
    char path[256];
} fuzz_folder;

fuzz_folder fuzz_folder_make(void);
void fuzz_folder_path(const fuzz_folder *folder, const char *name, char **out);
void fuzz_folder_put(const fuzz_folder *folder, const char *name, const void *data, size_t bytes);
void fuzz_folder_remove(const fuzz_folder *folder);

/* ---- shared by several targets ---- */

/* fuzz_target.repair for safetensors files: sets the length of the header. */
size_t fuzz_safetensors_repair(uint8_t *data, size_t bytes, size_t room);

/*
 * Checks a tokenizer on a text: encoding twice gives the same ids, encoding the parts of a text that may be cut gives
 * the ids of the whole, and the ids decode, at once and one by one.
 */
void fuzz_check_text(const ls_tokenizer *tokenizer, const char *text, size_t bytes);

/* ---- training sequences and token shards (samples.c) ---- */

enum { FUZZ_LONGEST_SEQUENCE = 64, FUZZ_SHARDS = 2 };
#define FUZZ_REQUEST 0xf022 /* the request in stored journals and lists of shards */

/*
 * Opens a path with each packer and checks the sequences: ids and labels in range, documents that cover the sequence.
 */
void fuzz_check_samples(const char *path, int64_t sequence, bool shuffle);
/* Writes shard-000000.tokens with the documents "one" and "two", and shard-000001.tokens with "three". */
void fuzz_put_shards(const fuzz_folder *folder);
uint64_t fuzz_bytes_fingerprint(void); /* of the tokenizer "bytes", with which the data is opened */

#endif
