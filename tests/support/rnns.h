/* Networks of two layers of recurrent cells: all kinds, with biases and packed documents. */
#ifndef LS_TESTS_SUPPORT_RNNS_H
#define LS_TESTS_SUPPORT_RNNS_H

#include "support/network.h"

extern const network rnn_networks[];
extern const int n_rnn_networks;

#endif
