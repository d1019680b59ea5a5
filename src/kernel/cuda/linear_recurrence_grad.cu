/*
 * linear_recurrence_grad: the gradients of one chunk after the other, from the last chunk to the first. First the
 * states in front of all segments are kept. Then, segment by segment from the last, the states in front of its chunks
 * are made again, and the chunks are computed. A block has some columns of one head; what is a sum over columns, or
 * over the heads that share a key head, is kept for each block and added in order behind each segment.
 * linear_recurrence_back: the effect of some tokens on the gradient of any state behind them.
 */
#include "kernel/cuda/linear_recurrence.h"

enum { SEGMENT = 1024 }; /* tokens: longer ones need more memory for parts of sums, shorter ones for states */

static const inputs_of_call OF_GRAD = {0, 1, 2, 3, 6, false}, OF_BACK = {0, 1, -1, 2, 5, true};

/* --- the call ----------------------------------------------------------------------------------------------------- */

template <typename T> struct gradients {
    recurrence<T> r;
    head_view<T> dq, dk, dv;
    head_view<float> ddecay, dbeta;
    const float *front;            /* [B,H,D,E]: the states in front of the tokens */
    float *dstate;                 /* [B,H,D,E] */
    int64_t first, past, tokens;   /* of the segment; tokens: most of a segment */
    int64_t floats;                /* of a block's room */
    float *starts;                 /* [segments,blocks,D,COLUMNS]: in front of segments */
    float *states;                 /* [blocks,chunks,D,COLUMNS]: in front of chunks of the segment */
    float *part_q, *part_k;        /* [blocks,tokens,D]: parts of sums */
    float *part_decay, *part_beta; /* [blocks,tokens,decays], [blocks,tokens] */
    __host__ __device__ int64_t state() const { return (int64_t)r.padded() * COLUMNS; }
};

struct grad_room {
    chunk c;
    rows S, dS;
    rows z;                     /* the gradient of V', then, in a delta rule, of the right side of the system for V' */
    rows scores;                /* gradients of P or of A */
    rows dq, dk;                /* [CHUNK,D] */
    rows dsum, dbehind, ddecay; /* gradients of the sums of decays up to a token and behind it, and of decays */
};

template <typename T> static __host__ __device__ grad_room take_grad(const recurrence<T> &r, room *at) {
    const int gates = r.by_element ? r.padded() : 1;
    grad_room x = {};
    x.c = take_chunk(r, at);
    x.S = at->take(r.padded(), COLUMNS);
    x.dS = at->take(r.padded(), COLUMNS);
    x.z = at->take(CHUNK, COLUMNS);
    x.scores = at->take(CHUNK, CHUNK);
    x.dq = at->take(CHUNK, r.padded());
    x.dk = at->take(CHUNK, r.padded());
    x.dsum = at->take(CHUNK, gates);
    x.dbehind = at->take(CHUNK, gates);
    x.ddecay = at->take(CHUNK, gates);
    return x;
}

/* The call with its room in `workspace`; *used: the numbers of it. */
template <typename T> static gradients<T> gradients_of(const ls_kernel_call *call, float *workspace, int64_t *used) {
    gradients<T> g = {};
    g.r = recurrence_of<T>(call, OF_GRAD);
    g.dq = head_view_of<T>(&call->out[0]);
    g.dk = head_view_of<T>(&call->out[1]);
    g.dv = head_view_of<T>(&call->out[2]);
    g.ddecay = head_view_of<float>(&call->out[3]);
    g.dbeta = head_view_of<float>(&call->out[4]);
    g.front = input<float>(call, 7);
    g.dstate = output<float>(call, 5);
    g.floats = floats_of(g.r, take_grad<T>);
    g.tokens = ls_min(g.r.N, (int64_t)SEGMENT);
    const int64_t blocks = g.r.blocks(), chunks = ls_ceil_div(g.tokens, (int64_t)CHUNK);
    const int64_t segments = ls_ceil_div(g.r.N, (int64_t)SEGMENT), sums = blocks * g.tokens;
    const int64_t sizes[] = {(int64_t)(spare_rooms(blocks, g.floats) / sizeof(float)),
                             segments * blocks * g.state(),
                             blocks * chunks * g.state(),
                             sums * g.r.D,
                             sums * g.r.D,
                             sums * g.ddecay.elements,
                             sums};
    float *at[LS_COUNT(sizes)];
    *used = 0;
    for (size_t i = 0; i < LS_COUNT(sizes); i++) {
        at[i] = workspace == nullptr ? nullptr : workspace + *used;
        *used += sizes[i];
    }
    g.starts = at[1];
    g.states = at[2];
    g.part_q = at[3];
    g.part_k = at[4];
    g.part_decay = at[5];
    g.part_beta = at[6];
    return g;
}

