/*
 * Calls of the parts of attention on whole rows of scores: heads that share keys, a share of heads that begins within a
 * group, ends within a tile and beyond one, rows with gaps, soft caps, queries that see nothing.
 */
#include "support/kernel_examples.h"

static const struct {
    int64_t B, N, H, K, J, D;
    int group, first_q;
    double softcap;
} all[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0},     {2, 5, 5, 13, 3, 7, 2, 1, 1.5},  {1, 9, 3, 300, 1, 4, 4, 0, 0},
    {2, 70, 2, 33, 2, 37, 1, 0, 20}, {1, 66, 1, 65, 1, 130, 1, 0, 0}, {1, 3, 4, 40, 2, 16, 2, 0, 0},
};

/* type 't': pairs and values have gaps. */
static void visit_sizes(visit_example visit, size_t s, char type) {
    const int64_t B = all[s].B, N = all[s].N, H = all[s].H, K = all[s].K, J = all[s].J, D = all[s].D;
    const ls_attention_params
        params = {.scale = 0.2, .softcap = all[s].softcap, .group = all[s].group, .first_q = all[s].first_q},
        adds = {.scale = 0.2, .group = all[s].group, .first_q = all[s].first_q, .accumulate_dq = true};
    const operand queries = {type, NORMAL, 4, {B, N, H, D}, 0}, keys = {type, NORMAL, 4, {B, K, J, D}, 0};
    const operand pairs = {type, NORMAL, 4, {B, H, N, K}, 0}, lse = {'T', NORMAL, 3, {B, H, N}, 0};
    const operand spans = {'I', SPANS, 3, {B, N, 4}, K}, kpos = {'I', POSITIONS, 1, {K}, 0};
    operand made_pairs = pairs, made_queries = queries, made_keys = keys, made_lse = lse;
    made_pairs.contents = made_queries.contents = made_keys.contents = made_lse.contents = POISON;
    const example examples[] = {
        {"attention_products", &params, 2, 1, {queries, keys}, {made_pairs}},
        {"attention_softmax", &params, 3, 2, {pairs, spans, kpos}, {made_pairs, made_lse}},
        {"attention_weighted", &params, 2, 1, {pairs, keys}, {made_queries}},
        {"attention_weighted", &adds, 2, 1, {pairs, keys}, {queries}},
        {"attention_weighted_back", &params, 2, 1, {pairs, queries}, {made_keys}},
        {"attention_softmax_grad", &params, 4, 2, {spans, kpos, lse, lse}, {pairs, pairs}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
}

void visit_score_examples(visit_example visit) {
    for (size_t s = 0; s < LS_COUNT(all); s++) {
        visit_sizes(visit, s, 'T');
        visit_sizes(visit, s, 't');
    }
}
