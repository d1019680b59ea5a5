/* Any file of a machine's rates is ignored, or every rate in it is finite and positive. */
#include "fuzz/fuzz.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ls_host_of ref = {.isa = LS_ISA_REF};

static void run(const uint8_t *data, size_t bytes) {
    fuzz_folder folder = fuzz_folder_make();
    LS_PATH path = NULL;
    setenv("XDG_CACHE_HOME", folder.path, 1);
    LS_ASSERT(fuzz_done(ls_host_path(&ref, &path)));
    char *name = strrchr(path, '/');
    *name = 0;
    LS_ASSERT(fuzz_done(ls_file_make_folders(path)));
    fuzz_folder cache;
    snprintf(cache.path, sizeof cache.path, "%s", path);
    fuzz_folder_put(&cache, name + 1, data, bytes);
    ls_host host;
    ls_row_rates rows;
    const bool measured = ls_host_load(&ref, &host, &rows);
    const ls_host nominal = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF);
    LS_ASSERT(measured || memcmp(&host, &nominal, sizeof host) == 0);
    LS_ASSERT(!measured || (host.memory >= 1 && isfinite(host.memory) && isfinite(host.put.near)));
    LS_ASSERT(!measured || (host.latency > 0 && host.overhead > 0 && host.type[LS_F32].matmul > 0));
    LS_ASSERT(!measured || (host.put.far > 0 && host.type[LS_F32].bytes[LS_KERNEL_ADD].near > 0));
    LS_ASSERT(measured || rows.n == 0);
    for (int i = 0; i < rows.n; i++) LS_ASSERT(rows.rate[i].flops >= 1 && rows.rate[i].id != LS_KERNEL_NONE);
    unsetenv("XDG_CACHE_HOME");
    fuzz_folder_remove(&folder);
}

const fuzz_target fuzz_host_rates = {.name = "host_rates", .run = run};
