"""The memory of a program's tensors as parts of a file, and the table of what lies where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..saving.errors import SavedProgramError
from .values import Metadata


class Payloads:
    """Collects tensors; those that share memory have one part."""

    def __init__(self, folder: str, prefix: str) -> None:
        self.folder = folder
        self.prefix = prefix
        self.config: dict[str, Any] = {}
        self._storages: list[torch.Tensor] = []
        self._places: dict[Any, int] = {}

    def add_all(self, tensors: Mapping[str, Any], what: str) -> None:
        """Add tensors by name."""
        metadata = Metadata({}, {})
        for name, tensor in tensors.items():
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or tensor.is_meta:
                raise SavedProgramError(f"the {what} {name} is a {type(tensor).__qualname__}, which torch's files have "
                                        "no form for without pickling it")
            tensor = tensor.resolve_conj().resolve_neg() if tensor.is_conj() or tensor.is_neg() else tensor
            self.config[name] = {
                "path_name": f"{self.prefix}{self._place(tensor)}",
                "is_param": isinstance(tensor, torch.nn.Parameter), "use_pickle": False,
                "tensor_meta": metadata.tensor(tensor)}

    def _place(self, tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        # torch reads the memory with the dtype of the first tensor in it
        key = (storage.data_ptr(), tensor.dtype) if storage.nbytes() else len(self._storages)
        if key not in self._places:
            self._places[key] = len(self._storages)
            self._storages.append(tensor)
        return self._places[key]

    def parts(self) -> Iterator[tuple[str, memoryview | bytes]]:
        """The memory."""
        for number, tensor in enumerate(self._storages):
            storage = tensor.detach().untyped_storage()
            data: Any = b""
            if storage.nbytes():
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                flat = flat[:flat.numel() // tensor.dtype.itemsize * tensor.dtype.itemsize]
                data = flat.cpu().numpy().data
            yield f"{self.folder}{self.prefix}{number}", data
