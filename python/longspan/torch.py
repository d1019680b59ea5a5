"""longspan.torch: PyTorch modules as imported graphs, and attention over ranks as an op of PyTorch."""
from .torch_attention import attention, register_attention
from .torch_export import Export, export

__all__ = ["Export", "attention", "export", "register_attention"]
