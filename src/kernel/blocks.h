/*
 * Element types of which one element is a block of numbers with a scale (LS_NF4 and the types after it): the meaning of
 * a block's bytes. The codes come first, then the scale. Every implementation of a kernel decodes to the same bits.
 *
 *   nf4    number i of the 64 is nibble i, the high one of a byte first:  ls_nf4_values[code] * scale
 *   int8   code * scale * (1/127), in this order
 *   fp8    code, an E4M3, * scale
 *   mxfp4  number i of the 32 is nibble i, the low one of a byte first:   ls_e2m1_values[code] * 2^(scale - 127);
 *          a scale of 255 is NaN
 */
#ifndef LS_KERNEL_BLOCKS_H
#define LS_KERNEL_BLOCKS_H

#include "tensor/tensor.h"

enum { LS_BLOCK_MOST_VALUES = 64, LS_BLOCK_MOST_BYTES = 68 };

extern const float ls_nf4_values[16], ls_e2m1_values[16];

/* Decodes n blocks to ls_dtype_values(dtype) numbers each. */
void ls_blocks_decode(ls_dtype dtype, const void *blocks, int64_t n, float *numbers);

/* Whether numbers can be encoded to blocks of this type; mxfp4 is only read. */
bool ls_blocks_can_encode(ls_dtype dtype);
/*
 * Encodes to the nearest codes; of two equally near codes, nf4 takes the lower one, the other types the even one. The
 * scale is the largest absolute value of the block; for fp8 this value divided by 448. If a number of a block is not
 * finite, none of the numbers decoded from the block is.
 */
void ls_blocks_encode(ls_dtype dtype, const float *numbers, int64_t n, void *blocks);

#endif
