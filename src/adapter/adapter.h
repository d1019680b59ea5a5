/*
 * adapter: low-rank adapters on the graph of any model, and their files as the library peft (0.21) keeps them.
 *
 * A module is what a weight MODULE.weight belongs to. With an adapter its product is
 *
 *     y = x Wᵀ + scaling · (x Aᵀ) Bᵀ        A [r, from], B [to, r], scaling = alpha / r, or alpha / √r (rsLoRA)
 *     y = m ⊙ that / ‖W + scaling · B A‖    DoRA: norms of rows; derivatives treat the norm as a constant
 *
 * (LoRA: Hu et al., arXiv 2106.09685; rsLoRA: Kalajdzievski, 2312.03732; DoRA: Liu et al., 2402.09353). The rows that
 * an embedding looks up become those of its table plus scaling · (rows of Aᵀ) Bᵀ. The model's own parameters are
 * frozen, except those of the modules to save, which are trained whole.
 */
#ifndef LS_ADAPTER_H
#define LS_ADAPTER_H

#include "graph/graph.h"
#include "longspan/adapter.h"
#include "weights/weights.h"

typedef struct ls_adapter ls_adapter;

/* Names of the files of a folder, and the prefix of the names of tensors in them. */
#define LS_ADAPTER_CONFIG "adapter_config.json"
#define LS_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define LS_ADAPTER_PREFIX "base_model.model."

/*
 * Opens the adapter of a choice, which gives either a folder or the settings of a new adapter. For a folder, reads its
 * config and the names and shapes in its file of weights, which tell which modules have an adapter, and of which rank;
 * a checkpoint's model.safetensors serves as well. LS_USAGE, LS_INVALID or LS_UNSUPPORTED name the key or the field.
 */
LS_MUST_USE ls_status ls_adapter_open(const ls_adapter_choice *choice, ls_adapter **out);
void ls_adapter_close(ls_adapter *adapter); /* NULL is allowed */

/*
 * Called before ls_adapter_resolve if the model scores texts; `head` is the parameter of its scoring head, which peft
 * trains whole with an adapter of a sequence classification. A new adapter saves the head; the adapter of a folder must
 * have it.
 */
void ls_adapter_score(ls_adapter *adapter, const char *head);
/* Whether the files of an adapter's folder have this parameter of the model, which is trained whole. */
bool ls_adapter_holds(const ls_adapter *adapter, const char *parameter);

/*
 * Finds the modules of a model in its forward graph. Called once, before the functions below. logits: of the graph, or
 * none; all-linear leaves out the product that makes them. copies (n): second names of parameters, for errors.
 * LS_USAGE: a pattern that matches nothing, with the nearest name, or a matrix that is used in two ways (a tied head).
 * LS_INVALID: the model has no parameter for a tensor of the folder.
 */
LS_MUST_USE ls_status ls_adapter_resolve(ls_adapter *adapter, const ls_graph *graph, ls_tensor logits,
                                         const ls_weight_copy *copies, int n_copies);

/*
 * Fills the empty graph `to` from a forward graph, and adds the adapters. map[i] becomes the counterpart of tensor i of
 * `from`.
 */
LS_MUST_USE ls_status ls_adapter_apply(const ls_adapter *adapter, const ls_graph *from, ls_graph *to, ls_tensor *map);

/* Writes one line: "LoRA r 16, alpha 32 on 14 modules, 0.20 M parameters". */
void ls_adapter_print(const ls_adapter *adapter, char *out, size_t room);

/*
 * The text of an adapter_config.json that peft reads; for an adapter of a folder, the folder's own. base: the path of
 * the model that the adapter is for. The caller frees *out.
 */
LS_MUST_USE ls_status ls_adapter_text(const ls_adapter *adapter, const char *base, char **out);
/* base_model_name_or_path in the adapter's folder; NULL: the field is missing, or the adapter is new. */
const char *ls_adapter_base(const ls_adapter *adapter);

/* Whether the files of an adapter, and checkpoints of its training, have the parameter. */
bool ls_adapter_has(const ls_flat *flat);
/* The rules for opening files of weights of an adapter. */
extern const ls_weight_rules ls_adapter_files;

/*
 * The weights of a model with its adapter. For an adapter of a folder, those in its file; for a new one, as in peft: A
 * is uniform within ±1/√from, B is 0, and DoRA's magnitudes are the norms of the rows of W. base: the weights of the
 * model, from files; owned, also on failure.
 */
LS_MUST_USE ls_status ls_adapter_weights(const ls_adapter *adapter, const ls_image *image, uint64_t seed,
                                         const ls_weight_source *base, ls_weight_source *out);

/*
 * The weights of a model with the adapter merged into them: each matrix W becomes W + scaling · B A and, with DoRA, its
 * rows get the lengths m; summed in f64. with: the weights of both; owned, also on failure. Only one thread may read at
 * a time.
 */
LS_MUST_USE ls_status ls_adapter_merged(const ls_adapter *adapter, const ls_image *image, const ls_weight_source *with,
                                        ls_weight_source *out);
/*
 * Whether the adapter changes the parameter. *squares: the sum of the squared changes in the last read from this
 * source.
 */
bool ls_adapter_merged_change(const ls_weight_source *merged, const ls_flat *flat, double *squares);

#endif
