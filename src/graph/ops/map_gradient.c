/*
 * The gradient of an expression, in reverse mode (Griewank, Walther: Evaluating Derivatives, ch. 3): each kind of step
 * has a rule, a row of `rules`, which adds to the gradients of the step's operands. Factors of 1 and terms of 0 are
 * left out, and only those of the original steps that the gradients need are kept.
 */
#include "graph/ops/map_impl.h"

enum { MOST = 512, NONE = -1 };

typedef struct deriver {
    int n_in;               /* inputs of the map that is differentiated, and gradients of its results */
    ls_map_step step[MOST]; /* the steps of that map, then those of the gradients */
    int n;
    bool full;
    int gradient[MOST]; /* by operand: the operand that is its gradient so far */
} deriver;

/* --- adding steps ------------------------------------------------------------------------------------------------- */

static bool is_number(const deriver *d, int operand, double number) {
    const ls_map_step *s = operand >= d->n_in ? &d->step[operand - d->n_in] : NULL;
    return s != NULL && s->code == LS_MAP_NUMBER && s->number == number;
}

static int add_step(deriver *d, ls_map_step step) {
    if (d->n_in + d->n >= MOST) {
        d->full = true;
        return 0;
    }
    d->step[d->n] = step;
    return d->n_in + d->n++;
}

static int number(deriver *d, double x) { return add_step(d, (ls_map_step){.code = LS_MAP_NUMBER, .number = x}); }
static int unary(deriver *d, ls_map_code code, int a) { return add_step(d, (ls_map_step){.code = code, .a = a}); }
static int binary(deriver *d, ls_map_code code, int a, int b) {
    return add_step(d, (ls_map_step){.code = code, .a = a, .b = b});
}
static int where(deriver *d, int a, int b, int c) {
    return add_step(d, (ls_map_step){.code = LS_MAP_WHERE, .a = a, .b = b, .c = c});
}
static int product(deriver *d, int a, int b) {
    if (is_number(d, a, 1)) return b;
    if (is_number(d, b, 1)) return a;
    return binary(d, LS_MAP_MUL, a, b);
}
static int sum(deriver *d, int a, int b) { return binary(d, LS_MAP_ADD, a, b); }
static int difference(deriver *d, int a, int b) { return binary(d, LS_MAP_SUB, a, b); }

/* Adds to the gradient of an operand. */
static void give(deriver *d, int operand, int gradient) {
    int *to = &d->gradient[operand];
    *to = *to == NONE ? gradient : sum(d, *to, gradient);
}

/* --- the rules: of step y = f(a, b, c), whose gradient is g ------------------------------------------------------- */

typedef void (*rule)(deriver *d, const ls_map_step *s, int y, int g);

