/*
 * The cost of an instruction on a machine: what plan compares candidates by, and what the compiler orders instructions by.
 *
 * A host's rates are nominal (of a kind of machine; every rank reckons alike without asking, so the compiler uses these) or
 * measured on this one (plan/host_file.h).
 */
#ifndef LS_PROGRAM_COST_H
#define LS_PROGRAM_COST_H

#include "program/program.h"

/* Flops per second of one core, for one element type. */
typedef struct ls_core_rates {
    double attention, attention_grad; /* counting the (query, key) pairs that the mask leaves */
    double matmul;                    /* which a library does */
} ls_core_rates;

/* What one core of a host does, with kernels of one instruction set. */
typedef struct ls_host {
    ls_core_rates type[LS_DTYPES]; /* of f32, f64, bf16 */
    double memory;                 /* bytes per second that a kernel reads and writes */
    double bandwidth; /* bytes per second put into another rank's memory, or read there in place */
    double latency;   /* seconds from a put or signal of no bytes to the end of the wait for it */
    double overhead;  /* seconds of a kernel that has nothing to do */
} ls_host;

/* A host of this kind, docs/performance.md. */
ls_host ls_host_nominal(ls_isa isa);

/* How fast a rank computes and sends. */
typedef struct ls_rates {
    ls_core_rates flops; /* per second, of all its threads */
    double memory, bandwidth, latency, overhead;
} ls_rates;

/* A rank with kernels of that type on `threads` cores of its own. */
ls_rates ls_rates_on(const ls_host *host, ls_dtype dtype, int threads);
/* The same of the nominal host. */
ls_rates ls_rates_of(ls_isa isa, ls_dtype dtype, int threads);

/* Seconds of a kernel: its flops or its bytes, whichever take longer; 0 for other kinds. */
double ls_kernel_seconds(const ls_instr *instr, const ls_rates *rates);
/* Seconds until what was put has arrived. */
double ls_put_seconds(double bytes, const ls_rates *rates);

#endif
