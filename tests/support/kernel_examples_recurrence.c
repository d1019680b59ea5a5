/* Calls of the kernels of the linear recurrence: decays, updates, documents, heads, and keys that are not values' size.
 */
#include "support/kernel_examples.h"

typedef struct sizes {
    int64_t B, N, K, H, D, E;
    int64_t decay, beta, places; /* last sizes; decay 2: of each element */
    bool delta, unmasked;
} sizes;

static const sizes all[] = {
    {1, 1, 1, 1, 1, 1, 0, 0, 0, false, false},
    {2, 37, 2, 4, 5, 7, 0, 0, 0, false, false},
    {1, 130, 1, 3, 16, 33, 1, 0, 0, false, false},
    {2, 70, 3, 3, 24, 8, 2, 0, 1, false, false},
    {1, 130, 1, 2, 32, 16, 1, 1, 1, false, false},
    {2, 37, 2, 2, 6, 5, 0, 1, 0, true, false},
    {1, 130, 1, 2, 32, 20, 1, 1, 0, true, false},
    {2, 90, 2, 4, 17, 40, 2, 1, 1, true, false},
    {1, 100, 1, 1, 64, 64, 1, 1, 1, true, false},
    {1, 64, 7, 7, 8, 8, 2, 1, 0, true, false},
    {1, 130, 1, 10, 16, 24, 1, 1, 1, true, false},
    {2, 70, 1, 6, 8, 9, 2, 0, 1, false, false},
    {2, 75, 2, 4, 20, 9, 0, 1, 0, false, true},
    {1, 64, 1, 1, 16, 16, 0, 0, 0, false, true},
    {1, 70, 1, 9, 8, 8, 0, 1, 0, false, true},
    /* more tokens than a segment of the kernels for GPUs has; states for which a block lacks shared memory */
    {1, 1060, 1, 1, 4, 5, 1, 1, 1, true, false},
    {1, 40, 1, 1, 300, 6, 1, 1, 0, true, false},
    {1, 40, 1, 2, 140, 6, 2, 1, 1, false, false},
};

static void visit_sizes(visit_example visit, const sizes *s, char token, char gate) {
    const int64_t kind = s->decay == 2 ? s->D : s->decay;
    const ls_linear_recurrence_params params = {.delta = s->delta, .unmasked = s->unmasked},
                                      turned = {.delta = s->delta, .transposed = true, .backwards = true};
    const int64_t map_size = s->D * s->E + ls_linear_recurrence_factors(&params, s->D, kind);
    const operand q = {token, NORMAL, 4, {s->B, s->N, s->K, s->D}, 0};
    const operand k = {token, KEYS, 4, {s->B, s->N, s->K, s->D}, s->D};
    const operand v = {token, NORMAL, 4, {s->B, s->N, s->H, s->E}, 0};
    const operand decay = {gate, DECAYS, 4, {s->B, s->N, s->H, kind}, 0};
    const operand beta = {gate, RATES, 4, {s->B, s->N, s->H, s->beta}, 0};
    const operand places = {'I', STARTS, 3, {s->B, s->N, s->places}, 0};
    const operand state = {'G', NORMAL, 4, {s->B, s->H, s->D, s->E}, 0};
    const operand map = {'G', POISON, 3, {s->B, s->H, map_size}, 0},
                  maps = {'G', NORMAL, 4, {3, s->B, s->H, map_size}, 0};
    operand dq = q, dv = v, ddecay = decay, dbeta = beta;
    dq.contents = dv.contents = ddecay.contents = dbeta.contents = POISON;
    const example examples[] = {
        {"linear_recurrence", &params, 6, 2, {q, k, v, decay, beta, places}, {dv, state}},
        {"linear_recurrence_grad",
         &params,
         8,
         6,
         {q, k, v, decay, beta, places, v, state},
         {dq, dq, dv, ddecay, dbeta, state}},
        {"linear_recurrence_map", &params, 5, 1, {k, v, decay, beta, places}, {map}},
        {"linear_recurrence_back", &params, 6, 1, {q, k, decay, beta, places, v}, {map}},
        {"linear_recurrence_follow", &params, 1, 1, {maps}, {state}},
        {"linear_recurrence_follow", &turned, 1, 1, {maps}, {state}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
}

void visit_recurrence_examples(visit_example visit) {
    for (size_t i = 0; i < LS_COUNT(all); i++) {
        visit_sizes(visit, &all[i], 'T', 'G');
        visit_sizes(visit, &all[i], 't', 'g');
    }
}
