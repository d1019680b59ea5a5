/* The table of transports; a world from its creation to its end; the flags that all ranks read. */
#include "comm/comm_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table of transports ---- */

static const ls_transport *const transports[] = {
    &ls_transport_self,
    &ls_transport_shm,
    &ls_transport_chaos,
};

const char *ls_transport_name(int index) {
    return index >= 0 && (size_t)index < LS_COUNT(transports) ? transports[index]->name : NULL;
}

const ls_transport *ls_transport_find(const char *name) {
    for (size_t i = 0; i < LS_COUNT(transports); i++)
        if (strcmp(transports[i]->name, name) == 0) return transports[i];
    return NULL;
}

bool ls_transport_addresses_peers(const char *transport) {
    const size_t n = strcspn(transport, ":"); /* the length of the name; settings may follow */
    for (size_t i = 0; i < LS_COUNT(transports); i++) {
        if (strlen(transports[i]->name) == n && strncmp(transports[i]->name, transport, n) == 0)
            return transports[i]->addressable;
    }
    return false;
}

/* ---- sizes and places ---- */

static size_t board_head_bytes(const ls_world *world) {
    return sizeof(ls_board) + (size_t)world->options.ranks * sizeof(ls_rank_line);
}

size_t ls_board_bytes(const ls_world *world) {
    const size_t words = (size_t)world->options.ranks * world->words_stride * sizeof(uint64_t);
    return ls_round_up(board_head_bytes(world) + words, (size_t)sysconf(_SC_PAGESIZE));
}

void ls_board_place(ls_world *world, char *at) {
    world->board = (ls_board *)at;
    world->words = (_Atomic uint64_t *)(at + board_head_bytes(world));
}

/* The bytes of a rank on the board. */
static size_t board_share(const ls_world_options *options) {
    const size_t words = (size_t)options->words + (size_t)ls_host_rounds(options->ranks);
    return sizeof(ls_rank_line) + words * sizeof(uint64_t);
}

static ls_status check_options(const ls_transport *transport, const ls_world_options *options) {
    if (options->ranks < 1 || (transport->alone && options->ranks > 1))
        return ls_error(LS_INVALID, "transport %s takes %s, not %d", transport->name,
                        transport->alone ? "1 rank" : "1 rank or more", options->ranks);
    if (options->words < 0) return ls_error(LS_INVALID, "a rank has 0 or more signal words, not %d", options->words);
    if (!(options->wait_timeout >= 0.0) || isinf(options->wait_timeout))
        return ls_error(LS_INVALID, "wait timeout is %g s; expected 0 (wait for ever) or more", options->wait_timeout);

    /*
     * The system maps more shared memory than it has, and kills the process when it is touched. So check whether it can
     * exist.
     */
    ls_machine machine;
    ls_machine_detect(&machine);
    const size_t each = machine.memory_bytes / (size_t)options->ranks, board = board_share(options);
    if (board > each || options->heap_bytes > each - board)
        return ls_error(LS_NO_MEMORY,
                        "%d symmetric heaps of %zu bytes do not fit: this machine has %zu bytes of memory",
                        options->ranks, options->heap_bytes, machine.memory_bytes);
    return ls_ok();
}

