#include "support/example_batch.h"

ls_status feed_example(ls_worker *w, int64_t micro_batch, void *context) {
    (void)micro_batch, (void)context;
    int32_t tokens[B * S], labels[B * S], positions[B * S];
    for (int i = 0; i < B * S; i++) {
        tokens[i] = (i * i * 7 + i * 3 + i / 5) % IDS;
        positions[i] = i % S;
    }
    for (int i = 0; i < B * S; i++) labels[i] = i % S == S - 1 ? -100 : tokens[i + 1];
    LS_TRY(ls_worker_set_input(w, "tokens", tokens));
    const ls_status without = ls_worker_set_input(w, "positions", positions);
    if (without.code != LS_OK && without.code != LS_USAGE) return without; /* some have no positions */
    return ls_worker_set_input(w, "labels", labels);
}
