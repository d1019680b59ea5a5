/*
 * Element types of which an element is a block of numbers with a scale (LS_NF4 and those behind it): what a block's
 * bytes say. First come the codes, then the scale. Every implementation of a kernel decodes to the same bits.
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

/* n blocks to ls_dtype_values(dtype) numbers each. */
void ls_blocks_decode(ls_dtype dtype, const void *blocks, int64_t n, float *numbers);

/* Whether numbers can be brought into blocks of this type; mxfp4 is only read. */
bool ls_blocks_can_encode(ls_dtype dtype);
/*
 * The nearest codes, of two equally near ones the lower for nf4 and the even one else; the scale is the largest
 * absolute value of the block, for fp8 divided by 448. A block with a number that is not finite decodes to none that
 * is.
 */
void ls_blocks_encode(ls_dtype dtype, const float *numbers, int64_t n, void *blocks);

#endif
