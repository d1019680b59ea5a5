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

int ls_median_place(const double *values, int n) {
    int place = 0;
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int k = 0; k < n; k++) before += values[k] < values[i] || (values[k] == values[i] && k < i);
        if (before == (n - 1) / 2) place = i;
    }
    return place;
}
