/* comm, for this folder alone: TCP connections between ranks, with deadlines. */
#ifndef LS_COMM_SOCKET_IMPL_H
#define LS_COMM_SOCKET_IMPL_H

#include "comm/boot_impl.h"

/*
 * How to wait for a socket. A wait ends after `seconds` in which nothing happens (0: never), with an LS_PEER that says
 * `what` ("rank 3 to answer"), and when the world is aborted (notice NULL: this is not checked). slow: called many
 * times a second during the wait, with the seconds waited so far; a status other than LS_OK ends the wait. NULL: no
 * call.
 */
typedef struct ls_patience {
    const ls_notice *notice;
    double seconds;
    ls_status (*slow)(void *context, double waited);
    void *context;
} ls_patience;

/* Listens at a numeric address. *port 0 takes a free port; *port becomes the number of the port. */
ls_status ls_socket_listen(const char *address, int *port, int *fd);
/* Connects to a host, by name or numeric address. LS_PEER: nothing listens there. */
ls_status ls_socket_connect(const char *host, int port, int *fd);
/*
 * Accepts one connection, without waiting if the listener is non-blocking. Returns the error number of accept4; 0: *fd
 * is set.
 */
int ls_socket_accept_now(int listener, int *fd);
ls_status ls_socket_accept(int listener, const ls_patience *patience, const char *what, int *fd);
/*
 * Sends or receives all the bytes. LS_PEER: the other side has closed the connection; LS_IO names the call that failed.
 */
ls_status ls_socket_send(int fd, const void *from, size_t bytes, const ls_patience *patience, const char *what);
ls_status ls_socket_receive(int fd, void *to, size_t bytes, const ls_patience *patience, const char *what);
/*
 * Waits until poll reports one of the events. `began`: the ls_seconds() from which the seconds of the patience count.
 */
ls_status ls_socket_await(int fd, short events, const ls_patience *patience, double began, const char *what);
/*
 * Writes the numeric addresses of a host, IPv4 first, each once, at most `most`; *n is their number. LS_IO: the host is
 * unknown.
 */
ls_status ls_socket_addresses(const char *host, char (*out)[LS_ADDRESS], int most, int *n);
/* Whether a numeric address is one of this host's own; whether it can be reached only from this host. */
bool ls_socket_is_own(const char *address);
bool ls_socket_is_loopback(const char *address);
/* Gives a socket that was connected without blocking the same settings as those of ls_socket_connect. */
ls_status ls_socket_set_up(int fd);
/* The numeric address of this end of a connection. */
ls_status ls_socket_own_address(int fd, char out[LS_ADDRESS]);

#endif
