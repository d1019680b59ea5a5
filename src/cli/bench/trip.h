/*
 * What measurements of messages between two ranks share, so that they measure the same: `longspan bench comm`, and
 * beside it bench/comm_launched.c and bench/peers/comm_mpi.c. A trip is what each rank does while bytes go to rank 1,
 * which then reads them all, and an answer comes back to rank 0. This needs no more of Longspan than base, so that it
 * can be built with any MPI's compiler.
 */
#ifndef LS_BENCH_TRIP_H
#define LS_BENCH_TRIP_H

#include "base/base.h"

#define LS_TRIP_LARGEST ((size_t)16 << 20)
/* The first is for latency: as many bytes come back as went there, and nobody reads them. */
static const size_t ls_trip_sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, LS_TRIP_LARGEST};
static inline bool ls_trip_is_latency(size_t bytes) { return bytes == ls_trip_sizes[0]; }

/* One rank's part of the trips of one size. The functions get `side`. */
typedef struct ls_trips {
    void *side;
    ls_status (*meet)(void *side); /* a barrier of both ranks */
    ls_status (*trip)(void *side);
    char *payload; /* [bytes] what this rank sends, to be written anew before each trip; NULL: it need not be */
    size_t bytes;
} ls_trips;

/* *seconds becomes the mean of n trips, without the time to write the payload. Both ranks call it with the same n. */
LS_MUST_USE ls_status ls_trips_time(const ls_trips *trips, int64_t n, double *seconds);

/*
 * Warms up; *n becomes the number of trips that take about a fiftieth of a second. Both ranks call it, and then use the
 * number of one of them.
 */
LS_MUST_USE ls_status ls_trips_count(const ls_trips *trips, int64_t *n);

/* Reads all bytes, at the speed of the memory that they lie in. The caller keeps the sum, so that they are read. */
uint64_t ls_trip_read(const void *data, size_t bytes);

/* Pins the rank to a processor of its own, if this process may run on several. Failures are ignored. */
void ls_trip_pin(int rank);

#endif
