/*
 * A put with a signal between two ranks of a device that has messages: on one GPU, and on two if there are two. The
 * floor of the latency is a word set there and back, without a copy. The floor of the bandwidth is a copy of as many
 * bytes within one rank's memory by the same copy engine, for which no rank waits. In each round the floor is measured
 * right before the put; the ratio is the median of the rounds' ratios.
 */
#include "base/base.h"
#include "cli/bench/bench_impl.h"

/* The measured sizes in bytes; those of more than LARGEST times the device's cache are left out. */
static const size_t sizes[] = {8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20};
enum { LARGEST = 16, UNITS = 2 };

typedef struct row {
    bool latency;
    size_t bytes;
    double floor[LS_BENCH_MOST_ROUNDS], put[LS_BENCH_MOST_ROUNDS]; /* seconds */
} row;

/* Two ranks, on one GPU or on two. */
typedef struct pair {
    const char *name;
    int units[UNITS];
    int n;
    row rows[LS_COUNT(sizes)];
} pair;

typedef struct bench {
    ls_host_of of;
    int rounds, n;
    pair pairs[UNITS];
} bench;

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static void list_rows(const bench *b, pair *p) {
    const double cache = b->of.device == LS_DEVICE_CPU ? 0x1p20 : (double)b->of.facts.cache;
    for (size_t i = 0; i < LS_COUNT(sizes); i++)
        if ((double)sizes[i] <= LARGEST * cache) p->rows[p->n++] = (row){.latency = i == 0, .bytes = sizes[i]};
}

static ls_status run_rounds(const bench *b, pair *p, ls_device_pair *ranks) {
    for (int i = 0; i < p->n; i++) {
        row *r = &p->rows[i];
        const ls_pair_trip trip = r->latency ? LS_TRIP_ANSWERED : LS_TRIP_PUT,
                           bare = r->latency ? LS_TRIP_ANSWERED : LS_TRIP_COPY;
        for (int k = 0; k < b->rounds; k++) {
            LS_TRY(ls_device_pair_time(ranks, bare, r->latency ? 0 : r->bytes, &r->floor[k]));
            LS_TRY(ls_device_pair_time(ranks, trip, r->bytes, &r->put[k]));
        }
    }
    return ls_ok();
}

static ls_status measure(const bench *b, pair *p) {
    ls_device_pair *ranks;
    list_rows(b, p);
    LS_TRY(ls_device_pair_open(&b->of, p->units, p->rows[p->n - 1].bytes, &ranks));
    const ls_status status = run_rounds(b, p, ranks);
    ls_device_pair_close(ranks);
    return status;
}

/* --- the figures -------------------------------------------------------------------------------------------------- */

static void print_page(const bench *b, FILE *out) {
    fprintf(out, "put + signal between two ranks by messages of %s · %s · medians of %d rounds\n\n", b->of.name,
            ls_bench_machine_name(&b->of), b->rounds);
    fprintf(out, "%-12s %-8s %10s", "ranks on", "what", "bytes");
    ls_bench_print_titles("put+signal", out);
    for (int p = 0; p < b->n; p++) {
        for (int i = 0; i < b->pairs[p].n; i++) {
            const row *r = &b->pairs[p].rows[i];
            char bytes[LS_BYTES_TEXT];
            const ls_bench_figure figure = ls_bench_trip_figure(r->latency, r->bytes, r->floor, r->put, b->rounds);
            fprintf(out, "%-12s %-8s %10s", b->pairs[p].name, r->latency ? "latency" : "put",
                    ls_bytes_text((double)r->bytes, bytes));
            ls_bench_print_figure(&figure, out);
        }
    }
    fprintf(out, "\nfloor: a word of the peer, one way, without a copy; a copy within a rank's own memory\n");
}

static void print_json(const bench *b, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "rounds", b->rounds);
    ls_json_put_text(w, "device", b->of.name);
    ls_json_open_array(w, "rows");
    for (int p = 0; p < b->n; p++) {
        for (int i = 0; i < b->pairs[p].n; i++) {
            const row *r = &b->pairs[p].rows[i];
            const ls_bench_figure figure = ls_bench_trip_figure(r->latency, r->bytes, r->floor, r->put, b->rounds);
            ls_json_open_object(w, NULL);
            ls_json_put_text(w, "ranks_on", b->pairs[p].name);
            ls_json_put_text(w, "what", r->latency ? "latency" : "put");
            ls_json_put_int(w, "bytes", (int64_t)r->bytes);
            ls_bench_put_figure(&figure, w);
            ls_json_close(w);
        }
    }
    ls_json_close(w);
    ls_json_end(w, out);
}

ls_status ls_run_bench_comm_device(const ls_bench_job *job, const ls_host_of *of, FILE *out) {
    bench b = {.of = *of,
               .n = of->facts.units > 1 ? 2 : 1,
               .pairs = {{.name = "one device"}, {.name = "two devices", .units = {0, 1}}}};
    LS_TRY(ls_bench_rounds(&job->options, 15, &b.rounds));
    for (int p = 0; p < b.n; p++) LS_TRY(measure(&b, &b.pairs[p]));
    if (job->json)
        print_json(&b, out);
    else
        print_page(&b, out);
    return ls_ok();
}
