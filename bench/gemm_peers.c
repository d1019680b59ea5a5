/*
 * Which library should do the matrix products: oneDNN, OpenBLAS, BLIS and libxsmm on the products of a layer, called as
 * Longspan calls them: serially, by each thread on its own tile of C (split by rows).
 *
 *   gcc -std=gnu11 -O3 -march=native -Iinclude -Isrc bench/gemm_peers.c -o build/gemm_peers \
 *       -ldnnl -lxsmmnoblas -lxsmm -lxsmmnoblas -lgomp -lpthread -ldl -lm
 *   build/gemm_peers [seconds per case, 0.03]
 *
 * One line per case: GFLOP/s of each peer, in its best repetition. Each peer runs in its own process, because OpenBLAS
 * and BLIS export the same names and read their environment when they are loaded. Operands are in the caches. The time
 * to pack a weight into a library's own layout is counted in every call.
 */
#include <dlfcn.h>
#include <dnnl.h>
#include <immintrin.h>
#include <libxsmm.h>
#include <omp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct product {
    const char *name;
    int M, N, K;
    bool ta, tb, accumulate;
} product;

typedef struct types {
    const char *name;
    bool bf16_in, bf16_out;
} types;
static const types all_types[] = {{"f32", false, false}, {"bf16>f32", true, false}, {"bf16>bf16", true, true}};

/* One thread's tile: rows [0, M) of a C that it owns, with the leading dimensions of the whole. */
typedef struct tile {
    product p;
    types t;
    const char *a, *b;
    char *c;
    int lda, ldb, ldc;
    void *state;
} tile;

typedef struct peer {
    const char *name;
    const char *variable, *value; /* environment, before the library is loaded */
    bool (*make)(tile *t, const struct peer *peer);
    void (*run)(const tile *t);
    const char *library;
    bool packed;
} peer;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- BLAS ---- */
typedef void (*sgemm_function)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                               float *, int);

static bool blas_make(tile *t, const peer *p) {
    if (t->t.bf16_in) return false;
    void *library = dlopen(p->library, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s: %s\n", p->library, dlerror());
        return false;
    }
    void (*one)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (one) one(1);
    const char *(*core)(void) = (const char *(*)(void))dlsym(library, "openblas_get_corename");
    static bool told;
    if (core && !told) fprintf(stderr, "%s: core %s\n", p->name, core());
    told = true;
    t->state = dlsym(library, "cblas_sgemm");
    return t->state != NULL;
}

static void blas_run(const tile *t) {
    sgemm_function sgemm = (sgemm_function)t->state;
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    sgemm(ROW_MAJOR, t->p.ta ? TRANSPOSED : PLAIN, t->p.tb ? TRANSPOSED : PLAIN, t->p.M, t->p.N, t->p.K, 1.0f,
          (const float *)t->a, t->lda, (const float *)t->b, t->ldb, t->p.accumulate ? 1.0f : 0.0f, (float *)t->c,
          t->ldc);
}

/* ---- oneDNN ---- */
typedef struct onednn {
    dnnl_primitive_t product, reorder;
    dnnl_exec_arg_t args[4], reorder_args[2];
    dnnl_stream_t stream;
} onednn;

#define DNNL(call)                                                                   \
    do {                                                                             \
        const dnnl_status_t status_ = (call);                                        \
        if (status_ != dnnl_success) {                                               \
            fprintf(stderr, "onednn: line %d: status %d\n", __LINE__, (int)status_); \
            return false;                                                            \
        }                                                                            \
    } while (0)

static bool strided(dnnl_memory_desc_t *md, int rows, int columns, bool transposed, int ld, bool bf16) {
    const dnnl_dims_t size = {rows, columns}, stride = {transposed ? 1 : ld, transposed ? ld : 1};
    DNNL(dnnl_memory_desc_init_by_strides(md, 2, size, bf16 ? dnnl_bf16 : dnnl_f32, stride));
    return true;
}

