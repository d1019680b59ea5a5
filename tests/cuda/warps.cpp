#include "warps.h"

#include "cuda_runtime.h"

#include <vector>

namespace emulation {

std::string text_of(const place &at) {
    const std::string file = at.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line());
}

bool is_same(const place &a, const place &b) {
    return a.line() == b.line() && a.column() == b.column() && strcmp(a.file_name(), b.file_name()) == 0;
}

namespace {

/* What a lane waits for, or waited for last. */
struct meeting {
    const char *what;
    unsigned mask;
    place at;
    size_t bytes; /* that it gives */
};

struct lane {
    meeting last;
    unsigned exchanges;
    char given[EXCHANGE];
};

/* What lanes gave to their last meeting. */
struct warp {
    char values[WARP][EXCHANGE];
};

std::vector<lane> lanes; /* of the block */
std::vector<warp> warps;

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* As "lanes 0, 4-7", or "lane 3". */
std::string list_lanes(unsigned mask) {
    std::string text = mask & (mask - 1) ? "lanes" : "lane";
    bool is_first = true;
    for (unsigned i = 0; i < WARP; i++) {
        if (!(mask >> i & 1)) continue;
        unsigned last = i;
        while (last + 1 < WARP && mask >> (last + 1) & 1) last++;
        text += is_first ? " " : ", ";
        is_first = false;
        text += std::to_string(i);
        if (last > i) text += "-" + std::to_string(last);
        i = last;
    }
    return text;
}

std::string name_of(const meeting &m) { return m.what + (" at " + text_of(m.at)); }

/* Of the lanes that wait: those for the same meeting. */
unsigned find_lanes(unsigned first, unsigned waiting, const meeting &m) {
    unsigned found = 0;
    for (unsigned i = 0; i < WARP; i++) {
        const meeting &other = lanes[first + i].last;
        if (waiting >> i & 1 && other.mask == m.mask && is_same(other.at, m.at)) found |= 1U << i;
    }
    return found;
}

/* No lane of those that wait has met the others: says why of the first one. */
[[noreturn]] void fail_to_meet(unsigned first, unsigned waiting, unsigned ended) {
    const unsigned i = (unsigned)__builtin_ctz(waiting);
    const meeting &m = lanes[first + i].last;
    const unsigned missing = m.mask & ~find_lanes(first, waiting, m), at_others = missing & waiting;
    std::string why = list_lanes(missing) + " at a barrier of the block";
    if ((missing & ended) != 0) {
        why = list_lanes(missing & ended) + ", ended before";
    } else if (at_others != 0) {
        const meeting &other = lanes[first + (unsigned)__builtin_ctz(at_others)].last;
        const std::string others = list_lanes(at_others & find_lanes(first, waiting, other));
        why = is_same(m.at, other.at) ? others + " there that name " + list_lanes(other.mask)
                                      : others + " at " + name_of(other);
    }
    number = first + i;
    fail((name_of(m) + " waits for " + why).c_str());
}

} // namespace

/* --- meetings ----------------------------------------------------------------------------------------------------- */

void begin_meetings(unsigned n) {
    lanes.assign((n + WARP - 1) / WARP * WARP, {});
    warps.resize(lanes.size() / WARP);
}

static void wait_for(const meeting &m) {
    lanes[number].last = m;
    if (!(m.mask >> number % WARP & 1)) fail((name_of(m) + " does not name its own lane").c_str());
    wait_for_lanes();
}

void meet(const char *what, unsigned mask, const place &at) { wait_for({what, mask, at, 0}); }

const char *exchange(const char *what, unsigned mask, const void *mine, size_t bytes, const place &at) {
    memcpy(lanes[number].given, mine, bytes);
    lanes[number].exchanges++;
    wait_for({what, mask, at, bytes});
    return warps[number / WARP].values[0];
}

unsigned exchanges() { return lanes[number].exchanges; }

void need_lane(unsigned other) {
    const meeting &m = lanes[number].last;
    if (!(m.mask >> other & 1))
        fail((name_of(m) + " reads from lane " + std::to_string(other) + ", which its mask does not name").c_str());
}

unsigned find_met(unsigned first, unsigned waiting, unsigned ended) {
    unsigned met = 0;
    for (unsigned i = 0; i < WARP; i++) {
        if (!((waiting & ~met) >> i & 1)) continue;
        const meeting &m = lanes[first + i].last;
        if (find_lanes(first, waiting, m) == m.mask) met |= m.mask;
    }
    if (waiting != 0 && met == 0) fail_to_meet(first, waiting, ended);
    for (unsigned i = 0; i < WARP; i++)
        if (met >> i & 1) memcpy(warps[first / WARP].values[i], lanes[first + i].given, lanes[first + i].last.bytes);
    return met;
}

} // namespace emulation
