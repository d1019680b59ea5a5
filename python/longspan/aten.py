"""ATen ops in the ops of the IR: one row per op (rows.py)."""
from . import aten_elements, aten_shapes, aten_sums

ATEN = {**aten_elements.ROWS, **aten_shapes.ROWS, **aten_sums.ROWS}
