/*
 * What the measurements of messages between two ranks share, so that they measure the same thing: `longspan bench
 * comm`, bench/comm_launched.c and bench/peers/comm_mpi.c. In a trip, bytes go to rank 1, which reads them all, and an
 * answer comes back to rank 0. This file needs nothing of Longspan but base, so that it can be built with any MPI's
 * compiler.
 */
#ifndef LS_BENCH_TRIP_H
#define LS_BENCH_TRIP_H

#include "base/base.h"

#define LS_TRIP_LARGEST ((size_t)16 << 20)
/* The first size is for latency: as many bytes come back, and they are not read. */
static const size_t ls_trip_sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, LS_TRIP_LARGEST};
static inline bool ls_trip_is_latency(size_t bytes) { return bytes == ls_trip_sizes[0]; }

/* One rank's part of the trips of one size. The functions are called with `side`. */
typedef struct ls_trips {
    void *side;
    ls_status (*meet)(void *side); /* a barrier of both ranks */
    ls_status (*trip)(void *side);
    char *payload; /* [bytes] what this rank sends, to be written again before each trip; NULL: that is not needed */
    size_t bytes;
} ls_trips;

/* *seconds becomes the mean of n trips, without the time to write the payload. Both ranks call it with the same n. */
LS_MUST_USE ls_status ls_trips_time(const ls_trips *trips, int64_t n, double *seconds);

/*
 * Warms up; *n becomes the number of trips that take about a fiftieth of a second. Both ranks call it, and then both
 * use the number of one of them.
 */
LS_MUST_USE ls_status ls_trips_count(const ls_trips *trips, int64_t *n);

/*
 * Reads all bytes, at the speed of the memory that they lie in. The caller must use the sum, so that the reads are not
 * optimised away.
 */
uint64_t ls_trip_read(const void *data, size_t bytes);

/* Binds the rank to its own processor, if this process may run on several. Failures are ignored. */
void ls_trip_pin(int rank);

#endif
