"""Views: how a value of the user's graph is made of one in normal form, so that copies of the user's become bookkeeping.

In normal form a value that depends on tokens has the batch and the sequence as its first two dimensions, whole. A view says what each
dimension of the user's value is: a product of *parts*, outermost first, where a part is an axis of the stored value or a repetition.
So [B*S, E], [B, H, S, D] and keys repeated for H heads are views, and no node permutes, merges or repeats anything.

A user's value may have other tokens than the sequence's: x[:, :-1] or what is padded. That is a *window* on the axis S.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Optional

from .ir import Value
from .size import B, S, divide, product


@dataclass(frozen=True)
class Repeat:
    size: Any


@dataclass(frozen=True)
class Window:
    """User's token i is stored token i + start; there are `length`. What lies outside the stored ones, or is behind these, is `outside`."""

    start: int
    length: Any
    outside: Optional[float] = None  # None: not known, or there is nothing


@dataclass(frozen=True)
class View:
    stored: Any  # a Value, or a number
    dims: tuple  # per user's dimension: parts, each an axis (int) or a Repeat. None: size 1
    window: Optional[Window] = None

    def tokens(self):
        """Whether axes 0 and 1 are the batch and the sequence."""
        return isinstance(self.stored, Value) and self.stored.shape[:2] == (B, S)

    def part_size(self, part):
        if isinstance(part, Repeat):
            return part.size
        return self.window.length if self.window and part == 1 and self.tokens() else self.stored.shape[part]

    def dim_size(self, dim):
        return product(self.part_size(part) for part in self.dims[dim])

    def shape(self):
        return tuple(self.dim_size(i) for i in range(len(self.dims)))

    def axes(self):
        return [part for parts in self.dims for part in parts if not isinstance(part, Repeat)]

    def is_token(self, part):
        return self.tokens() and part in (0, 1)


def whole(value):
    """The view of a stored value itself."""
    return View(value, tuple(() if n == 1 else (i,) for i, n in enumerate(value.shape)))