static bool onednn_make(tile *t, const peer *p) {
    omp_set_num_threads(1);
    onednn *d = calloc(1, sizeof *d);
    dnnl_engine_t engine;
    DNNL(dnnl_engine_create(&engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&d->stream, engine, dnnl_stream_default_flags));
    dnnl_memory_desc_t a, b, b_any, c;
    if (!strided(&a, t->p.M, t->p.K, t->p.ta, t->lda, t->t.bf16_in)) return false;
    if (!strided(&b, t->p.K, t->p.N, t->p.tb, t->ldb, t->t.bf16_in)) return false;
    if (!strided(&c, t->p.M, t->p.N, false, t->ldc, t->t.bf16_out)) return false;
    b_any = b;
    if (p->packed) DNNL(dnnl_memory_desc_init_by_tag(&b_any, 2, b.dims, b.data_type, dnnl_format_tag_any));
    dnnl_matmul_desc_t desc;
    DNNL(dnnl_matmul_desc_init(&desc, &a, &b_any, NULL, &c));
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    DNNL(dnnl_primitive_attr_create(&attr));
    DNNL(dnnl_post_ops_create(&ops));
    if (t->p.accumulate) DNNL(dnnl_post_ops_append_sum(ops, 1.0f));
    DNNL(dnnl_primitive_attr_set_post_ops(attr, ops));
    dnnl_primitive_desc_t pd;
    DNNL(dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL));
    const char *implementation = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &implementation);
    static const void *told[3];
    const int kind = t->t.bf16_in + t->t.bf16_out;
    if (!told[kind]) fprintf(stderr, "%s %s: %s\n", p->name, t->t.name, implementation);
    told[kind] = t;
    DNNL(dnnl_primitive_create(&d->product, pd));
    dnnl_memory_t ma, mb, mc;
    DNNL(dnnl_memory_create(&ma, &a, engine, (void *)(uintptr_t)t->a));
    DNNL(dnnl_memory_create(&mb, &b, engine, (void *)(uintptr_t)t->b));
    DNNL(dnnl_memory_create(&mc, &c, engine, t->c));
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    if (p->packed && !dnnl_memory_desc_equal(wanted, &b)) {
        dnnl_memory_t packed;
        dnnl_primitive_desc_t reorder;
        DNNL(dnnl_memory_create(&packed, wanted, engine, DNNL_MEMORY_ALLOCATE));
        DNNL(dnnl_reorder_primitive_desc_create(&reorder, &b, engine, wanted, engine, NULL));
        DNNL(dnnl_primitive_create(&d->reorder, reorder));
        d->reorder_args[0] = (dnnl_exec_arg_t){DNNL_ARG_FROM, mb};
        d->reorder_args[1] = (dnnl_exec_arg_t){DNNL_ARG_TO, packed};
        mb = packed;
    }
    d->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, ma};
    d->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, mb};
    d->args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, mc};
    t->state = d;
    return true;
}

static void onednn_run(const tile *t) {
    const onednn *d = t->state;
    if (d->reorder) dnnl_primitive_execute(d->reorder, d->stream, 2, d->reorder_args);
    dnnl_primitive_execute(d->product, d->stream, 3, d->args);
}

/* ---- libxsmm: batch-reduce kernels of 64 x 64 over a packed B (and a packed A where it is transposed) ---- */
enum { BLOCK = 64 };
typedef struct xsmm {
    libxsmm_xmmfunction kernel;
    char *packed_b, *packed_a;
} xsmm;

