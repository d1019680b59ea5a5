/*
 * The memory of the ranks. The segments of ranks that this process starts are one mapping, which is made before they
 * start and has the same address in all of them. A launched rank makes its own segment, as a memfd, and passes it to
 * the ranks of its host over an abstract Unix socket, so nothing is left behind when all of them have ended.
 */
#include "comm/comm_impl.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PASS_MILLISECONDS 60000 /* how long to wait for a rank of the same host */

static size_t bytes_of(const ls_world *world, int rank) { return ls_segment_lay_out(&world->options, rank).bytes; }

/* ---- passing memory to processes ---- */

/* The name that the system gave to a socket. */
typedef struct socket_name {
    socklen_t bytes; /* bytes of the address */
    struct sockaddr_un address;
} socket_name;

static ls_status refused(const char *what) {
    return ls_error(LS_IO, "cannot share memory with the ranks of this host: %s: %s", what, strerror(errno));
}

/* *listener: a socket with a name in the abstract namespace, which disappears when the process ends. */
static ls_status listen_to_host(int ranks, int *listener, socket_name *name) {
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*listener < 0) return refused("socket");
    name->address = (struct sockaddr_un){.sun_family = AF_UNIX};
    name->bytes = sizeof name->address;
    if (bind(*listener, (struct sockaddr *)&name->address, offsetof(struct sockaddr_un, sun_path)) != 0)
        return refused("bind");
    if (getsockname(*listener, (struct sockaddr *)&name->address, &name->bytes) != 0) return refused("getsockname");
    return listen(*listener, ranks) == 0 ? ls_ok() : refused("listen");
}

static ls_status wait_for(int fd, const char *what) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    const int n = poll(&one, 1, PASS_MILLISECONDS);
    if (n < 0) return refused("poll");
    if (n == 0) errno = ETIMEDOUT;
    return n == 1 ? ls_ok() : refused(what);
}

typedef union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

/* Accepts one connection from a process of this user, and passes the memory over it. */
static ls_status give(int listener, int memory) {
    for (;;) {
        LS_TRY(wait_for(listener, "accept4"));
        const int to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (to < 0) return refused("accept4");
        struct ucred who;
        socklen_t bytes = sizeof who;
        const bool known = getsockopt(to, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
        control room = {.bytes = {0}};
        char nothing = 0;
        struct iovec data = {&nothing, 1};
        struct msghdr message = {
            .msg_iov = &data, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
        struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
        *passed =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof memory)};
        memcpy(CMSG_DATA(passed), &memory, sizeof memory);
        const bool sent = known && sendmsg(to, &message, MSG_NOSIGNAL) == 1;
        close(to);
        if (sent) return ls_ok();
        if (known) return refused("sendmsg");
    }
}

/* Receives the memory of a peer, and maps it. */
static ls_status take(int from, size_t bytes, char **out) {
    LS_TRY(wait_for(from, "recvmsg"));
    control room = {.bytes = {0}};
    char nothing;
    struct iovec data = {&nothing, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    const ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *passed = n == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (passed == NULL || passed->cmsg_type != SCM_RIGHTS) return refused("recvmsg");
    int memory;
    memcpy(&memory, CMSG_DATA(passed), sizeof memory);
    ls_mapping mapping;
    const ls_status status = ls_map_passed(memory, bytes, &mapping);
    close(memory);
    if (status.code == LS_OK) *out = mapping.base;
    return status;
}

static bool loads_from(const ls_world *world, int peer) {
    const int rank = world->boot->rank;
    return peer != rank && ls_selection_choose(&world->selection, world->boot, rank, peer).reach.load;
}

/* Adds the peer to an error. */
static ls_status with_peer(ls_status status, int peer) { return ls_error_in(status, "with rank %d", peer); }

static ls_status connect_to(const socket_name *name, int *out) {
    if (name->bytes > sizeof name->address || name->address.sun_family != AF_UNIX)
        return ls_error(LS_INVALID,
                        "the name of its socket has %u bytes of family %d; expected at most %zu of a Unix socket",
                        (unsigned)name->bytes, name->address.sun_family, sizeof name->address);
    *out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*out < 0) return refused("socket");
    return connect(*out, (const struct sockaddr *)&name->address, name->bytes) == 0 ? ls_ok() : refused("connect");
}

