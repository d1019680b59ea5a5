/*
 * How many turns the accesses of warps take. Lanes access together what the same instruction accesses the same time
 * since the last barrier. Shared memory has 32 banks of 4 bytes: in a turn each gives one word, to any number of
 * lanes; of 8 bytes half of a warp is served at a time, of 16 bytes a quarter. Global memory is read in sectors of 32
 * bytes. Only the first block of a grid is counted, and each instruction the first TIMES times.
 */
#include "watch_impl.h"

#include "symbols.h"

#include <map>
#include <set>
#include <unordered_map>

namespace watch {

namespace {

constexpr unsigned BANKS = 32, WORD = 4, SECTOR = 32, TIMES = 16;

/* An instruction, for the so manieth time. */
struct turn {
    const void *instruction;
    unsigned warp, number;
    bool operator<(const turn &o) const {
        return std::tie(instruction, warp, number) < std::tie(o.instruction, o.warp, o.number);
    }
};
struct lanes {
    size_t bytes;
    uintptr_t at[emulation::WARP];
    unsigned active;
};

std::map<turn, lanes> accesses;
std::unordered_map<const void *, unsigned> times[emulation::MOST_THREADS];
watch_count of_call;
std::map<const void *, watch_count> of_kernels; /* printed when the process ends, if WATCH_REPORT is set */

void add(watch_count *sum, const watch_count &c) {
    sum->shared += c.shared;
    sum->turns += c.turns;
    sum->least_turns += c.least_turns;
    sum->global += c.global;
    sum->sectors += c.sectors;
    sum->least_sectors += c.least_sectors;
}

void report() {
    for (const auto &[kernel, c] : of_kernels)
        printf("%s: shared memory %lld accesses, %lld turns of at least %lld; global %lld accesses, %lld sectors of at "
               "least %lld\n",
               emulation::name_of_function(kernel).c_str(), (long long)c.shared, (long long)c.turns,
               (long long)c.least_turns, (long long)c.global, (long long)c.sectors, (long long)c.least_sectors);
}

void count_shared(const lanes &l, watch_count *counted) {
    const unsigned together = l.bytes <= WORD ? emulation::WARP : l.bytes <= 2 * WORD ? 16 : 8;
    counted->shared++;
    for (unsigned first = 0; first < emulation::WARP; first += together) {
        std::set<uintptr_t> words[BANKS];
        size_t most = 0;
        for (unsigned i = first; i < first + together; i++) {
            if (!(l.active >> i & 1)) continue;
            for (uintptr_t word = l.at[i] / WORD; word <= (l.at[i] + l.bytes - 1) / WORD; word++) {
                words[word % BANKS].insert(word);
                most = std::max(most, words[word % BANKS].size());
            }
        }
        counted->turns += (int64_t)most;
        counted->least_turns += most > 0;
    }
}

void count_global(const lanes &l, watch_count *counted) {
    std::set<uintptr_t> sectors, places;
    for (unsigned i = 0; i < emulation::WARP; i++) {
        if (!(l.active >> i & 1)) continue;
        places.insert(l.at[i]);
        for (uintptr_t s = l.at[i] / SECTOR; s <= (l.at[i] + l.bytes - 1) / SECTOR; s++) sectors.insert(s);
    }
    counted->global++;
    counted->sectors += (int64_t)sectors.size();
    counted->least_sectors += (int64_t)((places.size() * l.bytes + SECTOR - 1) / SECTOR);
}

} // namespace

void count_access(const void *instruction, const void *p, size_t bytes) {
    if (blockIdx.x != 0 || blockIdx.y != 0 || blockIdx.z != 0) return;
    if (!is_shared(p) && find_operand(p) == nullptr) return;
    const unsigned lane = emulation::number % emulation::WARP, time = times[emulation::number][instruction]++;
    if (time >= TIMES) return;
    lanes &l = accesses[{instruction, emulation::number / emulation::WARP, time}];
    l.bytes = bytes;
    l.at[lane] = (uintptr_t)p;
    l.active |= 1U << lane;
}

void count_turns() {
    if (accesses.empty()) return;
    watch_count c = {};
    for (const auto &[unused, l] : accesses) {
        if (is_shared((const void *)l.at[__builtin_ctz(l.active)]))
            count_shared(l, &c);
        else
            count_global(l, &c);
    }
    accesses.clear();
    for (auto &each : times) each.clear();
    add(&of_call, c);
    if (getenv("WATCH_REPORT") == nullptr) return;
    if (of_kernels.empty()) atexit(report);
    add(&of_kernels[running_kernel()], c);
}

void begin_counting() { of_call = {}; }

} // namespace watch

watch_count watch_counted() { return watch::of_call; }
