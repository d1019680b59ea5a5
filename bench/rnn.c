/*
 * Time per token of the kernel rnn, compared with a plain loop over the same cell, f32: an sLSTM of 4 heads of 256
 * elements, with 1 and 16 sequences, and ParaRNN's diagonal GRU of 256 elements over 16,384 tokens of one sequence. The
 * plain loop is C with expf, one token after the other, with R transposed, so that the compiler vectorises its inner
 * loop.
 *
 * Then the diagonal cells over 16,384 tokens of one sequence, for several numbers of elements and scales of the cell's
 * numbers (normal, as is x). All tokens in one call, which may cut the sequence into pieces, are compared with calls of
 * 512 tokens, which do not: the time, and whether the results are bitwise equal. The same is done for the gradient,
 * rnn_grad, with the difference of the gradients of the cell's numbers. Finally: after how many tokens, on average and
 * at most, an element that started from 0 at some token has bitwise the same results as in the whole sequence, and how
 * many elements do not within 512 tokens.
 *
 * One JSON object per line; the best of several runs.
 *
 *   ninja -C build bench_rnn && build/bench/rnn [threads, 1]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

enum { REPETITIONS = 5, MOST_D = 256, PART = 512 };

typedef struct work {
    const char *name;
    ls_rnn_kind kind;
    int64_t B, N, H, D;
} work;

static void stop_unless(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    exit(1);
}

static bool same_bits(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static float *numbers(int64_t n, float scale) {
    float *at = aligned_alloc(64, (size_t)ls_round_up((size_t)n * sizeof *at + 1, 64));
    for (int64_t i = 0; i < n; i++) at[i] = scale * ((float)((i * 7919 + 13) % 1009) / 504.5f - 1);
    return at;
}

typedef struct arrays {
    float *x, *weight, *turned, *y, *state;
    float *states; /* before each call: written in the forward pass, read in the backward pass; or NULL */
} arrays;

static void release(const arrays *a) {
    free(a->x);
    free(a->weight);
    free(a->turned);
    free(a->y);
    free(a->state);
}

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* w[row] = R y for one head. */
static void multiply(const float *turned, const float *y, int64_t rows, int64_t D, float *w) {
    memset(w, 0, (size_t)rows * sizeof *w);
    for (int64_t j = 0; j < D; j++)
        for (int64_t row = 0; row < rows; row++) w[row] += turned[j * rows + row] * y[j];
}

static void plain_slstm(const work *p, const arrays *a) {
    const int64_t D = p->D, rows = 4 * D;
    for (int64_t i = 0; i < p->B * p->H; i++) {
        const int64_t b = i / p->H, h = i % p->H;
        float *s = a->state + i * 4 * D, w[4 * MOST_D];
        for (int64_t t = 0; t < p->N; t++) {
            const float *x = a->x + ((b * p->N + t) * p->H + h) * rows;
            multiply(a->turned + h * rows * D, s, rows, D, w);
            for (int64_t d = 0; d < D; d++) {
                const float in = x[d] + w[d], forget = x[D + d] + w[D + d],
                            kept = fminf(forget, 0) - log1pf(expf(-fabsf(forget))) + s[3 * D + d],
                            m = s[2 * D + d] == 0 ? in : fmaxf(in, kept), write = expf(in - m),
                            keep = s[2 * D + d] == 0 ? 0 : expf(kept - m);
                s[D + d] = keep * s[D + d] + write * tanhf(x[2 * D + d] + w[2 * D + d]);
                s[2 * D + d] = keep * s[2 * D + d] + write;
                s[3 * D + d] = m;
            }
            for (int64_t d = 0; d < D; d++) {
                s[d] = sigmoid(x[3 * D + d] + w[3 * D + d]) * s[D + d] / s[2 * D + d];
                a->y[((b * p->N + t) * p->H + h) * D + d] = s[d];
            }
        }
    }
}

