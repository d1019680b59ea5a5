/* Conditions on calls besides the operands that their contracts list (contracts.c). */
#include "kernel/kernel_impl.h"
#include "kernel/rnn_cells.h"

_Static_assert(LS_TOTALS == 3 && LS_HYPERS == 5 && LS_CONTROLS == 6 && sizeof(ls_update_settings) == sizeof(double[2]),
               "the rows of step_control and of updates");

ls_status ls_check_activation(const ls_kernel_call *call) {
    const ls_activation_params *p = call->params;
    if ((unsigned)p->kind >= LS_ACTIVATIONS)
        return ls_error(LS_INVALID, "kernel activation: kind is %d, expected 0 to %d", (int)p->kind,
                        LS_ACTIVATIONS - 1);
    if (p->kind == LS_ACTIVATION_SOFTCAP && !(p->cap > 0))
        return ls_error(LS_INVALID, "kernel activation: softcap's cap is %g, expected a positive number", p->cap);
    return ls_ok();
}

ls_status ls_check_gated_norm(const ls_kernel_call *call) {
    const ls_view *x = &call->in[0], *weight = &call->in[1];
    const int64_t E = x->size[x->ndim - 1], groups = E > 0 ? ls_view_elements(weight) / E : 1;
    if (E == 0 || (groups > 0 && ls_view_elements(x) / E % groups == 0)) return ls_ok();
    return ls_error(LS_INVALID, "kernel gated_norm: rows %s for weights %s, expected whole groups",
                    ls_kernel_view_text(x).text, ls_kernel_view_text(weight).text);
}

/* Checks a call that has this operand `reach`, and this weight or gradient of a weight. */
static ls_status check_taps(const char *name, const ls_kernel_call *call, int64_t out, const ls_view *weight,
                            const ls_view *reach) {
    const int64_t in = call->in[0].size[1], taps = ls_conv_taps(call->params, weight->size[0]);
    if (reach->size[2] != 0 && reach->size[2] != 2)
        return ls_error(LS_INVALID, "kernel %s: reach is %s, expected a last size of 0 or 2", name,
                        ls_kernel_view_text(reach).text);
    if (in == out + taps - 1) return ls_ok();
    return ls_error(LS_INVALID, "kernel %s: %lld tokens for %lld and %lld taps, expected %lld", name, (long long)in,
                    (long long)out, (long long)taps, (long long)(out + taps - 1));
}

ls_status ls_check_conv(const ls_kernel_call *call) {
    return check_taps("conv", call, call->out[0].size[1], &call->in[1], &call->in[2]);
}

ls_status ls_check_conv_silu_grad(const ls_kernel_call *call) {
    return check_taps("conv_silu_grad", call, call->out[0].size[1], &call->in[1], &call->in[3]);
}

ls_status ls_check_deal_rows(const ls_kernel_call *call) {
    const int64_t numbers = call->out[0].size[0], room = call->out[1].size[0];
    if (numbers == 1 + room) return ls_ok();
    return ls_error(LS_INVALID, "kernel deal_rows: %lld numbers and room for %lld rows, expected one more than rows",
                    (long long)numbers, (long long)room);
}

ls_status ls_check_conv_dw(const ls_kernel_call *call) {
    return check_taps("conv_dw", call, call->in[1].size[1], &call->out[0], &call->in[2]);
}

ls_status ls_check_matmul(const ls_kernel_call *call) {
    const ls_matmul_params *p = call->params;
    const bool with_gaps = !ls_view_is_dense(&call->out[0]);
    if (with_gaps && call->out[0].ndim != 2)
        return ls_error(LS_INVALID, "kernel matmul: C is %s with gaps, expected dense, or two dimensions",
                        ls_kernel_view_text(&call->out[0]).text);
    const ls_view A = ls_view_rows(call->in[0]), B = ls_view_rows(call->in[1]);
    const ls_view C = with_gaps ? call->out[0] : ls_view_rows(call->out[0]);
    const char *a_is = p->transpose_a ? " transposed" : "", *b_is = p->transpose_b ? " transposed" : "";
    const int64_t M = A.size[p->transpose_a], a_inner = A.size[!p->transpose_a];
    const int64_t N = B.size[!p->transpose_b], b_inner = B.size[p->transpose_b];
    if (a_inner != b_inner)
        return ls_error(LS_INVALID, "kernel matmul: A is %s%s, B is %s%s, inner sizes differ",
                        ls_kernel_view_text(&A).text, a_is, ls_kernel_view_text(&B).text, b_is);
    if (C.size[0] != M || C.size[1] != N)
        return ls_error(LS_INVALID, "kernel matmul: A is %s%s, B is %s%s, C is %s, expected [%lld,%lld]",
                        ls_kernel_view_text(&A).text, a_is, ls_kernel_view_text(&B).text, b_is,
                        ls_kernel_view_text(&C).text, (long long)M, (long long)N);
    return ls_ok();
}

