/*
 * adapter: low-rank adapters on the graph of any model, and the files in which the library peft (0.21) keeps them.
 *
 * A module is what a weight MODULE.weight belongs to. With an adapter its product is
 *
 *     y = x Wᵀ + scaling · (x Aᵀ) Bᵀ        A [r, from], B [to, r], scaling = alpha / r, or alpha / √r (rsLoRA)
 *     y = m ⊙ that / ‖W + scaling · B A‖    DoRA: norms of rows, for which derivatives take the norm as a constant
 *
 * (LoRA: Hu et al., arXiv 2106.09685; rsLoRA: Kalajdzievski, 2312.03732; DoRA: Liu et al., 2402.09353), and the rows
 * that an embedding looks up are those of its table plus scaling · (rows of Aᵀ) Bᵀ. The model's own parameters are
 * frozen, but for those of the modules to save, which are trained whole.
 */
#ifndef LS_ADAPTER_H
#define LS_ADAPTER_H

#include "graph/graph.h"
#include "longspan/adapter.h"
#include "weights/weights.h"

typedef struct ls_adapter ls_adapter;

/* Names of the files of a folder, and what stands before the names of tensors there. */
#define LS_ADAPTER_CONFIG "adapter_config.json"
#define LS_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define LS_ADAPTER_PREFIX "base_model.model."

/*
 * Reads a choice, of which one of the two is given. Of a folder: its config and the names and shapes in its file of
 * weights, from which follows what has an adapter, and of which rank; a checkpoint's model.safetensors does as well.
 * LS_USAGE, LS_INVALID or LS_UNSUPPORTED name the key or the field.
 */
LS_MUST_USE ls_status ls_adapter_open(const ls_adapter_choice *choice, ls_adapter **out);
void ls_adapter_close(ls_adapter *adapter); /* NULL is allowed */

/*
 * Before ls_adapter_resolve: the model scores texts, and the parameter is its head, which peft trains whole under an
 * adapter of a sequence classification. A new adapter saves it; one of a folder must.
 */
void ls_adapter_score(ls_adapter *adapter, const char *head);
/* Whether the files of a folder have a parameter of the model, which is trained whole. */
bool ls_adapter_holds(const ls_adapter *adapter, const char *parameter);

/*
 * Finds the modules of a model in its forward graph, once, before anything else is called. logits: of the graph, or
 * none; all-linear leaves out the product that makes them. copies (n): second names of parameters, for errors.
 * LS_USAGE: a pattern that matches nothing, with the nearest name, or a matrix that is used in two ways (a tied head).
 * LS_INVALID: a tensor of the folder that the model has no place for.
 */
LS_MUST_USE ls_status ls_adapter_resolve(ls_adapter *adapter, const ls_graph *graph, ls_tensor logits,
                                         const ls_weight_copy *copies, int n_copies);

/* Fills the empty graph `to` from a forward graph, with adapters. map[i] becomes what stands for tensor i of `from`. */
LS_MUST_USE ls_status ls_adapter_apply(const ls_adapter *adapter, const ls_graph *from, ls_graph *to, ls_tensor *map);

/* One line: "LoRA r 16, alpha 32 on 14 modules, 0.20 M parameters". */
void ls_adapter_print(const ls_adapter *adapter, char *out, size_t room);

/*
 * The text of an adapter_config.json that peft reads; of a folder, its own. base: the path of the model that it is for.
 * The caller frees *out.
 */
LS_MUST_USE ls_status ls_adapter_text(const ls_adapter *adapter, const char *base, char **out);
/* base_model_name_or_path of a folder; NULL: it has none, or the adapter is new. */
const char *ls_adapter_base(const ls_adapter *adapter);

/* Whether files of an adapter, and checkpoints of its training, have the parameter. */
bool ls_adapter_has(const ls_flat *flat);
/* The rules by which files of weights are opened. */
extern const ls_weight_rules ls_adapter_files;

/*
 * The weights of a model with its adapter: of a folder, those in its file; of a new one A uniform within ±1/√from, B 0,
 * and DoRA's magnitudes the norms of the rows of W, as peft begins. base: the weights of the model, from files; owned,
 * also when this fails.
 */
LS_MUST_USE ls_status ls_adapter_weights(const ls_adapter *adapter, const ls_image *image, uint64_t seed,
                                         const ls_weight_source *base, ls_weight_source *out);

/*
 * The weights of a model with what its adapter adds: each matrix W becomes W + scaling · B A, with DoRA rows of the
 * lengths m, summed in f64. with: the weights of both; owned, also when this fails. One thread may read at a time.
 */
LS_MUST_USE ls_status ls_adapter_merged(const ls_adapter *adapter, const ls_image *image, const ls_weight_source *with,
                                        ls_weight_source *out);
/*
 * Whether the adapter changes the parameter. *squares: the sum of the squares of what the last read of such a source
 * has changed.
 */
bool ls_adapter_merged_change(const ls_weight_source *merged, const ls_flat *flat, double *squares);

#endif
