/*
 * What to save, and no more: the least recompute with which a rank fits into the memory allowed. Each try compiles the program
 * of rank 0 and reads its bytes, so the answer is as exact as the program. Tiling the loss costs nearly nothing and is
 * always done; tiling everything else is tried where it saves recompute.
 */
#include "plan/plan_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const ls_job *job;
    ls_target target;
    size_t allowed;
    int most;     /* candidates for recompute */
    size_t least; /* bytes of the smallest program seen */
    ls_saving smallest;
    ls_status status; /* of the compiler */
} search;

static bool fits(search *s, ls_tile_kind tile, int drop) {
    s->target.saving.tile = tile;
    s->target.saving.drop = drop;
    ls_image *image;
    if (s->status.code == LS_OK) s->status = ls_compile(s->job, &s->target, &image);
    if (s->status.code != LS_OK) return true; /* looking further is no use */
    const size_t bytes = image->bytes[LS_PRIVATE] + image->bytes[LS_SYMMETRIC];
    ls_image_destroy(image);
    if (bytes < s->least) {
        s->least = bytes;
        s->smallest = s->target.saving;
    }
    return bytes <= s->allowed;
}

/*
 * The fewest of [0, most] to drop so that it fits; -1: none does. More dropped is less memory but for the last few, whose
 * chains are long, so a coarse walk upwards finds the part to halve.
 */
static int fewest(search *s, ls_tile_kind tile, int most) {
    enum { STRIDES = 8 };
    if (fits(s, tile, 0)) return 0;
    int low = 0, high = -1;
    for (int i = 1; i <= STRIDES && high < 0; i++) {
        const int drop = (int)((int64_t)most * i / STRIDES);
        if (drop == low) continue;
        if (fits(s, tile, drop))
            high = drop;
        else
            low = drop;
    }
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (fits(s, tile, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The better of tiling the loss and tiling all, for what is left to choice. */
static ls_saving choose(search *s, const ls_plan_request *request) {
    const bool free_tile = request->tile < 0, free_drop = request->drop < 0;
    const ls_tile_kind first = free_tile ? LS_TILE_LOSS : (ls_tile_kind)request->tile;
    const ls_tile_kind last = free_tile ? LS_TILE_ALL : first;
    ls_saving best = {.drop = -1, .tile_rows = request->tile_rows};
    for (int t = (int)first; t <= (int)last; t++) {
        const ls_tile_kind tile = (ls_tile_kind)t;
        int drop = free_drop ? fewest(s, tile, s->most) : (int)ls_min(request->drop, s->most);
        if (!free_drop && !fits(s, tile, drop)) drop = -1;
        if (drop < 0 || (best.drop >= 0 && best.drop <= drop)) continue;
        best.drop = drop;
        best.tile = tile;
        if (drop == 0) break;
    }
    return best.drop >= 0 ? best : s->smallest;
}

ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed,
                         ls_target *target) {
    ls_saving saving = {.tile = request->tile < 0 ? LS_TILE_LOSS : (ls_tile_kind)request->tile,
                        .tile_rows = request->tile_rows};
    const int most = ls_recompute_count(job);
    if (request->drop > 0) saving.drop = (int)ls_min(request->drop, most);
    target->saving = saving;
    if (allowed <= 0) return ls_ok();
    search s = {.job = job,
                .target = *target,
                .allowed = (size_t)allowed,
                .most = most,
                .least = SIZE_MAX,
                .smallest = saving,
                .status = ls_ok()};
    target->saving = choose(&s, request);
    return s.status;
}

/* auto: -1. */
static ls_status parse_drop(const char *text, int *out) {
    *out = -1;
    if (text == NULL || strcmp(text, "auto") == 0) return ls_ok();
    *out = INT_MAX;
    if (strcmp(text, "all") == 0) return ls_ok();
    char *end = NULL;
    errno = 0;
    const long n = strcmp(text, "none") == 0 ? 0 : strtol(text, &end, 10);
    if ((end != NULL && (*end != 0 || end == text)) || errno != 0 || n < 0 || n > INT_MAX)
        return ls_error(LS_USAGE, "--recompute %s; expected auto, none, all or a number of results", text);
    *out = (int)n;
    return ls_ok();
}

ls_status ls_plan_wishes(const ls_spread *spread, ls_plan_request *request) {
    request->memory = spread->memory;
    request->tile_rows = spread->tile_rows;
    request->drop = request->tile = -1;
    if (spread->memory < 0)
        return ls_error(LS_USAGE, "--memory %lld; expected a number of bytes", (long long)spread->memory);
    if (spread->tile_rows < 0)
        return ls_error(LS_USAGE, "--tile-rows %lld; expected a number of tokens",
                        (long long)spread->tile_rows);
    if (spread->tile != NULL && strcmp(spread->tile, "auto") != 0) {
        ls_tile_kind kind;
        LS_TRY(ls_tile_parse(spread->tile, &kind));
        request->tile = (int)kind;
    }
    return parse_drop(spread->recompute, &request->drop);
}
