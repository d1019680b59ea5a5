/* The reference kernels of one precision. */
#include "kernel/ref/ref_impl.h"

#define ADDRESS(id, name) &REF(name)
const ls_kernel *const REF(kernels)[] = {
    LS_KERNELS(ADDRESS),
#if !LS_REAL_IS_F64
    /* Kernels without arithmetic in their element type are registered for the other types too. */
    &REF(copy_bf16), &REF(copy_i32), &REF(fill_bf16), &REF(fill_i32), &REF(cast_bf16), &REF(offload_bf16),
    &REF(fetch_bf16), &REF(offload_i32), &REF(fetch_i32), &REF(sum_bf16), &REF(rope_table_bf16),
    &REF(step_control_bf16), &REF(cache_write_bf16), &REF(local_ids_bf16), &REF(cross_entropy_merge_bf16),
    &REF(deal_rows_bf16), &REF(collect_rows_bf16),
#define COPIES(name, dtype) &REF(copy_##name), &REF(offload_##name), &REF(fetch_##name),
    REF_BLOCK_TYPES(COPIES)
#endif
        NULL};