/* B as a matrix of numbers. */
ls_status ls_check_matmul_blocks(const ls_kernel_call *call) {
    const ls_matmul_params *p = call->params;
    const int64_t values = ls_dtype_values(call->in[1].dtype);
    ls_kernel_call plain = *call;
    if (p->transpose_a || p->accumulate)
        return ls_error(LS_INVALID, "kernel matmul_blocks: A is transposed or C is added to, expected neither");
    plain.in[1] =
        ls_view_dense(NULL, call->in[0].dtype, 2, (int64_t[]){call->in[1].size[0], call->in[1].size[1] * values});
    return ls_check_matmul(&plain);
}

ls_status ls_check_decode(const ls_kernel_call *call) {
    const int64_t numbers = ls_view_elements(&call->in[0]) * ls_dtype_values(call->in[0].dtype);
    if (ls_view_elements(&call->out[0]) == numbers) return ls_ok();
    return ls_error(LS_INVALID, "kernel decode: %s become %s, expected %lld numbers",
                    ls_kernel_view_text(&call->in[0]).text, ls_kernel_view_text(&call->out[0]).text,
                    (long long)numbers);
}

/* Checks that each of the query heads has its key head. */
static ls_status check_heads(const ls_attention_params *p, int64_t query_heads, int64_t heads) {
    if (p->group < 1) return ls_error(LS_INVALID, "kernel attention: group is %d, expected at least 1", p->group);
    const int64_t first = p->first_q / p->group - p->first_kv;
    const int64_t last = (p->first_q + query_heads - 1) / p->group - p->first_kv;
    if (query_heads > 0 && (p->first_q < 0 || first < 0 || last >= heads))
        return ls_error(LS_INVALID,
                        "kernel attention: query heads %d to %lld in groups of %d read key heads %lld to %lld of %lld",
                        p->first_q, (long long)(p->first_q + query_heads - 1), p->group, (long long)first,
                        (long long)last, (long long)heads);
    return ls_ok();
}

ls_status ls_check_attention(const ls_kernel_call *call) {
    const ls_attention_params *p = call->params;
    const int64_t columns = call->in[3].size[2];
    if (columns < 2 || columns % 2 != 0)
        return ls_error(LS_INVALID, "kernel attention: spans have %lld columns, expected pairs", (long long)columns);
    if (!(p->softcap >= 0))
        return ls_error(LS_INVALID, "kernel attention: softcap is %g, expected 0 or more", p->softcap);
    return check_heads(p, call->in[0].size[2], call->in[1].size[2]);
}

ls_status ls_check_attention_products(const ls_kernel_call *call) {
    return check_heads(call->params, call->in[0].size[2], call->in[1].size[2]);
}

ls_status ls_check_attention_weighted(const ls_kernel_call *call) {
    return check_heads(call->params, call->in[0].size[1], call->in[1].size[2]);
}

ls_status ls_check_attention_weighted_back(const ls_kernel_call *call) {
    return check_heads(call->params, call->in[0].size[1], call->out[0].size[2]);
}

ls_status ls_check_even_head(const ls_kernel_call *call) {
    const ls_view *table = &call->out[0];
    const int64_t D = table->size[table->ndim - 1];
    if (D % 2 != 0)
        return ls_error(LS_INVALID, "kernel rope: head size is %lld, expected an even number", (long long)D);
    return ls_ok();
}

ls_status ls_check_update(const ls_kernel_call *call) {
    const int64_t elements = ls_view_elements(&call->in[0]), units = ls_view_elements(&call->in[2]);
    if (elements == units * LS_FLAT_UNIT) return ls_ok();
    return ls_error(LS_INVALID,
                    "kernel of an update: %lld elements and groups of %lld units, expected %d elements a unit",
                    (long long)elements, (long long)units, LS_FLAT_UNIT);
}

ls_status ls_check_map(const ls_kernel_call *call) {
    const ls_map_params *p = call->params;
    LS_TRY(ls_map_check(p));
    if (p->n_in != call->n_in || p->n_results != call->n_out)
        return ls_error(LS_INVALID, "kernel map: %d inputs and %d results, the expression has %d and %d", call->n_in,
                        call->n_out, p->n_in, p->n_results);
    const ls_view *all = &call->out[0];
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        const ls_view *view = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
        bool fits = view->ndim == all->ndim;
        for (int d = 0; fits && d < all->ndim; d++) fits = view->size[d] == all->size[d];
        if (!fits)
            return ls_error(LS_INVALID, "kernel map: operand %d is %s, expected the sizes of %s", i,
                            ls_kernel_view_text(view).text, ls_kernel_view_text(all).text);
    }
    return ls_ok();
}

