/* The shards of one or several folders: reads shards.json, and checks the shards against it. */
#include "data/left_out_impl.h"
#include "data/shard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool has_suffix(const char *path) {
    const size_t length = strlen(path), n = strlen(LS_SHARD_SUFFIX);
    return length > n && strcmp(path + length - n, LS_SHARD_SUFFIX) == 0;
}

static bool holds(const char *folder, const char *name) {
    LS_PATH path = NULL;
    return ls_path_join(folder, name, &path).code == LS_OK && ls_file_exists(path);
}

bool ls_is_shards(const char *path) {
    if (!ls_file_is_folder(path)) return has_suffix(path);
    return holds(path, LS_SHARDS_FILE) || holds(path, LS_SHARDS_JOURNAL);
}

static ls_status add_file(ls_shard_set *set, const char *path) {
    if (set->n == set->capacity) {
        const int64_t wanted = 2 * set->capacity + 16;
        ls_shard *grown = realloc(set->shard, (size_t)wanted * sizeof *grown);
        if (grown == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld shards", (long long)wanted);
        set->shard = grown;
        set->capacity = wanted;
    }
    LS_TRY(ls_shard_open(path, &set->shard[set->n]));
    set->n++;
    return ls_ok();
}

static ls_status add_listed(ls_shard_set *set, const char *folder, ls_json_value row) {
    LS_PATH path = NULL;
    char expected[20];
    const char *name, *checksum;
    int64_t tokens, documents;
    LS_TRY(ls_json_text(row, "file", &name));
    if (!has_suffix(name) || strchr(name, '/') != NULL)
        return ls_json_error(ls_json_field(row, "file"), "a name of this folder that ends with " LS_SHARD_SUFFIX);
    LS_TRY(ls_json_int(row, "tokens", 0, INT64_MAX, &tokens));
    LS_TRY(ls_json_int(row, "documents", 0, INT64_MAX, &documents));
    LS_TRY(ls_json_text(row, "checksum", &checksum));
    LS_TRY(ls_path_join(folder, name, &path));
    LS_TRY(add_file(set, path));
    const ls_shard_header *h = set->shard[set->n - 1].header;
    snprintf(expected, sizeof expected, "%016" PRIx64, h->checksum);
    if ((uint64_t)tokens == h->tokens && (uint64_t)documents == h->documents && strcmp(checksum, expected) == 0)
        return ls_ok();
    return ls_error(LS_INVALID, "%s: is not the shard that %s/" LS_SHARDS_FILE " lists (checksum %s, expected %.20s)",
                    path, folder, expected, checksum);
}

/* Adds the counts of what was left out from shards.json; files of older versions do not have all of them. */
static ls_status add_left_out(ls_shard_set *set, ls_json_value root) {
    ls_left_out left_out = {0};
    int64_t empty, bad;
    const char *name;
    int64_t *field;
    LS_TRY(ls_json_int_or(root, "empty", 0, 0, INT64_MAX / 2, &empty));
    LS_TRY(ls_json_int_or(root, "bad", 0, 0, INT64_MAX / 2, &bad));
    for (size_t i = 0; (field = ls_left_out_field(&left_out, i, &name)) != NULL; i++)
        LS_TRY(ls_json_int_or(root, name, 0, 0, INT64_MAX / 2, field));
    set->empty += empty;
    set->bad += bad;
    ls_left_out_add(&set->left_out, &left_out);
    return ls_ok();
}

static ls_status add_rows(ls_shard_set *set, const char *folder, ls_json_value root) {
    const char *format;
    ls_json_value rows;
    int64_t total, tokens = 0;
    LS_TRY(ls_json_text(root, "format", &format));
    if (strcmp(format, LS_SHARDS_FORMAT) != 0)
        return ls_json_error(ls_json_field(root, "format"), "\"" LS_SHARDS_FORMAT "\"");
    LS_TRY(add_left_out(set, root));
    LS_TRY(ls_json_array(root, "shards", &rows));
    for (size_t i = 0; i < ls_json_count(rows); i++) {
        const ls_json_value row = ls_json_item(rows, i);
        LS_TRY(ls_json_as_object(row));
        LS_TRY(add_listed(set, folder, row));
        tokens += (int64_t)set->shard[set->n - 1].header->tokens;
    }
    return ls_json_int(root, "tokens", tokens, tokens, &total); /* the list is complete, and no shard occurs twice */
}

ls_status ls_shard_set_add(ls_shard_set *set, const char *path) {
    LS_PATH list = NULL;
    ls_json *document = NULL;
    if (!ls_file_is_folder(path)) return add_file(set, path);
    if (!holds(path, LS_SHARDS_FILE))
        return ls_error(LS_INVALID,
                        holds(path, LS_SHARDS_JOURNAL)
                            ? "%s: these token shards are not finished; continue with longspan data build --resume"
                            : "%s: no " LS_SHARDS_FILE " in it, expected a folder of token shards",
                        path);
    LS_TRY(ls_path_join(path, LS_SHARDS_FILE, &list));
    LS_TRY(ls_json_read(list, LS_JSON_MOST_BYTES, &document));
    const ls_status status = add_rows(set, path, ls_json_root(document));
    ls_json_free(document);
    return status;
}

ls_status ls_shard_set_check(const ls_shard_set *set, uint64_t tokenizer, const char *name, int64_t vocabulary) {
    for (int64_t i = 0; i < set->n; i++) {
        const ls_shard_header *h = set->shard[i].header;
        if (h->tokenizer == tokenizer && h->vocabulary == (uint64_t)vocabulary) continue;
        return ls_error(LS_INVALID,
                        "%s: made by the tokenizer %016" PRIx64
                        " of %llu tokens, but the model's is \"%s\", %016" PRIx64
                        " of %lld; build the shards with the model's tokenizer",
                        set->shard[i].path, h->tokenizer, (unsigned long long)h->vocabulary, name, tokenizer,
                        (long long)vocabulary);
    }
    return ls_ok();
}

ls_status ls_shard_set_verify(const ls_shard_set *set, int64_t first, int64_t every) {
    ls_machine machine;
    ls_pool *pool = NULL;
    ls_machine_detect(&machine);
    LS_TRY(ls_pool_create(machine.cores, false, &pool));
    ls_progress progress = ls_progress_start("verifying shards", set->n);
    const double began = ls_seconds();
    double bytes = 0;
    int64_t n = 0;
    ls_status status = ls_ok();
    for (int64_t i = first; i < set->n && status.code == LS_OK; i += every, n++) {
        status = ls_shard_check(&set->shard[i], pool);
        bytes += (double)set->shard[i].map.bytes;
        if (progress.terminal) ls_progress_show(&progress, i + 1, "");
    }
    if (progress.terminal) ls_progress_end(&progress);
    ls_pool_destroy(pool);
    const double seconds = ls_seconds() - began;
    if (status.code == LS_OK) ls_log("verified: %lld shards, %.1f MB in %.2f s", (long long)n, 1e-6 * bytes, seconds);
    return status;
}

void ls_shard_set_close(ls_shard_set *set) {
    for (int64_t i = 0; i < set->n; i++) ls_shard_close(&set->shard[i]);
    free(set->shard);
    *set = (ls_shard_set){0};
}
