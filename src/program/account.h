/* What a program does, summed by kind of instruction and by op. */
#ifndef LS_PROGRAM_ACCOUNT_H
#define LS_PROGRAM_ACCOUNT_H

#include "program/image.h"

/*
 * Bytes that an instruction reads and writes in this rank's memory, puts into another rank's memory, and reads there in
 * place: the full size of its operands.
 */
double ls_instr_bytes(const ls_instr *instr);

/* All instructions of one name: that of an op, or of a kind (ls_instr_traits). */
typedef struct ls_op_account {
    const char *op;
    int count;
    double flops;
    double bytes; /* ls_instr_bytes */
} ls_op_account;

#define LS_OP_ACCOUNTS 64

/*
 * The ops of a program, sorted by flops, then by bytes, most first. Returns the number of rows; if there are more than
 * LS_OP_ACCOUNTS, the rest is one row "others".
 */
int ls_program_ops(const ls_image *image, int program, ls_op_account out[LS_OP_ACCOUNTS]);

typedef struct ls_program_account {
    int kinds[LS_INSTR_KINDS]; /* instructions of each kind */
    int joins;                 /* instructions that wait for another queue */
    int reads;                 /* operands that name the value that they must find */
    int buffers;               /* buffers that only this program uses */
} ls_program_account;
ls_program_account ls_program_account_of(const ls_image *image, int program);

#endif
