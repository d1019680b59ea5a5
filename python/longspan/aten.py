"""ATen ops in the ops of the IR: one row per op (rows.py)."""
from __future__ import annotations

import string

from . import softmax
from .attention import attend
from .rows import EXPRESSIONS, arithmetic, elementwise, expression, is_tensor, sliced

ATEN = {}


def row(*names):
    def put(function):
        for name in names:
            ATEN[name] = function
        return function
    return put


# --- single elements ------------------------------------------------------------------------------------------------------


for name, word in [("mul", "mul"), ("pow", "pow"), ("lt", "lt"), ("le", "le"), ("eq", "eq"), ("ne", "ne"), ("minimum", "min"), ("maximum", "max"),
                   ("remainder", "mod"), ("neg", "neg"), ("abs", "abs"), ("sign", "sign"), ("exp", "exp"), ("log", "log"), ("log1p", "log1p"),
                   ("sqrt", "sqrt"), ("rsqrt", "rsqrt"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"), ("sigmoid", "sigmoid"), ("erf", "erf"),
                   ("floor", "floor"), ("logical_and", "and"), ("logical_or", "or"), ("logical_not", "not")]:
    ATEN[name] = elementwise(word)
ATEN["gt"] = lambda low, node, a, b: arithmetic(low, node, "lt", b, a)
ATEN["ge"] = lambda low, node, a, b: arithmetic(low, node, "le", b, a)
ATEN["reciprocal"] = lambda low, node, a: arithmetic(low, node, "div", 1.0, a)
ATEN["rsub"] = lambda low, node, a, b, alpha=1: arithmetic(low, node, "sub", b, a)


@row("add", "sub")
def _add(low, node, a, b, alpha=1):
    if alpha != 1:
        b = low.map("mul", b, alpha, node=node) if is_tensor(b) else b * alpha
    return arithmetic(low, node, low.name(node), a, b)


@row("div", "floor_divide")
def _div(low, node, a, b, rounding_mode=None):
    y = arithmetic(low, node, "div", a, b)
    if low.name(node) == "floor_divide" or rounding_mode == "floor":
        return arithmetic(low, node, "floor", y)
    if rounding_mode is not None:
        low.refuse(f"rounds by {rounding_mode}")
    return y


@row("__and__", "bitwise_and", "__or__", "bitwise_or", "bitwise_not")
def _bits(low, node, *operands):
    if low.dtype(node) != "bool":
        low.refuse("works on the bits of integers")
    return arithmetic(low, node, {"a": "and", "o": "or", "n": "not"}[low.name(node).replace("bitwise_", "").strip("_")[0]], *operands)


@row("where")
def _where(low, node, condition, yes, no):
    return low.map("where", condition, yes, no, node=node)


@row("masked_fill")
def _masked_fill(low, node, x, mask, value):
    return low.map("where", mask, value, x, node=node)


@row("clamp", "clamp_min", "clamp_max")
def _clamp(low, node, x, low_end=None, high_end=None, **ends):
    low_end, high_end = ends.get("min", low_end), ends.get("max", high_end)
    if low.name(node) == "clamp_max":
        low_end, high_end = None, low_end
    x = x if low_end is None else arithmetic(low, node, "max", x, low_end)
    return x if high_end is None else arithmetic(low, node, "min", x, high_end)


@row("silu", "relu")
def _named(low, node, x):
    return low.add(low.name(node), x)


@row("gelu")
def _gelu(low, node, x, approximate="none"):
    return low.add("gelu_tanh" if approximate == "tanh" else "gelu", x)


@row("softplus")
def _softplus(low, node, x, beta=1, threshold=20):
    """max(x, 0) + log1p(exp(-|x|)), of beta x."""
    z = arithmetic(low, node, "mul", x, beta)
    small = low.map("log1p", low.map("exp", low.map("neg", low.map("abs", z, node=node), node=node), node=node), node=node)
    return arithmetic(low, node, "div", low.map("add", low.map("max", z, 0.0, node=node), small, node=node), beta)


@row("elu", "selu", "celu", "leaky_relu", "hardtanh", "relu6", "hardsigmoid", "hardswish", "mish", "log_sigmoid", "softsign", "square")
def _activation(low, node, x, *given, **named):
    """What modules put behind products, as expressions; their numbers are the op's arguments, or its defaults."""
    name = low.name(node)
    defaults = {"elu": {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0}, "celu": {"alpha": 1.0}, "leaky_relu": {"negative_slope": 0.01},
                "hardtanh": {"min_val": -1.0, "max_val": 1.0}}.get(name, {})
    numbers = {**defaults, **dict(zip(defaults, given)), **named}

    def step(word, *operands):
        return low.map(word, *operands, node=node)

    def clamped(x, least, most):
        return step("min", step("max", x, least), most)

    def exponential(x, alpha, scale, inner):
        below = step("mul", step("sub", step("exp", step("mul", step("min", x, 0.0), inner)), 1.0), alpha * scale)
        return step("add", step("mul", step("max", x, 0.0), scale), below)

    if name == "elu":
        return exponential(x, *numbers.values())
    if name == "selu":
        return exponential(x, 1.6732632423543772, 1.0507009873554805, 1.0)
    if name == "celu":
        return exponential(x, numbers["alpha"], 1.0, 1 / numbers["alpha"])
    if name == "leaky_relu":
        return step("add", step("max", x, 0.0), step("mul", step("min", x, 0.0), numbers["negative_slope"]))
    if name in ("hardtanh", "relu6"):
        return clamped(x, 0.0, 6.0) if name == "relu6" else clamped(x, numbers["min_val"], numbers["max_val"])
    if name in ("hardsigmoid", "hardswish"):
        gate = step("div", clamped(step("add", x, 3.0), 0.0, 6.0), 6.0)
        return gate if name == "hardsigmoid" else step("mul", x, gate)
    if name == "softsign":
        return step("div", x, step("add", step("abs", x), 1.0))
    if name == "square":
        return step("mul", x, x)
    positive = _softplus(low, node, step("neg", x) if name == "log_sigmoid" else x)
    return step("neg", positive) if name == "log_sigmoid" else step("mul", x, step("tanh", positive))


for name in EXPRESSIONS:
    ATEN[name] = expression(name)


@row("addcmul", "addcdiv")
def _added(low, node, x, a, b, value=1):
    both = arithmetic(low, node, "mul" if low.name(node) == "addcmul" else "div", a, b)
    return arithmetic(low, node, "add", x, both if value == 1 else arithmetic(low, node, "mul", both, value))


@row("glu")
def _glu(low, node, x, dim=-1):
    dim, half = dim % len(x.shape), x.shape[dim] // 2
    return low.map("mul", sliced(low, x, dim, 0, half), low.map("sigmoid", sliced(low, x, dim, half, half), node=node), node=node)


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


@row("to", "_to_copy", "type_as", "float", "clone", "contiguous", "alias", "detach", "detach_", "lift_fresh_copy", "lift_fresh", "dropout",
     "_conj", "resolve_conj", "expand_as", "view_as", "native_dropout")
def _same(low, node, x, *rest, **named):
    """Ops that copy, and casts."""
    name = low.name(node)
    if "dropout" in name and rest[0] > 0 and (rest[1] if len(rest) > 1 else True):
        low.refuse(f"drops out with probability {rest[0]} in training: set it to 0, or call model.eval()")
    if name.startswith("detach") and is_tensor(x) and low.trained(x):
        low.refuse("stops a gradient")
    if not is_tensor(x):
        return low.rounded(node, x)
    if name in ("expand_as", "view_as"):
        return low.add("broadcast" if name == "expand_as" else "reshape", x, size=list(low.shape(node)))
    dtype = low.dtype(node)
    if dtype == x.dtype:
        return x
    if dtype == "bool":
        return low.map("ne", x, 0, node=node)
    return low.add("cast", x, dtype=dtype)


# --- dimensions -----------------------------------------------------------------------------------------------------------


@row("view", "reshape", "_unsafe_view", "flatten", "unflatten", "unsqueeze", "squeeze")
def _reshape(low, node, x, *_, **__):
    if not is_tensor(x):
        return low.add("reshape", low.filled(x), size=list(low.shape(node))) if low.shape(node) else x
    return x if low.shape(node) == x.shape else low.add("reshape", x, size=list(low.shape(node)))


@row("expand", "broadcast_to")
def _expand(low, node, x, *_, **__):
    shape = low.shape(node)
    if not is_tensor(x):
        return low.add("fill", size=list(shape), value=x, dtype=low.dtype(node)) if shape else x
    return x if x.shape == shape else low.add("broadcast", x, size=list(shape))


@row("transpose", "swapaxes", "swapdims", "t", "permute", "movedim", "mT", "numpy_T", "matrix_H")
def _permute(low, node, x, *dims):
    rank, name = len(x.shape), low.name(node)
    order = list(range(rank))
    if name == "permute":
        order = [d % rank for d in dims[0]]
    elif name == "movedim":
        source, goal = ([d] if isinstance(d, int) else list(d) for d in dims)
        rest = [i for i in range(rank) if i not in [s % rank for s in source]]
        order = [None] * rank
        for s, g in zip(source, goal):
            order[g % rank] = s % rank
        order = [rest.pop(0) if i is None else i for i in order]
    else:
        a, b = (dims[0] % rank, dims[1] % rank) if dims else (rank - 2, rank - 1)
        order[a], order[b] = order[b], order[a]
    return low.add("permute", x, order=order)


def place(low, at, n):
    """A user's index, which may count from the end, from the beginning."""
    return at if not isinstance(at, int) or at >= 0 else n + at


@row("slice")
def _slice(low, node, x, dim=0, start=None, end=None, step=1):
    dim %= len(x.shape)
    return sliced(low, x, dim, place(low, start or 0, x.shape[dim]), low.shape(node)[dim], step)


@row("narrow")
def _narrow(low, node, x, dim, start, length):
    return sliced(low, x, dim % len(x.shape), place(low, start, x.shape[dim]), length)


@row("select")
def _select(low, node, x, dim, index):
    dim %= len(x.shape)
    part = sliced(low, x, dim, place(low, index, x.shape[dim]), 1)
    return low.add("reshape", part, size=list(low.shape(node)))


@row("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk", "tensor_split")
def _split(low, node, x, *_, dim=None, **__):
    name = low.name(node)
    given = node.args[1:] if name == "unbind" else node.args[2:]
    dim = (dim if dim is not None else given[0] if given else 0) % len(x.shape)
    parts, start = [], 0
    for shape in low.shapes(node):
        if name == "unbind":
            parts.append(low.add("reshape", sliced(low, x, dim, start, 1), size=list(shape)))
            start += 1
        else:
            parts.append(sliced(low, x, dim, start, shape[dim]))
            start = start + shape[dim]
    return parts


@row("getitem")
def _getitem(low, node, x, i):
    return x[i]


@row("cat", "concat")
def _cat(low, node, parts, dim=0):
    return parts[0] if len(parts) == 1 else low.add("concat", *parts, dim=dim % len(parts[0].shape))


@row("stack")
def _stack(low, node, parts, dim=0):
    dim %= len(parts[0].shape) + 1
    parts = [low.add("reshape", x, size=list(x.shape[:dim]) + [1] + list(x.shape[dim:])) for x in parts]
    return low.add("concat", *parts, dim=dim)


def repeated(low, x, dim, n, inner):
    """Dimension dim n times: each element in turn, or the whole."""
    shape = list(x.shape)
    one, many = ([shape[dim], 1], [shape[dim], n]) if inner else ([1, shape[dim]], [n, shape[dim]])
    x = low.add("reshape", x, size=shape[:dim] + one + shape[dim + 1:])
    x = low.add("broadcast", x, size=shape[:dim] + many + shape[dim + 1:])
    return low.add("reshape", x, size=shape[:dim] + [shape[dim] * n] + shape[dim + 1:])


@row("repeat_interleave")
def _repeat_interleave(low, node, x, n, dim=None, output_size=None):
    if not isinstance(n, int) or dim is None:
        low.refuse("repeats by a tensor: its result's shape depends on data")
    return repeated(low, x, dim % len(x.shape), n, True)


@row("repeat", "tile")
def _repeat(low, node, x, times):
    if len(times) > len(x.shape):
        x = low.add("reshape", x, size=[1] * (len(times) - len(x.shape)) + list(x.shape))
    for dim, n in enumerate(times):
        x = x if n == 1 else repeated(low, x, dim, n, False)
    return x


@row("pad", "constant_pad_nd")
def _pad(low, node, x, width, mode="constant", value=None):
    if mode != "constant":
        low.refuse(f"pads with {mode}")
    for i in range(0, len(width), 2):
        dim, before, after = len(x.shape) - 1 - i // 2, width[i], width[i + 1]
        if before < 0 or after < 0:
            x = sliced(low, x, dim, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0))
        if before > 0 or after > 0:
            x = low.add("pad", x, dim=dim, before=max(before, 0), after=max(after, 0), value=value or 0.0)
    return x


