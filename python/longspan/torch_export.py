"""longspan.torch.export: a PyTorch module becomes a folder with graph.json.

torch.export traces the module with symbolic B and S; `Lowering` puts each ATen op's row (aten.py) in its place; attention, normal form
and recognition (attention.py, normal.py, recognise.py) follow; `check.py` compares the result with the module. What cannot be imported
is refused with the user's file and line.
"""
from __future__ import annotations

import contextlib
import copy
import functools
import os
import re
import tempfile
import time
import traceback
from dataclasses import dataclass

import sympy
import torch

from . import attention, check, constants, folder, interpret, normal, recognise, rows, softmax, torch_flex
from .aten import ATEN
from .check import Export
from .ir import Graph, Refused, Value
from .size import B, S
from .torch_arrays import TorchArrays

SKIPPED = {"_assert_tensor_metadata", "_assert_scalar", "sym_size", "sym_constrain_range", "sym_constrain_range_for_size", "_assert_async"}
AUTOCAST = "computes some ops in another type: leave autocast away, and choose the type of a training by --dtype"
WORDS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float64: "f64"}


class Probe(torch.nn.Module):
    """The user's model as a function of tensors in order, with (loss, logits) as its result."""

    def __init__(self, model, names, fixed, loss):
        super().__init__()
        self.model, self.names, self.fixed, self.loss = model, names, fixed, loss

    def forward(self, *tensors):
        batch = dict(zip(self.names, tensors))
        output = self.model(**batch, **self.fixed)
        found = self.loss(output, **batch) if self.loss else loss_of(output)
        if found is None:
            raise Refused("the model gives no loss: let it return one, or pass loss=lambda output, **batch: ...")
        logits = logits_of(output)
        return (found,) if logits is None or logits is found else (found, logits)


def parts_of(output):
    if isinstance(output, dict):
        return dict(output)
    return {str(i): x for i, x in enumerate(output)} if isinstance(output, (tuple, list)) else {"loss": output}


def loss_of(output):
    """What the model calls its loss, or the result with one element."""
    parts = parts_of(output)
    if isinstance(parts.get("loss"), torch.Tensor) and parts["loss"].dim() == 0:
        return parts["loss"]
    single = [x for x in parts.values() if isinstance(x, torch.Tensor) and x.dim() == 0]
    return single[0] if len(single) == 1 else None


def logits_of(output):
    parts = parts_of(output)
    if isinstance(parts.get("logits"), torch.Tensor):
        return parts["logits"]
    return next((x for x in parts.values() if isinstance(x, torch.Tensor) and x.dim() == 3), None)


# --- the user's lines ---------------------------------------------------------------------------------------------------


def source_of(node):
    """(file, line, code) of the user's that a node comes from: the innermost that is not torch's own."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n(?:    ([^\n]*))?', node.meta.get("stack_trace") or "")
    frames = [f for f in frames if is_user(f[0])]
    if not frames:
        return None
    file, line, code = frames[-1]
    return file, int(line), code.strip()


def is_torch(file):
    return os.path.dirname(torch.__file__) + os.sep in file


@contextlib.contextmanager
def whole_traces():
    """Lines of all the user's functions, not of those named forward alone, in the traces that torch.fx notes for its nodes."""
    tracer, name = torch.fx.proxy.TracerBase, "_filter_traceback_frames"
    before = getattr(tracer, name, None)

    def all_frames(self, summary):
        first = next((i for i, frame in enumerate(summary) if frame.name == "forward"), len(summary))
        return traceback.StackSummary.from_list([frame for frame in summary[first:] if is_user(frame.filename)])

    if before is not None:
        setattr(tracer, name, all_frames)
    try:
        yield
    finally:
        if before is not None:
            setattr(tracer, name, before)


@functools.lru_cache(maxsize=None)
def is_user(file):
    own = os.path.dirname(os.path.abspath(__file__))
    return not is_torch(file) and not file.startswith("<") and os.path.dirname(os.path.abspath(file)) != own


