/*
 * What a candidate must save so that a rank fits into the memory allowed. Each attempt compiles the programs of rank 0
 * and reads their bytes.
 *
 * Tiling the loss costs nearly nothing and is always done; tiling everything is tried if the rank does not fit, or only
 * with recompute. Then as few results of the forward pass as possible are computed again in the backward pass. On a
 * device with memory of its own they may wait in that of the host instead, and so may what the optimiser keeps: there
 * each way to fit is costed, and the fastest is taken.
 */
#include "plan/plan_impl.h"

#include "simulate/simulate.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const ls_job *job;
    const ls_plan_request *request;
    ls_target target; /* its saving is the next attempt */
    size_t allowed;
    size_t least; /* bytes of `smallest` */
    ls_saving smallest;
    size_t always;    /* bytes of the last attempt that no recompute and no tile saves */
    ls_status status; /* of the compiler */
} search;

/* --- one attempt -------------------------------------------------------------------------------------------------- */

/* Of parameters, sums of gradients and the optimiser's state where the device computes. */
static size_t always_there(const ls_image *image) {
    size_t bytes = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        const bool here = b->space == LS_PRIVATE || b->space == LS_SYMMETRIC;
        const bool is =
            b->kind == LS_BUFFER_PARAMETER || b->kind == LS_BUFFER_GRADIENT || b->kind == LS_BUFFER_OPTIMIZER;
        if (here && is && b->program < 0) bytes += b->bytes;
    }
    return bytes;
}

static bool fits(search *s) {
    ls_image *image;
    if (s->status.code == LS_OK) s->status = ls_compile(s->job, &s->target, &image);
    if (s->status.code != LS_OK) return true; /* ends the search */
    const size_t bytes = ls_image_mapped(image), host = image->host_apart ? image->bytes[LS_HOST] : 0;
    s->always = always_there(image);
    ls_image_destroy(image);
    const bool has_host = s->request->host_memory == 0 || (int64_t)host <= s->request->host_memory;
    if (bytes < s->least && has_host) {
        s->least = bytes;
        s->smallest = s->target.saving;
    }
    return bytes <= s->allowed && has_host;
}

/*
 * Sets *number, a member of the next attempt's saving, to about the fewest of (low, high] with which the rank fits; it
 * does with `high`, and not with `low`. A few more than the fewest make no difference that counts.
 */
static void bisect(search *s, int *number, int low, int high, int most) {
    enum { PRECISION = 128 };
    while (high - low > 1 + most / PRECISION) {
        *number = (low + high) / 2;
        if (fits(s))
            high = *number;
        else
            low = *number;
    }
    *number = high;
}

/*
 * The fewest results to make again. More need less memory, except for the last few, whose chains are long; therefore a
 * coarse walk upwards finds the interval to bisect. False: the rank fits with none. Where only that is asked, the walk
 * goes downwards, from where the rank is most likely to fit, and is left out where it cannot help.
 */
static bool find_recompute(search *s) {
    enum { STRIDES = 8 };
    int *number = &s->target.saving.drop, low = 0;
    const int most = ls_recompute_count(s->job);
    const bool only_fit = s->request->only_fit;
    *number = 0;
    if (fits(s)) return true;
    if (only_fit && s->always > s->allowed) return false;
    for (int i = 1; i <= STRIDES; i++) {
        *number = (int)((int64_t)most * (only_fit ? STRIDES + 1 - i : i) / STRIDES);
        if (*number == low || *number == 0) continue;
        if (fits(s)) {
            if (only_fit) return true;
            bisect(s, number, low, *number, most);
            return true;
        }
        low = *number;
    }
    return false;
}

/* The fewest results that wait in memory of the host. The more, the less memory. */
static bool find_offload(search *s) {
    int *number = &s->target.saving.offload;
    const int most = ls_offload_count(s->job, s->target.saving.drop);
    *number = most;
    if (!fits(s)) return false;
    *number = 0;
    if (!fits(s)) bisect(s, number, 0, most, most);
    return true;
}

/* Seconds of rank 0 where it never waits for others. */
static double seconds_of(search *s) {
    ls_image *image;
    double seconds = 0;
    if (s->status.code == LS_OK) s->status = ls_compile(s->job, &s->target, &image);
    if (s->status.code != LS_OK) return INFINITY;
    const ls_rates rates = ls_plan_rates(image, &s->request->host);
    for (int p = 0; p < image->n_programs; p++)
        if (image->programs[p].runs > 0) seconds += image->programs[p].runs * ls_simulate_alone(image, p, &rates);
    ls_image_destroy(image);
    return seconds;
}

/* --- ways to fit -------------------------------------------------------------------------------------------------- */

/* What is searched for, with the rest of the saving as the request and the way fix it. */
typedef enum sought { NOTHING, RECOMPUTE, OFFLOAD } sought;

typedef struct way {
    sought sought;
    bool state; /* what the optimiser keeps waits in memory of the host */
    int drop, offload;
} way;

