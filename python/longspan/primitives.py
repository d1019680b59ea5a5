"""Primitives of JAX in the ops of the IR: one row per primitive (rows.py). `e` is an Equation of jaxpr.py."""
from __future__ import annotations

import math
import string

from .rewrite import binary
from .rows import arithmetic, constant, elementwise, expression, is_tensor, table
from .size import Size, product

PRIMITIVES, row = table()


# --- single elements ------------------------------------------------------------------------------------------------------


for name in "add sub mul div pow max min lt le eq ne neg abs sign exp log log1p sqrt rsqrt sin cos tanh erf floor".split():
    PRIMITIVES[name] = elementwise(name)
PRIMITIVES["add_any"] = elementwise("add")
PRIMITIVES["logistic"] = elementwise("sigmoid")
PRIMITIVES["gt"] = lambda low, e, a, b: arithmetic(low, e, "lt", b, a)
PRIMITIVES["ge"] = lambda low, e, a, b: arithmetic(low, e, "le", b, a)
PRIMITIVES["square"] = lambda low, e, a: arithmetic(low, e, "mul", a, a)
for name in ("exp2", "expm1", "ceil"):
    PRIMITIVES[name] = expression(name)
PRIMITIVES["clamp"] = lambda low, e, least, x, most: arithmetic(low, e, "min", arithmetic(low, e, "max", x, least), most)
PRIMITIVES["is_finite"] = lambda low, e, a: low.map("lt", low.map("abs", a, dtype=a.dtype), 3.4e38) if is_tensor(a) else math.isfinite(a)


@row("div")
def _div(low, e, a, b):
    if low.dtype(e) == "i32":
        low.refuse("divides integers")
    return arithmetic(low, e, "div", a, b)


@row("integer_pow")
def _integer_pow(low, e, a):
    n = e.params["y"]
    return arithmetic(low, e, "div", 1.0, a) if n == -1 else arithmetic(low, e, "pow", a, n)


@row("erfc")
def _erfc(low, e, a):
    """1 - erf(a), of a product with -x as 1 + erf of that with x."""
    word, operands = binary(a) if is_tensor(a) else (None, ())
    if word == "mul" and is_tensor(operands[0]) and binary(operands[0])[0] == "neg":
        return arithmetic(low, e, "add", low.map("erf", low.map("mul", binary(operands[0])[1][0], operands[1], node=e), node=e), 1.0)
    return arithmetic(low, e, "sub", 1.0, arithmetic(low, e, "erf", a))


@row("and", "or", "not", "xor")
def _logical(low, e, *operands):
    if low.dtype(e) != "bool":
        low.refuse("works on the bits of integers")
    return arithmetic(low, e, "ne" if e.name == "xor" else e.name, *operands)


def counts_from_the_end(which, index, other):
    """Whether a choice is that of an index i, or i + n where i is negative: ids and positions are not."""
    word, operands = binary(which)
    added, parts = binary(other) if is_tensor(other) else (None, ())
    return word == "lt" and operands[0] is index and operands[1] == 0 and added == "add" and parts[0] is index


@row("select_n")
def _select(low, e, which, *cases):
    if len(cases) != 2 or (is_tensor(which) and which.dtype != "bool"):
        low.refuse("chooses among several by a number")
    no, yes = cases
    if not is_tensor(which):
        return yes if which else no
    if counts_from_the_end(which, no, yes):
        return no
    if low.dtype(e) == "bool":
        a, b = constant(no), constant(yes)
        if not is_tensor(a):
            return arithmetic(low, e, "and", which, yes) if a == 0 else arithmetic(low, e, "or", arithmetic(low, e, "not", which), yes)
        if not is_tensor(b):
            return arithmetic(low, e, "or", which, no) if b == 1 else arithmetic(low, e, "and", arithmetic(low, e, "not", which), no)
    return arithmetic(low, e, "where", which, yes, no)


@row("convert_element_type")
def _convert(low, e, x):
    dtype = low.dtype(e)
    if not is_tensor(x):
        return x if isinstance(x, Size) else low.rounded(e, x)
    if dtype == x.dtype:
        return x
    if dtype == "bool":
        return low.map("ne", x, 0)
    if x.node is not None and x.node.op == "fill":
        return low.add("fill", size=list(x.shape), value=x.node.params["value"], dtype=dtype)
    return low.add("cast", x, dtype=dtype)


