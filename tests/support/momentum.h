/* An optimiser that only tests know. */
#ifndef TESTS_MOMENTUM_H
#define TESTS_MOMENTUM_H

#include "compile/compile.h"

/*
 * Keeps one state, the sum of all gradients, bound as "optimizer.momentum" and saved as "momentum", and adds it to the
 * masters.
 */
extern const ls_optimizer momentum;

#endif
