"""Attention: what front ends call as one op, and what is written out as softmax(scale * q k^T + mask) v, becomes the op `attention`."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from . import masks
from .ir import Graph, Node, Value
from .rewrite import binary, number, rebuild, skip_casts
from .size import B, divide, has_tokens, product


def attend(graph, q, k, v, scale, mask_values=(), causal=False, softcap=0.0, sink=None, at=None):
    """Attention on q, k, v [B,H,S,D] in the order of PyTorch's: gives [B,H,S,D]. Refuses masks that are none."""
    try:
        terms, told = masks.mask(graph, mask_values, causal)
    except masks.NoMask as why:
        graph.refuse(f"the attention mask {why}", "attention", at)
    if told:
        about = next(i for i in graph.inputs if i.value.name == told.input)
        other = next((i for i in graph.inputs if i.meaning in masks.MEANINGS and masks.Told(i.value.name, i.meaning, i.number) != told), None)
        if other is not None:
            graph.refuse(f"the attention mask has {told.meaning} by {told.input}, and another one {other.meaning} by {other.value.name}", "attention", at)
        if told.input == graph.tokens and told.meaning == "padding":
            graph.refuse(f"the attention mask hides tokens by their ids ({told.input}): give them by an input of 1 and 0", "attention", at)
        about.meaning, about.number = told.meaning, told.number
    q, k, v = (graph.add("permute", [x], at, order=[0, 2, 1, 3]) for x in (q, k, v))
    inputs = [q, k, v] + ([sink] if sink is not None else [])
    y = graph.add("attention", inputs, at, mask=terms, scale=float(scale), **({"softcap": float(softcap)} if softcap else {}))
    return graph.add("permute", [y], at, order=[0, 2, 1, 3])


@dataclass
class Scores:
    """softmax's operand, taken apart. `letters` name its dimensions as the contraction's equation does."""

    node: Node  # the contraction of q and k
    letters: str
    scale: float = 1.0
    softcap: float = 0.0
    masks: List[tuple] = field(default_factory=list)  # (value, letters, whether it says what counts)
    sink: Optional[Value] = None

    def masked(self, value, keep=True):
        self.masks.append((value, self.letters[len(self.letters) - len(value.shape):], keep))
        return self


def scores_of(value, factor=1.0) -> Optional[Scores]:
    """What `factor * value` is of a contraction of q and k."""
    value = skip_casts(value)
    node = value.node
    if node is None:
        return None
    if node.op == "contract":
        return Scores(node, node.params["equation"].split("->")[1], factor)
    if node.op == "permute":
        found = scores_of(node.inputs[0], factor)
        if found:
            found.letters = "".join(found.letters[i] for i in node.params["order"])
        return found
    if node.op != "map":
        return None
    word, operands = binary(value)
    if word in ("mul", "div") and number(operands[1]) is not None:
        return scores_of(operands[0], factor * operands[1] if word == "mul" else factor / operands[1])
    if word == "mul" and number(operands[0]) is not None:
        return scores_of(operands[1], factor * operands[0])
    if word == "tanh":
        inside = scores_of(operands[0])
        if inside and not inside.softcap and not inside.masks:
            inside.scale, inside.softcap = inside.scale * factor, factor
            return inside
    if factor != 1.0:
        return None
    if word == "add":
        for scores, other in (operands, operands[::-1]):
            found = scores_of(scores) if isinstance(scores, Value) else None
            if found and isinstance(other, Value):
                return found.masked(other)
    if word == "where":
        condition, yes, no = operands
        for scores, other, keep in ((yes, no, True), (no, yes, False)):
            found = scores_of(scores) if isinstance(scores, Value) else None
            hidden = number(other)
            if hidden is None and isinstance(other, Value) and skip_casts(other).node is not None and skip_casts(other).node.op == "fill":
                hidden = skip_casts(other).node.params["value"]
            if found and hidden is not None and hidden < masks.HIDDEN:
                return found.masked(condition, keep)
    if word == "sub":  # minus the row's maximum, which changes nothing
        top = skip_casts(operands[1]) if isinstance(operands[1], Value) else None
        if top is not None and top.node is not None and top.node.op in ("reduce", "reshape"):
            inner = top.node if top.node.op == "reduce" else top.node.inputs[0].node
            if inner is not None and inner.op == "reduce" and inner.params["kind"] == "max" and inner.inputs[0] is operands[0]:
                return scores_of(operands[0])
    return None


def with_sink(value):
    """(scores, sink) of softmax's operand: concat([scores, a logit per head]) has a sink."""
    value = skip_casts(value)
    node = value.node
    if node is not None and node.op == "map" and binary(value)[0] == "sub":
        value = skip_casts(binary(value)[1][0])
        node = value.node
    if node is not None and node.op == "concat" and len(node.inputs) == 2 and node.inputs[1].shape[-1] == 1:
        sink = node.inputs[1]
        while sink.node is not None and sink.node.op in ("broadcast", "reshape", "cast"):
            sink = sink.node.inputs[0]
        if len(sink.shape) == 1:
            return node.inputs[0], sink
    return value, None


