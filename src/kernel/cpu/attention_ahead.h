/*
 * Rows that are packed soon, brought into the second cache a few lines at a time between products: they lie a whole row of all heads apart,
 * which the processor does not foresee.
 */
#ifndef LS_KERNEL_CPU_ATTENTION_AHEAD_H
#define LS_KERNEL_CPU_ATTENTION_AHEAD_H

#include "kernel/cpu/attention_problem.h"

typedef struct ahead {
    const char *row;
    int64_t step, bytes; /* from row to row; of a row */
    int64_t rows;        /* still to come, the one at work included */
    int64_t done;        /* bytes of that one */
} ahead;

/* So many rows of a head of a [B, positions, H, D] view, from position `start` on. */
static ahead ahead_of(const ls_view *view, int64_t b, int64_t head, int64_t start, int64_t rows) {
    const int64_t size = (int64_t)ls_dtype_bytes(view->dtype),
                  row = head_offset(view, b, head) + start * view->stride[1];
    return (ahead){.row = (const char *)view->data + row * size,
                   .step = view->stride[1] * size,
                   .bytes = view->size[3] * size,
                   .rows = rows};
}

V_INLINE void fetch_lines(ahead *a, int lines) {
    const int line = 64;
    for (; lines > 0 && a->rows > 0; lines--) {
        __builtin_prefetch(a->row + a->done, 0, 2);
        a->done += line;
        if (a->done < a->bytes) continue;
        a->row += a->step;
        a->rows--;
        a->done = 0;
    }
}

#endif
