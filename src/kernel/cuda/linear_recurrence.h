/*
 * Shared by the kernels of the linear recurrence, which compute CHUNK tokens at a time by matrix products in f32. The
 * formulas and their letters are those of kernel/cpu/linear_recurrence.h. A block has COLUMNS columns of the state of a
 * head, because no column depends on another; the scores of q and k are computed for each such slice again. Tokens and
 * columns beyond the last are 0: they change nothing. A chunk may contain beginnings of documents: a factor across one
 * is 0. Every function here that writes to the room ends with a barrier.
 */
#ifndef LS_KERNEL_CUDA_LINEAR_RECURRENCE_H
#define LS_KERNEL_CUDA_LINEAR_RECURRENCE_H

#include "kernel/cuda/cuda_impl.h"

enum { CHUNK = 32, COLUMNS = 32, PITCH = 33 }; /* PITCH: of matrices with so many columns */

/* --- the call ----------------------------------------------------------------------------------------------------- */

/* A view [B,N,heads,elements] with dense elements; of places [B,N,elements]. */
template <typename T> struct head_view {
    T *data;
    int64_t sequence, token, head, elements;
    __device__ T *at(int64_t b, int64_t n, int64_t h) const { return data + b * sequence + n * token + h * head; }
};

template <typename T> static head_view<T> head_view_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[2], v->size[3]};
}

/* Operands of a call; if the call lacks one, its data is NULL. */
template <typename T> struct recurrence {
    head_view<const T> q, k, v, grad_o;
    head_view<const float> decay, beta;
    head_view<const int32_t> places;
    int64_t B, N, K, H, slices; /* slices: of a head's columns */
    int D, E, width;            /* width: columns of a state: E, and D more for the matrix of a map */
    bool delta, unmasked, by_element;
    __host__ __device__ int64_t blocks() const { return B * H * slices; }
    __host__ __device__ int padded() const { return (D + 3) / 4 * 4; } /* rows of products are computed by fours */
};

/* The indices of the call's inputs; -1: the call has no such input. */
struct inputs_of_call {
    int q, k, v, gates, grad_o;
    bool map; /* the call makes a map */
};

template <typename T> static recurrence<T> recurrence_of(const ls_kernel_call *call, const inputs_of_call &of) {
    const ls_linear_recurrence_params *p = (const ls_linear_recurrence_params *)call->params;
    const ls_view *k = &call->in[of.k], *decay = &call->in[of.gates], *places = &call->in[of.gates + 2];
    recurrence<T> r = {};
    if (of.q >= 0) r.q = head_view_of<const T>(&call->in[of.q]);
    r.k = head_view_of<const T>(k);
    if (of.v >= 0) r.v = head_view_of<const T>(&call->in[of.v]);
    if (of.grad_o >= 0) r.grad_o = head_view_of<const T>(&call->in[of.grad_o]);
    r.decay = head_view_of<const float>(decay);
    r.beta = head_view_of<const float>(&call->in[of.gates + 1]);
    r.places = {(const int32_t *)places->data, places->stride[0], places->stride[1], 0, places->size[2]};
    r.B = k->size[0];
    r.N = k->size[1];
    r.K = k->size[2];
    r.D = (int)k->size[3];
    r.H = decay->size[2];
    r.E = (int)call->in[of.v >= 0 ? of.v : of.grad_o].size[3];
    r.delta = p->delta;
    r.unmasked = p->unmasked;
    r.by_element = decay->size[3] > 1;
    r.width = r.E + (of.map && p->delta ? r.D : 0);
    r.slices = ls_ceil_div((int64_t)r.width, (int64_t)COLUMNS);
    return r;
}

/* What a block works on: columns first .. first + COLUMNS - 1 of the state of a head. */
struct slice {
    int64_t head, b, h, key; /* head: b H + h */
    int first;
};

template <typename T> static __device__ slice slice_of_block(const recurrence<T> &r) {
    const int64_t head = blockIdx.x / r.slices, h = head % r.H;
    return {head, head / r.H, h, h / (r.H / r.K), (int)(blockIdx.x % r.slices) * COLUMNS};
}

/* --- room --------------------------------------------------------------------------------------------------------- */

/* The indices i < n of this thread, if the threads of a block share them: for (OF_BLOCK(i, n)). */
#define OF_BLOCK(i, n)        \
    int i = (int)threadIdx.x; \
    i < (n);                  \
    i += CUDA_THREADS

