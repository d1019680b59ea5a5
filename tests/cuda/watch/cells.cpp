/*
 * Which accesses of a grid must not meet. Two accesses to the same bytes, of which one writes, need an order: within a
 * block a barrier of it, or one of the warp where both threads are of one; between blocks of a grid there is none. A
 * copy that was asked for may write until it is waited for. A value must have been written before it is read.
 */
#include "watch_impl.h"

#include "symbols.h"

#include <cstdio>
#include <cstdlib>

/* Of the program: the memory of its static variables, of which kernels write those that are __shared__. */
extern "C" char __data_start[], _end[];

namespace watch {

namespace {

constexpr size_t UNIT = 2; /* of shared memory */

range dynamic_shared, static_shared;
std::vector<uint32_t> block_of[2]; /* of each cell of both: the block whose it is */
std::vector<bool> known;           /* of the static ones: kernels write them */
const void *kernel_of_grid;
bool runs; /* a block */
uint32_t epoch, block, first_of_grid;
uint32_t meetings[emulation::MOST_THREADS];

std::string thread_text(uint16_t thread) { return "thread " + std::to_string(thread); }

bool is_known(const void *p) {
    return static_shared.has(p) && known[(size_t)((const char *)p - static_shared.begin) / UNIT];
}

std::string name_of(const void *p) {
    if (dynamic_shared.has(p))
        return "byte " + std::to_string((const char *)p - dynamic_shared.begin) + " of shared memory";
    if (static_shared.has(p)) return "static shared memory";
    return name_of_operand(p);
}

/* A block finds none of what another one left in shared memory. */
cell *cell_of_block(range *r, std::vector<uint32_t> *blocks, const void *p) {
    const size_t i = (size_t)((const char *)p - r->begin) / UNIT;
    if ((*blocks)[i] != block) {
        (*blocks)[i] = block;
        r->cells[i] = {.may_read = true, .may_write = true};
    }
    return &r->cells[i];
}

/* The unit of p's cells, and its cell; nullptr: nothing is known of it. */
cell *find_cell(const void *p, what is, size_t *unit) {
    *unit = UNIT;
    if (static_shared.has(p) && !dynamic_shared.has(p)) {
        const char *const own = emulation::shared_memory;
        if ((const char *)p >= own && (const char *)p < own + emulation::MOST_SHARED)
            found((is == what::READ ? "reads byte " : "writes byte ") + std::to_string((const char *)p - own) +
                  " of shared memory, of which the launch has " + std::to_string(dynamic_shared.bytes));
        if (is == what::WRITE) known[(size_t)((const char *)p - static_shared.begin) / UNIT] = true;
        return is_known(p) ? cell_of_block(&static_shared, &block_of[1], p) : nullptr;
    }
    if (dynamic_shared.has(p)) return cell_of_block(&dynamic_shared, &block_of[0], p);
    if (range *const operand = find_operand(p)) {
        *unit = operand->unit;
        return operand->at(p);
    }
    if (is_beside_operands(p))
        found((is == what::READ ? "reads beside its operands: " : "writes beside its operands: ") + name_of(p));
    return nullptr;
}

uint32_t meeting() { return meetings[emulation::number]; }

/* Whether an access of this epoch by the other thread has no order with one of the thread that runs. */
bool is_unordered(uint16_t other, uint32_t its_meeting) {
    if (other == emulation::number) return false;
    return other / emulation::WARP != emulation::number / emulation::WARP || its_meeting == meeting();
}

void check_read(const cell &c, const void *p) {
    if (c.block_written >= first_of_grid && c.block_written != block)
        found("race between blocks: reads " + name_of(p) + ", written by another block of the grid");
    if (c.epoch_written == epoch && is_unordered(c.writer, c.meeting_written))
        found("race in a block: reads " + name_of(p) + ", written by " + thread_text(c.writer) + " without a barrier");
}

void check_write(const cell &c, const void *p) {
    if (c.block_written >= first_of_grid && c.block_written != block)
        found("race between blocks: writes " + name_of(p) + ", written by another block of the grid");
    if (c.block_read >= first_of_grid && (c.block_read != block || c.by_blocks))
        found("race between blocks: writes " + name_of(p) + ", read by another block of the grid");
    if (c.epoch_written == epoch && is_unordered(c.writer, c.meeting_written))
        found("race in a block: writes " + name_of(p) + ", written by " + thread_text(c.writer) + " without a barrier");
    if (c.epoch_read != epoch) return;
    if (c.by_warps || (c.by_lanes && c.meeting_read == meeting()) || is_unordered(c.reader, c.meeting_read))
        found("race in a block: writes " + name_of(p) + ", read by " + thread_text(c.reader) + " without a barrier");
}

void note_read(cell *c) {
    const uint16_t self = (uint16_t)emulation::number;
    if (c->block_read < first_of_grid) c->by_blocks = false;
    c->by_blocks |= c->block_read >= first_of_grid && c->block_read != block;
    if (c->epoch_read != epoch) {
        c->by_lanes = c->by_warps = false;
    } else if (c->reader / emulation::WARP != self / emulation::WARP) {
        c->by_warps = true;
    } else {
        c->by_lanes = c->meeting_read == meeting() && (c->by_lanes || c->reader != self);
    }
    c->epoch_read = epoch;
    c->block_read = block;
    c->reader = self;
    c->meeting_read = meeting();
}

void note_write(cell *c) {
    c->epoch_written = epoch;
    c->block_written = block;
    c->writer = (uint16_t)emulation::number;
    c->meeting_written = meeting();
    c->written = true;
}

void access_cell(cell *c, const void *p, what is) {
    if (is == what::READ ? !c->may_read : !c->may_write)
        found(is == what::READ ? "reads what lies between elements: " + name_of(p)
                               : "writes what it must not: " + name_of(p));
    if (c->copies > 0)
        found((is == what::READ ? "reads " : "writes ") + name_of(p) + " before the copy to it was waited for");
    if (is == what::READ) {
        if (!c->written) found("reads what nobody wrote: " + name_of(p));
        check_read(*c, p);
        note_read(c);
    } else {
        check_write(*c, p);
        note_write(c);
    }
}

} // namespace

void found(const std::string &text) {
    fprintf(stderr, "watch: %s: thread %u of block %u,%u,%u %s\n", emulation::name_of_function(kernel_of_grid).c_str(),
            emulation::number, blockIdx.x, blockIdx.y, blockIdx.z, text.c_str());
    abort();
}

const void *running_kernel() { return kernel_of_grid; }

bool is_shared(const void *p) { return dynamic_shared.has(p) || is_known(p); }

/* Of each cell that has some of the bytes. */
template <typename F> static void each_cell(const void *p, size_t bytes, what is, F f) {
    size_t unit;
    for (size_t at = 0; at < bytes; at += unit)
        if (cell *const c = find_cell((const char *)p + at, is, &unit)) f(c, (const char *)p + at);
}

bool access(const void *p, size_t bytes, what is) {
    if (!runs) return false;
    each_cell(p, bytes, is, [=](cell *c, const void *at) { access_cell(c, at, is); });
    return true;
}

} // namespace watch

