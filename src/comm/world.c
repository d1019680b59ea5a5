/* Creating and destroying a world; ranks that join and leave it; the flags that all ranks read. */
#include "comm/comm_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- creating ---- */

/* The most bytes that a rank needs beside its heap. */
static size_t overhead(const ls_world_options *options) {
    ls_world_options empty = *options;
    empty.heap_bytes = 0;
    empty.memory = NULL;
    return ls_segment_lay_out(&empty, 0).bytes;
}

static size_t largest_heap(const ls_world_options *options) {
    size_t most = 0;
    for (int r = 0; r < options->ranks; r++) {
        const size_t heap = ls_heap_bytes_of(options, r);
        if (heap > most) most = heap;
    }
    return most;
}

/* The share of `here` ranks in the common memory of all ranks. */
static size_t common_of(const ls_world_options *options, int here) {
    size_t all = 0;
    for (int r = 0; r < options->ranks; r++) all += ls_common_bytes_of(options, r);
    return here == options->ranks ? all : all / (size_t)options->ranks * (size_t)here;
}

/*
 * Whether the segments of `here` ranks of this machine fit into its memory: the largest segments are assumed, because
 * this machine may have any of the ranks.
 */
static bool fit(const ls_world_options *options, int here, size_t memory) {
    const size_t more = overhead(options), common = common_of(options, here);
    if (common > memory) return false;
    size_t left = memory - common;
    for (int r = 0; r < here; r++) {
        const size_t heap = here == options->ranks ? ls_heap_bytes_of(options, r) : largest_heap(options);
        if (more > left || heap > left - more) return false;
        left -= heap + more;
    }
    return true;
}

static ls_status check_options(const ls_world_options *options) {
    if (options->ranks < 1) return ls_error(LS_INVALID, "a world has 1 rank or more, not %d", options->ranks);
    if (options->words < 0) return ls_error(LS_INVALID, "a rank has 0 or more signal words, not %d", options->words);
    if (!(options->wait_timeout >= 0.0) || isinf(options->wait_timeout))
        return ls_error(LS_INVALID, "wait timeout is %g s; expected 0 (wait for ever) or more", options->wait_timeout);

    /*
     * The system maps more shared memory than it has, and kills the process when the memory is touched. So check that
     * there is enough.
     */
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_launched job = {.ranks = 0};
    if (!options->local) LS_TRY(ls_launched_find(&job));
    const int here = job.ranks == 0 ? options->ranks : job.machine_ranks;
    if (machine.memory_bytes != 0 && !fit(options, here, machine.memory_bytes))
        return ls_error(LS_NO_MEMORY,
                        "%d symmetric heaps of up to %zu bytes and %zu bytes in common do not fit: this machine has "
                        "%zu bytes of memory",
                        here, largest_heap(options), common_of(options, here), machine.memory_bytes);
    return ls_ok();
}

/* Finds the transports that a rank uses with its peers. LS_UNSUPPORTED for a pair that no transport connects. */
static ls_status connect_rank(ls_world *world, int rank) {
    for (int peer = 0; peer < world->options.ranks; peer++) {
        const ls_choice choice = ls_selection_choose(&world->selection, world->boot, rank, peer);
        if (choice.index < 0) return ls_selection_refuse(&world->selection, world->boot, rank, peer);
        world->used[choice.index] = true;
        world->loads |= choice.reach.load && peer != rank;
    }
    return ls_ok();
}

/*
 * Collective: connects a launched rank, unless `status` says that it has failed, as all ranks then learn. Afterwards
 * the ranks tell each other which transports they use.
 */
static ls_status connect_launched(ls_world *world, ls_status status) {
    ls_boot *boot = world->boot;
    const int ranks = world->options.ranks;
    uint8_t mine[LS_TRANSPORTS], (*all)[LS_TRANSPORTS] = calloc((size_t)ranks, sizeof *all);
    if (status.code == LS_OK && all == NULL)
        status = ls_error(LS_NO_MEMORY, "cannot allocate what %d ranks use", ranks);
    if (status.code == LS_OK) status = connect_rank(world, boot->rank);
    status = ls_boot_agree(boot, status);
    for (int t = 0; t < LS_TRANSPORTS; t++) mine[t] = world->used[t];
    if (status.code == LS_OK) status = boot->kind->gather(boot, boot->rank, mine, sizeof mine, all);
    for (int r = 0; r < ranks && status.code == LS_OK; r++)
        for (int t = 0; t < LS_TRANSPORTS; t++) world->used[t] |= all[r][t] != 0;
    free(all);
    return status;
}

/* With a local boot this process connects all ranks; a launched rank connects itself. */
static ls_status connect_ranks(ls_world *world, const char *transports) {
    const ls_status status = ls_selection_read(transports, world->boot, &world->selection);
    if (world->boot->rank >= 0) return connect_launched(world, status);
    LS_TRY(status);
    for (int r = 0; r < world->options.ranks; r++) LS_TRY(connect_rank(world, r));
    return ls_ok();
}

static ls_status set_up(ls_world *world, const char *transports) {
    LS_TRY(connect_ranks(world, transports));
    return ls_error_in(ls_segments_map(world), "%d symmetric heaps of up to %zu bytes", world->options.ranks,
                       largest_heap(&world->options));
}

/* Gives the options their own copy of each rank's memory sizes. */
static ls_status keep_memory(ls_world_options *options) {
    if (options->memory == NULL) return ls_ok();
    const size_t bytes = (size_t)options->ranks * sizeof *options->memory;
    ls_rank_memory *copy = malloc(bytes);
    if (copy != NULL) memcpy(copy, options->memory, bytes);
    options->memory = copy;
    return copy != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a world", bytes);
}

