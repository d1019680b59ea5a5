/* The blocks of a layout, and how many tokens each holds. */
#include "tensor/layout_impl.h"

#include "base/base.h"

int ls_layout_blocks(const ls_layout_need *need) { return need->P / (int)ls_max(1, need->members); }

int64_t ls_layout_block_tokens(const ls_layout_need *need, int block) {
    const int blocks = ls_layout_blocks(need);
    return ls_part_start(need->S, blocks, block + 1) - ls_part_start(need->S, blocks, block);
}
