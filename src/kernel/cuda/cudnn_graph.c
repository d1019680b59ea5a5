#include "kernel/cuda/cudnn_graph.h"

#include <string.h>

static const char *const files[] = {"libcudnn.so.9", NULL};
static const char *const functions[] = {CUDNN_FUNCTIONS(LS_LIBRARY_NAME) NULL};
_Static_assert(sizeof(ls_cudnn) == sizeof functions - sizeof *functions, "a pointer for each function");

enum { MOST_CONFIGURATIONS = 16 };

/* Versions before `oldest` need another number than -inf for hidden keys. */
const ls_cuda_library ls_cuda_library_cudnn = {
    .name = "cuDNN", .files = files, .functions = functions, .version = "cudnnGetVersion", .oldest = 91000};

static void note(ls_cudnn_graph *g, const char *function, cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS && g->status.code == LS_OK)
        g->status = ls_error(LS_FAULT, "kernel %s: %s of cuDNN fails: %s", g->kernel, function,
                             g->cudnn.cudnnGetErrorString(status));
}

/* Calls a function of the library unless something has failed before. */
#define CALL(g, function, ...) \
    if ((g)->status.code == LS_OK) note(g, #function, (g)->cudnn.function(__VA_ARGS__))

size_t ls_cudnn_version(void) {
    ls_cudnn cudnn;
    ls_library_facts facts;
    return ls_cuda_library_find(&ls_cuda_library_cudnn, &cudnn, &facts).code == LS_OK ? facts.version : 0;
}

void ls_cudnn_begin(ls_cudnn_graph *g, const char *kernel) {
    *g = (ls_cudnn_graph){.kernel = kernel, .status = ls_ok()};
    const ls_status found = ls_cuda_library_find(&ls_cuda_library_cudnn, &g->cudnn, NULL);
    if (found.code != LS_OK) g->status = ls_error(LS_UNSUPPORTED, "kernel %s: no cuDNN: %s", kernel, found.text);
    CALL(g, cudnnCreate, &g->handle);
}

void ls_cudnn_end(ls_cudnn_graph *g) {
    while (g->n_made > 0) g->cudnn.cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
    if (g->handle != NULL) g->cudnn.cudnnDestroy(g->handle);
    g->handle = NULL;
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t create(ls_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = NULL;
    LS_ASSERT(g->n_made < LS_CUDNN_DESCRIPTORS);
    CALL(g, cudnnBackendCreateDescriptor, type, &made);
    if (made != NULL) g->made[g->n_made++] = made;
    return made;
}

/* Destroys the descriptor that was made last. */
static void destroy_last(ls_cudnn_graph *g) { g->cudnn.cudnnBackendDestroyDescriptor(g->made[--g->n_made]); }

static void set(ls_cudnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    CALL(g, cudnnBackendSetAttribute, d, name, type, count, values);
}

static void set_one(ls_cudnn_graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                    cudnnBackendDescriptor_t value) {
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(ls_cudnn_graph *g, cudnnBackendDescriptor_t d) { CALL(g, cudnnBackendFinalize, d); }

/* --- tensors ------------------------------------------------------------------------------------------------------ */

/* flag: an attribute that is set to true; NULL: none. */
static ls_cudnn_tensor make_tensor(ls_cudnn_graph *g, cudnnDataType_t type, const int64_t size[4],
                                   const int64_t stride[4], int64_t alignment,
                                   const cudnnBackendAttributeName_t *flag) {
    ls_cudnn_tensor t = {.descriptor = create(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR)};
    const int64_t number = ++g->n_tensors;
    const bool is = true;
    memcpy(t.size, size, sizeof t.size);
    memcpy(t.stride, stride, sizeof t.stride);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (flag != NULL) set(g, t.descriptor, *flag, CUDNN_TYPE_BOOLEAN, 1, &is);
    finalize(g, t.descriptor);
    return t;
}

/* Records that the last tensor is an operand (value NULL) or a value. */
static void give(ls_cudnn_graph *g, const void *value) {
    LS_ASSERT(g->n_given < LS_CUDNN_OPERANDS);
    g->number[g->n_given] = g->n_tensors;
    g->value[g->n_given++] = value;
}

ls_cudnn_tensor ls_cudnn_operand(ls_cudnn_graph *g, cudnnDataType_t type, const int64_t size[4],
                                 const int64_t stride[4], int alignment) {
    const ls_cudnn_tensor t = make_tensor(g, type, size, stride, alignment, NULL);
    give(g, NULL);
    return t;
}

ls_cudnn_tensor ls_cudnn_value(ls_cudnn_graph *g, cudnnDataType_t type, const void *value) {
    static const int64_t one[] = {1, 1, 1, 1};
    static const cudnnBackendAttributeName_t by_value = CUDNN_ATTR_TENSOR_IS_BY_VALUE;
    const ls_cudnn_tensor t = make_tensor(g, type, one, one, sizeof(float), &by_value);
    give(g, value);
    return t;
}

ls_cudnn_tensor ls_cudnn_between(ls_cudnn_graph *g, cudnnDataType_t type, const int64_t size[4]) {
    static const cudnnBackendAttributeName_t is_virtual = CUDNN_ATTR_TENSOR_IS_VIRTUAL;
    const int64_t stride[] = {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
    return make_tensor(g, type, size, stride, 16, &is_virtual);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static void add_operation(ls_cudnn_graph *g, cudnnBackendDescriptor_t operation) {
    LS_ASSERT(g->n_operations < LS_CUDNN_OPERATIONS);
    finalize(g, operation);
    g->operation[g->n_operations++] = operation;
}

void ls_cudnn_multiply(ls_cudnn_graph *g, const ls_cudnn_tensor *a, const ls_cudnn_tensor *b,
                       const ls_cudnn_tensor *c) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = create(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(g, how);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_one(g, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(g, operation);
}

static void add_pointwise(ls_cudnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, const int64_t *axis,
                          const ls_cudnn_tensor *x, const ls_cudnn_tensor *b, const ls_cudnn_tensor *t,
                          const ls_cudnn_tensor *y) {
    cudnnBackendDescriptor_t how = create(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis != NULL) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, axis);
    finalize(g, how);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_one(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_one(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->descriptor);
    if (b != NULL) set_one(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
    if (t != NULL) set_one(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y->descriptor);
    add_operation(g, operation);
}

void ls_cudnn_pointwise(ls_cudnn_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, const ls_cudnn_tensor *x,
                        const ls_cudnn_tensor *b, const ls_cudnn_tensor *t, const ls_cudnn_tensor *y) {
    add_pointwise(g, mode, compute, NULL, x, b, t, y);
}

void ls_cudnn_index(ls_cudnn_graph *g, int64_t axis, const ls_cudnn_tensor *x, const ls_cudnn_tensor *y) {
    add_pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, &axis, x, NULL, NULL, y);
}

void ls_cudnn_reduce(ls_cudnn_graph *g, cudnnReduceTensorOp_t op, const ls_cudnn_tensor *x, const ls_cudnn_tensor *y) {
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = create(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    finalize(g, how);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_one(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_one(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y->descriptor);
    add_operation(g, operation);
}

ls_cudnn_tensor ls_cudnn_turned(ls_cudnn_graph *g, cudnnDataType_t type, const ls_cudnn_tensor *x) {
    static const cudnnBackendAttributeName_t is_virtual = CUDNN_ATTR_TENSOR_IS_VIRTUAL;
    const int64_t size[] = {x->size[0], x->size[1], x->size[3], x->size[2]},
                  stride[] = {x->stride[0], x->stride[1], x->stride[3], x->stride[2]};
    const ls_cudnn_tensor y = make_tensor(g, type, size, stride, 16, &is_virtual);
    cudnnBackendDescriptor_t operation = create(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_one(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor);
    set_one(g, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
    add_operation(g, operation);
    return y;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

/*
 * Whether there is a plan for a configuration that fits in the workspace. It is not a failure if the library makes no
 * plan.
 */
static bool try_plan(ls_cudnn_graph *g, cudnnBackendDescriptor_t configuration, int64_t bytes) {
    int64_t needed = 0, found = 0;
    cudnnBackendDescriptor_t plan = create(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
    set_one(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (g->status.code != LS_OK) return false;
    if (g->cudnn.cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS) {
        CALL(g, cudnnBackendGetAttribute, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &found,
             &needed);
        if (g->status.code == LS_OK && needed <= bytes) {
            g->plan = plan;
            return true;
        }
    }
    destroy_last(g);
    return false;
}

/* Tries the heuristic's configurations, the best first. */
static void choose(ls_cudnn_graph *g, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, int64_t bytes) {
    cudnnBackendDescriptor_t found[MOST_CONFIGURATIONS];
    int64_t n = 0;
    cudnnBackendDescriptor_t heuristic = create(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_one(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(g, heuristic);
    for (int i = 0; i < MOST_CONFIGURATIONS; i++) found[i] = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CALL(g, cudnnBackendGetAttribute, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
         MOST_CONFIGURATIONS, &n, found);
    for (int64_t i = 0; i < ls_min(n, MOST_CONFIGURATIONS) && g->status.code == LS_OK; i++)
        if (try_plan(g, found[i], bytes)) return;
}

static cudnnBackendDescriptor_t close_graph(ls_cudnn_graph *g) {
    cudnnBackendDescriptor_t graph = create(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_operations, g->operation);
    finalize(g, graph);
    return graph;
}

static void expect_plan(ls_cudnn_graph *g, int64_t bytes) {
    if (g->status.code == LS_OK && g->plan == NULL)
        g->status = ls_error(LS_UNSUPPORTED, "kernel %s: cuDNN has no plan of at most %lld bytes of workspace",
                             g->kernel, (long long)bytes);
}

void ls_cudnn_plan(ls_cudnn_graph *g, int64_t bytes) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t graph = close_graph(g);
    for (size_t i = 0; i < LS_COUNT(modes) && g->plan == NULL && g->status.code == LS_OK; i++)
        choose(g, graph, modes[i], bytes);
    expect_plan(g, bytes);
}

void ls_cudnn_plan_by(ls_cudnn_graph *g, const ls_cudnn_engine *engine, int64_t bytes) {
    cudnnBackendDescriptor_t graph = close_graph(g), choice[LS_CUDNN_KNOBS],
                             made = create(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_one(g, made, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set(g, made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &engine->number);
    finalize(g, made);
    for (int i = 0; i < LS_CUDNN_KNOBS; i++) {
        choice[i] = create(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(g, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &engine->knob[i].type);
        set(g, choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &engine->knob[i].value);
        finalize(g, choice[i]);
    }
    cudnnBackendDescriptor_t configuration = create(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_one(g, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, made);
    set(g, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, LS_CUDNN_KNOBS, choice);
    finalize(g, configuration);
    (void)try_plan(g, configuration, bytes);
    expect_plan(g, bytes);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t pack(ls_cudnn_graph *g, void *const data[], void *workspace) {
    const void *all[LS_CUDNN_OPERANDS];
    for (int i = 0, operand = 0; i < g->n_given; i++) all[i] = g->value[i] != NULL ? g->value[i] : data[operand++];
    cudnnBackendDescriptor_t made = create(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(g, made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, g->n_given, g->number);
    set(g, made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, g->n_given, all);
    set(g, made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(g, made);
    return made;
}

ls_status ls_cudnn_execute(const ls_cudnn_graph *graph, void *const data[], void *workspace, void *stream) {
    ls_cudnn_graph g = *graph; /* a copy: this launch frees the descriptors that it makes */
    CALL(&g, cudnnSetStream, g.handle, stream);
    cudnnBackendDescriptor_t operands = pack(&g, data, workspace);
    CALL(&g, cudnnBackendExecute, g.handle, g.plan, operands);
    if (operands != NULL) destroy_last(&g);
    return g.status;
}