ls_status ls_world_create(const char *transports, const ls_world_options *options, ls_world **out) {
    LS_TRY(check_options(options));
    ls_world *world = calloc(1, sizeof *world);
    if (world == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a world", sizeof *world);
    world->options = *options;
    ls_status status = keep_memory(&world->options);
    if (status.code == LS_OK) status = ls_boot_take(options->ranks, options->local, &world->boot);
    if (status.code == LS_OK) status = set_up(world, transports);
    if (status.code == LS_OK)
        *out = world;
    else
        ls_world_destroy(world);
    return status;
}

void ls_world_destroy(ls_world *world) {
    if (world == NULL) return;
    ls_world_close_home(world);
    if (world->boot != NULL) {
        ls_segments_unmap(world);
        ls_boot_return(world->boot);
    }
    free((void *)world->options.memory);
    free(world);
}

int ls_world_ranks(const ls_world *world) { return world->options.ranks; }
int ls_world_rank(const ls_world *world) { return world->boot->rank; }

/* ---- ranks join and leave ---- */

/*
 * Opens the links of the rank, in the order of the selection's transports, and sets its routes, each over one of the
 * links.
 */
static ls_status open_links(ls_comm *comm) {
    const ls_world *world = comm->world;
    const int ranks = world->options.ranks;
    bool *used = calloc((size_t)ranks * LS_TRANSPORTS, sizeof *used);
    if (used == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the routes of rank %d", comm->end.rank);
    for (int peer = 0; peer < ranks; peer++) {
        const ls_choice choice = ls_selection_choose(&world->selection, world->boot, comm->end.rank, peer);
        used[choice.index * ranks + peer] = true;
        if (choice.reach.load) comm->segments[peer] = world->segments[peer];
    }
    ls_status status = ls_ok();
    for (int t = 0; t < world->selection.n && status.code == LS_OK; t++) {
        if (!world->used[t]) continue;
        ls_link link = {.transport = world->selection.transports[t]};
        status = link.transport->open(&comm->end, &used[t * ranks], &link.state);
        if (status.code != LS_OK) break;
        comm->links[comm->n_links++] = link;
        for (int peer = 0; peer < ranks; peer++)
            if (used[t * ranks + peer]) comm->routes[peer] = link;
    }
    free(used);
    return status;
}

static void free_comm(ls_comm *comm) {
    for (int i = 0; i < comm->n_links; i++) comm->links[i].transport->close(comm->links[i].state);
    ls_windows_destroy(comm->windows);
    free(comm->routes);
    free(comm->segments);
    free(comm);
}

static ls_status set_up_rank(ls_comm *comm, int rank) {
    ls_world *world = comm->world;
    char *own = world->segments[rank];
    const ls_segment_form form = ls_segment_lay_out(&world->options, rank);
    comm->segments = calloc((size_t)world->options.ranks, sizeof *comm->segments);
    comm->routes = calloc((size_t)world->options.ranks, sizeof *comm->routes);
    comm->windows = ls_windows_create(world, rank);
    if (comm->segments == NULL || comm->routes == NULL || comm->windows == NULL)
        return ls_error(LS_NO_MEMORY, "cannot allocate the routes of rank %d", rank);
    comm->segments[rank] = own;
    comm->line = ls_segment_line(own);
    comm->words = ls_segment_words(&form, own);
    comm->heap = own + form.heap;
    comm->watch.peer = -1;
    comm->end = (ls_endpoint){.rank = rank,
                              .ranks = world->options.ranks,
                              .boot = world->boot,
                              .form = form,
                              .segments = comm->segments,
                              .windows = comm->windows,
                              .timeout = world->options.wait_timeout};
    if (atomic_exchange(&comm->line->joined, true))
        return ls_error(LS_INVALID, "rank %d has joined already; a world is joined once by each rank", rank);
    LS_TRY(open_links(comm));
    return world->selection.chaos.on ? ls_chaos_wrap(&world->selection.chaos, comm) : ls_ok();
}

ls_status ls_world_join(ls_world *world, int rank, ls_comm **out) {
    const int ranks = world->options.ranks;
    if (rank < 0 || rank >= ranks) return ls_error(LS_INVALID, "rank %d is not one of the %d ranks", rank, ranks);
    LS_ASSERT(world->boot->rank < 0 || world->boot->rank == rank);
    ls_comm *comm = calloc(1, sizeof *comm);
    if (comm == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for rank %d", sizeof *comm, rank);
    comm->world = world;
    const ls_status status = set_up_rank(comm, rank);
    if (status.code == LS_OK)
        *out = comm;
    else
        free_comm(comm);
    return status;
}

void ls_comm_leave(ls_comm *comm) {
    if (comm == NULL) return;
    ls_comm_quiet(comm);
    while (isfinite(ls_comm_progress(comm))) usleep(100);
    atomic_store_explicit(&comm->line->left, true, memory_order_release);
    free_comm(comm);
}

/* ---- flags for all ranks ---- */

void ls_world_abort(ls_world *world, const char *why) { (void)ls_notice_abort(world->boot->notice, why); }

double ls_world_wait_timeout(const ls_world *world) { return world->options.wait_timeout; }

void ls_world_set_stopped(ls_world *world, int rank, bool stopped) { ls_boot_set_stopped(world->boot, rank, stopped); }

void ls_world_request_stop(ls_world *world) { atomic_store(&world->boot->notice->stop, true); }

bool ls_world_stop_requested(const ls_world *world) { return atomic_load(&world->boot->notice->stop); }
