/*
 * The local verifier: proves programs class by class, without a play of all ranks. Its time is that of the
 * instructions of each class, at any number of ranks.
 *
 * Of a class by itself (ls_prove_class): its buffers lie in their arenas, what persists apart from all else that does,
 * and no two words are one (ls_image_check). And for each program, with everything that peers may do at any time that
 * this rank allows:
 *   - each queue's clock says which accesses of this rank are ordered. A grant opens a window in which the peer
 *     may write the slot, until the receive; a lease opens one in which the peer may read the block, until the
 *     reclaim; a put reads its source until it is done. No access of the rank itself falls into a window with
 *     which it conflicts, on any rank of the class (ls_extents_meet);
 *   - another rank's bytes are read between the borrow and the return, and only of the block that was leased;
 *   - every read finds the value that it names, and the program leaves in persistent buffers what it is to
 *     leave (name.h);
 *   - generations rise by one; at each end of a channel a word is set only after the last await there, so a
 *     slot is granted again only after what came last was received, and put into only after it was granted.
 *     Since the peer does the same, an await comes after the last instruction that set a word at its end;
 *   - at the end each grant has been received, each lease reclaimed: the program is closed;
 *   - what the program declares of persistent buffers is what it does, and the phase table joins only what fits
 *     (states.h). With that, and since they are closed, programs may follow each other in any order that the table
 *     allows;
 *   - there is no deadlock. What sets a word has an epoch (ls_epoch), and what awaits the word has the same one,
 *     as both ends of the channel say. An instruction that sets a word has a later epoch than every await that
 *     precedes it on its rank, along queues and the order between them. So what an await waits for comes only
 *     after awaits of earlier epochs: along any chain of waits epochs fall, and there is no cycle.
 *
 * Between classes (ls_prove_between): both ends of each channel agree on every use (the other end's rank, its words,
 * kind, epochs, bytes and their form; where they lie, the end that owns them tells the other, address.h), and all
 * classes have one phase table. Nothing else need be alike.
 */
#ifndef LS_PROGRAM_VERIFY_LOCAL_H
#define LS_PROGRAM_VERIFY_LOCAL_H

#include "program/image.h"

/* What is known of a class that was proved by itself: the ends of its channels. It keeps nothing of the image. */
typedef struct ls_class_proof ls_class_proof;

/*
 * rank: any of the class; it is named in errors. *out belongs to the arena. LS_INVALID names the program, the
 * instruction and what is wrong.
 */
LS_MUST_USE ls_status ls_prove_class(const ls_image *image, int rank, ls_arena *arena, ls_class_proof **out);

/*
 * proofs: one for each class. class_of: by rank. LS_INVALID names the classes (by their first ranks) and the
 * channel.
 */
LS_MUST_USE ls_status ls_prove_between(const ls_class_proof *const *proofs, int classes, const int *class_of,
                                       int ranks);

/*
 * What a class says to the others, in few numbers, for processes that prove one class each: `frame` is the same in all
 * classes, and over all classes the sums of `sent` and of `received` are equal, each sender and receiver of a channel
 * being one term of them. But for collisions of hashes that is what ls_prove_between compares; which classes differ and
 * where, it alone says.
 */
typedef struct ls_proof_digest {
    uint64_t frame, sent, received;
} ls_proof_digest;
ls_proof_digest ls_class_proof_digest(const ls_class_proof *proof, int class, const int *class_of, int ranks);
bool ls_proof_digests_agree(const ls_proof_digest *digests, int classes); /* [classes] */

/* Both, for ranks whose images are at hand: images[r] is rank r's; equal pointers are one class. */
LS_MUST_USE ls_status ls_verify_local(const ls_image *const *images, int ranks);

#endif