template <typename T> static size_t grad_workspace(const ls_kernel_call *call) {
    int64_t used;
    (void)gradients_of<T>(call, nullptr, &used);
    return sizeof(float) * (size_t)used;
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static __device__ void keep_state(const chunk &c, rows S, float *to) {
    for (OF_BLOCK(t, c.D * COLUMNS)) to[t] = S(t / COLUMNS, t % COLUMNS);
    __syncthreads();
}

static __device__ void fetch_state(const chunk &c, rows S, const float *from) {
    for (OF_BLOCK(t, c.D * COLUMNS)) S(t / COLUMNS, t % COLUMNS) = from[t];
    __syncthreads();
}

/* The recurrence where only states are computed: its results are not, so there are no queries. */
template <typename T> static __device__ recurrence<T> of_states(recurrence<T> r) {
    r.q.data = nullptr;
    r.grad_o.data = nullptr;
    return r;
}

/*
 * From the state S in front of token `first` on, keeps the states in front of every step-th token before `past`, each
 * at `apart` numbers behind the previous one.
 */
template <typename T>
static __device__ void keep_states(const gradients<T> &g, grad_room *x, int64_t first, int64_t past, int64_t step,
                                   int64_t apart, float *to) {
    const recurrence<T> r = of_states(g.r);
    for (int64_t n = first; n < past; n += CHUNK) {
        const int64_t at = (n - first) / step;
        if ((n - first) % step == 0) keep_state(x->c, x->S, to + at * apart);
        if (r.unmasked || at == (past - 1 - first) / step) continue; /* the state stays, or the last one is kept */
        begin_chunk(r, &x->c, n, past);
        find_written(x->c, r.delta, x->S);
        advance(x->c, x->S);
    }
}

/* Keeps the states in front of all segments. */
template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) keep_starts(gradients<T> g, float *rooms) {
    LS_DYNAMIC_SHARED(shared);
    room at = room_of_block(shared, rooms, g.floats);
    grad_room x = take_grad(g.r, &at);
    x.c.of = slice_of_block(g.r);
    load_state(g.r, x.c.of, x.S, g.front + x.c.of.head * g.r.D * g.r.E);
    keep_states(g, &x, 0, g.r.N, SEGMENT, g.r.blocks() * g.state(), g.starts + blockIdx.x * g.state());
}

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

/* y becomes the solution of (I + Diag(beta) A)^T X = y, as in solve. */
static __device__ __attribute__((noinline)) void solve_turned(const float *A, const float *beta, float *y) {
    for (OF_BLOCK(e, COLUMNS)) {
        float x[CHUNK]; /* times beta */
#pragma unroll
        for (int i = CHUNK - 1; i >= 0; i--) {
            float sum = y[i * PITCH + e];
#pragma unroll
            for (int j = i + 1; j < CHUNK; j++) sum -= A[j * PITCH + i] * x[j];
            y[i * PITCH + e] = sum;
            x[i] = beta[i] * sum;
        }
    }
    __syncthreads();
}

/* z = P^T dO + (k f) dS; in a delta rule, it then becomes the gradient of the right side of the system for V'. */
static __device__ void find_written_gradient(const chunk &c, bool delta, bool unmasked, rows dS, rows z) {
    multiply(c, c.k, c.f, nullptr);
    product<2>(CHUNK, COLUMNS, c.D, c.x, dS, [&](int i, int j, float sum) { z(i, j) = sum; });
    product<2>(
        CHUNK, COLUMNS, unmasked ? 0 : CHUNK, [&](int j, int i) { return c.P(i, j); }, c.grad_o,
        [&](int i, int j, float sum) { z(i, j) += sum; });
    if (delta) solve_turned(c.A.at, c.beta, z.at);
}

