/*
 * Attention over ranks against one rank with as many threads: every strategy of the table on every mesh, with blocks
 * put and read in place. Each measurement is paired with one of the single rank, right after it in one round and right
 * before it in the next, so that a machine that becomes slower or faster affects both alike.
 */
#include "longspan/attention.h"
#include "base/base.h"
#include "cli/bench/bench_impl.h"
#include "cli/bench/pass.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64 };

/*
 * Work of fewer operations on a rank is done once before it is timed, because page faults and cold code would distort
 * its time.
 */
static const double short_work = 2e11;

typedef struct row {
    const char *strategy, *transfers;
    char mesh[64]; /* requested; empty: free */
    char refused[256];
    ls_spread_result chosen;
    double forward[LS_BENCH_MOST_ROUNDS], seconds[LS_BENCH_MOST_ROUNDS], one[LS_BENCH_MOST_ROUNDS],
        ratio[LS_BENCH_MOST_ROUNDS];
} row;

typedef struct bench {
    ls_bench_options job; /* defaults filled in */
    ls_attention_options options;
    ls_mask_text mask;
    int rounds, n_rows;
    row rows[MOST_ROWS];
} bench;

/* --- one measurement ---------------------------------------------------------------------------------------------- */

/* Whether the work is short, by the operations of a rank without a mask. */
static bool is_short(const ls_attention_rank *r) {
    const int64_t *q = r->q.size;
    return 14.0 * (double)(q[0] * q[1] * q[2] * q[3]) * (double)(q[1] * r->ranks) < short_work;
}

static ls_status on_rank(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    ls_pass_times mine;
    ls_pass_fill(r);
    if (is_short(r)) LS_TRY(ls_pass_time(r, &mine));
    LS_TRY(ls_pass_time(r, &mine));
    return ls_pass_slowest(r, &mine, result);
}

/* Measures until the last rank is done. */
static ls_status measure(const ls_attention_options *options, ls_spread_result *chosen, ls_pass_times *out) {
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(options, &attention));
    if (chosen != NULL) *chosen = ls_shared_attention_describe(attention);
    const ls_status status = ls_shared_attention_run(attention, on_rank, NULL, out, sizeof *out);
    ls_shared_attention_close(attention);
    return status;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const char *const ways[] = {"put", "in-place"};

/* Adds a strategy on a mesh, once for each kind of transfers that it supports. */
static ls_status add_rows(bench *b, const char *strategy, const char *mesh) {
    bool in_place;
    LS_TRY(ls_strategy_reads_in_place(strategy, &in_place));
    ls_hosts hosts;
    LS_TRY(ls_hosts_find((int)b->job.ranks, &hosts));
    in_place &= hosts.block > 1;
    for (int w = 0; w < (in_place ? 2 : 1) && b->n_rows < MOST_ROWS; w++) {
        row *added = &b->rows[b->n_rows++];
        *added = (row){.strategy = strategy, .transfers = ways[w]};
        snprintf(added->mesh, sizeof added->mesh, "%s", mesh);
    }
    return ls_ok();
}

/* The strategies for a mesh (ls_mesh_visit). */
static ls_status add_strategies(void *context, const ls_mesh *mesh) {
    const char *names[LS_STRATEGIES_MOST];
    char text[64];
    ls_mesh_text(mesh, LS_ALL_AXES, text, sizeof text);
    const int n = ls_strategies_for(mesh, names);
    for (int i = 0; i < n; i++) LS_TRY(add_rows(context, names[i], text));
    return ls_ok();
}

static ls_status list_rows(bench *b) {
    if (b->job.strategy != NULL) return add_rows(b, b->job.strategy, "");
    return ls_meshes_visit(&(ls_mesh){0}, false, (int)b->job.ranks, add_strategies, b);
}

/*
 * Runs a pair of measurements. A strategy that does not apply is refused in the first round, and its row has the
 * reason.
 */
