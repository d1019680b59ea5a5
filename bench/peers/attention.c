/*
 * Longspan's attention for run.py: one rank, through the library as a user has it (include/longspan/attention.h).
 *
 *     attention DTYPE SEQ HEADS KV_HEADS HEAD_SIZE THREADS BACKWARD [ISA]        BACKWARD: 0 or 1
 */
#include "serve.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    ls_attention_options options;
    int64_t resident;
    char isa[32];
    ls_attention_rank *rank;
} bench;

static ls_status once(void *context) {
    const bench *b = context;
    LS_TRY(ls_attention_forward(b->rank));
    return b->options.gradients ? ls_attention_backward(b->rank) : ls_ok();
}

static double check(void *context, int i) {
    const ls_attention_rank *r = ((const bench *)context)->rank;
    const ls_attention_array *const out[] = {&r->o, &r->dq, &r->dk, &r->dv};
    return peers_mean(out[i]);
}

/* The rank is a thread, so the bench that *input points to is the caller's own. */
static ls_status on_rank(ls_attention_rank *r, const void *input, void *result) {
    (void)result;
    bench *b = *(bench *const *)input;
    b->rank = r;
    const ls_attention_array *const in[] = {&r->q, &r->k, &r->v, &r->grad_o};
    for (uint32_t i = 0; i < (b->options.gradients ? 4u : 3u); i++) peers_numbers(i, in[i]);
    const peers_server server = {.run = once,
                                 .check = check,
                                 .n_check = b->options.gradients ? 4 : 1,
                                 .context = b,
                                 .resident = b->resident,
                                 .isa = b->isa};
    return peers_serve(&server);
}

static ls_status small(ls_attention_rank *r, const void *input, void *result) {
    (void)result;
    const bool gradients = *(const bool *)input;
    LS_TRY(ls_attention_forward(r));
    return gradients ? ls_attention_backward(r) : ls_ok();
}

static ls_status run_on(const ls_attention_options *options, bench *b, ls_attention_work work, const void *input) {
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(options, &attention));
    const ls_spread_result chosen = ls_shared_attention_describe(attention);
    snprintf(b->isa, sizeof b->isa, "%s", chosen.isa);
    const ls_status status = ls_shared_attention_run(attention, work, input, NULL, 0);
    ls_shared_attention_close(attention);
    return status;
}

static ls_status bench_attention(char **argv) {
    const ls_mask causal = ls_mask_causal();
    bench b = {.options = {.batch = 1,
                           .seq = atoll(argv[2]),
                           .heads = atoll(argv[3]),
                           .kv_heads = atoll(argv[4]),
                           .head_size = atoll(argv[5]),
                           .dtype = strcmp(argv[1], "f32") == 0 ? LS_F32 : LS_BF16,
                           .mask = &causal,
                           .gradients = strcmp(argv[7], "1") == 0,
                           .spread = {.ranks = 1, .threads = atoll(argv[6]), .isa = argv[8], .as_threads = true}}};
    bench *const all = &b;
    ls_attention_options first = b.options;
    first.seq = 256;
    LS_TRY(run_on(&first, &b, small, &first.gradients)); /* loads what is loaded once */
    b.resident = peers_memory("VmRSS");
    return run_on(&b.options, &b, on_rank, &all);
}

int main(int argc, char **argv) {
    if (argc < 8 || argc > 9) {
        fprintf(stderr, "usage: attention DTYPE SEQ HEADS KV_HEADS HEAD_SIZE THREADS BACKWARD [ISA]\n");
        return 2;
    }
    const ls_status status = bench_attention(argv);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code == LS_OK ? 0 : 1;
}