/* A matrix. The distance of its rows is odd, so that the elements of a column are in different banks. */
struct rows {
    float *at;
    int pitch;
    __device__ float &operator()(int i, int j) const { return at[i * pitch + j]; }
};

/* Memory of a block, taken matrix by matrix; at NULL: only the size is of interest. */
struct room {
    float *at;
    int64_t used;
    __host__ __device__ rows take(int64_t n, int64_t columns) {
        const rows x = {at == nullptr ? nullptr : at + used, (int)(columns | 1)};
        used += n * (columns | 1);
        return x;
    }
};

/* Sums over a block take a little shared memory. Besides it, a block of each GPU can have at least SURE_OF_SHARED. */
static const size_t FOR_SUMS = 1 << 10, SURE_OF_SHARED = (99 << 10) - FOR_SUMS;

/* Bytes of workspace for the rooms of the blocks of a launch, should they not fit into shared memory. */
static inline size_t spare_rooms(int64_t blocks, int64_t floats) {
    const size_t bytes = sizeof(float) * (size_t)floats;
    return bytes > SURE_OF_SHARED ? (size_t)blocks * bytes : 0;
}

/* The numbers of the room that `take` takes for a block. */
template <typename T, typename Room>
static int64_t floats_of(const recurrence<T> &r, Room (*take)(const recurrence<T> &, room *)) {
    room at = {nullptr, 0};
    (void)take(r, &at);
    return at.used;
}

/* Launches a kernel(problem, rooms): rooms are in `spare`, or NULL if they are in shared memory. */
template <typename Problem>
static ls_status launch_with_rooms(const char *name, void *stream, int64_t blocks, int64_t floats, float *spare,
                                   void (*kernel)(Problem, float *), const Problem &problem) {
    const size_t bytes = sizeof(float) * (size_t)floats;
    int most;
    LS_TRY(allow_shared(name, kernel));
    LS_TRY(device_number(name, "shared memory", cudaDevAttrMaxSharedMemoryPerBlockOptin, &most));
    const bool shared = bytes <= SURE_OF_SHARED || bytes + FOR_SUMS <= (size_t)most;
    return launch(name, stream, blocks, shared ? bytes : 0, kernel, problem, shared ? nullptr : spare);
}

