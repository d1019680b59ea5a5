"""Longspan's front doors: models of PyTorch and JAX as imported graphs.

    import longspan.torch
    longspan.torch.export(model, example, "folder")

Nothing but NumPy is imported until it is asked for.
"""
__version__ = "0.1"

from .ir import Refused  # noqa: E402
from .program import Failed, grad  # noqa: E402

__all__ = ["Failed", "Refused", "grad"]
