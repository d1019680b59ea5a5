"""longspan.jax.export: a loss function of JAX becomes a folder with graph.json.

`jaxpr.trace` traces it; `Lowering` puts each primitive's row (primitives.py) in its place; constants, softmax and losses, attention, normal
form and recognition follow; `check.py` compares the result with the function. What cannot be imported is refused with the user's line.
"""
from __future__ import annotations

import os
import time

import jax
import jax.numpy as jnp
import numpy

from . import attention, check, constants, folder, interpret, jaxpr, normal, recognise, rows, softmax
from .arrays import Arrays
from .check import Export
from .ir import Graph, Refused, Value
from .primitives import PRIMITIVES
from .rewrite import rebuild
from .rows import is_tensor, sliced

WORDS = {"float32": "f32", "bfloat16": "bf16", "float64": "f64"}


# --- the user's parameters ------------------------------------------------------------------------------------------------


def named_leaves(params):
    """([(name, leaf)], the tree): names are the path of each leaf, joined by dots. A last step called "value" is left out."""
    paths, tree = jax.tree_util.tree_flatten_with_path(params)

    def word(step):
        return str(next(getattr(step, key) for key in ("key", "idx", "name") if hasattr(step, key)))

    found = []
    for path, leaf in paths:
        words = [word(step) for step in path]
        found.append((".".join(words[:-1] if len(words) > 1 and words[-1] == "value" else words) or "parameter", leaf))
    names = [name for name, _ in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Refused(f"two parameters have the name {twice}")
    return found, tree


def is_trained(leaf):
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape") and str(leaf.dtype) in WORDS


class Function:
    """The user's function of the arrays of its parameters that are trained, and of the batch; all else in `params` stays as it is."""

    def __init__(self, fn, params, names):
        self.fn, self.names = fn, names
        self.leaves, self.tree = named_leaves(params)
        self.trained = [(name, leaf) for name, leaf in self.leaves if is_trained(leaf)]
        if not self.trained:
            raise Refused("params has no arrays of f32, bf16 or f64")

    def __call__(self, *arrays):
        given = iter(arrays[:len(self.trained)])
        params = self.tree.unflatten([next(given) if is_trained(leaf) else leaf for _, leaf in self.leaves])
        loss = self.fn(params, dict(zip(self.names, arrays[len(self.trained):])))
        loss = loss[0] if isinstance(loss, tuple) else loss
        if getattr(loss, "shape", None) not in ((), (1,)):
            raise Refused(f"the function gives {getattr(loss, 'shape', type(loss).__name__)}: it must give the loss, one number")
        return loss


# --- lowering -----------------------------------------------------------------------------------------------------------


class Lowering(rows.Lowering):
    """Walks the equations in order and adds the rows' ops to `graph`."""

    def __init__(self, trained):
        self.parameters_dtype = max((str(leaf.dtype) for _, leaf in trained), key=[str(leaf.dtype) for _, leaf in trained].count)
        super().__init__(Graph(WORDS[self.parameters_dtype]))
        self.origin = {}  # {name of a parameter of the graph: (name of the user's, its layer or None)}
        self.arrays, self.values, self.constants = {}, {}, {}

    # What rows ask.
    def word(self, dtype):
        if dtype == numpy.bool_:
            return "bool"
        if jnp.issubdtype(dtype, numpy.integer):
            return "i32"
        return "T" if str(dtype) == self.parameters_dtype else "G"

    def shape(self, e):
        return e.outputs[0].shape

    def dtype(self, e):
        return self.word(e.outputs[0].dtype)

    def rounded(self, e, number):
        dtype = e.outputs[0].dtype
        return bool(number) if dtype == numpy.bool_ else int(number) if jnp.issubdtype(dtype, numpy.integer) else float(number)

    def refuse(self, why):
        self.graph.refuse(why, self.current.name if self.current is not None else None, self.at)

    def part(self, x, dim, start, length, step=1):
        """A slice; of a parameter's first dimension, one element is a parameter by itself."""
        if dim == 0 and length == 1 and isinstance(start, int) and x.shape[0] != 1 and self.stacked(x):
            layer = self.layer(x, start)
            return self.add("reshape", layer, size=[1] + list(x.shape[1:]))
        return sliced(self, x, dim, start, length, step)

    def stacked(self, x):
        return x.node is None and x.name in self.arrays and len(x.shape) > 1

    def layer(self, x, i):
        """x[i] of what is stacked along its first dimension."""
        if not is_tensor(x):
            return x
        if self.stacked(x):
            name = f"{x.name}.{i}"
            if name not in self.origin:
                self.parameter(name, self.arrays[x.name][i], (x.name, i))
            return self.values[name]
        node, rest = x.node, list(x.shape[1:])
        if node is not None and node.op in ("map", "cast") and all(v.shape == x.shape for v in node.inputs):
            parts = [self.layer(v, i) for v in node.inputs]
            return self.add(node.op, *parts, **node.params)
        part = sliced(self, x, 0, i, 1)
        return self.add("reshape", part, size=rest)

    # The walk.
    def parameter(self, name, array, origin):
        """A parameter of the user's, or a layer of it. Numbers without dimensions have one of size 1 in the folder."""
        if name in self.values:
            raise Refused(f"two parameters have the name {name}")
        self.origin[name], self.arrays[name] = origin, array
        shape = tuple(array.shape)
        value = self.graph.parameter(name, shape or (1,), data=array if shape else array.reshape(1))
        self.values[name] = value if shape else self.add("reshape", value, size=[])
        return self.values[name]

    def constant(self, c):
        x = c.value
        if isinstance(x, tuple):
            return self.add("iota", size=[x[1]], dim=0)
        if not isinstance(x, numpy.ndarray):
            return x
        if id(x) not in self.constants:
            dtype = self.word(x.dtype)
            if x.size and (x == x.flat[0]).all():
                value = self.add("fill", size=list(x.shape), value=float(x.flat[0]), dtype=dtype)
            else:
                value = self.graph.parameter(f"constant{len(self.constants)}", x.shape, data=x, dtype=dtype, frozen=True, buffer=True)
            self.constants[id(x)] = (value, x)  # which keeps x, and so its id
        return self.constants[id(x)][0]

    def walk(self, program, arguments):
        known = dict(zip(map(id, program.inputs), arguments))

        def read(x):
            return self.constant(x) if isinstance(x, jaxpr.Constant) else known[id(x)]

        outer = self.current, self.at
        for e in program.equations:
            self.current = e
            self.at = self.graph.source(*e.source) if e.source else outer[1]
            row = PRIMITIVES.get(e.name)
            if row is None:
                self.refuse("this primitive is not known")
            results = row(self, e, *map(read, e.inputs))
            known.update(zip(map(id, e.outputs), results if isinstance(results, list) else [results]))
        self.current, self.at = outer
        return [read(x) for x in program.outputs]


def lower(fn, params, example):
    """(graph in normal form with named ops, where its parameters come from, the function), without writing or checking it."""
    shapes = {name: numpy.shape(x) for name, x in example.items()}
    first = next(iter(shapes.values()), ())
    for name, shape in shapes.items():
        if len(shape) != 2 or shape != first:
            raise Refused(f"the input {name} is {list(shape)}: all inputs are [batch, tokens], as the first is {list(first)}")
    function = Function(fn, params, list(example))
    leaves = [(leaf.shape, leaf.dtype) for _, leaf in function.trained]
    leaves += [(None, jnp.float32 if numpy.asarray(x).dtype.kind == "f" else jnp.int32) for x in example.values()]
    program = jaxpr.trace(function, leaves, first[1])
    with jax.enable_x64(True):
        wide = [(shape, jnp.float64 if jnp.issubdtype(dtype, jnp.floating) else dtype) for shape, dtype in leaves]
        try:
            jaxpr.sharpen(program, jaxpr.trace(function, wide, first[1]))
        except Refused:  # a function of f32 alone: its numbers stay as they are
            pass
    low = Lowering(function.trained)
    arguments = [low.parameter(name, numpy.asarray(leaf), (name, None)) for name, leaf in function.trained]
    arguments += [low.graph.input(name, "G" if numpy.asarray(x).dtype.kind == "f" else "i32") for name, x in example.items()]
    graph = low.graph
    graph.tokens = next((name for name in ("input_ids", "tokens", "ids") if name in shapes), next(iter(shapes)))
    loss = low.walk(program, arguments)[0]
    if not isinstance(loss, Value):
        graph.refuse("the loss does not depend on the parameters")
    graph.loss = loss
    graph = softmax.find(constants.fold(frozen(graph.trim())))
    own_labels(graph)
    graph = recognise.recognise(normal.normal_form(attention.find(graph)))
    graph = recognise.flat_parameters(graph)
    names = {p.value.name for p in graph.parameters}
    both = next((name for name, (of, layer) in low.origin.items() if layer is not None and name in names and of in names), None)
    if both:
        raise Refused(f"the parameter {low.origin[both][0]} is used whole and by its layers")
    return graph.verify(), low.origin, function


def frozen(graph):
    """Parameters of which every use stops the gradient are frozen."""
    users = graph.users()
    for p in graph.parameters:
        if not p.buffer and all(node.op == "stop" for node in users.get(id(p.value), [])):
            p.frozen = True
    stopped = {id(p.value) for p in graph.parameters if p.frozen}
    return rebuild(graph, lambda new, node, inputs: [inputs[0]] if node.op == "stop" and id(inputs[0]) in stopped else None)


def own_labels(graph):
    """Makes labels that are the tokens themselves, shifted, an input of their own: "labels"."""
    for node in graph.nodes:
        if node.op != "cross_entropy":
            continue
        value, path = node.inputs[1], []
        while value.node is not None and len(value.node.inputs) == 1:
            path.append(value.node)
            value = value.node.inputs[0]
        if value.name == graph.tokens and value.node is None:
            about = next((i.value for i in graph.inputs if i.value.name == "labels"), None)
            new = graph.input("labels") if about is None else about
            for step in reversed(path):
                new = graph.add(step.op, [new], step.at, **step.params)
            node.inputs[1] = new
    graph.trim()


# --- the way of an export ----------------------------------------------------------------------------------------------------


def export(fn, params, example, out):
    """
    Writes the folder `out` for a loss function: fn(params, batch) gives the loss, or a tuple with the loss first. params: a pytree; its
    arrays of f32, bf16 or f64 are trained, all else stays as it is. example: {name: array [batch, tokens]}. The loss and all gradients of a
    small batch are compared with the function's own. Raises longspan.Refused.
    """
    start = time.time()
    example = {name: numpy.asarray(x) for name, x in example.items()}
    graph, origin, function = lower(fn, params, example)
    lowered = time.time()
    made_by = f"jax {jax.__version__}"
    folder.write(graph, out, made_by)
    written = time.time()
    checked = compare(graph, origin, function, example, out)
    folder.write_graph(graph, out, made_by)
    return Export(str(out), graph, {"lower": lowered - start, "write": written - lowered, "check": time.time() - written}, checked, origin)


def compare(graph, origin, function, example, out=None):
    """The check of an export (check.py), both sides by JAX in f64; and of the folder by the program longspan, where it is there."""
    cost = 4 * 8 * sum(int(numpy.prod(leaf.shape)) for _, leaf in function.trained)
    if cost > check.free_memory() / 2:
        raise Refused(f"the check of the import needs {cost / 2**30:.1f} GiB of memory, and may take {check.free_memory() / 2**31:.1f}")
    with jax.enable_x64(True):
        arrays = Arrays(jnp, jax.scipy.special.erf)
        trained = [jnp.asarray(numpy.asarray(leaf), jnp.float64) for _, leaf in function.trained]

        def their(batch):
            inputs = [jnp.asarray(batch[name], jnp.float64 if x.dtype.kind == "f" else jnp.int32) for name, x in example.items()]
            loss, gradients = jax.jit(jax.value_and_grad(lambda given: jnp.sum(function(*given, *inputs))))(trained)
            return float(loss), {name: numpy.asarray(g) for (name, _), g in zip(function.trained, gradients)}

        batch, theirs, whole = check.probe(graph, example, their)
        given = {p.value.name: jnp.asarray(p.array()) for p in graph.parameters if not p.frozen}
        ours, own = jax.jit(jax.value_and_grad(lambda given: jnp.sum(interpret.loss(graph, batch, given, arrays))))(given)
    their_gradients = {}
    for name, array in given.items():
        of, layer = origin[name]
        their_gradients[name] = (whole[of] if layer is None else whole[of][layer]).reshape(array.shape)
    unused = {of for of, _ in origin.values()} - {origin[name][0] for name in given}
    for name in unused - {origin[p.value.name][0] for p in graph.parameters if p.value.name in origin}:
        their_gradients[name] = whole[name] if whole[name].any() else None
    checked = check.compare(float(ours), {k: numpy.asarray(g) for k, g in own.items()}, theirs, their_gradients, "the imported graph")
    return check.by_program(checked, out, graph, batch, theirs, their_gradients)


def load(place, params):
    """
    The user's pytree with the numbers of a folder, or of a run's `model`, in the place of its arrays, bit for bit. place: the folder, or what
    longspan.grad gives: {name: array}, which then get the types of the pytree's. params: a pytree of the same form; what the loss did not
    depend on stays as it is. Raises longspan.Refused for names, types or shapes that do not fit.
    """
    tensors, place = (place, "the arrays") if isinstance(place, dict) else (folder.read(place), place)
    leaves, tree = named_leaves(params)
    exact = place != "the arrays"
    used, results = set(), []
    for name, leaf in leaves:
        layers = [f"{name}.{i}" for i in range(leaf.shape[0])] if is_trained(leaf) and leaf.shape else []
        if is_trained(leaf) and name in tensors:
            used.add(name)
            results.append(fitting(place, name, tensors[name], leaf, leaf.shape, exact))
        elif layers and all(layer in tensors for layer in layers):
            used.update(layers)
            results.append(jnp.stack([fitting(place, layer, tensors[layer], leaf, leaf.shape[1:], exact) for layer in layers]))
        else:
            results.append(leaf)
    left = [name for name in tensors if name not in used and not name.startswith("constant")]
    if left or not used:
        raise Refused(f"{os.fspath(place)}: " + (f"its {left[0]} is not in the pytree" if left else "it has no parameter of the pytree"))
    return tree.unflatten(results)


def fitting(place, name, array, leaf, shape, exact):
    if array.size != numpy.prod(shape, dtype=int) or (exact and str(array.dtype) != str(leaf.dtype)):
        raise Refused(f"{os.fspath(place)}: {name} is {array.dtype}{list(array.shape)}, expected {leaf.dtype}{list(shape)}")
    return jnp.asarray(array.reshape(shape), leaf.dtype)
