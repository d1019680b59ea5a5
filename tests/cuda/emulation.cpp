#include "cuda_runtime.h"

#include "emulation.h"
#include "products.h"
#include "symbols.h"
#include "watch/watch.h"

#include <csetjmp>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <ucontext.h>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

unsigned number;
alignas(1024) char shared_memory[MOST_SHARED];

namespace {

enum { STACK = 256 * 1024, SHARED_OF_ALL = 48 * 1024 /* that every kernel may ask for */ };

enum class state { READY, AT_BLOCK_BARRIER, AT_MEETING, ENDED };

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* Of functions that jump: the address sanitizer must not mark a frame that is never left. */
#define JUMPS __attribute__((noinline, no_sanitize_address))

/*
 * A fibre is begun by its context; after that jumps do, which make no system calls. It goes on from block to block.
 */
struct fibre {
    jmp_buf at;
    bool begun = false;
    std::vector<char> stack;
    state is;
    place at_barrier;                      /* of the block */
    std::vector<std::vector<copy>> groups; /* committed */
    std::vector<copy> open;
};

std::vector<fibre> fibres;
jmp_buf scheduler;
const void *kernel; /* that runs */
const std::function<void()> *body;
uint64_t random_state = 1;

JUMPS void wait_as(state is) {
    fibre &f = fibres[number];
    f.is = is;
    if (_setjmp(f.at) == 0) _longjmp(scheduler, 1);
}

void main_of_fibre() {
    for (;;) {
        (*body)();
        const fibre &f = fibres[number];
        if (!f.open.empty() || !f.groups.empty()) fail("a thread ended without waiting for its copies");
        wait_as(state::ENDED);
    }
}

JUMPS void begin(fibre *f) {
    ucontext_t context, before;
    f->begun = true;
    f->stack.resize(STACK);
    getcontext(&context);
    context.uc_stack.ss_sp = f->stack.data();
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, main_of_fibre, 0);
    swapcontext(&before, &context);
}

JUMPS void resume(unsigned i) {
    number = i;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    if (_setjmp(scheduler) != 0) return;
    if (fibres[i].begun) _longjmp(fibres[i].at, 1);
    begin(&fibres[i]);
}

/* Releases those of the block's n threads that have not ended: all wait at a barrier, which is the same. */
bool release_block(unsigned n) {
    const fibre *first = nullptr;
    WATCHED(watch_block_barrier);
    for (unsigned i = 0; i < n; i++) {
        fibre &f = fibres[i];
        if (f.is == state::ENDED) continue;
        if (first == nullptr) first = &f;
        number = i;
        if (!is_same(f.at_barrier, first->at_barrier))
            fail(("a barrier at " + text_of(f.at_barrier) + " while others wait at " + text_of(first->at_barrier))
                     .c_str());
        f.is = state::READY;
    }
    return first != nullptr;
}

/* Releases the threads of a warp that have met. */
bool release_met(unsigned first, unsigned past) {
    unsigned waiting = 0, ended = past - first < WARP ? ALL_LANES << (past - first) : 0;
    for (unsigned i = first; i < past; i++) {
        waiting |= (unsigned)(fibres[i].is == state::AT_MEETING) << (i - first);
        ended |= (unsigned)(fibres[i].is == state::ENDED) << (i - first);
    }
    const unsigned met = find_met(first, waiting, ended);
    for (unsigned i = first; i < past; i++)
        if (met >> (i - first) & 1) fibres[i].is = state::READY;
    return met != 0;
}

std::vector<unsigned> numbers_from(unsigned first, unsigned n) {
    std::vector<unsigned> order(n);
    for (unsigned i = 0; i < n; i++) order[i] = first + i;
    return order;
}

void shuffle(std::vector<unsigned> &order) {
    for (size_t i = order.size(); i > 1; i--) {
        random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
        std::swap(order[i - 1], order[(random_state >> 33) % i]);
    }
}

/* Runs threads first .. past - 1 of a warp until they are at a barrier of the block or have ended. */
void run_warp(unsigned first, unsigned past) {
    std::vector<unsigned> order = numbers_from(first, past - first);
    do {
        shuffle(order);
        for (const unsigned i : order)
            if (fibres[i].is == state::READY) resume(i);
    } while (release_met(first, past));
}

void run_block(unsigned n) {
    for (unsigned i = 0; i < n; i++) fibres[i].is = state::READY;
    std::vector<unsigned> order = numbers_from(0, (n + WARP - 1) / WARP);
    do { /* a warp has come to the barrier before another one begins */
        shuffle(order);
        for (const unsigned w : order) run_warp(w * WARP, std::min(n, (w + 1) * WARP));
    } while (release_block(n));
}

} // namespace

void fail(const char *what) {
    fprintf(stderr, "emulation of CUDA: %s, in block %u,%u,%u, thread %u of %s\n", what, blockIdx.x, blockIdx.y,
            blockIdx.z, number, name_of_function(kernel).c_str());
    abort();
}

static int setting(const char *name, int value) {
    const char *const text = getenv(name);
    return text != nullptr ? atoi(text) : value;
}
int most_shared() { return setting("EMULATED_SHARED", MOST_SHARED); }