/*
 * A connection is made as soon as the peer listens, before it accepts. So all ranks connect, then all give, then all
 * take. They agree between these steps, so that no rank waits for one that has failed. sockets: [ranks], -1 at first.
 */
static ls_status exchange_memory(ls_world *world, int listener, int memory, const socket_name *names, int *sockets) {
    const int ranks = world->options.ranks;
    ls_status status = ls_ok();
    for (int r = 0; r < ranks && status.code == LS_OK; r++)
        if (loads_from(world, r)) status = with_peer(connect_to(&names[r], &sockets[r]), r);
    LS_TRY(ls_boot_agree(world->boot, status));
    for (int r = 0; r < ranks && status.code == LS_OK; r++)
        if (sockets[r] >= 0) status = give(listener, memory);
    LS_TRY(ls_boot_agree(world->boot, status));
    for (int r = 0; r < ranks; r++)
        if (sockets[r] >= 0) LS_TRY(with_peer(take(sockets[r], bytes_of(world, r), &world->segments[r]), r));
    return ls_ok();
}

/* Collective: maps the segments of all ranks of this host. */
static ls_status share(ls_world *world, int memory) {
    const int ranks = world->options.ranks;
    socket_name mine = {.bytes = 0}, *names = calloc((size_t)ranks, sizeof *names);
    int listener = -1, *sockets = malloc((size_t)ranks * sizeof *sockets);
    ls_status status = ls_ok();
    if (names == NULL || sockets == NULL)
        status = ls_error(LS_NO_MEMORY, "cannot allocate the names of %d ranks", ranks);
    if (status.code == LS_OK) status = listen_to_host(ranks, &listener, &mine);
    status = ls_boot_agree(world->boot, status);
    if (status.code == LS_OK) {
        LS_ASSERT(names != NULL && sockets != NULL);
        status = world->boot->kind->gather(world->boot, world->boot->rank, &mine, sizeof mine, names);
    }
    if (status.code == LS_OK) {
        for (int r = 0; r < ranks; r++) sockets[r] = -1;
        status = exchange_memory(world, listener, memory, names, sockets);
        for (int r = 0; r < ranks; r++)
            if (sockets[r] >= 0) close(sockets[r]);
    }
    if (listener >= 0) close(listener);
    free(sockets);
    free(names);
    return status;
}

/* ---- all ---- */

/* Most systems give huge pages only to private memory, so memory is shared only if some rank loads from another. */
static ls_status map_local(ls_world *world) {
    size_t bytes = 0, at = 0;
    for (int r = 0; r < world->options.ranks; r++) bytes += bytes_of(world, r);
    LS_TRY(world->loads ? ls_map_shared(bytes, &world->memory) : ls_map_private(bytes, &world->memory));
    for (int r = 0; r < world->options.ranks; at += bytes_of(world, r++)) world->segments[r] = world->memory.base + at;
    return ls_ok();
}

/* Maps, unless `status` says that this rank has failed, as all ranks then learn. */
static ls_status map_launched(ls_world *world, ls_status status) {
    const size_t bytes = bytes_of(world, world->boot->rank);
    int memory = -1;
    if (status.code == LS_OK)
        status = world->loads ? ls_map_passable(bytes, &world->memory, &memory) : ls_map_private(bytes, &world->memory);
    if (status.code == LS_OK) world->segments[world->boot->rank] = world->memory.base;
    status = ls_boot_agree(world->boot, status);
    if (status.code == LS_OK) status = share(world, memory);
    if (memory >= 0) close(memory);
    return ls_boot_agree(world->boot, status);
}

ls_status ls_segments_map(ls_world *world) {
    world->segments = calloc((size_t)world->options.ranks, sizeof *world->segments);
    ls_status status = ls_ok();
    if (world->segments == NULL)
        status = ls_error(LS_NO_MEMORY, "cannot allocate the addresses of %d segments", world->options.ranks);
    if (world->boot->rank >= 0) return map_launched(world, status);
    LS_TRY(status);
    return map_local(world);
}

void ls_segments_unmap(ls_world *world) {
    for (int r = 0; r < world->options.ranks && world->boot->rank >= 0 && world->segments != NULL; r++) {
        ls_mapping one = {r == world->boot->rank ? NULL : world->segments[r], bytes_of(world, r)};
        ls_unmap(&one);
    }
    ls_unmap(&world->memory);
    free(world->segments);
}
