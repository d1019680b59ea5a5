/* A model as it is used: config, tokenizer, and weights of its own or of a checkpoint. */
#ifndef LS_EVAL_TRAINED_H
#define LS_EVAL_TRAINED_H

#include "model/model.h"
#include "plan/session.h"
#include "text/text.h"

typedef struct ls_trained {
    ls_model *model;
    ls_tokenizer *tokenizer;
    char *checkpoint; /* NULL: the model's own weights */
} ls_trained;

/*
 * model: config.json or a directory with one; NULL: the checkpoint's. checkpoint: a folder with model.safetensors, or a training run,
 * of which the newest is taken; NULL: none. At least one of them (LS_USAGE). The vocabularies are checked against each other.
 */
LS_MUST_USE ls_status ls_trained_open(const char *model, const char *checkpoint, ls_trained *out);
/* The same with other rotary positions than the config's; NULL: none. */
LS_MUST_USE ls_status ls_trained_open_changed(const char *model, const char *checkpoint,
                                              const ls_rope_change *rope, ls_trained *out);
void ls_trained_close(ls_trained *trained); /* a zeroed one is allowed */

/* The weights into a rank's memory; rank 0 says when they are random (from seed), as nothing else is there. */
LS_MUST_USE ls_status ls_trained_fill(const ls_trained *trained, const ls_rank *rank, uint64_t seed);

#endif
