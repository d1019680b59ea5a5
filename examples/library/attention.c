/*
 * Attention alone, on the caller's queries, keys and values: forward and backward with the sequence spread over several
 * ranks, compared with one rank. Each rank writes its tokens into Longspan's arrays and calls forward and backward;
 * then the results of all ranks are gathered.
 *
 *     cc attention.c $(pkg-config --cflags --libs longspan) -lm -o attention && ./attention [RANKS [STRATEGY]]
 */
#include <longspan/longspan.h>

#include <math.h>
#include <stdlib.h>

enum { B = 2, S = 500, HQ = 4, HKV = 2, D = 32, STEPS = 3 };

/* The results of all ranks, in the order of the sequence. */
typedef struct results {
    float o[B][S][HQ][D], lse[B][HQ][S];
    float dq[B][S][HQ][D], dk[B][S][HKV][D], dv[B][S][HKV][D];
} results;

/* --- one rank's tokens -------------------------------------------------------------------------------------------- */

/* A number between -1 and 1, a pure function of its arguments. */
static float number(int step, int array, int64_t element) {
    uint64_t x = (uint64_t)element + 0x9e3779b97f4a7c15u * (uint64_t)(1 + array + 16 * step);
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return (float)(int32_t)(x >> 32) * 0x1p-31f;
}

/* The row of the rank's token i of sequence b in the arrays of whole sequences, [B,S]. */
static int64_t global_row(const ls_attention_rank *r, int64_t b, int64_t i) {
    return (r->first_batch + b) * S + r->positions[i];
}

static void write_tokens(const ls_attention_rank *r, const ls_attention_array *to, int step, int array) {
    const int64_t width = to->size[2] * to->size[3];
    float *x = to->data;
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t i = 0; i < r->n; i++)
            for (int64_t j = 0; j < width; j++)
                x[(b * r->n + i) * width + j] = number(step, array, global_row(r, b, i) * width + j);
}

static ls_status work(ls_attention_rank *r, const void *input, void *result) {
    (void)input;
    results *all = result;
    for (int step = 0; step < STEPS; step++) {
        write_tokens(r, &r->q, step, 0);
        write_tokens(r, &r->k, step, 1);
        write_tokens(r, &r->v, step, 2);
        LS_TRY(ls_attention_forward(r)); /* o and lse of this rank's tokens are complete */
        write_tokens(r, &r->grad_o, step, 3);
        LS_TRY(ls_attention_backward(r)); /* dq, dk and dv of its tokens are complete, from all ranks */
    }
    LS_TRY(ls_attention_get(r, "o", all->o));
    LS_TRY(ls_attention_get(r, "lse", all->lse));
    LS_TRY(ls_attention_get(r, "dq", all->dq));
    LS_TRY(ls_attention_get(r, "dk", all->dk));
    return ls_attention_get(r, "dv", all->dv);
}

/* --- all ranks ---------------------------------------------------------------------------------------------------- */

/* Runs attention with a window of 96 tokens within packed documents. */
static ls_status run(int ranks, const char *strategy, results *out) {
    static const int32_t ends[] = {0, 130, 131, 420, S};
    const ls_mask mask = {
        .n = 2,
        .term = {{.kind = LS_MASK_WINDOW, .window = 96}, {.kind = LS_MASK_DOCUMENTS, .ends = ends, .n_ends = 5}}};
    const ls_attention_options options = {.batch = B,
                                          .seq = S,
                                          .heads = HQ,
                                          .kv_heads = HKV,
                                          .head_size = D,
                                          .dtype = LS_F32,
                                          .mask = &mask,
                                          .gradients = true,
                                          .spread = {.ranks = ranks, .strategy = strategy}};
    ls_shared_attention *attention;
    LS_TRY(ls_shared_attention_open(&options, &attention));
    ls_shared_attention_print(attention, LS_PRINT_CHOICE, stdout);
    const ls_status status = ls_shared_attention_run(attention, work, NULL, out, sizeof *out);
    ls_shared_attention_close(attention);
    return status;
}

/*
 * The largest relative difference of the results: the norm of the difference over the norm of the first; NaN if a
 * result has NaN.
 */
static double compare(const results *one, const results *many) {
    const struct {
        const char *name;
        const void *a, *b;
        size_t n;
    } pairs[] = {{"o", one->o, many->o, sizeof one->o / sizeof(float)},
                 {"lse", one->lse, many->lse, sizeof one->lse / sizeof(float)},
                 {"dq", one->dq, many->dq, sizeof one->dq / sizeof(float)},
                 {"dk", one->dk, many->dk, sizeof one->dk / sizeof(float)},
                 {"dv", one->dv, many->dv, sizeof one->dv / sizeof(float)}};
    double worst = 0;
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        const float *a = pairs[p].a, *b = pairs[p].b;
        double difference = 0, all = 0;
        for (size_t i = 0; i < pairs[p].n; i++) {
            difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
            all += (double)a[i] * a[i];
        }
        const double error = sqrt(difference / all);
        printf("%-3s differs by %.1e of its norm\n", pairs[p].name, error);
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

int main(int argc, char **argv) {
    results *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    if (one == NULL || many == NULL) return 1;
    ls_status status = run(1, NULL, one);
    if (status.code == LS_OK) status = run(argc > 1 ? atoi(argv[1]) : 2, argc > 2 ? argv[2] : NULL, many);
    const bool same = status.code == LS_OK && compare(one, many) < 2e-6;
    if (status.code != LS_OK) fprintf(stderr, "%s\n", status.text);
    free(one);
    free(many);
    return same ? 0 : 1;
}
