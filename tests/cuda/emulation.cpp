#include "cuda_runtime.h"

#include "products.h"

#include <csetjmp>
#include <dlfcn.h>
#include <mutex>
#include <ucontext.h>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

unsigned number;
alignas(1024) char shared_memory[MOST_SHARED];

namespace {

enum { STACK = 256 * 1024 };

enum class state { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ENDED };

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* A fibre is begun by its context; after that jumps do, which make no system calls. */
struct fibre {
    ucontext_t context;
    jmp_buf at;
    bool begun;
    std::vector<char> stack;
    state is;
    unsigned exchanges;
    std::vector<std::vector<copy>> groups; /* committed */
    std::vector<copy> open;
};

struct warp {
    char values[2][WARP][EXCHANGE]; /* of two exchanges in turn */
};

std::vector<fibre> fibres;
std::vector<warp> warps;
ucontext_t before;
jmp_buf scheduler;
const std::function<void()> *body;
uint64_t random_state = 1;

void main_of_fibre() {
    (*body)();
    fibre &f = fibres[number];
    if (!f.open.empty() || !f.groups.empty()) fail("a thread ended without waiting for its copies");
    f.is = state::ENDED;
    _longjmp(scheduler, 1);
}

void wait_as(state is) {
    fibre &f = fibres[number];
    f.is = is;
    if (_setjmp(f.at) == 0) _longjmp(scheduler, 1);
}

void resume(unsigned i) {
    number = i;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    if (_setjmp(scheduler) != 0) return;
    if (fibres[i].begun) _longjmp(fibres[i].at, 1);
    fibres[i].begun = true;
    swapcontext(&before, &fibres[i].context);
}

/* Releases those of first .. past - 1 that wait at such a barrier, if all that have not ended do. */
bool release(unsigned first, unsigned past, state barrier) {
    bool any = false;
    for (unsigned i = first; i < past; i++) {
        if (fibres[i].is == state::ENDED) continue;
        if (fibres[i].is != barrier) return false;
        any = true;
    }
    for (unsigned i = first; i < past && any; i++)
        if (fibres[i].is == barrier) fibres[i].is = state::READY;
    return any;
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
    } while (release(first, past, state::AT_WARP_BARRIER));
}

void run_block(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        fibre &f = fibres[i];
        getcontext(&f.context);
        f.stack.resize(STACK);
        f.context.uc_stack.ss_sp = f.stack.data();
        f.context.uc_stack.ss_size = STACK;
        f.context.uc_link = nullptr;
        f.is = state::READY;
        f.begun = false;
        f.exchanges = 0;
        makecontext(&f.context, main_of_fibre, 0);
    }
    std::vector<unsigned> order = numbers_from(0, (n + WARP - 1) / WARP);
    do { /* a warp has come to the barrier before another one begins */
        shuffle(order);
        for (const unsigned w : order) run_warp(w * WARP, std::min(n, (w + 1) * WARP));
    } while (release(0, n, state::AT_BLOCK_BARRIER));
    for (unsigned i = 0; i < n; i++)
        if (fibres[i].is != state::ENDED) fail("threads wait at barriers that others do not reach");
}

} // namespace

void fail(const char *what) {
    fprintf(stderr, "emulation of CUDA: %s, in block %u,%u,%u, thread %u\n", what, blockIdx.x, blockIdx.y, blockIdx.z,
            number);
    abort();
}

static int setting(const char *name, int value) {
    const char *const text = getenv(name);
    return text != nullptr ? atoi(text) : value;
}
int most_shared() { return setting("EMULATED_SHARED", MOST_SHARED); }
int capability() { return setting("EMULATED_CAPABILITY", 9); }
int most_blocks() { return std::max(2, setting("EMULATED_BLOCKS", INT32_MAX)); }

void block_barrier() { wait_as(state::AT_BLOCK_BARRIER); }
void warp_barrier() { wait_as(state::AT_WARP_BARRIER); }

unsigned count(bool is) {
    static unsigned votes;
    block_barrier(); /* an earlier count has been read */
    if (number == 0) votes = 0;
    block_barrier();
    votes += is;
    block_barrier();
    return votes;
}

const char *exchange(const void *mine, size_t bytes) {
    const unsigned turn = fibres[number].exchanges++ % 2;
    warp &w = warps[number / WARP];
    memcpy(w.values[turn][number % WARP], mine, bytes);
    warp_barrier();
    return w.values[turn][0];
}

unsigned exchanges() { return fibres[number].exchanges; }

void copy_later(void *to, const void *from, size_t bytes) { fibres[number].open.push_back({to, from, bytes}); }

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
        }
        groups.erase(groups.begin());
    }
}

namespace {

struct launch {
    dim3 grid, block;
    size_t shared;
    std::function<void()> kernel;
};

/* One grid at a time, by whichever thread: all that kernels see is global. */
void run_grid(const launch &l) {
    static std::mutex one;
    const std::lock_guard<std::mutex> guard(one);
    const unsigned n = l.block.x * l.block.y * l.block.z;
    if (fibres.size() < n) fibres.resize(n);
    if (warps.size() < n / WARP + 1) warps.resize(n / WARP + 1);
    body = &l.kernel;
    gridDim = l.grid;
    blockDim = l.block;
    const uint64_t all = (uint64_t)l.grid.x * l.grid.y * l.grid.z, n_run = std::min(all, (uint64_t)most_blocks());
    std::vector<unsigned> runs = numbers_from(0, (unsigned)n_run);
    shuffle(runs);
    for (const unsigned run : runs) {
        const uint64_t b = n_run == all ? run : (all - 1) * run / (n_run - 1);
        blockIdx = {(unsigned)(b % l.grid.x), (unsigned)(b / l.grid.x % l.grid.y), (unsigned)(b / l.grid.x / l.grid.y)};
        memset(shared_memory, 0xff, l.shared);
        begin_products(n, l.shared);
        run_block(n);
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

cudaError_t launch_grid(const cudaLaunchConfig_t &config, const std::function<void()> &kernel) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    const size_t n = (size_t)block.x * block.y * block.z;
    if (n == 0 || n > MOST_THREADS || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535 || config.dynamicSmemBytes > (size_t)most_shared())
        return cudaErrorInvalidConfiguration;
    const launch l{grid, block, config.dynamicSmemBytes, kernel};
    give(config.stream, [=] { run_grid(l); });
    return cudaSuccess;
}

} // namespace emulation
