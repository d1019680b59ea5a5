/* What tests ask of the emulation. */
#ifndef LS_TESTS_CUDA_EMULATION_H
#define LS_TESTS_CUDA_EMULATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Calls f before the blocks of each launch run, by the thread that runs them; NULL: no longer. */
void emulation_before_grids(void (*f)(void));

#ifdef __cplusplus
}
#endif

#endif
