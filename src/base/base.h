/*
 * base: what every folder stands on. Nothing here knows of tensors, ranks' data or models.
 * This header is the one that other folders include.
 */
#ifndef LS_BASE_H
#define LS_BASE_H

#include "longspan/status.h"

#include "base/arena.h"
#include "base/bf16.h"
#include "base/intervals.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/mapped.h"
#include "base/mesh.h"
#include "base/options.h"
#include "base/pool.h"
#include "base/printable.h"
#include "base/range.h"
#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

/* Aborts with file, line and a message: only for a broken invariant of Longspan itself, never on input. */
_Noreturn void ls_panic(const char *file, int line, const char *format, ...) LS_PRINTF(3, 4);
#define LS_ASSERT(condition) \
    ((condition) ? (void)0 : ls_panic(__FILE__, __LINE__, "broken invariant: %s", #condition))

/* First lines of a public function: a caller's NULL is an error that names the function and the argument. */
#define LS_NEED(argument, name)                                                                \
    do {                                                                                       \
        if ((argument) == NULL) return ls_error(LS_INVALID, "%s: %s is NULL", __func__, name); \
    } while (0)

#define LS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline int64_t ls_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ls_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ls_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline size_t ls_round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* Start of part i when n things are dealt to parts as evenly as can be: floor(i*n/parts). i may equal parts. */
static inline int64_t ls_part_start(int64_t n, int64_t parts, int64_t i) {
    return (int64_t)((__int128)n * i / parts);
}

/* Seconds on the monotonic clock. */
double ls_seconds(void);

/* Between two looks at memory that another core will write: lets it have the cache line. */
static inline void ls_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

#endif