def refusal(error):
    """A failure of torch.export in one line, with the user's line where it happened."""
    text = str(error)
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__).strip()
    source = last_user_line(text)
    if "specializ" in text or "Constraints violated" in text:
        first = f"the model fixes the batch or the length of the sequence (a loop over tokens, or a size taken as a number): {first}"
        source = fixing_line(error) or source
    elif re.search("data.dependent", text, re.IGNORECASE):
        first = f"a shape or a branch depends on data: {first}"
    if source is None:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user(f.filename)]
        inside = next((i for i, f in enumerate(frames) if f.name == "forward"), len(frames))
        source = next(((f.filename, f.lineno, (f.line or "").strip()) for f in reversed(frames[inside:])), None)
    return Refused(first, "torch.export", source)


def last_user_line(text):
    """The last line of the user's that a message names."""
    named = [f for f in re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n\s+([^\n]*)', text) if is_user(f[0])]
    return (named[-1][0], int(named[-1][1]), named[-1][2].strip()) if named else None


def fixing_line(error):
    """Where a symbolic size became a number, from the guards that torch noted while it traced."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            for guard in getattr(getattr(value, "shape_env", None), "guards", []):
                place = guard.sloc.framework_loc
                fixes = isinstance(guard.expr, sympy.Eq) and any(side.is_number for side in guard.expr.args)
                if fixes and isinstance(place, traceback.FrameSummary) and is_user(place.filename):
                    return place.filename, place.lineno, (place.line or "").strip()
    return None


# --- lowering -----------------------------------------------------------------------------------------------------------


class Lowering(rows.Lowering):
    """Walks the traced nodes in order and adds the rows' ops to `graph`."""

    def __init__(self, program, names, model):
        self.program, self.model = program, model
        self.dtype_of_parameters = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        if self.dtype_of_parameters not in WORDS:
            raise Refused(f"parameters of {self.dtype_of_parameters}: f32, bf16 and f64 are possible")
        super().__init__(Graph(WORDS[self.dtype_of_parameters]))
        self.values, self.symbols = {}, {}
        self.names, self.trains = names, {}
        self.graph.tokens = "input_ids" if "input_ids" in names else names[0]

    # What rows ask.
    def name(self, node):
        target = node.target
        return target.__name__.split(".")[0] if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", str(target))

    def size(self, n):
        if isinstance(n, (int, bool)):
            return int(n)
        expression = sympy.expand(n.node.expr if isinstance(n, torch.SymInt) else n)
        try:
            symbols = sorted(expression.free_symbols, key=str)
            if not symbols:
                return int(expression)
            total = 0
            for powers, factor in sympy.Poly(expression, *symbols).terms():
                term = int(factor)
                for symbol, power in zip(symbols, powers):
                    for _ in range(power):
                        term = self.symbols[symbol] * term
                total = total + term
            return total
        except (sympy.PolynomialError, KeyError):
            self.refuse(f"has a size {expression} that is no sum of products of B and S")

    def tensors(self, node):
        value = node.meta.get("val")
        return list(value) if isinstance(value, (list, tuple)) else [value]

    def shapes(self, node):
        return [tuple(self.size(n) for n in x.shape) for x in self.tensors(node)]

    def shape(self, node):
        return self.shapes(node)[0]

    def dtype(self, node):
        dtype = self.tensors(node)[0].dtype
        if dtype == torch.bool:
            return "bool"
        if not dtype.is_floating_point:
            return "i32"
        return "T" if dtype == self.dtype_of_parameters else "G"

    def epsilon(self, node):
        """What PyTorch's norms take where they are given no epsilon."""
        return torch.finfo(self.tensors(node)[0].dtype).eps

    def rounded(self, node, number):
        """A number in the type of a node's result."""
        dtype = self.tensors(node)[0].dtype
        return torch.tensor(number, dtype=dtype).item() if dtype in (torch.bfloat16, torch.float16) or not dtype.is_floating_point else float(number)

    def refuse(self, why):
        self.graph.refuse(why, f"aten.{self.name(self.current)}" if self.current is not None else None, self.at)

    # The walk.
    def run(self):
        self.leaves()
        module = self.program.graph_module
        loss, logits = self.walk(module.graph, module)
        if not isinstance(loss, Value):
            self.graph.refuse("the loss does not depend on the model")
        self.graph.loss, self.graph.logits = loss, logits
        return self.graph.trim()

    def leaves(self):
        signature = self.program.graph_signature
        if signature.buffers_to_mutate:
            raise Refused(f"the model changes its buffer {next(iter(signature.buffers_to_mutate.values()))[6:]} as it runs: it has a state")
        placeholders = [n for n in self.program.graph_module.graph.nodes if n.op == "placeholder"]
        inputs = [n for n in placeholders if n.name in signature.user_inputs]
        for node, name in zip(inputs, self.names):
            for i, (n, meaning) in enumerate(zip(node.meta["val"].shape, (B, S))):
                if isinstance(n, torch.SymInt):
                    self.symbols[n.node.expr] = meaning
        tied = {}
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            tied.setdefault(id(parameter), []).append(name)
        known = {}
        for node in placeholders:
            if node in inputs:
                name = self.names[inputs.index(node)]
                value = node.meta["val"]
                self.values[node] = self.graph.input(name, "G" if value.dtype.is_floating_point else "i32")
                continue
            target = signature.inputs_to_parameters.get(node.name) or signature.inputs_to_buffers.get(node.name)
            if target is None:
                tensor = self.program.constants[signature.inputs_to_lifted_tensor_constants[node.name]]
                self.values[node] = self.leaf(node.name, tensor, {}, True)
                continue
            is_buffer = node.name in signature.inputs_to_buffers
            tensor = find(self.program, self.model, target)
            names = tied.get(id(tensor), [target[len("model."):]])
            if id(tensor) not in known:
                known[id(tensor)] = self.leaf(names[0], tensor, names[1:], is_buffer)
            self.values[node] = known[id(tensor)]

    def leaf(self, name, tensor, also, is_buffer):
        if is_buffer and tensor.numel() == 1 and tensor.dim() == 0:
            return tensor.item()
        dtype = "T" if tensor.is_floating_point() else "bool" if tensor.dtype == torch.bool else "i32"
        return self.graph.parameter(name, tuple(tensor.shape), data=Numbers(tensor), dtype=dtype,
                                    frozen=is_buffer or not tensor.requires_grad, buffer=is_buffer, also=list(also))

    def walk(self, graph, module):
        for node in graph.nodes:
            if node.op == "call_function":
                self.values[node] = self.call(node, module)
            elif node.op == "get_attr":
                self.values[node] = getattr(module, node.target)
            elif node.op == "output":
                results = self.argument(node.args[0])
                return (list(results) + [None])[:2]

    def argument(self, x):
        if isinstance(x, torch.fx.Node):
            return self.values[x]
        if isinstance(x, (list, tuple)):
            return [self.argument(y) for y in x]
        return x

    def call(self, node, module):
        self.current, source = node, source_of(node)
        self.at = self.graph.source(*source) if source else self.at
        name, value = self.name(node), node.meta.get("val")
        if name in SKIPPED or isinstance(value, (int, float, bool, torch.SymInt, torch.SymBool, torch.SymFloat)):
            return self.size(value) if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool) else value
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return self.inlined(node, module)
        if name not in ATEN:
            self.refuse("this op is not known")
        arguments = [self.argument(x) for x in node.args]
        named = {key: self.argument(x) for key, x in node.kwargs.items() if key not in ("device", "layout", "pin_memory", "memory_format", "dtype")}
        return ATEN[name](self, node, *arguments, **named)

    def inlined(self, node, module):
        """A region with its own graph: without gradients, without autocast, or checkpointed."""
        arguments = [self.argument(x) for x in node.args]
        inner = next((a for a in arguments if isinstance(a, torch.fx.GraphModule)), None)
        if node.target.__name__ == "wrap_with_autocast" and arguments[2]:
            source = next((source_of(n) for n in inner.graph.nodes if n.op == "call_function" and source_of(n)), None) if inner else None
            raise Refused(AUTOCAST, "torch.autocast", source)
        if inner is None or node.target.__name__ not in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint",
                                                         "wrap_activation_checkpoint"):
            self.refuse("this region is not known")
        rest = arguments[arguments.index(inner) + 1:]
        for placeholder, value in zip([n for n in inner.graph.nodes if n.op == "placeholder"], rest):
            self.values[placeholder] = value
        for n in inner.graph.nodes:
            if n.op == "call_function":
                self.values[n] = self.call(n, inner)
            elif n.op == "get_attr":
                self.values[n] = getattr(inner, n.target)
            elif n.op == "output":
                results = self.argument(n.args[0])
        without = node.target.__name__ == "wrap_with_set_grad_enabled" and arguments[0] is False
        if without and any(self.trained(v) for v in results if isinstance(v, Value)):
            self.refuse("stops a gradient (torch.no_grad)")
        return results