static void plain_gru(const work *p, const arrays *a) {
    const int64_t D = p->D;
    for (int64_t t = 0; t < p->N; t++) {
        const float *x = a->x + t * 3 * D, *w = a->weight;
        for (int64_t d = 0; d < D; d++) {
            const float y = a->state[d], z = sigmoid(x[d] + w[d] * y), r = sigmoid(x[D + d] + w[D + d] * y);
            a->y[t * D + d] = a->state[d] = y + z * (tanhf(x[2 * D + d] + w[2 * D + d] * y * r) - y);
        }
    }
}

static int64_t rows_of(const work *p) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(p->kind);
    return s.numbers > 0 ? s.numbers : s.gates * p->D;
}

static int64_t state_of(const work *p) { return p->B * p->H * ls_rnn_sizes_of(p->kind).states * p->D; }

static void give_inputs(const work *p, const arrays *a, ls_kernel_call *call) {
    call->in[0] = ls_view_dense(a->x, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, ls_rnn_sizes_of(p->kind).gates * p->D});
    call->in[1] = ls_view_dense(a->weight, LS_F32, 3, (int64_t[]){p->H, rows_of(p), p->D});
    call->in[2] = ls_view_dense(a->weight, LS_F32, 2, (int64_t[]){p->H, 0});
    call->in[3] = ls_view_dense(a->weight, LS_I32, 3, (int64_t[]){p->B, p->N, 0});
    call->n_in = 4;
}

/* The part of a view with `tokens` tokens from `first` on. */
static ls_view part_of(const ls_view *all, int64_t first, int64_t tokens) {
    ls_view v = *all;
    v.data = (float *)all->data + first * all->stride[1];
    v.size[1] = tokens;
    return v;
}

static bool is_of_tokens(const work *p, const ls_view *v) { return v->ndim > 2 && v->size[1] == p->N; }

/* The same call on some of the tokens. */
static ls_kernel_call call_of(const work *p, const ls_kernel_call *all, int64_t first, int64_t tokens) {
    ls_kernel_call call = *all;
    for (int i = 0; i < call.n_in; i++)
        if (is_of_tokens(p, &call.in[i])) call.in[i] = part_of(&call.in[i], first, tokens);
    for (int i = 0; i < call.n_out; i++)
        if (is_of_tokens(p, &call.out[i])) call.out[i] = part_of(&call.out[i], first, tokens);
    return call;
}

/* The best time of all tokens in calls of `tokens`, backwards from the last; `begin` comes before each repetition. */
typedef struct timing {
    const work *work;
    ls_kernel_id id;
    int64_t tokens;
    void (*begin)(const work *, const ls_kernel_call *);
    float *states; /* as in `arrays` */
} timing;

static double time_calls(const timing *t, ls_kernel_call *all, ls_pool *pool) {
    const work *p = t->work;
    const bool back = t->id == LS_KERNEL_RNN_GRAD;
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_kernel_request request = {.id = t->id, .dtype = LS_F32, .isa = machine.isa, .call = all};
    const ls_kernel *kernel = NULL;
    void *state = NULL;
    all->threads = ls_pool_threads(pool);
    stop_unless(ls_kernel_find(&request, &kernel));
    const ls_kernel_call first = call_of(p, all, 0, t->tokens);
    all->workspace = aligned_alloc(64, ls_round_up(kernel->workspace(&first) + 1, 64));
    stop_unless(kernel->prepare(&first, &state));
    const size_t bytes = (size_t)state_of(p) * sizeof(float);
    double best = INFINITY;
    for (int r = 0; r < REPETITIONS; r++) {
        t->begin(p, all);
        const double start = ls_seconds();
        for (int64_t i = 0, n = p->N / t->tokens; i < n; i++) {
            const int64_t part = back ? n - 1 - i : i;
            ls_kernel_call call = call_of(p, all, part * t->tokens, t->tokens);
            float *kept = t->states == NULL ? NULL : t->states + part * state_of(p);
            if (kept != NULL && back) call.in[6].data = kept;
            if (kept != NULL && !back) memcpy(kept, call.out[1].data, bytes);
            kernel->run(&call, state, pool);
        }
        best = fmin(best, ls_seconds() - start);
    }
    free(all->workspace);
    return best;
}

