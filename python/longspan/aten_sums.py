"""ATen ops that sum, take maxima, multiply matrices and normalise; attention and losses."""
from __future__ import annotations

import string

from . import softmax
from .attention import attend
from .rows import arithmetic, is_tensor, sliced, table

ROWS, row = table()


def over(x, dims):
    rank = len(x.shape)
    return list(range(rank)) if dims in (None, [], ()) else sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims))


@row("sum", "amax", "mean")
def _reduce(low, node, x, dims=None, keepdim=False, dtype=None):
    dims = over(x, dims)
    if x.dtype == "bool":
        x = low.add("cast", x, dtype="T")
    kind = {"kind": "max", "ties": "shared"} if low.name(node) == "amax" else {"kind": "sum"}  # amax: equal largest share the gradient
    y = low.add("reduce", x, dims=dims, keep=bool(keepdim), **kind)
    if low.name(node) == "mean":
        count = 1
        for d in dims:
            count = count * x.shape[d]
        y = low.map("div", y, count, node=node)
    return y


@row("var", "std")
def _variance(low, node, x, dims=None, correction=1, keepdim=False, **named):
    correction, keepdim = named.get("unbiased", correction), named.get("keepdim", keepdim)
    dims, count = over(x, dims), 1
    for d in dims:
        count = count * x.shape[d]
    centre = low.map("div", low.add("reduce", x, kind="sum", dims=dims, keep=True), count, node=node)
    away = low.map("sub", x, centre, node=node)
    total = low.add("reduce", low.map("mul", away, away, node=node), kind="sum", dims=dims, keep=bool(keepdim))
    y = low.map("div", total, count - int(correction), node=node)
    return low.map("sqrt", y, node=node) if low.name(node) == "std" else y


@row("max", "min")
def _max(low, node, x, *rest, **_):
    if rest and is_tensor(rest[0]):
        return arithmetic(low, node, low.name(node), x, rest[0])
    if low.name(node) == "min":
        low.refuse("is known of two tensors only")
    if not rest and "dim" not in _:
        return low.add("reduce", x, kind="max", dims=over(x, None), keep=False, ties="shared")
    dim = rest[0] if rest else _["dim"]
    return [low.add("reduce", x, kind="max", dims=over(x, dim), keep=bool(rest[1] if len(rest) > 1 else _.get("keepdim", False))), None]


@row("topk")
def _topk(low, node, x, k, dim=-1, largest=True, sorted_=True):
    if dim % len(x.shape) != len(x.shape) - 1 or not largest:
        low.refuse("takes other than the largest of the last dimension")
    return low.add("topk", x, k=k)


@row("softmax", "_softmax")
def _softmax(low, node, x, dim, dtype=None):
    return low.add("softmax", x, dim=dim % len(x.shape))


def log_of_sum(low, node, x, dim):
    """log(sum(exp(x))) over one dimension, which stays."""
    top = low.add("reduce", x, kind="max", dims=[dim], keep=True)
    total = low.add("reduce", low.map("exp", low.map("sub", x, top, node=node), node=node), kind="sum", dims=[dim], keep=True)
    return low.map("add", low.map("log", total, node=node), top, node=node)


@row("log_softmax", "_log_softmax")
def _log_softmax(low, node, x, dim, dtype=None):
    return low.map("sub", x, log_of_sum(low, node, x, dim % len(x.shape)), node=node)


@row("logsumexp")
def _logsumexp(low, node, x, dims, keepdim=False):
    dims = over(x, dims)
    if len(dims) != 1:
        low.refuse(f"adds over {len(dims)} dimensions: one is possible")
    y = log_of_sum(low, node, x, dims[0])
    return y if keepdim else low.add("reshape", y, size=list(low.shape(node)))


@row("linalg_vector_norm", "norm")
def _norm_of(low, node, x, order=2, dims=None, keepdim=False, dtype=None):
    if order != 2:
        low.refuse(f"has the order {order}: 2 is possible")
    total = low.add("reduce", low.map("mul", x, x, node=node), kind="sum", dims=over(x, dims), keep=bool(keepdim))
    return low.map("sqrt", total, node=node)


@row("outer")
def _outer(low, node, a, b):
    return low.map("mul", low.add("reshape", a, size=[a.shape[0], 1]), low.add("reshape", b, size=[1, b.shape[0]]), node=node)


@row("linear")
def _linear(low, node, x, weight, bias=None):
    return low.add("linear", x, weight, *([bias] if bias is not None else []))


def product_of(low, a, b):
    """a @ b as NumPy has it."""
    letters = string.ascii_letters
    rank = max(len(a.shape), len(b.shape))
    batch = letters[3:3 + max(rank - 2, 0)]
    left = (batch[len(batch) - (len(a.shape) - 2):] if len(a.shape) > 2 else "") + ("ac" if len(a.shape) > 1 else "c")
    right = (batch[len(batch) - (len(b.shape) - 2):] if len(b.shape) > 2 else "") + ("cb" if len(b.shape) > 1 else "c")
    sizes = {}
    for side, x in ((left, a), (right, b)):
        for letter, n in zip(side, x.shape):
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    a, b = (low.add("broadcast", x, size=[sizes[letter] for letter in side]) if [sizes[letter] for letter in side] != list(x.shape) else x
            for side, x in ((left, a), (right, b)))
    return low.add("contract", a, b, equation=f"{left},{right}->{batch}{'a' if 'a' in left else ''}{'b' if 'b' in right else ''}")


@row("matmul", "bmm", "mm", "mv")
def _matmul(low, node, a, b):
    return product_of(low, a, b)


