/* Kernels of attention and its gradient against the answers of a problem (attention_oracle.h). */
#ifndef LS_TESTS_SUPPORT_ATTENTION_CHECK_H
#define LS_TESTS_SUPPORT_ATTENTION_CHECK_H

#include "support/attention_oracle.h"
#include "support/kernel_call.h"

typedef struct attention_variant {
    const ls_kernel *forward, *backward;
    const char *name; /* for messages */
    int gap;          /* elements between the heads of q, k, v and o */
} attention_variant;

/*
 * Runs both on the problem, block of keys after block, twice: fails the test where a result is off by more than the
 * type's rounding allows, where the bits of both runs differ, or where something between the heads was written.
 */
void check_attention(const problem *p, const attention_variant *v);

/* The same, with calls that are made as call_kernel makes them: their operands lie in memory of the host. */
typedef void attention_caller(const ls_kernel *kernel, ls_kernel_call *call, ls_pool *pool);
void check_attention_by(const problem *p, const attention_variant *v, attention_caller *make);

/* Queries without keys, and keys without queries: results are 0, and lse -inf. */
void check_empty_attention(const attention_variant *variant);

/* A dense view of new NaNs, [a,b,c] where d is 0; the caller frees its data. */
ls_view dense_view(ls_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d);
/* Sets element `at` of a view's memory, of f32 or bf16. */
void put_float(const ls_view *view, int64_t at, float value);

#endif
