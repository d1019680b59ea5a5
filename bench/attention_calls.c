/*
 * The overhead of an attention call on a caller's arrays (longspan/attention.h), beyond the work itself. One JSON
 * object per line.
 *
 *   build/bench/attention_calls [SEQ [RANKS [CALLS]]]          default: 64 1 2000
 *
 * call: a forward, then a backward call, from beginning to end, in microseconds; the first decile. work: the same
 * programs, called by ranks that run a function of the user (ls_shared_attention_run). beyond: by how much a call takes
 * longer than the work. idle: the caller, or each rank of the work, sleeps for 1 ms before each call. Then caches are
 * cold and clock rates low for both, and in a call the threads of the other ranks are asleep.
 */
#include "base/base.h"
#include "longspan/attention.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HEADS = 4, D = 64, MOST_CALLS = 100000 };

typedef struct samples {
    int n;
    double forward[MOST_CALLS], backward[MOST_CALLS];
} samples;

static samples work_samples[2], call_samples; /* the ranks are threads; [idle] */

static void must(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

static void rest(bool idle) {
    if (idle) usleep(1000);
}

static ls_status work_for(ls_attention_rank *r, int n, bool idle) {
    samples *s = &work_samples[idle];
    for (int i = 0; i < n; i++) {
        rest(idle);
        const double began = ls_seconds();
        LS_TRY(ls_attention_forward(r));
        const double forward = ls_seconds() - began;
        rest(idle);
        const double middle = ls_seconds();
        LS_TRY(ls_attention_backward(r));
        if (r->rank > 0) continue;
        s->forward[i] = forward;
        s->backward[i] = ls_seconds() - middle;
    }
    return ls_ok();
}

static ls_status work(ls_attention_rank *r, const void *input, void *result) {
    const int n = *(const int *)input;
    (void)result;
    LS_TRY(work_for(r, n, false));
    return work_for(r, n, true);
}

static void call(ls_shared_attention *a, const ls_attention_arrays *c, int n, bool idle) {
    for (int i = 0; i < n; i++) {
        rest(idle);
        const double began = ls_seconds();
        must(ls_shared_attention_forward(a, c));
        call_samples.forward[i] = ls_seconds() - began;
        rest(idle);
        const double middle = ls_seconds();
        must(ls_shared_attention_backward(a, c));
        call_samples.backward[i] = ls_seconds() - middle;
    }
}

/* The first decile of the samples: the cost when nothing else uses the cores. */
static double tenth_us(double *x, int n) {
    (void)ls_median(x, n); /* sorts */
    return x[n / 10] * 1e6;
}

static void *zeros(size_t bytes) {
    void *p = calloc(1, bytes);
    if (p == NULL) abort();
    return p;
}

int main(int argc, char **argv) {
    const int64_t seq = argc > 1 ? atoi(argv[1]) : 64, ranks = argc > 2 ? atoi(argv[2]) : 1;
    const int n = (int)ls_min(MOST_CALLS, ls_max(1, argc > 3 ? atoi(argv[3]) : 2000));
    const ls_mask causal = ls_mask_causal();
    const ls_attention_options options = {.batch = 1,
                                          .seq = seq,
                                          .heads = HEADS,
                                          .kv_heads = HEADS,
                                          .head_size = D,
                                          .mask = &causal,
                                          .gradients = true,
                                          .spread = {.ranks = ranks, .as_threads = true}};
    ls_shared_attention *run, *called;
    must(ls_shared_attention_open(&options, &run));
    must(ls_shared_attention_run(run, work, &n, NULL, 0));
    ls_shared_attention_close(run);
    must(ls_shared_attention_open(&options, &called));
    ls_attention_strided x[8]; /* [heads, seq, head size], as PyTorch has them */
    for (int i = 0; i < 8; i++)
        x[i] = (ls_attention_strided){zeros(sizeof(float) * (size_t)(seq * HEADS * D)), HEADS * seq * D, D, seq * D};
    const ls_attention_arrays c = {.q = x[0],
                                   .k = x[1],
                                   .v = x[2],
                                   .o = x[3],
                                   .lse = zeros(sizeof(float) * HEADS * (size_t)seq),
                                   .grad_o = x[4],
                                   .dq = x[5],
                                   .dk = x[6],
                                   .dv = x[7]};
    for (int idle = 0; idle < 2; idle++) {
        call(called, &c, n, idle);
        const double work_forward = tenth_us(work_samples[idle].forward, n),
                     work_backward = tenth_us(work_samples[idle].backward, n);
        const double forward = tenth_us(call_samples.forward, n), backward = tenth_us(call_samples.backward, n);
        printf("{\"seq\": %d, \"ranks\": %d, \"idle\": %s, \"forward_us\": %.1f, \"forward_beyond_us\": %.1f, "
               "\"backward_us\": %.1f, \"backward_beyond_us\": %.1f}\n",
               (int)seq, (int)ranks, idle ? "true" : "false", forward, forward - work_forward, backward,
               backward - work_backward);
    }
    ls_shared_attention_close(called);
    return 0;
}
