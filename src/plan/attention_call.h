/* Calls of attention by itself, with the operands that a rank alone would give it: what timed_call.h times. */
#ifndef LS_PLAN_ATTENTION_CALL_H
#define LS_PLAN_ATTENTION_CALL_H

#include "kernel/kernel.h"

/* One sequence of S tokens, Hq query heads of size D that share Hkv KV heads. */
typedef struct ls_attention_shape {
    int64_t S, Hq, Hkv, D;
} ls_attention_shape;

/*
 * Operands and parameters of "attention" (LS_FORWARD) or "attention_grad" (LS_BACKWARD), without data but for positions and the table of
 * visible keys, which lie in the arena.
 */
ls_kernel_call ls_attention_call_make(ls_arena *arena, ls_dtype T, int pass, const ls_attention_shape *shape,
                                      const ls_mask *mask);

/* Of "attention_delta", which the gradient needs. */
ls_kernel_call ls_attention_delta_call(ls_dtype T, const ls_attention_shape *shape);

/* Keys that queries see, over all query heads, in the call's table. */
double ls_attention_call_pairs(const ls_kernel_call *call);

#endif
