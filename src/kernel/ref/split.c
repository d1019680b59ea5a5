/* Dealing independent indices to the threads of the pool. */
#include "kernel/ref/ref_impl.h"

enum { PARTS_PER_THREAD = 4 };

typedef struct split {
    int64_t n, parts;
    ref_body body;
    const void *context;
} split;

static void run_part(void *context, int i, int thread) {
    (void)thread;
    const split *s = context;
    s->body(s->context, ls_part_start(s->n, s->parts, i), ls_part_start(s->n, s->parts, i + 1));
}

void REF(split)(ls_pool *pool, int64_t n, ref_body body, const void *context) {
    const int threads = ls_pool_threads(pool);
    split s = {n, threads > 1 ? ls_min(n, (int64_t)threads * PARTS_PER_THREAD) : 1, body, context};
    if (n > 0) ls_pool_run(pool, (int)s.parts, run_part, &s);
}
