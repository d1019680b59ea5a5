/*
 * The play of all ranks: proves, over their programs together, that a run cannot hang and cannot race. Tests compare it
 * with the local verifier (verify_local.h), which is what sessions call.
 *
 * It plays the programs of ls_phase_walk on every rank with all queues, joining vector clocks at signals and waits
 * (Mattern 1989; the race rule is FastTrack's, Flanagan and Freund, PLDI 2009). Because a word has one writer and
 * generations only rise, whether the play gets stuck and what is ordered before what do not depend on the order of
 * play. Checked:
 *   - every wait is satisfied by exactly one put or signal, and every one of these is awaited;
 *   - the generations of a word rise by one, and who sets it knows that it was awaited since it was set last;
 *   - a put lands inside the slot that its receiver handed over, and in exactly the bytes that the receiver waits for;
 *   - another rank's bytes are read in place only of a block that their owner has leased, between the wait for it and
 *     the signal that gives it back, and while the owner leaves it alone; what comes back is what was leased;
 *   - no queue gets stuck;
 *   - every read finds the value that it names (name.h): what the same instructions wrote, in the order of emission,
 *     and nobody overwrote; and each program leaves in persistent buffers what it is to leave;
 *   - every buffer lies in its arena, and every operand inside its buffer; buffers that persist lie apart from each
 *     other, and so do operands of one kernel unless they are of one buffer; no two words are one;
 *   - no two accesses to the same byte of a rank, one of them writing, are unordered: a put writes the peer's bytes at
 *     any time between its issue and the wait that sees its signal, and reads its source until that wait, or until it
 *     is done, for those that come after that. At the end of a program all its puts are done.
 * Masks that come with the data only shrink puts and reads, so what holds for the maximum holds for every batch.
 */
#ifndef LS_PROGRAM_VERIFY_H
#define LS_PROGRAM_VERIFY_H

#include "program/image.h"

/*
 * images[r] is rank r's. LS_OK, or LS_INVALID naming the instructions (rank, program, number, op) and the buffer or
 * channel. Time grows with the instructions of all ranks, memory with ranks² and the buffers.
 */
LS_MUST_USE ls_status ls_verify(const ls_image *const *images, int ranks);

#endif
