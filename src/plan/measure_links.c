/* Measures puts and signals between ranks of a device that has messages, and its copies to and from the host. */
#include "plan/plan_impl.h"

#include <math.h>

static ls_status median_of(ls_device_pair *pair, ls_pair_trip trip, size_t bytes, double *seconds) {
    double times[LS_MEASURED_RUNS];
    for (int i = 0; i < LS_MEASURED_RUNS; i++) LS_TRY(ls_device_pair_time(pair, trip, bytes, &times[i]));
    *seconds = ls_median(times, LS_MEASURED_RUNS);
    return ls_ok();
}

static ls_status measure_one(ls_device_pair *pair, size_t near, size_t far, ls_host *out) {
    double answered, small, large, to_host, from_host;
    LS_TRY(median_of(pair, LS_TRIP_ANSWERED, 0, &answered));
    LS_TRY(median_of(pair, LS_TRIP_PUT, near, &small));
    LS_TRY(median_of(pair, LS_TRIP_PUT, far, &large));
    LS_TRY(median_of(pair, LS_TRIP_TO_HOST, far, &to_host));
    LS_TRY(median_of(pair, LS_TRIP_FROM_HOST, far, &from_host));
    out->latency = fmax(answered / 2, 1e-12);
    out->put.near = small / (double)near;
    out->put.far = fmax(out->put.near, large / (double)far);
    out->to_host = (double)far / to_host;
    out->from_host = (double)far / from_host;
    return ls_ok();
}

static ls_status measure_peers(ls_device_pair *pair, size_t bytes, ls_host *out) {
    double seconds;
    LS_TRY(median_of(pair, LS_TRIP_PUT, bytes, &seconds));
    out->peer = (double)bytes / seconds;
    return ls_ok();
}

ls_status ls_measure_links(const ls_host_of *of, double cache, ls_host *out) {
    const size_t near = (size_t)fmax(cache / 4, 0x1p12), far = (size_t)fmin(fmax(4 * cache, 0x1p16), 0x1p27);
    ls_device_pair *pair;
    LS_TRY(ls_device_pair_open(of, (const int[]){0, 0}, far, &pair));
    ls_status status = measure_one(pair, near, far, out);
    ls_device_pair_close(pair);
    LS_TRY(status);
    out->peer = 0;
    if (of->facts.units < 2) return ls_ok();
    status = ls_device_pair_open(of, (const int[]){0, 1}, far, &pair);
    if (status.code == LS_UNSUPPORTED) { /* the two GPUs do not reach each other */
        ls_log("%s; puts between GPUs are not measured", status.text);
        return ls_ok();
    }
    LS_TRY(status);
    status = measure_peers(pair, far, out);
    ls_device_pair_close(pair);
    return status;
}