ls_status ls_check_topk(const ls_kernel_call *call) {
    const ls_view *x = &call->in[0], *values = &call->out[0];
    const int64_t K = x->size[x->ndim - 1], k = values->size[values->ndim - 1];
    if (k <= K && values->dtype == x->dtype) return ls_ok();
    return ls_error(LS_INVALID, "kernel topk: values are %s, expected at most those of x, %s",
                    ls_kernel_view_text(values).text, ls_kernel_view_text(x).text);
}

static ls_status check_types(const char *name, const ls_kernel_call *call) {
    if (call->in[0].dtype == call->out[0].dtype) return ls_ok();
    return ls_error(LS_INVALID, "kernel %s: the result is %s, expected the type of %s", name,
                    ls_kernel_view_text(&call->out[0]).text, ls_kernel_view_text(&call->in[0]).text);
}
ls_status ls_check_reduce_max_grad(const ls_kernel_call *call) { return check_types("reduce_max_grad", call); }
ls_status ls_check_take_along(const ls_kernel_call *call) { return check_types("take_along", call); }

/* K: numbers of an element's state; terms: those of a map, 0 if the call has none. */
static ls_status check_states(const char *name, int64_t K, int64_t terms) {
    if (K < 1 || K > LS_RECURRENCE_STATES)
        return ls_error(LS_INVALID, "kernel %s: states of %lld numbers, expected 1 to %d", name, (long long)K,
                        LS_RECURRENCE_STATES);
    if (terms == 0 || terms == K + 1) return ls_ok();
    return ls_error(LS_INVALID, "kernel %s: maps of %lld terms for states of %lld numbers, expected one more", name,
                    (long long)terms, (long long)K);
}

ls_status ls_check_recurrence(const ls_kernel_call *call) { return check_states("recurrence", call->in[1].size[2], 0); }

ls_status ls_check_recurrence_map(const ls_kernel_call *call) {
    return check_states("recurrence_map", call->in[1].size[2], call->out[0].size[0]);
}

ls_status ls_check_recurrence_follow(const ls_kernel_call *call) {
    return check_states("recurrence_follow", call->out[0].size[1], call->in[0].size[1]);
}

/*
 * Checks what the last sizes of a linear recurrence's operands say: the kind of decay, and which optional operands
 * exist.
 */
static ls_status check_linear_recurrence(const ls_kernel_call *call, const char *name, const ls_view *k,
                                         const ls_view *decay) {
    const ls_linear_recurrence_params *p = call->params;
    const ls_view *beta = decay + 1, *places = decay + 2;
    const int64_t heads = decay->size[2], D = k->size[3], kind = decay->size[3];
    if (k->size[2] < 1 || heads % k->size[2] != 0)
        return ls_error(LS_INVALID, "kernel %s: %lld heads of values, expected a multiple of the %lld of keys", name,
                        (long long)heads, (long long)k->size[2]);
    if (kind != 0 && kind != 1 && kind != D)
        return ls_error(LS_INVALID, "kernel %s: decay is %s, expected a last size of 0, 1 or %lld", name,
                        ls_kernel_view_text(decay).text, (long long)D);
    if (beta->size[3] > 1 || (p->delta && beta->size[3] != 1) || places->size[2] > 1)
        return ls_error(LS_INVALID, "kernel %s: beta is %s and places are %s, expected a last size of %s and of 0 or 1",
                        name, ls_kernel_view_text(beta).text, ls_kernel_view_text(places).text,
                        p->delta ? "1" : "0 or 1");
    if (p->unmasked && (p->delta || kind != 0 || places->size[2] != 0))
        return ls_error(LS_INVALID, "kernel %s: unmasked with delta, decay or places, expected none of them", name);
    return ls_ok();
}

ls_status ls_check_linear_recurrence_forward(const ls_kernel_call *call) {
    return check_linear_recurrence(call, "linear_recurrence", &call->in[1], &call->in[3]);
}

ls_status ls_check_linear_recurrence_grad(const ls_kernel_call *call) {
    return check_linear_recurrence(call, "linear_recurrence_grad", &call->in[1], &call->in[3]);
}

int64_t ls_linear_recurrence_factors(const ls_linear_recurrence_params *params, int64_t D, int64_t decay) {
    if (params->delta) return D * D;
    return decay == D ? D : 1;
}

static ls_status check_map_size(const char *name, const ls_kernel_call *call, const ls_view *decay, int64_t E) {
    const ls_view *map = &call->out[0];
    const int64_t D = call->in[0].size[3], factors = ls_linear_recurrence_factors(call->params, D, decay->size[3]);
    if (map->size[2] == D * E + factors) return ls_ok();
    return ls_error(LS_INVALID, "kernel %s: maps are %s, expected %lld elements a head", name,
                    ls_kernel_view_text(map).text, (long long)(D * E + factors));
}

