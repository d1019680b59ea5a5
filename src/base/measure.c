/* Measured numbers: the clock, medians, bytes and seconds as text. */
#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double ls_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls_median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

int ls_median_place(const double *values, int n) {
    int place = 0;
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int k = 0; k < n; k++) before += values[k] < values[i] || (values[k] == values[i] && k < i);
        if (before == (n - 1) / 2) place = i;
    }
    return place;
}

const char *ls_bytes_text(double bytes, char out[LS_BYTES_TEXT]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (out == NULL) return NULL;
    int unit = 0;
    while (bytes >= 1024 && unit < 4) bytes /= 1024, unit++;
    ls_print(out, LS_BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

const char *ls_seconds_text(double seconds, char out[LS_SECONDS_TEXT]) {
    static const struct {
        double least, scale;
        const char *name;
    } units[] = {{60, 1 / 60.0, "min"}, {1, 1, "s"}, {1e-3, 1e3, "ms"}, {0, 1e6, "µs"}};
    if (out == NULL) return NULL;
    int unit = 0;
    while (unit < 3 && fabs(seconds) < units[unit].least) unit++;
    const double value = seconds * units[unit].scale;
    ls_print(out, LS_SECONDS_TEXT, "%.*f %s", value < 10 ? 3 : value < 100 ? 2 : 1, value, units[unit].name);
    return out;
}
