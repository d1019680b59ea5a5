"""Attention of the C library on arrays in memory (include/longspan/attention.h), by ctypes. PyTorch and JAX call it here.

An open attention fits one shape and one way: which keys a query sees, what happens to logits, and how the sequence is spread. Ways are text,
"causal window=128 ranks=2", so that a graph of a framework can hold them. Attentions stay open, the most recent ones, with their ranks asleep
between calls.
"""
from __future__ import annotations

import collections
import ctypes
import functools
import os
import threading

import numpy

from .program import library

MOST_OPEN = 16
DTYPES = {"float32": 0, "float64": 1, "bfloat16": 2}  # ls_dtype


# --- the library ----------------------------------------------------------------------------------------------------------


class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 508)]


class Term(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("window", ctypes.c_int64), ("first", ctypes.c_int64), ("ends", ctypes.c_void_p), ("n_ends", ctypes.c_int)]


class Mask(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("term", Term * 4)]


SPREAD = [(name, {"i": ctypes.c_int64, "s": ctypes.c_char_p, "b": ctypes.c_bool, "d": ctypes.c_double}[kind]) for name, kind in (
    ("ranks", "i"), ("threads", "i"), ("strategy", "s"), ("mesh", "s"), ("layout", "s"), ("transfers", "s"), ("shard", "s"), ("sums", "s"),
    ("isa", "s"), ("device", "s"), ("kernels", "s"), ("memory", "i"), ("recompute", "s"), ("offload", "s"), ("tile", "s"), ("tile_rows", "i"),
    ("measure", "b"), ("as_threads", "b"), ("wait_timeout", "d"), ("pipeline", "s"), ("slices", "i"))]  # fmt: skip


class Spread(ctypes.Structure):
    _fields_ = SPREAD


class Options(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "seq", "heads", "kv_heads", "head_size", "value_size")] + [
        ("dtype", ctypes.c_int), ("mask", ctypes.POINTER(Mask)), ("scale", ctypes.c_double), ("softcap", ctypes.c_double),
        ("sink", ctypes.c_bool), ("documents", ctypes.c_bool), ("gradients", ctypes.c_bool), ("spread", Spread)]  # fmt: skip


CALL = ctypes.c_int64 * 40  # ls_attention_arrays: addresses and strides, of 8 bytes each


@functools.cache
def functions():
    """(open, forward, backward, close) of the library."""
    lib = library()
    try:
        opens, forward, backward, close = (getattr(lib, "ls_shared_attention_" + name) for name in ("open", "forward", "backward", "close"))
    except AttributeError:
        raise RuntimeError(f"{lib._name} has no calls of attention: it is older than this package") from None
    opens.argtypes = [ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p)]
    forward.argtypes = backward.argtypes = [ctypes.c_void_p, CALL]
    opens.restype = forward.restype = backward.restype = Status
    close.argtypes, close.restype = [ctypes.c_void_p], None
    return opens, forward, backward, close


def check(status):
    if status.code == 0:
        return
    error = {1: ValueError, 2: ValueError, 4: MemoryError}.get(status.code, RuntimeError)  # ls_code
    raise error(status.text.decode(errors="replace"))


# --- ways ------------------------------------------------------------------------------------------------------------------

WORDS = {"ranks": int, "threads": int, "strategy": str, "mesh": str, "layout": str, "transfers": str, "memory": int,
         "device": str}  # of ls_spread


def way(causal=False, window=None, scale=None, softcap=None, **spread):
    """A way as text. window: a query sees that many keys, itself and those before it; it implies causal."""
    unknown = set(spread) - set(WORDS)
    if unknown:
        raise TypeError(f"attention has no option {sorted(unknown)[0]}; expected causal, window, scale, softcap, {', '.join(WORDS)}")
    if window is not None and not window >= 1:
        raise ValueError(f"window is {window}; expected at least 1")
    words = [f"window={int(window)}"] if window is not None else ["causal"] if causal else []
    words += [f"{name}={float(x)!r}" for name, x in (("scale", scale), ("softcap", softcap)) if x is not None]
    words += [f"{name}={WORDS[name](x)}" for name, x in sorted(spread.items()) if x is not None]
    if any(len(word.split()) != 1 for word in words):
        raise ValueError(f"options of attention are words without spaces, not {' | '.join(words)}")
    return " ".join(words)


