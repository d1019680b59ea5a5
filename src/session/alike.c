/*
 * Lists of values that must be equal on all ranks. A digest of each list is gathered. Only if two digests differ are
 * the lists themselves gathered, one piece at a time, so that every process names the same difference.
 */
#include "session/alike.h"

#include "comm/comm.h"
#include "format/format.h"
#include "session/home.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three texts for each value, each with its terminating zero: name, value, remedy. */
struct ls_alike {
    FILE *stream;
    char *bytes;
    size_t n;
    ls_status failed; /* error of a file that could not be read */
};

ls_status ls_alike_begin(ls_alike **out) {
    *out = NULL;
    if (ls_home_starts_ranks()) return ls_ok();
    ls_alike *alike = calloc(1, sizeof *alike);
    if (alike != NULL) alike->stream = open_memstream(&alike->bytes, &alike->n);
    if (alike == NULL || alike->stream == NULL) {
        free(alike);
        return ls_error(LS_NO_MEMORY, "no memory for what all ranks must have alike");
    }
    *out = alike;
    return ls_ok();
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static void put(ls_alike *alike, const char *text) { (void)fwrite(text, 1, strlen(text) + 1, alike->stream); }

void ls_alike_add_with_remedy(ls_alike *alike, const char *name, const char *value, const char *remedy) {
    if (alike == NULL) return;
    put(alike, name);
    put(alike, value);
    put(alike, remedy);
}

void ls_alike_add(ls_alike *alike, const char *name, const char *format, ...) {
    if (alike == NULL) return;
    va_list args;
    va_start(args, format);
    put(alike, name);
    (void)ls_vprint_to(alike->stream, format, args);
    put(alike, "");
    put(alike, "");
    va_end(args);
}

void ls_alike_add_text(ls_alike *alike, const char *name, const char *text) {
    if (text != NULL)
        ls_alike_add(alike, name, "%s", text);
    else
        ls_alike_add(alike, name, "left out");
}

static void add_content(ls_alike *alike, const char *name, int64_t bytes, uint64_t hash) {
    ls_alike_add(alike, name, "of %lld bytes, with hash %016llx", (long long)bytes, (unsigned long long)hash);
}

void ls_alike_add_bytes(ls_alike *alike, const char *name, const void *data, size_t bytes) {
    if (alike != NULL) add_content(alike, name, (int64_t)bytes, ls_hash_bytes(data, bytes));
}

/* Whether the run reads this file of a folder. A folder may be that of a run which writes other files into it. */
static bool is_input(const char *name) {
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "added_tokens.json",
        "special_tokens_map.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "tokenizer.model",
        "spiece.model",
        "sentencepiece.bpe.model",
        "chat_template.jinja",
        "chat_template.json",
        "state.json",
        "model.safetensors",
        "model.safetensors.index.json",
    };
    static const char weights[] = ".safetensors";
    for (size_t i = 0; i < LS_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) return true;
    const size_t length = strlen(name), end = sizeof weights - 1;
    return length > end && strcmp(name + length - end, weights) == 0;
}

static ls_status add_file(ls_alike *alike, const char *name, const char *folder, const char *file) {
    LS_PATH path = NULL;
    LS_PATH full = NULL;
    int64_t bytes;
    uint64_t hash;
    LS_TRY(ls_path_join(folder, file, &path));
    LS_TRY(ls_path_print(&full, "%s %s", name, file));
    LS_TRY(ls_file_identify(path, &bytes, &hash));
    add_content(alike, full, bytes, hash);
    return ls_ok();
}

static ls_status add_folder(ls_alike *alike, const char *name, const char *folder) {
    ls_file_names names;
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++)
        if (is_input(names.name[i])) status = add_file(alike, name, folder, names.name[i]);
    ls_file_names_free(&names);
    return status;
}

void ls_alike_add_model(ls_alike *alike, const ls_model *model) {
    const ls_model_text written = ls_model_written(model);
    char name[40];
    snprintf(name, sizeof name, "a %s", written.file);
    ls_alike_add_bytes(alike, name, written.text, strlen(written.text));
    if (written.adapter != NULL) ls_alike_add_bytes(alike, "an adapter", written.adapter, strlen(written.adapter));
}