static ls_status run_row(bench *b, row *r, int round) {
    if (r->refused[0] != 0) return ls_ok();
    ls_attention_options many = b->options, one = b->options;
    many.spread = (ls_spread){.ranks = b->job.ranks,
                              .threads = 1,
                              .strategy = r->strategy,
                              .mesh = r->mesh[0] != 0 ? r->mesh : NULL,
                              .transfers = r->transfers,
                              .device = b->job.device,
                              .kernels = b->job.kernels};
    one.spread = (ls_spread){.ranks = 1, .threads = b->job.ranks, .device = b->job.device, .kernels = b->job.kernels};
    ls_pass_times shared = {0, 0}, alone = {0, 0};
    if (round % 2 == 1) LS_TRY(measure(&one, NULL, &alone)); /* a row that is refused is known since round 0 */
    const ls_status status = measure(&many, &r->chosen, &shared);
    if (status.code == LS_USAGE || status.code == LS_UNSUPPORTED) {
        snprintf(r->refused, sizeof r->refused, "%s", status.text);
        return ls_ok();
    }
    LS_TRY(status);
    if (round % 2 == 0) LS_TRY(measure(&one, NULL, &alone));
    r->forward[round] = shared.forward;
    r->seconds[round] = shared.both;
    r->one[round] = alone.both;
    r->ratio[round] = shared.both / alone.both;
    ls_log("round %d of %d: %s, %s: %.3f s, one rank %.3f s", round + 1, b->rounds, r->strategy, r->transfers,
           shared.both, alone.both);
    return ls_ok();
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static void print_page(const bench *b, FILE *out) {
    const ls_bench_options *j = &b->job;
    fprintf(
        out,
        "forward and backward · %s · S %lld · Hq %lld · Hkv %lld · D %lld · values %lld · %s · %lld ranks of 1 thread, one rank of %lld "
        "threads · medians of %d rounds\n\n",
        j->mask, (long long)j->seq, (long long)j->heads, (long long)j->kv_heads, (long long)j->head_size,
        (long long)j->value_size, ls_dtype_name(b->options.dtype), (long long)j->ranks, (long long)j->ranks, b->rounds);
    fprintf(out, "%-11s %-24s %-11s %-9s %11s %11s %11s %7s %23s %23s\n", "strategy", "mesh", "layout", "transfers",
            "seconds", "forward", "one rank", "ratio", "sent fwd+bwd", "read fwd+bwd");
    for (int i = 0; i < b->n_rows; i++) {
        const row *r = &b->rows[i];
        const ls_spread_result *c = &r->chosen;
        char text[4][LS_BYTES_TEXT], sent[64], read[64];
        if (r->refused[0] != 0) {
            fprintf(out, "%-11s %-24s %-11s %-9s %s\n", r->strategy, r->mesh, "", r->transfers, r->refused);
            continue;
        }
        snprintf(sent, sizeof sent, "%s + %s", ls_bytes_text((double)c->bytes_sent_forward, text[0]),
                 ls_bytes_text((double)c->bytes_sent_backward, text[1]));
        snprintf(read, sizeof read, "%s + %s", ls_bytes_text((double)c->bytes_read_forward, text[2]),
                 ls_bytes_text((double)c->bytes_read_backward, text[3]));
        fprintf(out, "%-11s %-24s %-11s %-9s %11.4f %11.4f %11.4f %7.3f %23s %23s\n", r->strategy, c->mesh, c->layout,
                c->transfers, ls_bench_median(r->seconds, b->rounds), ls_bench_median(r->forward, b->rounds),
                ls_bench_median(r->one, b->rounds), ls_bench_median(r->ratio, b->rounds), sent, read);
    }
    fprintf(out, "\nbytes of the busiest rank · ratio: its time over one rank's of the same pair\n");
}

static void put_row(const bench *b, const row *r, ls_json_writer *w) {
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "strategy", r->strategy);
    ls_json_put_text(w, "transfers", r->transfers);
    if (r->refused[0] != 0) {
        ls_json_put_text(w, "refused", r->refused);
    } else {
        ls_json_put_text(w, "mesh", r->chosen.mesh);
        ls_json_put_text(w, "layout", r->chosen.layout);
        ls_json_put_double(w, "seconds", ls_bench_median(r->seconds, b->rounds));
        ls_json_put_double(w, "forward_seconds", ls_bench_median(r->forward, b->rounds));
        ls_json_put_double(w, "one_rank_seconds", ls_bench_median(r->one, b->rounds));
        ls_json_put_double(w, "ratio", ls_bench_median(r->ratio, b->rounds));
        ls_json_put_int(w, "bytes_sent_forward", r->chosen.bytes_sent_forward);
        ls_json_put_int(w, "bytes_sent_backward", r->chosen.bytes_sent_backward);
        ls_json_put_int(w, "bytes_read_forward", r->chosen.bytes_read_forward);
        ls_json_put_int(w, "bytes_read_backward", r->chosen.bytes_read_backward);
    }
    ls_json_close(w);
}