def options_of(text):
    """(mask or None, scale, softcap, spread) of a way."""
    values = dict(word.partition("=")[::2] for word in text.split())
    mask = None
    if "window" in values:
        mask = Mask(1, (Term * 4)(Term(1, int(values["window"]))))  # ls_mask_kind
    elif "causal" in values:
        mask = Mask(1, (Term * 4)(Term(0)))
    spread = Spread(**{name: int(values[name]) if kind is int else values[name].encode() for name, kind in WORDS.items() if name in values})
    return mask, float(values.get("scale", 0)), float(values.get("softcap", 0)), spread


# --- open attentions --------------------------------------------------------------------------------------------------------

Form = collections.namedtuple("Form", "batch seq heads kv_heads head_size value_size dtype sink documents way")


class Attention:
    """One that is open; it is closed when nobody holds it."""

    def __init__(self, form, gradients):
        self.form, self.gradients = form, gradients
        opens, self.c_forward, self.c_backward, self.close = functions()
        if form.value_size < 1:  # which the library would take for not given
            raise ValueError(f"attention: heads of v have size {form.value_size}; expected at least 1")
        if form.dtype not in DTYPES:
            raise ValueError(f"attention of {form.dtype}; expected one of {', '.join(DTYPES)}")
        mask, scale, softcap, spread = options_of(form.way)
        options = Options(*form[:6], DTYPES[form.dtype], ctypes.pointer(mask) if mask else None, scale, softcap, form.sink, form.documents,
                          gradients, spread)  # fmt: skip
        self.handle = ctypes.c_void_p()
        with own_ranks():
            check(opens(ctypes.byref(options), ctypes.byref(self.handle)))

    def forward(self, *words):
        check(self.c_forward(self.handle, CALL(*words)))

    def backward(self, *words):
        check(self.c_backward(self.handle, CALL(*words)))

    def __del__(self):
        if getattr(self, "handle", None):
            self.close(self.handle)


class own_ranks:
    """A process that torchrun started is a rank of its program; attention has ranks of its own in each process."""

    def __enter__(self):
        self.set = "LONGSPAN_BOOT" not in os.environ
        if self.set:
            os.environ["LONGSPAN_BOOT"] = "local"

    def __exit__(self, *_):
        if self.set:
            del os.environ["LONGSPAN_BOOT"]


lock = threading.Lock()
attentions = collections.OrderedDict()  # by (form, gradients), the most recently used ones last


def opened(form, gradients):
    """The open attention of that form. One with gradients serves calls without, too."""
    with lock:
        for key in ((form, True), (form, gradients)):
            if key in attentions:
                attentions.move_to_end(key)
                return attentions[key]
        attention = attentions[form, gradients] = Attention(form, gradients)
        while len(attentions) > MOST_OPEN:
            attentions.popitem(last=False)
        return attention


def forget():
    """Closes all that nobody else holds."""
    attentions.clear()


def begin_child():
    """In a forked process: it has none of the threads, and perhaps the lock as another thread held it."""
    global lock
    lock = threading.Lock()
    forget()


os.register_at_fork(after_in_child=begin_child)


# --- documents --------------------------------------------------------------------------------------------------------------


def bounds_of(ids):
    """(ends, n_ends) of the documents of each sequence, as the library takes them. ids: the number of each token's document, [batch, tokens]."""
    batch, tokens = ids.shape
    changes = [numpy.flatnonzero(row[1:] != row[:-1]) + 1 for row in ids]
    for b, (row, at) in enumerate(zip(ids, changes)):
        if len(numpy.unique(row)) != len(at) + 1:
            raise ValueError(f"attention: the tokens of a document lie apart in sequence {b}; expected each document in one piece")
    ends = numpy.zeros((batch, max(map(len, changes)) + 2), numpy.int32)
    for b, at in enumerate(changes):
        ends[b, 1 : len(at) + 1] = at
        ends[b, len(at) + 1] = tokens
    return ends, numpy.array([len(at) + 2 for at in changes], numpy.int32)
