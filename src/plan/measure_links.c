/* Measures puts and signals between ranks of a device that has messages, and copies to and from the host. */
#include "plan/plan_impl.h"

#include <math.h>

static ls_status median_of(ls_device_pair *pair, ls_pair_trip trip, size_t bytes, double *seconds) {
    double times[LS_MEASURED_RUNS];
    for (int i = 0; i < LS_MEASURED_RUNS; i++) LS_TRY(ls_device_pair_time(pair, trip, bytes, &times[i]));
    *seconds = ls_median(times, LS_MEASURED_RUNS);
    return ls_ok();
}

static ls_status measure_puts(ls_device_pair *pair, size_t near, size_t far, ls_host *out) {
    double answered, small, large;
    LS_TRY(median_of(pair, LS_TRIP_ANSWERED, 0, &answered));
    LS_TRY(median_of(pair, LS_TRIP_PUT, near, &small));
    LS_TRY(median_of(pair, LS_TRIP_PUT, far, &large));
    out->latency = fmax(answered / 2, 1e-12);
    out->put.near = small / (double)near;
    out->put.far = fmax(out->put.near, large / (double)far);
    return ls_ok();
}

static ls_status measure_peer(ls_device_pair *pair, size_t near, size_t far, ls_host *out) {
    double seconds;
    (void)near;
    LS_TRY(median_of(pair, LS_TRIP_PUT, far, &seconds));
    out->peer = (double)far / seconds;
    return ls_ok();
}

static ls_status measure_host(ls_device_pair *pair, size_t near, size_t far, ls_host *out) {
    double to_host, from_host;
    (void)near;
    LS_TRY(median_of(pair, LS_TRIP_TO_HOST, far, &to_host));
    LS_TRY(median_of(pair, LS_TRIP_FROM_HOST, far, &from_host));
    out->to_host = (double)far / to_host;
    out->from_host = (double)far / from_host;
    return ls_ok();
}

/* Measures between two ranks on these devices. */
static ls_status measure_between(const ls_host_of *of, int second,
                                 ls_status (*measure)(ls_device_pair *, size_t, size_t, ls_host *), ls_host *out) {
    const size_t near = (size_t)fmax(out->cache / 4, 0x1p12), far = (size_t)fmin(fmax(4 * out->cache, 0x1p16), 0x1p27);
    ls_device_pair *pair;
    LS_TRY(ls_device_pair_open(of, (const int[]){0, second}, far, &pair));
    const ls_status status = measure(pair, near, far, out);
    ls_device_pair_close(pair);
    return status;
}

/* If the machine lacks something, the rate is left as it is, and one log line says why. */
static void log_missing(ls_status status, const char *what) {
    if (status.code != LS_OK) ls_log("%s; %s are not measured", status.text, what);
}

ls_status ls_measure_links(const ls_host_of *of, ls_host *out) {
    LS_TRY(measure_between(of, 0, measure_puts, out));
    out->peer = 0;
    log_missing(measure_between(of, 0, measure_host, out), "copies to the host");
    if (of->facts.units > 1) log_missing(measure_between(of, 1, measure_peer, out), "puts between GPUs");
    return ls_ok();
}
