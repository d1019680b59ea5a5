"""Normal form: a user's graph becomes one in which tokens come first and stay whole, and nothing is copied that need not be.

One rule per op makes the node for the stored values (view.py) and the view of its result. What remains impossible is refused: tensors of
S × S outside attention, slices and concatenations along the sequence that are no shift, work along the batch.
"""
from __future__ import annotations

from dataclasses import replace

from .interpret import STEPS
from .ir import Graph, Input, Value
from .rewrite import like
from .size import B, S, has_tokens, product
from .view import Repeat, View, Views, Window, whole


class Normal(Views):
    def __init__(self, graph):
        super().__init__(like(graph))
        self.old, self.views = graph, {}
        self.graph.inputs = [replace(i) for i in graph.inputs]
        for node in graph.nodes:
            if node.op == "cross_entropy":
                self.labels_of(node)
        for leaf in [i.value for i in graph.inputs] + [p.value for p in graph.parameters]:
            self.views[id(leaf)] = whole(leaf)

    def run(self):
        for node in self.old.nodes:
            self.at, self.op = node.at, node.op
            rule = getattr(self, "_" + node.op, None)
            if any(sum(map(has_tokens, v.shape)) > 1 for v in node.outputs):
                self.refuse("makes a tensor of S × S outside attention")
            if rule is None:
                self.refuse("is understood in attention masks only" if node.op == "cumsum" else "has no normal form")
            for value, view in zip(node.outputs, self.many(rule(node, *[None if v is None else self.views[id(v)] for v in node.inputs]))):
                assert view.shape() == value.shape, f"{node}: its view has shape {view.shape()}"
                self.views[id(value)] = view
        self.graph.loss = self.scalar(self.old.loss)
        self.graph.logits = self.plain(self.old.logits)
        return self.graph.trim()

    def labels_of(self, node):
        """The input that a loss takes as its labels, which from now on has -100 where the user's has another label that is ignored."""
        value = node.inputs[1]
        while value.node is not None and value.node.inputs:
            value = value.node.inputs[0]
        about = self.graph.input_of(value)
        if about is not None:
            about.meaning, about.ignored = "labels", node.params.get("ignored", -100)

    @staticmethod
    def many(result):
        return result if isinstance(result, list) else [result]

    def scalar(self, value):
        if value is None:
            return None
        view = self.views[id(value)]
        self.op = "loss"
        if not isinstance(view.stored, Value) or product(view.stored.shape) != 1:
            self.refuse(f"the loss has shape {value.shape}, not one element")
        return view.stored if view.stored.shape == (1,) else self.node("reshape", view.stored, size=[1])

    def plain(self, value):
        """The logits, if they are stored as [B,S,V]."""
        if value is None:
            return None
        view = self.views[id(value)]
        if view.window or len(view.dims) != 3:
            return None
        view = self.last(view)
        return view.stored if view.dims == ((0,), (1,), (2,)) and view.tokens() else None

    def settled(self, view):
        """The view with its window, if any, at the beginning: a shift. Labels are shifted before they reach the graph."""
        window = view.window
        if window is None:
            return view
        if window.start:
            beyond = window.length - (S - window.start)  # how many user's tokens lie behind the stored ones
            about = self.graph.input_of(view.stored)
            if about is not None and about.meaning != "labels" and about.value.name != self.graph.tokens:  # a number of each token
                view, about = replace(view, stored=self.node("cast", view.stored, dtype="G")), None
            if about is not None and window.start > 0:
                if about.value.dtype != "i32" or window.outside not in (None, -100, about.ignored):
                    self.refuse(f"shifts the input {about.value.name} by {window.start}")
                view, window = replace(view, stored=self.shifted(about, window.start)), replace(window, outside=-100)
            else:
                if window.outside not in (None, 0) or (window.outside is None and (not isinstance(beyond, int) or beyond > 0 or window.start < 0)):
                    self.refuse(f"shifts the sequence, with {window.outside} beyond it; 0 is possible")
                view, window = replace(view, stored=self.node("shift", view.stored, tokens=-window.start)), replace(window, outside=0)
            window = replace(window, start=0)
        return replace(view, window=None if window.length == S else window)

    def shifted(self, about, shift):
        """The input whose token i is the given input's token i + shift, and -100 behind the last: labels are read so from the data."""
        known = next((i for i in self.graph.inputs if i.value.name == about.value.name and i.shift == shift), None)
        if known is None:
            known = Input(Value(about.value.name, about.value.shape, "i32"), "labels", shift, ignored=about.ignored)
            self.graph.inputs.append(known)
        return known.value

    # --- rules ---------------------------------------------------------------------------------------------------------

    def _map(self, node, *views):
        views = [self.settled(v) for v in views]
        arguments, dims, window = self.together(views, len(node.outputs[0].shape))
        inputs, words = [], {}
        for i, argument in enumerate(arguments):
            if isinstance(argument, Value):
                if argument not in inputs:
                    inputs.append(argument)
                words[f"i{i}"] = f"i{inputs.index(argument)}"
            else:
                words[f"i{i}"] = argument
        program = [[step[0]] + [words.get(w, w) if isinstance(w, str) else w for w in step[1:]] for step in node.params["program"]]
        ignored = {i.ignored for i in self.graph.inputs if i.meaning == "labels" and i.value in inputs}
        program = [[w if isinstance(w, str) or step[0] not in ("eq", "ne") or w not in ignored else -100 for w in step] for step in program]
        if window:
            windows = [next((v.window for v, a in zip(views, arguments) if a is x), None) for x in inputs]
            window = replace(window, outside=self.outside(program, windows))
        if not inputs:  # of numbers alone
            return View(self.computed(program, []), tuple(() if n == 1 else (Repeat(n),) for n in node.outputs[0].shape))
        params = {key: value for key, value in node.params.items() if key != "program"}
        return View(self.node("map", *inputs, program=program, **params), dims, window)

    @staticmethod
    def computed(program, inputs):
        """The program's result; None where it depends on an input that is None, which 0 times that does not."""
        results = []
        for step in program:
            operands = [(inputs if w[0] == "i" else results)[int(w[1:])] if isinstance(w, str) else w for w in step[1:]]
            known = None not in operands
            results.append(float(STEPS[step[0]](*operands)) if known else 0.0 if step[0] == "mul" and 0 in operands else None)
        return results[-1]

    def outside(self, program, windows):
        """What the program gives beyond a window, if it is known."""
        return self.computed(program, [None if w is None else w.outside for w in windows])

    def unary(self, node, view):
        """Ops on single elements that keep 0."""
        if not isinstance(view.stored, Value):
            self.refuse("of a number")
        window = view.window and replace(view.window, outside=view.window.outside if node.op == "cast" or view.window.outside == 0 else None)
        return replace(view, stored=self.node(node.op, view.stored, **node.params), window=window)

    _gelu = _gelu_tanh = _relu = _silu = _scale = _softcap = unary

    def _cast(self, node, view):
        """Conditions are 1 and 0 already."""
        to = node.params["dtype"]
        same = not isinstance(view.stored, Value) or view.stored.dtype == to or (view.stored.dtype == "bool" and to != "i32")
        return view if same else self.unary(node, view)

    def _permute(self, node, view):
        return replace(view, dims=tuple(view.dims[i] for i in node.params["order"]))

    def _reshape(self, node, view):
        return self.reshape(view, node.params["size"])

    def _broadcast(self, node, view):
        return self.expand(view, node.params["size"])

    def _fill(self, node):
        return View(float(node.params["value"]), tuple(() if n == 1 else (Repeat(n),) for n in node.params["size"]))

    def _iota(self, node):
        """Positions are [B,S], whatever dimensions the user's have."""
        size, dim = node.params["size"], node.params["dim"]
        rest = [() if n == 1 else (Repeat(n),) for n in size]
        if size[dim] == S or isinstance(S - size[dim], int):
            window = Window(0, size[dim]) if size[dim] != S else None
            return View(self.node("iota", size=[B, S], dim=1), tuple(rest[:dim] + [(1,)] + rest[dim + 1:]), window)
        if not isinstance(size[dim], int):
            self.refuse(f"counts to {size[dim]}: only the positions 0 to S - 1 and fixed numbers are possible")
        return View(self.node("iota", size=[size[dim]], dim=0), tuple(rest[:dim] + [(0,)] + rest[dim + 1:]))

    def _slice(self, node, view):
        dim, start, length, step = node.params["dim"], node.params["start"], node.params["length"], node.params.get("step", 1)
        parts, n = view.dims[dim], view.dim_size(dim)
        if length == n and step == 1:
            return view
        if all(isinstance(part, Repeat) for part in parts):  # a part of what is repeated
            return replace(view, dims=view.dims[:dim] + (() if length == 1 else (Repeat(length),),) + view.dims[dim + 1:])
        if view.tokens() and parts == (1,):
            if step != 1 or not isinstance(start, int) or not has_tokens(length):
                self.refuse(f"takes {length} tokens from {start} on out of the sequence: only a shift of all is possible")
            before = view.window or Window(0, S)
            return replace(view, window=Window(before.start + start, length, before.outside))
        if has_tokens(length):
            return self.rows(view, dim, start, length)
        view = self.merged(view, dim)
        axis = view.dims[dim][0]
        if view.is_token(axis):
            self.refuse("slices the batch")
        return replace(view, stored=self.node("slice", view.stored, dim=axis, start=start, length=length, step=step))

    def rows(self, view, dim, start, length):
        """table[:S]: the rows of a table at the tokens' own positions."""
        if view.tokens() or start != 0 or length != S or len(view.dims[dim]) != 1:
            self.refuse(f"takes {length} elements from {start} on: only the first S rows of a table are possible")
        axis = view.dims[dim][0]
        others = [i for i in range(len(view.stored.shape)) if i != axis and view.stored.shape[i] != 1]
        view = self.ordered(view, [axis] + others)
        table = view.stored
        if len(table.shape) != 2:
            table = self.node("reshape", table, size=[table.shape[0], product(table.shape[1:])])
        rows = self.node("embedding", self.node("iota", size=[B, S], dim=1), table)
        if len(view.stored.shape) != 2:
            rows = self.node("reshape", rows, size=[B, S] + list(view.stored.shape[1:]))
        return self.renumbered(view, rows, {i: [i + 1] for i in range(len(view.stored.shape))})

    def _pad(self, node, view):
        dim, before, after, value = (node.params[key] for key in ("dim", "before", "after", "value"))
        if not (view.tokens() and view.dims[dim] == (1,)):
            self.refuse("pads another dimension than the sequence")
        old = view.window or Window(0, S)
        front = before and (old.start or (old.outside not in (None, value)))
        back = after and old.start + old.length != S
        if front or back:
            self.refuse("pads a part of the sequence")
        return replace(view, window=Window(old.start - before, old.length + before + after, value))

    def _concat(self, node, *views):
        dim = node.params["dim"]
        views = [v for v in views if v.dim_size(dim) != 0]
        if len(views) == 1:
            return views[0]
        tokens = [i for i, v in enumerate(views) if v.tokens() and 1 in v.dims[dim]]
        if tokens:  # numbers in front of the tokens or behind them
            if len(tokens) > 1 or any(isinstance(v.stored, Value) for i, v in enumerate(views) if i not in tokens):
                self.refuse("concatenates along the sequence")
            view = views[tokens[0]]
            for i in list(range(tokens[0] - 1, -1, -1)) + list(range(tokens[0] + 1, len(views))):
                before = i < tokens[0]
                n = views[i].dim_size(dim)
                padded = type(node)("pad", [], {"dim": dim, "before": n if before else 0, "after": 0 if before else n, "value": views[i].stored})
                view = self._pad(padded, view)
            return view
        views = [self.merged(self.settled(v), dim) for v in views]
        if any(not isinstance(v.stored, Value) for v in views) or len({v.tokens() for v in views}) > 1:
            self.refuse("concatenates what depends on tokens and what does not")
        placed = self.side_by_side(views, dim)
        return replace(placed[0], stored=self.node("concat", *[v.stored for v in placed], dim=len(placed[0].stored.shape) - 1))

    def side_by_side(self, views, dim):
        """Views whose stored values have the axes of a dimension last, each of one part, and before them those of the others, alike."""
        others = [d for d in range(len(views[0].dims)) if d != dim]
        for d in others:
            views = self.in_step(views, [d] * len(views))
        placed = []
        for v in views:
            for d in others:
                for i, part in enumerate(v.dims[d]):
                    v = self.own_axis(v, (d, i)) if isinstance(part, Repeat) else v
            axes = [axis for d in others for axis in v.dims[d] if not v.is_token(axis)]
            placed.append(self.ordered(v, ([0, 1] if v.tokens() else []) + axes + [v.dims[dim][0]]))
        return placed

    def _reduce(self, node, view):
        view = self.settled(view)
        over, kind = node.params["dims"], node.params["kind"]
        parts = [part for dim in over for part in view.dims[dim]]
        repeats = product(part.size for part in parts if isinstance(part, Repeat))
        axes = sorted(part for part in parts if not isinstance(part, Repeat))
        dims = [() if i in over else parts for i, parts in enumerate(view.dims)]
        along = [axis for axis in axes if view.is_token(axis)]
        if along and (along != [0, 1] or kind != "sum"):
            self.refuse("reduces along the sequence or the batch alone: only sums over all tokens are possible")
        if along and view.window and view.window.outside != 0:  # the first tokens: the others move out of the sequence
            behind = S - view.window.length
            if not isinstance(behind, int) or behind < 0 or view.window.start:
                self.refuse("sums a part of the sequence")
            if view.stored.dtype == "i32":
                view = replace(view, stored=self.node("cast", view.stored, dtype="G"))
            view = replace(view, stored=self.node("shift", view.stored, tokens=behind))
        if along and len(axes) == len([n for n in view.stored.shape if n != 1]):
            stored = self.node("sum", view.stored)
        elif axes:
            ties = {"ties": node.params["ties"]} if "ties" in node.params else {}
            stored = self.node("reduce", view.stored, kind=kind, dims=axes, keep=True, **ties)
        else:
            stored = view.stored
        if along:  # tokens are gone, and with them their axes
            left = [i for i in range(len(view.stored.shape)) if i not in axes] if stored.node.op == "reduce" else []
            if left:
                stored = self.node("reshape", stored, size=[view.stored.shape[i] for i in left])
            dims = [tuple(p if isinstance(p, Repeat) else left.index(p) for p in parts) for parts in dims]
        if repeats != 1 and kind == "sum":
            stored = self.node("map", stored, program=[["mul", "i0", repeats]], dtypes=["G"])
        if not node.params.get("keep"):
            dims = [parts for i, parts in enumerate(dims) if i not in over]
        return View(stored, tuple(dims), None if along else view.window)

    def _softmax(self, node, view):
        dim, rank = node.params["dim"], len(view.dims)
        order = [i for i in range(rank) if i != dim] + [dim]
        moved = self.last(replace(view, dims=tuple(view.dims[i] for i in order)))
        stored = self.node("softmax", moved.stored, dim=len(moved.stored.shape) - 1)
        return View(stored, tuple(moved.dims[order.index(i)] for i in range(rank)), moved.window and replace(moved.window, outside=None))

    def _topk(self, node, view):
        moved = self.last(view)
        return [self.of_one(replace(moved, stored=stored, window=moved.window and replace(moved.window, outside=None)))
                for stored in self.node("topk", moved.stored, k=node.params["k"])]

    def _contract(self, node, a, b):
        a, b = self.settled(a), self.settled(b)
        sides, out = node.params["equation"].split("->")
        sides = sides.split(",")
        for letter in sorted(set(sides[0]) & set(sides[1])):
            a, b = self.in_step([a, b], [side.index(letter) for side in sides])
        return self.contracted((a, b), sides, out)

    def contracted(self, views, sides, out):
        names, spare = {}, iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        tokens = {0: next(spare), 1: next(spare)}
        owner, stored, factor = {}, [], 1
        seen = {(letter, index) for view, side in zip(views, sides) for letter, parts in zip(side, view.dims) for index, part in enumerate(parts)
                if not isinstance(part, Repeat)}
        for view, side in zip(views, sides):
            letters = {0: tokens[0], 1: tokens[1]} if view.tokens() else {}
            for letter, parts in zip(side, view.dims):
                for index, part in enumerate(parts):
                    if isinstance(part, Repeat):
                        if letter not in out and (letter, index) not in seen:
                            factor = factor * part.size
                            seen.add((letter, index))
                        continue
                    if view.is_token(part) and owner.setdefault(part, (letter, index)) != (letter, index):
                        self.refuse(f"makes a tensor of {'BS'[part]} × {'BS'[part]} outside attention")
                    names[letter, index] = tokens[part] if view.is_token(part) else names.get((letter, index)) or next(spare)
                    letters[part] = names[letter, index]
            view = self.ordered(view, sorted(letters))
            stored.append((view.stored, "".join(letters[axis] for axis in sorted(letters))))
        with_tokens = any(v.tokens() for v in views)
        width = {letter: max((len(v.dims[s.index(letter)]) for v, s in zip(views, sides) if letter in s), default=0) for letter in out}
        order, dims = [], []
        for letter in out:
            parts = []
            for index in range(width[letter]):
                name = names.get((letter, index))
                if name is None:
                    repeats = [v.dims[s.index(letter)][index] for v, s in zip(views, sides) if letter in s and index < len(v.dims[s.index(letter)])]
                    parts.append(repeats[0])
                else:
                    parts.append(name)
                    order.append(name)
            dims.append(parts)
        summed_tokens = [t for t, (letter, _) in owner.items() if letter not in out]
        if summed_tokens and sorted(summed_tokens) != [0, 1]:
            self.refuse("sums over the sequence or the batch alone")
        features = [name for name in order if name not in tokens.values()]
        result = ("".join(tokens.values()) if with_tokens and not summed_tokens else "") + "".join(features)
        window = next((v.window for v in views if v.window), None)
        dims = tuple(tuple(p if isinstance(p, Repeat) else result.index(p) for p in parts) for parts in dims)
        if set(stored[0][1] + stored[1][1]) == set(result):  # nothing is summed: a product of elements
            rank = len(dims)
            alone = [replace(v, dims=tuple(v.dims[s.index(letter)] if letter in s else () for letter in out)) for v, s in zip(views, sides)]
            arguments, dims, window = self.together(alone, rank)
            value = self.node("map", *arguments, program=[["mul", "i0", "i1" if arguments[0] is not arguments[1] else "i0"]])
        else:
            value = self.node("contract", stored[0][0], stored[1][0], equation=f"{stored[0][1]},{stored[1][1]}->{result}")
        if factor != 1:
            value = self.node("map", value, program=[["mul", "i0", factor]])
        return View(value, dims, window and replace(window, outside=None))

    def _linear(self, node, x, weight, bias=None):
        x = self.last(x)
        inputs = [x.stored, self.own(weight)] + ([self.own(bias)] if bias is not None else [])
        return replace(x, stored=self.node(node.op, *inputs, **node.params), window=x.window and replace(x.window, outside=None))

    _linear_transposed = _linear_wide = _linear

    def _rmsnorm(self, node, x, *weights):
        x = self.last(x)
        stored = self.node(node.op, x.stored, *[None if w is None else self.own(w) for w in weights], **node.params)
        return replace(x, stored=stored, window=x.window and replace(x.window, outside=None))

    _layernorm = _rmsnorm

    def own(self, view):
        """What is stored, of a view of all of it in order."""
        rank = len(view.dims)
        view = self.last(view, rank)
        if view.tokens() or len(view.stored.shape) != rank:
            self.refuse("weights that depend on tokens")
        return view.stored

    def _index(self, node, table, *indices):
        if len(indices) != 1 or len(table.dims) != 2 or table.tokens():
            self.refuse("picks elements by several indices, or out of tokens")
        return self._embedding(node, indices[0], table)

    def _stop(self, node, view):
        self.refuse("stops a gradient")

    def _take_along(self, node, *views):
        dim = len(views[0].dims) - 1
        views = [self.merged(self.settled(v), dim) for v in views]
        if any(not isinstance(v.stored, Value) for v in views) or len({v.tokens() for v in views}) > 1:
            self.refuse("picks elements of tokens by what does not depend on tokens, or the other way round")
        x, ids = self.side_by_side(views, dim)
        stored = self.node("take_along", x.stored, ids.stored)
        return self.of_one(replace(ids, stored=stored, window=x.window and replace(x.window, outside=None)))

    def _embedding(self, node, ids, table):
        params = node.params if node.op == "embedding" else {}
        if not isinstance(ids.stored, Value):
            self.refuse("looks up a constant")
        stored = self.node("embedding", ids.stored, self.own(table), **params)
        return View(stored, ids.dims + ((len(stored.shape) - 1,),), ids.window and replace(ids.window, outside=None))

    def _attention(self, node, q, k, v, sink=None):
        q = self.tokens_first(q, "q")
        k, v = (self.tokens_first(self.shared_heads(x), name) for x, name in ((k, "k"), (v, "v")))
        if k.shape()[2] != v.shape()[2]:
            k, v = (self.tokens_first(x, "k") for x in (self.spread(k, q), self.spread(v, q)))
        if len({view.window for view in (q, k, v)}) > 1 or (q.window and all(t["kind"] not in ("causal", "window") for t in node.params["mask"])):
            self.refuse("attention of a part of the sequence that could see tokens behind it")
        inputs = [q.stored, k.stored, v.stored] + ([self.own(sink)] if sink is not None else [])
        return replace(whole(self.node("attention", *inputs, **node.params)), window=q.window and replace(q.window, outside=None))

    def shared_heads(self, view):
        """Keys or values whose heads are repeated for the queries': those that are there."""
        parts = view.dims[2]
        while parts and isinstance(parts[-1], Repeat):
            parts = parts[:-1]
        return replace(view, dims=view.dims[:2] + (parts,) + view.dims[3:])

    def spread(self, view, q):
        if view.shape()[2] == q.shape()[2]:
            return view
        parts = view.dims[2] + (Repeat(q.shape()[2] // view.shape()[2]),)
        return replace(view, dims=view.dims[:2] + (parts,) + view.dims[3:])

    def tokens_first(self, view, name):
        if view.window and not view.window.start and not isinstance(S - view.window.length, int):
            self.refuse(f"attention of {view.window.length} tokens")
        if view.window and view.window.start or not view.tokens() or view.dims[:2] != ((0,), (1,)):
            self.refuse(f"attention whose {name} is not [B,S,..] of the whole sequence")
        return self.last(view, 2)

    def _cross_entropy(self, node, logits, labels):
        logits, labels = self.last(logits), self.settled(labels)
        about = next((i for i in self.graph.inputs if i.value is labels.stored), None)
        if about is None:
            self.refuse("labels that are computed: they must be an input")
        if logits.window and logits.window.start:
            self.refuse("logits that are shifted: shift the labels")
        if logits.dims[:-1] != labels.dims or logits.dims[-1] != (2,) or not logits.tokens():
            self.refuse("logits and labels of different tokens")
        if labels.window and labels.window.outside != -100:
            self.refuse("a loss of a part of the sequence whose labels are not shifted: give the others the label that is ignored")
        window = labels.window and replace(labels.window, outside=0)
        return View(self.node("cross_entropy", logits.stored, labels.stored), labels.dims, window)


def normal_form(graph: Graph) -> Graph:
    return Normal(graph).run()
