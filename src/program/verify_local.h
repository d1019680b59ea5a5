/*
 * The local verifier: proves programs class by class, without a play of all ranks. Its time grows with the instructions
 * of each class, not with the number of ranks.
 *
 * One class by itself (ls_prove_class): its buffers lie in their arenas, persistent buffers do not overlap each other,
 * and no two channels share a word (ls_image_check). And for each program, whatever peers do at any time that this rank
 * allows:
 *   - each queue's clock says which accesses of this rank are ordered. A grant opens a window in which the peer
 *     may write the slot, until the receive; a lease opens one in which the peer may read the block, until the
 *     reclaim; a put reads its source until the put is done. No access of the rank itself falls into a window with
 *     which it conflicts, on any rank of the class (ls_extents_meet);
 *   - bytes of another rank are read only between the borrow and the return, and only in the leased block;
 *   - every read finds the value that it names, and the program leaves in persistent buffers what it must
 *     leave (name.h);
 *   - generations rise by one; at each end of a channel a word is set only after the last await there. So a
 *     slot is granted again only after the last put into it was received, and written only after it was granted.
 *     The peer does the same, so an await comes after the last instruction that set a word at its end;
 *   - at the end each granted slot has been received and each lease reclaimed: the program is closed;
 *   - the program has the effects on persistent buffers that it declares, and the phase table joins only programs
 *     whose states fit (states.h). Since programs are also closed, they may run in any order that the table
 *     allows;
 *   - there is no deadlock. An instruction that sets a word has an epoch (ls_epoch); its await has the same epoch,
 *     since both ends agree on it. An instruction that sets a word has a later epoch than every await that
 *     precedes it on its rank, along queues and the order between them. So what an await waits for comes only
 *     after awaits of earlier epochs: along any chain of waits epochs fall, so there is no cycle.
 *
 * Between classes (ls_prove_between): both ends of each channel agree on every use (the other end's rank, its words,
 * kind, epochs, bytes and their form; the end that owns the bytes tells the other where they lie, address.h), and all
 * classes have the same phase table. Nothing else must be the same.
 */
#ifndef LS_PROGRAM_VERIFY_LOCAL_H
#define LS_PROGRAM_VERIFY_LOCAL_H

#include "program/image.h"

/* The result of proving a class by itself: the ends of its channels. It does not refer to the image. */
typedef struct ls_class_proof ls_class_proof;

/*
 * rank: any rank of the class; errors name it. *out belongs to the arena. LS_INVALID names the program, the instruction
 * and what is wrong.
 */
LS_MUST_USE ls_status ls_prove_class(const ls_image *image, int rank, ls_arena *arena, ls_class_proof **out);

/*
 * proofs: one for each class. class_of: by rank. LS_INVALID names the classes (by their first ranks) and the
 * channel.
 */
LS_MUST_USE ls_status ls_prove_between(const ls_class_proof *const *proofs, int classes, const int *class_of,
                                       int ranks);

/*
 * A summary of a class in a few numbers, for processes that prove one class each. `frame` must be the same in all
 * classes, and the sums over all classes of `sent` and of `received` must be equal: each sender and each receiver of a
 * channel is one term. Except for collisions of hashes, this is what ls_prove_between compares; only ls_prove_between
 * says which classes differ and where.
 */
typedef struct ls_proof_digest {
    uint64_t frame, sent, received;
} ls_proof_digest;
ls_proof_digest ls_class_proof_digest(const ls_class_proof *proof, int class, const int *class_of, int ranks);
bool ls_proof_digests_agree(const ls_proof_digest *digests, int classes); /* [classes] */

/*
 * ls_prove_class and ls_prove_between for ranks whose images are in this process: images[r] is that of rank r; equal
 * pointers are one class.
 */
LS_MUST_USE ls_status ls_verify_local(const ls_image *const *images, int ranks);

#endif
