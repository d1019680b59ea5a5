"""longspan.jax: functions of JAX as imported graphs, and trained weights back in the user's pytree."""
from .check import Export
from .jax_export import export, load

__all__ = ["Export", "export", "load"]
