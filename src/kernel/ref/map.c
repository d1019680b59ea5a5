/* map: evaluates an expression for single elements, step by step in double; a result is rounded once. */
#include "kernel/ref/ref_impl.h"

typedef double (*step_rule)(const ls_map_step *s, double a, double b, double c);

#define RULE(name, result)                                                        \
    static double of_##name(const ls_map_step *s, double a, double b, double c) { \
        (void)s, (void)a, (void)b, (void)c;                                       \
        return result;                                                            \
    }

RULE(NUMBER, s->number)
RULE(NEG, -a)
RULE(ABS, fabs(a))
RULE(SIGN, a > 0 ? 1 : a < 0 ? -1 : a)
RULE(FLOOR, floor(a))
RULE(EXP, exp(a))
RULE(LOG, log(a))
RULE(LOG1P, log1p(a))
RULE(SQRT, sqrt(a))
RULE(RSQRT, 1 / sqrt(a))
RULE(SIN, sin(a))
RULE(COS, cos(a))
RULE(TANH, tanh(a))
RULE(SIGMOID, 1 / (1 + exp(-a)))
RULE(ERF, erf(a))
RULE(ADD, a + b)
RULE(SUB, a - b)
RULE(MUL, a *b)
RULE(DIV, a / b)
RULE(POW, pow(a, b))
RULE(MOD, a - b * floor(a / b))
RULE(MIN, a < b || isnan(a) ? a : b)
RULE(MAX, a > b || isnan(a) ? a : b)
RULE(LT, a < b)
RULE(LE, a <= b)
RULE(EQ, a == b)
RULE(NE, a != b)
RULE(AND, a != 0 && b != 0)
RULE(OR, a != 0 || b != 0)
RULE(NOT, a == 0)
RULE(WHERE, a != 0 ? b : c)

#define ROW(id, name, operands) [LS_MAP_##id] = of_##id,
static const step_rule rules[LS_MAP_KINDS] = {LS_MAP_CODES(ROW)};

static ls_status prepare_map(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_MAP, LS_REAL, call);
}

/* Elements first .. last-1 of the results. */
static void map_elements(const void *context, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_map_params *p = call->params;
    double value[LS_MAP_TENSORS + LS_MAP_STEPS];
    ls_map_shape shape;
    ls_map_shape_of(call, &shape);
    for (int64_t i = first; i < last; i++) {
        int64_t at[LS_KERNEL_INPUTS + LS_KERNEL_OUTPUTS] = {0}, rest = i;
        for (int d = shape.ndim - 1; d >= 0; d--) {
            for (int k = 0; k < call->n_in + call->n_out; k++) at[k] += rest % shape.size[d] * shape.stride[k][d];
            rest /= shape.size[d];
        }
        for (int k = 0; k < call->n_in; k++) value[k] = ls_number_at(call->in[k].data, call->in[k].dtype, at[k]);
        for (int k = 0; k < p->n_steps; k++) {
            const ls_map_step *s = &p->step[k];
            const int operands = ls_map_operands(s->code);
            value[p->n_in + k] = rules[s->code](s, operands > 0 ? value[s->a] : 0, operands > 1 ? value[s->b] : 0,
                                                operands > 2 ? value[s->c] : 0);
        }
        for (int o = 0; o < call->n_out; o++)
            ((real *)call->out[o].data)[at[call->n_in + o]] = (real)value[p->result[o]];
    }
}

static void run_map(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ref_split(pool, ls_view_elements(&call->out[0]), map_elements, call);
}

const ls_kernel REF(map) = {.id = LS_KERNEL_MAP, .dtype = LS_REAL, .prepare = prepare_map, .run = run_map};
