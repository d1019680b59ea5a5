"""Attention as an op of PyTorch, longspan::attention, with a gradient, for eager programs and torch.compile; and for transformers.

Arrays are [batch, heads, tokens, size] as in scaled_dot_product_attention, on the CPU or a GPU; in memory results have the tokens before the heads, as
the product that follows wants them.
"""
from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, Optional

import torch

from . import attention_calls as calls

DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16"}


def attention(q, k, v, *, causal=False, window=None, scale=None, softcap=None, sink=None, documents=None, **spread):
    """
    softmax(scale · q kᵀ) · v over the keys that a query sees, spread over ranks of this machine, which are threads.
      q                       [batch, heads, tokens, size]; k: [batch, KV heads, tokens, size], where heads is a multiple of KV heads
      v                       [batch, KV heads, tokens, any size], which the result has too
      causal, window          window: a query sees itself and window - 1 keys before it
      scale, softcap          of logits; scale 1/sqrt(size) unless given
      sink                    [heads]: a logit more for each query, without a value
      documents               [batch, tokens] of integers: a query sees keys of its own document alone
      ranks, threads, strategy, mesh, layout, transfers, memory, device    as the options of `longspan train`; chosen unless given. Where the
                              arrays are on a GPU, device is "cuda", a GPU for each rank in turn; with one rank the arrays' own. A call blocks
                              until what is on the current stream has been executed, and until its results are complete
    """
    check(q, k, v, sink)
    if q.is_cuda:
        check_ways(os.environ)
    if q.is_cuda and "device" not in spread:
        spread["device"] = "cuda" if (spread.get("ranks") or 1) > 1 or spread.get("mesh") else f"cuda:{q.device.index}"
    gradients = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, sink))
    how = calls.way(causal=causal, window=window, scale=scale, softcap=softcap, **spread)
    return torch.ops.longspan.attention(q, k, v, sink, documents, how, gradients)[0]


def check(q, k, v, sink):
    for name, x, dims in (("q", q, 4), ("k", k, 4), ("v", v, 4), ("sink", sink, 1)):
        if x is None and name == "sink":
            continue
        if x.device.type not in ("cpu", "cuda") or x.device != q.device:
            raise ValueError(f"attention: {name} is on {x.device}; expected the CPU or a GPU, the same for all (q is on {q.device})")
        if x.dim() != dims or x.dtype != q.dtype or x.dtype not in DTYPES:
            raise ValueError(f"attention: {name} is {x.dtype} of {x.dim()} dimensions; expected {dims}, and one of f32, f64 and bf16 for all")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[2:] != k.shape[2:]:
        raise ValueError(f"attention: q is {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}; expected the same but for the heads of k and v, and "
                         "the size of those of v")  # fmt: skip
    if (q.shape[3] == 0) != (v.shape[3] == 0):
        raise ValueError(f"attention: heads of q have size {q.shape[3]}, those of v {v.shape[3]}; expected at least 1")


def check_ways(environment):
    """Streams that share a way to the GPU may wait for each other for ever, and CUDA reads how many ways there are when it is first used."""
    for name in ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_MAX_COPY_CONNECTIONS"):
        if name not in environment:
            raise ValueError(f"attention: q is on a GPU and {name} is not set; expected 32 in the environment before PyTorch first uses CUDA")


# --- the op -----------------------------------------------------------------------------------------------------------------

