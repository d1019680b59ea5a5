#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* --- names -------------------------------------------------------------------------------------------------------- */

#define UP_TO_AVX2 (LS_FEATURE_BASELINE | LS_FEATURE_AVX2)
#define UP_TO_AVX512 (UP_TO_AVX2 | LS_FEATURE_AVX512)
#define UP_TO_AVX512_BF16 (UP_TO_AVX512 | LS_FEATURE_AVX512_BF16)

const ls_isa_row ls_isas[LS_ISA_COUNT] = {
    [LS_ISA_REF] = {"ref", 0, NULL},
    [LS_ISA_BASE] = {"base", LS_FEATURE_BASELINE, NULL},
    [LS_ISA_AVX2] = {"avx2", UP_TO_AVX2, "x86-64"},
    [LS_ISA_AVX512] = {"avx512", UP_TO_AVX512, "x86-64"},
    [LS_ISA_AVX512BF16] = {"avx512bf16", UP_TO_AVX512_BF16, "x86-64"},
    [LS_ISA_AMX] = {"amx", UP_TO_AVX512_BF16 | LS_FEATURE_AMX_BF16, "x86-64"},
};

const char *ls_isa_name(ls_isa isa) {
    LS_ASSERT(isa < LS_ISA_COUNT);
    return ls_isas[isa].name;
}

/* "ref, base ... or amx", for messages. */
typedef struct name_list {
    char text[256];
} name_list;

static name_list all_names(void) {
    name_list list = {""};
    size_t used = 0;
    for (int i = 0; i < LS_ISA_COUNT && used < sizeof list.text; i++) {
        const char *before = i == 0 ? "" : i + 1 < LS_ISA_COUNT ? ", " : " or ";
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%s", before, ls_isas[i].name);
    }
    return list;
}

static bool find(const char *name, ls_isa *out) {
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        if (strcmp(name, ls_isas[i].name) != 0) continue;
        *out = (ls_isa)i;
        return true;
    }
    return false;
}

ls_status ls_isa_parse(const char *text, ls_isa *out) {
    if (find(text, out)) return ls_ok();
    return ls_error(LS_USAGE, "instruction set '%s' is unknown; expected %s", text, all_names().text);
}

ls_isa ls_isa_within(ls_features features) {
    ls_isa best = LS_ISA_REF;
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_features of_row = ls_isas[i].features;
        if ((of_row & ~features) == 0 && __builtin_popcount(of_row) >= __builtin_popcount(ls_isas[best].features))
            best = (ls_isa)i;
    }
    return best;
}

/* --- the processor ------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
/* Whether cpuid leaf.subleaf has all of `bits` in register r (0 eax, 1 ebx, 2 ecx, 3 edx). */
static bool cpuid_has(unsigned leaf, unsigned subleaf, int r, unsigned bits) {
    unsigned registers[4] = {0};
    if (!__get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3])) return false;
    return (registers[r] & bits) == bits;
}

/*
 * For each thread that uses tiles the system must save 8 KiB more, so Linux requires a process to request permission
 * once. Threads and children inherit it.
 */
static bool may_use_tiles(void) {
    const unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    /* ARCH_REQ_XCOMP_PERM of Linux 5.16, which older headers lack. */
    enum { REQUEST_PERMISSION = 0x1023, XTILEDATA = 18 };
    return cpuid_has(7, 0, 3, amx_bf16 | amx_tile) && syscall(SYS_arch_prctl, REQUEST_PERMISSION, XTILEDATA) == 0;
}

/*
 * __builtin_cpu_supports also checks that the operating system saves the wide registers. avx512_bf16 uses the registers
 * of avx512f.
 */
static ls_features detect(void) {
    const unsigned fma = 1u << 12, movbe = 1u << 22, f16c = 1u << 29;
    const unsigned lzcnt = 1u << 5, bf16 = 1u << 5;
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                      __builtin_cpu_supports("bmi2") && cpuid_has(1, 0, 2, fma | movbe | f16c) &&
                      cpuid_has(0x80000001u, 0, 2, lzcnt);
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return LS_FEATURE_BASELINE | (avx2 ? LS_FEATURE_AVX2 : 0) | (avx512 ? LS_FEATURE_AVX512 : 0) |
           (avx512 && cpuid_has(7, 1, 0, bf16) ? LS_FEATURE_AVX512_BF16 : 0) |
           (may_use_tiles() ? LS_FEATURE_AMX_BF16 : 0);
}
#else
static ls_features detect(void) { return LS_FEATURE_BASELINE; }
#endif

static pthread_once_t detected_once = PTHREAD_ONCE_INIT;
static ls_features detected; /* written once */

static void detect_once(void) { detected = detect(); }

ls_features ls_features_present(void) {
    pthread_once(&detected_once, detect_once);
    return detected;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

ls_status ls_isa_limit(ls_isa *out) {
    const char *const cap = getenv(LS_ISA_VARIABLE);
    const ls_isa own = ls_isa_within(ls_features_present());
    ls_isa isa = own;
    *out = own;
    if (cap == NULL || cap[0] == 0) return ls_ok();
    if (!find(cap, &isa))
        return ls_error(LS_USAGE, "the environment's " LS_ISA_VARIABLE " is '%.40s'; expected %s", cap,
                        all_names().text);
    if (!ls_isa_allows(own, ls_isas[isa].features))
        return ls_error(LS_USAGE, "the environment's " LS_ISA_VARIABLE " is %s; this processor has no more than %s",
                        cap, ls_isa_name(own));
    *out = isa;
    return ls_ok();
}

ls_status ls_isa_check(ls_isa isa) {
    const ls_isa own = ls_isa_within(ls_features_present());
    ls_isa limit = own;
    LS_TRY(ls_isa_limit(&limit));
    const ls_isa_row *row = &ls_isas[isa];
    if (ls_isa_allows(limit, row->features)) return ls_ok();
    return ls_error(LS_USAGE, "instruction set %s (%s): %s has no more than %s", row->name,
                    row->architecture != NULL ? row->architecture : "every architecture",
                    limit != own ? "as " LS_ISA_VARIABLE " says, this process" : "this processor", ls_isa_name(limit));
}
