/* Layouts that assign pieces of the sequence to blocks. */
#ifndef LS_TENSOR_LAYOUT_IMPL_H
#define LS_TENSOR_LAYOUT_IMPL_H

#include "tensor/layout.h"

/* The positions from the end of the previous piece up to `end`. */
typedef struct ls_layout_piece {
    int64_t end;
    int block;
} ls_layout_piece;

/*
 * The pieces of a sequence in ascending order, up to S. Together, the pieces of a block have as many tokens as its
 * ranks hold.
 */
typedef struct ls_layout_pieces {
    ls_layout_piece *at; /* in an arena */
    int64_t n;
    size_t capacity;
} ls_layout_pieces;

int ls_layout_blocks(const ls_layout_need *need);
int64_t ls_layout_block_tokens(const ls_layout_need *need, int block);

/* Assigns the pieces of the layout `balanced`. */
void ls_layout_assign_balanced(const ls_layout_need *need, ls_arena *scratch, ls_layout_pieces *out);

#endif