static __device__ __forceinline__ room room_of_block(unsigned char *shared, float *spare, int64_t floats) {
    return {spare == nullptr ? (float *)shared : spare + blockIdx.x * floats, 0};
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/*
 * finish(i, j, sum over k < K of a(i, k) b(k, j)) for i < m and j < n, multiples of R; a thread computes R rows of R
 * columns at a time. `a` and `b` must not read what `finish` writes for another element.
 */
template <int R, typename A, typename B, typename F>
static __device__ __forceinline__ void product(int m, int n, int K, A a, B b, F finish) {
    const int down = m / R, across = n / R;
    for (OF_BLOCK(t, down * across)) {
        const int i = t / across, j = t % across;
        float sum[R][R] = {};
        for (int k = 0; k < K; k++) {
            float x[R], y[R];
#pragma unroll
            for (int u = 0; u < R; u++) {
                x[u] = a(i + u * down, k);
                y[u] = b(k, j + u * across);
            }
#pragma unroll
            for (int u = 0; u < R * R; u++) sum[u / R][u % R] += x[u / R] * y[u % R];
        }
#pragma unroll
        for (int u = 0; u < R * R; u++) finish(i + u / R * down, j + u % R * across, sum[u / R][u % R]);
    }
    __syncthreads();
}

/* --- a chunk ------------------------------------------------------------------------------------------------------ */

struct chunk {
    slice of;
    int64_t first; /* token */
    int n, D;      /* tokens that exist; elements of a key, padded */
    bool by_element;
    rows q, k, x;                    /* [CHUNK,D]; x: room for one of them times decays */
    rows v, written, grad_o;         /* [CHUNK,COLUMNS] */
    rows g, e, f;                    /* [CHUNK,D] if decays are by element, else [CHUNK,1] */
    rows between, P, A;              /* [CHUNK,CHUNK]; between: D_ij of decays by head; no P if a map needs none */
    float *beta, *starts, *document; /* starts: 1 if a document begins; document: how many have begun in the chunk */
    __device__ int gate(int d) const { return by_element ? d : 0; }
    __device__ float last(int d) const { return e(CHUNK - 1, gate(d)); } /* the factor of the state across the chunk */
};

template <typename T> static __host__ __device__ chunk take_chunk(const recurrence<T> &r, room *at) {
    const int gates = r.by_element ? r.padded() : 1;
    chunk c = {};
    c.D = r.padded();
    c.by_element = r.by_element;
    if (r.q.data != nullptr) c.q = at->take(CHUNK, c.D);
    c.k = at->take(CHUNK, c.D);
    c.x = at->take(CHUNK, c.D);
    c.v = at->take(CHUNK, COLUMNS);
    c.written = at->take(CHUNK, COLUMNS);
    if (r.grad_o.data != nullptr) c.grad_o = at->take(CHUNK, COLUMNS);
    c.g = at->take(CHUNK, gates);
    c.e = at->take(CHUNK, gates);
    c.f = at->take(CHUNK, gates);
    if (!r.by_element) c.between = at->take(CHUNK, CHUNK);
    if (r.q.data != nullptr && (r.delta || r.v.data != nullptr)) c.P = at->take(CHUNK, CHUNK);
    if (r.delta) c.A = at->take(CHUNK, CHUNK);
    c.beta = at->take(1, CHUNK).at;
    c.starts = at->take(1, CHUNK).at;
    c.document = at->take(1, CHUNK).at;
    return c;
}

/* to = columns first .. first + columns - 1 of n rows of a head, token by token; what does not exist is 0. */
template <typename T>
static __device__ void load_rows(const chunk &c, rows to, const head_view<const T> &v, int64_t h, int first,
                                 int columns) {
    for (OF_BLOCK(t, CHUNK * columns)) {
        const int i = t / columns, d = first + t % columns;
        to(i, t % columns) = i < c.n && d < v.elements ? to_float(v.at(c.of.b, c.first + i, h)[d]) : 0.0f;
    }
}

/* e, f and `between`. Every exponent is a sum of decays of consecutive tokens. */
static __device__ void find_decays(const chunk &c) {
    const int gates = c.by_element ? c.D : 1;
    for (OF_BLOCK(i, CHUNK)) {
        float begun = 0;
        for (int t = 0; t <= i; t++) begun += c.starts[t];
        c.document[i] = begun;
    }
    __syncthreads();
    for (OF_BLOCK(t, CHUNK * gates)) {
        const int i = t / gates, d = t % gates;
        float up_to = 0, behind = 0;
        for (int s = 0; s <= i; s++) up_to += c.g(s, d);
        for (int s = i + 1; s < CHUNK; s++) behind += c.g(s, d);
        c.e(i, d) = c.document[i] == 0 ? expf(up_to) : 0.0f;
        c.f(i, d) = c.document[i] == c.document[CHUNK - 1] ? expf(behind) : 0.0f;
    }
    for (OF_BLOCK(t, c.by_element ? 0 : CHUNK * CHUNK)) {
        const int i = t / CHUNK, j = t % CHUNK;
        float sum = 0;
        for (int s = j + 1; s <= i; s++) sum += c.g(s, 0);
        c.between(i, j) = j <= i && c.document[i] == c.document[j] ? expf(sum) : 0.0f;
    }
    __syncthreads();
}

/* P and A of decays by element. A thread has pairs of tokens. */
static __device__ void find_scores_of_elements(const chunk &c, bool results, bool delta) {
    for (OF_BLOCK(t, CHUNK * CHUNK)) {
        const int i = t / CHUNK, j = t % CHUNK;
        float P = 0, A = 0;
        for (int d = 0; d < c.D && j <= i && c.document[j] == c.document[i]; d++) {
            float between = 0;
            for (int s = j + 1; s <= i; s++) between += c.g(s, d);
            const float decayed = c.k(j, d) * expf(between);
            if (results) P += c.q(i, d) * decayed;
            A += c.k(i, d) * decayed;
        }
        if (results) c.P(i, j) = P;
        if (delta) c.A(i, j) = j < i ? A : 0.0f;
    }
    __syncthreads();
}

/* P, unless it is not needed, and A in a delta rule. */
static __device__ void find_scores(const chunk &c, bool results, bool delta) {
    if (c.by_element) {
        find_scores_of_elements(c, results, delta);
        return;
    }
    if (results)
        product<2>(
            CHUNK, CHUNK, c.D, c.q, [&](int d, int j) { return c.k(j, d); },
            [&](int i, int j, float sum) { c.P(i, j) = sum * c.between(i, j); });
    if (delta)
        product<2>(
            CHUNK, CHUNK, c.D, c.k, [&](int d, int j) { return c.k(j, d); },
            [&](int i, int j, float sum) { c.A(i, j) = j < i ? sum * c.between(i, j) : 0.0f; });
}

/* Loads the tokens from `first` on, before token `past`, and computes what does not depend on the state. */
template <typename T>
static __device__ void begin_chunk(const recurrence<T> &r, chunk *c, int64_t first, int64_t past) {
    c->first = first;
    c->n = past - first < CHUNK ? (int)(past - first) : (int)CHUNK;
    const int gates = c->by_element ? c->D : 1;
    if (r.q.data != nullptr) load_rows(*c, c->q, r.q, c->of.key, 0, c->D);
    load_rows(*c, c->k, r.k, c->of.key, 0, c->D);
    if (r.v.data != nullptr) load_rows(*c, c->v, r.v, c->of.h, c->of.first, COLUMNS);
    if (r.grad_o.data != nullptr) load_rows(*c, c->grad_o, r.grad_o, c->of.h, c->of.first, COLUMNS);
    for (OF_BLOCK(i, CHUNK)) {
        const bool is = i < c->n;
        c->beta[i] = !is ? 0.0f : r.beta.elements > 0 ? *r.beta.at(c->of.b, first + i, c->of.h) : 1.0f;
        c->starts[i] = is && !r.unmasked && r.places.elements > 0 && *r.places.at(c->of.b, first + i, 0) == 0;
    }
    for (OF_BLOCK(t, CHUNK * gates)) {
        const int i = t / gates, d = t % gates;
        const bool is = i < c->n && d < r.decay.elements && !r.unmasked;
        c->g(i, d) = is ? r.decay.at(c->of.b, first + i, c->of.h)[d] : 0.0f;
    }
    __syncthreads();
    find_decays(*c);
    if (!r.unmasked) find_scores(*c, r.q.data != nullptr && c->P.at != nullptr, r.delta);
}

/* x = rows times their decays, and times `factor` of their token; factor NULL: 1. */
static __device__ void multiply(const chunk &c, rows of, rows by, const float *factor) {
    for (OF_BLOCK(t, CHUNK * c.D)) {
        const int i = t / c.D, d = t % c.D;
        c.x(i, d) = of(i, d) * by(i, c.gate(d)) * (factor != nullptr ? factor[i] : 1.0f);
    }
    __syncthreads();
}

/*
 * y becomes the solution of (I + Diag(beta) A) X = y, in registers: a thread has a column. A and y: the matrices at
 * these addresses. Not inline, because nvcc takes minutes for the kernels otherwise.
 */
static __device__ __attribute__((noinline)) void solve(const float *A, const float *beta, float *y) {
    static_assert((CHUNK | 1) == PITCH && (COLUMNS | 1) == PITCH, "the rows of A and of y");
    for (OF_BLOCK(e, COLUMNS)) {
        float x[CHUNK];
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            float sum = 0;
#pragma unroll
            for (int j = 0; j < i; j++) sum += A[i * PITCH + j] * x[j];
            x[i] = y[i * PITCH + e] - beta[i] * sum;
        }
#pragma unroll
        for (int i = 0; i < CHUNK; i++) y[i * PITCH + e] = x[i];
    }
    __syncthreads();
}

