/* The table of routes; which one the ranks of a world use. */
#include "device/cuda/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The driver's route, then those of libraries in the order in which they are tried. */
static const ls_cuda_route *const routes[] = {&ls_cuda_route_driver, &ls_cuda_route_nvshmem, &ls_cuda_route_nccl};

const ls_cuda_route *ls_cuda_find_route(const char *name) {
    for (size_t i = 0; i < LS_COUNT(routes); i++)
        if (strcmp(routes[i]->name, name) == 0) return routes[i];
    return NULL;
}

/* --- choosing ----------------------------------------------------------------------------------------------------- */

/* What a rank tells the others before a route is chosen. */
typedef struct wish {
    ls_status status;
    char asked[16]; /* the name of a route; "": any */
    bool near;      /* the rank can address the words of all ranks */
} wish;

static bool is_near(const ls_device_ranks *ranks) {
    size_t bytes;
    for (int r = 0; r < ranks->ranks; r++)
        if (ranks->words(ranks->context, r, &bytes) == NULL) return false;
    return true;
}

/* *near: whether every rank can address the words of all ranks. */
static ls_status compare_wishes(const cuda *c, const ls_device_ranks *ranks, bool *near) {
    wish mine = {.near = is_near(ranks)}, *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    snprintf(mine.asked, sizeof mine.asked, "%s", c->asked != NULL ? c->asked->name : "");
    ls_status status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    *near = true;
    for (int r = 0; r < ranks->ranks && status.code == LS_OK; r++) {
        *near &= all[r].near;
        if (strcmp(all[r].asked, all[0].asked) != 0)
            status = ls_error(LS_INVALID, "rank 0 asks for the route '%s', rank %d for '%s'; expected the same",
                              all[0].asked, r, all[r].asked);
    }
    free(all);
    return status;
}

/* Collective: whether all ranks have the route's library. */
static ls_status load_everywhere(cuda *c, const ls_device_ranks *ranks, const ls_cuda_route *route) {
    const ls_status status = ls_device_agree(ranks, route->load != NULL ? route->load(c) : ls_ok());
    if (status.code == LS_OK) return status;
    free(c->route_state);
    c->route_state = NULL;
    return status;
}

/* Chooses the first library that all ranks have; else the driver, and sets c->why, the reasons against each library. */
static ls_status choose_library(cuda *c, const ls_device_ranks *ranks) {
    size_t used = (size_t)snprintf(c->why, sizeof c->why, "they share no memory");
    for (size_t i = 1; i < LS_COUNT(routes); i++) {
        const ls_status status = load_everywhere(c, ranks, routes[i]);
        if (status.code == LS_OK) {
            c->route = routes[i];
            return status;
        }
        if (status.code != LS_UNSUPPORTED) return status;
        if (used < sizeof c->why)
            used += (size_t)snprintf(c->why + used, sizeof c->why - used, "; %s: %s", routes[i]->name, status.text);
    }
    c->route = &ls_cuda_route_driver;
    return ls_ok();
}

static ls_status choose(cuda *c, const ls_device_ranks *ranks) {
    bool near;
    LS_TRY(compare_wishes(c, ranks, &near));
    if (c->asked == NULL && !near) return choose_library(c, ranks);
    c->route = c->asked != NULL ? c->asked : &ls_cuda_route_driver;
    return load_everywhere(c, ranks, c->route);
}

ls_status ls_cuda_connect(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap,
                          ls_device_remote *out) {
    cuda *c = device->state;
    LS_TRY(ls_cuda_enter(c));
    LS_TRY(choose(c, ranks));
    LS_TRY(c->route->connect(device, ranks, heap, out));
    for (int r = 0; r < ranks->ranks; r++)
        if (out[r].words == NULL && c->why[0] != 0) out[r].why = c->why;
    return ls_ok();
}

/* --- a device that is connected ----------------------------------------------------------------------------------- */

ls_status ls_cuda_message(cuda_submission *s) {
    const cuda *c = s->c;
    const bool to_itself = c->symmetric == NULL || s->work->message->peer == c->symmetric->rank;
    return (to_itself ? &ls_cuda_route_driver : c->route)->message(s);
}

static size_t puts_to(const ls_range *to) {
    return (size_t)(to->count[0] * to->count[1] * to->count[2]) + ls_range_bytes(to) / CUDA_PACKED_BYTES;
}

size_t ls_cuda_puts(const cuda *c, const ls_device_message *m) {
    if (m == NULL || m->awaits || c->open_route == NULL) return 0;
    return m->source != NULL ? puts_to(&m->to) : 1;
}

bool ls_cuda_route_has_room(const cuda *c, size_t puts) {
    return c->open_route == NULL || c->open_route->room == 0 || puts <= c->open_route->room / 2;
}

bool ls_cuda_is_large(const ls_device *device, const ls_range *to) {
    return !ls_cuda_route_has_room(device->state, puts_to(to));
}

ls_status ls_cuda_check_route(cuda *c) {
    const ls_cuda_route *route = __atomic_load_n(&c->open_route, __ATOMIC_ACQUIRE);
    return route != NULL && route->check != NULL ? route->check(c) : ls_ok();
}

void ls_cuda_close_route(cuda *c) {
    if (c->open_route != NULL && c->route->close != NULL) c->route->close(c);
}
