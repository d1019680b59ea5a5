#include "host_kernels.h"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <utility>

namespace {

enum { MOST_KERNELS = 256 };

struct wrapped {
    const ls_kernel *original;
    ls_kernel on_stream;
};
std::array<wrapped, MOST_KERNELS> kernels;
size_t n_kernels;
std::mutex one; /* of both */

struct call {
    const ls_kernel *kernel;
    ls_kernel_call arguments; /* a copy, as a launch of a kernel has */
    void *state;
};

void run_call(void *context) {
    const call *c = static_cast<const call *>(context);
    c->kernel->run(&c->arguments, c->state, nullptr);
}

void free_call(void *context) { delete static_cast<const call *>(context); }

/* The launch of the kernel with that number: a row's function is not told which row it is called for. */
template <size_t NUMBER> ls_status launch(const ls_kernel_call *arguments, void *state, void *stream) {
    void *library = dlopen(getenv("LONGSPAN_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    const auto run_on_stream =
        (void (*)(void *, void (*)(void *), void (*)(void *), void *))dlsym(library, "fake_stream_run");
    run_on_stream(stream, run_call, free_call, new call{kernels[NUMBER].original, *arguments, state});
    return ls_ok();
}

template <size_t... NUMBERS> constexpr auto launches_of(std::index_sequence<NUMBERS...>) {
    return std::array{launch<NUMBERS>...};
}
constexpr auto launches = launches_of(std::make_index_sequence<MOST_KERNELS>());

} // namespace

const ls_kernel *kernel_on_stream(const ls_kernel *kernel) {
    const std::lock_guard<std::mutex> guard(one);
    size_t i = 0;
    while (i < n_kernels && kernels[i].original != kernel) i++;
    if (i == MOST_KERNELS) abort();
    if (i == n_kernels) {
        n_kernels++;
        kernels[i] = {kernel, *kernel};
        kernels[i].on_stream.run = nullptr;
        kernels[i].on_stream.launch = launches[i];
    }
    return &kernels[i].on_stream;
}
