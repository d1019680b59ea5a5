/* How a job is spread, as agreed by the processes of launched ranks. */
#include "session/spread_impl.h"

#include "session/alike.h"
#include "session/home.h"

#include <stdio.h>
#include <string.h>

/*
 * The fields of ls_spread that must be equal. For threads, device and kernels, the values in use are compared instead.
 */
typedef enum field_kind { TEXT, INTEGER, FLAG } field_kind;
static const struct {
    const char *flag;
    field_kind kind;
    size_t at;
} fields[] = {
#define FIELD(flag, kind, name) \
    { flag, kind, offsetof(ls_spread, name) }
    FIELD("--strategy", TEXT, strategy),   FIELD("--mesh", TEXT, mesh),
    FIELD("--layout", TEXT, layout),       FIELD("--transfers", TEXT, transfers),
    FIELD("--shard", TEXT, shard),         FIELD("--sums", TEXT, sums),
    FIELD("--kernels", TEXT, kernels),     FIELD("--memory", INTEGER, memory),
    FIELD("--recompute", TEXT, recompute), FIELD("--offload", TEXT, offload),
    FIELD("--tile", TEXT, tile),           FIELD("--tile-rows", INTEGER, tile_rows),
    FIELD("--measure", FLAG, measure),     FIELD("--pipeline", TEXT, pipeline),
#undef FIELD
};

static void add_fields(ls_alike *alike, const ls_spread *spread) {
    for (size_t i = 0; i < LS_COUNT(fields); i++) {
        const void *at = (const char *)spread + fields[i].at;
        if (fields[i].kind == TEXT)
            ls_alike_add_text(alike, fields[i].flag, *(const char *const *)at);
        else if (fields[i].kind == INTEGER)
            ls_alike_add(alike, fields[i].flag, "%lld", (long long)*(const int64_t *)at);
        else
            ls_alike_add(alike, fields[i].flag, "%s", *(const bool *)at ? "given" : "left out");
    }
}

/* "cuda:3:launched" without the number, because each rank may have a GPU of its own. */
static void kind_of_device(const char *device, char out[64]) {
    size_t n = 0;
    for (const char *c = device; *c != 0 && n + 1 < 64;) {
        const size_t digits = *c == ':' ? strspn(c + 1, "0123456789") : 0;
        if (digits > 0)
            c += 1 + digits;
        else
            out[n++] = *c++;
    }
    out[n] = 0;
}

static ls_status follow_threads(const ls_spread *spread, ls_plan_request *request) {
    int32_t threads = request->threads;
    LS_TRY(ls_home_tell(&threads, sizeof threads));
    if (threads < 1 || threads > LS_MOST_THREADS)
        return ls_error(LS_INVALID, "rank 0 tells %d threads; expected 1 to %d", threads, LS_MOST_THREADS);
    if (spread->threads == 0) request->threads = threads;
    return ls_ok();
}

static ls_status follow_kernels(const ls_spread *spread, ls_kernel_device device, ls_plan_request *request) {
    char kernels[LS_KERNEL_CHOICES_ROOM];
    ls_kernel_choices_text(&request->kernels, kernels);
    LS_TRY(ls_home_tell(kernels, sizeof kernels));
    kernels[sizeof kernels - 1] = 0;
    if (spread->kernels != NULL || ls_is_home()) return ls_ok();
    return ls_kernel_choices_parse(kernels, device, request->isa, &request->kernels);
}

ls_status ls_spread_agree(const ls_spread *spread, ls_kernel_device device, ls_plan_request *request) {
    ls_alike *alike;
    char kind[64];
    if (ls_home_starts_ranks()) return ls_ok();
    LS_TRY(follow_threads(spread, request));
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add_with_remedy(alike, "instruction set", ls_isa_name(request->isa),
                             LS_ISA_VARIABLE "=NAME in the environment of all ranks limits it to one that all have");
    kind_of_device(request->device, kind);
    ls_alike_add(alike, "--device", "%s", kind);
    ls_alike_add(alike, "--threads", "%d", request->threads);
    add_fields(alike, spread);
    LS_TRY(ls_alike_end(alike, ls_ok()));
    return ls_home_agree(follow_kernels(spread, device, request));
}
