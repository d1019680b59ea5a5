/*
 * TCP connections with deadlines: every wait is in poll, in time slices after each of which the notice is checked for
 * an abort.
 */
#include "comm/socket_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MILLISECONDS = 50, BACKLOG = 4096 };

static ls_status failed(const char *call, const char *host, int port) {
    return ls_error(LS_IO, "%s port %d: %s: %s", host, port, call, strerror(errno));
}

/* The addresses of a host; the caller frees them. */
static ls_status look_up(const char *host, int port, int flags, struct addrinfo **out) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    const int error = getaddrinfo(host, service, &wanted, out);
    return error == 0 ? ls_ok() : ls_error(LS_IO, "host '%s': getaddrinfo: %s", host, gai_strerror(error));
}

static int port_of(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

/* Turns off Nagle's algorithm: messages are small, and peers wait for them. */
static void send_at_once(int fd) {
    const int yes = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/*
 * Makes a socket listen at an address. Returns the name of the call that failed, or NULL. *own: the address with the
 * actual port.
 */
static const char *listen_at(int fd, const struct addrinfo *address, struct sockaddr_storage *own) {
    const int yes = 1;
    socklen_t bytes = sizeof *own;
    if (fd < 0) return "socket";
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0) return "setsockopt";
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0) return "bind";
    if (listen(fd, BACKLOG) != 0) return "listen";
    return getsockname(fd, (struct sockaddr *)own, &bytes) != 0 ? "getsockname" : NULL;
}

ls_status ls_socket_listen(const char *address, int *port, int *fd) {
    struct addrinfo *found;
    LS_TRY(look_up(address, *port, AI_NUMERICHOST | AI_PASSIVE, &found));
    const int made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    const char *call = listen_at(made, found, &own);
    const ls_status status = call != NULL ? failed(call, address, *port) : ls_ok();
    freeaddrinfo(found);
    if (status.code == LS_OK) {
        *port = port_of(&own);
        *fd = made;
    } else if (made >= 0) {
        close(made);
    }
    return status;
}

/* Adds the addresses of one family that are not in the list yet. */
static void add_addresses(const struct addrinfo *found, int family, char (*out)[LS_ADDRESS], int most, int *n) {
    for (const struct addrinfo *one = found; one != NULL && *n < most; one = one->ai_next) {
        char *text = out[*n];
        bool known = one->ai_family != family ||
                     getnameinfo(one->ai_addr, one->ai_addrlen, text, LS_ADDRESS, NULL, 0, NI_NUMERICHOST) != 0;
        for (int i = 0; i < *n && !known; i++) known = strcmp(out[i], text) == 0;
        if (!known) (*n)++;
    }
}

ls_status ls_socket_addresses(const char *host, char (*out)[LS_ADDRESS], int most, int *n) {
    struct addrinfo *found;
    LS_TRY(look_up(host, 0, 0, &found));
    *n = 0;
    add_addresses(found, AF_INET, out, most, n);
    add_addresses(found, AF_INET6, out, most, n);
    freeaddrinfo(found);
    return ls_ok();
}

bool ls_socket_is_own(const char *address) {
    int port = 0, fd;
    if (ls_socket_listen(address, &port, &fd).code != LS_OK) return false;
    (void)close(fd);
    return true;
}

bool ls_socket_is_loopback(const char *address) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1) return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, address, &six) != 1) return false;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
}

ls_status ls_socket_connect(const char *host, int port, int *fd) {
    struct addrinfo *found;
    LS_TRY(look_up(host, port, 0, &found));
    ls_status status = ls_ok();
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        const int made = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made >= 0 && connect(made, one->ai_addr, one->ai_addrlen) == 0) {
            send_at_once(made);
            *fd = made;
            status = ls_ok();
            break;
        }
        status = failed(made < 0 ? "socket" : "connect", host, port);
        if (errno == ECONNREFUSED || errno == ECONNRESET) status.code = LS_PEER; /* the listener is gone */
        if (made >= 0) close(made);
    }
    freeaddrinfo(found);
    return status;
}

ls_status ls_socket_await(int fd, short events, const ls_patience *patience, double began, const char *what) {
    for (;;) {
        struct pollfd one = {.fd = fd, .events = events};
        const int n = poll(&one, 1, SLICE_MILLISECONDS);
        if (n > 0) return ls_ok();
        if (n < 0 && errno != EINTR) return ls_error(LS_IO, "poll: %s", strerror(errno));
        if (patience->notice != NULL) LS_TRY(ls_notice_aborted(patience->notice));
        if (patience->slow != NULL) LS_TRY(patience->slow(patience->context, ls_seconds() - began));
        if (patience->seconds > 0 && ls_seconds() - began > patience->seconds)
            return ls_error(LS_PEER, "waited %.3g s for %s", patience->seconds, what);
    }
}

static ls_status wait_for(int fd, short events, const ls_patience *patience, const char *what) {
    return ls_socket_await(fd, events, patience, ls_seconds(), what);
}

int ls_socket_accept_now(int listener, int *fd) {
    const int made = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (made < 0) return errno;
    send_at_once(made);
    *fd = made;
    return 0;
}

ls_status ls_socket_accept(int listener, const ls_patience *patience, const char *what, int *fd) {
    LS_TRY(wait_for(listener, POLLIN, patience, what));
    const int error = ls_socket_accept_now(listener, fd);
    return error == 0 ? ls_ok() : ls_error(LS_IO, "accept4: %s", strerror(error));
}

static bool must_wait(ssize_t n) { return n < 0 && (errno == EAGAIN || errno == EINTR); }

/* The error of a call that returned n. LS_PEER: the other side is gone; LS_IO: the call failed. */
static ls_status lost(const char *call, ssize_t n, const char *what) {
    if (n == 0 || errno == ECONNRESET || errno == EPIPE)
        return ls_error(LS_PEER, "waited for %s: the other side closed the connection", what);
    return ls_error(LS_IO, "waited for %s: %s: %s", what, call, strerror(errno));
}

ls_status ls_socket_send(int fd, const void *from, size_t bytes, const ls_patience *patience, const char *what) {
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = send(fd, (const char *)from + at, bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if (must_wait(n))
            LS_TRY(wait_for(fd, POLLOUT, patience, what));
        else
            return lost("send", n, what);
    }
    return ls_ok();
}

ls_status ls_socket_receive(int fd, void *to, size_t bytes, const ls_patience *patience, const char *what) {
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = recv(fd, (char *)to + at, bytes - at, MSG_DONTWAIT);
        if (n > 0)
            at += (size_t)n;
        else if (must_wait(n))
            LS_TRY(wait_for(fd, POLLIN, patience, what));
        else
            return lost("recv", n, what);
    }
    return ls_ok();
}

ls_status ls_socket_set_up(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return ls_error(LS_IO, "cannot use a connection: fcntl: %s", strerror(errno));
    send_at_once(fd);
    return ls_ok();
}

ls_status ls_socket_own_address(int fd, char out[LS_ADDRESS]) {
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) != 0)
        return ls_error(LS_IO, "getsockname: %s", strerror(errno));
    const int error = getnameinfo((struct sockaddr *)&own, bytes, out, LS_ADDRESS, NULL, 0, NI_NUMERICHOST);
    return error == 0 ? ls_ok() : ls_error(LS_IO, "getnameinfo: %s", gai_strerror(error));
}
