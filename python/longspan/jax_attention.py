"""Attention as a call of XLA's FFI, for jit, grad, scan and shard_map. Arrays are [batch, tokens, heads, size], as in jax.nn.dot_product_attention.

The handlers are C (jax_attention.c), compiled at first use with the headers that jaxlib has, by the compiler that CC names or cc; the result is
kept in ~/.cache/longspan.
"""
from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import shlex
import subprocess
import tempfile
import threading

import jax
import jax.numpy as jnp
import numpy

from . import attention_calls as calls

# --- the handlers -----------------------------------------------------------------------------------------------------------


def compile_to(path, source, headers):
    """Compiles beside it first, so that several processes may do it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        made = pathlib.Path(place) / "made.so"
        command = [*compiler, "-std=c11", "-D_DEFAULT_SOURCE", "-O2", "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(made)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise RuntimeError(f"attention in JAX needs a C compiler the first time: {compiler[0]} is not there; CC names another") from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"{' '.join(command)}: {error.stderr.strip().splitlines()[0]}") from None
        made.replace(path)


@functools.cache
def handlers():
    """The compiled handlers, registered with JAX."""
    source = pathlib.Path(__file__).with_name("jax_attention.c")
    headers = pathlib.Path(jax.ffi.include_dir())
    content = source.read_bytes() + (headers / "xla/ffi/api/c_api.h").read_bytes()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "longspan"
    path = cache / f"jax-attention-{hashlib.sha256(content).hexdigest()[:16]}.so"
    if not path.exists():
        compile_to(path, source, headers)
    library = ctypes.CDLL(str(path))
    library.longspan_add.argtypes = [ctypes.c_char_p] + 3 * [ctypes.c_void_p]
    library.longspan_add.restype = ctypes.c_bool
    for name in ("forward", "backward"):
        jax.ffi.register_ffi_target(f"longspan_attention_{name}", jax.ffi.pycapsule(getattr(library, f"longspan_{name}")), platform="cpu")
    return library


lock = threading.Lock()
kept = {}  # name: the open attention, which a compiled program may call as long as the process lives


def name_of(form, gradients):
    """The name by which handlers find the attention of a form, which is opened unless it is."""
    name = f"{form} {gradients}"
    with lock:
        if name not in kept:
            one = calls.opened(form, gradients)
            address = [ctypes.cast(function, ctypes.c_void_p) for function in (one.c_forward, one.c_backward)]
            if not handlers().longspan_add(name.encode(), one.handle, *address):
                raise MemoryError("attention: no memory for another form")
            kept[name] = one
        return name


# --- inside shard_map: the axes of the mesh along which an array differs -----------------------------------------------------


def differs(x):
    kind = jax.typeof(x)
    return kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else getattr(kind, "vma", frozenset())


def alike(arrays, *others):
    """The arrays, as different along all axes along which one of them, or of the others, differs."""
    axes = frozenset().union(*map(differs, (*arrays, *others)))
    cast = functools.partial(jax.lax.pcast, to="varying") if hasattr(jax.lax, "pcast") else getattr(jax.lax, "pvary", None)
    return [cast(x, tuple(axes - differs(x))) if axes - differs(x) else x for x in arrays]


# --- the op -----------------------------------------------------------------------------------------------------------------


def attention(q, k, v, *, causal=False, window=None, scale=None, softcap=None, sink=None, documents=None, **spread):
    """
    softmax(scale · q kᵀ) · v over the keys that a query sees, spread over ranks of this machine, which are threads. On the CPU.
      q                       [batch, tokens, heads, size]; k: [batch, tokens, KV heads, size], where heads is a multiple of KV heads
      v                       [batch, tokens, KV heads, any size], which the result has too
      causal, window          window: a query sees itself and window - 1 keys before it
      scale, softcap          of logits; scale 1/sqrt(size) unless given
      sink                    [heads]: a logit more for each query, without a value
      documents               [batch, tokens] of integers: a query sees keys of its own document alone
      ranks, threads, strategy, mesh, layout, transfers, memory    as the options of `longspan train`; chosen unless given
    """
    if q.ndim != 4 or k.ndim != 4 or k.shape[:3] != v.shape[:3] or v.ndim != 4 or q.shape[:2] != k.shape[:2] or q.shape[3:] != k.shape[3:]:
        raise ValueError(f"attention: q is {q.shape}, k {k.shape}, v {v.shape}; expected [batch, tokens, heads, size], the same but for the heads "
                         "of k and v, and the size of those of v")  # fmt: skip
    if len({str(x.dtype) for x in (q, k, v) + (() if sink is None else (sink,))}) != 1:
        raise ValueError(f"attention: q is {q.dtype}, k {k.dtype}, v {v.dtype}; expected one type for all, and the sink")
    if sink is not None and sink.shape != (q.shape[2],):
        raise ValueError(f"attention: the sink is {sink.shape}; expected [{q.shape[2]}]")
    if documents is not None and documents.shape != q.shape[:2]:
        raise ValueError(f"attention: documents are {documents.shape}; expected {q.shape[:2]}")
    how = calls.way(causal=causal, window=window, scale=scale, softcap=softcap, **spread)
    batch, tokens, heads, size = q.shape
    form = calls.Form(batch, tokens, heads, k.shape[2], size, v.shape[3], str(q.dtype), sink is not None, documents is not None, how)
    sink = jnp.zeros(0, q.dtype) if sink is None else sink
    documents = jnp.zeros(0, jnp.int32) if documents is None else documents.astype(jnp.int32)
    return op(form, *alike([q, k, v, sink, documents]))


def forward(form, gradients, q, k, v, sink, documents):
    """(o, lse)."""
    lse = jax.ShapeDtypeStruct((form.batch, form.heads, form.seq), jnp.float64 if form.dtype == "float64" else jnp.float32)
    call = jax.ffi.ffi_call("longspan_attention_forward", (jax.ShapeDtypeStruct(q.shape[:3] + v.shape[3:], q.dtype), lse), vmap_method="sequential")
    return alike(call(q, k, v, sink, documents, form=name_of(form, gradients)), q)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def op(form, q, k, v, sink, documents):
    return forward(form, False, q, k, v, sink, documents)[0]


def save(form, q, k, v, sink, documents):
    o, lse = forward(form, True, q, k, v, sink, documents)
    return o, (q, k, v, sink, documents, o, lse)


def gradient(form, saved, grad_o):
    q, k, v, sink, documents, o, lse = saved
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (q, k, v, sink)]
    call = jax.ffi.ffi_call("longspan_attention_backward", shapes, vmap_method="sequential")
    gradients = call(q, k, v, sink, documents, o, lse, grad_o, form=name_of(form, True))
    return *alike(gradients, q), numpy.zeros(documents.shape, jax.dtypes.float0)


op.defvjp(save, gradient)
