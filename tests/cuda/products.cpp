#include "products.h"

#include "cuda_runtime.h"
#include "watch/watch.h"

#include <deque>
#include <vector>

namespace emulation {

namespace {

constexpr int ROWS = 16, SUMMED = 16, MOST_COLUMNS = 256;
constexpr unsigned GROUP_WARPS = 4, GROUP = GROUP_WARPS * WARP;
constexpr uint32_t POISON = 0x7fc0deadU;

/* A product as a warp has it: 16 rows of a. */
struct operands {
    product p;
    float a[ROWS][SUMMED], b[MOST_COLUMNS][SUMMED];
};

/* Of a warp, in the order in which they are given. Its lanes meet at each, so none is behind by more than one. */
struct given_products {
    std::deque<operands> kept;
    size_t dropped = 0;  /* before those that are kept */
    size_t compared = 0; /* so many have been waited for, and compared */
};

struct sums {
    float *at;
    std::vector<float> values;
    size_t last; /* product that adds to them */
};

struct thread {
    size_t given = 0;              /* products */
    std::vector<size_t> committed; /* of each open group the products given until then */
    std::vector<sums> open;
    std::vector<registers> fenced;
    std::vector<size_t> written; /* 16 bytes each, since its fence of shared memory */
    unsigned exchanges = 0;      /* at the fence */
    uint64_t hash = 0;           /* of all products */
};

std::vector<thread> threads;
std::vector<given_products> products; /* of each warp */
std::vector<uint16_t> writers;        /* of each 16 bytes of shared memory: a thread + 1, or 0 */
size_t shared_bytes;

float value_of(uint16_t bits) {
    const uint32_t all = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &all, sizeof f);
    return f;
}

/* Of an operand that a descriptor tells of: `other` is its row of a, or column of b. */
float element(uint64_t descriptor, bool others, int other, int summed) {
    const size_t start = (descriptor & 0x3fff) << 4, leading = (descriptor >> 16 & 0x3fff) << 4,
                 stride = (descriptor >> 32 & 0x3fff) << 4;
    if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) != 0) fail("a descriptor without the swizzle of 128 bytes");
    if (start % 1024 > (others ? 0 : 96) || start % 32 != 0)
        fail("an operand of a product does not begin where a pattern of the swizzle does");
    const size_t row = others ? (size_t)summed : (size_t)other, column = others ? (size_t)other : (size_t)summed;
    size_t at = start + row / 8 * stride + row % 8 * 128 + column / 64 * leading + column % 64 * 2;
    at ^= (at >> 7 & 7) << 4;
    if (at + 2 > shared_bytes) fail("an operand of a product lies beyond the block's shared memory");
    if (writers[at / 16] != 0) fail("a product reads what was written to shared memory without a fence after it");
    uint16_t bits;
    WATCHED(watch_product_reads, shared_memory + at, sizeof bits);
    memcpy(&bits, shared_memory + at, sizeof bits);
    return value_of(bits);
}

void read_operands(operands *o) {
    const int first = (int)(number / WARP % GROUP_WARPS) * ROWS;
    for (int k = 0; k < SUMMED; k++) {
        for (int r = 0; r < ROWS && o->p.a == nullptr; r++)
            o->a[r][k] = element(o->p.a_descriptor, o->p.a_others, first + r, k);
        for (int c = 0; c < 8 * o->p.tiles; c++) o->b[c][k] = element(o->p.b_descriptor, o->p.b_others, c, k);
    }
}

/* a of the warp from its lanes' registers. */
void gather_a(operands *o, const char *all) {
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < SUMMED; k++) {
            unsigned pair;
            memcpy(&pair, all + (r % 8 * 4 + k % 8 / 2) * EXCHANGE + (r / 8 + 2 * (k / 8)) * (int)sizeof pair,
                   sizeof pair);
            o->a[r][k] = value_of((uint16_t)(k % 2 ? pair >> 16 : pair & 0xffffU));
        }
    }
}

bool names(const std::vector<registers> &list, const void *at) {
    for (const registers &r : list)
        if (at >= r.at && (const char *)at < (const char *)r.at + r.bytes) return true;
    return false;
}

/* The sums that the product adds to; they are NaN in the thread's own registers. */
sums *open_sums(thread *t, const product &p) {
    for (sums &s : t->open)
        if (s.at == p.d) return &s;
    if (!names(t->fenced, p.d)) fail("a product without a fence for its sums");
    const size_t n = (size_t)p.tiles * 4;
    t->open.push_back({p.d, std::vector<float>(p.d, p.d + n), 0});
    for (size_t i = 0; i < n; i++) memcpy(p.d + i, &POISON, sizeof POISON);
    return &t->open.back();
}

