"""longspan.torch: PyTorch modules as imported graphs."""
from .torch_export import Export, export

__all__ = ["Export", "export"]
