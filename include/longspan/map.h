/*
 * Expressions of single elements, for ls_map. For example, softplus(x) is
 *
 *     const ls_map_step steps[] = {{LS_MAP_EXP, 0, 0, 0, 0}, {LS_MAP_LOG1P, 1, 0, 0, 0}};
 *     ls_tensor y = ls_map(g, &x, 1, &(ls_expression){.step = steps, .n_steps = 2});
 *
 * An expression is a list of steps. Operand i of a step is input i of the map if i is less than the number of inputs;
 * higher numbers are the results of the earlier steps, in order. Each step is computed in f32 (f64 in a graph of f64),
 * on corresponding elements; integers are converted, exactly up to 2^24. Comparisons give 0 (false) or 1 (true); a
 * condition is true unless it is 0. A step on NaN gives NaN, except that comparisons with NaN are false (ne: true).
 */
#ifndef LONGSPAN_MAP_H
#define LONGSPAN_MAP_H

/* X(ID, name, operands) for each kind of step; `name` is its word in files. */
#define LS_MAP_CODES(X)                                 \
    X(NUMBER, "number", 0) /* the number of the step */ \
    X(NEG, "neg", 1)                                    \
    X(ABS, "abs", 1)                                    \
    X(SIGN, "sign", 1) /* -1, 0 or 1 */                 \
    X(FLOOR, "floor", 1)                                \
    X(EXP, "exp", 1)                                    \
    X(LOG, "log", 1)                                    \
    X(LOG1P, "log1p", 1) /* log(1 + a) */               \
    X(SQRT, "sqrt", 1)                                  \
    X(RSQRT, "rsqrt", 1) /* 1 / sqrt(a) */              \
    X(SIN, "sin", 1)                                    \
    X(COS, "cos", 1)                                    \
    X(TANH, "tanh", 1)                                  \
    X(SIGMOID, "sigmoid", 1) /* 1 / (1 + exp(-a)) */    \
    X(ERF, "erf", 1)                                    \
    X(ADD, "add", 2)                                    \
    X(SUB, "sub", 2)                                    \
    X(MUL, "mul", 2)                                    \
    X(DIV, "div", 2)                                    \
    X(POW, "pow", 2)                                    \
    X(MOD, "mod", 2) /* a - b floor(a / b) */           \
    X(MIN, "min", 2)                                    \
    X(MAX, "max", 2)                                    \
    X(LT, "lt", 2)                                      \
    X(LE, "le", 2)                                      \
    X(EQ, "eq", 2)                                      \
    X(NE, "ne", 2)                                      \
    X(AND, "and", 2)                                    \
    X(OR, "or", 2)                                      \
    X(NOT, "not", 1)                                    \
    X(WHERE, "where", 3) /* b where a is true, otherwise c */

#define LS_MAP_CODE(id, name, operands) LS_MAP_##id,
typedef enum ls_map_code { LS_MAP_CODES(LS_MAP_CODE) LS_MAP_KINDS } ls_map_code;
#undef LS_MAP_CODE

/* Operands beyond those of the kind of step are ignored. */
typedef struct ls_map_step {
    ls_map_code code;
    int a, b, c;
    double number; /* for LS_MAP_NUMBER; finite, or an infinity */
} ls_map_step;

/* Limits of one map: most steps; most inputs, plus 1; most results. */
enum { LS_MAP_STEPS = 64, LS_MAP_TENSORS = 8, LS_MAP_RESULTS = 4 };

#endif