class Numbers:
    """The numbers of a tensor: for the check as f64, for the file as they are."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()
        self.dtype = {"float32": "F32", "float64": "F64", "bfloat16": "BF16", "float16": "F16", "int64": "I64", "int32": "I32",
                      "bool": "BOOL"}[str(tensor.dtype)[6:]]
        self.shape, self.size = tuple(tensor.shape), tensor.numel() * tensor.element_size()

    def array(self):
        return self.tensor.to(torch.float64).cpu().numpy()

    def raw(self):
        tensor = self.tensor.cpu().contiguous()
        return memoryview(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else b""


def find(program, model, target):
    """The user's own tensor of a name within Probe."""
    names = target.split(".")[1:]
    owner = model
    for name in names[:-1]:
        owner = getattr(owner, name)
    return getattr(owner, names[-1])


# --- the way of an export ----------------------------------------------------------------------------------------------------


def check_no_autocast():
    """Casts of a region around the export would be taken for the model's own."""
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        frame = next((f for f in reversed(traceback.extract_stack()) if is_user(f.filename)), None)
        raise Refused(AUTOCAST, "torch.autocast", frame and (frame.filename, frame.lineno, (frame.line or "").strip()))


def trace(model, example, loss):
    """(exported program, names of its inputs): with symbolic batch and sequence."""
    check_no_autocast()
    names = [name for name, x in example.items() if isinstance(x, torch.Tensor)]
    fixed = {name: x for name, x in example.items() if name not in names}
    tensors = [example[name] for name in names]
    for name, x in zip(names, tensors):
        if x.dim() != 2 or x.shape != tensors[0].shape:
            raise Refused(f"the input {name} is {list(x.shape)}: all inputs are [batch, tokens], as {names[0]}'s {list(tensors[0].shape)}")
    if tensors[0].shape[0] == 1:  # a size of 1 would be taken for a fixed one
        tensors = [x.repeat(2, 1) for x in tensors]
    dynamic = torch.export.Dim.DYNAMIC
    try:
        with whole_traces(), torch_flex.written_out():
            program = torch.export.export(Probe(model, names, fixed, loss), tuple(tensors), strict=False,
                                          dynamic_shapes={"tensors": tuple({0: dynamic, 1: dynamic} for _ in tensors)})
        if any(n.op == "call_function" and re.search(r"[a-z]_\.", str(n.target)) for n in program.graph.nodes):
            program._guards_code = []  # of sizes, which are checked here; in torch 2.9 some of it names what is not there, and the pass fails
            program = program.run_decompositions({})
    except Refused:
        raise
    except Exception as error:
        raise refusal(error) from error
    return program, names