/*
 * dS becomes the gradient of the state in front of the chunk. z: from find_written_gradient; only a delta rule reads
 * it.
 */
static __device__ void retreat(const chunk &c, bool delta, rows dS, rows z) {
    multiply(c, c.q, c.e, nullptr);
    product<4>(
        c.D, COLUMNS, CHUNK, [&](int d, int t) { return c.x(t, d); }, c.grad_o,
        [&](int d, int j, float sum) { dS(d, j) = c.last(d) * dS(d, j) + sum; });
    if (!delta) return;
    multiply(c, c.k, c.e, c.beta);
    product<4>(
        c.D, COLUMNS, CHUNK, [&](int d, int t) { return c.x(t, d); }, z,
        [&](int d, int j, float sum) { dS(d, j) -= sum; });
}

/*
 * Decays by head: adds the gradients through the scores, which are `scores` times products of `of` and k times decays.
 * `values`: the scores themselves. The decay of token t is in D_ij for j < t <= i: its gradient is a sum over these
 * pairs, because a difference of sums over tokens would round what cancels.
 */
static __device__ void scores_of_heads_back(const grad_room &x, rows of, rows d_of, rows values) {
    const chunk &c = x.c;
    product<4>(
        CHUNK, c.D, CHUNK, [&](int i, int j) { return x.scores(i, j) * c.between(i, j); }, c.k,
        [&](int i, int d, float sum) { d_of(i, d) += sum; });
    product<4>(
        CHUNK, c.D, CHUNK, [&](int j, int i) { return x.scores(i, j) * c.between(i, j); }, of,
        [&](int j, int d, float sum) { x.dk(j, d) += sum; });
    for (OF_BLOCK(j, CHUNK)) {
        float sum = 0;
        for (int i = CHUNK - 1; i > j; i--) {
            sum += x.scores(i, j) * values(i, j);
            x.scores(i, j) = sum; /* over the tokens from i on */
        }
    }
    __syncthreads();
    for (OF_BLOCK(t, CHUNK)) {
        float sum = 0;
        for (int j = 0; j < t; j++) sum += x.scores(t, j);
        x.ddecay(t, 0) += sum;
    }
    __syncthreads();
}

/* The same if decays are by element. A thread has elements; row j of x has sums over the tokens from i on. */
static __device__ void scores_of_elements_back(const grad_room &x, rows of, rows d_of) {
    const chunk &c = x.c;
    for (OF_BLOCK(d, c.D)) {
        for (int j = 0; j < CHUNK; j++) c.x(j, d) = 0;
        for (int i = CHUNK - 1; i >= 0; i--) {
            float between = 0, own = x.scores(i, i) * c.k(i, d), of_decay = 0;
            x.dk(i, d) += x.scores(i, i) * of(i, d);
            for (int j = i - 1; j >= 0; j--) {
                between += c.g(j + 1, d);
                if (c.document[j] == c.document[i]) {
                    const float score = x.scores(i, j) * expf(between);
                    own += score * c.k(j, d);
                    x.dk(j, d) += score * of(i, d);
                    c.x(j, d) += score * of(i, d) * c.k(j, d);
                }
                of_decay += c.x(j, d);
            }
            d_of(i, d) += own;
            x.ddecay(i, d) += of_decay;
        }
    }
    __syncthreads();
}

static __device__ void scores_back(const grad_room &x, rows of, rows d_of, rows values) {
    if (x.c.by_element)
        scores_of_elements_back(x, of, d_of);
    else
        scores_of_heads_back(x, of, d_of, values);
}

/*
 * x has the gradients of y times `by`: adds them, times `by`, to `to`, and the same times y to `sums`, the gradients of
 * the sums of decays. A warp has a row.
 */
