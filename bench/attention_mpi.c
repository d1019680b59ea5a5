/*
 * One-sided puts against two-sided messages: the same ring attention, forward and backward, with the same kernels on
 * the same blocks, 2 ranks of 1 thread. Longspan carries K/V and dK/dV by put and signal; the ring below carries them
 * by MPI, with MPI_Isend and MPI_Irecv around the kernels, and with MPI_Sendrecv before them. Built where CMake finds
 * an MPI compiler.
 *
 *   attention_mpi [S...]          default: 4096 16384 65536; one JSON object per S. LS_ROUNDS=N overrides the number of
 *                                 rounds
 *
 * In each round all three run once, one after the other; the figures are medians over the rounds. ratio: puts over the
 * faster of the two MPI rings, in each round. The MPI ranks are started by mpiexec, which runs this program again. Both
 * sides print a checksum of all results, and the checksums must agree.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"
#include "kernel/kernel.h"
#include "longspan/attention.h"
#include "tensor/tensor.h"

enum { RANKS = 2, HQ = 8, HKV = 2, D = 128, MOST_ROUNDS = 32 };
enum { Q, K, V, GRAD_O, INPUTS };

/* The output of one run of one side. */
typedef struct said {
    double forward, seconds; /* until the last rank is done */
    double checksum;         /* of the absolute values of o, dq, dk and dv */
} said;

/* --- both sides --------------------------------------------------------------------------------------------------- */

static void *must(void *p) {
    if (p == NULL) abort();
    return p;
}

/* Element i of a row of the input, by the token's position in the sequence: the same on any rank. */
static void fill_rows(ls_bf16 *x, const int32_t *positions, int64_t n, int64_t width, int input) {
    for (int64_t row = 0; row < n; row++) {
        uint32_t state = (uint32_t)positions[row] * 2654435761u + (uint32_t)input * 97u;
        for (int64_t i = 0; i < width; i++) {
            state = state * 1664525u + 1013904223u;
            x[row * width + i] = ls_bf16_from_f32((float)(int32_t)state * 0x1p-31f);
        }
    }
}

static double sum_of(const ls_bf16 *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)ls_bf16_to_f32(x[i]));
    return sum;
}

/* Short problems run once before they are timed, because page faults and cold code would distort the time. */
static bool is_short(int64_t S) { return S <= 16384; }

/* --- the ring by MPI ---------------------------------------------------------------------------------------------- */

/* A kernel call, prepared once. */
typedef struct step {
    const ls_kernel *kernel;
    ls_kernel_call call;
    void *state;
} step;

/* One message in each direction that is under way. */
typedef struct lane {
    int tag;
    MPI_Request requests[2];
} lane;

/*
 * A rank and its peer. Of a block, only the tokens that the other rank's queries see are sent: under a causal mask, the
 * first ones.
 */
typedef struct ring {
    int rank;
    bool overlap; /* MPI_Isend and MPI_Irecv around the kernels, else MPI_Sendrecv before them */
    ls_isa isa;
    int64_t S, n;        /* tokens in all; of a rank */
    int64_t shown, seen; /* tokens of this rank's block that the peer sees; of the peer's block that this rank sees */
    int32_t *positions[RANKS];
    ls_attention_params params[2], grad_params[2]; /* for this rank's own block; for the peer's */
    ls_view in[INPUTS], spans;
    ls_view o, lse, delta, dq;
    ls_bf16 *slot[2];                  /* for the peer's keys and values */
    float *sum[2], *part[2], *came[2]; /* dk, dv: of its block; its part for the peer's; the peer's part for its own */
    ls_bf16 *o_narrow, *dq_narrow, *dkv_narrow[2];
    lane lanes[2];
} ring;

static ls_view view4(void *data, ls_dtype dtype, int64_t n, int64_t H) {
    return ls_view_dense(data, dtype, 4, (int64_t[]){1, n, H, D});
}

