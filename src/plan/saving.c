/*
 * What a candidate must save so that a rank fits into the allowed memory. Each attempt compiles the programs of rank 0
 * and reads their bytes.
 *
 * Tiling the loss costs nearly nothing and is always done. Tiling everything is tried if the rank does not fit, or fits
 * only with recompute. Then as few results of the forward pass as possible are recomputed in the backward pass. On a
 * device with its own memory, these results may be kept in memory of the host instead, and so may the optimiser's
 * state. There, each way to fit is costed, and the fastest is chosen.
 */
#include "plan/plan_impl.h"

#include "simulate/simulate.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An attempt that did not fit. */
typedef struct attempt {
    ls_saving saving;
    size_t least; /* a lower bound of its bytes */
    bool placed;  /* its bytes are known, and no fewer than those of the smallest attempt */
} attempt;

typedef struct search {
    const ls_job *job;
    const ls_plan_request *request;
    ls_plan_found *found;
    ls_target target; /* the next attempt uses its saving */
    size_t allowed;
    size_t always;    /* ls_plan_least of the last attempt */
    int most;         /* number of results that can be recomputed */
    int low, high;    /* the rank does not fit with `low` recomputed results or fewer; it fits with `high` or more */
    ls_status status; /* of the compiler */
    ls_arena *arena;
    attempt *attempts;
    int n_attempts;
    size_t capacity;
} search;

/* --- one attempt -------------------------------------------------------------------------------------------------- */

static int mode_of(const ls_target *target) { return (int)(ls_target_shard(target) - ls_shard_modes); }

/* Compiles the attempt as far as needed to know whether it fits into `allowed` bytes; 0: to know its bytes. */
static ls_status compile_attempt(search *s, size_t allowed, ls_image **out) {
    s->target.made_for = LS_FOR_BYTES;
    s->target.allowed = allowed;
    return ls_compile(s->job, &s->target, out);
}

static bool fits(search *s) {
    ls_image *image;
    if (s->status.code == LS_OK) s->status = compile_attempt(s, s->allowed, &image);
    if (s->status.code != LS_OK) return true; /* an error ends the search */
    const size_t bytes = ls_image_mapped(image), host = image->host_apart ? image->bytes[LS_HOST] : 0;
    s->always = ls_plan_least(s->request, image);
    ls_plan_note_least(s->found, &s->target.mesh, mode_of(&s->target), s->always);
    ls_image_destroy(image);
    const bool has_host = s->request->host_memory == 0 || (int64_t)host <= s->request->host_memory;
    if (has_host && bytes > s->allowed)
        *LS_PUSH(s->arena, s->attempts, s->n_attempts, s->capacity) =
            (attempt){.saving = s->target.saving, .least = bytes};
    return bytes <= s->allowed && has_host;
}

/*
 * Called if nothing fits: finds the attempt that needs the fewest bytes, the first of equal ones. Attempts that cannot
 * be it are not placed.
 */
static void find_smallest(search *s, ls_saving *out, size_t *least) {
    int smallest = -1;
    for (;;) {
        int next = -1;
        for (int i = 0; i < s->n_attempts; i++)
            if (!s->attempts[i].placed && (next < 0 || s->attempts[i].least < s->attempts[next].least)) next = i;
        if (next < 0 || s->attempts[next].least > *least) return;
        ls_image *image;
        s->target.saving = s->attempts[next].saving;
        s->status = compile_attempt(s, 0, &image);
        if (s->status.code != LS_OK) return;
        const size_t bytes = ls_image_mapped(image);
        ls_image_destroy(image);
        s->attempts[next].placed = true;
        if (bytes > *least || (bytes == *least && smallest < next)) continue;
        *least = bytes;
        *out = s->attempts[next].saving;
        smallest = next;
    }
}

/*
 * Whether the rank fits with this many recomputed results. The answer may follow from attempts with fewer or with more.
 */
static bool fits_with_drop(search *s, int drop) {
    s->target.saving.drop = drop;
    if (drop <= s->low || drop >= s->high) return drop >= s->high;
    const bool fit = fits(s);
    if (fit)
        s->high = drop;
    else
        s->low = drop;
    return fit;
}

static bool fits_with_offload(search *s, int offload) {
    s->target.saving.offload = offload;
    return fits(s);
}

/*
 * Approximately the smallest number in (low, high] with which the rank fits; it fits with `high`, and not with `low`.
 * An excess of a small fraction of `most` makes no relevant difference.
 */
