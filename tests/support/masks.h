/* Masks for tests, written as text. */
#ifndef TESTS_MASKS_H
#define TESTS_MASKS_H

#include "tensor/tensor.h"

/*
 * Terms joined by +: those of the command line; "documents", with these ends, which must outlive the mask; and
 * "first:N", which shows the first N tokens and nothing else, a window of 0, so that a query may see nothing.
 */
ls_mask mask_of_terms(const char *terms, const int32_t *ends, int n_ends);

#endif
