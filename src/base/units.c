#include "longspan/units.h"

#include <stdio.h>

const char *ls_bytes_text(double bytes, char out[LS_BYTES_TEXT]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) bytes /= 1024, unit++;
    snprintf(out, LS_BYTES_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}
