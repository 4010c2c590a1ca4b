"""``torch.export.save`` and ``load`` where ``torch.export.export`` is firesteel's: files stay in torch's format."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import IO, Any

from firesteel.export import ExportedProgram
from firesteel.export import load as own_load
from firesteel.export import save as own_save


def saving(torchs: Callable[..., None]) -> Callable[..., None]:
    """A ``save`` that takes firesteel's programs too; ``torchs`` is torch's own."""
    def save(ep: Any, f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
             **options: Any) -> None:
        """Save a program, as `torch.export.save` does."""
        if not isinstance(ep, ExportedProgram):
            torchs(ep, f, extra_files=extra_files, **options)
            return
        if isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(".pt2"):
            own_save(ep, f, extra_files=extra_files)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.pt2")  # the name says that the format is torch's
            own_save(ep, path, extra_files=extra_files)
            if isinstance(f, (str, os.PathLike)):
                shutil.copyfile(path, f)
            else:
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, f)

    return save


def load(f: str | os.PathLike[str] | IO[bytes], *, extra_files: dict[str, Any] | None = None,
         expected_opset_version: dict[str, int] | None = None) -> Any:
    """Read what ``torch.export.save`` wrote, with and without firesteel."""
    del expected_opset_version  # none of today's programs asks for other versions
    program = own_load(f, extra_files=extra_files)
    for name, data in (extra_files or {}).items():
        if isinstance(data, bytes):  # torch gives texts
            extra_files[name] = data.decode()  # type: ignore[index]
    return program