static bool try_tile(search *s, const way *w, ls_tile_kind tile) {
    ls_saving *saving = &s->target.saving;
    *saving = (ls_saving){.drop = w->drop,
                          .tile = tile,
                          .tile_rows = s->request->tile_rows,
                          .offload = w->offload,
                          .offload_state = w->state};
    return w->sought == RECOMPUTE ? find_recompute(s) : w->sought == OFFLOAD ? find_offload(s) : fits(s);
}

/*
 * Tries to tile the loss, and all, as far as the request leaves that free; of two that fit, the one that recomputes
 * fewer results. False: the rank does not fit this way.
 */
static bool try_way(search *s, const way *w, ls_saving *out) {
    const int tile = s->request->tile;
    const int first = tile < 0 ? LS_TILE_LOSS : tile, last = tile < 0 ? LS_TILE_ALL : tile;
    bool found = false;
    for (int t = first; t <= last; t++) {
        if (!try_tile(s, w, (ls_tile_kind)t)) continue;
        const ls_saving *saving = &s->target.saving;
        if (!found || saving->drop < out->drop) *out = *saving;
        found = true;
        if (w->sought != RECOMPUTE || saving->drop == 0) break;
    }
    return found;
}

enum { MOST_WAYS = 8 };

/* The ways to try, recompute alone first. Offload gains nothing where the device computes in memory of the host. */
static int list_ways(const search *s, way out[MOST_WAYS]) {
    const ls_plan_request *r = s->request;
    const int most = ls_recompute_count(s->job), drop = (int)ls_min(ls_max(r->drop, 0), most);
    const bool free_drop = r->drop < 0, free_offload = r->offload < 0 && r->host_apart;
    const bool may_state = r->offload_state < 0 ? r->host_apart : r->offload_state > 0;
    int n = 0;
    for (int state = r->offload_state > 0; state <= (int)may_state; state++) {
        out[n++] = (way){free_drop ? RECOMPUTE : NOTHING, state != 0, drop, (int)ls_max(r->offload, 0)};
        if (!free_offload) continue;
        out[n++] = (way){OFFLOAD, state != 0, drop, 0};
        if (!free_drop) continue;
        out[n++] = (way){OFFLOAD, state != 0, most, 0};
        out[n++] = (way){RECOMPUTE, state != 0, 0, LS_OFFLOAD_ALL};
    }
    return n;
}

/* Whether it saves nothing that takes time. */
static bool is_free(const ls_saving *saving) {
    return saving->drop == 0 && saving->offload == 0 && !saving->offload_state && saving->tile != LS_TILE_ALL;
}

/* The fastest of the ways to fit. False: there is none, and what needs fewest bytes is s->smallest. */
static bool choose(search *s, ls_saving *out) {
    way ways[MOST_WAYS];
    const int n = list_ways(s, ways);
    double best_seconds = INFINITY;
    bool fit = false;
    for (int i = 0; i < n && s->status.code == LS_OK; i++) {
        ls_saving found = {0};
        if (!try_way(s, &ways[i], &found)) continue;
        const bool settled = n == 1 || is_free(&found) || s->request->only_fit;
        s->target.saving = found;
        const double seconds = settled ? 0 : seconds_of(s);
        if (!fit || seconds < best_seconds) *out = found;
        best_seconds = fmin(best_seconds, seconds);
        fit = true;
        if (settled) break;
    }
    return fit;
}

ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed, ls_target *target,
                         size_t *lacking) {
    target->saving = (ls_saving){.drop = (int)ls_min(ls_max(request->drop, 0), ls_recompute_count(job)),
                                 .tile = request->tile < 0 ? LS_TILE_LOSS : (ls_tile_kind)request->tile,
                                 .tile_rows = request->tile_rows,
                                 .offload = (int)ls_max(request->offload, 0),
                                 .offload_state = request->offload_state > 0};
    *lacking = 0;
    if (allowed <= 0) return ls_ok();
    search s = {.job = job,
                .request = request,
                .target = *target,
                .allowed = (size_t)allowed,
                .least = SIZE_MAX,
                .smallest = target->saving,
                .status = ls_ok()};
    if (!choose(&s, &target->saving)) {
        target->saving = s.smallest;
        *lacking = s.least;
    }
    return s.status;
}

/* --- the user's wishes -------------------------------------------------------------------------------------------- */

/* "auto" is -1. */
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

ls_status ls_plan_memory_options(const ls_spread *spread, ls_plan_request *request) {
    request->memory = spread->memory;
    request->tile_rows = spread->tile_rows;
    request->drop = request->tile = -1;
    if (spread->memory < 0)
        return ls_error(LS_USAGE, "--memory %lld; expected a number of bytes", (long long)spread->memory);
    if (spread->tile_rows < 0)
        return ls_error(LS_USAGE, "--tile-rows %lld; expected a number of tokens", (long long)spread->tile_rows);
    if (spread->tile != NULL && strcmp(spread->tile, "auto") != 0) {
        ls_tile_kind kind;
        LS_TRY(ls_tile_parse(spread->tile, &kind));
        request->tile = (int)kind;
    }
    LS_TRY(ls_offload_parse(spread->offload, &request->offload, &request->offload_state));
    return parse_drop(spread->recompute, &request->drop);
}
