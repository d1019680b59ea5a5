/*
 * rnn and rnn_grad: recurrent cells, one token after the other. Forward, a block has a head of one sequence; backward,
 * a head of all sequences, so that sums over sequences have a fixed order. States between tokens are in global memory.
 */
#include "kernel/cuda/cuda_impl.h"

#define cell_real float
#define cell_zero 0.0f
#define CELL_FUNCTION static __device__ __forceinline__
#define cell_tanh tanhf
#define cell_exp expf
#define cell_max fmaxf
#define cell_if_zero(x, a, b) ((x) == 0.0f ? (a) : (b))
static __device__ __forceinline__ float cell_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static __device__ __forceinline__ float cell_log_sigmoid(float x) { return fminf(x, 0.0f) - log1pf(expf(-fabsf(x))); }
#include "kernel/rnn_cells.h"

#define CUDA_CELL(kind, name, gates_, states_, numbers_)                                                           \
    struct cell_##name {                                                                                           \
        enum { gates = gates_, states = states_, numbers = numbers_, of_w = numbers_ > 0 ? numbers_ : gates_ };    \
        static __device__ __forceinline__ void step(cell_given x, cell_given w, cell_given before, float *after) { \
            name##_step(x, w, before, after);                                                                      \
        }                                                                                                          \
        static __device__ __forceinline__ void back(cell_given x, cell_given w, cell_given before, cell_given d,   \
                                                    float *dx, float *dw, float *dbefore) {                        \
            name##_back(x, w, before, d, dx, dw, dbefore);                                                         \
        }                                                                                                          \
    };
LS_RNN_CELLS(CUDA_CELL)

/* The elements i < n of this thread, if the threads of a block share them: for (OF_BLOCK(i, n)). */
#define OF_BLOCK(i, n)       \
    int64_t i = threadIdx.x; \
    i < (n);                 \
    i += CUDA_THREADS

/* A view [B,N,heads,elements] with dense elements. */
template <typename T> struct tokens {
    T *data;
    int64_t sequence, token, head;
    __device__ T *at(int64_t b, int64_t n, int64_t h) const { return data + b * sequence + n * token + h * head; }
};

template <typename T> static tokens<T> tokens_of(const ls_view *v) {
    return {(T *)v->data, v->stride[0], v->stride[1], v->stride[2]};
}

template <typename T> struct operands {
    tokens<const T> x;
    const T *weight, *bias;
    const int32_t *places;
    int64_t of_sequence, of_token; /* strides of places, which is NULL if there are none */
    int64_t B, N, H, D, rows;
    bool biased, ends;
    __device__ int32_t place(int64_t b, int64_t n) const { return places[b * of_sequence + n * of_token]; }
    __device__ bool begins(int64_t b, int64_t n) const { return places != nullptr && !ends && place(b, n) == 0; }
    __device__ bool leaves_state(int64_t b, int64_t n) const { return ends && place(b, n) >= 0; }
};

template <typename T> static operands<T> operands_of(const ls_kernel_call *call, const ls_view *y) {
    const ls_view *places = &call->in[3];
    return {tokens_of<const T>(&call->in[0]),
            input<T>(call, 1),
            input<T>(call, 2),
            places->size[2] > 0 ? (const int32_t *)places->data : nullptr,
            places->stride[0],
            places->stride[1],
            y->size[0],
            y->size[1],
            y->size[2],
            y->size[3],
            call->in[1].size[1],
            call->in[2].size[1] > 0,
            ((const ls_rnn_params *)call->params)->ends};
}

/* The inputs of a cell for an element of a head. */
template <typename C> struct element_of { float x[C::gates], w[C::of_w], before[C::states]; };

template <typename T, typename C>
static __device__ __forceinline__ element_of<C> read_element(const operands<T> &o, int64_t b, int64_t n, int64_t h,
                                                             int64_t d, const float *before) {
    element_of<C> e;
    const T *weight = o.weight + h * o.rows * o.D;
    for (int g = 0; g < C::gates; g++) e.x[g] = to_float(o.x.at(b, n, h)[g * o.D + d]);
    for (int s = 0; s < C::states; s++) e.before[s] = before[s * o.D + d];
    for (int i = 0; i < C::numbers; i++) e.w[i] = to_float(weight[i * o.D + d]);
    for (int g = 0; g < C::gates && C::numbers == 0; g++) {
        const int64_t row = g * o.D + d;
        float sum = o.biased ? to_float(o.bias[h * o.rows + row]) : 0.0f;
        for (int64_t j = 0; j < o.D; j++) sum += to_float(weight[row * o.D + j]) * before[j];
        e.w[g] = sum;
    }
    return e;
}

