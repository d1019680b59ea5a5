/*
 * What every public header of functions begins and ends with: they have C's names in C++ too, and they alone are visible in the shared
 * library, which is compiled with everything else hidden.
 */
#ifndef LONGSPAN_LINKAGE_H
#define LONGSPAN_LINKAGE_H

#ifdef __cplusplus
#define LS_PUBLIC_BEGIN \
    extern "C" {        \
    _Pragma("GCC visibility push(default)")
#define LS_PUBLIC_END             \
    _Pragma("GCC visibility pop") \
    }
#else
#define LS_PUBLIC_BEGIN _Pragma("GCC visibility push(default)")
#define LS_PUBLIC_END _Pragma("GCC visibility pop")
#endif

#endif
