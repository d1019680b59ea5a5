/*
 * What a compiler calls for each access to memory with -fsanitize=thread. Kernels are compiled so and linked with these
 * functions instead of the sanitizer's own.
 */
#include "watch_impl.h"

using watch::what;

namespace {

void seen(const void *instruction, const void *p, size_t bytes, what is) {
    if (watch::access(p, bytes, is)) watch::count_access(instruction, p, bytes);
}

} // namespace

#define HERE __builtin_return_address(0)
#define OF_SIZE(n)                                                           \
    void __tsan_read##n(void *p) { seen(HERE, p, n, what::READ); }           \
    void __tsan_write##n(void *p) { seen(HERE, p, n, what::WRITE); }         \
    void __tsan_unaligned_read##n(void *p) { seen(HERE, p, n, what::READ); } \
    void __tsan_unaligned_write##n(void *p) { seen(HERE, p, n, what::WRITE); }

extern "C" {
OF_SIZE(1)
OF_SIZE(2)
OF_SIZE(4)
OF_SIZE(8)
OF_SIZE(16)
void __tsan_read_range(void *p, size_t bytes) { watch::access(p, bytes, what::READ); }
void __tsan_write_range(void *p, size_t bytes) { watch::access(p, bytes, what::WRITE); }
void __tsan_vptr_read(void **) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
