/*
 * Trips between two ranks: the loop that times them, reading the bytes that came, and binding each rank to a processor.
 */
#include "cli/bench/trip.h"

#include <sched.h>

/* About how many seconds all trips of one measurement take. */
static const double batch_seconds = 0.02;

/* Writes new bytes before a trip, because the old ones could still lie in the caches of the peer that reads them. */
static void write_payload(const ls_trips *t) {
    enum { LINE = 64 };
    for (size_t i = 0; i < t->bytes; i += LINE) t->payload[i]++;
}

ls_status ls_trips_time(const ls_trips *t, int64_t n, double *seconds) {
    LS_TRY(t->meet(t->side));
    double start = ls_seconds(), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (t->payload != NULL) {
            sum += ls_seconds() - start;
            write_payload(t);
            start = ls_seconds();
        }
        LS_TRY(t->trip(t->side));
    }
    *seconds = (sum + ls_seconds() - start) / (double)n;
    return ls_ok();
}

ls_status ls_trips_count(const ls_trips *t, int64_t *n) {
    enum { WARM = 8 };
    double seconds;
    for (int i = 0; i < 2; i++) LS_TRY(ls_trips_time(t, WARM, &seconds)); /* the first warms up */
    *n = 1 + (int64_t)(batch_seconds / seconds);
    return ls_ok();
}

/* Four sums, so that neither the latency of an addition nor the alignment of the loop limits the speed of reading. */
uint64_t ls_trip_read(const void *data, size_t bytes) {
    const uint64_t *words = data;
    uint64_t sum[4] = {0};
    for (size_t i = 0; i + LS_COUNT(sum) <= bytes / sizeof *words; i += LS_COUNT(sum))
        for (size_t k = 0; k < LS_COUNT(sum); k++) sum[k] += words[i + k];
    return sum[0] + sum[1] + sum[2] + sum[3];
}

void ls_trip_pin(int rank) {
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == rank) CPU_SET(cpu, &own);
    if (CPU_COUNT(&own) == 1) (void)sched_setaffinity(0, sizeof own, &own);
}
