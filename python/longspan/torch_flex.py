"""
flex_attention of PyTorch, written out while a module is traced or compared: PyTorch's own has no gradient on the CPU, and none of its forms
keeps symbolic sizes. What is written out is recognised as any other attention (attention.py), or refused.
"""
from __future__ import annotations

import contextlib
import sys
import types

import torch

apart = False  # whether functions of the user's get scalars, by PyTorch's vmap, as they are made for; else whole arrays of indices


def indices(q, k):
    sizes = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return [torch.arange(n, device=q.device) for n in sizes]


def applied(function, prefix, q, k):
    """function(*prefix, b, h, q, k) of all elements."""
    if not apart:
        return function(*prefix, *(x.view([-1 if i == d else 1 for i in range(4)]) for d, x in enumerate(indices(q, k))))
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    with TransformGetItemToIndex():
        return sys.modules["torch.nn.attention.flex_attention"]._vmap_for_bhqkv(function, (0,) * len(prefix))(*prefix, *indices(q, k))


def attention(q, k, v, score_mod, block_mask, scale, grouped, more):
    if more:
        raise NotImplementedError("flex_attention gives more than attention: leave return_lse and return_aux away")
    if grouped:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        scores = applied(score_mod, (scores,), q, k)
    if block_mask is not None:
        scores = torch.where(applied(block_mask.mask_mod, (), q, k), scores, float("-inf"))
    return torch.softmax(scores, -1) @ v


def _flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False, kernel_options=None, *,
                    return_aux=None):
    from longspan import torch_flex
    return torch_flex.attention(query, key, value, score_mod, block_mask, scale, enable_gqa, return_lse or return_aux)


def _create_block_mask(mask_mod, *_, **__):
    from longspan import torch_flex
    return torch_flex.types.SimpleNamespace(mask_mod=mask_mod)


@contextlib.contextmanager
def written_out(by_elements=False):
    """
    flex_attention and create_block_mask are the functions above, under whatever names the user's modules have imported them. by_elements:
    the user's functions are called as PyTorch calls them, which the comparison needs.
    """
    global apart
    module = sys.modules.get("torch.nn.attention.flex_attention")
    if module is None:
        yield
        return
    replaced = [(module.flex_attention, _flex_attention), (module.create_block_mask, _create_block_mask)]
    before = [(f, f.__code__, f.__defaults__, f.__kwdefaults__) for f, _ in replaced]
    was, apart = apart, by_elements
    for f, own in replaced:
        f.__code__, f.__defaults__, f.__kwdefaults__ = own.__code__, own.__defaults__, own.__kwdefaults__
    try:
        yield
    finally:
        apart = was
        for f, *parts in before:
            f.__code__, f.__defaults__, f.__kwdefaults__ = parts