def prepared(model, example):
    """
    The example with each tensor of its own, as labels are often the ids themselves; and with use_cache=False where the model would keep
    keys and values for generation, which training does not read.
    """
    example = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in example.items()}
    keeps = getattr(getattr(model, "config", None), "use_cache", False)
    return {**example, "use_cache": False} if keeps and "use_cache" not in example else example


def lower(model, example, loss=None):
    """The graph in normal form with named ops, without writing or checking it."""
    example = prepared(model, example)
    program, names = trace(model, example, loss)
    graph = Lowering(program, names, model).run()
    return recognise.recognise(normal.normal_form(attention.find(softmax.find(constants.fold(graph))))).verify()


def export(model, example, out, loss=None, weights=None):
    """
    Writes the folder `out` for the module. example: {name: tensor [batch, tokens]}, as model(**example) takes them; loss: a function of the
    model's output and **example where the model gives none. weights: a folder with the module's safetensors, which are then linked instead
    of written again. The loss and all gradients of a small batch are compared with the module's own. Raises longspan.Refused.
    """
    start = time.time()
    example = prepared(model, example)
    graph = lower(model, example, loss)
    lowered = time.time()
    made_by = f"torch {torch.__version__}"
    folder.write(graph, out, made_by, weights)
    written = time.time()
    checked = compare(graph, model, example, loss, out)
    folder.write_graph(graph, out, made_by)
    return Export(str(out), graph, {"lower": lowered - start, "write": written - lowered, "check": time.time() - written}, checked)


