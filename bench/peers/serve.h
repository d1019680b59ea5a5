/* The conversation of Longspan's own programs with run.py, as peer.py has it, and the same numbers. */
#ifndef BENCH_PEERS_SERVE_H
#define BENCH_PEERS_SERVE_H

#include "longspan/longspan.h"

/* Bytes of a line of /proc/self/status: "VmRSS", "VmHWM". */
int64_t peers_memory(const char *field);

/* Fills n elements, f32 or bf16, with a hash of seed and index in [-1, 1). */
void peers_numbers(uint32_t seed, const ls_attention_array *a);

/* Mean of |x|. */
double peers_mean(const ls_attention_array *a);

/*
 * Runs twice to warm up, says that it is ready with check(context, i) for i in [0, n_check), and then runs once for
 * each line "go" of standard input, answering with the seconds it took. resident: bytes in memory before anything of
 * the work was there.
 */
typedef struct peers_server {
    ls_status (*run)(void *context);
    double (*check)(void *context, int i);
    int n_check;
    void *context;
    int64_t resident;
    const char *isa;
} peers_server;
LS_MUST_USE ls_status peers_serve(const peers_server *server);

#endif
