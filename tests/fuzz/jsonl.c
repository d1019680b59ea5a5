/*
 * Any JSONL file is refused, or its columns have one number for each line, and truncating it keeps the lines before the
 * cut.
 */
#include "fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>

static const char *const keys[] = {"step", "loss"};
enum { MOST = 5 };

static void run(const uint8_t *data, size_t bytes) {
    fuzz_folder folder = fuzz_folder_make();
    LS_PATH path = NULL;
    double *before = NULL, *after = NULL;
    int64_t lines = 0, left = 0, dropped = 0;
    fuzz_folder_put(&folder, "metrics.jsonl", data, bytes);
    fuzz_folder_path(&folder, "metrics.jsonl", &path);
    const bool read = fuzz_read(ls_jsonl_columns(path, keys, LS_COUNT(keys), &before, &lines), path);
    if (fuzz_read(ls_jsonl_truncate(path, "step", MOST, &dropped, NULL), path)) {
        LS_ASSERT(read && fuzz_done(ls_jsonl_columns(path, keys, LS_COUNT(keys), &after, &left)));
        LS_ASSERT(left + dropped == lines);
        for (int64_t i = 0; i < left; i++) LS_ASSERT(after[i] <= MOST);
    }
    free(before);
    free(after);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_jsonl = {.name = "jsonl", .run = run};