void add(sums *s, const operands &o, bool adds) {
    const int lane = (int)(number % WARP), g = lane / 4, t = lane % 4;
    for (size_t i = 0; i < s->values.size(); i++) {
        const float *a = o.a[g + i % 4 / 2 * 8], *b = o.b[8 * (i / 4) + 2 * (size_t)t + i % 2];
        float sum = adds ? s->values[i] : 0;
        for (int k = 0; k < SUMMED; k++) sum += a[k] * b[k];
        s->values[i] = sum;
    }
}

void compare_again(const operands &o) {
    operands now = o;
    read_operands(&now);
    if (memcmp(now.b, o.b, sizeof now.b) != 0 || memcmp(now.a, o.a, sizeof now.a) != 0)
        fail("an operand was overwritten before its product was waited for");
}

/* Products before number `past` have been waited for; those that no lane needs any more are dropped. */
void compare_until(given_products *own, size_t past) {
    for (; own->compared < past; own->compared++) compare_again(own->kept[own->compared - own->dropped]);
    for (; own->dropped + 2 < own->compared; own->dropped++) own->kept.pop_front();
}

void store(const sums &s, const std::vector<registers> &done) {
    for (size_t i = 0; i < s.values.size(); i++)
        if (memcmp(s.at + i, &POISON, sizeof POISON) != 0) fail("sums were written before they were waited for");
    if (!names(done, s.at)) fail("a wait for products does not name their sums");
    memcpy(s.at, s.values.data(), s.values.size() * sizeof(float));
}

} // namespace

void multiply(const product &p, const place &at) {
    thread &t = threads[number];
    if (t.exchanges != exchanges()) t.fenced.clear(); /* the thread has gone on to something else */
    const char *all = nullptr;
    if (p.a != nullptr) {
        if (!names(t.fenced, p.a)) fail("a product without a fence for a");
        all = exchange("wgmma.mma_async", ALL_LANES, p.a, 4 * sizeof *p.a, at);
        t.exchanges = exchanges();
    } else {
        meet("wgmma.mma_async", ALL_LANES, at);
    }
    given_products &own = products[number / WARP];
    if (own.dropped + own.kept.size() == t.given) { /* the first lane */
        own.kept.push_back({});
        own.kept.back().p = p;
        if (all != nullptr) gather_a(&own.kept.back(), all);
        read_operands(&own.kept.back());
    }
    const operands &o = own.kept[t.given - own.dropped];
    if (o.p.a_descriptor != p.a_descriptor || o.p.b_descriptor != p.b_descriptor || o.p.tiles != p.tiles ||
        o.p.adds != p.adds)
        fail("lanes of a warp give other products");
    sums *s = open_sums(&t, p);
    s->last = t.given++;
    add(s, o, p.adds);
    t.hash = t.hash * 6364136223846793005ULL + p.b_descriptor + 2 * (uint64_t)p.tiles + p.adds;
}

void fence_products(const registers *used, size_t n) {
    thread &t = threads[number];
    t.fenced.assign(used, used + n);
    t.exchanges = exchanges();
}

void commit_products() { threads[number].committed.push_back(threads[number].given); }

void wait_products(int most_open, const registers *done, size_t n) {
    thread &t = threads[number];
    t.fenced.clear();
    if (t.committed.size() <= (size_t)most_open) return;
    const size_t past = t.committed[t.committed.size() - 1 - (size_t)most_open];
    t.committed.erase(t.committed.begin(), t.committed.end() - most_open);
    compare_until(&products[number / WARP], past);
    const std::vector<registers> named(done, done + n);
    for (size_t i = 0; i < t.open.size();) {
        if (t.open[i].last >= past) {
            i++;
            continue;
        }
        store(t.open[i], named);
        t.open.erase(t.open.begin() + (std::ptrdiff_t)i);
    }
}

void note_written(const void *at, size_t bytes) {
    const size_t first = (size_t)((const char *)at - shared_memory);
    if (first >= shared_bytes) return; /* not shared memory */
    for (size_t i = first / 16; i < (first + bytes + 15) / 16; i++) {
        writers[i] = (uint16_t)(number + 1);
        threads[number].written.push_back(i);
    }
}

void fence_shared() {
    for (const size_t i : threads[number].written)
        if (writers[i] == number + 1) writers[i] = 0;
    threads[number].written.clear();
}

void begin_products(unsigned n, size_t shared) {
    threads.assign(n, {});
    products.assign((n + WARP - 1) / WARP, {});
    writers.assign((shared + 15) / 16, 0);
    shared_bytes = shared;
}

void end_products(unsigned n) {
    for (number = 0; number < n; number++) {
        const thread &t = threads[number];
        if (!t.open.empty()) fail("a thread ended without waiting for its products");
        if (t.hash != threads[number / GROUP * GROUP].hash) fail("warps of a group have given other products");
        if (t.given > 0 && number / GROUP * GROUP + GROUP > n) fail("products of a group of fewer than four warps");
    }
}

} // namespace emulation