static void begin_at_zero(const work *p, const ls_kernel_call *call) {
    memset(call->out[1].data, 0, (size_t)state_of(p) * sizeof(float));
}

/* All tokens in calls of `tokens`. */
static double time_kernel(const work *p, const arrays *a, int64_t tokens, ls_pool *pool) {
    const ls_rnn_params params = {.kind = p->kind};
    ls_kernel_call call = {.n_out = 2, .params = &params};
    give_inputs(p, a, &call);
    call.out[0] = ls_view_dense(a->y, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, p->D});
    call.out[1] = ls_view_dense(a->state, LS_F32, 3, (int64_t[]){p->B, p->H, ls_rnn_sizes_of(p->kind).states * p->D});
    const timing t = {p, LS_KERNEL_RNN, tokens, begin_at_zero, a->states};
    return time_calls(&t, &call, pool);
}

static void measure(const work *p, void (*plain)(const work *, const arrays *), ls_pool *pool) {
    const ls_rnn_sizes s = ls_rnn_sizes_of(p->kind);
    const int64_t rows = s.numbers > 0 ? s.numbers : s.gates * p->D, heads = p->B * p->N * p->H;
    arrays a = {
        numbers(heads * s.gates * p->D, 1), numbers(p->H * rows * p->D, 0.1f), numbers(p->H * rows * p->D, 0.1f),
        numbers(heads * p->D, 0),           numbers(state_of(p), 0),           NULL};
    for (int64_t h = 0; h < p->H; h++)
        for (int64_t i = 0; i < rows * p->D; i++)
            a.turned[h * rows * p->D + i % p->D * rows + i / p->D] = a.weight[h * rows * p->D + i];
    const double kernel = time_kernel(p, &a, p->N, pool);
    const float last = a.y[heads * p->D - 1];
    double best = INFINITY;
    for (int i = 0; i < REPETITIONS; i++) {
        memset(a.state, 0, (size_t)(p->B * p->H * s.states * p->D) * sizeof(float));
        const double start = ls_seconds();
        plain(p, &a);
        best = fmin(best, ls_seconds() - start);
    }
    printf("{\"cell\":\"%s\",\"B\":%lld,\"tokens\":%lld,\"heads\":%lld,\"elements\":%lld,\"threads\":%d,"
           "\"kernel_us_a_token\":%.3f,\"plain_us_a_token\":%.3f,\"times\":%.1f,\"difference\":%.1e}\n",
           p->name, (long long)p->B, (long long)p->N, (long long)p->H, (long long)p->D, ls_pool_threads(pool),
           kernel / (double)p->N * 1e6, best / (double)p->N * 1e6, best / kernel,
           fabs((double)last - (double)a.y[heads * p->D - 1]));
    release(&a);
}

/* --- diagonal cells ----------------------------------------------------------------------------------------------- */

static void make_normal(float *at, int64_t n, double scale, uint64_t stream) {
    for (int64_t i = 0; i < n; i++) at[i] = (float)(scale * ls_rng_normal(1, stream, (uint64_t)i));
}

typedef struct forgetting {
    double sum, n, never; /* the sum of tokens until elements forget; how many do within PART tokens, and do not */
    int64_t most;
} forgetting;

/*
 * Starts at token `first` from a state of 0, and finds from which token on the results of each element are bitwise
 * equal to y.
 */
