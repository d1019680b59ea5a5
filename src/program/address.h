/*
 * Addresses of transfers. The rank that receives a put, or leases a block, decides where the bytes lie: when programs
 * are prepared, it tells the other end of the channel an address for each use. So the heaps of two ranks need not be
 * laid out alike. The other end knows only the form by itself: the type, the number of bytes, and the lengths and
 * distances of the pieces in which they lie.
 */
#ifndef LS_PROGRAM_ADDRESS_H
#define LS_PROGRAM_ADDRESS_H

#include "program/instr.h"

typedef struct ls_address {
    ls_range range; /* in the heap of the rank that receives or leases */
    ls_dtype dtype;
    size_t counted; /* ls_instr.counted */
} ls_address;

/*
 * The address of the subject of a RECEIVE or LEASE, which is in the rank's own memory; for a PUT or BORROW, the form
 * that it expects.
 */
ls_address ls_address_of(const ls_image *image, const ls_instr *instr, int rank);
/*
 * Whether two addresses have the same form, which is everything but the offset. All empty addresses have the same form.
 */
bool ls_address_same_form(const ls_address *a, const ls_address *b);
/* "24 bytes of f32 in 3 x 1 x 1 pieces, 64, 0, 0 bytes apart": an address without its offset. */
void ls_address_print_form(const ls_address *address, char *out, size_t bytes);

/*
 * One use of a channel at one of its ends (ls_instr_end): the index of the instruction with the address; -1: there is
 * none. A RECEIVE or LEASE tells the other end where its subject lies; a PUT or BORROW is told this, and its out[0] has
 * the form.
 */
typedef struct ls_use {
    int instr;
    bool tells;
} ls_use;

/*
 * The uses of a program's channels. first: by end, the index in the list of its use of generation 1; those of later
 * generations follow. first[LS_SIDES * n_channels] is the length of the list.
 */
typedef struct ls_uses {
    ls_use *list;
    int *first;
} ls_uses;
ls_uses ls_uses_find(const ls_program *program, ls_arena *arena);
/* The use to which an instruction belongs, an index into the list; -1: its end has no such use. */
int ls_use_of(const ls_uses *uses, const ls_program *program, const ls_instr *instr);
/*
 * The instruction by which the other end of the channel tells about the same use: the RECEIVE or LEASE in program
 * `there` of the peer, whose uses are `uses`; -1: there is none.
 */
int ls_use_told(const ls_uses *uses, const ls_program *there, const ls_instr *instr);

/*
 * Blocks that are read in place. The operand of a borrow, and the operands that read the block, name a buffer of the
 * reader's own image and offsets in this buffer. Only the distance between the two offsets matters: in the owner's heap
 * the operand's bytes lie this distance after the first byte of the block.
 *   has         whether the operand's bytes are in the borrowed block
 *   gives       whether also the operand names the value that the transfer carries (name.h)
 *   borrow_of   the borrow whose block and transfer a kernel's operand reads; NULL: none
 *   part        the operand's bytes, if the block lies at `lies`
 */
bool ls_block_has(const ls_operand *block, const ls_operand *operand);
bool ls_block_gives(const ls_operand *block, uint64_t transfer, const ls_operand *operand);
const ls_instr *ls_borrow_of(const ls_program *program, const ls_uses *uses, const ls_operand *operand);
ls_range ls_block_part(const ls_operand *block, const ls_range *lies, const ls_operand *operand);

#endif
