/* A decoder: prefill of a prompt, then one token at a time over the cache of keys and values. */
#include "eval/eval.h"
#include "tensor/tensor.h"
#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status open_all(const ls_model *model, int64_t known, const char *dtype, const ls_spread *spread,
                          ls_decoder *d) {
    const bool narrow = dtype != NULL && strcmp(dtype, "bf16") == 0;
    if (dtype != NULL && !narrow && strcmp(dtype, "f32") != 0)
        return ls_error(LS_USAGE, "--dtype is %s; expected f32 or bf16", dtype);
    const ls_marks marks = ls_model_takes(model).marks;
    if (marks.kind != LS_MARK_NOT)
        return ls_error(LS_UNSUPPORTED,
                        "%s: the model finds documents in its tokens, at id %d, and generation goes on with one "
                        "document; expected a model that does not",
                        ls_model_folder(model), marks.id);
    ls_language_model lm;
    d->model = ls_graph_create(narrow ? LS_BF16 : LS_F32);
    d->graph = ls_graph_create(narrow ? LS_BF16 : LS_F32);
    LS_TRY(ls_model_build_growing(model, d->model, known, d->most, &lm));
    LS_TRY(ls_model_need_logits(model, &lm, "generation"));
    LS_TRY(ls_graph_decode(d->model, lm.logits, d->graph, &d->decoding));
    d->logits = ls_graph_tensor(d->graph, d->decoding.logits)->name;
    d->job = (ls_job){.graph = d->graph,
                      .programs = ls_apart_programs(d->graph, d->decoding.forward_nodes, LS_PROGRAM_DECODE),
                      .fetch = d->decoding.kept,
                      .n_fetch = d->decoding.n_kept,
                      .micro_batches = 1,
                      .filled_together = true};
    LS_TRY(ls_session_open(&d->job, spread, &d->session));
    d->decode = ls_program_find(ls_session_image(d->session), LS_PROGRAM_DECODE);
    return ls_ok();
}

ls_status ls_decoder_open(const ls_model *model, int64_t known, int64_t most, const char *dtype,
                          const ls_spread *spread, ls_decoder *out) {
    *out = (ls_decoder){.most = most};
    const ls_status status = open_all(model, known, dtype, spread, out);
    if (status.code != LS_OK) ls_decoder_close(out);
    return status;
}

void ls_decoder_close(ls_decoder *d) {
    ls_session_close(d->session);
    ls_graph_destroy(d->graph);
    ls_graph_destroy(d->model);
    *d = (ls_decoder){.most = 0};
}

int64_t ls_decoder_cache_bytes(const ls_decoder *d, const ls_image *image) {
    int64_t bytes = 0;
    for (int i = 0; i < d->decoding.n_kept; i++) {
        const ls_tensor kept = d->decoding.kept[i];
        if (kept.id == d->decoding.logits.id) continue;
        const ls_binding *cache = ls_image_find(image, ls_graph_tensor(d->graph, kept)->name);
        if (!cache->elsewhere) bytes += (int64_t)ls_view_bytes(&cache->operand.view);
    }
    return bytes;
}

static ls_status put_number(const ls_rank *rank, const char *name, int64_t value) {
    const ls_operand to = ls_image_elements(rank->image, name, 0, 1);
    const int32_t number = (int32_t)value;
    /* the model may have no positions */
    return to.buffer >= 0 ? ls_executor_write(rank->executor, &to, &number) : ls_ok();
}

/* Writes the spans that the token at `place` sees: those of the mask, cut off after the token itself. */
static ls_status put_spans(const ls_decoder *d, const ls_rank *rank, int64_t place) {
    for (int m = 0; m < d->decoding.n_masks; m++) {
        char name[48];
        snprintf(name, sizeof name, LS_NEXT "spans.%d", m);
        const ls_mask *mask = &d->decoding.mask[m];
        const ls_binding *to = ls_image_find(rank->image, name);
        ls_span seen[LS_MASK_SPANS], row[LS_MASK_SPANS];
        const int n = ls_mask_spans(mask, d->most, place, seen), width = ls_mask_width(mask);
        for (int i = 0; i < width; i++) {
            row[i] = i < n ? seen[i] : (ls_span){0, 0};
            row[i].hi = (int32_t)ls_min(row[i].hi, place + 1);
        }
        LS_TRY(ls_executor_write(rank->executor, &to->operand, row));
    }
    return ls_ok();
}

/* Writes the new token and runs its program. */
static ls_status run_token(const ls_decoder *d, const ls_rank *rank, int32_t id, int64_t place) {
    LS_TRY(put_number(rank, LS_NEXT "tokens", id));
    LS_TRY(put_number(rank, LS_NEXT "positions", place));
    LS_TRY(put_number(rank, LS_NEXT_PLACE, place));
    LS_TRY(put_spans(d, rank, place));
    return ls_executor_run(rank->executor, d->decode);
}

ls_status ls_decoder_prefill(const ls_decoder *d, const ls_rank *rank, const int32_t *ids, int64_t n) {
    const ls_binding *tokens = ls_image_find(rank->image, "tokens"),
                     *positions = ls_image_find(rank->image, "positions");
    const ls_binding *behind = ls_image_find(rank->image, LS_NEXT_BEHIND);
    LS_ASSERT(n <= d->most);
    int32_t *row = calloc((size_t)d->most, sizeof *row);
    if (row == NULL) return ls_error(LS_NO_MEMORY, "no memory for %lld tokens", (long long)d->most);
    memcpy(row, ids, sizeof *row * (size_t)n);
    ls_status status = ls_executor_scatter(rank->executor, tokens, row);
    for (int64_t i = 0; i < d->most; i++) row[i] = (int32_t)i;
    if (status.code == LS_OK && positions != NULL) status = ls_executor_scatter(rank->executor, positions, row);
    for (int64_t i = 0; i < d->most; i++) row[i] = (int32_t)(i - n);
    if (status.code == LS_OK && behind != NULL) status = ls_executor_scatter(rank->executor, behind, row);
    free(row);
    LS_TRY(status);
    return ls_executor_run(rank->executor, rank->evaluate);
}

/* LS_INVALID if a logit is not finite. All ranks have equal logits, so they return the same status. */
static ls_status check_logits(const ls_decoder *d, const ls_rank *rank, const float *logits, int64_t place) {
    const int64_t V = ls_view_elements(&ls_image_find(rank->image, d->logits)->operand.view);
    bool finite = true;
    for (int64_t v = 0; v < V; v++) finite &= isfinite(logits[v]) != 0;
    if (finite) return ls_ok();
    char subject[64];
    snprintf(subject, sizeof subject, "the logits after token %lld are", (long long)place + 1);
    return ls_weights_not_finite(rank->executor, rank->comm, subject);
}

ls_status ls_decoder_next(const ls_decoder *d, const ls_rank *rank, int32_t id, int64_t place, float *logits) {
    LS_ASSERT(place < d->most);
    LS_TRY(run_token(d, rank, id, place));
    const ls_binding *made = ls_image_find(rank->image, d->logits);
    if (made->alone != 0) /* the last stage has the logits */
        LS_TRY(ls_rank_gather_tensor(rank, made, true, logits));
    else
        LS_TRY(ls_executor_read(rank->executor, &made->operand, logits));
    return check_logits(d, rank, logits, place);
}