@row("copy", "copy_p", "name", "optimization_barrier", "sharding_constraint", "pvary")
def _same(low, e, *inputs):
    return list(inputs)


@row("stop_gradient")
def _stop(low, e, *inputs):
    return [low.add("stop", x) if is_tensor(x) and low.trained(x) else x for x in inputs]


@row("dim_as_value")
def _dimension(low, e):
    return e.params["dim"]


# --- dimensions -----------------------------------------------------------------------------------------------------------


def refilled(low, e, x):
    """A number as it fills the result, or None of what is no number."""
    number = constant(x)
    if is_tensor(number):
        return None
    return low.add("fill", size=list(low.shape(e)), value=float(number), dtype=low.dtype(e)) if low.shape(e) else number


@row("broadcast_in_dim")
def _broadcast(low, e, x, *_):
    filled = refilled(low, e, x)
    if filled is not None:
        return filled
    shape, ones = list(low.shape(e)), [1] * len(low.shape(e))
    for dim, n in zip(e.params["broadcast_dimensions"], x.shape):
        ones[dim] = n
    x = x if tuple(ones) == x.shape else low.add("reshape", x, size=ones)
    return x if list(x.shape) == shape else low.add("broadcast", x, size=shape)


@row("reshape", "squeeze", "expand_dims")
def _reshape(low, e, x, *_):
    filled = refilled(low, e, x)
    if filled is not None:
        return filled
    if e.params.get("dimensions") is not None and e.name == "reshape":
        low.refuse("reshapes in another order of dimensions")
    return x if low.shape(e) == x.shape else low.add("reshape", x, size=list(low.shape(e)))


@row("transpose")
def _transpose(low, e, x):
    order = e.params["permutation"]
    node = x.node
    if constant(x) is not x:
        return refilled(low, e, x)
    if node is not None and node.op == "contract":
        sides, out = node.params["equation"].split("->")
        return low.add("contract", *node.inputs, equation=f"{sides}->{''.join(out[i] for i in order)}")
    return low.add("permute", x, order=order)


@row("rev")
def _rev(low, e, x):
    low.refuse("turns a dimension round")


@row("slice")
def _slice(low, e, x):
    shape = low.shape(e)
    strides = e.params["strides"] or [1] * len(shape)
    if constant(x) is not x:
        return refilled(low, e, x)
    for dim, (start, step) in enumerate(zip(e.params["start_indices"], strides)):
        x = low.part(x, dim, start, shape[dim], step)
    return x


@row("dynamic_slice")
def _dynamic_slice(low, e, x, *starts):
    if constant(x) is not x:
        return refilled(low, e, x)
    for dim, (start, length) in enumerate(zip(starts, e.params["slice_sizes"])):
        start = constant(start)
        if is_tensor(start):
            low.refuse("takes a slice at a place that depends on data")
        start = int(start) if isinstance(start, float) else start
        if isinstance(start, int) and isinstance(x.shape[dim], int) and isinstance(length, int):
            start = max(0, min(start, x.shape[dim] - length))
        x = low.part(x, dim, start, length)
    return x


@row("split")
def _split(low, e, x):
    parts, start = [], 0
    for n in e.params["sizes"]:
        parts.append(low.part(x, e.params["axis"], start, n))
        start = start + n
    return parts


@row("concatenate")
def _concatenate(low, e, *inputs):
    return inputs[0] if len(inputs) == 1 else low.add("concat", *inputs, dim=e.params["dimension"])


@row("pad")
def _pad(low, e, x, value):
    value = constant(value)
    for dim, (before, after, between) in enumerate(e.params["padding_config"]):
        if between or is_tensor(value):
            low.refuse("pads between the elements, or with what is no constant")
        if before < 0 or after < 0:
            x = low.part(x, dim, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0))
        if before > 0 or after > 0:
            x = low.add("pad", x, dim=dim, before=max(before, 0), after=max(after, 0), value=float(value))
    return x


@row("iota")
def _iota(low, e, *_):
    x = low.add("iota", size=list(low.shape(e)), dim=e.params["dimension"])
    return x if low.dtype(e) == "i32" else low.add("cast", x, dtype=low.dtype(e))


