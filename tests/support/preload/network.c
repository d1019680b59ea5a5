/*
 * The calls that connect ranks, each of which may fail by choice: those of sockets and shared memory, and those of MPI.
 * They count when LS_FAULT_CALLS names them. Their path is "rank N", by what the starter of the ranks says, or "local".
 */
#include "support/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static char who[32] = "local";
static bool wanted;

__attribute__((constructor)) static void begin(void) {
    static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    wanted = getenv("LS_FAULT_CALLS") != NULL;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *rank = getenv(variables[i]);
        if (rank == NULL) continue;
        snprintf(who, sizeof who, "rank %.8s", rank);
        return;
    }
}

static bool fails(const char *call) { return wanted && fault_fails(call, who); }

/* The next definition of a function, after this library's. */
#define FIND(next, name) \
    if (next == NULL) *(void **)(&next) = dlsym(RTLD_NEXT, name)

/* condition: which calls count; failed: what a call returns that fails. */
#define CALL(type, name, condition, parameters, arguments, failed) \
    type name parameters {                                         \
        static type(*next) parameters;                             \
        FIND(next, #name);                                         \
        if ((condition) && fails(#name)) return failed;            \
        return next arguments;                                     \
    }

CALL(int, socket, true, (int family, int type, int protocol), (family, type, protocol), -1)
CALL(int, bind, true, (int fd, const struct sockaddr *at, socklen_t n), (fd, at, n), -1)
CALL(int, listen, true, (int fd, int n), (fd, n), -1)
CALL(int, connect, true, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n), -1)
CALL(int, accept4, true, (int fd, struct sockaddr *from, socklen_t *n, int flags), (fd, from, n, flags), -1)
CALL(int, getsockname, true, (int fd, struct sockaddr *own, socklen_t *n), (fd, own, n), -1)
CALL(int, setsockopt, true, (int fd, int level, int name, const void *value, socklen_t n), (fd, level, name, value, n),
     -1)
CALL(int, shutdown, true, (int fd, int how), (fd, how), -1)
CALL(ssize_t, send, true, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), -1)
CALL(ssize_t, recv, true, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), -1)
CALL(ssize_t, sendmsg, true, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
CALL(ssize_t, recvmsg, true, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
CALL(int, poll, true, (struct pollfd * polled, nfds_t n, int milliseconds), (polled, n, milliseconds), -1)
CALL(int, memfd_create, true, (const char *name, unsigned flags), (name, flags), -1)
CALL(void *, mmap, (flags & MAP_SHARED) != 0 && fd >= 0,
     (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
     (at, bytes, protection, flags, fd, offset), MAP_FAILED)
CALL(int, eventfd, true, (unsigned first, int flags), (first, flags), -1)
CALL(int, pipe2, true, (int *ends, int flags), (ends, flags), -1)
CALL(ssize_t, getrandom, true, (void *to, size_t n, unsigned flags), (to, n, flags), -1)
CALL(int, pthread_create, true, (pthread_t * thread, const pthread_attr_t *how, void *(*start)(void *), void *argument),
     (thread, how, start, argument), errno)
CALL(int, getaddrinfo, true,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out),
     (host, service, hints, out), EAI_FAIL)
CALL(int, getnameinfo, true,
     (const struct sockaddr *address, socklen_t n, char *host, socklen_t host_room, char *service,
      socklen_t service_room, int flags),
     (address, n, host, host_room, service, service_room, flags), EAI_FAIL)

/*
 * MPI. Its types differ from library to library, but all of its arguments are integers or pointers, of which those
 * beyond the registers take 8 bytes each: so any call of up to 8 arguments can be passed on without knowing them. 16 is
 * an error of both libraries: MPI_ERR_OTHER of one, MPI_ERR_INTERN of the other.
 */
#define MPI_CALL(name)                                                         \
    int name(long a, long b, long c, long d, long e, long f, long g, long h);  \
    int name(long a, long b, long c, long d, long e, long f, long g, long h) { \
        static int (*next)(long, long, long, long, long, long, long, long);    \
        if (next == NULL) *(void **)(&next) = dlsym(RTLD_DEFAULT, "P" #name);  \
        return fails(#name) ? 16 : next(a, b, c, d, e, f, g, h);               \
    }
MPI_CALL(MPI_Comm_dup)
MPI_CALL(MPI_Isend)
MPI_CALL(MPI_Irecv)
MPI_CALL(MPI_Iprobe)
MPI_CALL(MPI_Recv)
MPI_CALL(MPI_Test)
MPI_CALL(MPI_Ibarrier)
MPI_CALL(MPI_Iallgather)