ls_status ls_world_create(const char *transport_name, const ls_world_options *options, ls_world **out) {
    char name[16];
    const char *settings = strchrnul(transport_name, ':');
    snprintf(name, sizeof name, "%.*s", (int)(settings - transport_name), transport_name);
    const ls_transport *transport = ls_transport_find(name);
    if (!transport) return ls_error(LS_INVALID, "there is no transport '%s'", transport_name);
    LS_TRY(check_options(transport, options));

    ls_world *world = calloc(1, sizeof *world);
    if (!world) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a world", sizeof *world);
    const size_t ranks = (size_t)options->ranks;
    const size_t line = sizeof(ls_rank_line);
    world->transport = transport;
    world->settings = *settings == ':' ? settings + 1 : "";
    world->options = *options;
    world->words_stride =
        ls_round_up((size_t)options->words + (size_t)ls_host_rounds(options->ranks), line / sizeof(uint64_t));
    world->inbox = ls_round_up(options->heap_bytes, line);
    world->heap_stride =
        ls_round_up(world->inbox + 2 * ls_host_inbox_bytes(options->ranks), (size_t)sysconf(_SC_PAGESIZE));

    const ls_status status = transport->map(world);
    world->settings = NULL;
    if (status.code != LS_OK) {
        free(world);
        return ls_error_in(status, "%d symmetric heaps of %zu bytes", options->ranks, options->heap_bytes);
    }
    for (size_t rank = 0; rank < ranks; rank++) atomic_init(&world->board->lines[rank].waits_for, -1);
    *out = world;
    return ls_ok();
}

void ls_world_destroy(ls_world *world) {
    if (!world) return;
    ls_world_close_home(world);
    world->transport->unmap(world);
    free(world);
}

/* ---- ranks join and leave ---- */

ls_status ls_world_join(ls_world *world, int rank, ls_comm **out) {
    const int ranks = world->options.ranks;
    if (rank < 0 || rank >= ranks) return ls_error(LS_INVALID, "rank %d is not one of the %d ranks", rank, ranks);
    ls_comm *comm = calloc(1, sizeof *comm);
    if (!comm) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for rank %d", sizeof *comm, rank);
    if (atomic_exchange(&world->board->lines[rank].joined, true)) {
        free(comm);
        return ls_error(LS_INVALID, "rank %d has joined already; a world is joined once by each rank", rank);
    }
    comm->world = world;
    comm->rank = rank;
    comm->watch.peer = -1;
    *out = comm;
    return ls_ok();
}

void ls_comm_leave(ls_comm *comm) {
    if (!comm) return;
    ls_comm_quiet(comm);
    while (isfinite(ls_comm_progress(comm))) usleep(100);
    if (comm->world->transport->leave != NULL) comm->world->transport->leave(comm);
    atomic_store_explicit(&ls_line(comm)->left, true, memory_order_release);
    free(comm);
}

/* ---- flags for all ranks ---- */

void ls_world_abort(ls_world *world, const char *why) {
    ls_board *board = world->board;
    int state = LS_ABORT_NONE;
    if (atomic_compare_exchange_strong(&board->abort_state, &state, LS_ABORT_BEING_WRITTEN)) {
        snprintf(board->abort_text, sizeof board->abort_text, "%s", why);
        atomic_store_explicit(&board->abort_state, LS_ABORT_SET, memory_order_release);
    } else if (state == LS_ABORT_BEING_WRITTEN) {
        /*
         * Another rank writes its text, which takes a microsecond. If that rank was killed meanwhile, the text stays
         * incomplete.
         */
        for (int i = 0; i < 100 && atomic_load(&board->abort_state) != LS_ABORT_SET; i++) usleep(1000);
        atomic_store_explicit(&board->abort_state, LS_ABORT_SET, memory_order_release);
    }
    for (int rank = 0; rank < world->options.ranks; rank++) ls_bell_ring(&board->lines[rank]);
}

ls_status ls_world_aborted(const ls_world *world) {
    const ls_board *board = world->board;
    if (atomic_load_explicit(&board->abort_state, memory_order_acquire) != LS_ABORT_SET) return ls_ok();
    return ls_error(LS_PEER, "%s", board->abort_text);
}

double ls_world_wait_timeout(const ls_world *world) { return world->options.wait_timeout; }

void ls_world_set_stopped(ls_world *world, int rank, bool stopped) {
    atomic_store(&world->board->lines[rank].stopped, stopped);
}

void ls_world_request_stop(ls_world *world) { atomic_store(&world->board->stop, true); }

bool ls_world_stop_requested(const ls_world *world) { return atomic_load(&world->board->stop); }

bool ls_comm_stop_requested(const ls_comm *comm) { return ls_world_stop_requested(comm->world); }
