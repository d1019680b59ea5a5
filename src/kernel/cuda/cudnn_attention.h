/* What graphs of attention and of its gradient have in common: the calls that cuDNN can do, operands, masks. */
#ifndef LS_KERNEL_CUDA_CUDNN_ATTENTION_H
#define LS_KERNEL_CUDA_CUDNN_ATTENTION_H

#include "kernel/cuda/cudnn_graph.h"

/* Where operands begin, and a plan's workspace. */
enum { LS_CUDNN_ALIGNMENT = 16, LS_CUDNN_PLACE = 256 };

/* A graph and the numbers that it reads when it is executed; without addresses, so that it serves all calls of a form.
 */
typedef struct ls_cudnn_attention {
    ls_cudnn_graph graph;
    float scale, hidden, window, one;
    int32_t keys, queries;
} ls_cudnn_attention;

/*
 * Whether the library is there and has such attention: of a known band in which each query sees a key, with heads that
 * it pairs as the call does, all of one size, and q, k, v that are aligned.
 */
bool ls_cudnn_attends(const ls_kernel_call *call);
bool ls_cudnn_is_aligned(const ls_view *view);
/* The part of k or v that the query heads read. */
ls_view ls_cudnn_read_part(const ls_kernel_call *call, int input);
/* Whether the graphs of two calls are the same, whatever spans, positions and what results are added to are. */
bool ls_cudnn_same_attention(const ls_kernel_call *one, const ls_kernel_call *other);

/* An empty graph. */
void ls_cudnn_attention_begin(ls_cudnn_attention *a, const char *kernel, const ls_kernel_call *call);

/* A view [B,N,H,D] as the library has it, [B,H,N,D]; with `turned` [B,H,D,N]. */
ls_cudnn_tensor ls_cudnn_heads(ls_cudnn_attention *a, const ls_view *view, bool turned);
/* An lse [B,H,N] as the library has it, [B,H,N,1]. */
ls_cudnn_tensor ls_cudnn_rows(ls_cudnn_attention *a, const ls_view *view);
/* A new tensor of the form of x. b NULL: the mode has none. */
ls_cudnn_tensor ls_cudnn_apply(ls_cudnn_attention *a, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                               const ls_cudnn_tensor *x, const ls_cudnn_tensor *b);
/* Numbers of query and key [B,H,N,K], -inf where the band hides the key. */
ls_cudnn_tensor ls_cudnn_hide(ls_cudnn_attention *a, const ls_kernel_call *call, ls_cudnn_tensor x);

#endif
