/*
 * Every public header with functions begins with LS_PUBLIC_BEGIN and ends with LS_PUBLIC_END. The functions between
 * them have C linkage in C++ too, and are the only visible symbols of the shared library, which is compiled with hidden
 * visibility.
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
