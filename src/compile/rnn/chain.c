/*
 * The way "chain": a rank that has the state in front of one of its runs computes the run, and sends the state behind
 * the run to the rank that has the next run (redistribute/chain.c). This way works for any cell and is the slowest:
 * with the batch in mu slices, each of P ranks is busy mu / (mu + P - 1) of the time.
 */
#include "compile/attention/attention.h"
#include "compile/rnn/rnn.h"

/* More slices would hide little more of the waiting, and each slice reads the weights once more. */
enum { SLICES_OF_A_RANK = 4 };

static int slices_of(const ls_builder *b, const ls_rnn_site *s) {
    return (int)ls_max(1, ls_min(s->B, SLICES_OF_A_RANK * (b->image->layout.P - 1)));
}

typedef struct pass {
    const ls_rnn_site *site;
    ls_operand fronts; /* the states in front of the runs; backward only */
} pass;

static ls_rnn_part part_of(const ls_chain_step *step) {
    return (ls_rnn_part){step->from, step->count, step->first, step->sequences};
}

static void forward_step(ls_builder *b, const void *context, const ls_chain_step *step, ls_operand state) {
    const pass *p = context;
    const ls_rnn_part part = part_of(step);
    const ls_layout_run *runs;
    (void)ls_my_runs(b, &runs);
    ls_rnn_forward(b, p->site, &part, state);
    ls_rnn_keep(b, p->site, 0, runs[step->run].first + runs[step->run].count, state);
}

static void backward_step(ls_builder *b, const void *context, const ls_chain_step *step, ls_operand state) {
    const pass *p = context;
    const ls_rnn_part part = part_of(step);
    ls_rnn_backward(b, p->site, &part, ls_rnn_state_at(p->fronts, step->run, step->first, step->sequences), state);
}

static ls_chain chain_of(const ls_builder *b, const pass *p, bool backwards) {
    const ls_rnn_site *s = p->site;
    return (ls_chain){.backwards = backwards,
                      .slices = slices_of(b, s),
                      .most = ls_most_runs(b) * s->B * s->heads.most * s->size,
                      .pass = backwards ? backward_step : forward_step,
                      .context = p};
}

static ls_operand find_fronts(ls_builder *b, const ls_rnn_site *s) {
    const pass p = {.site = s};
    const ls_chain chain = chain_of(b, &p, false);
    const ls_operand fronts = ls_rnn_states(b, s, "states", ls_most_runs(b));
    ls_chain_states(b, &chain, fronts);
    return fronts;
}

static void forward(ls_builder *b, ls_rnn_site *s) { b->sites->fronts[s->forward] = find_fronts(b, s); }

static void backward(ls_builder *b, ls_rnn_site *s) {
    ls_operand fronts = b->sites->fronts[s->forward];
    if (s->forward < b->row->first_node) { /* the forward pass is in another program */
        ls_rnn_site again = *s;
        again.tensors.y = ls_rnn_unread(b, s);
        fronts = find_fronts(b, &again);
    }
    const pass p = {.site = s, .fronts = fronts};
    const ls_chain chain = chain_of(b, &p, true);
    ls_chain_states(b, &chain, ls_rnn_states(b, s, "gradients of states", ls_most_runs(b)));
}

static ls_status applicable(const ls_builder *b, const void *site) {
    return ls_halo_fits(b, ((const ls_rnn_site *)site)->node);
}

/* Bytes of one state per run, plus what a rank could compute while it waits for others, as bytes. */
static double cost(const ls_builder *b, const void *site) {
    const ls_rnn_site *s = site;
    enum { FLOPS_PER_BYTE = 256 }; /* the same as in shard/price.c */
    const int P = b->image->layout.P;
    const double heads = (double)(s->B * s->heads.most), own = 4 * heads * (double)ls_layout_most(&b->image->layout) *
                                                               ls_rnn_flops(s->params.kind, (double)s->D);
    if (P == 1) return 0;
    return 2 * (double)ls_most_runs(b) * heads * (double)s->size * (double)ls_dtype_bytes(b->image->accumulator) +
           own * (P - 1.0) / slices_of(b, s) / FLOPS_PER_BYTE;
}

const ls_rnn_way ls_rnn_way_chain = {.way = {"chain", "from rank to rank, in slices of the batch", applicable, cost},
                                     .forward = forward,
                                     .backward = backward};