void ls_alike_add_folder(ls_alike *alike, const char *name, const char *folder) {
    if (alike == NULL || folder == NULL || alike->failed.code != LS_OK) return;
    alike->failed = add_folder(alike, name, folder);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

typedef struct digest {
    uint64_t hash, bytes;
} digest;

/*
 * The lists of rank 0 and of another rank, as received. Zeros are appended, so that reading ends whatever the lists
 * contain.
 */
typedef struct pair {
    int rank;
    size_t bytes[2];
    char *text[2];
} pair;

enum { ZEROS = 4 }; /* zeros after a list: a value of three empty texts ends it */

/* Reads the value at *at of one of the two lists. */
static void next_value(const pair *p, int list, size_t *at, const char *out[3]) {
    for (int i = 0; i < 3; i++) {
        out[i] = p->text[list] + ls_min((int64_t)*at, (int64_t)p->bytes[list]);
        *at += strlen(out[i]) + 1;
    }
}

enum { SHOWN = 120 };

/* Writes a value for a message; of a long value, the part around byte `at`. */
static void show(const char *value, size_t at, char out[SHOWN + 8]) {
    const size_t from = strlen(value) > SHOWN && at > 20 ? at - 20 : 0, left = strlen(value + from);
    snprintf(out, SHOWN + 8, "%s%.*s%s", from > 0 ? "..." : "", SHOWN, value + from, left > SHOWN ? "..." : "");
}

static const char *name_of(const char *const value[3]) { return value[0][0] != 0 ? value[0] : "nothing more"; }

static ls_status differ(int rank, const char *const first[3], const char *const other[3]) {
    char zero[SHOWN + 8], theirs[SHOWN + 8];
    if (strcmp(first[0], other[0]) != 0)
        return ls_error(LS_USAGE, "rank %d has %s where rank 0 has %s; expected the same on all ranks of a job", rank,
                        name_of(other), name_of(first));
    size_t at = 0;
    while (first[1][at] != 0 && first[1][at] == other[1][at]) at++;
    show(first[1], at, zero);
    show(other[1], at, theirs);
    return ls_error(LS_USAGE, "rank %d has %s %s, rank 0 %s; expected the same on all ranks of a job%s%s", rank,
                    other[0], theirs, zero, other[2][0] != 0 ? "; " : "", other[2]);
}

static ls_status name_difference(const pair *p) {
    size_t at[2] = {0, 0};
    while (at[0] < p->bytes[0] || at[1] < p->bytes[1]) {
        const char *first[3], *other[3];
        next_value(p, 0, &at[0], first);
        next_value(p, 1, &at[1], other);
        if (strcmp(first[0], other[0]) != 0 || strcmp(first[1], other[1]) != 0) return differ(p->rank, first, other);
    }
    return ls_error(LS_USAGE, "rank %d has other settings than rank 0; expected the same on all ranks of a job",
                    p->rank);
}

/* Gathers the lists, and keeps those of rank 0 and p->rank. all: room for [ranks, LS_GATHER_VALUE]. */
static ls_status bring(const ls_alike *alike, pair *p, char *all) {
    const size_t most = (size_t)ls_max((int64_t)p->bytes[0], (int64_t)p->bytes[1]);
    for (size_t at = 0; at < most; at += LS_GATHER_VALUE) {
        char mine[LS_GATHER_VALUE] = "";
        if (at < alike->n) memcpy(mine, alike->bytes + at, ls_min(sizeof mine, alike->n - at));
        LS_TRY(ls_launched_gather("settings", mine, sizeof mine, all));
        for (int i = 0; i < 2; i++) {
            const char *theirs = all + (size_t)(i == 0 ? 0 : p->rank) * sizeof mine;
            if (at < p->bytes[i]) memcpy(p->text[i] + at, theirs, ls_min(sizeof mine, p->bytes[i] - at));
        }
    }
    return ls_ok();
}

static ls_status find_difference(const ls_alike *alike, const digest *digests, int rank, int ranks) {
    pair p = {.rank = rank, .bytes = {digests[0].bytes, digests[rank].bytes}};
    char *all = malloc((size_t)ranks * LS_GATHER_VALUE);
    for (int i = 0; i < 2; i++) p.text[i] = calloc(1, p.bytes[i] + ZEROS);
    ls_status status = ls_error(LS_NO_MEMORY, "no memory for the settings of two ranks");
    if (all != NULL && p.text[0] != NULL && p.text[1] != NULL) status = bring(alike, &p, all);
    if (status.code == LS_OK) status = name_difference(&p);
    free(all);
    for (int i = 0; i < 2; i++) free(p.text[i]);
    return status;
}

static ls_status compare(const ls_alike *alike) {
    ls_launched job;
    LS_TRY(ls_launched_find(&job));
    const digest mine = {ls_hash_bytes(alike->bytes, alike->n), alike->n};
    digest *all = calloc((size_t)job.ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "no memory for what %d ranks have", job.ranks);
    ls_status status = ls_launched_gather("a digest of settings", &mine, sizeof mine, all);
    for (int r = 1; r < job.ranks && status.code == LS_OK; r++)
        if (all[r].hash != all[0].hash || all[r].bytes != all[0].bytes)
            status = find_difference(alike, all, r, job.ranks);
    free(all);
    return status;
}

ls_status ls_alike_end(ls_alike *alike, ls_status mine) {
    if (alike == NULL) return mine;
    const bool whole = fclose(alike->stream) == 0 && alike->bytes != NULL;
    if (mine.code == LS_OK) mine = alike->failed;
    if (mine.code == LS_OK && !whole) mine = ls_error(LS_NO_MEMORY, "no memory for what all ranks must have alike");
    ls_status status = ls_home_agree(mine);
    if (status.code == LS_OK) status = compare(alike);
    free(alike->bytes);
    free(alike);
    return status;
}
