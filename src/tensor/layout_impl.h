/* Layouts that deal pieces of the sequence to blocks. */
#ifndef LS_TENSOR_LAYOUT_IMPL_H
#define LS_TENSOR_LAYOUT_IMPL_H

#include "tensor/layout.h"

/* The positions behind the piece before it, up to `end`. */
typedef struct ls_layout_piece {
    int64_t end;
    int block;
} ls_layout_piece;

/* In ascending order up to S; a block gets as many tokens as its members hold. They lie in the arena. */
typedef struct ls_layout_pieces {
    ls_layout_piece *at;
    int64_t n;
    size_t capacity;
} ls_layout_pieces;

int ls_layout_blocks(const ls_layout_need *need);
int64_t ls_layout_block_tokens(const ls_layout_need *need, int block);

void ls_layout_deal_documents(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out);
void ls_layout_deal_balanced(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out);

#endif