class Views:
    """Makes views of views; the few that need nodes add them to `graph`. `at` is the line of the user's that is in hand."""

    def __init__(self, graph):
        self.graph, self.at, self.op = graph, None, None

    def refuse(self, why):
        self.graph.refuse(why, self.op, self.at)

    def node(self, op, *inputs, **params):
        return self.graph.add(op, inputs, self.at, **params)

    def renumbered(self, view, stored, axes):
        """The view with axis i replaced by the axes axes[i] of another stored value."""
        dims = tuple(tuple(new for part in parts for new in ([part] if isinstance(part, Repeat) else axes[part])) for parts in view.dims)
        return replace(view, stored=stored, dims=dims)

    def split(self, view, axis, sizes):
        """An axis that is no token's becomes several."""
        if view.is_token(axis):
            self.refuse(f"splits the dimension {view.part_size(axis)} into {', '.join(map(str, sizes))}: "
                        "the batch and the sequence must stay whole")
        shape = view.stored.shape
        stored = self.node("reshape", view.stored, size=list(shape[:axis]) + list(sizes) + list(shape[axis + 1:]))
        n = len(sizes) - 1
        goes = [[i] if i < axis else [i + n] for i in range(len(shape))]
        goes[axis] = list(range(axis, axis + n + 1))
        return self.renumbered(view, stored, goes)

    def ordered(self, view, axes):
        """The stored value with its axes in this order; those of size 1 that no dimension is made of may be missing."""
        left = [i for i in range(len(view.stored.shape)) if i not in axes]
        if any(view.stored.shape[i] != 1 for i in left):
            self.refuse(f"repeats what depends on tokens along {[str(view.stored.shape[i]) for i in left]}")
        stored = view.stored
        if left:
            kept = [i for i in range(len(stored.shape)) if i not in left]
            stored = self.node("reshape", stored, size=[stored.shape[i] for i in kept])
            axes = [kept.index(i) for i in axes]
            view = self.renumbered(view, stored, {old: [new] for new, old in enumerate(kept)})
        if axes != sorted(axes):
            stored = self.node("permute", stored, order=axes)
            view = self.renumbered(view, stored, {old: [axes.index(old)] for old in axes})
        return view

    def own_axis(self, view, part_at):
        """Repetition number (dimension, index) becomes an axis: the one case in which values are repeated in memory."""
        dim, index = part_at
        part = view.dims[dim][index]
        shape = list(view.stored.shape)
        at = len(shape)
        stored = self.copies(self.node("reshape", view.stored, size=shape + [1]), part.size)
        dims = list(view.dims)
        dims[dim] = dims[dim][:index] + (at,) + dims[dim][index + 1:]
        return replace(view, stored=stored, dims=tuple(dims))

    def copies(self, value, n):
        """A value with a last dimension of one, n times side by side."""
        most = 8  # inputs of a node
        if n <= most:
            return value if n == 1 else self.node("concat", *[value] * n, dim=len(value.shape) - 1)
        each, rest = divmod(n, most - 1)
        parts = [self.copies(value, each)] * (most - 1) + ([self.copies(value, rest)] if rest else [])
        return self.node("concat", *parts, dim=len(value.shape) - 1)

    def merged(self, view, dim):
        """The view with the dimension as one axis (that of size 1 too)."""
        for index, part in enumerate(view.dims[dim]):
            if isinstance(part, Repeat):
                return self.merged(self.own_axis(view, (dim, index)), dim)
        parts = view.dims[dim]
        if len(parts) == 1:
            return view
        if any(view.is_token(part) for part in parts):
            self.refuse(f"needs {view.dim_size(dim)} as one dimension: the batch and the sequence must stay whole")
        if not parts:
            shape = list(view.stored.shape)
            behind = [part for later in view.dims[dim + 1:] for part in later if not isinstance(part, Repeat) and not view.is_token(part)]
            at = min(behind, default=len(shape))
            stored = self.node("reshape", view.stored, size=shape[:at] + [1] + shape[at:])
            view = self.renumbered(view, stored, [[i + (i >= at)] for i in range(len(shape))])
            return replace(view, dims=view.dims[:dim] + ((at,),) + view.dims[dim + 1:])
        first = min(parts)
        if list(parts) != list(range(first, first + len(parts))):
            rest = [i for i in range(len(view.stored.shape)) if i not in parts]
            view = self.ordered(view, rest + list(parts))
            parts = view.dims[dim]
            first = parts[0]
        shape, n = view.stored.shape, len(parts)
        stored = self.node("reshape", view.stored, size=list(shape[:first]) + [product(shape[first:first + n])] + list(shape[first + n:]))
        view = replace(view, dims=view.dims[:dim] + ((first,),) + view.dims[dim + 1:])
        return self.renumbered(view, stored, [[i] if i <= first else [i - n + 1] for i in range(len(shape))])

    def last(self, view, count=1):
        """The view with its last dimensions as the stored value's last axes, one each."""
        for dim in range(len(view.dims) - count, len(view.dims)):
            view = self.merged(view, dim)
        last = [parts[0] for parts in view.dims[len(view.dims) - count:]]
        if any(view.is_token(axis) for axis in last):
            self.refuse("works along the sequence or the batch: a tensor of S × S, or all tokens at once")
        n = len(view.stored.shape)
        order = [i for i in range(n) if i not in last and (i in view.axes() or view.is_token(i))] + last
        return view if order == list(range(n)) else self.ordered(view, order)

    def reshape(self, view, size):
        """The user's reshape: parts are dealt to the new dimensions, and split where these need it."""
        view, dims = replace(view, dims=tuple((part,) for parts in view.dims for part in parts if view.part_size(part) != 1)), []
        number = 0
        for wanted in size:
            first, have = number, 1
            while have != wanted:
                if number == len(view.dims):
                    self.refuse(f"reshapes {view.shape()} to {size}")
                part, more = view.dims[number][0], divide(wanted, have)
                n = view.part_size(part)
                if more is None:
                    self.refuse(f"reshapes {view.shape()} to {size}")
                if divide(more, n) is None:
                    rest = divide(n, more)
                    if rest is None:
                        view = self.joined(view, number, size)
                        continue
                    if isinstance(part, Repeat):
                        view = replace(view, dims=view.dims[:number] + ((Repeat(more),), (Repeat(rest),)) + view.dims[number + 1:])
                    else:
                        view = self.split(view, part, [more, rest])
                        a, b = view.dims[number]
                        view = replace(view, dims=view.dims[:number] + ((a,), (b,)) + view.dims[number + 1:])
                    n = more
                have = have * n
                number += 1
            dims.append((first, number))
        if number != len(view.dims):
            self.refuse(f"reshapes {view.shape()} to {size}")
        return replace(view, dims=tuple(tuple(part for parts in view.dims[a:b] for part in parts) for a, b in dims))

    def joined(self, view, number, size):
        """Parts number and number + 1 as one: where a new dimension ends inside their product."""
        if number + 1 >= len(view.dims):
            self.refuse(f"reshapes {view.shape()} to {size}")
        both = view.dims[number] + view.dims[number + 1]
        return self.merged(replace(view, dims=view.dims[:number] + (both,) + view.dims[number + 2:]), number)

    def expand(self, view, size):
        missing = len(size) - len(view.dims)
        dims = [()] * missing + list(view.dims)
        for i, n in enumerate(size):
            if n != 1 and product(view.part_size(p) for p in dims[i]) == 1:
                dims[i] = (Repeat(n),)
        return replace(view, dims=tuple(dims))

    def of_one(self, view):
        """The view with dimensions of size 1 made of nothing, so that they repeat along others."""
        return replace(view, dims=tuple(() if view.dim_size(dim) == 1 else parts for dim, parts in enumerate(view.dims)))

    # --- several views side by side ------------------------------------------------------------------------------------

    def in_step(self, views, dims):
        """The views with equal sizes of parts in dimension dims[i] of view i, where they have it."""
        views = list(views)
        while True:
            lists = {i: [v.part_size(p) for p in v.dims[dim]] for i, (v, dim) in enumerate(zip(views, dims)) if v.dims[dim]}
            if len({tuple(sizes) for sizes in lists.values()}) < 2:
                return views
            if all(not isinstance(p, Repeat) and not views[i].is_token(p) for i in lists for p in views[i].dims[dims[i]]):
                views = [self.merged(v, dims[i]) if i in lists else v for i, v in enumerate(views)]
                continue
            # The first place where they differ: all are cut to the smallest there.
            place = next(p for p in range(max(map(len, lists.values()))) if len({str(sizes[p:p + 1]) for sizes in lists.values()}) > 1)
            there = [sizes[place] for sizes in lists.values() if place < len(sizes)]
            smallest = next((a for a in there if all(divide(b, a) is not None for b in there)), None)
            if smallest is None or len(there) < len(lists):
                self.refuse(f"has dimensions made of {' and '.join('*'.join(map(str, s)) for s in lists.values())} side by side")
            for i, sizes in lists.items():
                if sizes[place] != smallest:
                    views[i] = self.cut(views[i], dims[i], place, smallest, divide(sizes[place], smallest))

    def cut(self, view, dim, place, first, rest):
        """One part of a dimension as two."""
        part = view.dims[dim][place]
        if not isinstance(part, Repeat):
            return self.split(view, part, [first, rest])
        parts = view.dims[dim][:place] + (Repeat(first), Repeat(rest)) + view.dims[dim][place + 1:]
        return replace(view, dims=view.dims[:dim] + (parts,) + view.dims[dim + 1:])

    def together(self, views, rank):
        """
        Lays out views for an op on single elements. Returns (stored values that broadcast from the right as the result does, the
        result's dims, its window). `rank` is the number of the result's dimensions.
        """
        views = [v if not isinstance(v.stored, Value) else replace(v, dims=((),) * (rank - len(v.dims)) + v.dims) for v in views]
        real = [i for i, v in enumerate(views) if isinstance(v.stored, Value)]
        windows = {views[i].window for i in real if views[i].window}
        if len({w.length for w in windows}) > 1 or any(w.start for w in windows):
            self.refuse("combines tokens at different places of the sequence")
        length = next((w.length for w in windows), None)
        for dim in range(rank):
            for i, v in zip(real, self.in_step([views[i] for i in real], [dim] * len(real))):
                views[i] = v
        # What each part of the result is: an axis of some view's, or a repetition.
        place, sizes = {}, {}
        for i in real:
            v = views[i]
            for dim, parts in enumerate(v.dims):
                for index, part in enumerate(parts):
                    sizes.setdefault((dim, index), v.part_size(part))
                    if isinstance(part, Repeat):
                        continue
                    kind = part if v.is_token(part) else "feature"
                    if place.setdefault((dim, index), kind) != kind:
                        self.refuse(f"combines the dimension {'BS'[kind] if kind != 'feature' else kind} with another")
        for kind in (0, 1):
            if list(place.values()).count(kind) > 1:
                self.refuse(f"makes a tensor of {'BS'[kind]} × {'BS'[kind]} outside attention")
        tokens = any(views[i].tokens() for i in real)
        if length is not None and any(views[i].tokens() and not views[i].window and 1 in views[i].axes() for i in real):
            self.refuse("combines tokens at different places of the sequence")
        features = sorted(where for where, kind in place.items() if kind == "feature")
        model = max(real, key=lambda i: len(views[i].axes()), default=None)
        if model is not None:  # in the order in which the largest lies
            lies = {part: (dim, i) for dim, parts in enumerate(views[model].dims) for i, part in enumerate(parts) if not isinstance(part, Repeat)}
            mine = [lies[axis] for axis in sorted(lies) if place[lies[axis]] == "feature"]
            if mine != sorted(mine):
                features = mine + [where for where in features if where not in mine]
        number = {where: i + 2 * tokens for i, where in enumerate(features)}
        number.update((where, kind) for where, kind in place.items() if kind != "feature")
        shape = ([B, S] if tokens else []) + [sizes[where] for where in features]
        arguments = [self.placed(v, number, shape) if isinstance(v.stored, Value) else v.stored for v in views]
        dims = [[] for _ in range(rank)]
        for where in sorted(sizes):
            dims[where[0]].append(number[where] if where in place else Repeat(sizes[where]))
        return arguments, tuple(map(tuple, dims)), Window(0, length) if length is not None else None

    def placed(self, view, number, shape):
        """The stored value with its axes where the result's are, and size 1 between them."""
        goes = {axis: axis for axis in (0, 1)} if view.tokens() else {}
        for dim, parts in enumerate(view.dims):
            for index, part in enumerate(parts):
                if not isinstance(part, Repeat):
                    goes[part] = number[dim, index]
        fits = [1] * len(shape)
        for axis, where in goes.items():
            fits[where] = view.stored.shape[axis]
        while fits and fits[0] == 1:
            fits = fits[1:]
        order = sorted(goes, key=goes.get)
        if order == sorted(order) and tuple(fits) == view.stored.shape:
            return view.stored
        stored = self.ordered(view, order).stored
        return stored if tuple(fits) == stored.shape else self.node("reshape", stored, size=fits)