static struct ls_plan_drop bisect(search *s, bool (*fits_with)(search *, int), int low, int high, int most) {
    enum { PRECISION = 128 };
    while (high - low > 1 + most / PRECISION) {
        const int middle = (low + high) / 2;
        if (fits_with(s, middle))
            high = middle;
        else
            low = middle;
    }
    return (struct ls_plan_drop){low, high};
}

/* The coarse walk tries the multiples of 1/STRIDES of all results. */
enum { STRIDES = 8 };
static int stride(const search *s, int i) { return (int)((int64_t)s->most * i / STRIDES); }

/*
 * Finds the smallest number of results to recompute. More recomputed results need less memory, except for the last few,
 * whose chains are long; therefore a coarse walk upwards finds the interval to bisect. First checks whether the
 * interval of an earlier candidate is the right one. False: the rank does not fit.
 */
static bool find_recompute(search *s, struct ls_plan_drop *found) {
    s->low = -1;
    s->high = INT_MAX;
    if (found->high > found->low && fits_with_drop(s, found->high) && found->low >= 0)
        (void)fits_with_drop(s, found->low);
    if (fits_with_drop(s, 0)) {
        *found = (struct ls_plan_drop){-1, 0};
        return true;
    }
    for (int i = 1, low = 0; i <= STRIDES; i++) {
        if (stride(s, i) == low || !fits_with_drop(s, stride(s, i))) {
            low = stride(s, i);
            continue;
        }
        *found = bisect(s, fits_with_drop, low, stride(s, i), s->most);
        s->target.saving.drop = found->high;
        return true;
    }
    return false;
}

/*
 * Whether the rank fits with some number of recomputed results. Tries first the numbers with which it is most likely to
 * fit; tries none if recomputing cannot help.
 */
static bool any_recompute(search *s) {
    s->target.saving.drop = 0;
    if (fits(s)) return true;
    for (int i = STRIDES, last = 0; i > 0 && s->always <= s->allowed; i--) {
        s->target.saving.drop = stride(s, i);
        if (stride(s, i) != last && stride(s, i) > 0 && fits(s)) return true;
        last = stride(s, i);
    }
    return false;
}

/* Finds the smallest number of results to keep in memory of the host. The more of them, the less memory is needed. */
static bool find_offload(search *s) {
    const int most = ls_offload_count(s->job, s->target.saving.drop);
    if (!fits_with_offload(s, most)) return false;
    if (!fits_with_offload(s, 0)) s->target.saving.offload = bisect(s, fits_with_offload, 0, most, most).high;
    return true;
}

/* Seconds of rank 0 without waiting for others. */
static double seconds_of(search *s) {
    ls_image *image;
    double seconds = 0;
    s->target.made_for = LS_FOR_TIME;
    if (s->status.code == LS_OK) s->status = ls_compile(s->job, &s->target, &image);
    if (s->status.code != LS_OK) return INFINITY;
    const ls_rates rates = ls_plan_rates(image, &s->request->host);
    for (int p = 0; p < image->n_programs; p++)
        if (image->programs[p].runs > 0) seconds += image->programs[p].runs * ls_simulate_alone(image, p, &rates);
    ls_image_destroy(image);
    return seconds;
}

/* --- ways to fit -------------------------------------------------------------------------------------------------- */

/* What is searched for, while the request and the way fix the rest of the saving. */
typedef enum sought { NOTHING, RECOMPUTE, OFFLOAD } sought;

typedef struct way {
    sought sought;
    bool state; /* the optimiser's state is kept in memory of the host */
    int drop, offload;
} way;

static void begin_tile(search *s, const way *w, ls_tile_kind tile) {
    s->target.saving = (ls_saving){.drop = w->drop,
                                   .tile = tile,
                                   .tile_rows = s->request->tile_rows,
                                   .offload = w->offload,
                                   .offload_state = w->state};
}

static bool try_tile(search *s, const way *w, ls_tile_kind tile, struct ls_plan_drop *found) {
    begin_tile(s, w, tile);
    if (w->sought == RECOMPUTE) return s->request->only_fit ? any_recompute(s) : find_recompute(s, found);
    return w->sought == OFFLOAD ? find_offload(s) : fits(s);
}

/*
 * Chooses between tiling the loss and tiling everything: the one with fewer recomputed results; the loss, if the
 * numbers are equal. Tiling everything is tried first, because a single attempt then tells whether the loss is worth a
 * search; but not if the rank may fit without recomputed results.
 */