# --- looking up -------------------------------------------------------------------------------------------------------------


def components(low, indices):
    """The values or numbers that stand in the last dimension of a gather's indices, each without it."""
    node = indices.node
    last = len(indices.shape) - 1
    parts = node.inputs if node is not None and node.op == "concat" and node.params["dim"] == last else [indices]
    if any(p.shape[last] != 1 for p in parts):
        low.refuse("looks up at places that are computed together")
    return [low.add("reshape", p, size=list(p.shape[:last])) if is_tensor(constant(p)) else constant(p) for p in parts]


def counts(value, dim):
    """Whether a value's elements are their own index along a dimension."""
    while value.node is not None and value.node.op in ("reshape", "broadcast", "cast"):
        value = value.node.inputs[0]
    node = value.node
    return node is not None and node.op == "iota" and [n for n in value.shape if n != 1] == [node.params["size"][node.params["dim"]]]


@row("gather")
def _gather(low, e, x, indices):
    how, sizes = e.params["dimension_numbers"], e.params["slice_sizes"]
    shape, rank = low.shape(e), len(x.shape)
    if not is_tensor(indices):
        indices = low.filled(indices)
    fixed = constant(indices)
    if not is_tensor(fixed) and len(how.start_index_map) == 1 and not how.operand_batching_dims:  # one place, that is known
        dim = how.start_index_map[0]
        part = low.part(x, dim, int(fixed) if fixed >= 0 else int(fixed) + x.shape[dim], sizes[dim])
        return low.add("reshape", part, size=list(shape)) if product(part.shape) == product(shape) else low.refuse("looks up one place repeatedly")
    places = components(low, indices)
    if len(places) != len(how.start_index_map):
        low.refuse("looks up at places that are computed together")
    mapped = {d: place for d, place in zip(how.start_index_map, places) if sizes[d] != x.shape[d] or sizes[d] == 1}
    whole = [d for d in range(rank) if d not in mapped and d not in how.operand_batching_dims]
    if any(sizes[d] != x.shape[d] for d in whole) or any(sizes[d] != 1 for d in mapped) or \
            any(is_tensor(place) for d, place in zip(how.start_index_map, places) if d not in mapped):
        low.refuse("takes slices at places that depend on data")
    if not all(map(is_tensor, mapped.values())):
        low.refuse("looks up a place that is known beside one that is not")
    single = [d for d in mapped if d not in how.collapsed_slice_dims]  # dimensions of size 1 that the result has
    if list(mapped) == [0] and not how.operand_batching_dims:
        ids = mapped[0]
        rows = looked_up(low, x, ids)
        inner = [i for i, d in enumerate(d for d in range(rank) if d not in how.collapsed_slice_dims) if d not in single]
        offsets = [how.offset_dims[i] for i in inner]
        kept = [d for d in range(len(shape)) if d not in how.offset_dims or d in offsets]  # the result's dimensions without those
        rest = iter(range(len(ids.shape)))
        order = [len(ids.shape) + offsets.index(d) if d in offsets else next(rest) for d in kept]
        rows = rows if order == sorted(order) else low.add("permute", rows, order=order)
        return rows if rows.shape == shape else low.add("reshape", rows, size=list(shape))
    # One element of the last dimension, at each place of the others.
    own = all(d in how.operand_batching_dims or (d in mapped and counts(mapped[d], d)) for d in range(rank - 1))
    if own and rank - 1 in mapped and not whole and not how.offset_dims:
        index = mapped[rank - 1]
        lead = list(x.shape[:-1])
        if list(index.shape[:rank - 1]) != lead:
            index = low.add("broadcast", index, size=lead + list(index.shape[rank - 1:]))
        flat = index if len(index.shape) == rank else low.add("reshape", index, size=lead + [product(index.shape[rank - 1:])])
        found = low.add("take_along", x, flat)
        return found if found.shape == shape else low.add("reshape", found, size=list(shape))
    return low.refuse("looks up in another way than rows of a table, or one element of the last dimension for each token")


def looked_up(low, table, ids):
    """Rows of a table [V,...] at ids."""
    if len(table.shape) == 2:
        return low.add("embedding", ids, table)
    width = list(table.shape[1:])
    flat = low.add("reshape", table, size=[table.shape[0], product(width)])
    return low.add("reshape", low.add("embedding", ids, flat), size=list(ids.shape) + width)


