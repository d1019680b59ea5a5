#include "longspan/units.h"

#include <math.h>
#include <stdio.h>

const char *ls_bytes_text(double bytes, char out[LS_BYTES_TEXT]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    if (out == NULL) return NULL;
    int unit = 0;
    while (bytes >= 1024 && unit < 4) bytes /= 1024, unit++;
    snprintf(out, LS_BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
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
    snprintf(out, LS_SECONDS_TEXT, "%.*f %s", value < 10 ? 3 : value < 100 ? 2 : 1, value, units[unit].name);
    return out;
}