@row("arange")
def _arange(low, node, *ends, **_):
    start, _, step = (0, ends[0], 1) if len(ends) == 1 else (tuple(ends) + (1,))[:3]
    x = low.add("iota", size=list(low.shape(node)), dim=0)
    x = x if step == 1 else low.map("mul", x, step, dtype=low.dtype(node))
    x = x if start == 0 else low.map("add", x, start, dtype=low.dtype(node))
    return x if low.dtype(node) == x.dtype else low.add("cast", x, dtype=low.dtype(node))


@row("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "scalar_tensor", "fill")
def _fill(low, node, *arguments, **named):
    name = low.name(node)
    value = 0 if "zeros" in name else 1 if "ones" in name else arguments[0] if name == "scalar_tensor" else named.get("fill_value", arguments[-1])
    shape = list(low.shape(node))
    return low.add("fill", size=shape, value=float(value), dtype=low.dtype(node)) if shape else low.rounded(node, value)


@row("tril", "triu")
def _triangle(low, node, x, diagonal=0):
    shape = list(low.shape(node))
    rows, columns = (low.add("iota", size=[1] * d + [shape[d]] + [1] * (len(shape) - d - 1), dim=d) for d in (len(shape) - 2, len(shape) - 1))
    rows = rows if diagonal == 0 else low.map("add", rows, diagonal, dtype="i32")
    keep = low.map("le", columns, rows) if low.name(node) == "tril" else low.map("le", rows, columns)
    return low.map("where", keep, x, 0.0, node=node)


@row("copy")
def _copy(low, node, x, source, *_):
    return low.add("fill", size=list(x.shape), value=source, dtype=x.dtype) if not is_tensor(source) else \
        source if source.shape == x.shape else low.add("broadcast", source, size=list(x.shape))


@row("slice_scatter", "select_scatter")
def _scatter(low, node, x, source, dim=0, start=0, end=None, step=1):
    """x with a part replaced: what is in front, the part, what is behind."""
    dim %= len(x.shape)
    start = place(low, start or 0, x.shape[dim])
    if step != 1:
        low.refuse("writes every second element, or so")
    if low.name(node) == "select_scatter":
        shape = list(x.shape[:dim]) + [1] + list(x.shape[dim + 1:])
        source = low.add("reshape", source, size=shape) if is_tensor(source) else low.add("fill", size=shape, value=source, dtype=x.dtype)
    behind = x.shape[dim] - start - source.shape[dim]
    parts = [sliced(low, x, dim, 0, start)] if start != 0 else []
    parts += [source] + ([sliced(low, x, dim, start + source.shape[dim], behind)] if behind != 0 else [])
    return parts[0] if len(parts) == 1 else low.add("concat", *parts, dim=dim)


@row("diff")
def _diff(low, node, x, n=1, dim=-1, prepend=None, append=None):
    if n != 1 or append is not None:
        low.refuse("differences of higher order")
    dim %= len(x.shape)
    if prepend is not None:
        x = low.add("concat", prepend, x, dim=dim)
    length = low.shape(node)[dim]
    return low.map("sub", sliced(low, x, dim, 1, length), sliced(low, x, dim, 0, length), node=node)


@row("cumsum")
def _cumsum(low, node, x, dim, dtype=None):
    return low.add("cumsum", x, dim=dim % len(x.shape))


@row("index")
def _index(low, node, x, indices):
    if any(i is None or not is_tensor(i) or i.dtype == "bool" for i in indices):
        low.refuse("picks by a condition or by some dimensions: the result's shape or place depends on data")
    return low.add("index", x, *indices)


@row("gather", "take_along_dim")
def _gather(low, node, x, dim, indices, sparse_grad=False):
    if low.name(node) == "take_along_dim":
        dim, indices = indices, dim
    if dim % len(x.shape) != len(x.shape) - 1:
        low.refuse("takes along another dimension than the last")
    return low.add("take_along", x, indices)


@row("embedding")
def _embedding(low, node, table, ids, padding=-1, *_, **__):
    return low.add("embedding", ids, table, **({"padding": padding} if padding is not None and padding >= 0 else {}))


# --- sums and products ----------------------------------------------------------------------------------------------------


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