static bool try_both_tiles(search *s, const way *w, struct ls_plan_drop found[LS_TILE_ALL + 1], ls_saving *out) {
    if (found[LS_TILE_ALL].high <= 0) {
        begin_tile(s, w, LS_TILE_LOSS);
        s->target.saving.drop = 0;
        *out = s->target.saving;
        if (fits(s)) return true;
    }
    const bool all = try_tile(s, w, LS_TILE_ALL, &found[LS_TILE_ALL]);
    if (all) {
        *out = s->target.saving;
        begin_tile(s, w, LS_TILE_LOSS);
        s->target.saving.drop = out->drop;
        if (!fits(s)) return true;
    }
    if (!try_tile(s, w, LS_TILE_LOSS, &found[LS_TILE_LOSS]) || (all && s->target.saving.drop > out->drop)) return all;
    *out = s->target.saving;
    return true;
}

/*
 * Tries to tile the loss, and everything, as far as the request leaves this free. False: the rank does not fit this
 * way.
 */
static bool try_way(search *s, const way *w, struct ls_plan_drop found[LS_TILE_ALL + 1], ls_saving *out) {
    const int tile = s->request->tile;
    const int first = tile < 0 ? LS_TILE_LOSS : tile, last = tile < 0 ? LS_TILE_ALL : tile;
    if (first < last && w->sought == RECOMPUTE && !s->request->only_fit) return try_both_tiles(s, w, found, out);
    for (int i = first; i <= last; i++) {
        const int t = s->request->only_fit
                          ? first + last - i
                          : i; /* with only_fit, what needs least memory first; otherwise what is fastest first */
        if (!try_tile(s, w, (ls_tile_kind)t, &found[t])) continue;
        *out = s->target.saving;
        return true;
    }
    return false;
}

/* Lists the ways to try, recompute alone first. Offload gains nothing if the device computes in memory of the host. */
static int list_ways(const search *s, way out[LS_PLAN_WAYS]) {
    const ls_plan_request *r = s->request;
    const int drop = (int)ls_min(ls_max(r->drop, 0), s->most);
    const bool free_drop = r->drop < 0, free_offload = r->offload < 0 && r->host_apart;
    const bool may_state = r->offload_state < 0 ? r->host_apart : r->offload_state > 0;
    int n = 0;
    for (int state = r->offload_state > 0; state <= (int)may_state; state++) {
        out[n++] = (way){free_drop ? RECOMPUTE : NOTHING, state != 0, drop, (int)ls_max(r->offload, 0)};
        if (!free_offload) continue;
        out[n++] = (way){OFFLOAD, state != 0, drop, 0};
        if (!free_drop) continue;
        out[n++] = (way){OFFLOAD, state != 0, s->most, 0};
        out[n++] = (way){RECOMPUTE, state != 0, 0, LS_OFFLOAD_ALL};
    }
    return n;
}

/* Whether the saving costs no time. */
static bool is_free(const ls_saving *saving) {
    return saving->drop == 0 && saving->offload == 0 && !saving->offload_state && saving->tile != LS_TILE_ALL;
}

/* Finds the fastest of the ways to fit. False: there is none. */
static bool choose(search *s, ls_saving *out) {
    way ways[LS_PLAN_WAYS];
    const int n = list_ways(s, ways);
    double best_seconds = INFINITY;
    bool fit = false;
    for (int i = 0; i < n && s->status.code == LS_OK; i++) {
        ls_saving found = {0};
        if (!try_way(s, &ways[i], s->found->drop[mode_of(&s->target)][i], &found)) continue;
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

ls_status ls_plan_saving(const ls_job *job, const ls_plan_request *request, int64_t allowed, ls_plan_found *found,
                         ls_target *target, size_t *lacking) {
    const int most = ls_recompute_count(job);
    target->saving = (ls_saving){.drop = (int)ls_min(ls_max(request->drop, 0), most),
                                 .tile = request->tile < 0 ? LS_TILE_LOSS : (ls_tile_kind)request->tile,
                                 .tile_rows = request->tile_rows,
                                 .offload = (int)ls_max(request->offload, 0),
                                 .offload_state = request->offload_state > 0};
    *lacking = 0;
    if (allowed <= 0) return ls_ok();
    search s = {.job = job,
                .request = request,
                .found = found,
                .target = *target,
                .allowed = (size_t)allowed,
                .most = most,
                .status = ls_ok(),
                .arena = ls_arena_create()};
    if (!choose(&s, &target->saving)) {
        *lacking = SIZE_MAX;
        find_smallest(&s, &target->saving, lacking);
    }
    ls_arena_destroy(s.arena);
    return s.status;
}

/* --- the user's wishes -------------------------------------------------------------------------------------------- */

/* The text "auto" is -1. */
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
