/* The part of a recording for each queue: its works in order, divided into segments, each of which becomes a graph. */
#ifndef LS_DEVICE_CUDA_CHAIN_H
#define LS_DEVICE_CUDA_CHAIN_H

#include "device/cuda/cuda_impl.h"

/* A node of a graph: operations on words, one directly after the other, with the values that were recorded. */
typedef struct cuda_chain_words cuda_chain_words;
struct cuda_chain_words {
    cuda_chain_words *next;
    ls_cuda_node node;
    const ls_device_work *work;
    unsigned n;
    ls_cuda_word_op *words;
    cuda_growth *growth;
};

/* Works first .. past - 1 of a chain. */
typedef struct cuda_segment {
    size_t first, past;
    ls_cuda_graph graph;
    ls_cuda_executable executable;
    cuda_chain_words *words, **end;
} cuda_segment;

struct cuda_chain {
    ls_arena *memory; /* of all chains of the recording */
    int queue;
    ls_recorded **works; /* n of them, in order */
    bool *told;          /* by work: the queue writes its number after the work */
    size_t n, n_segments;
    cuda_segment *segments, *captured; /* captured: the segment that is being captured */
};

/* A recording's state. */
typedef struct cuda_chains {
    ls_arena *memory;
    cuda_chain *of; /* by queue */
} cuda_chains;

/* Makes the chains of a recording, and decides which numbers are written. The caller destroys the arena `memory`. */
cuda_chains *ls_cuda_chains_make(int queues, ls_device_recording *recording);
/* The number of the last work of a segment. */
uint64_t ls_cuda_last_number(const cuda_chain *chain, const cuda_segment *s);

#endif
