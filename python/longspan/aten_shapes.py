"""ATen ops that move, cut, repeat, pick and fill: they compute nothing of elements."""
from __future__ import annotations

from .rows import is_tensor, sliced, table

ROWS, row = table()


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
    return low.map("and", keep, x) if low.dtype(node) == "bool" else low.map("where", keep, x, 0.0, node=node)


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
    dim, last = dim % len(x.shape), len(x.shape) - 1
    if dim == last:
        return low.add("take_along", x, indices)
    order = list(range(last + 1))
    order[dim], order[last] = last, dim
    return low.add("permute", low.add("take_along", low.add("permute", x, order=order), low.add("permute", indices, order=order)), order=order)


@row("embedding")
def _embedding(low, node, table, ids, padding=-1, *_, **__):
    return low.add("embedding", ids, table, **({"padding": padding} if padding is not None and padding >= 0 else {}))
