/* decode: the numbers of blocks. */
#include "kernel/cpu/blocks_decode.h"

static void decode_blocks(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_dtype dtype = call->in[0].dtype;
    const int64_t values = ls_dtype_values(dtype), bytes = (int64_t)ls_dtype_bytes(dtype);
    const unsigned char *from = call->in[0].data;
    element *to = call->out[0].data;
    for (int64_t i = start; i < end; i++) block_decoders[dtype](from + i * bytes, to + i * values);
}

static void run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->in[0]), ls_dtype_values(call->in[0].dtype), decode_blocks);
}

static ls_status prepare(const ls_kernel_call *call, void **state) { return check_only(LS_KERNEL_DECODE, call, state); }

const ls_kernel LS_CPU_NAME(decode) = {.id = LS_KERNEL_DECODE, LS_CPU_VARIANT, .prepare = prepare, .run = run};