static void add_forgetting(const work *p, const arrays *a, const float *y, int64_t first, ls_pool *pool,
                           forgetting *f) {
    work rest = *p;
    rest.N = PART;
    arrays from = *a;
    from.x += first * ls_rnn_sizes_of(p->kind).gates * p->D;
    (void)time_kernel(&rest, &from, rest.N, pool);
    for (int64_t d = 0; d < p->D; d++) {
        int64_t n = PART;
        while (n > 0 && same_bits(&a->y[(n - 1) * p->D + d], &y[(first + n - 1) * p->D + d], sizeof *y)) n--;
        f->never += n == PART;
        f->n += n < PART;
        f->sum += n < PART ? (double)n : 0;
        f->most = n < PART ? ls_max(f->most, n) : f->most;
    }
}

/* For one layer: the inputs of rnn_grad besides `arrays`, and its results. */
typedef struct gradients {
    float *dy, *dx, *dweight, *dstate;
} gradients;

static void begin_sums(const work *p, const ls_kernel_call *call) {
    memset(call->out[1].data, 0, (size_t)(p->H * rows_of(p) * p->D) * sizeof(float));
    memset(call->out[3].data, 0, (size_t)state_of(p) * sizeof(float));
}

static double time_gradient(const work *p, const arrays *a, const gradients *g, int64_t tokens, ls_pool *pool) {
    const ls_rnn_params params = {.kind = p->kind};
    const int64_t size = ls_rnn_sizes_of(p->kind).states * p->D;
    ls_kernel_call call = {.n_out = 4, .params = &params};
    give_inputs(p, a, &call);
    call.n_in = 7;
    call.in[4] = ls_view_dense(a->y, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, p->D});
    call.in[5] = ls_view_dense(g->dy, LS_F32, 4, (int64_t[]){p->B, p->N, p->H, p->D});
    call.in[6] = ls_view_dense(a->states, LS_F32, 3, (int64_t[]){p->B, p->H, size});
    call.out[0] = call.in[0];
    call.out[0].data = g->dx;
    call.out[1] = ls_view_dense(g->dweight, LS_F32, 3, (int64_t[]){p->H, rows_of(p), p->D});
    call.out[2] = ls_view_dense(g->dweight, LS_F32, 2, (int64_t[]){p->H, 0});
    call.out[3] = ls_view_dense(g->dstate, LS_F32, 3, (int64_t[]){p->B, p->H, size});
    const timing t = {p, LS_KERNEL_RNN_GRAD, tokens, begin_sums, a->states};
    return time_calls(&t, &call, pool);
}

/* Times of all tokens in one call, and in calls of PART tokens. */
typedef struct times {
    double all, chain, apart; /* seconds; apart: the difference of the gradients of numbers, relative to the largest */
    bool same;
} times;

static times time_both(const work *p, const arrays *a, ls_pool *pool) {
    const int64_t n = p->N * p->D;
    float *y = numbers(n, 0);
    times t = {.chain = time_kernel(p, a, PART, pool)};
    memcpy(y, a->y, (size_t)n * sizeof *y);
    t.all = time_kernel(p, a, p->N, pool);
    t.same = same_bits(y, a->y, (size_t)n * sizeof *y);
    free(y);
    return t;
}

static times time_both_back(const work *p, const arrays *given, ls_pool *pool) {
    const int64_t n = p->N * ls_rnn_sizes_of(p->kind).gates * p->D, of_weight = rows_of(p) * p->D;
    arrays a = *given;
    a.states = numbers(p->N / PART * state_of(p), 0);
    const gradients g = {numbers(p->N * p->D, 1), numbers(n, 0), numbers(of_weight, 0), numbers(state_of(p), 0)};
    make_normal(g.dy, p->N * p->D, 1, 3);
    (void)time_kernel(p, &a, PART, pool);
    float *dx = numbers(n, 0), *dweight = numbers(of_weight, 0), most = 0, apart = 0;
    times t = {.chain = time_gradient(p, &a, &g, PART, pool)};
    memcpy(dx, g.dx, (size_t)n * sizeof *dx);
    memcpy(dweight, g.dweight, (size_t)of_weight * sizeof *dweight);
    t.all = time_gradient(p, &a, &g, p->N, pool);
    t.same = same_bits(dx, g.dx, (size_t)n * sizeof *dx);
    for (int64_t i = 0; i < of_weight; i++) {
        most = fmaxf(most, fabsf(dweight[i]));
        apart = fmaxf(apart, fabsf(dweight[i] - g.dweight[i]));
    }
    t.apart = (double)apart / (double)most;
    float *const all[] = {g.dy, g.dx, g.dweight, g.dstate, a.states, dx, dweight};
    for (size_t i = 0; i < LS_COUNT(all); i++) free(all[i]);
    return t;
}

