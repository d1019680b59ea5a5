/*
 * imported: a graph.json in memory, for the files that read, check and build it. docs/graph-format.md describes the
 * file.
 */
#ifndef LS_MODEL_IMPORTED_IMPL_H
#define LS_MODEL_IMPORTED_IMPL_H

#include "graph/graph.h"
#include "model/model_impl.h"

/*
 * The unit of a size in the file: a plain number, or a multiple of the batch size or the sequence length that the
 * command gives.
 */
typedef enum ls_imported_unit { LS_SIZE_NUMBER, LS_SIZE_B, LS_SIZE_S } ls_imported_unit;
typedef struct ls_imported_size {
    ls_imported_unit unit;
    int64_t number;
} ls_imported_size;

/* The most inputs of a node: concat has this many. */
enum { LS_IMPORTED_INPUTS = 64 };

typedef enum ls_imported_reduction { LS_IMPORTED_SUM, LS_IMPORTED_MEAN, LS_IMPORTED_MAX } ls_imported_reduction;

/* The params of a node; each op uses some of them. */
typedef struct ls_imported_params {
    int64_t padding, D, tokens;
    double epsilon, offset, scale, softcap, cap, factor;
    bool wide;       /* of cast: to G, not T */
    bool gate_first; /* of gated_norm */
    ls_rope rope;
    bool has_mask;
    ls_mask mask;
    int ndim;
    ls_imported_size size[LS_MAX_DIMS];
    int order[LS_MAX_DIMS]; /* of permute */
    int dim;                /* of slice, concat and softmax */
    int64_t start, length, step;
    ls_imported_reduction kind; /* of reduce */
    unsigned over;
    bool keep, shared;
    const char *equation;
    ls_map_params map; /* complete except for the number of inputs */
} ls_imported_params;

/* What an op's call is given. */
typedef struct ls_imported_call {
    ls_graph *g;
    const ls_model_lengths *lengths;
    const ls_imported_params *params;
    ls_tensor in[LS_IMPORTED_INPUTS]; /* LS_NO_TENSOR where the file says null */
    int n_in, n_out;
    ls_language_model *lm; /* inputs with a meaning; an op may declare one that is not there yet */
    ls_tensor out[LS_NODE_OUTPUTS];
} ls_imported_call;

/* An op of the file is one const row of a table in imported_ops.c or imported_general.c. */
typedef struct ls_imported_op {
    const char *name;
    int least_in, most_in;     /* inputs from least_in on may be null or left out */
    int n_out;                 /* 0: the number that the node gives */
    const char *const *fields; /* names of the params, NULL at the end; NULL: the op has none */
    /* Reads the params; `dtype` is the file's. NULL: the op has none. */
    ls_status (*read)(ls_json_value node, const char *dtype, ls_imported_params *out);
    void (*call)(ls_imported_call *c); /* calls the public function; the graph keeps mistakes */
} ls_imported_op;

/* Rows of ops without params; with params; and with params and as many results as the node gives. */
#define LS_IMPORTED_PLAIN(text, function, from, to) \
    { .name = text, .least_in = from, .most_in = to, .n_out = 1, .call = call_##function }
#define LS_IMPORTED_TAKES(text, function, from, to, names, reader)                                  \
    {                                                                                               \
        .name = text, .least_in = from, .most_in = to, .n_out = 1, .fields = names, .read = reader, \
        .call = call_##function                                                                     \
    }
#define LS_IMPORTED_SEVERAL(text, function, from, to, names, reader) \
    { .name = text, .least_in = from, .most_in = to, .fields = names, .read = reader, .call = call_##function }

extern const ls_imported_op ls_imported_general_ops[];
extern const size_t ls_n_imported_general_ops;

/*
 * Shared by readers of params. A type: "T", "G" or a name, where the file's own type means T and a wider one G. And a
 * size.
 */
LS_MUST_USE ls_status ls_imported_read_type(ls_json_value value, const char *dtype, bool *is_wide);
LS_MUST_USE ls_status ls_imported_read_size(ls_json_value value, ls_imported_size *out);

/* LS_UNSUPPORTED: the message lists the known ops. */
LS_MUST_USE ls_status ls_imported_op_find(ls_json_value node, const ls_imported_op **out);

typedef struct ls_imported_node {
    const ls_imported_op *op;
    const ls_imported_params *params; /* NULL: it has none */
    int n_in, in[LS_IMPORTED_INPUTS]; /* numbers of tensors; 0: null */
    int n_out, out[LS_NODE_OUTPUTS];
    int at; /* number of its source; -1: none is given */
} ls_imported_node;

typedef enum ls_imported_role { LS_INPUT_TOKENS, LS_INPUT_LABELS, LS_INPUT_POSITIONS, LS_INPUT_OTHER } ls_imported_role;

typedef struct ls_imported_input {
    const char *name;
    ls_imported_role role;
    ls_dtype dtype;
} ls_imported_input;

typedef struct ls_imported_parameter {
    const char *name;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    bool frozen;
} ls_imported_parameter;

typedef struct ls_imported_source {
    const char *file, *code;
    int64_t line;
} ls_imported_source;

/* Tensors are numbered from 1: inputs, then parameters, then the results of nodes. The document owns all texts. */
struct ls_imported {
    ls_json *document;
    ls_arena *arena;
    const char *file; /* for errors */
    const char *made_by;
    const char *dtype; /* the type of the user's parameters: "f32", "f64", "f16" or "bf16" */
    int n_inputs, n_parameters, n_nodes, n_sources, n_copies;
    ls_imported_input *inputs;
    ls_imported_parameter *parameters;
    ls_imported_node *nodes;
    ls_imported_source *sources;
    ls_weight_copy *copies;
    ls_model_input *others;
    int n_tensors;
    const char **names; /* [n_tensors + 1] */
    int loss, logits;   /* numbers of tensors; logits 0: none */
    bool padding;       /* documents are the user's padded sequences: each has its own positions */
    bool counts;        /* an op iota counts the tokens of a sequence */
    /* the longest sequence for which no dynamic rope table depends on the length; INT64_MAX: no limit */
    int64_t rope_limit;
};

/* Reads the document into a zeroed *out, which owns the document from the start, also on failure. */
LS_MUST_USE ls_status ls_imported_read(ls_json *document, ls_model_inputs *inputs, ls_imported *out);
/* Adds to the status the node and the line of the user's program that the node comes from. */
ls_status ls_imported_in_node(const ls_imported *m, int node, ls_status status);
/*
 * LS_INVALID names the first member of the object that is in neither list. A list ends with NULL, and may itself be
 * NULL.
 */
LS_MUST_USE ls_status ls_imported_known(ls_json_value object, const char *const *fields, const char *const *more);

#endif
