/* Measured numbers: the clock, medians, and bytes and seconds as text. */
#ifndef LS_BASE_MEASURE_H
#define LS_BASE_MEASURE_H

/* Seconds on the monotonic clock. */
double ls_seconds(void);

/* The median of n >= 1 values; of an even number, the mean of the middle two. Sorts the values in ascending order. */
double ls_median(double *values, int n);

/*
 * The index of the median of n >= 1 values; of an even number, the index of the lower of the middle two. Does not
 * change the order of the values.
 */
int ls_median_place(const double *values, int n);

/* "512 B", "1.5 KiB", "2.0 GiB"; returns out, which may be NULL. */
#define LS_BYTES_TEXT 24
const char *ls_bytes_text(double bytes, char out[LS_BYTES_TEXT]);

/* "4.261 ms", "111.2 s", "35.20 min"; returns out, which may be NULL. */
#define LS_SECONDS_TEXT 24
const char *ls_seconds_text(double seconds, char out[LS_SECONDS_TEXT]);

#endif
