/*
 * Attention over launched ranks: forward and backward by one strategy, as bench/attention_hosts.sh starts it on two
 * hosts.
 *
 *     attention_hosts STRATEGY MESH LAYOUT MASK S HQ HKV D PASSES
 *
 * bf16, one thread a rank. Rank 0 prints "said FORWARD BOTH SENT_FORWARD SENT_BACKWARD": the slowest rank's seconds, as
 * medians over the passes after a first one that is not counted, and the bytes of the busiest rank.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/pass.h"
#include "tensor/tensor.h"

enum { MOST_PASSES = 64 };

static ls_status work(ls_attention_rank *r, const void *input, void *result) {
    const int passes = *(const int *)input;
    double forward[MOST_PASSES], both[MOST_PASSES];
    ls_pass_fill(r);
    for (int p = -1; p < passes; p++) {
        ls_pass_times t;
        LS_TRY(ls_pass_time(r, &t));
        LS_TRY(ls_pass_slowest(r, &t, &t));
        if (p < 0) continue;
        forward[p] = t.forward;
        both[p] = t.both;
    }
    *(ls_pass_times *)result = (ls_pass_times){ls_median(forward, passes), ls_median(both, passes)};
    return ls_ok();
}

static ls_status measure(char **argv) {
    ls_mask mask = {0};
    const int passes = (int)ls_min(atoi(argv[9]), MOST_PASSES);
    LS_TRY(ls_mask_add_term(&mask, argv[4]));
    const ls_attention_options options = {
        .batch = 1,
        .seq = atoll(argv[5]),
        .heads = atoll(argv[6]),
        .kv_heads = atoll(argv[7]),
        .head_size = atoll(argv[8]),
        .dtype = LS_BF16,
        .mask = &mask,
        .gradients = true,
        .spread = {.strategy = argv[1], .mesh = argv[2], .layout = argv[3], .threads = 1, .wait_timeout = 60}};
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(&options, &attention));
    const ls_spread_result chosen = ls_shared_attention_describe(attention);
    ls_pass_times t = {0, 0};
    const ls_status status = ls_shared_attention_run(attention, work, &passes, &t, sizeof t);
    ls_shared_attention_close(attention);
    if (status.code == LS_OK && t.both > 0)
        printf("said %.6f %.6f %lld %lld\n", t.forward, t.both, (long long)chosen.bytes_sent_forward,
               (long long)chosen.bytes_sent_backward);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "attention_hosts STRATEGY MESH LAYOUT MASK S HQ HKV D PASSES\n");
        return 2;
    }
    const ls_status status = measure(argv);
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    return status.code != LS_OK;
}
