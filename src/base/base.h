/*
 * base: the utilities that every other folder builds on. Nothing here knows about tensors, models or programs. Other
 * folders include this header alone; it includes the headers of the parts.
 */
#ifndef LS_BASE_BASE_H
#define LS_BASE_BASE_H

#include "longspan/status.h"

#include "base/apart.h"
#include "base/arena.h"
#include "base/float16.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/intervals.h"
#include "base/isa.h"
#include "base/library.h"
#include "base/machine.h"
#include "base/mapped.h"
#include "base/measure.h"
#include "base/options.h"
#include "base/plain.h"
#include "base/plugin.h"
#include "base/pool.h"
#include "base/range.h"
#include "base/rng.h"
#include "base/terminal.h"
#include "base/utf8.h"

#include <stddef.h>
#include <stdint.h>

/* Aborts with file, line and a message: only for a broken invariant of Longspan itself, never because of an input. */
__attribute__((noreturn)) void ls_panic(const char *file, int line, const char *format, ...) LS_PRINTF(3, 4);
#define LS_ASSERT(condition) ((condition) ? (void)0 : ls_panic(__FILE__, __LINE__, "broken invariant: %s", #condition))

/*
 * When several ranks of one job fail, the failure with the greatest severity is the cause of the others. 0: no failure;
 * 1: an interruption; 2: a rank that lost another rank; 3: anything else.
 */
int ls_severity(ls_code code);

/* For the first lines of a public function: a NULL argument is an error that names the function and the argument. */
#define LS_NEED(argument, name)                                                                \
    do {                                                                                       \
        if ((argument) == NULL) return ls_error(LS_INVALID, "%s: %s is NULL", __func__, name); \
    } while (0)

#define LS_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline int64_t ls_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ls_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ls_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline size_t ls_round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/*
 * The index where part i starts when n elements are split into `parts` parts whose sizes differ by at most 1:
 * floor(i*n/parts). i = parts gives n.
 */
static inline int64_t ls_part_start(int64_t n, int64_t parts, int64_t i) { return (int64_t)((__int128)n * i / parts); }

/*
 * For the body of a loop that polls memory: waits some cycles, so that polling does not slow down the other hardware
 * thread and the writer.
 */
static inline void ls_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

#endif