static void of_neg(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, unary(d, LS_MAP_NEG, g));
}
static void of_abs(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, product(d, g, unary(d, LS_MAP_SIGN, s->a)));
}
static void of_exp(deriver *d, const ls_map_step *s, int y, int g) { give(d, s->a, product(d, g, y)); }
static void of_log(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, binary(d, LS_MAP_DIV, g, s->a));
}
static void of_log1p(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, binary(d, LS_MAP_DIV, g, sum(d, number(d, 1), s->a)));
}
static void of_sqrt(deriver *d, const ls_map_step *s, int y, int g) {
    give(d, s->a, binary(d, LS_MAP_DIV, product(d, number(d, 0.5), g), y));
}
/* -y^3 / 2 */
static void of_rsqrt(deriver *d, const ls_map_step *s, int y, int g) {
    const int cube = product(d, product(d, y, y), y);
    give(d, s->a, product(d, product(d, number(d, -0.5), cube), g));
}
static void of_sin(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, product(d, g, unary(d, LS_MAP_COS, s->a)));
}
static void of_cos(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, unary(d, LS_MAP_NEG, product(d, g, unary(d, LS_MAP_SIN, s->a))));
}
static void of_tanh(deriver *d, const ls_map_step *s, int y, int g) {
    give(d, s->a, product(d, g, difference(d, number(d, 1), product(d, y, y))));
}
static void of_sigmoid(deriver *d, const ls_map_step *s, int y, int g) {
    give(d, s->a, product(d, g, product(d, y, difference(d, number(d, 1), y))));
}
/* 2/sqrt(pi) exp(-a^2) */
static void of_erf(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    const int bell = unary(d, LS_MAP_EXP, unary(d, LS_MAP_NEG, product(d, s->a, s->a)));
    give(d, s->a, product(d, g, product(d, number(d, 1.12837916709551257390), bell)));
}
static void of_add(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, g);
    give(d, s->b, g);
}
static void of_sub(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, g);
    give(d, s->b, unary(d, LS_MAP_NEG, g));
}
static void of_mul(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, product(d, g, s->b));
    give(d, s->b, product(d, g, s->a));
}
static void of_div(deriver *d, const ls_map_step *s, int y, int g) {
    const int part = binary(d, LS_MAP_DIV, g, s->b);
    give(d, s->a, part);
    give(d, s->b, unary(d, LS_MAP_NEG, product(d, part, y)));
}
/* By a: b a^(b-1), and 0 if b is 0. By b: y log(a), and 0 if a is 0. */
static void of_pow(deriver *d, const ls_map_step *s, int y, int g) {
    const int zero = number(d, 0), less = difference(d, s->b, number(d, 1));
    const int by_a = product(d, s->b, binary(d, LS_MAP_POW, s->a, less));
    give(d, s->a, where(d, binary(d, LS_MAP_EQ, s->b, zero), zero, product(d, g, by_a)));
    const int by_b = product(d, y, unary(d, LS_MAP_LOG, s->a));
    give(d, s->b, where(d, binary(d, LS_MAP_EQ, s->a, zero), zero, product(d, g, by_b)));
}
static void of_mod(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    give(d, s->a, g);
    const int times = unary(d, LS_MAP_FLOOR, binary(d, LS_MAP_DIV, s->a, s->b));
    give(d, s->b, unary(d, LS_MAP_NEG, product(d, g, times)));
}
/* Passes the gradient to the operand that was taken, a if `takes_a` is true; if both are equal, half to each. */
static void to_taken(deriver *d, const ls_map_step *s, int g, int takes_a) {
    const int zero = number(d, 0), half = product(d, number(d, 0.5), g), equal = binary(d, LS_MAP_EQ, s->a, s->b);
    give(d, s->a, where(d, equal, half, where(d, takes_a, g, zero)));
    give(d, s->b, where(d, equal, half, where(d, takes_a, zero, g)));
}
static void of_min(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    to_taken(d, s, g, binary(d, LS_MAP_LT, s->a, s->b));
}
static void of_max(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    to_taken(d, s, g, binary(d, LS_MAP_LT, s->b, s->a));
}
static void of_where(deriver *d, const ls_map_step *s, int y, int g) {
    (void)y;
    const int zero = number(d, 0);
    give(d, s->b, where(d, s->a, g, zero));
    give(d, s->c, where(d, s->a, zero, g));
}

/* Kinds of steps without a row pass no gradient on. */
static const rule rules[LS_MAP_KINDS] = {
    [LS_MAP_NEG] = of_neg,     [LS_MAP_ABS] = of_abs,   [LS_MAP_EXP] = of_exp,         [LS_MAP_LOG] = of_log,
    [LS_MAP_LOG1P] = of_log1p, [LS_MAP_SQRT] = of_sqrt, [LS_MAP_RSQRT] = of_rsqrt,     [LS_MAP_SIN] = of_sin,
    [LS_MAP_COS] = of_cos,     [LS_MAP_TANH] = of_tanh, [LS_MAP_SIGMOID] = of_sigmoid, [LS_MAP_ERF] = of_erf,
    [LS_MAP_ADD] = of_add,     [LS_MAP_SUB] = of_sub,   [LS_MAP_MUL] = of_mul,         [LS_MAP_DIV] = of_div,
    [LS_MAP_POW] = of_pow,     [LS_MAP_MOD] = of_mod,   [LS_MAP_MIN] = of_min,         [LS_MAP_MAX] = of_max,
    [LS_MAP_WHERE] = of_where,
};

/* --- the map of the gradients ------------------------------------------------------------------------------------- */

static int operands_of(const ls_map_step *s) {
    const int n = ls_map_operands(s->code);
    LS_ASSERT(n <= 3); /* a, b and c */
    return n;
}

/* Marks the inputs and steps that an operand depends on, by operand. */
static void mark(const deriver *d, int operand, bool *needed) {
    needed[operand] = true;
    for (int i = operand; i >= d->n_in; i--) { /* operands of a step come before it */
        if (!needed[i]) continue;
        const ls_map_step *s = &d->step[i - d->n_in];
        const int by[] = {s->a, s->b, s->c};
        for (int k = 0; k < operands_of(s); k++) needed[by[k]] = true;
    }
}