# --- sums and products ----------------------------------------------------------------------------------------------------


@row("reduce_sum", "reduce_max")
def _reduce(low, e, x):
    kind, dims = e.name[7:], sorted(e.params["axes"])
    if not dims:
        return x
    if constant(x) is not x and kind == "sum":
        total = constant(x) * product(x.shape[d] for d in dims)
        return total if not low.shape(e) else low.add("fill", size=list(low.shape(e)), value=total, dtype=low.dtype(e))
    ties = {"ties": "shared"} if kind == "max" else {}
    return low.add("reduce", x, kind=kind, dims=dims, keep=False, **ties)


@row("reduce_min")
def _reduce_min(low, e, x):
    top = low.add("reduce", low.map("neg", x, dtype=x.dtype), kind="max", dims=sorted(e.params["axes"]), keep=False, ties="shared")
    return low.map("neg", top, node=e)


@row("cumsum")
def _cumsum(low, e, x):
    if e.params["reverse"]:
        low.refuse("sums from the end")
    return low.add("cumsum", x, dim=e.params["axis"])


@row("dot_general")
def _dot_general(low, e, a, b, *_):
    (contracted_a, contracted_b), (batch_a, batch_b) = e.params["dimension_numbers"]
    spare = iter(string.ascii_letters)
    left = [next(spare) for _ in a.shape]
    right = [next(spare) for _ in b.shape]
    for i, j in list(zip(contracted_a, contracted_b)) + list(zip(batch_a, batch_b)):
        right[j] = left[i]
    out = [left[i] for i in batch_a] + [letter for i, letter in enumerate(left) if i not in contracted_a and i not in batch_a]
    out += [letter for j, letter in enumerate(right) if j not in contracted_b and j not in batch_b]
    inputs = []
    for x, letters in ((a, left), (b, right)):
        if x.node is not None and x.node.op == "permute":
            letters[:] = [letters[x.node.params["order"].index(i)] for i in range(len(letters))]
            x = x.node.inputs[0]
        inputs.append(x)
    return low.add("contract", *inputs, equation=f"{''.join(left)},{''.join(right)}->{''.join(out)}")


# --- functions --------------------------------------------------------------------------------------------------------------


@row("jit", "pjit", "closed_call", "core_call", "remat2", "remat", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr",
     "custom_lin")
def _call(low, e, *inputs):
    inner = next((e.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in e.params), None)
    return low.walk(inner, inputs) if inner is not None else low.refuse("this function is not known")


@row("scan")
def _scan(low, e, *inputs):
    """Layers one by one, each with its own part of what is stacked."""
    n, consts, carried = e.params["length"], e.params["num_consts"], e.params["num_carry"]
    if not isinstance(n, int):
        low.refuse("a loop over tokens: its length depends on that of the sequence")
    fixed, carry, stacked = list(inputs[:consts]), list(inputs[consts:consts + carried]), inputs[consts + carried:]
    each = []
    for i in reversed(range(n)) if e.params["reverse"] else range(n):
        results = low.walk(e.params["jaxpr"], fixed + carry + [low.layer(x, i) for x in stacked])
        carry = results[:carried]
        each.append(results[carried:])
    each = each[::-1] if e.params["reverse"] else each
    gathered = []
    for outputs, variable in zip(zip(*each), e.outputs[carried:]):
        shape = list(variable.shape[1:])
        parts = [low.add("reshape", y, size=[1] + shape) if is_tensor(y) else
                 low.add("fill", size=[1] + shape, value=y, dtype=low.word(variable.dtype)) for y in outputs]
        gathered.append(parts[0] if len(parts) == 1 else low.add("concat", *parts, dim=0))
    return carry + gathered


@row("while", "cond")
def _branch(low, e, which, *inputs):
    if e.name == "cond" and not is_tensor(which):
        return low.walk(e.params["branches"][int(which)], inputs)
    return low.refuse("a loop or a branch that depends on data, or on the length of the sequence")


@row("random_bits", "random_seed", "random_wrap", "random_unwrap", "random_fold_in", "random_split", "threefry2x32", "random_clone", "random_gamma")
def _random(low, e, *_):
    low.refuse("draws random numbers, as dropout does: let the function be deterministic")