static bool xsmm_make(tile *t, const peer *p) {
    (void)p;
    xsmm *x = calloc(1, sizeof *x);
    const size_t size = t->t.bf16_in ? 2 : 4;
    const libxsmm_blasint lda = BLOCK, ldb = t->p.ta ? t->p.K : t->lda, ldc = t->ldc;
    const float alpha = 1, beta = t->p.accumulate ? 1 : 0;
    const libxsmm_blasint stride_a = (libxsmm_blasint)(BLOCK * BLOCK * size),
                          stride_b = (libxsmm_blasint)(BLOCK * size);
    if (t->p.M % BLOCK || t->p.N % BLOCK || t->p.K % BLOCK) return false;
    if (!t->t.bf16_in)
        x->kernel.smrs = libxsmm_smmdispatch_reducebatch_strd(BLOCK, BLOCK, BLOCK, stride_a, stride_b, &lda, &ldb, &ldc,
                                                              &alpha, &beta, NULL, NULL);
    else if (t->t.bf16_out)
        x->kernel.bmrs = libxsmm_bmmdispatch_reducebatch_strd(BLOCK, BLOCK, BLOCK, stride_a, stride_b, &lda, &ldb, &ldc,
                                                              &alpha, &beta, NULL, NULL);
    else
        x->kernel.bsmrs = libxsmm_bsmmdispatch_reducebatch_strd(BLOCK, BLOCK, BLOCK, stride_a, stride_b, &lda, &ldb,
                                                                &ldc, &alpha, &beta, NULL, NULL);
    if (!x->kernel.smrs) return false;
    x->packed_b = aligned_alloc(64, (size_t)t->p.N * (size_t)t->p.K * size);
    if (t->p.ta) x->packed_a = aligned_alloc(64, (size_t)t->p.M * (size_t)t->p.K * size);
    t->state = x;
    return true;
}

/* Packs op(B)[K,N] as [N/64][K][64], or for bf16 as [N/64][K/2][64][2]. */
static void xsmm_pack_b(const tile *t, char *out) {
    const int K = t->p.K, step_k = t->p.tb ? 1 : t->ldb, step_n = t->p.tb ? t->ldb : 1;
    for (int n0 = 0; n0 < t->p.N; n0 += BLOCK) {
        if (t->t.bf16_in) {
            const uint16_t *b = (const uint16_t *)t->b + (size_t)n0 * (size_t)step_n;
            uint16_t *o = (uint16_t *)out + (size_t)n0 * (size_t)K;
            for (int k = 0; k < K; k++)
                for (int n = 0; n < BLOCK; n++)
                    o[(k / 2 * BLOCK + n) * 2 + k % 2] = b[(size_t)k * (size_t)step_k + (size_t)n * (size_t)step_n];
        } else {
            const float *b = (const float *)t->b + (size_t)n0 * (size_t)step_n;
            float *o = (float *)out + (size_t)n0 * (size_t)K;
            for (int k = 0; k < K; k++)
                for (int n = 0; n < BLOCK; n++)
                    o[k * BLOCK + n] = b[(size_t)k * (size_t)step_k + (size_t)n * (size_t)step_n];
        }
    }
}

static void xsmm_pack_a(const tile *t, char *out) {
    for (int k0 = 0; k0 < t->p.K; k0 += 16)
        for (int m = 0; m < t->p.M; m++)
            for (int k = k0; k < k0 + 16; k++) {
                const size_t to = (size_t)m * (size_t)t->p.K + (size_t)k, from = (size_t)k * (size_t)t->lda + (size_t)m;
                if (t->t.bf16_in)
                    ((uint16_t *)out)[to] = ((const uint16_t *)t->a)[from];
                else
                    ((float *)out)[to] = ((const float *)t->a)[from];
            }
}

static void xsmm_run(const tile *t) {
    const xsmm *x = t->state;
    const size_t size = t->t.bf16_in ? 2 : 4, out = t->t.bf16_out ? 2 : 4;
    xsmm_pack_b(t, x->packed_b);
    const char *a = t->a;
    size_t lda = (size_t)t->lda;
    if (t->p.ta) {
        xsmm_pack_a(t, x->packed_a);
        a = x->packed_a;
        lda = (size_t)t->p.K;
    }
    const unsigned long long count = (unsigned long long)t->p.K / BLOCK;
    for (size_t m = 0; m < (size_t)t->p.M; m += BLOCK)
        for (size_t n = 0; n < (size_t)t->p.N; n += BLOCK) {
            const char *b = x->packed_b + n * (size_t)t->p.K * size;
            x->kernel.smrs((const float *)(const void *)b, (const float *)(const void *)(a + m * lda * size),
                           (float *)(void *)(t->c + (m * (size_t)t->ldc + n) * out), &count);
        }
}

