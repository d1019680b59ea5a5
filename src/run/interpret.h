/*
 * The interpreter: runs the programs of all ranks in one process, with hashes for values. It is the judge of the verifier
 * (program/verify.h) in tests: what it calls different under some seed would have been wrong in some run.
 *
 * Memory is held in units, the largest size of which every offset, length and stride of the programs is a multiple, one hash
 * per unit; so it is exact. A kernel's results are hashes of the instruction, of all that it reads, and of their place in
 * the result. It reads when it begins and again when it ends; had something changed in between, the result is another.
 * Transfers behave as badly as the contract of comm/comm.h allows (like the transport chaos): late, cut up, in any order,
 * sources read late, targets poisoned until then. Which of all queues and transfers moves next is drawn from the seed,
 * with some held back as long as anything else can move. When nothing can move, the programs hang. Another rank's bytes that are
 * read in place are read from its memory, so this is `chaos` for such programs.
 *
 * The programs are those of ls_image_sequence. Before each program the host writes new inputs; what persists starts with
 * values that differ everywhere, all else as poison.
 */
#ifndef LS_RUN_INTERPRET_H
#define LS_RUN_INTERPRET_H

#include "program/program.h"

typedef struct ls_interpreter ls_interpreter;

/* What came out of one run. */
typedef struct ls_interpreter_result {
    bool hung;     /* nothing could move and something was left to do */
    bool poison;   /* something read what nobody had written, or what was on its way */
    bool outside;  /* an operand lay outside of its arena */
    uint64_t left; /* hash of all that persists, on all ranks */
    size_t
        n_reads; /* reads[(rank * LS_SEQUENCE + index in the sequence) * span + number]: what that instruction read; 0: nothing */
    size_t span;
    const uint64_t *reads; /* the interpreter's, until its next run */
} ls_interpreter_result;

/* images[r] is rank r's; they stay the caller's and must not change while the interpreter lives. */
ls_interpreter *ls_interpreter_create(const ls_image *const *images, int ranks);
void ls_interpreter_destroy(ls_interpreter *interpreter);

/* One run; the same seed gives the same run. Time grows with the bytes that the programs touch, a few nanoseconds each. */
ls_interpreter_result ls_interpreter_run(ls_interpreter *interpreter, uint64_t seed);

/* Whether `b` is as good as `a`: no hang, no poison, the same values left, and by instructions that both executed, read. */
bool ls_interpreter_same(const ls_interpreter_result *a, const ls_interpreter_result *b);

#endif
