/*
 * Addresses of transfers. The rank that receives what is put, or leases a block, says where the bytes lie:
 * when programs are prepared, it tells the other end of the channel an address for each use. So no two ranks'
 * heaps need be laid out alike. What the other end knows by itself is the form: the type, and how many bytes
 * lie in pieces of which length and at which distances.
 */
#ifndef LS_PROGRAM_ADDRESS_H
#define LS_PROGRAM_ADDRESS_H

#include "program/instr.h"

typedef struct ls_address {
    ls_range range; /* in the heap of the rank that receives or leases */
    ls_dtype dtype;
    size_t counted; /* ls_instr.counted */
} ls_address;

/* Of what a RECEIVE or LEASE is about, which is the rank's own; of a PUT or BORROW, the form that it asks for. */
ls_address ls_address_of(const ls_image *image, const ls_instr *instr, int rank);
/* Whether they have one form: all but the offset. What is empty has the form of whatever is empty. */
bool ls_address_same_form(const ls_address *a, const ls_address *b);
/* "24 bytes of f32 in 3 x 1 x 1 pieces, 64, 0, 0 bytes apart": an address without its offset. */
void ls_address_print_form(const ls_address *address, char *out, size_t bytes);

/*
 * One use of a channel at one of its ends (ls_instr_end): the index of the instruction that is about its address; -1:
 * there is none. A RECEIVE or LEASE tells the other end where its subject lies; a PUT or BORROW is told that, and its
 * out[0] has the form.
 */
typedef struct ls_use {
    int instr;
    bool tells;
} ls_use;

/*
 * The uses of a program's channels. first, by end: its use of generation 1, an index into the list; those of later
 * generations follow. first[LS_SIDES * n_channels] is the length of the list.
 */
typedef struct ls_uses {
    ls_use *list;
    int *first;
} ls_uses;
ls_uses ls_uses_find(const ls_program *program, ls_arena *arena);
/* The use that an instruction is about, an index into the list; -1: its end has no such use. */
int ls_use_of(const ls_uses *uses, const ls_program *program, const ls_instr *instr);
/*
 * What the other end of the instruction's channel tells of its use: the RECEIVE or LEASE there, in the program of its
 * peer and the uses of that; -1: there is none.
 */
int ls_use_told(const ls_uses *uses, const ls_program *there, const ls_instr *instr);

/*
 * Blocks that are read in place. A borrow's operand, and the operands that read the block, name a buffer of the
 * reader's own image, and offsets in that. Only the distance between the two counts: so far after the first byte of
 * the block do the operand's bytes lie in the owner's heap.
 *   has         whether the operand's bytes are some of the borrowed block's
 *   gives       and the operand names what that transfer hands over (name.h)
 *   borrow_of   the borrow whose block and transfer a kernel's operand reads; NULL: none
 *   part        the operand's bytes, where the block lies at `lies`
 */
bool ls_block_has(const ls_operand *block, const ls_operand *operand);
bool ls_block_gives(const ls_operand *block, uint64_t transfer, const ls_operand *operand);
const ls_instr *ls_borrow_of(const ls_program *program, const ls_uses *uses, const ls_operand *operand);
ls_range ls_block_part(const ls_operand *block, const ls_range *lies, const ls_operand *operand);

#endif
