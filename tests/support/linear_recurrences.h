/* Networks of linear recurrences, one for each kind of decay and update, and forms of these. */
#ifndef TESTS_LINEAR_RECURRENCES_H
#define TESTS_LINEAR_RECURRENCES_H

#include "support/network.h"

extern const network linear_networks[];
extern const int n_linear_networks;

#endif
