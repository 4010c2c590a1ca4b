"""NumPy's dtypes and torch's, and NumPy's promotion."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from ..values.arrays import ArrayValue

TORCH: dict[str, torch.dtype] = {
    "?": torch.bool, "b": torch.int8, "h": torch.int16, "i": torch.int32, "l": torch.int64, "B": torch.uint8,
    "H": torch.uint16, "I": torch.uint32, "L": torch.uint64, "e": torch.float16, "f": torch.float32,
    "d": torch.float64, "F": torch.complex64, "D": torch.complex128,
}
if numpy.dtype(numpy.int64).char == "q":  # where C's long has 32 bits
    TORCH.update({"q": torch.int64, "Q": torch.uint64, "l": torch.int32, "L": torch.uint32})
    del TORCH["i"], TORCH["I"]
NUMPY: dict[torch.dtype, Any] = {known: numpy.dtype(char) for char, known in TORCH.items()}
# torch has these for storing; what computes with them does so in integers that are wide enough
WIDE = {torch.uint16: torch.int64, torch.uint32: torch.int64, torch.uint64: torch.int64}
# with the same bits, for what only moves or compares them
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
BOOL, INT, FLOAT = numpy.dtype(bool), numpy.dtype(numpy.int64), numpy.dtype(numpy.float64)
PYTHON_NUMBERS: dict[type, type] = {
    int: int, float: float, complex: complex, torch.SymInt: int, torch.SymFloat: float,
}


def torch_dtype(dtype: Any) -> torch.dtype:
    """torch's dtype for one of NumPy's; breaks where there is none."""
    known = TORCH.get(dtype.char) if dtype.isnative else None
    if known is None:
        raise GraphBreak(f"dtype {dtype}, which tensors do not have", "convert the array to a numeric dtype")
    return known


def is_number(obj: Any) -> bool:
    """Whether something is a number of Python's, plain or symbolic."""
    return isinstance(obj, (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)) and \
        not isinstance(obj, numpy.generic)


def descriptor(obj: Any) -> Any:
    """What promotion takes for an operand: a dtype, or the type of a number of Python's, which is weak."""
    if isinstance(obj, (ArrayValue, numpy.generic)):
        return obj.dtype
    if isinstance(obj, (bool, torch.SymBool)):
        return BOOL
    return PYTHON_NUMBERS[type(obj)]


_SAMPLES: dict[Any, Any] = {int: 0, float: 0.0, complex: 0j}


def result_type(*operands: Any) -> Any:
    """NumPy's common dtype of arrays, dtypes and numbers of Python's."""
    parts = [operand if isinstance(operand, numpy.dtype) else descriptor(operand) for operand in operands]
    return numpy.result_type(*(_SAMPLES.get(part, part) for part in parts))


def dtype_argument(dtype: Any, default: Any = None) -> Any:
    """The dtype that a caller names, as NumPy's."""
    if dtype is None:
        return default
    if isinstance(dtype, torch.dtype):
        raise GraphBreak("a dtype of torch's as an argument of a function of NumPy's")
    return numpy.dtype(dtype)


def check_fits(number: Any, dtype: Any) -> None:
    """NumPy refuses integers that a dtype cannot hold; of one that varies, it is guarded that it fits."""
    if dtype.kind not in "iu" or isinstance(number, bool) or not isinstance(number, (int, torch.SymInt)):
        return
    limits = numpy.iinfo(dtype)
    if isinstance(number, torch.SymInt) and dtype.itemsize == 8:  # as many bits as a symbolic number has
        fits = dtype.kind == "i" or bool(number >= 0)
    else:
        fits = bool(number >= limits.min) and bool(number <= limits.max)
    if not fits:
        raise GraphBreak(f"the number {number}, which is out of bounds for {dtype}")


def rounded(number: Any, dtype: Any) -> Any:
    """A number of Python's as NumPy takes it beside floats of a dtype: the nearest that the dtype has."""
    if dtype.kind not in "fc" or isinstance(number, SYMBOLIC):
        return number
    if isinstance(number, int):
        number = float(number)
    with numpy.errstate(all="ignore"):
        return dtype.type(number).item()