static const peer peers[] = {
    {"onednn", "OMP_NUM_THREADS", "1", onednn_make, onednn_run, NULL, false},
    {"onednn-packed", "OMP_NUM_THREADS", "1", onednn_make, onednn_run, NULL, true},
    {"onednn-no-amx", "DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16", onednn_make, onednn_run, NULL, false},
    {"openblas", "OPENBLAS_NUM_THREADS", "1", blas_make, blas_run, "libopenblas.so.0", false},
    {"openblas-skx", "OPENBLAS_CORETYPE", "SkylakeX", blas_make, blas_run, "libopenblas.so.0", false},
    {"blis", "BLIS_NUM_THREADS", "1", blas_make, blas_run, "libblis.so.4", false},
    {"libxsmm", "OMP_NUM_THREADS", "1", xsmm_make, xsmm_run, NULL, false},
};
enum { PEERS = sizeof peers / sizeof *peers, MOST_THREADS = 2 };

/* ---- timing ---- */
typedef struct worker {
    pthread_barrier_t *barrier;
    const peer *peer;
    tile tile;
    int repetitions;
} worker;

static void *work(void *argument) {
    worker *w = argument;
    omp_set_num_threads(1);
    for (int i = 0; i < w->repetitions; i++) {
        pthread_barrier_wait(w->barrier);
        w->peer->run(&w->tile);
        pthread_barrier_wait(w->barrier);
    }
    return NULL;
}

