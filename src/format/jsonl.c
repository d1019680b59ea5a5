/* Files with one JSON object per line. */
#include "format/jsonl.h"
#include "format/file.h"
#include "format/format_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The largest file that is read into memory: far more than the metrics of any training. */
#define MOST_BYTES ((size_t)16 << 30)

ls_status ls_jsonl_append(const char *path, ls_json_writer *writer) {
    size_t bytes;
    ls_json_close(writer);
    const char *text = ls_json_written(writer, &bytes);
    const ls_file_piece line[] = {{text, bytes}, {"\n", 1}};
    const ls_status status = ls_file_append(path, line, 2);
    ls_json_writer_destroy(writer);
    return status;
}

/* A position in the complete lines of a text. */
typedef struct line_cursor {
    const char *path, *next, *end;
    int64_t number; /* of the line last returned, from 1 */
} line_cursor;

/* The next line without its newline; false when none is complete. */
static bool next_line(line_cursor *cursor, const char **line, size_t *bytes) {
    if (cursor->next == cursor->end) return false;
    const char *newline = memchr(cursor->next, '\n', (size_t)(cursor->end - cursor->next));
    if (!newline) return false;
    *line = cursor->next;
    *bytes = (size_t)(newline - cursor->next);
    cursor->next = newline + 1;
    cursor->number++;
    return true;
}

static ls_status parse_line(const line_cursor *cursor, const char *line, size_t bytes, ls_json **out) {
    LS_PATH name = NULL;
    LS_TRY(ls_path_print(&name, "%s line %lld", cursor->path, (long long)cursor->number));
    return ls_json_parse(name, line, bytes, out);
}

/* Sets *keep to whether the line's integer field `key` is <= most. On an error *keep is unchanged. */
static ls_status should_keep(const line_cursor *cursor, const char *line, size_t bytes, const char *key, int64_t most,
                             bool *keep) {
    ls_json *document;
    int64_t value;
    LS_TRY(parse_line(cursor, line, bytes, &document));
    ls_status status = ls_json_int(ls_json_root(document), key, INT64_MIN, INT64_MAX, &value);
    ls_json_free(document);
    if (status.code == LS_OK) *keep = value <= most;
    return status;
}

/* Moves the lines that are kept to the front of the text. */
static ls_status keep_lines(const char *path, char *text, size_t bytes, const char *key, int64_t most,
                            size_t *kept_bytes, int64_t *dropped, int64_t *strange) {
    line_cursor cursor = {path, text, text + bytes, 0};
    const char *line;
    size_t length;
    *kept_bytes = 0;
    *dropped = 0;
    while (next_line(&cursor, &line, &length)) {
        bool keep = true;
        const ls_status status = should_keep(&cursor, line, length, key, most, &keep);
        if (status.code != LS_OK && (strange == NULL || status.code != LS_INVALID)) return status;
        if (status.code != LS_OK && *strange == 0) *strange = cursor.number;
        if (keep) {
            memmove(text + *kept_bytes, line, length + 1);
            *kept_bytes += length + 1;
        } else {
            ++*dropped;
        }
    }
    return ls_ok();
}

ls_status ls_jsonl_truncate(const char *path, const char *key, int64_t most, int64_t *dropped, int64_t *strange) {
    char *text;
    size_t bytes, kept;
    int64_t gone = 0, first = 0;
    ls_status status = ls_ok();
    if (ls_file_exists(path)) {
        LS_TRY(ls_file_read(path, MOST_BYTES, &text, &bytes));
        status = keep_lines(path, text, bytes, key, most, &kept, &gone, strange != NULL ? &first : NULL);
        if (status.code == LS_OK && kept < bytes) status = ls_file_write(path, text, kept);
        free(text);
    }
    if (status.code == LS_OK && dropped) *dropped = gone;
    if (status.code == LS_OK && strange) *strange = first;
    return status;
}

static double number_or_nan(ls_json_value object, const char *key) {
    double value;
    ls_status status = ls_json_double(object, key, -INFINITY, INFINITY, &value);
    return status.code == LS_OK ? value : (double)NAN;
}

/* Fills columns that have room for `room` rows each, and removes the gaps between them; *rows is the number of rows. */
static ls_status fill_columns(line_cursor cursor, const char *const *keys, int n_keys, double *out, int64_t room,
                              int64_t *rows) {
    const char *line;
    size_t length;
    *rows = 0;
    while (next_line(&cursor, &line, &length)) {
        ls_json *document;
        const ls_status status = parse_line(&cursor, line, length, &document);
        if (status.code == LS_INVALID) continue;
        LS_TRY(status);
        for (int c = 0; c < n_keys; c++) out[c * room + *rows] = number_or_nan(ls_json_root(document), keys[c]);
        ++*rows;
        ls_json_free(document);
    }
    for (int c = 1; c < n_keys; c++) memmove(out + c * *rows, out + c * room, (size_t)*rows * sizeof *out);
    return ls_ok();
}

ls_status ls_jsonl_columns(const char *path, const char *const *keys, int n_keys, double **out, int64_t *rows) {
    char *text;
    size_t bytes, length;
    const char *line;
    int64_t filled = 0;
    LS_TRY(ls_file_read(path, MOST_BYTES, &text, &bytes));
    const line_cursor start = {path, text, text + bytes, 0};
    line_cursor count = start;
    while (next_line(&count, &line, &length)) {
    }
    double *columns = malloc((size_t)count.number * (size_t)n_keys * sizeof *columns + 1);
    ls_status status = columns
                           ? fill_columns(start, keys, n_keys, columns, count.number, &filled)
                           : ls_error(LS_NO_MEMORY, "no memory for %lld lines of %s", (long long)count.number, path);
    free(text);
    if (status.code != LS_OK) {
        free(columns);
        return status;
    }
    *out = columns;
    *rows = filled;
    return status;
}
