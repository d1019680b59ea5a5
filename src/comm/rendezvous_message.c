/*
 * Messages between the clients and the server of a rendezvous: sending them whole, receiving them in pieces, and
 * checking them.
 */
#include "comm/rendezvous_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Both sides have a thread that always receives, so sending takes hardly any time. */
static const ls_patience patience = {.seconds = 10};

ls_status ls_rendezvous_send(int fd, ls_rendezvous_kind kind, uint64_t number, const void *bytes, size_t n,
                             const char *what) {
    const ls_rendezvous_head head = {.kind = kind, .bytes = (uint32_t)n, .number = number};
    LS_ASSERT(n <= UINT32_MAX);
    LS_TRY(ls_socket_send(fd, &head, sizeof head, &patience, what));
    return ls_socket_send(fd, bytes, n, &patience, what);
}

/* Receives until *got is `bytes` or no more has come. LS_PEER: the connection has ended. */
static ls_status receive_some(int fd, char *to, size_t bytes, size_t *got) {
    while (*got < bytes) {
        const ssize_t n = recv(fd, to + *got, bytes - *got, MSG_DONTWAIT);
        if (n > 0) {
            *got += (size_t)n;
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return ls_ok();
        if (n == 0 || errno == ECONNRESET) return ls_error(LS_PEER, "the other side closed the connection");
        return ls_error(LS_IO, "recv: %s", strerror(errno));
    }
    return ls_ok();
}

static ls_status check_head(const ls_rendezvous_head *head, const ls_rendezvous_limits *limits) {
    if (head->kind >= LS_RENDEZVOUS_KINDS || limits->most[head->kind] == UINT32_MAX)
        return ls_error(LS_INVALID, "a message of kind %u came, which is not expected", head->kind);
    if (head->bytes > limits->most[head->kind])
        return ls_error(LS_INVALID, "a message of kind %u has %u bytes; expected at most %u", head->kind, head->bytes,
                        limits->most[head->kind]);
    return ls_ok();
}

ls_status ls_rendezvous_receive(int fd, const ls_rendezvous_limits *limits, ls_rendezvous_message *m, bool *whole) {
    const size_t head = sizeof m->head;
    if (m->got < head) LS_TRY(receive_some(fd, (char *)&m->head, head, &m->got));
    if (m->got < head) return ls_ok();
    if (m->bytes == NULL) {
        LS_TRY(check_head(&m->head, limits));
        m->bytes = calloc(1, (size_t)m->head.bytes + 1);
        if (m->bytes == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate a message of %u bytes", m->head.bytes);
    }
    size_t got = m->got - head;
    const ls_status status = receive_some(fd, m->bytes, m->head.bytes, &got);
    m->got = head + got;
    *whole = status.code == LS_OK && got == m->head.bytes;
    return status;
}

const char *ls_rendezvous_text(const ls_rendezvous_message *m) {
    return m->bytes[0] != 0 ? m->bytes : "a rank gave up, and did not say why";
}

void ls_rendezvous_forget(ls_rendezvous_message *m) {
    free(m->bytes);
    *m = (ls_rendezvous_message){.got = 0};
}
