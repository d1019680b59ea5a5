/*
 * The cost of an instruction on a machine: what plan compares candidates by, and what the compiler orders instructions
 * by.
 *
 * A host's rates are nominal or measured. Nominal rates are constants for an instruction set, and for a kind of device;
 * the compiler uses them, because all ranks must come to the same order without asking each other. Measured rates of
 * this machine (plan/host_file.c) are for the planner.
 *
 * What is said of a core holds for a GPU as a whole: it computes one rank's calls, or those of several ranks in turn.
 */
#ifndef LS_PROGRAM_COST_H
#define LS_PROGRAM_COST_H

#include "program/image.h"

/*
 * Attention, or its gradient, on one core takes flops * flop + pairs * pair + rows * row + bytes * byte seconds:
 *   flop   of the products: ls_attention_flops for each (query, key) pair of one head that the mask leaves
 *   pair   a (query, key) pair of one head: mostly its exponential
 *   row    a query of one head that sees a key: its sums, and tiles that are not full
 *   byte   of the operands, as far as rows use them: copies into the order in which the products read them
 */
typedef struct ls_attention_cost {
    double flop, pair, row, byte;
} ls_attention_cost;

enum { LS_FORWARD, LS_BACKWARD, LS_DIRECTIONS };

/* Flops of a pair of one head, in each direction: D elements of a head of queries and keys, E of one of values. */
double ls_attention_flops(int direction, double D, double E);

/* Seconds of a byte of operands that lie in a cache, and of one that comes from memory. */
typedef struct ls_byte_cost {
    double near, far;
} ls_byte_cost;

/* What one core does, for one element type. */
typedef struct ls_core_rates {
    ls_attention_cost attention[LS_DIRECTIONS];
    double matmul;                    /* of matrix products: flops per second */
    double recurrence[LS_DIRECTIONS]; /* of linear recurrences and their gradient: the same */
    double split; /* a call split over two cores takes 1 + split times as long as half of it on one core */
    ls_byte_cost bytes[LS_KERNEL_IDS]; /* of contracts that are measured; others as `add` (ls_measured_as) */
} ls_core_rates;

/* The contract whose measured bytes a kernel is costed by: its own, or `add`. */
ls_kernel_id ls_measured_as(ls_kernel_id id);

/* The rates of `cores` cores that share each call (less than 1: of a part of one core). */
ls_core_rates ls_core_rates_of(const ls_core_rates *rates, double cores);
/*
 * Flops per second of attention or its gradient on heads of that size, where sequences are long: rows and bytes left
 * out.
 */
double ls_attention_rate(const ls_core_rates *rates, int direction, double head_size);

/* What one core of a host does while all others do the same, with kernels of one instruction set. */
typedef struct ls_host {
    ls_core_rates type[LS_DTYPES]; /* of f32, f64, bf16 */
    ls_byte_cost put;              /* into another rank's memory, or read there in place */
    double piece;                  /* seconds of each piece of a copy or a put on top, where there are several */
    double memory;                 /* bytes per second that a kernel reads and writes */
    double memory_alone;           /* the same while no other core does anything */
    double to_host, from_host;     /* bytes per second between memory of a device and that of its host, each way */
    double cache;                  /* bytes: a core's share of the largest cache */
    double latency;                /* seconds from a put or signal of no bytes to the end of the wait for it */
    double overhead;               /* seconds of a kernel that has nothing to do, among others */
    /* Of a GPU; 0 of a processor, and where it was not measured: */
    double devices; /* of the machine, which ranks are given in turn */
    double peer;    /* bytes per second that are put to another GPU of the machine */
} ls_host;

/*
 * Nominal rates for the kernels of a device; of a processor for those of an instruction set. docs/performance.md says
 * where they were measured, or published.
 */
ls_host ls_host_nominal(ls_kernel_device device, ls_isa isa);

/* How fast a rank computes and sends. */
typedef struct ls_rates {
    ls_core_rates core; /* of all its threads together */
    ls_byte_cost put;
    double piece, latency, overhead;
    double to_host, from_host; /* bytes per second */
    double cache;              /* bytes, its share */
    bool overlap;              /* its queues run concurrently; else one thread executes them in turn */
    bool hides;                /* it computes products while their operands come from memory: a GPU */
} ls_rates;

/* A rank with kernels of that type on `threads` cores of its own, while all others are busy. */
ls_rates ls_rates_on(const ls_host *host, ls_dtype dtype, int threads);
/* The same of the nominal host. A GPU is not divided by threads. */
ls_rates ls_rates_of(ls_kernel_device device, ls_isa isa, ls_dtype dtype, int threads);

/*
 * The same where only `busy` of the host's `cores` are: they share the memory's bandwidth, so the fewer they are, the
 * more each gets, up to what it gets alone. Cores that have more than one thread to run give each a part of their time.
 */
ls_rates ls_rates_beside(const ls_host *host, ls_dtype dtype, int threads, int busy, int cores);

/* The same of one of `ranks` ranks that share the GPUs of a host: each has a part of the time and of the cache of one.
 */
ls_rates ls_rates_sharing(const ls_host *host, ls_dtype dtype, int ranks);

/*
 * Seconds of a kernel or of a put until its bytes are sent: attention by its cost, any other kernel its flops or its
 * bytes, whichever take longer; bytes of other ranks' memory, read in place, on top; 0 for other kinds. far: bytes of
 * its operands that come from memory (far.h; INFINITY: all).
 */
double ls_instr_seconds(const ls_instr *instr, double far, const ls_rates *rates);

#endif