/* Marks the operands that depend on a wanted input; only these need a gradient. */
static void mark_active(const deriver *d, unsigned wanted, bool *active) {
    for (int i = 0; i < d->n_in; i++) active[i] = (wanted >> i & 1) != 0;
    for (int i = 0; i < d->n; i++) {
        const ls_map_step *s = &d->step[i];
        const int by[] = {s->a, s->b, s->c};
        active[d->n_in + i] = false;
        for (int k = 0; k < operands_of(s); k++) active[d->n_in + i] |= active[by[k]];
    }
}

/* Keeps the needed steps and inputs, and numbers them anew; at: the new numbers. */
static ls_status keep_needed(const deriver *d, const bool *needed, ls_map_gradient *out, int *at) {
    int inputs = 0, steps = 0;
    for (int i = 0; i < d->n_in + d->n; i++)
        if (needed[i]) (i < d->n_in) ? inputs++ : steps++;
    if (inputs >= LS_MAP_TENSORS || steps > LS_MAP_STEPS)
        return ls_error(LS_UNSUPPORTED,
                        "op map: its gradient has %d inputs and %d steps, expected at most %d and %d: divide the "
                        "expression",
                        inputs, steps, LS_MAP_TENSORS - 1, LS_MAP_STEPS);
    out->params.n_in = inputs;
    inputs = 0;
    for (int i = 0; i < d->n_in + d->n; i++) {
        if (!needed[i]) continue;
        if (i < d->n_in) {
            out->input[inputs] = i;
            at[i] = inputs++;
            continue;
        }
        ls_map_step step = d->step[i - d->n_in];
        int *const by[] = {&step.a, &step.b, &step.c};
        for (int k = 0; k < operands_of(&step); k++) *by[k] = at[*by[k]];
        at[i] = out->params.n_in + out->params.n_steps;
        out->params.step[out->params.n_steps++] = step;
    }
    return ls_ok();
}

/* Runs the rules from the last step to the first. */
static void derive(deriver *d, const ls_map_derivative *what) {
    const int n_in = what->of->n_in, steps = d->n;
    bool active[MOST];
    mark_active(d, what->wanted, active);
    for (int i = 0; i < MOST; i++) d->gradient[i] = NONE;
    for (int o = 0; o < what->of->n_results; o++) {
        const int result = what->of->result[o];
        const int operand = result < n_in ? result : result + what->of->n_results;
        if (what->given >> o & 1) give(d, operand, n_in + o);
    }
    for (int i = steps - 1; i >= 0; i--) {
        const int y = d->n_in + i, g = d->gradient[y];
        const ls_map_step s = d->step[i];
        if (active[y] && g != NONE && rules[s.code] != NULL) rules[s.code](d, &s, y, g);
    }
}

ls_status ls_map_differentiate(const ls_map_derivative *what, ls_map_gradient *out) {
    const ls_map_params *of = what->of;
    deriver d = {.n_in = of->n_in + of->n_results};
    /* The gradients of the results are numbered after the inputs, so the numbers of all steps change. */
    for (int i = 0; i < of->n_steps; i++) {
        ls_map_step step = of->step[i];
        int *const by[] = {&step.a, &step.b, &step.c};
        for (int k = 0; k < operands_of(&step); k++)
            if (*by[k] >= of->n_in) *by[k] += of->n_results;
        (void)add_step(&d, step);
    }
    derive(&d, what);
    if (d.full) return ls_error(LS_UNSUPPORTED, "op map: its gradient has more than %d steps", MOST);
    *out = (ls_map_gradient){0};
    bool needed[MOST] = {false};
    int at[MOST] = {0};
    for (int i = 0; i < of->n_in; i++) {
        const int g = d.gradient[i];
        out->gradient[i] = LS_MAP_NONE;
        if (!(what->wanted >> i & 1) || g == NONE) continue;
        if (g < d.n_in)
            out->gradient[i] = LS_MAP_INPUT + g;
        else
            mark(&d, g, needed);
    }
    LS_TRY(keep_needed(&d, needed, out, at));
    for (int i = 0; i < of->n_in; i++) {
        const int g = d.gradient[i];
        if (!(what->wanted >> i & 1) || g < d.n_in) continue;
        if (out->params.n_results == LS_MAP_RESULTS)
            return ls_error(LS_UNSUPPORTED, "op map: its gradient has more than %d results: divide the expression",
                            LS_MAP_RESULTS);
        out->gradient[i] = out->params.n_results;
        out->params.wide |= (what->wide >> i & 1U) << out->params.n_results;
        out->params.result[out->params.n_results++] = at[g];
    }
    return ls_ok();
}