/* Zeroed memory, in huge pages if the system gives them, as with Longspan's arenas. */
static void *room(size_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    const size_t whole = ls_round_up(bytes + 64, bytes >= HUGE_PAGE ? HUGE_PAGE : 64);
    void *memory = must(aligned_alloc(bytes >= HUGE_PAGE ? HUGE_PAGE : 64, whole));
    if (bytes >= HUGE_PAGE) (void)madvise(memory, whole, MADV_HUGEPAGE); /* a request only */
    return memset(memory, 0, whole);
}

static void make_tables(ring *r) {
    ls_arena *arena = ls_arena_create();
    const ls_layout layout = ls_layout_make(&(ls_layout_need){.kind = LS_LAYOUT_ZIGZAG, .S = r->S, .P = RANKS}, arena);
    r->n = r->S / RANKS;
    for (int p = 0; p < RANKS; p++) {
        r->positions[p] = room(sizeof(int32_t) * (size_t)r->n);
        ls_layout_positions(&layout, p, r->positions[p]);
    }
    ls_arena_destroy(arena);
    const int32_t *mine = r->positions[r->rank], *other = r->positions[1 - r->rank];
    while (r->seen < r->n && other[r->seen] <= mine[r->n - 1]) r->seen++;
    while (r->shown < r->n && mine[r->shown] <= other[r->n - 1]) r->shown++;
    const ls_mask causal = ls_mask_causal();
    ls_span *spans = room(sizeof *spans * (size_t)r->n);
    ls_mask_table(&causal, r->S, mine, r->n, spans);
    r->spans = ls_view_dense(spans, LS_I32, 3, (int64_t[]){1, r->n, 2});
}

static void make_ring(ring *r) {
    make_tables(r);
    const size_t wide = sizeof(float) * (size_t)(r->n * HQ * D), narrow = sizeof(float) * (size_t)(r->n * HKV * D);
    for (int i = 0; i < INPUTS; i++) {
        const int64_t heads = i == K || i == V ? HKV : HQ;
        r->in[i] = view4(room(wide), LS_BF16, r->n, heads);
        fill_rows(r->in[i].data, r->positions[r->rank], r->n, heads * D, i);
    }
    for (int w = 0; w < 2; w++) {
        r->slot[w] = room(narrow);
        r->sum[w] = room(narrow);
        r->part[w] = room(narrow);
        r->came[w] = room(narrow);
        r->dkv_narrow[w] = room(narrow);
        r->lanes[w].tag = w;
    }
    r->o = view4(room(wide), LS_F32, r->n, HQ);
    r->dq = view4(room(wide), LS_F32, r->n, HQ);
    r->lse = ls_view_dense(room(wide / D), LS_F32, 3, (int64_t[]){1, HQ, r->n});
    r->delta = ls_view_dense(room(wide / D), LS_F32, 3, (int64_t[]){1, HQ, r->n});
    r->o_narrow = room(wide);
    r->dq_narrow = room(wide);
    for (int later = 0; later < 2; later++) {
        const ls_attention_params params = {.scale = 1 / sqrt(D), .group = HQ / HKV};
        r->params[later] = r->grad_params[later] = params;
        r->params[later].merge = later;
        r->grad_params[later].accumulate_dq = later;
    }
}

