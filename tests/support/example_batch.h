/* A batch for the example graphs (examples/graphs), for engines of the library. */
#ifndef TESTS_EXAMPLE_BATCH_H
#define TESTS_EXAMPLE_BATCH_H

#include "longspan/longspan.h"

/* Sequences of so many tokens, of so many ids; tokens of a batch whose loss counts; room for all parameters. */
enum { B = 2, S = 23, IDS = 17, VALID = B * (S - 1), ROOM = 40000 };

/* An ls_step's feed: the same tokens each time, the positions that a graph may want, and the next tokens as labels. */
ls_status feed_example(ls_worker *w, int64_t micro_batch, void *context);

#endif
