/* Writes safetensors files: a plan of the file, and writers that fill the file according to the plan. */
#include "format/file.h"
#include "format/format_impl.h"
#include "format/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALIGNMENT 64

struct ls_st_plan {
    int64_t count;
    int64_t *offset; /* [count + 1] from the start of the file; the last one is the size of the file */
    char *header;    /* with the eight bytes of its length before it */
    size_t header_bytes;
};

static ls_status entry_bytes(const ls_st_entry *entry, int64_t *bytes) {
    int64_t size = (int64_t)ls_st_dtype_bytes(entry->dtype);
    LS_ASSERT(entry->ndim >= 0 && entry->ndim <= LS_ST_DIMS);
    bool fits = true;
    for (int d = 0; d < entry->ndim; d++)
        fits = fits && entry->shape[d] >= 0 && ls_multiply(size, entry->shape[d], &size);
    if (fits) {
        *bytes = size;
        return ls_ok();
    }
    char shape[160];
    ls_shape_text(entry->ndim, entry->shape, shape, sizeof shape);
    return ls_error(LS_INVALID,
                    "tensor '%s' has shape %s, expected sizes of at least 0 with a product that fits 63 bits",
                    entry->name, shape);
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}; NULL without memory. */
static json_t *describe(const ls_st_entry *entry, int64_t begin, int64_t end) {
    json_t *shape = json_array();
    for (int d = 0; d < entry->ndim; d++) json_array_append_new(shape, json_integer(entry->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ls_st_dtype_name(entry->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* Adds a member and releases the caller's reference to `value`. what: "tensor name" or "metadata key". */
static ls_status add(json_t *object, const char *what, const char *key, json_t *value) {
    ls_status status = ls_ok();
    json_t *valid = json_string(key);
    if (!value)
        status = ls_error(LS_INVALID, "the value of %s '%s' is not UTF-8, or there is no memory", what, key);
    else if (!key[0] || !valid)
        status = ls_error(LS_INVALID, "%s '%s' is %s", what, key, key[0] ? "not UTF-8" : "empty");
    else if (json_object_get(object, key))
        status = ls_error(LS_INVALID, "%s '%s' is given twice", what, key);
    else
        json_object_set(object, key, value);
    json_decref(valid);
    json_decref(value);
    return status;
}

static ls_status add_metadata(json_t *root, const ls_st_pair *metadata, int64_t n) {
    if (n == 0) return ls_ok();
    json_t *all = json_object();
    json_object_set_new(root, "__metadata__", all);
    for (int64_t i = 0; i < n; i++) LS_TRY(add(all, "metadata key", metadata[i].key, json_string(metadata[i].value)));
    return ls_ok();
}

/* Fills the offsets, from the start of the data, and the tree of the header. */
static ls_status lay_out(ls_st_plan *plan, const ls_st_entry *entries, json_t *root) {
    plan->offset[0] = 0;
    for (int64_t i = 0; i < plan->count; i++) {
        int64_t bytes = 0, begin = plan->offset[i];
        LS_TRY(entry_bytes(&entries[i], &bytes));
        if (__builtin_add_overflow(begin, bytes, &plan->offset[i + 1]) || plan->offset[i + 1] > INT64_MAX / 2)
            return ls_error(LS_INVALID, "tensor '%s' makes the file longer than 2^62 bytes", entries[i].name);
        if (strcmp(entries[i].name, "__metadata__") == 0)
            return ls_error(LS_INVALID, "a tensor may not be called __metadata__");
        LS_TRY(add(root, "tensor name", entries[i].name, describe(&entries[i], begin, plan->offset[i + 1])));
    }
    return ls_ok();
}

static ls_status print_header(ls_st_plan *plan, const json_t *root) {
    char *text = json_dumps(root, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0;
    plan->header_bytes = ls_round_up(8 + length, ALIGNMENT);
    plan->header = malloc(plan->header_bytes);
    if (!text || !plan->header) {
        free(text);
        return ls_error(LS_NO_MEMORY, "no memory for a safetensors header of %zu bytes", length);
    }
    uint64_t padded = plan->header_bytes - 8;
    for (int i = 0; i < 8; i++) plan->header[i] = (char)(padded >> (8 * i) & 0xff);
    memcpy(plan->header + 8, text, length);
    memset(plan->header + 8 + length, ' ', padded - length);
    free(text);
    for (int64_t i = 0; i <= plan->count; i++) plan->offset[i] += (int64_t)plan->header_bytes;
    return ls_ok();
}

/* Fills an empty plan. The caller destroys it, also after an error. */
static ls_status make_plan(ls_st_plan *plan, const ls_st_entry *entries, int64_t n, const ls_st_pair *metadata,
                           int64_t n_metadata) {
    json_t *root = json_object();
    plan->count = n;
    plan->offset = calloc((size_t)n + 1, sizeof *plan->offset);
    if (!plan->offset || !root) {
        json_decref(root);
        return ls_error(LS_NO_MEMORY, "no memory to plan a file of %lld tensors", (long long)n);
    }
    ls_status status = add_metadata(root, metadata, n_metadata);
    if (status.code == LS_OK) status = lay_out(plan, entries, root);
    if (status.code == LS_OK) status = print_header(plan, root);
    json_decref(root);
    return status;
}

ls_status ls_st_plan_create(const ls_st_entry *entries, int64_t n, const ls_st_pair *metadata, int64_t n_metadata,
                            ls_st_plan **out) {
    LS_ASSERT(n >= 0 && n_metadata >= 0);
    ls_st_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return ls_error(LS_NO_MEMORY, "no memory to plan a file of %lld tensors", (long long)n);
    ls_status status = make_plan(plan, entries, n, metadata, n_metadata);
    if (status.code == LS_OK)
        *out = plan;
    else
        ls_st_plan_destroy(plan);
    return status;
}

void ls_st_plan_destroy(ls_st_plan *plan) {
    if (!plan) return;
    free(plan->header);
    free(plan->offset);
    free(plan);
}

int64_t ls_st_plan_offset(const ls_st_plan *plan, int64_t i) {
    LS_ASSERT(i >= 0 && i < plan->count);
    return plan->offset[i];
}

int64_t ls_st_plan_bytes(const ls_st_plan *plan, int64_t i) {
    LS_ASSERT(i >= 0 && i < plan->count);
    return plan->offset[i + 1] - plan->offset[i];
}

int64_t ls_st_plan_file_bytes(const ls_st_plan *plan) { return plan->offset[plan->count]; }

/* ---- filling a file ---- */

struct ls_st_writer {
    int fd;
    char *path;
    const ls_st_plan *plan;
};

static ls_status open_writer(const char *path, const ls_st_plan *plan, int flags, ls_st_writer **out) {
    ls_st_writer *writer = calloc(1, sizeof *writer);
    if (!writer || !(writer->path = strdup(path))) {
        free(writer);
        return ls_error(LS_NO_MEMORY, "no memory to write %s", path);
    }
    writer->plan = plan;
    writer->fd = open(path, flags | O_RDWR | O_CLOEXEC, 0666);
    if (writer->fd < 0) {
        ls_status status = ls_file_error("create", path, errno);
        free(writer->path);
        free(writer);
        return status;
    }
    *out = writer;
    return ls_ok();
}

void ls_st_abandon(ls_st_writer *writer) {
    if (!writer) return;
    close(writer->fd);
    free(writer->path);
    free(writer);
}

static ls_status reserve(const ls_st_writer *writer) {
    int64_t bytes = ls_st_plan_file_bytes(writer->plan);
    int failed;
    do failed = posix_fallocate(writer->fd, 0, (off_t)bytes);
    while (failed == EINTR);
    if (failed == EINVAL || failed == EOPNOTSUPP) /* the file system cannot reserve space */
        failed = ftruncate(writer->fd, (off_t)bytes) == 0 ? 0 : errno;
    if (failed)
        return ls_error(LS_IO, "cannot reserve %lld bytes for %s: %s", (long long)bytes, writer->path,
                        strerror(failed));
    return ls_file_write_at(writer->fd, writer->path, writer->plan->header, writer->plan->header_bytes, 0);
}

ls_status ls_st_create(const char *path, const ls_st_plan *plan, ls_st_writer **out) {
    ls_st_writer *writer = NULL;
    ls_status status = open_writer(path, plan, O_CREAT | O_TRUNC, &writer);
    if (!writer) return status;
    status = reserve(writer);
    if (status.code == LS_OK) {
        *out = writer;
        return status;
    }
    unlink(path);
    ls_st_abandon(writer);
    return status;
}

static ls_status check_joined(const ls_st_writer *writer) {
    const ls_st_plan *plan = writer->plan;
    struct stat info;
    if (fstat(writer->fd, &info) != 0) return ls_file_error("stat", writer->path, errno);
    if (info.st_size != ls_st_plan_file_bytes(plan))
        return ls_error(LS_INVALID, "%s is %lld bytes long, but by this rank's plan it has %lld", writer->path,
                        (long long)info.st_size, (long long)ls_st_plan_file_bytes(plan));
    char *header = malloc(plan->header_bytes);
    if (!header) return ls_error(LS_NO_MEMORY, "no memory to check the header of %s", writer->path);
    ssize_t got = pread(writer->fd, header, plan->header_bytes, 0);
    bool same = got == (ssize_t)plan->header_bytes && memcmp(header, plan->header, plan->header_bytes) == 0;
    free(header);
    if (!same) return ls_error(LS_INVALID, "the header of %s is not that of this rank's plan", writer->path);
    return ls_ok();
}

ls_status ls_st_join(const char *path, const ls_st_plan *plan, ls_st_writer **out) {
    ls_st_writer *writer = NULL;
    ls_status status = open_writer(path, plan, 0, &writer);
    if (!writer) return status;
    status = check_joined(writer);
    if (status.code == LS_OK)
        *out = writer;
    else
        ls_st_abandon(writer);
    return status;
}

ls_status ls_st_write(ls_st_writer *writer, int64_t i, int64_t from, const void *data, int64_t bytes) {
    LS_ASSERT(from >= 0 && bytes >= 0 && from <= ls_st_plan_bytes(writer->plan, i) - bytes);
    return ls_file_write_at(writer->fd, writer->path, data, (size_t)bytes, ls_st_plan_offset(writer->plan, i) + from);
}

ls_status ls_st_finish(ls_st_writer *writer) {
    ls_status status = ls_ok();
    if (fsync(writer->fd) != 0) status = ls_file_error("write", writer->path, errno);
    ls_st_abandon(writer);
    return status;
}