library = torch.library.Library("longspan", "FRAGMENT")
library.define("attention(Tensor q, Tensor k, Tensor v, Tensor? sink, Tensor? documents, str how, bool gradients) -> (Tensor, Tensor)")
library.define(
    "attention_backward(Tensor grad_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? sink, Tensor? documents, str how)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)


def form_of(q, k, v, sink, documents, how):
    batch, heads, tokens, size = q.shape
    return calls.Form(batch, tokens, heads, k.shape[1], size, v.shape[3], DTYPES[q.dtype], sink is not None, documents is not None, how)


def result(like, size=None):
    """[batch, heads, tokens, size] of `like`, or with another size; in memory the heads are inside the tokens."""
    batch, heads, tokens, own = like.shape
    size = own if size is None else size
    return like.new_empty((batch, tokens, heads, size)).transpose(1, 2)


def lse_of(q):
    return q.new_empty(q.shape[:3], dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)


def dense_rows(x):
    return x if x.stride(3) == 1 or x.shape[3] == 1 else x.contiguous()


def strided(x):
    batch, head, token, _ = x.stride()
    return x.data_ptr(), batch, token, head


def bounds(documents):
    """The words of a call that name documents, and what they point to."""
    if documents is None:
        return (0, 0, 0), None
    ends, n_ends = calls.bounds_of(documents.cpu().numpy())
    return (ends.ctypes.data, n_ends.ctypes.data, ends.shape[1]), (ends, n_ends)


def address(x):
    return 0 if x is None else x.data_ptr()


def place(x):
    """The last words of a call: whether arrays are on a GPU, and the stream that makes them."""
    return (1, torch.cuda.current_stream(x.device).cuda_stream) if x.is_cuda else (0, 0)


def current(x):
    """A call's stream is one of the calling thread's current device."""
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()


NONE = (0, 0, 0, 0)


def forward(q, k, v, sink, documents, how, gradients):
    o, lse = result(q, v.shape[3]), lse_of(q)
    if q.numel() == 0:
        return o, lse
    q, k, v = map(dense_rows, (q, k, v))
    sink = None if sink is None else sink.contiguous()
    about, held = bounds(documents)  # held: until the call has returned
    attention = calls.opened(form_of(q, k, v, sink, documents, how), gradients)
    with current(q):
        attention.forward(*strided(q), *strided(k), *strided(v), *strided(o), lse.data_ptr(), address(sink), *about, *NONE, *NONE, *NONE, *NONE, 0,
                          *place(q))  # fmt: skip
    return o, lse


def backward(grad_o, q, k, v, o, lse, sink, documents, how):
    dq, dk, dv = result(q), result(k), result(v)
    dsink = q.new_empty(0) if sink is None else torch.empty_like(sink, memory_format=torch.contiguous_format)
    if q.numel() == 0:
        return dq, dk, dv, dsink.zero_()
    q, k, v, o, grad_o = map(dense_rows, (q, k, v, o, grad_o))
    lse, sink = lse.contiguous(), None if sink is None else sink.contiguous()
    about, held = bounds(documents)
    attention = calls.opened(form_of(q, k, v, sink, documents, how), True)
    with current(q):
        attention.backward(*strided(q), *strided(k), *strided(v), *strided(o), lse.data_ptr(), address(sink), *about, *strided(grad_o), *strided(dq),
                           *strided(dk), *strided(dv), 0 if sink is None else dsink.data_ptr(), *place(q))  # fmt: skip
    return dq, dk, dv, dsink


for where in ("CPU", "CUDA"):
    library.impl("attention", forward, where)
    library.impl("attention_backward", backward, where)


@torch.library.register_fake("longspan::attention", lib=library)
def shapes(q, k, v, sink, documents, how, gradients):
    return result(q, v.shape[3]), lse_of(q)


@torch.library.register_fake("longspan::attention_backward", lib=library)
def gradient_shapes(grad_o, q, k, v, o, lse, sink, documents, how):
    return result(q), result(k), result(v), q.new_empty(0) if sink is None else torch.empty_like(sink)


def save(ctx, inputs, output):
    q, k, v, sink, documents, how, _ = inputs
    o, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, o, lse, sink, documents)
    ctx.how = how


def gradient(ctx, grad_o, _):
    q, k, v, o, lse, sink, documents = ctx.saved_tensors
    dq, dk, dv, dsink = torch.ops.longspan.attention_backward(grad_o, q, k, v, o, lse, sink, documents, ctx.how)
    return dq, dk, dv, None if sink is None else dsink, None, None, None


torch.library.register_autograd("longspan::attention", gradient, setup_context=save, lib=library)


# --- transformers -----------------------------------------------------------------------------------------------------------


