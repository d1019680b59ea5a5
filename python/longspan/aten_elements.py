"""ATen ops of single elements, copies and casts."""
from __future__ import annotations

from .rows import EXPRESSIONS, arithmetic, elementwise, expression, is_tensor, sliced, table

ROWS, row = table()


def truth(low, node, x):
    """Whether it is not 0."""
    return x if isinstance(x, bool) or (is_tensor(x) and x.dtype == "bool") else low.map("ne", x, 0, dtype="bool", node=node) if is_tensor(x) else x != 0


for name, word in [("mul", "mul"), ("pow", "pow"), ("lt", "lt"), ("le", "le"), ("eq", "eq"), ("ne", "ne"), ("minimum", "min"), ("maximum", "max"),
                   ("remainder", "mod"), ("neg", "neg"), ("abs", "abs"), ("sign", "sign"), ("exp", "exp"), ("log", "log"), ("log1p", "log1p"),
                   ("sqrt", "sqrt"), ("rsqrt", "rsqrt"), ("sin", "sin"), ("cos", "cos"), ("tanh", "tanh"), ("sigmoid", "sigmoid"), ("erf", "erf"),
                   ("floor", "floor"), ("logical_and", "and"), ("logical_or", "or"), ("logical_not", "not")]:
    ROWS[name] = elementwise(word)
ROWS["gt"] = lambda low, node, a, b: arithmetic(low, node, "lt", b, a)
ROWS["ge"] = lambda low, node, a, b: arithmetic(low, node, "le", b, a)
ROWS["logical_xor"] = lambda low, node, a, b: arithmetic(low, node, "ne", truth(low, node, a), truth(low, node, b))
ROWS["reciprocal"] = lambda low, node, a: arithmetic(low, node, "div", 1.0, a)
ROWS["rsub"] = lambda low, node, a, b, alpha=1: arithmetic(low, node, "sub", b, a)


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


@row("__and__", "bitwise_and", "__or__", "bitwise_or", "__xor__", "bitwise_xor", "bitwise_not")
def _bits(low, node, *operands):
    if low.dtype(node) != "bool":
        low.refuse("works on the bits of integers")
    return arithmetic(low, node, {"a": "and", "o": "or", "x": "ne", "n": "not"}[low.name(node).replace("bitwise_", "").strip("_")[0]], *operands)


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
    ROWS[name] = expression(name)


@row("addcmul", "addcdiv")
def _added(low, node, x, a, b, value=1):
    both = arithmetic(low, node, "mul" if low.name(node) == "addcmul" else "div", a, b)
    return arithmetic(low, node, "add", x, both if value == 1 else arithmetic(low, node, "mul", both, value))


@row("glu")
def _glu(low, node, x, dim=-1):
    dim, half = dim % len(x.shape), x.shape[dim] // 2
    return low.map("mul", sliced(low, x, dim, 0, half), low.map("sigmoid", sliced(low, x, dim, half, half), node=node), node=node)


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
