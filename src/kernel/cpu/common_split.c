#include "kernel/cpu/split.h"

#include "base/base.h"

enum { PARTS_PER_THREAD = 4 };

int ls_cpu_parts(int64_t n, int64_t least, int threads) {
    if (threads <= 1) return 1;
    const int64_t most = (int64_t)threads * PARTS_PER_THREAD;
    return (int)ls_max(1, ls_min(most, n / least));
}

typedef struct split {
    int64_t n;
    int parts;
    ls_cpu_body body;
    const void *context;
} split;

static void run_part(void *context, int i, int thread) {
    (void)thread;
    const split *s = context;
    s->body(s->context, i, ls_part_start(s->n, s->parts, i), ls_part_start(s->n, s->parts, i + 1));
}

void ls_cpu_split(ls_pool *pool, int64_t n, int parts, ls_cpu_body body, const void *context) {
    split s = {n, parts, body, context};
    ls_pool_run(pool, parts, run_part, &s);
}
