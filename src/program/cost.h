/*
 * The cost of an instruction on a machine: plan compares candidates by it, and the compiler orders instructions by it.
 *
 * A host's rates are nominal or measured. Nominal rates are constants for an instruction set or a kind of device; the
 * compiler uses them, because all ranks must find the same order without communication. Measured rates of this machine
 * (plan/host_file.c) are for the planner.
 *
 * What is said about a core holds for a whole GPU: it computes the calls of one rank, or of several ranks in turn.
 */
#ifndef LS_PROGRAM_COST_H
#define LS_PROGRAM_COST_H

#include "program/image.h"

/*
 * Attention, or its gradient, on one core takes flops * flop + pairs * pair + rows * row + bytes * byte seconds:
 *   flop   of the products: ls_attention_flops for each (query, key) pair of one head that the mask allows
 *   pair   a (query, key) pair of one head: mostly its exponential
 *   row    a query of one head that sees any key: its sums, and tiles that are not full
 *   byte   of the operands that rows use: copies into the order in which the products read them
 */
typedef struct ls_attention_cost {
    double flop, pair, row, byte;
} ls_attention_cost;

enum { LS_FORWARD, LS_BACKWARD, LS_DIRECTIONS };

/* Flops of a pair of one head in the given direction. D: elements of a head of queries and keys; E: of values. */
double ls_attention_flops(int direction, double D, double E);

/* Seconds of a byte of operands that lies in a cache, and of one that comes from memory. */
typedef struct ls_byte_cost {
    double near, far;
} ls_byte_cost;

/* The rates of one core, for one element type. */
typedef struct ls_core_rates {
    ls_attention_cost attention[LS_DIRECTIONS];
    double matmul;                    /* of matrix products: flops per second */
    double recurrence[LS_DIRECTIONS]; /* of linear recurrences and their gradient: flops per second */
    double split; /* a call that two cores share takes 1 + split times as long as half of the call on one core */
    ls_byte_cost bytes[LS_KERNEL_IDS]; /* of contracts that are measured; the others cost as `add` (ls_measured_as) */
} ls_core_rates;

/* The contract whose measured cost of bytes is used for a kernel: its own, or `add`. */
ls_kernel_id ls_measured_as(ls_kernel_id id);

/* The rates of `cores` cores that share each call; less than 1: of a part of one core. */
ls_core_rates ls_core_rates_of(const ls_core_rates *rates, double cores);
/*
 * Flops per second of attention or its gradient on heads of that size with long sequences: rows and bytes are left out.
 */
double ls_attention_rate(const ls_core_rates *rates, int direction, double head_size);

/* The rates of one core of a host while all other cores do the same, with kernels of one instruction set. */
typedef struct ls_host {
    ls_core_rates type[LS_DTYPES]; /* of f32, f64, bf16 */
    ls_byte_cost put;              /* of bytes put into another rank's memory, or read there in place */
    double piece;                  /* additional seconds for each piece of a copy or a put that has several pieces */
    double memory;                 /* bytes per second that a kernel reads and writes */
    double memory_alone;           /* the same while all other cores are idle */
    double to_host, from_host;     /* bytes per second from memory of a device to memory of its host, and back */
    double cache;                  /* bytes: a core's share of the largest cache */
    double latency;                /* seconds from a put or signal of no bytes to the end of the wait for it */
    double overhead;               /* seconds that any kernel takes, even if it has nothing to do */
    /* For a GPU; 0 for a processor, or if not measured: */
    double devices; /* number of GPUs of the machine, assigned to ranks in turn */
    double peer;    /* bytes per second of puts to another GPU of the machine */
} ls_host;

/*
 * Nominal rates for the kernels of a device; for a processor, for kernels of an instruction set. docs/performance.md
 * says where they were measured or published.
 */
ls_host ls_host_nominal(ls_kernel_device device, ls_isa isa);

/* How fast a rank computes and sends. */
typedef struct ls_rates {
    ls_core_rates core; /* of all threads of the rank together */
    ls_byte_cost put;
    double piece, latency, overhead;
    double to_host, from_host; /* bytes per second */
    double cache;              /* bytes: the rank's share */
    bool overlap;              /* the rank's queues run concurrently; else one thread executes them in turn */
    bool hides;                /* it computes products while their operands come from memory, as a GPU does */
} ls_rates;

/* A rank with kernels of that type on `threads` cores of its own, while all others are busy. */
ls_rates ls_rates_on(const ls_host *host, ls_dtype dtype, int threads);
/* The same with the nominal rates. A GPU is not divided by threads. */
ls_rates ls_rates_of(ls_kernel_device device, ls_isa isa, ls_dtype dtype, int threads);

/*
 * The same if only `busy` of the host's `cores` are busy: they share the bandwidth of memory, so each gets more the
 * fewer they are, up to what one core gets alone. A core with several threads gives each a part of its time.
 */
ls_rates ls_rates_beside(const ls_host *host, ls_dtype dtype, int threads, int busy, int cores);

/* The same for one of `ranks` ranks that share the GPUs of a host: each has a part of the time and cache of a GPU. */
ls_rates ls_rates_sharing(const ls_host *host, ls_dtype dtype, int ranks);

/*
 * Seconds of a kernel, or of a put until its bytes are sent. Attention takes the time of its cost; any other kernel
 * that of its flops or of its bytes, whichever is longer. Bytes that are read in place in other ranks' memory are
 * added. 0 for other kinds of instructions. far: bytes of the operands that come from memory (far.h; INFINITY: all).
 */
double ls_instr_seconds(const ls_instr *instr, double far, const ls_rates *rates);

#endif