/* V' from the state S in front of the chunk. In a delta rule, v becomes v - (k e) S. */
static __device__ void find_written(const chunk &c, bool delta, rows S) {
    if (!delta) {
        for (OF_BLOCK(t, CHUNK * COLUMNS))
            c.written(t / COLUMNS, t % COLUMNS) = c.beta[t / COLUMNS] * c.v(t / COLUMNS, t % COLUMNS);
        __syncthreads();
        return;
    }
    multiply(c, c.k, c.e, nullptr);
    product<2>(CHUNK, COLUMNS, c.D, c.x, S, [&](int i, int j, float sum) {
        c.v(i, j) -= sum;
        c.written(i, j) = c.beta[i] * c.v(i, j);
    });
    solve(c.A.at, c.beta, c.written.at);
}

/* S becomes the state behind the chunk. */
static __device__ void advance(const chunk &c, rows S) {
    multiply(c, c.k, c.f, nullptr);
    product<4>(
        c.D, COLUMNS, CHUNK, [&](int d, int t) { return c.x(t, d); }, c.written,
        [&](int d, int j, float sum) { S(d, j) = c.last(d) * S(d, j) + sum; });
}

/* --- states ------------------------------------------------------------------------------------------------------- */

/* S = the block's columns of a state [D,E]; what does not exist is 0. */
template <typename T>
static __device__ void load_state(const recurrence<T> &r, const slice &of, rows S, const float *from) {
    for (OF_BLOCK(t, r.padded() * COLUMNS)) {
        const int d = t / COLUMNS, e = of.first + t % COLUMNS;
        S(d, t % COLUMNS) = d < r.D && e < r.E ? from[(int64_t)d * r.E + e] : 0.0f;
    }
    __syncthreads();
}