def compare(graph, model, example, loss=None, out=None):
    """
    The check of an export (check.py), both sides by PyTorch in f64; and of the folder `out` by the program longspan, where it is there. The
    model is copied; its own parameters stay as they are. Of a model whose gradients do not fit into memory, what fits is imported once more
    and compared.
    """
    place, layers = longest_list(model)
    extent = extent_that_fits(model, layers)
    if extent.layers is None:
        return compare_extent(extent, "", graph, model, example, loss, out)
    every = dict(layers._modules)
    folder_of_part = tempfile.TemporaryDirectory()
    try:
        layers._modules = type(layers._modules)(list(every.items())[:extent.layers])
        part = lower(model, example, loss)
        if extent.by_program:
            folder.write(part, folder_of_part.name)
        checked = compare_extent(extent, place + ".", part, model, example, loss, folder_of_part.name)
        graph.labels_of_padding = part.labels_of_padding
        checked.of = extent.words(len(every))
        return checked
    finally:
        layers._modules = type(layers._modules)(every)
        folder_of_part.cleanup()


def longest_list(model):
    """(name, module) of the longest list of modules; the module is None where there is none."""
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=lambda named: len(named[1]), default=("", None))


@dataclass(frozen=True)
class Extent:
    """What of a model is compared."""

    layers: int | None = None  # the first ones of the longest list; None: the whole model
    dtype: torch.dtype = torch.float64  # that both sides compute in
    outside: bool = True  # whether parameters outside of the list are differentiated, too

    @property
    def by_program(self):
        return self.dtype == torch.float64

    def words(self, every):
        """For a model of so many layers."""
        around = "" if self.outside else " without the gradients of what is around them"
        return f"the first {self.layers} of {every} layers{around}{'' if self.by_program else ', in f32'} (gradients of all do not fit into memory)"


def extent_that_fits(model, layers):
    """The most of which a copy, two sets of gradients and what autograd keeps take half of the free memory."""
    def count(module):
        return sum(p.numel() for p in module.parameters())

    room, every = check.free_memory() / 2, count(model)
    if 4 * 8 * every <= room:
        return Extent()
    if layers is not None and len(layers) > 1:
        for dtype, outside in ((torch.float64, True), (torch.float32, True), (torch.float32, False)):
            around = (every - count(layers)) * dtype.itemsize * (4 if outside else 1)
            fit = int((room - around) // (4 * dtype.itemsize * count(layers[0])))
            if fit >= 1:
                return Extent(min(fit, len(layers)), dtype, outside)
    raise Refused(f"the check of the import needs {4 * 8 * every / 2**30:.1f} GiB of memory, and may take {room / 2**30:.1f}")


def compare_extent(extent, place, graph, model, example, loss, out):
    """place: what names of parameters within the layers begin with. out: the folder of the graph."""
    tensors = {name: x for name, x in example.items() if isinstance(x, torch.Tensor)}
    fixed = {name: x for name, x in example.items() if name not in tensors}
    exact = copy.deepcopy(model).to(extent.dtype).cpu()
    every = dict(exact.named_parameters())
    for name, p in every.items():
        p.requires_grad_(p.requires_grad and (extent.outside or name.startswith(place)))
    trained = {name: p for name, p in every.items() if p.requires_grad}

    def differentiated(value):
        gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        return value.item(), {name: None if g is None else g.numpy() for name, g in zip(trained, gradients)}

    def theirs(batch):
        inputs = [torch.from_numpy(batch[name]).to(extent.dtype if x.is_floating_point() else x.dtype) for name, x in tensors.items()]
        with torch_flex.written_out(by_elements=True):
            return differentiated(Probe(exact, list(tensors), fixed, loss)(*inputs)[0])

    batch, their_loss, their_gradients = check.probe(graph, {name: x.cpu().numpy() for name, x in tensors.items()}, theirs)
    given = {p.value.name: every[p.value.name] for p in graph.parameters if not p.frozen}
    found = differentiated(interpret.loss(graph, batch, given, TorchArrays(extent.dtype)))
    times = 1 if extent.by_program else check.IN_F32
    checked = check.compare(*found, their_loss, their_gradients, "the imported graph", times)
    if extent.by_program:
        return check.by_program(checked, out, graph, batch, their_loss, their_gradients)
    checked.program = "not run: gradients in f64 do not fit into memory"
    return checked
