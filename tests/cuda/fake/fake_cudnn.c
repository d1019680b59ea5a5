/*
 * Stands in for libcudnn's graphs: checks descriptors as they are set and finalized, and executes any graph of the
 * operations that cudnn.h names, one after the other, in f64, on whole tensors. Results that have a type are rounded to
 * it. Of the configurations that its heuristic offers only the last may be taken; of engines by number it has those
 * that the gradient of attention asks for, and none where a test lets "engine" fail (fake.h).
 */
#include "base/base.h"
#include "cuda/fake/fake.h"
#include "kernel/cuda/cudnn.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

extern fake_library fake_cudnn;
fake_library fake_cudnn;

enum { SPACE = 1000, TOO_MUCH = 1 << 30, PLACE = 256, MOST = 48, CONFIGURATIONS = 3 };

struct cudnnContext {
    long life; /* of the context in which it was made */
    cudaStream_t stream;
};

/* A descriptor of any type; each has some of these. */
typedef struct object {
    cudnnBackendDescriptorType_t type;
    bool final;
    cudnnDataType_t data;
    int64_t size[4], stride[4], number, alignment; /* of a tensor */
    bool between, by_value;
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    cudnnReduceTensorOp_t reduction;
    int64_t axis;
    struct object *how, *x, *b, *t, *y; /* of an operation */
    cudnnHandle_t handle;
    struct object *operation[MOST], *of; /* of a graph; what a heuristic, a configuration or a plan is of */
    int64_t n;
    cudnnBackendHeurMode_t search;
    int place;            /* of a configuration among those of a heuristic */
    int64_t index, value; /* of an engine; of a knob */
    cudnnBackendKnobType_t knob;
    int64_t numbers[MOST];
    void *pointers[MOST], *workspace; /* of a pack */
} object;

