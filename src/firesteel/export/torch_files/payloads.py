"""The tensors of torch's files: memory, and a table of how each tensor sees it."""

from __future__ import annotations

import json
from typing import Any

import torch

from ..saving.errors import SavedProgramError
from ..saving.schema import SavedTensor
from ..saving.tensors import TensorReader
from .archive import CONSTANTS, WEIGHTS, TorchArchive
from .arguments import field, only, read_place
from .numbers import DTYPES, STRIDED, name_of


class PayloadReader(TensorReader):
    """The tensors of an archive. Those that share memory do so again."""

    def __init__(self, archive: TorchArchive, device: torch.device | None) -> None:
        self.archive = archive
        self.device = device
        self._parts: dict[tuple[str, str], torch.Tensor] = {}
        self._made: dict[tuple[Any, ...], torch.Tensor] = {}

    def _part(self, key: str, device: torch.device) -> torch.Tensor:
        known = (key, str(device))
        if known not in self._parts:
            data = bytearray(self.archive.read(key))
            flat = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            self._parts[known] = flat.to(device)
        return self._parts[known]


def read_tables(archive: TorchArchive, model: str) -> tuple[list[SavedTensor], list[SavedTensor]]:
    """The tensors of the state_dict and the constants of a program."""
    return _read_table(archive, WEIGHTS, model, "weights"), _read_table(archive, CONSTANTS, model, "constants")


def _read_table(archive: TorchArchive, folder: str, model: str, what: str) -> list[SavedTensor]:
    part = f"{folder}{model}_{what}_config.json"
    if f"{folder}{model}.pt" in archive.parts and part not in archive.parts:
        raise SavedProgramError(f"{archive.name} was written by a torch before 2.9, whose weights are pickled objects",
                                "Load it with torch.export.load and save it again with torch.export.save.")
    config = field(json.loads(archive.text(part)), "config", dict)
    return [_read_entry(archive, folder, name, entry) for name, entry in config.items()]


def _read_entry(archive: TorchArchive, folder: str, name: str, entry: Any) -> SavedTensor:
    path = field(entry, "path_name", str)
    meta = entry.get("tensor_meta")
    if entry.get("use_pickle") or meta is None or not path.startswith(("weight_", "tensor_")):
        raise SavedProgramError(
            f"{archive.name}: {name[:200]} is a pickled object, and reading it would run whatever it says",
            "If you trust the file, load it with torch.export.load.")
    if field(meta, "layout", int) != STRIDED:
        raise SavedProgramError(f"{archive.name}: {name[:200]} is a sparse tensor, which is not supported")
    shape, stride = ([_plain(size) for size in field(meta, part, list)] for part in ("sizes", "strides"))
    return SavedTensor(
        name, folder + path, name_of(DTYPES, meta.get("dtype"), "dtype"), shape, stride,
        _plain(field(meta, "storage_offset", dict)), read_place(meta.get("device")), bool(entry.get("is_param")),
        bool(meta.get("requires_grad")))  # fmt: skip


def _plain(data: Any) -> int:
    kind, value = only(data, "size")
    if kind != "as_int" or type(value) is not int:
        raise ValueError(f"{str(data)[:80]} is no size of a tensor that is stored")
    return value
