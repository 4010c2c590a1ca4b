"""`save` and `load`: exported programs as files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import IO, Any

import torch

from ...version import __version__
from ..errors import VerificationError
from ..packages.archive import ArchiveReader, ArchiveWriter
from ..packages.errors import PackageError
from ..program import ExportedProgram
from ..torch_files.archive import TorchArchive, is_torch_file
from ..torch_files.program_writing import save_for_torch
from ..torch_files.programs import load_torch_program
from .errors import SavedProgramError
from .programs import read_program, write_program
from .schema import SavedProgram, read
from .tensors import TensorReader, TensorWriter

FORMAT = "firesteel program"
VERSION = 1
TORCH_SUFFIX = ".pt2"
"""What files in torch's format are called."""
_PROGRAM, _WEIGHTS, _EXAMPLES, _TEXT, _EXTRA = (
    "program.json", "weights.safetensors", "examples.safetensors", "program.txt", "extra/")  # fmt: skip


def save(program: ExportedProgram, path: str | os.PathLike[str] | IO[bytes], *,
         extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a program to a file, which `load` reads: a zip archive of JSON, safetensors and text.

    A name that ends in ``.pt2`` gives a file in torch's own format, which `torch.export.load` reads, and `load` as
    well; other names, such as ``model.firesteel``, give firesteel's, which has a form for every program.
    ``path`` may be a file that is open for writing bytes. ``extra_files`` are kept in it under their names. The file
    appears under its name when it is complete.

    >>> import io, torch, firesteel as fs
    >>> program, file = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),)), io.BytesIO()
    >>> fs.export.save(program, file)
    >>> _ = file.seek(0)
    >>> fs.export.load(file).module()(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """
    if not isinstance(program, ExportedProgram):
        raise SavedProgramError(f"save takes an ExportedProgram, not an object of type {type(program).__qualname__}",
                                "Export it first: fs.export.save(fs.export.export(module, args), path).")
    if isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(TORCH_SUFFIX):
        _save_for_torch(program, os.fspath(path), extra_files)
        return
    weights, examples = TensorWriter(), TensorWriter()
    saved = write_program(program, (__version__, str(torch.__version__)), weights, examples)
    archive = ArchiveWriter(_file(path))
    try:
        _add(archive, _PROGRAM, json.dumps(dataclasses.asdict(saved), indent=1).encode())
        _add(archive, _TEXT, str(program).encode())
        for name, data in (extra_files or {}).items():
            _add(archive, _EXTRA + name, data.encode() if isinstance(data, str) else data)
        for part, tensors in ((_WEIGHTS, weights), (_EXAMPLES, examples)):
            layout = tensors.store.lay_out()
            archive.add(part, tensors.store.write(layout), layout.file.length)
        archive.finish({"format": FORMAT, "version": VERSION})
    except BaseException:
        archive.abandon()
        raise


def _save_for_torch(program: ExportedProgram, path: str, extra_files: Mapping[str, str | bytes] | None) -> None:
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        save_for_torch(program, temporary, extra_files)
        os.replace(temporary, path)
    except SavedProgramError as error:
        raise SavedProgramError(error.reason, f"Give the file another suffix than {TORCH_SUFFIX}, such as .firesteel: "
                                "it is then in firesteel's own format, which only fs.export.load reads.") from error
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def _add(archive: ArchiveWriter, name: str, data: bytes) -> None:
    archive.add(name, [data], len(data))


def _file(path: str | os.PathLike[str] | IO[bytes]) -> str | IO[bytes]:
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else path


def _name(path: str | os.PathLike[str] | IO[bytes]) -> str:
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else str(getattr(path, "name", "the file"))


def load(path: str | os.PathLike[str] | IO[bytes], *, device: str | torch.device | None = None,
         extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """Read a program that `save` or torch's own `torch.export.save` wrote, from a path or a file that is open for
    reading bytes.

    Nothing in the file is executed, so it may come from anywhere: it names operators, which must be
    registered, and everything else is data. Weights go to the device that they were
    saved from unless ``device`` says another. The keys of ``extra_files`` are filled with what was saved under them.

    >>> import io, torch, firesteel as fs
    >>> program, file = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),)), io.BytesIO()
    >>> fs.export.save(program, file)
    >>> _ = file.seek(0)
    >>> fs.export.load(file).module()(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """
    place = None if device is None else torch.device(device)
    try:
        if is_torch_file(_file(path)):
            program = load_torch_program(TorchArchive(_file(path)), place, extra_files)
        else:
            program = _load_own(ArchiveReader(_file(path), kind=(FORMAT, VERSION)), place, extra_files)
        program.validate()
    except PackageError as error:
        raise SavedProgramError(error.reason, error.hint if "is not a" in error.reason else None) from error
    except (ValueError, VerificationError, RecursionError, UnicodeDecodeError) as error:
        if isinstance(error, SavedProgramError):
            raise
        raise SavedProgramError(f"{_name(path)} does not hold a program that can be read: {error}") from error
    return program


def _load_own(archive: ArchiveReader, place: torch.device | None,
              extra_files: dict[str, Any] | None) -> ExportedProgram:
    """The program of a file that `save` wrote."""
    saved: SavedProgram = read(SavedProgram, json.loads(archive.read(_PROGRAM)))
    weights, examples = (TensorReader(bytearray(archive.read(part)), place) for part in (_WEIGHTS, _EXAMPLES))
    program = read_program(saved, weights, examples)
    for name in extra_files if extra_files is not None else ():
        extra_files[name] = archive.read(_EXTRA + name)  # type: ignore[index]
    return program
