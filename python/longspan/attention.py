"""Attention: what front ends call as one op, and what is written out as softmax(scale * q k^T + mask) v, becomes the op `attention`."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from . import masks
from .ir import Graph, Node, Value
from .rewrite import binary, number, rebuild, skip_casts
from .size import B, divide, has_tokens


def attend(graph, q, k, v, scale, mask_values=(), causal=False, softcap=0.0, sink=None, at=None):
    """Attention on q, k, v [B,H,S,D] in the order of PyTorch's: gives [B,H,S,D]. Refuses masks that are none."""
    try:
        terms, documents = masks.mask(graph, mask_values, causal)
    except masks.NoMask as why:
        graph.refuse(f"the attention mask {why}", "attention", at)
    if documents:
        name, positions = documents
        about = next(i for i in graph.inputs if i.value.name == name)
        about.meaning = "positions" if positions else "documents"
    q, k, v = (graph.add("permute", [x], at, order=[0, 2, 1, 3]) for x in (q, k, v))
    inputs = [q, k, v] + ([sink] if sink is not None else [])
    y = graph.add("attention", inputs, at, mask=terms, scale=float(scale), **({"softcap": float(softcap)} if softcap else {}))
    return graph.add("permute", [y], at, order=[0, 2, 1, 3])


@dataclass
class Scores:
    """softmax's operand, taken apart."""

    node: Node  # the contraction of q and k
    scale: float = 1.0
    softcap: float = 0.0
    masks: List[Value] = field(default_factory=list)
    sink: Optional[Value] = None


def scores_of(value, factor=1.0) -> Optional[Scores]:
    """What `factor * value` is of a contraction of q and k."""
    value = skip_casts(value)
    node = value.node
    if node is None:
        return None
    if node.op == "contract":
        return Scores(node, factor)
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
                found.masks.append(other)
                return found
    if word == "where":
        condition, yes, no = operands
        for scores, other, keep in ((yes, no, True), (no, yes, False)):
            found = scores_of(scores) if isinstance(scores, Value) else None
            hidden = number(other)
            if hidden is None and isinstance(other, Value) and skip_casts(other).node is not None and skip_casts(other).node.op == "fill":
                hidden = skip_casts(other).node.params["value"]
            if found and hidden is not None and hidden < masks.HIDDEN:
                found.masks.append(condition if keep else ("not", condition))
                return found
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
    """attention in the place of contraction, softmax and contraction."""
    at = softmax.at
    last = len(inputs[i].shape) - 1
    if softmax.params["dim"] != last:
        graph.refuse("a softmax over the queries", "softmax", at)
    sides, out = scores.node.params["equation"].split("->")
    sides = sides.split(",")
    first = 0 if out[-2] in sides[0] else 1
    (q, q_letters), (k, k_letters) = ((scores.node.inputs[j], sides[j]) for j in (first, 1 - first))
    depth = [letter for letter in q_letters if letter not in out]
    sides2, out2 = node.params["equation"].split("->")
    sides2 = sides2.split(",")
    names = dict(zip(sides2[i], out))  # letters of the second contraction in those of the first
    v, v_letters = inputs[1 - i], "".join(names.get(letter, "Z") for letter in sides2[1 - i])
    out2 = "".join(names.get(letter, "Z") for letter in out2)
    batch = out[:-2]
    if len(depth) != 1 or v_letters.count("Z") != 1 or set(v_letters) - {"Z"} != set(batch + out[-1]) or len(batch) not in (1, 2):
        graph.refuse("an attention whose q, k and v do not have dimensions batch, heads, tokens and features", "softmax", at)

    def arranged(x, letters, tokens, features):
        x = graph.add("permute", [x], at, order=[letters.index(letter) for letter in batch + tokens + features])
        if len(batch) == 1:  # batch and heads in one dimension
            heads = divide(x.shape[0], B)
            if heads is None:
                graph.refuse(f"an attention of {x.shape[0]} sequences", "softmax", at)
            x = graph.add("reshape", [x], at, size=[B, heads] + list(x.shape[1:]))
        return x

    values = []
    for mask in scores.masks:
        values.append(graph.map("not", mask[1], at=at) if isinstance(mask, tuple) else mask)
    y = attend(graph, arranged(q, q_letters, out[-2], depth[0]), arranged(k, k_letters, out[-1], depth[0]), arranged(v, v_letters, out[-1], "Z"),
               scores.scale, values, softcap=scores.softcap, sink=scores.sink, at=at)
    if len(batch) == 1:
        y = graph.add("reshape", [y], at, size=[y.shape[0] * y.shape[1]] + list(y.shape[2:]))
    return graph.add("permute", [y], at, order=[(batch + out[-2] + "Z").index(letter) for letter in out2])


def find(graph: Graph) -> Graph:
    """The graph with attention in the place of what is written out."""
    return rebuild(graph, written_out)