template <typename T> static __device__ void store_state(const recurrence<T> &r, const slice &of, rows S, float *to) {
    for (OF_BLOCK(t, r.D * COLUMNS))
        if (of.first + t % COLUMNS < r.E)
            to[(int64_t)(t / COLUMNS) * r.E + of.first + t % COLUMNS] = S(t / COLUMNS, t % COLUMNS);
    __syncthreads();
}

/* S = the block's columns of [0 | I], with which a map begins. */
template <typename T> static __device__ void begin_map(const recurrence<T> &r, const slice &of, rows S) {
    for (OF_BLOCK(t, r.padded() * COLUMNS))
        S(t / COLUMNS, t % COLUMNS) = of.first + t % COLUMNS == r.E + t / COLUMNS ? 1.0f : 0.0f;
    __syncthreads();
}

/*
 * Stores the block's columns of a map [U | M], of M^T if `transposed`; if M is a diagonal of `factors` numbers, the
 * first block of a head stores it, from `diagonal`.
 */
template <typename T>
static __device__ void store_map(const recurrence<T> &r, const slice &of, rows S, const float *diagonal,
                                 int64_t factors, bool transposed, float *map) {
    float *M = map + (int64_t)r.D * r.E;
    for (OF_BLOCK(t, r.D * COLUMNS)) {
        const int64_t d = t / COLUMNS, e = of.first + t % COLUMNS, m = e - r.E;
        const float x = S(t / COLUMNS, t % COLUMNS);
        if (m < 0)
            map[d * r.E + e] = x;
        else if (m < r.width - r.E)
            M[transposed ? m * r.D + d : d * r.D + m] = x;
    }
    for (OF_BLOCK(i, r.delta || of.first > 0 ? 0 : (int)factors)) M[i] = diagonal[i];
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

template <typename T> struct map_problem {
    recurrence<T> r;
    float *maps;
    int64_t size, floats; /* size: numbers of a map */
    __host__ __device__ int64_t factors() const { return size - (int64_t)r.D * r.E; }
};

/* S: U and M, or dS and M^T. z: only for a map of gradients. */
struct map_room {
    chunk c;
    rows S, z, diagonal;
};

template <typename T> static __host__ __device__ map_room take_map(const recurrence<T> &r, room *at) {
    map_room x = {take_chunk(r, at), {}, {}, {}};
    x.S = at->take(r.padded(), COLUMNS);
    if (r.grad_o.data != nullptr) x.z = at->take(CHUNK, COLUMNS);
    x.diagonal = at->take(1, r.padded());
    return x;
}

template <typename T> static size_t map_workspace_of(const ls_kernel_call *call, const inputs_of_call &of) {
    const recurrence<T> r = recurrence_of<T>(call, of);
    return spare_rooms(r.blocks(), floats_of(r, take_map<T>));
}

template <typename T>
static ls_status launch_map_of(const char *name, const ls_kernel_call *call, const inputs_of_call &of, void *stream,
                               void (*kernel)(map_problem<T>, float *)) {
    const recurrence<T> r = recurrence_of<T>(call, of);
    const map_problem<T> p = {r, output<float>(call, 0), call->out[0].size[2], floats_of(r, take_map<T>)};
    return launch_with_rooms(name, stream, r.blocks(), p.floats, (float *)call->workspace, kernel, p);
}

#endif
