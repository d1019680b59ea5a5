/* Experiments on a CUDA driver, one a process:  gpu_micro NAME  (`gpu_micro list` names them). */
#include "micro.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *question;
    void (*run)(micro *m);
} experiments[] = {
    {"node", "are words that are captured one node; do values set later need an upload; what do they cost", micro_node},
    {"blocked", "does the launch of a long graph return while the graph waits", micro_blocked},
    {"chain", "how many streams can wait for each other", micro_chain},
    {"latency", "how long is it from a word or an event to what waits for it", micro_latency},
    {"wake", "how late does a stream go on that has waited for long", micro_wake},
    {"depth", "how many operations does a stream take before a call blocks", micro_depth},
    {"beside", "which calls wait while another stream is held", micro_beside},
    {"handles", "what does a handle of cuBLASLt do that is destroyed after its context", micro_handles},
    {"products", "what does cuBLASLt choose by alignment and reductions, and how fast is it", micro_products},
};

/* Two kernels: one that ends at once, and one that needs 64 KiB of local memory for each thread. */
static const char kernels[] = ".version 7.0\n"
                              ".target sm_70\n"
                              ".address_size 64\n"
                              ".visible .entry nothing() { ret; }\n"
                              ".visible .entry local(.param .u64 to) {\n"
                              "  .local .align 8 .b8 room[65536];\n"
                              "  .reg .u64 %a<4>; .reg .u32 %i<3>; .reg .pred %p;\n"
                              "  mov.u64 %a0, room; ld.param.u64 %a1, [to]; mov.u32 %i0, %tid.x; mov.u32 %i1, 0;\n"
                              "fill: mul.wide.u32 %a2, %i1, 4; add.u64 %a2, %a2, %a0; st.local.u32 [%a2], %i0;\n"
                              "  add.u32 %i1, %i1, 1; setp.lt.u32 %p, %i1, 16384; @%p bra fill;\n"
                              "  mul.wide.u32 %a2, %i0, 4; add.u64 %a2, %a2, %a0; ld.local.u32 %i2, [%a2];\n"
                              "  st.global.u32 [%a1], %i2; ret;\n"
                              "}\n";

void micro_check(const micro *m, unsigned result, const char *call) {
    const char *text = "no text";
    if (result == LS_CUDA_SUCCESS) return;
    (void)m->driver.cuGetErrorString(result, &text);
    fprintf(stderr, "%s: %s: %s (%u)\n", m->name, call, text, result);
    exit(1);
}

void micro_found(const micro *m, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s: ", m->name);
    vprintf(format, arguments);
    putchar('\n');
    fflush(stdout); /* a later call may hang */
    va_end(arguments);
}

ls_cuda_stream micro_stream(const micro *m) {
    ls_cuda_stream stream;
    MICRO_CALL(m, cuStreamCreateWithPriority, &stream, LS_CUDA_STREAM_NON_BLOCKING, 0);
    return stream;
}

static void put_word(const micro *m, ls_cuda_stream stream, unsigned operation, ls_cuda_address word, uint64_t value) {
    ls_cuda_word_op op = {.waitValue = {.operation = operation, .address = word, .value64 = value}};
    MICRO_CALL(m, cuStreamBatchMemOp_v2, stream, 1, &op, 0);
}

void micro_await(const micro *m, ls_cuda_stream stream, ls_cuda_address word, uint64_t value) {
    put_word(m, stream, LS_CUDA_WAIT_WORD, word, value);
}

void micro_write(const micro *m, ls_cuda_stream stream, ls_cuda_address word, uint64_t value) {
    put_word(m, stream, LS_CUDA_WRITE_WORD, word, value);
}

