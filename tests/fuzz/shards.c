/*
 * Any shards.json is refused, or it names shards of its folder, which can be trained on and inspected. The folder has
 * the two shards of fuzz_put_shards.
 */
#include "cli/cli.h"
#include "data/build_impl.h"
#include "data/data.h"
#include "fuzz/fuzz.h"
#include "longspan/data.h"

#include <string.h>

static void check_set(const ls_shard_set *set) {
    for (int64_t i = 0; i < set->n; i++) {
        const ls_shard *shard = &set->shard[i];
        LS_ASSERT(shard->header->documents > 0 && strstr(shard->path, "/shard-00000"));
        LS_ASSERT(fuzz_done(ls_shard_verify(shard, NULL)));
    }
}

static void inspect(const char *path) {
    const ls_data_inspect_job job = {.paths = &path, .n_paths = 1};
    FILE *out = fopen("/dev/null", "w");
    LS_ASSERT(out);
    fuzz_done(ls_run_data_inspect(&job, out));
    LS_ASSERT(fclose(out) == 0);
}

/* Resuming a build finds that it is finished, or that the folder belongs to another build. */
static void resume(const char *path) {
    const ls_build_options options = {.out = path, .resume = true};
    ls_build_state state = {.request = FUZZ_REQUEST};
    bool done = false;
    if (!fuzz_read(ls_journal_begin(&options, &state, &done), path)) return;
    LS_ASSERT(done && state.count.documents >= 0 && state.count.tokens >= 0 && state.n_shards >= 0);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_folder folder = fuzz_folder_make();
    fuzz_put_shards(&folder);
    fuzz_folder_put(&folder, "shards.json", data, bytes);
    ls_shard_set set = {0};
    if (fuzz_read(ls_shard_set_add(&set, folder.path), folder.path)) {
        check_set(&set);
        fuzz_check_samples(folder.path, 4, false);
        inspect(folder.path);
    }
    ls_shard_set_close(&set);
    resume(folder.path);
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_shards = {.name = "shards", .run = run};