/*
 * The threads of the block compute the state behind a token from the state in front of it, which is 0 if a document
 * begins with the token.
 */
template <typename T, typename C>
static __device__ __forceinline__ void step_block(const operands<T> &o, int64_t b, int64_t n, int64_t h, float *before,
                                                  float *after) {
    for (OF_BLOCK(i, o.begins(b, n) ? C::states * o.D : 0)) before[i] = 0;
    __syncthreads();
    for (OF_BLOCK(d, o.D)) {
        const element_of<C> e = read_element<T, C>(o, b, n, h, d, before);
        float made[C::states];
        C::step(e.x, e.w, e.before, made);
        for (int s = 0; s < C::states; s++) after[s * o.D + d] = made[s];
    }
    __syncthreads();
}

template <typename T, typename C>
static __global__ void __launch_bounds__(CUDA_THREADS)
    make_results(operands<T> o, tokens<T> y, float *states, float *rooms) {
    const int64_t b = blockIdx.x / o.H, h = blockIdx.x % o.H, size = C::states * o.D;
    float *before = states + blockIdx.x * size, *after = rooms + blockIdx.x * size;
    for (int64_t n = 0; n < o.N; n++) {
        step_block<T, C>(o, b, n, h, before, after);
        for (OF_BLOCK(d, o.D)) y.at(b, n, h)[d] = from_float<T>(after[d]);
        for (OF_BLOCK(i, o.leaves_state(b, n) ? 0 : size)) before[i] = after[i];
        __syncthreads();
    }
}

template <typename T, typename C> static ls_status forward_of(const ls_kernel_call *call, void *stream) {
    const operands<T> o = operands_of<T>(call, &call->out[0]);
    return launch("rnn", stream, o.B * o.H, 0, make_results<T, C>, o, tokens_of<T>(&call->out[0]),
                  output<float>(call, 1), (float *)call->workspace);
}

static size_t workspace(const ls_kernel_call *call) { return sizeof(float) * (size_t)ls_view_elements(&call->out[1]); }

/* --- the gradient ------------------------------------------------------------------------------------------------- */

/* The memory of a head. */
struct rooms_of_head {
    float *states;      /* [N + 1][size] of a sequence, in front of each token */
    float *d, *dbefore; /* [size] */
    float *dw;          /* [of_w][D] */
};

template <typename C> static __host__ __device__ int64_t room_of(int64_t N, int64_t D) {
    return ((N + 3) * C::states + C::of_w) * D;
}

template <typename T> struct gradients {
    tokens<const T> y, dy;
    tokens<T> dx;
    const float *front;
    float *dweight, *dbias, *dstate;
};

template <typename T, typename C>
static __device__ __forceinline__ void back_block(const operands<T> &o, const gradients<T> &g, const rooms_of_head &r,
                                                  int64_t b, int64_t n, int64_t h) {
    const float *before = r.states + n * C::states * o.D;
    for (OF_BLOCK(d, o.D)) {
        const element_of<C> e = read_element<T, C>(o, b, n, h, d, before);
        float after[C::states], dx[C::gates], dw[C::of_w], dbefore[C::states];
        for (int s = 0; s < C::states; s++) after[s] = r.d[s * o.D + d];
        after[0] += to_float(g.dy.at(b, n, h)[d]);
        C::back(e.x, e.w, e.before, after, dx, dw, dbefore);
        for (int i = 0; i < C::gates; i++) g.dx.at(b, n, h)[i * o.D + d] = from_float<T>(dx[i]);
        for (int i = 0; i < C::of_w; i++) r.dw[i * o.D + d] = dw[i];
        for (int s = 0; s < C::states; s++) r.dbefore[s * o.D + d] = dbefore[s];
    }
    __syncthreads();
    float *dweight = g.dweight + h * o.rows * o.D;
    for (OF_BLOCK(i, C::numbers * o.D)) dweight[i] += r.dw[i];
    for (OF_BLOCK(i, C::numbers == 0 ? o.rows * o.D : 0)) dweight[i] += r.dw[i / o.D] * before[i % o.D];
    for (OF_BLOCK(i, o.biased ? o.rows : 0)) g.dbias[h * o.rows + i] += r.dw[i];
    const bool begins = o.begins(b, n);
    for (OF_BLOCK(i, C::states * o.D)) {
        float sum = r.dbefore[i];
        for (int64_t row = 0; row < o.rows && C::numbers == 0 && i < o.D; row++)
            sum += to_float(o.weight[(h * o.rows + row) * o.D + i]) * r.dw[row];
        r.d[i] = begins ? 0.0f : sum;
    }
    __syncthreads();
}

