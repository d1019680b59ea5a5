/*
 * A model that reads a sequence once and goes on token by token: keys and values of the prompt are made at once, its tokens shared by the
 * ranks, and stay where they are made (prefill, program evaluate); a token is computed over them and adds its own (program decode).
 * The sequence is compiled for the most tokens that there will be; what stands behind the last one is seen by nobody.
 */
#ifndef LS_EVAL_DECODER_H
#define LS_EVAL_DECODER_H

#include "eval/trained.h"
#include "graph/graph.h"

typedef struct ls_decoder {
    int64_t most; /* tokens of a sequence */
    ls_graph *model, *graph;
    ls_decoding decoding;
    const char *logits; /* name */
    ls_job job;
    ls_session *session; /* the caller's to run, once */
} ls_decoder;

/*
 * For texts of `known` tokens that grow up to `most`. dtype: "f32" or "bf16"; NULL: f32. LS_USAGE for another. The model is
 * borrowed for the call.
 */
LS_MUST_USE ls_status ls_decoder_open(const ls_model *model, int64_t known, int64_t most, const char *dtype,
                                      const ls_spread *spread, ls_decoder *out);
void ls_decoder_close(ls_decoder *decoder); /* a zeroed one is allowed */

/* Bytes of keys and values that the image's rank holds. */
int64_t ls_decoder_cache_bytes(const ls_decoder *decoder, const ls_image *image);

/* On every rank of its session alike: ids[0, n), n <= most, become the sequence; what was there before is forgotten. */
LS_MUST_USE ls_status ls_decoder_prefill(const ls_decoder *decoder, const ls_rank *rank, const int32_t *ids,
                                         int64_t n);
/*
 * The token `id` at `place`, the number of tokens before it: *logits [V] are those of the token that follows, the same bits on every rank;
 * valid until the next call. Where one is not finite: LS_INVALID that names the weight to blame, on every rank.
 */
LS_MUST_USE ls_status ls_decoder_next(const ls_decoder *decoder, const ls_rank *rank, int32_t id,
                                      int64_t place, const float **logits);

#endif