/* Prepares a kernel once and keeps its workspace, as the executor does. */
static void run_step(const ring *r, step *s, const char *name, ls_dtype dtype, const ls_kernel_call *call) {
    if (s->kernel == NULL) {
        ls_status status = ls_kernel_find(
            &(ls_kernel_request){.id = ls_kernel_named(name), .dtype = dtype, .isa = r->isa}, &s->kernel);
        s->call = *call;
        s->call.threads = 1;
        if (status.code == LS_OK && s->kernel->workspace != NULL)
            s->call.workspace = room(s->kernel->workspace(&s->call));
        if (status.code == LS_OK && s->kernel->prepare != NULL) status = s->kernel->prepare(&s->call, &s->state);
        if (status.code != LS_OK) {
            fprintf(stderr, "%s\n", status.text);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    s->kernel->run(&s->call, s->state, NULL);
}

typedef struct steps {
    step attend[2], back[2], delta, narrow_o, narrow_dq, narrow_dkv[2], add[2];
} steps;

/* Sends keys, then values (or their gradients); with overlap they are under way until `finish`. */
static void start(ring *r, void *const from[2], int64_t sent, void *const to[2], int64_t received, MPI_Datatype type) {
    const int peer = 1 - r->rank, out = (int)(sent * HKV * D), in = (int)(received * HKV * D);
    for (int w = 0; w < 2; w++) {
        lane *l = &r->lanes[w];
        if (r->overlap) {
            MPI_Irecv(to[w], in, type, peer, l->tag, MPI_COMM_WORLD, &l->requests[0]);
            MPI_Isend(from[w], out, type, peer, l->tag, MPI_COMM_WORLD, &l->requests[1]);
        } else {
            MPI_Sendrecv(from[w], out, type, peer, l->tag, to[w], in, type, peer, l->tag, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        }
    }
}

static void finish(ring *r) {
    for (int w = 0; w < 2 && r->overlap; w++) MPI_Waitall(2, r->lanes[w].requests, MPI_STATUSES_IGNORE);
}

static void start_blocks(ring *r) {
    start(r, (void *[]){r->in[K].data, r->in[V].data}, r->shown, (void *[]){r->slot[0], r->slot[1]}, r->seen,
          MPI_UINT16_T);
}

/* Hop 0 is this rank's own block, hop 1 the part of the peer's block that it sees. */
static ls_view keys_at(const ring *r, int hop, int value) {
    return hop == 0 ? r->in[K + value] : view4(r->slot[value], LS_BF16, r->seen, HKV);
}

static ls_view positions_at(const ring *r, int hop) {
    return hop == 0 ? ls_view_dense(r->positions[r->rank], LS_I32, 1, &r->n)
                    : ls_view_dense(r->positions[1 - r->rank], LS_I32, 1, &r->seen);
}

static void narrow(const ring *r, step *s, ls_view from, ls_bf16 *to) {
    ls_view out = from;
    out.dtype = LS_BF16;
    out.data = to;
    run_step(r, s, "cast", LS_F32, &(ls_kernel_call){.n_in = 1, .n_out = 1, .in = {from}, .out = {out}});
}

static void forward(ring *r, steps *all) {
    start_blocks(r);
    for (int hop = 0; hop < 2; hop++) {
        if (hop == 1) finish(r);
        const ls_kernel_call call = {
            .n_in = 5,
            .n_out = 2,
            .in = {r->in[Q], keys_at(r, hop, 0), keys_at(r, hop, 1), r->spans, positions_at(r, hop)},
            .out = {r->o, r->lse},
            .params = &r->params[hop]};
        run_step(r, &all->attend[hop], "attention", LS_BF16, &call);
    }
    narrow(r, &all->narrow_o, r->o, r->o_narrow);
}

static void add_parts(ring *r, steps *all) {
    start(r, (void *[]){r->part[0], r->part[1]}, r->seen, (void *[]){r->came[0], r->came[1]}, r->shown, MPI_FLOAT);
    finish(r);
    for (int w = 0; w < 2; w++) {
        const ls_view from = view4(r->came[w], LS_F32, r->shown, HKV), to = view4(r->sum[w], LS_F32, r->shown, HKV);
        run_step(r, &all->add[w], "accumulate", LS_F32,
                 &(ls_kernel_call){.n_in = 1, .n_out = 1, .in = {from}, .out = {to}});
    }
}

static void backward(ring *r, steps *all) {
    const ls_view o = view4(r->o_narrow, LS_BF16, r->n, HQ);
    start_blocks(r);
    run_step(r, &all->delta, "attention_delta", LS_BF16,
             &(ls_kernel_call){.n_in = 2, .n_out = 1, .in = {o, r->in[GRAD_O]}, .out = {r->delta}});
    for (int hop = 0; hop < 2; hop++) {
        if (hop == 1) finish(r);
        float *const *made = hop == 0 ? r->sum : r->part;
        const int64_t tokens = hop == 0 ? r->n : r->seen;
        const ls_kernel_call call = {
            .n_in = 8,
            .n_out = 3,
            .in = {r->in[Q], keys_at(r, hop, 0), keys_at(r, hop, 1), r->spans, positions_at(r, hop), r->in[GRAD_O],
                   r->lse, r->delta},
            .out = {r->dq, view4(made[0], LS_F32, tokens, HKV), view4(made[1], LS_F32, tokens, HKV)},
            .params = &r->grad_params[hop]};
        run_step(r, &all->back[hop], "attention_grad", LS_BF16, &call);
    }
    add_parts(r, all);
    narrow(r, &all->narrow_dq, r->dq, r->dq_narrow);
    for (int w = 0; w < 2; w++) narrow(r, &all->narrow_dkv[w], view4(r->sum[w], LS_F32, r->n, HKV), r->dkv_narrow[w]);
}

/* One run of a rank under mpiexec; rank 0 prints the result of all ranks. */
static int mpi_rank(int64_t S, bool overlap) {
    ring r = {.S = S, .overlap = overlap};
    int ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != RANKS || S % (2 * RANKS) != 0) return 2;
    ls_machine machine;
    ls_machine_detect(&machine);
    r.isa = machine.isa;
    make_ring(&r);
    static steps all;
    said mine = {0, 0, 0}, worst;
    for (int i = is_short(S) ? 0 : 1; i < 2; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double before = ls_seconds();
        forward(&r, &all);
        mine.forward = ls_seconds() - before;
        backward(&r, &all);
        mine.seconds = ls_seconds() - before;
    }
    MPI_Reduce(&mine, &worst, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    mine.checksum = sum_of(r.o_narrow, r.n * HQ * D) + sum_of(r.dq_narrow, r.n * HQ * D) +
                    sum_of(r.dkv_narrow[0], r.n * HKV * D) + sum_of(r.dkv_narrow[1], r.n * HKV * D);
    MPI_Reduce(&mine.checksum, &worst.checksum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (r.rank == 0) printf("said %.9f %.9f %.17g\n", worst.forward, worst.seconds, worst.checksum);
    return 0;
}

/* Starts the ranks and reads their result. */
static ls_status run_mpi(const char *self, int64_t S, bool overlap, said *out) {
    char command[4096], line[256];
    snprintf(command, sizeof command, "'%s' %s %d '%s' --rank %lld %d", LS_MPIEXEC, LS_MPIEXEC_NUMPROC, RANKS, self,
             (long long)S, overlap);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return ls_error(LS_IO, "cannot start %s", command);
    bool found = false;
    while (fgets(line, sizeof line, pipe) != NULL)
        found |= sscanf(line, "said %lf %lf %lf", &out->forward, &out->seconds, &out->checksum) == 3;
    const int code = pclose(pipe);
    if (code != 0 || !found) return ls_error(LS_IO, "%s ended with %d", command, code);
    return ls_ok();
}

/* --- the ring by puts --------------------------------------------------------------------------------------------- */

static ls_status put_rank(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    said mine = {0, 0, 0}, all[RANKS], *out = result;
    const ls_attention_array *const in[INPUTS] = {&r->q, &r->k, &r->v, &r->grad_o};
    for (int i = 0; i < INPUTS; i++) fill_rows(in[i]->data, r->positions, r->n, in[i]->size[2] * D, i);
    for (int i = is_short(r->n * r->ranks) ? 0 : 1; i < 2; i++) {
        LS_TRY(ls_attention_barrier(r, NULL));
        const double before = ls_seconds();
        LS_TRY(ls_attention_forward(r));
        mine.forward = ls_seconds() - before;
        LS_TRY(ls_attention_backward(r));
        mine.seconds = ls_seconds() - before;
    }
    mine.checksum = sum_of(r->o.data, r->n * HQ * D) + sum_of(r->dq.data, r->n * HQ * D) +
                    sum_of(r->dk.data, r->n * HKV * D) + sum_of(r->dv.data, r->n * HKV * D);
    LS_TRY(ls_attention_gather(r, &mine, sizeof mine, all));
    for (int i = 0; i < RANKS; i++) {
        out->forward = fmax(out->forward, all[i].forward);
        out->seconds = fmax(out->seconds, all[i].seconds);
        out->checksum += all[i].checksum;
    }
    return ls_ok();
}

static ls_status run_puts(int64_t S, said *out) {
    const ls_mask causal = ls_mask_causal();
    const ls_attention_options options = {
        .batch = 1,
        .seq = S,
        .heads = HQ,
        .kv_heads = HKV,
        .head_size = D,
        .dtype = LS_BF16,
        .mask = &causal,
        .gradients = true,
        .spread = {.ranks = RANKS, .threads = 1, .strategy = "ring", .layout = "zigzag", .transfers = "put"}};
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(&options, &attention));
    const ls_status status = ls_shared_attention_run(attention, put_rank, NULL, out, sizeof *out);
    ls_shared_attention_close(attention);
    return status;
}

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static ls_status check(int64_t S, const said *mpi, const said *puts) {
    if (fabs(mpi->checksum - puts->checksum) <= 1e-12 * puts->checksum) return ls_ok();
    return ls_error(LS_INVALID, "S %lld: MPI computes %.9g, Longspan %.9g: not the same work", (long long)S,
                    mpi->checksum, puts->checksum);
}

static int rounds_for(int64_t S) {
    const char *wanted = getenv("LS_ROUNDS");
    const int rounds = wanted != NULL ? atoi(wanted) : S <= 4096 ? 11 : S <= 16384 ? 5 : 3;
    return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
}

static ls_status bench(const char *self, int64_t S) {
    enum { ISEND, SENDRECV, PUT, WAYS };
    double seconds[WAYS][MOST_ROUNDS], forward_seconds[WAYS][MOST_ROUNDS], ratio[2][MOST_ROUNDS];
    const int rounds = rounds_for(S);
    for (int i = 0; i < rounds; i++) {
        said way[WAYS];
        LS_TRY(run_mpi(self, S, true, &way[ISEND]));
        LS_TRY(run_puts(S, &way[PUT]));
        LS_TRY(run_mpi(self, S, false, &way[SENDRECV]));
        for (int w = 0; w < WAYS; w++) {
            LS_TRY(check(S, &way[w], &way[PUT]));
            seconds[w][i] = way[w].seconds;
            forward_seconds[w][i] = way[w].forward;
        }
        for (int w = 0; w < PUT; w++) ratio[w][i] = way[PUT].seconds / way[w].seconds;
    }
    const double of_isend = ls_median(ratio[ISEND], rounds), of_sendrecv = ls_median(ratio[SENDRECV], rounds);
    printf("{\"bench\": \"attention_mpi\", \"S\": %lld, \"ranks\": %d, \"rounds\": %d, \"put_seconds\": %.4f, "
           "\"isend_seconds\": %.4f, \"sendrecv_seconds\": %.4f, \"put_forward\": %.4f, \"isend_forward\": %.4f, "
           "\"ratio\": %.4f}\n",
           (long long)S, RANKS, rounds, ls_median(seconds[PUT], rounds), ls_median(seconds[ISEND], rounds),
           ls_median(seconds[SENDRECV], rounds), ls_median(forward_seconds[PUT], rounds),
           ls_median(forward_seconds[ISEND], rounds), fmax(of_isend, of_sendrecv));
    fflush(stdout);
    return ls_ok();
}

int main(int argc, char **argv) {
    static const char *const defaults[] = {"4096", "16384", "65536"};
    if (argc == 4 && strcmp(argv[1], "--rank") == 0) {
        MPI_Init(&argc, &argv);
        const int code = mpi_rank(atoll(argv[2]), atoi(argv[3]) != 0);
        MPI_Finalize();
        return code;
    }
    /* By default Open MPI refuses to run as root, and to run more ranks than cores. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    const char *const *list = argc > 1 ? (const char *const *)argv + 1 : defaults;
    const int n = argc > 1 ? argc - 1 : (int)LS_COUNT(defaults);
    for (int i = 0; i < n; i++) {
        const int64_t S = atoll(list[i]);
        ls_status status = ls_error(LS_USAGE, "S is %s; expected a multiple of %d", list[i], 2 * RANKS);
        if (S > 0 && S % (2 * RANKS) == 0) status = bench(argv[0], S);
        if (status.code == LS_OK) continue;
        fprintf(stderr, "%s\n", status.text);
        return 1;
    }
    return 0;
}