using namespace watch;

void watch_grid_begins(const void *kernel, size_t shared) {
    kernel_of_grid = kernel;
    if (static_shared.begin == nullptr) {
        const size_t cells = (size_t)(_end - __data_start) / UNIT + 1;
        static_shared = {__data_start, (size_t)(_end - __data_start), UNIT, std::vector<cell>(cells)};
        block_of[1].assign(cells, 0);
        known.assign(cells, false);
        block_of[0].assign(emulation::MOST_SHARED / UNIT, 0);
        dynamic_shared = {emulation::shared_memory, 0, UNIT, std::vector<cell>(emulation::MOST_SHARED / UNIT)};
    }
    dynamic_shared.bytes = shared;
    first_of_grid = block + 1;
}

void watch_block_begins() {
    block++;
    epoch++;
    runs = true;
}

void watch_block_barrier() {
    epoch++;
    count_turns();
}

void watch_block_ends() {
    runs = false;
    count_turns();
}

void watch_warp_barrier() { meetings[emulation::number]++; }

void watch_copy_begins(const void *to, const void *from, size_t bytes) {
    access(from, bytes, what::READ);
    access(to, bytes, what::WRITE);
    each_cell(to, bytes, what::WRITE, [](cell *c, const void *) { c->copies++; });
}

void watch_copy_arrives(const void *to, size_t bytes) {
    each_cell(to, bytes, what::WRITE, [](cell *c, const void *at) {
        c->copies--;
        access_cell(c, at, what::WRITE);
    });
}

void watch_product_reads(const void *at, size_t bytes) { access(at, bytes, what::READ); }
