/*
 * A graph of cuDNN's operations on tensors of four dimensions, and the plan by which the library executes it. Functions
 * return the tensors that they make. `status` keeps the first failure; after it, functions do nothing.
 */
#ifndef LS_KERNEL_CUDA_CUDNN_GRAPH_H
#define LS_KERNEL_CUDA_CUDNN_GRAPH_H

#include "kernel/cuda/cudnn.h"
#include "kernel/cuda/library.h"

typedef struct ls_cudnn {
    CUDNN_FUNCTIONS(LS_LIBRARY_MEMBER)
} ls_cudnn;

enum { LS_CUDNN_DESCRIPTORS = 192, LS_CUDNN_OPERATIONS = 32, LS_CUDNN_OPERANDS = 24, LS_CUDNN_KNOBS = 6 };

typedef struct ls_cudnn_tensor {
    cudnnBackendDescriptor_t descriptor;
    int64_t size[4], stride[4];
} ls_cudnn_tensor;

typedef struct ls_cudnn_graph {
    ls_cudnn cudnn;
    ls_status status;
    const char *kernel; /* for messages */
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t made[LS_CUDNN_DESCRIPTORS]; /* all that exist */
    cudnnBackendDescriptor_t operation[LS_CUDNN_OPERATIONS];
    cudnnBackendDescriptor_t plan;
    int n_made, n_operations;
    int64_t n_tensors;                    /* numbered 1, 2, ... */
    int64_t number[LS_CUDNN_OPERANDS];    /* the tensors that are operands or values */
    const void *value[LS_CUDNN_OPERANDS]; /* NULL: the tensor is an operand */
    int n_given;
} ls_cudnn_graph;

/* An engine of the library, and its settings. */
typedef struct ls_cudnn_engine {
    int64_t number;
    struct {
        cudnnBackendKnobType_t type;
        int64_t value;
    } knob[LS_CUDNN_KNOBS];
} ls_cudnn_engine;

/* The library's version, 91900 for 9.19.0; 0: the library is missing or too old. */
size_t ls_cudnn_version(void);

/* Makes an empty graph; ls_cudnn_end frees everything in it, also after a failure. */
void ls_cudnn_begin(ls_cudnn_graph *graph, const char *kernel);
void ls_cudnn_end(ls_cudnn_graph *graph);

/* A tensor in memory that begins at a multiple of `alignment` bytes; strides in elements. */
ls_cudnn_tensor ls_cudnn_operand(ls_cudnn_graph *graph, cudnnDataType_t type, const int64_t size[4],
                                 const int64_t stride[4], int alignment);
/* One number in memory of the host, which is read when the graph is executed and must exist until then. */
ls_cudnn_tensor ls_cudnn_value(ls_cudnn_graph *graph, cudnnDataType_t type, const void *value);
/* A result that is only used as an operand of another operation. */
ls_cudnn_tensor ls_cudnn_between(ls_cudnn_graph *graph, cudnnDataType_t type, const int64_t size[4]);

/* x with the last two dimensions exchanged, of that type. */
ls_cudnn_tensor ls_cudnn_turned(ls_cudnn_graph *graph, cudnnDataType_t type, const ls_cudnn_tensor *x);

/* c = a b in f32, for each index of the first two dimensions; b may have fewer indices there than a. */
void ls_cudnn_multiply(ls_cudnn_graph *graph, const ls_cudnn_tensor *a, const ls_cudnn_tensor *b,
                       const ls_cudnn_tensor *c);
/*
 * y = the mode's function of x, and of b and t if the mode has them (NULL: it has not). A select takes x where t is
 * true, else b.
 */
void ls_cudnn_pointwise(ls_cudnn_graph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                        const ls_cudnn_tensor *x, const ls_cudnn_tensor *b, const ls_cudnn_tensor *t,
                        const ls_cudnn_tensor *y);
/* y = the index along the axis, for each element of the form of x. */
void ls_cudnn_index(ls_cudnn_graph *graph, int64_t axis, const ls_cudnn_tensor *x, const ls_cudnn_tensor *y);
/*
 * y = x reduced along each dimension in which y has the size 1; where y has another size than x, over groups of
 * neighbours.
 */
void ls_cudnn_reduce(ls_cudnn_graph *graph, cudnnReduceTensorOp_t op, const ls_cudnn_tensor *x,
                     const ls_cudnn_tensor *y);

/* Takes the first plan offered by the library's heuristic that needs at most `bytes` of workspace. */
void ls_cudnn_plan(ls_cudnn_graph *graph, int64_t bytes);
/* Takes the plan of this engine with its settings. */
void ls_cudnn_plan_by(ls_cudnn_graph *graph, const ls_cudnn_engine *engine, int64_t bytes);
/* Submits the plan to the stream. data: the addresses of the operands, in the order in which they were made. */
LS_MUST_USE ls_status ls_cudnn_execute(const ls_cudnn_graph *graph, void *const data[], void *workspace, void *stream);

#endif