static __device__ void through_decay(const chunk &c, rows to, rows sums, rows y, rows by) {
    for (int i = threadIdx.x / 32; i < CHUNK; i += CUDA_WARPS) {
        float all = 0;
        for (int d = threadIdx.x % 32; d < c.D; d += 32) {
            const float more = c.x(i, d) * by(i, c.gate(d));
            to(i, d) += more;
            if (c.by_element)
                sums(i, d) += more * y(i, d);
            else
                all += more * y(i, d);
        }
        all = warp_sum(all);
        if (!c.by_element && threadIdx.x % 32 == 0) sums(i, 0) += all;
    }
    __syncthreads();
}

/* x = factor times rows a [CHUNK,COLUMNS] times S^T. */
template <typename F> static __device__ void times_state(const chunk &c, rows a, rows S, F factor) {
    product<4>(
        CHUNK, c.D, COLUMNS, a, [&](int e, int d) { return S(d, e); },
        [&](int i, int d, float sum) { c.x(i, d) = factor(i) * sum; });
}

static __device__ float one(int) { return 1; }

/* Gradients through P, q e, k f and the factor of the state across the chunk. dS: of the state behind the chunk. */
static __device__ void through_state(const grad_room &x, bool unmasked) {
    const chunk &c = x.c;
    if (!unmasked) {
        product<2>(
            CHUNK, CHUNK, COLUMNS, c.grad_o, [&](int e, int j) { return c.written(j, e); },
            [&](int i, int j, float sum) { x.scores(i, j) = j <= i ? sum : 0.0f; });
        scores_back(x, c.q, x.dq, c.P);
    }
    times_state(c, c.grad_o, x.S, one);
    through_decay(c, x.dq, x.dsum, c.q, c.e);
    times_state(c, c.written, x.dS, one);
    through_decay(c, x.dk, x.dbehind, c.k, c.f);
    float all = 0;
    for (OF_BLOCK(d, c.D)) {
        float sum = 0;
        for (int e = 0; e < COLUMNS; e++) sum += x.S(d, e) * x.dS(d, e);
        sum *= c.last(d);
        if (c.by_element) x.dsum(CHUNK - 1, d) += sum;
        all += sum;
    }
    all = block_sum(all);
    if (!c.by_element && threadIdx.x == 0) x.dsum(CHUNK - 1, 0) += all;
    __syncthreads();
}

/* Gradients through the system (I + T) V' = beta (V - (K e) S) of a delta rule, without that of beta. */
static __device__ void through_system(const grad_room &x) {
    const chunk &c = x.c;
    for (OF_BLOCK(t, CHUNK * CHUNK)) x.scores(t / CHUNK, t % CHUNK) *= c.beta[t / CHUNK];
    __syncthreads();
    scores_back(x, c.k, x.dk, c.A);
    times_state(c, x.z, x.S, [&](int i) { return -c.beta[i]; });
    through_decay(c, x.dk, x.dsum, c.k, c.e);
}

/* Stores parts of the gradient of beta: through V' and, in a delta rule, through T. Sets `scores` to that of T. */
static __device__ void through_beta(const grad_room &x, bool delta, float *part) {
    const chunk &c = x.c;
    if (delta)
        product<2>(
            CHUNK, CHUNK, COLUMNS, x.z, [&](int e, int j) { return c.written(j, e); },
            [&](int i, int j, float sum) { x.scores(i, j) = j < i ? -sum : 0.0f; });
    for (int i = threadIdx.x / 32; i < c.n; i += CUDA_WARPS) {
        const int lane = threadIdx.x % 32;
        const float all = warp_sum(x.z(i, lane) * c.v(i, lane) + (delta ? x.scores(i, lane) * c.A(i, lane) : 0.0f));
        if (lane == 0) part[i] = all;
    }
    __syncthreads();
}