@row("addmm", "baddbmm")
def _addmm(low, node, bias, a, b, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        low.refuse(f"has beta {beta} and alpha {alpha}")
    return low.map("add", product_of(low, a, b), bias, node=node)


@row("conv1d")
def _conv1d(low, node, x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    """Depth-wise, along the last dimension: a product and a shift for each element of the kernel."""
    (width,), channels = weight.shape[2:], weight.shape[0]
    if isinstance(padding, str) or groups != channels or weight.shape[1] != 1 or list(stride) != [1] or list(dilation) != [1]:
        low.refuse("is no convolution of each channel by itself with stride and dilation 1 and a number as padding")
    padded = low.add("pad", x, dim=2, before=padding[0], after=padding[0], value=0.0) if padding[0] else x
    length, total = low.shape(node)[2], None
    for at in range(width):
        tap = low.add("reshape", sliced(low, weight, 2, at, 1), size=[channels, 1])
        part = low.map("mul", sliced(low, padded, 2, at, length), tap, node=node)
        total = part if total is None else low.map("add", total, part, node=node)
    return total if bias is None else low.map("add", total, low.add("reshape", bias, size=[channels, 1]), node=node)


@row("einsum")
def _einsum(low, node, equation, operands, **_):
    equation = equation.replace(" ", "")
    if len(operands) != 2 or "." in equation or "->" not in equation:
        low.refuse(f"has the equation {equation}: two operands, letters and -> are possible")
    return low.add("contract", *operands, equation=equation)


def mean_of(low, node, x):
    last = len(x.shape) - 1
    return low.map("div", low.add("reduce", x, kind="sum", dims=[last], keep=True), x.shape[last], node=node)


def normed(low, node, x, epsilon):
    """x divided by the root of its mean square."""
    square = low.map("add", mean_of(low, node, low.map("mul", x, x, node=node)), epsilon, node=node)
    return low.map("mul", x, low.map("rsqrt", square, node=node), node=node)


@row("layer_norm", "rms_norm")
def _norm(low, node, x, shape, weight=None, bias=None, eps=1e-5, _=None):
    if len(shape) != 1:
        low.refuse("normalises over several dimensions")
    if low.name(node) == "layer_norm":
        if weight is not None:
            return low.add("layernorm", x, weight, *([bias] if bias is not None else []), epsilon=eps)
        return normed(low, node, low.map("sub", x, mean_of(low, node, x), node=node), eps)
    epsilon = bias if bias is not None else low.epsilon(node)  # the fourth argument
    return low.add("rmsnorm", x, weight, epsilon=epsilon) if weight is not None else normed(low, node, x, epsilon)


@row("scaled_dot_product_attention")
def _attention(low, node, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):
    if dropout > 0:
        low.refuse(f"drops out with probability {dropout}: set it to 0, or call model.eval()")
    if len(q.shape) != 4:
        low.refuse(f"has q of {len(q.shape)} dimensions instead of 4")
    return attend(low.graph, q, k, v, q.shape[3] ** -0.5 if scale is None else scale, [] if mask is None else [mask], bool(causal), at=low.at)


@row("cross_entropy_loss")
def _cross_entropy(low, node, logits, labels, weight=None, reduction=1, ignored=-100, smoothing=0.0):
    if weight is not None:
        low.refuse("has weights of classes")
    rank = len(logits.shape)
    if rank > 2:  # classes are the second dimension
        logits = low.add("permute", logits, order=[0] + list(range(2, rank)) + [1])
    each = low.add("cross_entropy", logits, labels, **({"ignored": ignored} if ignored != -100 else {}))
    if smoothing:  # so much of the loss is the mean over all classes
        last = len(logits.shape) - 1
        of_all = low.map("sub", log_of_sum(low, node, logits, last), mean_of(low, node, logits), node=node)
        of_all = low.map("where", low.map("ne", labels, ignored), low.add("reshape", of_all, size=list(labels.shape)), 0.0, node=node)
        each = low.map("add", low.map("mul", each, 1 - smoothing, node=node), low.map("mul", of_all, smoothing, node=node), node=node)
    return reduced_loss(low, node, each, labels, reduction, ignored)


@row("nll_loss", "nll_loss_nd", "nll_loss2d")
def _nll_loss(low, node, log_probabilities, labels, weight=None, reduction=1, ignored=-100):
    logits, node_of = softmax.log_softmax(log_probabilities), log_probabilities.node
    if logits is None and node_of is not None and node_of.op == "reshape":  # batch and tokens merged
        logits = softmax.log_softmax(node_of.inputs[0])
        logits = low.add("reshape", logits, size=list(log_probabilities.shape)) if logits is not None else None
    if weight is not None or logits is None or len(logits.shape) != 2:
        low.refuse("takes other than log_softmax of [tokens, classes], or has weights of classes")
    each = low.add("cross_entropy", logits, labels, **({"ignored": ignored} if ignored != -100 else {}))
    return reduced_loss(low, node, each, labels, reduction, ignored)


def reduced_loss(low, node, each, labels, reduction, ignored):
    """The loss of each token as it is, its sum, or its mean over the labels that count."""
    if reduction == 0:
        return each
    dims = list(range(len(labels.shape)))
    total = low.add("reduce", each, kind="sum", dims=dims, keep=False)
    if reduction == 2:
        return total
    counted = low.add("cast", low.map("ne", labels, ignored), dtype="T")
    return low.map("div", total, low.add("reduce", counted, kind="sum", dims=dims, keep=False), node=node)
