/* Shared by the graphs of attention and of its gradient: which calls cuDNN supports, operands, masks. */
#ifndef LS_KERNEL_CUDA_CUDNN_ATTENTION_H
#define LS_KERNEL_CUDA_CUDNN_ATTENTION_H

#include "kernel/cuda/cudnn_graph.h"

/* Bytes: operands begin at multiples of the first, a plan's workspace at a multiple of the second. */
enum { LS_CUDNN_ALIGNMENT = 16, LS_CUDNN_PLACE = 256 };

/*
 * A graph and the numbers that it reads when it is executed. It has no addresses, so one graph can be executed for all
 * calls of the same form.
 */
typedef struct ls_cudnn_attention {
    ls_cudnn_graph graph;
    float scale, hidden, window, one;
    int32_t keys, queries;
} ls_cudnn_attention;

/*
 * Whether the library is there and supports this attention: the band is known and each query sees a key in it, the
 * library pairs query heads with KV heads as the call does, all heads have one size, and q, k, v are aligned.
 */
bool ls_cudnn_attends(const ls_kernel_call *call);
bool ls_cudnn_is_aligned(const ls_view *view);
/* The part of k or v that the query heads read. */
ls_view ls_cudnn_read_part(const ls_kernel_call *call, int input);
/* Whether two calls have the same graph; spans, positions and the operands that results are added to may differ. */
bool ls_cudnn_same_attention(const ls_kernel_call *one, const ls_kernel_call *other);

/* An empty graph. */
void ls_cudnn_attention_begin(ls_cudnn_attention *a, const char *kernel, const ls_kernel_call *call);

/* A view [B,N,H,D] as a tensor of the library, [B,H,N,D], or if turned [B,H,D,N]. */
ls_cudnn_tensor ls_cudnn_heads(ls_cudnn_attention *a, const ls_view *view, bool turned);
/* An lse [B,H,N] as a tensor of the library, [B,H,N,1]. */
ls_cudnn_tensor ls_cudnn_rows(ls_cudnn_attention *a, const ls_view *view);
/* The result of a pointwise operation on x and b, a new tensor of the form of x. b NULL: the mode has no b. */
ls_cudnn_tensor ls_cudnn_apply(ls_cudnn_attention *a, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                               const ls_cudnn_tensor *x, const ls_cudnn_tensor *b);
/* x, a number for each query and key [B,H,N,K], with -inf where the band hides the key. */
ls_cudnn_tensor ls_cudnn_hide(ls_cudnn_attention *a, const ls_kernel_call *call, ls_cudnn_tensor x);

#endif
