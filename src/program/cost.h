/*
 * The cost of an instruction on a machine: what plan compares candidates by, and what the compiler orders instructions by. Nominal:
 * rates of a kind of machine, not measured on this one, so that every rank reckons alike.
 */
#ifndef LS_PROGRAM_COST_H
#define LS_PROGRAM_COST_H

#include "program/program.h"

/* How fast a rank computes and sends. */
typedef struct ls_rates {
    double flops;     /* per second */
    double matmul;    /* the same of matrix products, which a library does */
    double memory;    /* bytes per second that a kernel reads and writes */
    double bandwidth; /* bytes per second that it puts into another rank's memory */
    double latency;   /* seconds from a put or signal of no bytes to the end of the wait for it */
} ls_rates;

/* A rank of this host with kernels of that instruction set and type on `threads` cores of its own. */
ls_rates ls_rates_of(ls_isa isa, ls_dtype dtype, int threads);

/* Seconds of a kernel: its flops or its bytes, whichever take longer; 0 for other kinds. */
double ls_kernel_seconds(const ls_instr *instr, const ls_rates *rates);
/* Seconds until what was put has arrived. */
double ls_put_seconds(double bytes, const ls_rates *rates);

#endif