ls_status ls_check_linear_recurrence_map(const ls_kernel_call *call) {
    LS_TRY(check_linear_recurrence(call, "linear_recurrence_map", &call->in[0], &call->in[2]));
    return check_map_size("linear_recurrence_map", call, &call->in[2], call->in[1].size[3]);
}

ls_status ls_check_linear_recurrence_back(const ls_kernel_call *call) {
    LS_TRY(check_linear_recurrence(call, "linear_recurrence_back", &call->in[1], &call->in[2]));
    return check_map_size("linear_recurrence_back", call, &call->in[2], call->in[5].size[3]);
}

ls_status ls_check_linear_recurrence_follow(const ls_kernel_call *call) {
    const ls_linear_recurrence_params *p = call->params;
    const int64_t D = call->out[0].size[2], E = call->out[0].size[3], factors = call->in[0].size[3] - D * E;
    if (p->delta ? factors == D * D : factors == 1 || factors == D) return ls_ok();
    return ls_error(LS_INVALID, "kernel linear_recurrence_follow: maps are %s, states are %s, expected %s factors",
                    ls_kernel_view_text(&call->in[0]).text, ls_kernel_view_text(&call->out[0]).text,
                    p->delta ? "a matrix of" : "1, or one for each element of a key, of");
}

#define SIZES(kind, name, gates, states, numbers) [LS_RNN_##kind] = {gates, states, numbers},
static const ls_rnn_sizes rnn_sizes[LS_RNN_KINDS] = {LS_RNN_CELLS(SIZES)};

ls_rnn_sizes ls_rnn_sizes_of(ls_rnn_kind kind) { return rnn_sizes[kind]; }

static ls_status check_rnn(const ls_kernel_call *call, const char *name, const ls_view *y, const ls_view *state) {
    const ls_rnn_kind kind = ((const ls_rnn_params *)call->params)->kind;
    const ls_view *x = &call->in[0], *weight = &call->in[1], *bias = &call->in[2];
    if ((unsigned)kind >= LS_RNN_KINDS)
        return ls_error(LS_INVALID, "kernel %s: kind is %d, expected 0 to %d", name, (int)kind, LS_RNN_KINDS - 1);
    const ls_rnn_sizes s = rnn_sizes[kind];
    const int64_t D = y->size[3], rows = s.numbers > 0 ? s.numbers : s.gates * D;
    if (x->size[3] == s.gates * D && weight->size[1] == rows && state->size[2] == s.states * D &&
        (bias->size[1] == 0 || (s.numbers == 0 && bias->size[1] == rows)) && call->in[3].size[2] <= 1)
        return ls_ok();
    return ls_error(LS_INVALID,
                    "kernel %s: x is %s, weight %s, bias %s, places %s and the state %s, of %lld elements a head; "
                    "expected %lld, %lld rows, %s, a last size of 0 or 1, and %lld",
                    name, ls_kernel_view_text(x).text, ls_kernel_view_text(weight).text, ls_kernel_view_text(bias).text,
                    ls_kernel_view_text(&call->in[3]).text, ls_kernel_view_text(state).text, (long long)D,
                    (long long)(s.gates * D), (long long)rows, s.numbers > 0 ? "none" : "as many or none",
                    (long long)(s.states * D));
}

ls_status ls_check_rnn(const ls_kernel_call *call) {
    if (((const ls_rnn_params *)call->params)->ends && call->in[3].size[2] == 0)
        return ls_error(LS_INVALID, "kernel rnn: ends without places, expected them");
    return check_rnn(call, "rnn", &call->out[0], &call->out[1]);
}

ls_status ls_check_rnn_grad(const ls_kernel_call *call) {
    if (((const ls_rnn_params *)call->params)->ends)
        return ls_error(LS_INVALID, "kernel rnn_grad: ends, expected places in documents");
    return check_rnn(call, "rnn_grad", &call->in[4], &call->in[6]);
}

/* --- outputs that are read before they are written, depending on params ------------------------------------------- */

#define RESULT(i) (1u << (i))

unsigned ls_reads_of_matmul(const void *p) { return ((const ls_matmul_params *)p)->accumulate ? RESULT(0) : 0; }

unsigned ls_reads_of_contract(const void *p) { return ((const ls_contract_params *)p)->accumulate ? RESULT(0) : 0; }

unsigned ls_reads_of_attention(const void *p) {
    return ((const ls_attention_params *)p)->merge ? RESULT(0) | RESULT(1) : 0;
}

unsigned ls_reads_of_weighted(const void *p) { return ((const ls_attention_params *)p)->accumulate_dq ? RESULT(0) : 0; }

unsigned ls_reads_of_attention_grad(const void *p) {
    const ls_attention_params *params = p;
    return (params->accumulate_dq ? RESULT(0) : 0) | (params->accumulate_dkv ? RESULT(1) | RESULT(2) : 0);
}