def written_out(graph, node, inputs):
    """The rule for rebuild: a contraction of softmax's weights with v."""
    if node.op != "contract":
        return None
    for i in (0, 1):
        weights = skip_casts(inputs[i])
        sliced = weights.node is not None and weights.node.op == "slice"
        softmax = skip_casts(weights.node.inputs[0]).node if sliced else weights.node
        if softmax is None or softmax.op != "softmax" or sum(map(has_tokens, inputs[i].shape)) < 2:
            continue
        operand, sink = with_sink(softmax.inputs[0]) if sliced else (softmax.inputs[0], None)
        if sliced != (sink is not None):
            continue
        scores = scores_of(operand)
        if scores is None:
            graph.refuse("a softmax over the sequence whose operand is not scaled q k^T with a mask", "softmax", softmax.at)
        scores.sink = sink
        return [put_together(graph, node, inputs, i, softmax, scores)]
    return None


def put_together(graph, node, inputs, i, softmax, scores):
    """
    attention in the place of contraction, softmax and contraction. Dimensions of the scores are the batch (or batch and heads in one),
    heads that q and k share, heads of q alone, of which several share keys, and the two of tokens.
    """
    at, out = softmax.at, scores.letters
    keys = out[softmax.params["dim"]]
    sides = scores.node.params["equation"].split("->")[0].split(",")
    first = 1 if keys in sides[0] else 0
    (q, q_letters), (k, k_letters) = ((scores.node.inputs[j], sides[j]) for j in (first, 1 - first))
    size = dict(zip(q_letters, q.shape))
    alone = [letter for letter in out if letter in q_letters and letter not in k_letters]
    queries = [letter for letter in alone if has_tokens(size[letter])]
    groups = [letter for letter in alone if letter not in queries]
    shared = sorted((letter for letter in out if letter in q_letters and letter in k_letters), key=lambda letter: size[letter] != B)
    depth = [letter for letter in q_letters if letter not in out]
    sides2, out2 = node.params["equation"].split("->")
    sides2 = sides2.split(",")
    names = dict(zip(sides2[i], out))  # letters of the second contraction in those of the first
    v, v_letters = inputs[1 - i], "".join(names.get(letter, "Z") for letter in sides2[1 - i])
    out2 = "".join(names.get(letter, "Z") for letter in out2)
    expected = set(shared + [keys, "Z"])
    single = len(queries) == len(depth) == v_letters.count("Z") == 1 and shared
    if not single or not expected <= set(v_letters) <= expected | set(groups) or set(k_letters) != set(shared + [keys] + depth):
        graph.refuse("an attention whose q, k and v do not have dimensions batch, heads, tokens and features", "softmax", at)

    def arranged(x, letters, tokens, features, repeated):
        """[B,H,S,D] of x; repeated: dimensions of heads that it does not have."""
        mine = [letter for letter in groups if letter in letters]
        x = graph.add("permute", [x], at, order=[letters.index(letter) for letter in shared + mine + [tokens, features]])
        here, tail = list(x.shape[:len(shared)]), list(x.shape[-2:])
        if repeated and not mine:
            x = graph.add("reshape", [x], at, size=here + [1] * len(groups) + tail)
            x = graph.add("broadcast", [x], at, size=here + [size[letter] for letter in groups] + tail)
        heads = divide(product(x.shape[:-2]), B)
        if heads is None:
            graph.refuse(f"an attention of {product(x.shape[:-2])} sequences", "softmax", at)
        return x if len(x.shape) == 4 else graph.add("reshape", [x], at, size=[B, heads] + tail)

    values = []
    for mask, letters, keep in scores.masks:
        mask = mask if keep else graph.map("not", mask, at=at)
        meaning = {queries[0]: "q", keys: "k", **({shared[0]: "b"} if size[shared[0]] == B else {})}
        values.append((mask, [meaning.get(letter, "h") for letter in letters]))
    y = attend(graph, arranged(q, q_letters, queries[0], depth[0], False), arranged(k, k_letters, keys, depth[0], bool(groups)),
               arranged(v, v_letters, keys, "Z", bool(groups)), scores.scale, values, softcap=scores.softcap, sink=scores.sink, at=at)
    order = shared + groups + [queries[0], "Z"]
    if len(order) != 4:
        y = graph.add("reshape", [y], at, size=[size[letter] for letter in order[:-1]] + [y.shape[-1]])
    return graph.add("permute", [y], at, order=[order.index(letter) for letter in out2])


def find(graph: Graph) -> Graph:
    """The graph with attention in the place of what is written out."""
    return rebuild(graph, written_out)
