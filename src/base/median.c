#include "base/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls_median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
