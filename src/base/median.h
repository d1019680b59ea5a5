/* The middle of a few measurements. */
#ifndef LS_BASE_MEDIAN_H
#define LS_BASE_MEDIAN_H

/* Sorts them, ascending; n >= 1. Of an even number: the mean of the two in the middle. */
double ls_median(double *values, int n);

/* Where the middle one stands, of an even number the lower of the two in the middle; n >= 1. The values stay as they are. */
int ls_median_place(const double *values, int n);

#endif