void micro_work(const micro *m, ls_cuda_stream stream) {
    if (m->nothing != NULL)
        MICRO_MORE(m, cuLaunchKernel, m->nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
    else
        MICRO_CALL(m, cuMemsetD8Async, m->own_words, 0, 4, stream);
}

bool micro_reached(const micro *m, int word, uint64_t value, double seconds) {
    const double start = ls_seconds();
    while (atomic_load(&m->words[word]) < value)
        if (ls_seconds() - start > seconds) return false;
    return true;
}

void micro_clear(const micro *m) {
    for (int i = 0; i < MICRO_WORDS; i++) atomic_store(&m->words[i], 0);
}

static void *rescue(void *argument) {
    micro_rescue *r = argument;
    const double start = ls_seconds();
    while (ls_seconds() - start < r->seconds) {
        if (atomic_load(&r->done)) return NULL;
        usleep(500);
    }
    atomic_store(&r->came, true);
    for (int i = 0; i < MICRO_WORDS; i++) atomic_store(&r->m->words[i], 1ULL << 40);
    return NULL;
}

void micro_rescue_begin(const micro *m, double seconds, micro_rescue *r) {
    *r = (micro_rescue){.m = m, .seconds = seconds};
    LS_ASSERT(pthread_create(&r->thread, NULL, rescue, r) == 0);
}

bool micro_rescue_end(micro_rescue *r) {
    atomic_store(&r->done, true);
    (void)pthread_join(r->thread, NULL);
    return atomic_load(&r->came);
}

static void find_more(micro *m) {
    void *library = dlopen(getenv("LONGSPAN_CUDA_DRIVER") != NULL ? getenv("LONGSPAN_CUDA_DRIVER") : "libcuda.so.1",
                           RTLD_NOW | RTLD_NOLOAD);
    bool all = library != NULL;
#define MICRO_FIND(function, arguments)                             \
    {                                                               \
        void *const found = all ? dlsym(library, #function) : NULL; \
        memcpy(&m->more.function, &found, sizeof found);            \
        all &= found != NULL;                                       \
    }
    MICRO_FUNCTIONS(MICRO_FIND)
    if (!all) memset(&m->more, 0, sizeof m->more);
}

static void set_up(micro *m) {
    const ls_status status = ls_cuda_driver_load(&m->driver);
    void *words;
    if (status.code != LS_OK) {
        fprintf(stderr, "%s\n", status.text);
        exit(1);
    }
    find_more(m);
    MICRO_CALL(m, cuDeviceGet, &m->device, 0);
    MICRO_CALL(m, cuDevicePrimaryCtxRetain, &m->context, m->device);
    MICRO_CALL(m, cuCtxSetCurrent, m->context);
    MICRO_CALL(m, cuMemHostAlloc, &words, MICRO_WORDS * 8, LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED);
    m->words = words;
    micro_clear(m);
    MICRO_CALL(m, cuMemHostGetDevicePointer_v2, &m->words_at, words, 0);
    MICRO_CALL(m, cuMemAlloc_v2, &m->own_words, MICRO_WORDS * 8);
    if (m->more.cuModuleLoadData == NULL) return;
    micro_module module;
    MICRO_MORE(m, cuModuleLoadData, &module, kernels);
    MICRO_MORE(m, cuModuleGetFunction, &m->nothing, module, "nothing");
    MICRO_MORE(m, cuModuleGetFunction, &m->local, module, "local");
    const ls_cuda_stream stream = micro_stream(m); /* loads the kernel */
    micro_work(m, stream);
    MICRO_CALL(m, cuMemsetD8Async, m->own_words, 0, MICRO_WORDS * 8, stream);
    MICRO_CALL(m, cuStreamSynchronize, stream);
}

int main(int argc, char **argv) {
    micro m = {.name = argc > 1 ? argv[1] : ""};
    /* As device/cuda/open.c sets it, where nobody has. */
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    for (size_t i = 0; i < LS_COUNT(experiments); i++) {
        if (strcmp(m.name, "list") == 0) printf("%-8s %s\n", experiments[i].name, experiments[i].question);
        if (strcmp(m.name, experiments[i].name) != 0) continue;
        set_up(&m);
        experiments[i].run(&m);
        fflush(stdout);
        _exit(0); /* what still waits is let go with the process */
    }
    if (strcmp(m.name, "list") == 0) return 0;
    fprintf(stderr, "usage: gpu_micro list, or one of the names that it prints\n");
    return 2;
}
