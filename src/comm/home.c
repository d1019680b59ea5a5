/*
 * Sends results to the memory of the process that called ls_launch ("home"). Ranks that are threads are in that
 * process, and so is rank 0 if another program launched the ranks: rank 0 then copies. A forked rank 0 writes messages
 * into a pipe, each a header and its bytes, and the launcher reads the bytes into their place while it watches the
 * ranks. A forked rank has the same addresses as its parent, so the header says where the bytes belong. Whatever the
 * size of a result, only the pipe's buffer and one message of ROOM bytes lie between the two processes.
 */
#include "comm/comm_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    ROOM = 1 << 16,   /* the most bytes of a message with several pieces, which are copied from here to their places */
    MOST_READS = 256, /* reads of one call, because the launcher has signals to handle, too */
    POLL_MILLISECONDS = 100, /* between two ticks of a rank that waits for the launcher to read */
};

/* Precedes the bytes in the pipe. */
typedef struct header {
    char *to;
    ls_range range; /* relative to `to` */
} header;

struct ls_home_pipe {
    int in, out; /* the ends of the pipe; -1: closed */
    header header;
    size_t known; /* bytes of the header that have come */
    size_t done;  /* bytes after the header that have come */
    char room[ROOM];
};

/* ---- the pipe ---- */

static void close_end(int *end) {
    if (*end >= 0) close(*end);
    *end = -1;
}

ls_status ls_world_open_home(ls_world *world) {
    int ends[2];
    ls_home_pipe *home = malloc(sizeof *home);
    if (home == NULL || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(home);
        return ls_error(LS_NO_MEMORY, "cannot open a pipe for the results of rank 0: pipe2: %s", strerror(errno));
    }
    home->in = ends[0];
    home->out = ends[1];
    home->known = home->done = 0;
    world->home = home;
    return ls_ok();
}

void ls_world_keep_home(ls_world *world, int rank) {
    close_end(rank < 0 ? &world->home->out : &world->home->in);
    if (rank > 0) close_end(&world->home->out);
}

void ls_world_close_home(ls_world *world) {
    if (world->home == NULL) return;
    close_end(&world->home->in);
    close_end(&world->home->out);
    free(world->home);
    world->home = NULL;
}

int ls_world_home_file(const ls_world *world) { return world->home != NULL ? world->home->in : -1; }

/* ---- the launcher receives ---- */

/* Where the next bytes are to be read to, and how many. */
static struct iovec next_bytes(ls_home_pipe *h) {
    const ls_range *range = &h->header.range;
    if (h->known < sizeof h->header) return (struct iovec){(char *)&h->header + h->known, sizeof h->header - h->known};
    char *to = ls_range_is_flat(range) ? h->header.to + range->offset : h->room;
    return (struct iovec){to + h->done, ls_range_bytes(range) - h->done};
}

static void note_bytes(ls_home_pipe *h, size_t bytes) {
    if (h->known < sizeof h->header) {
        h->known += bytes;
        return;
    }
    h->done += bytes;
    const ls_range *range = &h->header.range;
    if (h->done < ls_range_bytes(range)) return;
    const ls_range all = ls_range_flat(0, h->done);
    if (!ls_range_is_flat(range)) ls_range_copy(h->header.to, range, h->room, &all);
    h->known = h->done = 0;
}

ls_status ls_world_take_home(ls_world *world) {
    ls_home_pipe *h = world->home;
    for (int i = 0; i < MOST_READS && h != NULL && h->in >= 0; i++) {
        const struct iovec next = next_bytes(h);
        const ssize_t n = read(h->in, next.iov_base, next.iov_len);
        if (n > 0) note_bytes(h, (size_t)n);
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        if (n < 0 && errno == EAGAIN) return ls_ok();
        const ls_status status =
            n == 0 ? ls_ok() : ls_error(LS_IO, "the results of rank 0 cannot be received: read: %s", strerror(errno));
        close_end(&h->in);
        return status;
    }
    return ls_ok();
}

/* ---- rank 0 sends ---- */

/* Waits until the launcher has read something. The ticks tell the peers that this rank is alive. */
static ls_status wait_for_room(ls_comm *comm) {
    struct pollfd out = {comm->world->home->out, POLLOUT, 0};
    ls_comm_tick(comm);
    (void)poll(&out, 1, POLL_MILLISECONDS);
    return ls_notice_aborted(comm->end.boot->notice);
}

static ls_status write_all(ls_comm *comm, struct iovec *part, int n) {
    while (n > 0) {
        const ssize_t written = writev(comm->world->home->out, part, n);
        if (written < 0 && errno == EAGAIN) LS_TRY(wait_for_room(comm));
        if (written < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (written < 0) return ls_error(LS_IO, "rank 0 cannot send a result: writev: %s", strerror(errno));
        for (size_t left = (size_t)written; n > 0;) {
            const size_t of_part = ls_min(left, part->iov_len);
            part->iov_base = (char *)part->iov_base + of_part;
            part->iov_len -= of_part;
            left -= of_part;
            if (part->iov_len > 0) break;
            part++;
            n--;
        }
    }
    return ls_ok();
}

static ls_status send_message(ls_comm *comm, char *to, const ls_range *range, const void *from) {
    header head;
    memset(&head, 0, sizeof head); /* including the padding between the fields */
    head.to = to;
    head.range = *range;
    struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)from, ls_range_bytes(range)}};
    return write_all(comm, parts, (int)LS_COUNT(parts));
}

ls_status ls_comm_send_home(ls_comm *comm, void *to, const void *from, size_t bytes) {
    const ls_range range = ls_range_flat(0, bytes);
    return ls_comm_send_rows_home(comm, to, &range, from);
}

ls_status ls_comm_send_rows_home(ls_comm *comm, void *to, const ls_range *rows, const void *from) {
    const size_t bytes = ls_range_bytes(rows);
    if (comm->end.rank != 0 || bytes == 0) return ls_ok();
    if (comm->world->home == NULL) {
        const ls_range all = ls_range_flat(0, bytes);
        if ((char *)to + rows->offset != from) ls_range_copy(to, rows, from, &all);
        return ls_ok();
    }
    if (ls_range_is_flat(rows)) return send_message(comm, to, rows, from);
    LS_ASSERT(rows->count[1] == 1 && rows->count[2] == 1);
    const int64_t at_once = ls_max(1, ROOM / (int64_t)rows->length);
    for (int64_t i = 0; i < rows->count[0]; i += at_once) {
        ls_range some = *rows;
        some.offset += (size_t)(i * rows->stride[0]);
        some.count[0] = ls_min(at_once, rows->count[0] - i);
        LS_TRY(send_message(comm, to, &some, (const char *)from + (size_t)i * rows->length));
    }
    return ls_ok();
}
