/*
 * The play of all ranks: proves, over their programs together, that a run cannot hang and cannot race. Tests compare it
 * with the local verifier (verify_local.h), which is what sessions call.
 *
 * It plays the programs of ls_phase_walk on every rank with all queues, joining vector clocks at signals and waits
 * (Mattern 1989; the race rule is FastTrack's, Flanagan and Freund, PLDI 2009). A word has one writer and generations
 * only rise, so neither a deadlock nor the order between instructions depends on the order of play. Checked:
 *   - every wait is satisfied by exactly one put or signal, and every put or signal is awaited;
 *   - the generations of a word rise by one, and the rank that sets it knows that it was awaited since it was last set;
 *   - a put lands inside the slot that its receiver granted, and in exactly the bytes that the receiver waits for;
 *   - bytes of another rank are read in place only in a block that their owner has leased, between the borrow and
 *     the return, while the owner does not write it; the block that is returned is the one that was leased;
 *   - no queue gets stuck;
 *   - every read finds the value that it names (name.h): the same instructions wrote it, in the order of emission,
 *     and nothing overwrote it; and each program leaves in persistent buffers what it must leave;
 *   - every buffer lies in its arena, and every operand in its buffer; persistent buffers do not overlap each
 *     other, nor do operands of one kernel unless they are in one buffer; no two channels share a word;
 *   - no two accesses to the same byte of a rank, one of them writing, are unordered: a put writes the peer's bytes at
 *     any time between its issue and the wait that sees its signal; it reads its source until that wait, or, for
 *     instructions that come after it is done, until it is done. At the end of a program all its puts are done.
 * Masks that come with the data only make puts and reads smaller, so what holds for the largest holds for every batch.
 */
#ifndef LS_PROGRAM_VERIFY_H
#define LS_PROGRAM_VERIFY_H

#include "program/image.h"

/*
 * images[r] is that of rank r. LS_INVALID names the instructions (rank, program, number, op) and the buffer or channel.
 * Time grows with the instructions of all ranks, memory with ranks² and the buffers.
 */
LS_MUST_USE ls_status ls_verify(const ls_image *const *images, int ranks);

#endif
