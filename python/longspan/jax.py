"""longspan.jax: functions of JAX as imported graphs, trained weights back in the user's pytree, and attention over ranks as an op."""
from .check import Export
from .jax_attention import attention
from .jax_compiled import Compiled, compile
from .jax_export import export, load

__all__ = ["Compiled", "Export", "attention", "compile", "export", "load"]