/* Stores what the chunk gives: dv, and parts of dq, dk and ddecay of its tokens from `at` on in the segment. */
template <typename T> static __device__ void store_chunk(const gradients<T> &g, const grad_room &x, int64_t at) {
    const chunk &c = x.c;
    const int A = (int)g.ddecay.elements;
    for (OF_BLOCK(t, c.n * COLUMNS)) {
        const int i = t / COLUMNS, e = c.of.first + t % COLUMNS;
        if (e < g.r.E) g.dv.at(c.of.b, c.first + i, c.of.h)[e] = from_float<T>(c.beta[i] * x.z(i, t % COLUMNS));
    }
    for (OF_BLOCK(t, c.n * g.r.D)) {
        g.part_q[at * g.r.D + t] = x.dq(t / g.r.D, t % g.r.D);
        g.part_k[at * g.r.D + t] = x.dk(t / g.r.D, t % g.r.D);
    }
    for (OF_BLOCK(t, c.n * A)) {
        const int i = t / A, d = t % A;
        float sum = x.ddecay(i, d);
        for (int s = i; s < CHUNK; s++) sum += x.dsum(s, d);
        for (int s = 0; s < i; s++) sum += x.dbehind(s, d);
        g.part_decay[at * A + t] = c.starts[i] != 0 ? 0.0f : sum;
    }
    __syncthreads();
}

static __device__ void clear(const grad_room &x) {
    const int D = x.c.D, gates = x.c.by_element ? D : 1;
    for (OF_BLOCK(t, CHUNK * D)) x.dq(t / D, t % D) = x.dk(t / D, t % D) = 0;
    for (OF_BLOCK(t, CHUNK * gates))
        x.dsum(t / gates, t % gates) = x.dbehind(t / gates, t % gates) = x.ddecay(t / gates, t % gates) = 0;
    __syncthreads();
}

/* --- a segment ---------------------------------------------------------------------------------------------------- */

template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS) segment_back(gradients<T> g, float *rooms) {
    LS_DYNAMIC_SHARED(shared);
    room at = room_of_block(shared, rooms, g.floats);
    grad_room x = take_grad(g.r, &at);
    x.c.of = slice_of_block(g.r);
    float *states = g.states + blockIdx.x * ((g.tokens + CHUNK - 1) / CHUNK) * g.state();
    float *dstate = g.dstate + x.c.of.head * g.r.D * g.r.E;
    fetch_state(x.c, x.S, g.starts + (g.first / SEGMENT * g.r.blocks() + blockIdx.x) * g.state());
    keep_states(g, &x, g.first, g.past, CHUNK, g.state(), states);
    load_state(g.r, x.c.of, x.dS, dstate);
    for (int64_t n = g.first + (g.past - g.first - 1) / CHUNK * CHUNK; n >= g.first; n -= CHUNK) {
        const int64_t part = blockIdx.x * g.tokens + n - g.first;
        begin_chunk(g.r, &x.c, n, g.past);
        fetch_state(x.c, x.S, states + (n - g.first) / CHUNK * g.state());
        clear(x);
        find_written(x.c, g.r.delta, x.S);
        find_written_gradient(x.c, g.r.delta, g.r.unmasked, x.dS, x.z);
        through_state(x, g.r.unmasked);
        through_beta(x, g.r.delta, g.part_beta + part);
        if (g.r.delta) through_system(x);
        if (!g.r.unmasked) retreat(x.c, g.r.delta, x.dS, x.z);
        store_chunk(g, x, part);
    }
    store_state(g.r, x.c.of, x.dS, dstate);
}

/* The sum of element i of the parts of `blocks` blocks from `first` on. */
static __device__ float sum_of(const float *parts, int64_t size, int64_t first, int64_t blocks, int64_t i) {
    float sum = 0;
    for (int64_t block = first; block < first + blocks; block++) sum += parts[block * size + i];
    return sum;
}

