/* For the files of this folder. */
#ifndef LS_TESTS_CUDA_WATCH_IMPL_H
#define LS_TESTS_CUDA_WATCH_IMPL_H

#include "cuda_runtime.h"
#include "watch.h"

#include <string>
#include <vector>

namespace watch {

enum class what { READ, WRITE };

/*
 * Of two bytes, or of four where all elements have as many: who accessed them last. An epoch is what lies between two
 * barriers of a block; a meeting, a thread's number of barriers of its warp; blocks are numbered in the order in which
 * they run, over all grids.
 */
struct cell {
    uint32_t epoch_written, epoch_read, block_written, block_read, meeting_written, meeting_read;
    uint16_t writer, reader;
    uint16_t copies;                    /* that are on their way here */
    bool may_read, may_write;           /* it belongs to an operand */
    bool written;                       /* it has a value */
    bool by_lanes, by_warps, by_blocks; /* several have read it: in this meeting, epoch, grid */
};

/* Bytes whose cells are known, of `unit` bytes each. */
struct range {
    const char *begin;
    size_t bytes, unit;
    std::vector<cell> cells;
    bool has(const void *p) const { return p >= begin && (const char *)p < begin + bytes; }
    cell *at(const void *p) { return &cells[(size_t)((const char *)p - begin) / unit]; }
};

/* operands.cpp: the range of a call's operands that has the byte; nullptr: none. name: with its byte, for messages. */
range *find_operand(const void *p);
bool is_beside_operands(const void *p);
std::string name_of_operand(const void *p);

/* cells.cpp: the thread that runs accesses so many bytes. false: no kernel runs. */
bool access(const void *p, size_t bytes, what is);
/* Ends the process with a message. */
[[noreturn]] void found(const std::string &text);
bool is_shared(const void *p);
const void *running_kernel();

/* turns.cpp */
void count_access(const void *instruction, const void *p, size_t bytes);
void count_turns();    /* of the accesses since the last barrier */
void begin_counting(); /* with a call */

} // namespace watch

#endif