#define EXPECT(is) \
    if (!fake_expect(&fake_cudnn, (is), __func__, #is)) return CUDNN_STATUS_NOT_SUPPORTED
#define MAY_FAIL() \
    if (fake_fails(&fake_cudnn, __func__)) return CUDNN_STATUS_NOT_SUPPORTED

const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS";
}

size_t fake_version(void) { return 92800; }

/* FAKE_CUDNN_VERSION in the environment says another one. */
size_t cudnnGetVersion(void) {
    const char *const other = getenv("FAKE_CUDNN_VERSION");
    return fake_fails(&fake_cudnn, "an older version") ? 90900 : other != NULL ? (size_t)atoi(other) : fake_version();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    MAY_FAIL();
    const long life = fake_life(__func__);
    fake_cudnn.objects++;
    *handle = calloc(1, sizeof **handle);
    (*handle)->life = life;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    fake_need_life(__func__, handle->life);
    fake_cudnn.objects--;
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    MAY_FAIL();
    EXPECT(handle != NULL);
    fake_need_life(__func__, handle->life);
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
    MAY_FAIL();
    object *made = calloc(1, sizeof *made);
    fake_cudnn.objects++;
    made->type = type;
    made->axis = -1;
    *descriptor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    fake_cudnn.objects--;
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* Where an attribute is kept: of which descriptor, which type and how many of it, from where on, of what size. */
typedef struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeType_t type;
    int64_t most;
    size_t at, bytes;
} attribute;

#define AT(member) offsetof(object, member)
#define DESCRIPTOR CUDNN_TYPE_BACKEND_DESCRIPTOR
#define TENSOR CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define POINTWISE CUDNN_BACKEND_POINTWISE_DESCRIPTOR
#define OF_POINTWISE CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
#define OF_MATMUL CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
#define OF_REDUCTION CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
#define OF_RESHAPE CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
#define REDUCTION CUDNN_BACKEND_REDUCTION_DESCRIPTOR
#define ENGINE CUDNN_BACKEND_ENGINE_DESCRIPTOR
#define KNOB CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR
#define GRAPH CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
#define HEURISTIC CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
#define CONFIGURATION CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
#define PLAN CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
#define PACK CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR

static const attribute attributes[] = {
    {CUDNN_ATTR_TENSOR_DATA_TYPE, TENSOR, CUDNN_TYPE_DATA_TYPE, 1, AT(data), sizeof(int)},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, TENSOR, CUDNN_TYPE_INT64, 4, AT(size), sizeof(int64_t)},
    {CUDNN_ATTR_TENSOR_STRIDES, TENSOR, CUDNN_TYPE_INT64, 4, AT(stride), sizeof(int64_t)},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, TENSOR, CUDNN_TYPE_INT64, 1, AT(number), sizeof(int64_t)},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, TENSOR, CUDNN_TYPE_INT64, 1, AT(alignment), sizeof(int64_t)},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, TENSOR, CUDNN_TYPE_BOOLEAN, 1, AT(between), sizeof(bool)},
    {CUDNN_ATTR_TENSOR_IS_BY_VALUE, TENSOR, CUDNN_TYPE_BOOLEAN, 1, AT(by_value), sizeof(bool)},
    {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_TYPE_DATA_TYPE, 1, AT(compute), sizeof(int)},
    {CUDNN_ATTR_OPERATION_MATMUL_ADESC, OF_MATMUL, DESCRIPTOR, 1, AT(x), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_MATMUL_BDESC, OF_MATMUL, DESCRIPTOR, 1, AT(b), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_MATMUL_CDESC, OF_MATMUL, DESCRIPTOR, 1, AT(y), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_MATMUL_DESC, OF_MATMUL, DESCRIPTOR, 1, AT(how), sizeof(void *)},
    {CUDNN_ATTR_POINTWISE_MODE, POINTWISE, CUDNN_TYPE_POINTWISE_MODE, 1, AT(mode), sizeof(int)},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, POINTWISE, CUDNN_TYPE_DATA_TYPE, 1, AT(compute), sizeof(int)},
    {CUDNN_ATTR_POINTWISE_AXIS, POINTWISE, CUDNN_TYPE_INT64, 1, AT(axis), sizeof(int64_t)},
    {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, OF_POINTWISE, DESCRIPTOR, 1, AT(how), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, OF_POINTWISE, DESCRIPTOR, 1, AT(x), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, OF_POINTWISE, DESCRIPTOR, 1, AT(b), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, OF_POINTWISE, DESCRIPTOR, 1, AT(t), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, OF_POINTWISE, DESCRIPTOR, 1, AT(y), sizeof(void *)},
    {CUDNN_ATTR_REDUCTION_OPERATOR, REDUCTION, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, AT(reduction), sizeof(int)},
    {CUDNN_ATTR_REDUCTION_COMP_TYPE, REDUCTION, CUDNN_TYPE_DATA_TYPE, 1, AT(compute), sizeof(int)},
    {CUDNN_ATTR_OPERATION_REDUCTION_DESC, OF_REDUCTION, DESCRIPTOR, 1, AT(how), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, OF_REDUCTION, DESCRIPTOR, 1, AT(x), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, OF_REDUCTION, DESCRIPTOR, 1, AT(y), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, OF_RESHAPE, DESCRIPTOR, 1, AT(x), sizeof(void *)},
    {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, OF_RESHAPE, DESCRIPTOR, 1, AT(y), sizeof(void *)},
    {CUDNN_ATTR_ENGINE_OPERATION_GRAPH, ENGINE, DESCRIPTOR, 1, AT(of), sizeof(void *)},
    {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, ENGINE, CUDNN_TYPE_INT64, 1, AT(index), sizeof(int64_t)},
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, KNOB, CUDNN_TYPE_KNOB_TYPE, 1, AT(knob), sizeof(int)},
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, KNOB, CUDNN_TYPE_INT64, 1, AT(value), sizeof(int64_t)},
    {CUDNN_ATTR_ENGINECFG_ENGINE, CONFIGURATION, DESCRIPTOR, 1, AT(how), sizeof(void *)},
    {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CONFIGURATION, DESCRIPTOR, MOST, AT(operation), sizeof(void *)},
    {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, GRAPH, CUDNN_TYPE_HANDLE, 1, AT(handle), sizeof(void *)},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, GRAPH, DESCRIPTOR, MOST, AT(operation), sizeof(void *)},
    {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, HEURISTIC, DESCRIPTOR, 1, AT(of), sizeof(void *)},
    {CUDNN_ATTR_ENGINEHEUR_MODE, HEURISTIC, CUDNN_TYPE_HEUR_MODE, 1, AT(search), sizeof(int)},
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, PLAN, CUDNN_TYPE_HANDLE, 1, AT(handle), sizeof(void *)},
    {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, PLAN, DESCRIPTOR, 1, AT(of), sizeof(void *)},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, PACK, CUDNN_TYPE_INT64, MOST, AT(numbers), sizeof(int64_t)},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, PACK, CUDNN_TYPE_VOID_PTR, MOST, AT(pointers), sizeof(void *)},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, PACK, CUDNN_TYPE_VOID_PTR, 1, AT(workspace), sizeof(void *)},
};

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    MAY_FAIL();
    object *o = descriptor;
    const attribute *a = NULL;
    for (size_t i = 0; i < LS_COUNT(attributes); i++)
        if (attributes[i].name == name) a = &attributes[i];
    EXPECT(a != NULL && o != NULL && a->of == o->type && a->type == type);
    EXPECT(!o->final);
    EXPECT(a->most == MOST ? count > 0 && count <= MOST : count == a->most);
    memcpy((char *)o + a->at, values, a->bytes * (size_t)count);
    if (a->most == MOST) o->n = count;
    return CUDNN_STATUS_SUCCESS;
}