class Pattern(NamedTuple):
    """What a mask of transformers comes to."""

    causal: bool
    window: Optional[int]
    documents: Optional[torch.Tensor]


def cells(function):
    names = function.__code__.co_freevars if hasattr(function, "__code__") else ()
    return dict(zip(names, (cell.cell_contents for cell in function.__closure__ or ())))


def terms(function):
    """The terms of a mask function, [(name, value)]: transformers puts them together as closures."""
    name = getattr(function, "__qualname__", str(function)).partition(".")[0]
    inside = cells(function)
    if name in ("causal_mask_function", "bidirectional_mask_function"):
        return [(name, None)]
    if name == "and_masks":
        return [term for one in inside["mask_functions"] for term in terms(one)]
    if name == "sliding_window_overlay":
        return [(name, inside["sliding_window"])]
    if name == "packed_sequence_mask_function":
        return [(name, inside["packed_sequence_mask"])]
    if name == "remap_positions_for_packed_sequence":  # positions rise by one within a document
        return terms(inside["mask_function"]) + [(name, None)]
    raise ValueError(f"longspan attention: mask {name}; expected causal, sliding windows, packed documents and padding")


def pattern_of(function, padding):
    found = dict(terms(function))
    documents = found.get("packed_sequence_mask_function")
    window = found.get("sliding_window_overlay")
    causal = "causal_mask_function" in found
    if ("remap_positions_for_packed_sequence" in found and documents is None) or (window is not None and not causal):
        raise ValueError(f"longspan attention: mask of {', '.join(found)}; expected windows that are causal, and positions with documents")
    if padding is not None:
        if documents is not None:
            raise ValueError("longspan attention: padding together with packed documents; expected one of them")
        changes = torch.nn.functional.pad((padding[:, 1:] != padding[:, :-1]).to(torch.int32), (1, 0)).cumsum(1)
        documents = torch.where(padding, 0, changes + 1)  # what pads is documents of its own, that nobody else sees
    return Pattern(causal, window, None if documents is None else documents.to(torch.int32))


def make_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None, **others):
    """In the place of transformers' masks. A query that continues a cache has other keys than its own: those are for sdpa."""
    if q_length != kv_length:
        from transformers.masking_utils import sdpa_mask

        return sdpa_mask(batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, **others)
    return pattern_of(mask_function, attention_mask)


def transformers_attention(module, query, key, value, attention_mask, spread, dropout=0.0, scaling=None, is_causal=None, sliding_window=None,
                           softcap=None, s_aux=None, position_bias=None, **others):  # fmt: skip
    if query.shape[2] != key.shape[2]:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if s_aux is not None:
            raise ValueError("longspan attention: a sink with keys of a cache; expected as many queries as keys")
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal,
                                      position_bias=position_bias, softcap=softcap, **others)  # fmt: skip
    if dropout:
        raise ValueError(f"longspan attention: dropout {dropout}; expected 0")
    if position_bias is not None:
        raise ValueError("longspan attention: a learned bias of positions; expected none")
    if attention_mask is None:
        causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
        attention_mask = Pattern(causal, sliding_window if causal else None, None)
    if not isinstance(attention_mask, Pattern):
        raise ValueError(f"longspan attention: a mask of {list(attention_mask.shape)} that is given whole; expected one of [batch, tokens]")
    causal, window, documents = attention_mask
    o = attention(query, key, value, causal=causal, window=window, scale=scaling, softcap=softcap, sink=s_aux, documents=documents, **spread)
    return o.transpose(1, 2).contiguous(), None


def register_attention(name="longspan", **spread):
    """
    Makes model.set_attn_implementation("longspan") of transformers use this attention. spread: ranks, strategy ... as in attention(); another
    name for each spread. Masks other than causal, sliding windows, packed documents and padding are refused by name. Tokens that continue a
    cache (generation, after its first step) are computed by PyTorch's own attention.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    calls.way(**spread)  # refuses what it does not know

    def forward(module, query, key, value, attention_mask, **options):
        return transformers_attention(module, query, key, value, attention_mask, spread, **options)

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, make_mask)
