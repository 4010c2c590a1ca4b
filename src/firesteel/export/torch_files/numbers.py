"""The numbers that dtypes, layouts and memory formats have in torch's files, by their names in torch."""

from __future__ import annotations

from collections.abc import Mapping

from ..saving.errors import SavedProgramError

DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
LAYOUTS = {1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 7: "strided"}
MEMORY_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
STRIDED = 7


def name_of(table: Mapping[int, str], number: object, what: str) -> str:
    """The name of a number. Raises ValueError."""
    name = table.get(number) if isinstance(number, int) else None
    if name is None:
        raise ValueError(f"{str(number)[:40]} is no {what} that is known here")
    return name


def number_of(table: Mapping[int, str], name: str, what: str) -> int:
    """The number of a name."""
    for number, known in table.items():
        if known == name:
            return number
    raise SavedProgramError(f"torch's files have no {what} {name}")
