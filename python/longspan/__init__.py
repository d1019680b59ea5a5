"""Longspan's front doors: models of PyTorch and JAX as imported graphs.

    import longspan.torch
    longspan.torch.export(model, example, "folder")
    result = longspan.train("folder", "texts", "run", ranks=2, steps=100)
    model.load_state_dict(result.state_dict())

Nothing but NumPy is imported until it is asked for.
"""
__version__ = "0.1"

from .ir import Refused  # noqa: E402
from .compiled import Compiled, compile  # noqa: E402
from .program import Failed, grad, library  # noqa: E402
from .training import Trained, train  # noqa: E402

__all__ = ["Compiled", "Failed", "Refused", "Trained", "compile", "grad", "library", "train"]