/* --- finalizing --------------------------------------------------------------------------------------------------- */

static bool is_final(const object *o, cudnnBackendDescriptorType_t type) {
    return o != NULL && o->final && o->type == type;
}

/* Each size of `small` is that of `large`, or 1. */
static bool spreads_over(const object *small, const object *large) {
    bool is = true;
    for (int d = 0; d < 4; d++) is &= small->size[d] == large->size[d] || small->size[d] == 1;
    return is;
}

static cudnnStatus_t check_matmul(const object *o) {
    const int64_t *a = o->x->size, *b = o->b->size, *c = o->y->size;
    EXPECT(is_final(o->how, CUDNN_BACKEND_MATMUL_DESCRIPTOR) && o->how->compute == CUDNN_DATA_FLOAT);
    EXPECT(a[3] == b[2] && c[2] == a[2] && c[3] == b[3]);
    EXPECT(a[0] == b[0] && a[0] == c[0] && a[1] == c[1] && a[1] % b[1] == 0);
    EXPECT(o->b->data == CUDNN_DATA_BFLOAT16 && (o->x->data == CUDNN_DATA_BFLOAT16 || o->x->between));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pointwise(const object *o) {
    EXPECT(is_final(o->how, POINTWISE));
    const cudnnPointwiseMode_t mode = o->how->mode;
    const bool one = mode == CUDNN_POINTWISE_EXP || mode == CUDNN_POINTWISE_LOG || mode == CUDNN_POINTWISE_GEN_INDEX;
    EXPECT((o->b == NULL) == one && (o->t != NULL) == (mode == CUDNN_POINTWISE_BINARY_SELECT));
    EXPECT((o->how->axis >= 2 && o->how->axis < 4) == (mode == CUDNN_POINTWISE_GEN_INDEX));
    EXPECT(spreads_over(o->x, o->y));
    EXPECT(o->b == NULL || (is_final(o->b, TENSOR) && spreads_over(o->b, o->y)));
    EXPECT(o->t == NULL || (is_final(o->t, TENSOR) && spreads_over(o->t, o->y) && o->t->data == CUDNN_DATA_BOOLEAN));
    return CUDNN_STATUS_SUCCESS;
}

/* Query heads may be summed by groups. */
static cudnnStatus_t check_reduction(const object *o) {
    object first = *o->y;
    if (o->y->size[1] > 1 && o->x->size[1] % o->y->size[1] == 0) first.size[1] = o->x->size[1];
    EXPECT(is_final(o->how, REDUCTION) && o->how->compute == CUDNN_DATA_FLOAT && spreads_over(&first, o->x));
    return CUDNN_STATUS_SUCCESS;
}

/* The last two dimensions are exchanged. */
static cudnnStatus_t check_reshape(const object *o) {
    for (int d = 0; d < 4; d++) {
        const int from = d < 2 ? d : 5 - d;
        EXPECT(o->y->size[d] == o->x->size[from] && o->y->stride[d] == o->x->stride[from]);
    }
    EXPECT(o->y->between);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_operation(const object *o) {
    EXPECT(is_final(o->x, TENSOR) && is_final(o->y, TENSOR));
    if (o->type == OF_MATMUL) return check_matmul(o);
    if (o->type == OF_POINTWISE) return check_pointwise(o);
    return o->type == OF_RESHAPE ? check_reshape(o) : check_reduction(o);
}

static bool is_made_before(const object *graph, int64_t operation, const object *tensor) {
    if (tensor == NULL || !tensor->between) return true;
    for (int64_t i = 0; i < operation; i++)
        if (graph->operation[i]->y == tensor) return true;
    return false;
}

static cudnnStatus_t check_graph(const object *g) {
    EXPECT(g->handle != NULL && g->n > 0);
    for (int64_t i = 0; i < g->n; i++) {
        const object *o = g->operation[i];
        EXPECT(is_final(o, o->type));
        EXPECT(is_made_before(g, i, o->x) && is_made_before(g, i, o->b) && is_made_before(g, i, o->t));
        EXPECT(!is_made_before(g, i, o->y) || !o->y->between);
    }
    return CUDNN_STATUS_SUCCESS;
}

static int64_t knob_of(const object *configuration, cudnnBackendKnobType_t type) {
    for (int64_t i = 0; i < configuration->n; i++)
        if (configuration->operation[i]->knob == type) return configuration->operation[i]->value;
    return -1;
}

/* By an engine that adds in a fixed order, which is set to do so. */
static cudnnStatus_t check_configuration(object *c) {
    EXPECT(is_final(c->how, ENGINE) && c->how->index == 5);
    EXPECT(knob_of(c, CUDNN_KNOB_TYPE_STAGES) == 2);
    if (fake_cudnn.failing != NULL && strcmp(fake_cudnn.failing, "engine") == 0) return CUDNN_STATUS_NOT_SUPPORTED;
    c->of = c->how->of;
    c->place = 2;
    return CUDNN_STATUS_SUCCESS;
}

/* Engines write bf16, whatever type is asked for. */
static cudnnStatus_t check_plan(const object *p) {
    EXPECT(p->handle != NULL && is_final(p->of, CONFIGURATION));
    const object *graph = p->of->of;
    for (int64_t i = 0; i < graph->n; i++) {
        const object *o = graph->operation[i];
        EXPECT(o->type != OF_MATMUL || o->y->between || o->y->data == CUDNN_DATA_BFLOAT16);
    }
    return p->of->place == 0 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

static bool is_operation(const object *o) {
    return o->type == OF_MATMUL || o->type == OF_POINTWISE || o->type == OF_REDUCTION || o->type == OF_RESHAPE;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    MAY_FAIL();
    object *o = descriptor;
    EXPECT(!o->final);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (is_operation(o)) status = check_operation(o);
    if (o->type == CONFIGURATION) status = check_configuration(o);
    if (o->type == GRAPH) status = check_graph(o);
    if (o->type == PLAN) status = check_plan(o);
    EXPECT(o->type != TENSOR || (o->number > 0 && o->alignment > 0 && o->size[0] > 0 && !(o->between && o->by_value)));
    EXPECT((o->type != HEURISTIC && o->type != ENGINE) || is_final(o->of, GRAPH));
    o->final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *found, void *values) {
    MAY_FAIL();
    object *o = descriptor;
    EXPECT(o->final);
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        EXPECT(o->type == PLAN && type == CUDNN_TYPE_INT64 && most == 1);
        const int64_t bytes = o->of->place == 1 ? TOO_MUCH : SPACE;
        memcpy(values, &bytes, sizeof bytes);
        return CUDNN_STATUS_SUCCESS;
    }
    EXPECT(name == CUDNN_ATTR_ENGINEHEUR_RESULTS && o->type == HEURISTIC && type == DESCRIPTOR);
    EXPECT(most >= CONFIGURATIONS);
    *found = fake_fails(&fake_cudnn, "no plan") ? 1 : CONFIGURATIONS;
    if (o->search == CUDNN_HEUR_MODE_FALLBACK) *found = 0;
    for (int i = 0; i < *found; i++) {
        object *configuration = ((object **)values)[i];
        EXPECT(configuration->type == CONFIGURATION && !configuration->final);
        configuration->final = true;
        configuration->of = o->of;
        configuration->place = i;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* --- executing ---------------------------------------------------------------------------------------------------- */

/* A tensor's numbers: dense, for as long as a graph is executed. */
typedef struct numbers {
    const object *of;
    double *x;
} numbers;

typedef struct execution {
    const object *pack;
    numbers between[MOST];
    int n;
} execution;

static int64_t count_of(const object *t) { return t->size[0] * t->size[1] * t->size[2] * t->size[3]; }

/* Number i of the elements of `shape`, as an index into t, whose dimensions of size 1 are repeated. */
static int64_t index_in(const object *t, const object *shape, int64_t i, const int64_t stride[4]) {
    int64_t at = 0;
    for (int d = 3; d >= 0; d--) {
        at += (t->size[d] == 1 ? 0 : i % shape->size[d]) * stride[d];
        i /= shape->size[d];
    }
    return at;
}

static void dense_strides(const object *t, int64_t out[4]) {
    out[3] = 1;
    for (int d = 2; d >= 0; d--) out[d] = out[d + 1] * t->size[d + 1];
}

static void *pointer_of(const execution *e, const object *t) {
    for (int64_t i = 0; i < e->pack->n; i++)
        if (e->pack->numbers[i] == t->number) return e->pack->pointers[i];
    return NULL;
}

static double get(const execution *e, const object *t, const object *shape, int64_t i) {
    int64_t dense[4];
    dense_strides(t, dense);
    for (int k = 0; k < e->n; k++)
        if (e->between[k].of == t) return e->between[k].x[index_in(t, shape, i, dense)];
    const void *data = pointer_of(e, t);
    const int64_t at = index_in(t, shape, i, t->stride);
    if (t->data == CUDNN_DATA_BFLOAT16) return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[at]);
    if (t->data == CUDNN_DATA_INT32) return ((const int32_t *)data)[at];
    return (double)((const float *)data)[at];
}

static void put(void *data, cudnnDataType_t type, int64_t at, float x) {
    if (type == CUDNN_DATA_BFLOAT16)
        ((ls_bf16 *)data)[at] = ls_bf16_from_f32(x);
    else
        ((float *)data)[at] = x;
}

/* Puts all numbers of a result where they belong, rounded. */
static void put_all(execution *e, const object *t, double *x) {
    for (int64_t i = 0; i < count_of(t); i++) {
        const float rounded =
            t->data == CUDNN_DATA_BFLOAT16 ? ls_bf16_to_f32(ls_bf16_from_f32((float)x[i])) : (float)x[i];
        x[i] = (double)rounded;
        if (!t->between) put(pointer_of(e, t), t->data, index_in(t, t, i, t->stride), rounded);
    }
    if (t->between)
        e->between[e->n++] = (numbers){t, x};
    else
        free(x);
}

static double of_two(cudnnPointwiseMode_t mode, double x, double b) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_EXP:
        return exp(x);
    case CUDNN_POINTWISE_LOG:
        return log(x);
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_GEN_INDEX:
    case CUDNN_POINTWISE_BINARY_SELECT:
        break;
    }
    return x;
}

static void pointwise(execution *e, const object *o, double *out) {
    int64_t dense[4];
    dense_strides(o->y, dense);
    for (int64_t i = 0; i < count_of(o->y); i++) {
        const double x = get(e, o->x, o->y, i), b = o->b != NULL ? get(e, o->b, o->y, i) : 0;
        if (o->how->mode == CUDNN_POINTWISE_GEN_INDEX)
            out[i] = (double)(i / dense[o->how->axis] % o->y->size[o->how->axis]);
        else if (o->t != NULL)
            out[i] = get(e, o->t, o->y, i) != 0 ? x : b;
        else
            out[i] = of_two(o->how->mode, x, b);
    }
}

static void reduce(execution *e, const object *o, double *out) {
    int64_t dense[4];
    const bool adds = o->how->reduction == CUDNN_REDUCE_TENSOR_ADD;
    dense_strides(o->y, dense);
    for (int64_t i = 0; i < count_of(o->y); i++) out[i] = adds ? 0 : -INFINITY;
    object groups = *o->x; /* its heads are numbered by groups */
    groups.size[1] = o->y->size[1];
    for (int64_t i = 0; i < count_of(o->x); i++) {
        const int64_t row = o->x->size[2] * o->x->size[3], head = i / row % o->x->size[1],
                      batch = i / row / o->x->size[1];
        const int64_t group = head / (o->x->size[1] / groups.size[1]);
        double *to = &out[index_in(o->y, &groups, (batch * groups.size[1] + group) * row + i % row, dense)];
        const double x = get(e, o->x, o->x, i);
        *to = adds ? *to + x : fmax(*to, x);
    }
}

static void reshape(execution *e, const object *o, double *out) {
    const int64_t rows = o->y->size[2], columns = o->y->size[3];
    for (int64_t i = 0; i < count_of(o->y); i++) {
        const int64_t outer = i / (rows * columns), row = i / columns % rows, column = i % columns;
        out[i] = get(e, o->x, o->x, (outer * columns + column) * rows + row);
    }
}

/* As tensor cores take it, whatever the type that a result between operations has. */
static double rounded(double x) { return (double)ls_bf16_to_f32(ls_bf16_from_f32((float)x)); }

static void multiply(execution *e, const object *o, double *out) {
    const int64_t *a = o->x->size, *b = o->b->size, *c = o->y->size;
    for (int64_t i = 0; i < count_of(o->y); i++) {
        const int64_t batch = i / (c[1] * c[2] * c[3]), head = i / (c[2] * c[3]) % c[1], m = i / c[3] % c[2];
        const int64_t row = ((batch * a[1] + head) * a[2] + m) * a[3], own = head / (a[1] / b[1]);
        out[i] = 0;
        for (int64_t k = 0; k < a[3]; k++)
            out[i] += rounded(get(e, o->x, o->x, row + k)) *
                      get(e, o->b, o->b, ((batch * b[1] + own) * b[2] + k) * b[3] + i % c[3]);
    }
}

/* Whether the tensor has memory that is as it was announced, if it needs some. */
static bool has_memory(const execution *e, const object *t) {
    if (t == NULL || t->between) return true;
    const void *data = pointer_of(e, t);
    return data != NULL && (uintptr_t)data % (uint64_t)t->alignment == 0;
}

static void touch_ends(const execution *e, const object *t) {
    if (t == NULL || t->between || t->by_value) return;
    const int64_t bytes = t->data == CUDNN_DATA_BFLOAT16 ? 2 : 4;
    int64_t last = 0;
    for (int d = 0; d < 4; d++) last += (t->size[d] - 1) * t->stride[d];
    fake_touch_ends(pointer_of(e, t), bytes * (last + 1) - 1);
}

static void touch_all_ends(const execution *e, const object *o) {
    touch_ends(e, o->x);
    touch_ends(e, o->b);
    touch_ends(e, o->t);
    touch_ends(e, o->y);
}

static void execute_operation(execution *e, const object *o, double *out) {
    if (o->type == OF_MATMUL) multiply(e, o, out);
    if (o->type == OF_POINTWISE) pointwise(e, o, out);
    if (o->type == OF_REDUCTION) reduce(e, o, out);
    if (o->type == OF_RESHAPE) reshape(e, o, out);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    MAY_FAIL();
    const object *p = plan;
    EXPECT(is_final(p, PLAN) && is_final(pack, PACK) && p->handle == handle && p->of->place == 2);
    fake_need_life(__func__, handle->life);
    execution e = {.pack = pack};
    EXPECT((uintptr_t)e.pack->workspace % PLACE == 0);
    memset(e.pack->workspace, 0xee, SPACE);
    const object *graph = p->of->of;
    for (int64_t i = 0; i < graph->n; i++) {
        const object *o = graph->operation[i];
        EXPECT(has_memory(&e, o->x) && has_memory(&e, o->b) && has_memory(&e, o->t) && has_memory(&e, o->y));
        if (fake_ends_only()) {
            touch_all_ends(&e, o);
            continue;
        }
        double *out = malloc(sizeof *out * (size_t)count_of(o->y));
        execute_operation(&e, o, out);
        put_all(&e, o->y, out);
    }
    for (int i = 0; i < e.n; i++) free(e.between[i].x);
    return CUDNN_STATUS_SUCCESS;
}
