/*
 * The cost of an instruction on a machine: what plan compares candidates by, and what the compiler orders instructions by.
 *
 * A host's rates are nominal (of a kind of machine; every rank reckons alike without asking, so the compiler uses these) or
 * measured on this one (plan/host_file.h).
 */
#ifndef LS_PROGRAM_COST_H
#define LS_PROGRAM_COST_H

#include "program/program.h"

/*
 * What one core does in a second, for one element type. Attention on a (query, key) pair of a head takes the time of its flops (4 for each
 * element of the head, its gradient 10; of the pairs that the mask leaves) and that of the pair itself: its exponential above all.
 */
typedef struct ls_core_rates {
    double attention, attention_grad; /* flops */
    double pairs, pairs_grad;         /* 0: they take no time of their own */
    double matmul;                    /* flops; a library does them */
} ls_core_rates;

/* Of so many cores, or of a share of one. */
ls_core_rates ls_core_rates_of(const ls_core_rates *rates, double cores);
/* Flops per second of attention or its gradient on heads of that size. */
double ls_attention_rate(const ls_core_rates *rates, bool gradient, double head_size);

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