/* GFLOP/s of the best repetition; 0: the peer cannot compute the product. */
static double measure(const peer *p, const product *g, const types *t, int threads, double budget,
                      char *const data[3]) {
    worker w[MOST_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    const size_t in = t->bf16_in ? 2 : 4, out = t->bf16_out ? 2 : 4;
    for (int i = 0; i < threads; i++) {
        const int first = g->M * i / threads, last = g->M * (i + 1) / threads;
        tile tile = {*g, *t, data[0], data[1], data[2], g->ta ? g->M : g->K, g->tb ? g->K : g->N, g->N, NULL};
        tile.p.M = last - first;
        tile.a += (size_t)first * (g->ta ? 1 : (size_t)g->K) * in;
        tile.c += (size_t)first * (size_t)g->N * out;
        if (!p->make(&tile, p)) return 0;
        w[i] = (worker){&barrier, p, tile, 0};
    }
    const double flops = 2.0 * g->M * g->N * g->K;
    int repetitions = 2 + (int)(budget / (flops / 400e9 / threads));
    if (repetitions > 20) repetitions = 20;
    pthread_t other;
    for (int i = 0; i < threads; i++) w[i].repetitions = repetitions;
    if (threads == 2) pthread_create(&other, NULL, work, &w[1]);
    double best = 1e9;
    for (int i = 0; i < repetitions; i++) {
        pthread_barrier_wait(&barrier);
        const double start = seconds();
        p->run(&w[0].tile);
        pthread_barrier_wait(&barrier);
        const double taken = seconds() - start;
        if (taken < best) best = taken;
    }
    if (threads == 2) pthread_join(other, NULL);
    return flops / best * 1e-9;
}

/* ---- the machine's peak ---- */
#ifdef __AVX512BF16__
static void *peak_loop(void *bf16) {
    __m512 s[12];
    for (int i = 0; i < 12; i++) s[i] = _mm512_set1_ps((float)i);
    __m512 x = _mm512_set1_ps(0.999f);
    for (long r = 0; r < 20000000; r++) {
        for (int i = 0; i < 12; i++)
            s[i] = bf16 ? _mm512_dpbf16_ps(s[i], (__m512bh)x, (__m512bh)x) : _mm512_fmadd_ps(s[i], x, x);
        __asm__ volatile("" : "+v"(x));
    }
    for (int i = 1; i < 12; i++) s[0] = _mm512_add_ps(s[0], s[i]);
    return _mm512_reduce_add_ps(s[0]) == 1.5f ? bf16 : NULL;
}

static double peak(bool bf16, int threads) {
    pthread_t other;
    const double start = seconds();
    if (threads == 2) pthread_create(&other, NULL, peak_loop, bf16 ? (void *)1 : NULL);
    peak_loop(bf16 ? (void *)1 : NULL);
    if (threads == 2) pthread_join(other, NULL);
    return threads * 20e6 * 12 * (bf16 ? 64 : 32) / (seconds() - start) * 1e-9;
}
#else
static double peak(bool bf16, int threads) { return 0 * (bf16 + threads); }
#endif

static const int shapes[][3] = {{2048, 256, 256},  {2048, 256, 768},  {2048, 768, 768},
                                {2048, 768, 2048}, {8192, 256, 256},  {8192, 256, 768},
                                {8192, 768, 768},  {8192, 768, 2048}, {512, 768, 32000}};
enum { SHAPES = sizeof shapes / sizeof *shapes, CASES = SHAPES * 3 * 3 * MOST_THREADS };

typedef struct result {
    product p;
    const types *t;
    int threads;
} result;

static void list(result *out) {
    for (size_t k = 0; k < 3; k++)
        for (size_t t = 0; t < 3; t++)
            for (size_t s = 0; s < SHAPES; s++)
                for (int threads = 1; threads <= MOST_THREADS; threads++) {
                    const int n = shapes[s][0], K = shapes[s][1], N = shapes[s][2];
                    const product p[3] = {{"forward", n, N, K, false, true, false},
                                          {"input-grad", n, K, N, false, false, false},
                                          {"weight-grad", N, K, n, true, false, true}};
                    *out++ = (result){p[k], &all_types[t], threads};
                }
}

int main(int argc, char **argv) {
    const double budget = argc > 1 ? atof(argv[1]) : 0.03;
    static result cases[CASES];
    list(cases);
    double(*figures)[CASES] =
        mmap(NULL, sizeof(double[PEERS][CASES]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("peak: f32 FMA %.0f / %.0f, vdpbf16ps %.0f / %.0f GFLOP/s on 1 / 2 threads\n", peak(false, 1),
           peak(false, 2), peak(true, 1), peak(true, 2));
    fflush(stdout);
    for (int p = 0; p < PEERS; p++) {
        if (fork() == 0) {
            setenv(peers[p].variable, peers[p].value, 1);
            char *data[3];
            for (int i = 0; i < 3; i++) {
                const size_t bytes = (size_t)32000 * 768 * 4;
                data[i] = aligned_alloc(64, bytes);
                for (size_t j = 0; j < bytes / 2; j++) ((uint16_t *)(void *)data[i])[j] = (uint16_t)(0x3c00 + j % 251);
            }
            for (int i = 0; i < CASES; i++) {
                if (cases[i].t->bf16_out && cases[i].p.accumulate) continue; /* gradients are summed in f32 */
                figures[p][i] = measure(&peers[p], &cases[i].p, cases[i].t, cases[i].threads, budget, data);
            }
            _exit(0);
        }
        wait(NULL);
    }
    printf("%-12s %-10s %6s %6s %6s %2s", "product", "types", "M", "N", "K", "T");
    for (int p = 0; p < PEERS; p++) printf(" %13s", peers[p].name);
    for (int i = 0; i < CASES; i++) {
        const result *c = &cases[i];
        if (c->t->bf16_out && c->p.accumulate) continue;
        printf("\n%-12s %-10s %6d %6d %6d %2d", c->p.name, c->t->name, c->p.M, c->p.N, c->p.K, c->threads);
        for (int p = 0; p < PEERS; p++) printf(" %13.0f", figures[p][i]);
    }
    printf("\n");
    return 0;
}