template <typename T, typename C>
static __global__ void __launch_bounds__(CUDA_THREADS) make_gradients(operands<T> o, gradients<T> g, float *rooms) {
    const int64_t h = blockIdx.x, size = C::states * o.D;
    rooms_of_head r;
    r.states = rooms + h * room_of<C>(o.N, o.D);
    r.d = r.states + (o.N + 1) * size;
    r.dbefore = r.d + size;
    r.dw = r.dbefore + size;
    for (int64_t b = 0; b < o.B; b++) {
        const int64_t at = (b * o.H + h) * size;
        for (OF_BLOCK(i, size)) r.states[i] = g.front[at + i];
        for (OF_BLOCK(i, size)) r.d[i] = g.dstate[at + i];
        __syncthreads();
        for (int64_t n = 0; n < o.N; n++) {
            float *after = r.states + (n + 1) * size;
            step_block<T, C>(o, b, n, h, r.states + n * size, after);
            for (OF_BLOCK(d, o.D)) after[d] = to_float(g.y.at(b, n, h)[d]);
            __syncthreads();
        }
        for (int64_t n = o.N - 1; n >= 0; n--) back_block<T, C>(o, g, r, b, n, h);
        for (OF_BLOCK(i, size)) g.dstate[at + i] = r.d[i];
        __syncthreads();
    }
}

template <typename T, typename C> static ls_status backward_of(const ls_kernel_call *call, void *stream) {
    const operands<T> o = operands_of<T>(call, &call->in[4]);
    const gradients<T> g = {tokens_of<const T>(&call->in[4]),
                            tokens_of<const T>(&call->in[5]),
                            tokens_of<T>(&call->out[0]),
                            input<float>(call, 6),
                            output<float>(call, 1),
                            output<float>(call, 2),
                            output<float>(call, 3)};
    return launch("rnn_grad", stream, o.H, 0, make_gradients<T, C>, o, g, (float *)call->workspace);
}

template <typename C> static size_t grad_bytes(const ls_kernel_call *call) {
    const ls_view *y = &call->in[4];
    return sizeof(float) * (size_t)(y->size[2] * room_of<C>(y->size[1], y->size[3]));
}

/* --- by kind ------------------------------------------------------------------------------------------------------ */

typedef ls_status (*launch_of_kind)(const ls_kernel_call *call, void *stream);

static ls_rnn_kind kind_of(const ls_kernel_call *call) { return ((const ls_rnn_params *)call->params)->kind; }

template <typename T> static ls_status launch_forward(const ls_kernel_call *call, void *, void *stream) {
#define FORWARD(kind, name, gates, states, numbers) forward_of<T, cell_##name>,
    static const launch_of_kind of[] = {LS_RNN_CELLS(FORWARD)};
    return of[kind_of(call)](call, stream);
}

template <typename T> static ls_status launch_backward(const ls_kernel_call *call, void *, void *stream) {
#define BACKWARD(kind, name, gates, states, numbers) backward_of<T, cell_##name>,
    static const launch_of_kind of[] = {LS_RNN_CELLS(BACKWARD)};
    return of[kind_of(call)](call, stream);
}

static size_t grad_workspace(const ls_kernel_call *call) {
#define BYTES(kind, name, gates, states, numbers) grad_bytes<cell_##name>,
    static size_t (*const of[])(const ls_kernel_call *) = {LS_RNN_CELLS(BYTES)};
    return of[kind_of(call)](call);
}

CUDA_ROWS(RNN, rnn, launch_forward, workspace)
CUDA_ROWS(RNN_GRAD, rnn_grad, launch_backward, grad_workspace)
