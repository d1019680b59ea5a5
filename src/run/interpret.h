/*
 * The interpreter: executes the programs of all ranks in one process, with hashes instead of numbers. Tests check the
 * verifier (program/verify.h) with it: if results differ between seeds, the programs would be wrong in some run.
 *
 * Memory consists of units, each with one hash. A unit is the largest size of which every offset, length and stride of
 * the programs is a multiple, so nothing is rounded. A kernel's result is a hash of the instruction, of all that it
 * reads, and of the place in the result. A kernel reads when it begins and again when it ends; if an input changed in
 * between, the result differs.
 *
 * Transfers behave as badly as the contract of comm/comm.h allows (like the transport chaos): they are late, arrive in
 * pieces and in any order, read their source late, and their target is poisoned until they arrive. One thing is worse
 * than the contract: signals of one word arrive in any order. Programs must not depend on this order, because they
 * never have two signals of one word under way (program/instr.h). Bytes of another rank that a kernel reads in place
 * are read from that rank's memory.
 *
 * The seed decides which queue or transfer advances next, and which ones are held back as long as others can advance.
 * If none can advance, the programs hang.
 *
 * The programs are those of ls_phase_walk. Before each program the host writes new inputs. Every unit of a persistent
 * buffer starts with a different value; all other memory starts as poison.
 */
#ifndef LS_RUN_INTERPRET_H
#define LS_RUN_INTERPRET_H

#include "program/program.h"

typedef struct ls_interpreter ls_interpreter;

/* The result of one run. */
typedef struct ls_interpreter_result {
    bool hung;     /* no queue or transfer could advance, but not all programs had ended */
    bool poison;   /* a unit was read that nothing had written, or that was being transferred */
    bool outside;  /* a part of an operand was outside of its arena */
    uint64_t left; /* hash of the persistent buffers of all ranks */
    /*
     * reads[(rank * programs of the walk + index in the walk) * span + number of the instruction]: hash of what the
     * instruction read; 0: nothing
     */
    size_t n_reads;
    size_t span;
    const uint64_t *reads; /* owned by the interpreter, valid until its next run */
} ls_interpreter_result;

/* images[r] is rank r's. The images are borrowed and must not change while the interpreter exists. */
ls_interpreter *ls_interpreter_create(const ls_image *const *images, int ranks);
void ls_interpreter_destroy(ls_interpreter *interpreter);

/* Executes one run; equal seeds give equal runs. Takes a few nanoseconds for each byte that the programs touch. */
ls_interpreter_result ls_interpreter_run(ls_interpreter *interpreter, uint64_t seed);

/*
 * Whether `b` agrees with the correct result `a`: no hang, no poison, nothing outside, equal persistent buffers, and
 * equal reads of the instructions that both executed.
 */
bool ls_interpreter_same(const ls_interpreter_result *a, const ls_interpreter_result *b);

#endif
