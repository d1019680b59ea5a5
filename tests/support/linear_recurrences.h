/* Networks of linear recurrences, one for each kind of decay and update, and forms of these. */
#ifndef TESTS_LINEAR_RECURRENCES_H
#define TESTS_LINEAR_RECURRENCES_H

#include "support/network.h"

extern const network linear_networks[];
extern const int n_linear_networks;
/* That of a name, which there is. */
const network *linear_network(const char *name);

/*
 * The exact results of a network whose parameters have type T, and what those on many ranks may be off by, each by
 * network_error_of_kind: in f32 1e-5, or twice the error of one rank; in bf16 that and a rounding more.
 */
typedef struct linear_bounds {
    network_result exact;
    double *most; /* [1 + i], the first that of the loss */
    int n;
} linear_bounds;
linear_bounds linear_bounds_of(const network *n, ls_dtype T);
/* Ends the test where a result is off by more; what: is said then. */
void linear_bounds_check(const linear_bounds *bounds, const network_result *many, const char *what);
void linear_bounds_free(linear_bounds *bounds);

#endif