static void measure_diagonal(const char *name, ls_rnn_kind kind, int64_t D, double scale, ls_pool *pool) {
    const work p = {name, kind, 1, 16384, 1, D};
    const ls_rnn_sizes s = ls_rnn_sizes_of(kind);
    arrays a = {numbers(p.N * s.gates * D, 1), numbers(s.numbers * D, 1), NULL,
                numbers(p.N * D, 0),           numbers(state_of(&p), 0),  NULL};
    make_normal(a.x, p.N * s.gates * D, 1, 1);
    make_normal(a.weight, s.numbers * D, scale, 2);
    const times t = time_both(&p, &a, pool), back = time_both_back(&p, &a, pool);
    float *y = numbers(p.N * D, 0);
    memcpy(y, a.y, (size_t)(p.N * D) * sizeof *y);
    forgetting f = {0};
    for (int64_t first = PART; first + PART <= p.N; first += PART) add_forgetting(&p, &a, y, first, pool, &f);
    const double ns = 1e9 / (double)p.N;
    printf("{\"cell\":\"%s\",\"tokens\":%lld,\"elements\":%lld,\"scale\":%g,\"threads\":%d,"
           "\"ns_a_token\":%.1f,\"chain\":%.1f,\"times\":%.2f,\"same_bits\":%s,"
           "\"gradient_ns_a_token\":%.1f,\"gradient_chain\":%.1f,\"gradient_times\":%.2f,\"gradient_same_bits\":%s,"
           "\"of_numbers_apart\":%.1e,\"both_times\":%.2f,"
           "\"forgets_after\":%.1f,\"at_most\":%lld,\"never_per_cent\":%.2f}\n",
           name, (long long)p.N, (long long)D, scale, ls_pool_threads(pool), t.all * ns, t.chain * ns, t.chain / t.all,
           t.same ? "true" : "false", back.all * ns, back.chain * ns, back.chain / back.all,
           back.same ? "true" : "false", back.apart, (t.chain + back.chain) / (t.all + back.all), f.sum / f.n,
           (long long)f.most, 100 * f.never / (f.n + f.never));
    free(y);
    release(&a);
}

int main(int argc, char **argv) {
    const work slstm = {"slstm", LS_RNN_SLSTM, 1, 256, 4, 256}, batch = {"slstm", LS_RNN_SLSTM, 16, 64, 4, 256},
               gru = {"diagonal gru", LS_RNN_DIAGONAL_GRU, 1, 16384, 1, 256};
    ls_pool *pool;
    stop_unless(ls_pool_create(argc > 1 ? atoi(argv[1]) : 1, false, &pool));
    measure(&slstm, plain_slstm, pool);
    measure(&batch, plain_slstm, pool);
    measure(&gru, plain_gru, pool);
    static const double scales[] = {0.25, 0.5, 1, 2, 4};
    static const int64_t elements[] = {16, 64, 256};
    for (size_t i = 0; i < LS_COUNT(scales) * LS_COUNT(elements); i++) {
        const double scale = scales[i / LS_COUNT(elements)];
        const int64_t D = elements[i % LS_COUNT(elements)];
        measure_diagonal("diagonal gru", LS_RNN_DIAGONAL_GRU, D, scale, pool);
        measure_diagonal("diagonal lstm", LS_RNN_DIAGONAL_LSTM, D, scale, pool);
    }
    ls_pool_destroy(pool);
    return 0;
}