/* Adds the parts of the segment, in the order of blocks. */
template <typename T> static __global__ void __launch_bounds__(CUDA_THREADS) add_segment(gradients<T> g) {
    const int64_t n = g.past - g.first, D = g.r.D, A = g.ddecay.elements, H = g.r.H, K = g.r.K;
    for (EACH(i, g.r.B * n * K * D)) {
        const int64_t d = i % D, key = i / D % K, t = i / D / K % n, b = i / D / K / n;
        const int64_t blocks = H / K * g.r.slices, first = (b * K + key) * blocks;
        g.dq.at(b, g.first + t, key)[d] = from_float<T>(sum_of(g.part_q, g.tokens * D, first, blocks, t * D + d));
        g.dk.at(b, g.first + t, key)[d] = from_float<T>(sum_of(g.part_k, g.tokens * D, first, blocks, t * D + d));
    }
    for (EACH(i, g.r.B * n * H * A)) {
        const int64_t d = i % A, h = i / A % H, t = i / A / H % n, b = i / A / H / n;
        g.ddecay.at(b, g.first + t, h)[d] =
            sum_of(g.part_decay, g.tokens * A, (b * H + h) * g.r.slices, g.r.slices, t * A + d);
    }
    for (EACH(i, g.dbeta.elements > 0 ? g.r.B * n * H : 0)) {
        const int64_t h = i % H, t = i / H % n, b = i / H / n;
        *g.dbeta.at(b, g.first + t, h) = sum_of(g.part_beta, g.tokens, (b * H + h) * g.r.slices, g.r.slices, t);
    }
}

template <typename T> static ls_status launch_grad(const ls_kernel_call *call, void *, void *stream) {
    const char *const name = "linear_recurrence_grad";
    float *spare = (float *)call->workspace;
    int64_t used;
    gradients<T> g = gradients_of<T>(call, spare, &used);
    LS_TRY(launch_with_rooms(name, stream, g.r.blocks(), g.floats, spare, keep_starts<T>, g));
    for (g.first = (g.r.N - 1) / SEGMENT * SEGMENT; g.first >= 0; g.first -= SEGMENT) {
        g.past = ls_min(g.r.N, g.first + SEGMENT);
        LS_TRY(launch_with_rooms(name, stream, g.r.blocks(), g.floats, spare, segment_back<T>, g));
        const int64_t most = g.r.B * (g.past - g.first) * ls_max(g.r.K * g.r.D, g.r.H * ls_max(g.ddecay.elements, 1));
        LS_TRY(launch(name, stream, blocks_for(most), 0, add_segment<T>, g));
    }
    return ls_ok();
}

/* --- maps of gradients -------------------------------------------------------------------------------------------- */

/* [dS | M^T] of each head, or only dS if M is a diagonal. */
template <typename T>
static __global__ void __launch_bounds__(CUDA_THREADS) make_back_maps(map_problem<T> p, float *rooms) {
    LS_DYNAMIC_SHARED(shared);
    room at = room_of_block(shared, rooms, p.floats);
    map_room x = take_map(p.r, &at);
    x.c.of = slice_of_block(p.r);
    begin_map(p.r, x.c.of, x.S);
    for (OF_BLOCK(d, x.c.D)) x.diagonal(0, d) = 1;
    for (int64_t n = (p.r.N - 1) / CHUNK * CHUNK; n >= 0; n -= CHUNK) {
        begin_chunk(p.r, &x.c, n, p.r.N);
        if (p.r.delta) find_written_gradient(x.c, true, false, x.S, x.z);
        for (OF_BLOCK(d, x.c.D)) x.diagonal(0, d) *= x.c.last(d);
        retreat(x.c, p.r.delta, x.S, x.z);
    }
    store_map(p.r, x.c.of, x.S, x.diagonal.at, p.factors(), true, p.maps + x.c.of.head * p.size);
}

template <typename T> static size_t back_workspace(const ls_kernel_call *call) {
    return map_workspace_of<T>(call, OF_BACK);
}

template <typename T> static ls_status launch_back(const ls_kernel_call *call, void *, void *stream) {
    return launch_map_of("linear_recurrence_back", call, OF_BACK, stream, make_back_maps<T>);
}

CUDA_ROW(ls_cuda_f32_linear_recurrence_grad, LINEAR_RECURRENCE_GRAD, LS_F32, launch_grad<float>, grad_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_grad, LINEAR_RECURRENCE_GRAD, LS_BF16, launch_grad<bf16>, grad_workspace<bf16>)
CUDA_ROW(ls_cuda_f32_linear_recurrence_back, LINEAR_RECURRENCE_BACK, LS_F32, launch_back<float>, back_workspace<float>)
CUDA_ROW(ls_cuda_bf16_linear_recurrence_back, LINEAR_RECURRENCE_BACK, LS_BF16, launch_back<bf16>, back_workspace<bf16>)
