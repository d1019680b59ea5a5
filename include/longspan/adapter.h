/*
 * Low-rank adapters (LoRA: Hu et al., arXiv 2106.09685) on top of a model whose own weights stay as they are.
 */
#ifndef LONGSPAN_ADAPTER_H
#define LONGSPAN_ADAPTER_H

#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

/* The adapter of a model. All fields NULL: none. At most one of folder and lora is given. */
typedef struct ls_adapter_choice {
    /* A folder with adapter_config.json and adapter_model.safetensors, as the library peft writes them. */
    const char *folder;
    /*
     * A new adapter, "r=16,alpha=32,target=all-linear": "r" and "alpha" (default 8 each); "target" and
     * "modules-to-save": patterns of modules joined by +, or all-linear; "rslora" and "dora" without a value.
     */
    const char *lora;
    /*
     * The type in which the matrices of the model below the adapter are kept in memory: "bf16", "fp8", "int8" or "nf4";
     * NULL: the type of the model's files. If nothing is trained, it may be given without an adapter.
     */
    const char *base;
} ls_adapter_choice;

LS_PUBLIC_END

#endif