static void print_json(const bench *b, FILE *out) {
    const ls_bench_options *j = &b->job;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "mask", j->mask);
    ls_json_put_int(w, "seq", j->seq);
    ls_json_put_int(w, "heads", j->heads);
    ls_json_put_int(w, "kv_heads", j->kv_heads);
    ls_json_put_int(w, "head_size", j->head_size);
    ls_json_put_int(w, "value_size", j->value_size);
    ls_json_put_text(w, "dtype", ls_dtype_name(b->options.dtype));
    ls_json_put_int(w, "ranks", j->ranks);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_json_open_array(w, "strategies");
    for (int i = 0; i < b->n_rows; i++) put_row(b, &b->rows[i], w);
    ls_json_close(w);
    ls_json_end(w, out);
}

/* --- the bench ---------------------------------------------------------------------------------------------------- */

static ls_status fill_in(ls_bench_options *j) {
    ls_machine machine;
    const char *name;
    ls_device_traits device;
    LS_TRY(ls_device_choose(j->device, &name, &device));
    ls_machine_detect(&machine);
    ls_bench_fill_in(&j->seq, 32768);
    ls_bench_fill_in(&j->ranks, device.submits ? 1 : machine.cores);
    ls_bench_fill_in(&j->heads, 8);
    ls_bench_fill_in(&j->kv_heads, 2);
    ls_bench_fill_in(&j->head_size, 128);
    ls_bench_fill_in(&j->value_size, (int)j->head_size);
    if (j->mask == NULL) j->mask = "causal";
    if (device.submits && j->ranks > 1)
        return ls_error(LS_USAGE,
                        "--ranks %lld with --device %s; expected --ranks 1, the kernels alone: attention over "
                        "ranks by itself is the processor's",
                        (long long)j->ranks, name);
    return ls_ok();
}

static ls_status resolve(bench *b) {
    const ls_bench_options *j = &b->job;
    if (j->threads != 0)
        return ls_error(LS_USAGE, "--threads %lld with --ranks %lld; expected --ranks 1 with it", (long long)j->threads,
                        (long long)j->ranks);
    LS_TRY(ls_bench_rounds(j, 3, &b->rounds));
    LS_TRY(ls_job_dtype(j->dtype, LS_BF16, &b->options.dtype));
    LS_TRY(ls_mask_text_read(j->mask, j->seq, &b->mask));
    b->options.batch = 1;
    b->options.seq = j->seq;
    b->options.heads = j->heads;
    b->options.kv_heads = j->kv_heads;
    b->options.head_size = j->head_size;
    b->options.value_size = j->value_size;
    b->options.mask = &b->mask.mask;
    b->options.gradients = true;
    return list_rows(b);
}

static ls_status run(bench *b, bool json, FILE *out) {
    LS_TRY(resolve(b));
    for (int round = 0; round < b->rounds; round++) {
        for (int i = 0; i < b->n_rows; i++) {
            LS_TRY(run_row(b, &b->rows[i], round));
            if (b->job.strategy != NULL && b->rows[i].refused[0] != 0)
                return ls_error(LS_USAGE, "%s", b->rows[i].refused);
        }
    }
    if (json)
        print_json(b, out);
    else
        print_page(b, out);
    return ls_ok();
}

ls_status ls_run_bench_attention(const ls_bench_job *given, FILE *out) {
    ls_bench_job filled = *given;
    const ls_bench_job *job = &filled;
    LS_TRY(fill_in(&filled.options));
    if (filled.options.ranks == 1) return ls_run_bench_attention_kernels(job, out);
    bench *b = calloc(1, sizeof *b);
    if (b == NULL) return ls_error(LS_NO_MEMORY, "no memory for a bench");
    b->job = job->options;
    const ls_status status = run(b, job->json, out);
    ls_mask_text_free(&b->mask);
    free(b);
    return status;
}
