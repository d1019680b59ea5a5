/* Measured numbers: the clock and medians. `longspan/units.h` has bytes and seconds as text. */
#ifndef LS_BASE_MEASURE_H
#define LS_BASE_MEASURE_H

/* Seconds on the monotonic clock. */
double ls_seconds(void);

/* The median of n >= 1 values; of an even number, the mean of the middle two. Sorts the values in ascending order. */
double ls_median(double *values, int n);

/* The index of the median among n >= 1 values; of an even number, of the lower one of the middle two. Moves no value. */
int ls_median_place(const double *values, int n);

#endif
