/*
 * Low-rank adapters (LoRA: Hu et al., arXiv 2106.09685) on top of a model whose own weights stay as they are.
 */
#ifndef LONGSPAN_ADAPTER_H
#define LONGSPAN_ADAPTER_H

#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

/* Which adapter a model has. Zero: none. At most one of the two is given. */
typedef struct ls_adapter_choice {
    /* A folder with adapter_config.json and adapter_model.safetensors, as the library peft writes them. */
    const char *folder;
    /*
     * A new one, "r=16,alpha=32,target=all-linear": "r" and "alpha" (8 and 8 when left out); "target" and
     * "modules-to-save": patterns of modules with + between, or all-linear; "rslora" and "dora" without a value.
     */
    const char *lora;
    /*
     * In which type the matrices of the model are kept below the adapter: "bf16", "fp8", "int8" or "nf4"; NULL: as the
     * files of the model hold them. Where nothing is trained they may be kept so without an adapter.
     */
    const char *base;
} ls_adapter_choice;

LS_PUBLIC_END

#endif