/*
 * By kernel: the shared memory that its launches may ask for, where that was set. It never falls: a launch of another
 * thread may need it, between its own permission and the launch.
 */
static std::mutex allowing;
static std::map<const void *, int> allowed;

cudaError_t allow_shared(const void *function, int bytes) {
    if (bytes < 0 || bytes > most_shared()) return cudaErrorInvalidValue;
    const std::lock_guard<std::mutex> guard(allowing);
    int &most = allowed[function];
    if (bytes < std::min(most, most_shared())) return cudaErrorInvalidValue;
    most = bytes;
    return cudaSuccess;
}

static bool may_have_shared(const void *function, size_t bytes) {
    const std::lock_guard<std::mutex> guard(allowing);
    const auto found = allowed.find(function);
    return bytes <= (size_t)most_shared() && bytes <= (size_t)(found != allowed.end() ? found->second : SHARED_OF_ALL);
}

int capability() { return setting("EMULATED_CAPABILITY", 9); }
int most_blocks() { return std::max(2, setting("EMULATED_BLOCKS", INT32_MAX)); }

void block_barrier(const place &at) {
    fibres[number].at_barrier = at;
    wait_as(state::AT_BLOCK_BARRIER);
}
void wait_for_lanes() { wait_as(state::AT_MEETING); }

unsigned count(bool is, const place &at) {
    static unsigned votes;
    block_barrier(at); /* an earlier count has been read */
    if (number == 0) votes = 0;
    block_barrier(at);
    votes += is;
    block_barrier(at);
    return votes;
}

void copy_later(void *to, const void *from, size_t bytes) {
    WATCHED(watch_copy_begins, to, from, bytes);
    fibres[number].open.push_back({to, from, bytes});
}

void commit_copies() {
    fibre &f = fibres[number];
    f.groups.push_back(std::move(f.open));
    f.open.clear();
}

void wait_copies(int most_open) {
    std::vector<std::vector<copy>> &groups = fibres[number].groups;
    while (groups.size() > (size_t)most_open) {
        for (const copy &c : groups.front()) {
            memcpy(c.to, c.from, c.bytes);
            note_written(c.to, c.bytes);
            WATCHED(watch_copy_arrives, c.to, c.bytes);
        }
        groups.erase(groups.begin());
    }
}

namespace {

void (*before_grids)(void);

struct launch {
    dim3 grid, block;
    size_t shared;
    const void *function;
    std::function<void()> call;
};

/* One grid at a time, by whichever thread: all that kernels see is global. */
void run_grid(const launch &l) {
    static std::mutex one;
    const std::lock_guard<std::mutex> guard(one);
    const unsigned n = l.block.x * l.block.y * l.block.z;
    if (fibres.size() < n) fibres.resize(n);
    if (before_grids != nullptr) before_grids();
    kernel = l.function;
    body = &l.call;
    gridDim = l.grid;
    blockDim = l.block;
    const uint64_t all = (uint64_t)l.grid.x * l.grid.y * l.grid.z, n_run = std::min(all, (uint64_t)most_blocks());
    WATCHED(watch_grid_begins, l.function, l.shared);
    std::vector<unsigned> runs = numbers_from(0, (unsigned)n_run);
    shuffle(runs);
    for (const unsigned run : runs) {
        const uint64_t b = n_run == all ? run : (all - 1) * run / (n_run - 1);
        blockIdx = {(unsigned)(b % l.grid.x), (unsigned)(b / l.grid.x % l.grid.y), (unsigned)(b / l.grid.x / l.grid.y)};
        memset(shared_memory, 0xff, l.shared);
        begin_meetings(n);
        begin_products(n, l.shared);
        WATCHED(watch_block_begins);
        run_block(n);
        WATCHED(watch_block_ends);
        end_products(n);
    }
}

void run_work(void *context) {
    const std::function<void()> *work = static_cast<const std::function<void()> *>(context);
    (*work)();
}

void free_work(void *context) { delete static_cast<const std::function<void()> *>(context); }

typedef void (*stream_function)(void *stream, void (*run)(void *context), void (*release)(void *context),
                                void *context);

/* Of the fake driver (driver/fake.h), if it has been loaded. */
stream_function find_stream_function() {
    const char *file = getenv("LONGSPAN_CUDA_DRIVER");
    void *library = file != nullptr ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return library != nullptr ? (stream_function)dlsym(library, "fake_stream_run") : nullptr;
}

} // namespace

void give(cudaStream_t stream, const std::function<void()> &work) {
    const stream_function on_stream = stream != nullptr ? find_stream_function() : nullptr;
    if (on_stream != nullptr)
        on_stream(stream, run_work, free_work, new std::function<void()>(work));
    else
        work();
}

cudaError_t launch_grid(const cudaLaunchConfig_t &config, const void *function, const std::function<void()> &call) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const size_t n = (size_t)block.x * block.y * block.z;
    if (n == 0 || n > MOST_THREADS || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (!may_have_shared(function, config.dynamicSmemBytes)) return cudaErrorInvalidValue;
    const launch l{grid, block, config.dynamicSmemBytes, function, call};
    give(config.stream, [=] { run_grid(l); });
    return cudaSuccess;
}

} // namespace emulation

void emulation_before_grids(void (*f)(void)) { emulation::before_grids = f; }
