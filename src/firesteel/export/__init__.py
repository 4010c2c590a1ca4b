"""Export: whole programs as one graph with a signature, a shape contract and weights.

>>> import torch, firesteel as fs
>>> class Add(torch.nn.Module):
...     def forward(self, x, y):
...         return x + y
>>> program = fs.export.export(Add(), (torch.ones(2), torch.ones(2)))
>>> program.graph_signature.user_inputs, program.graph_signature.user_outputs
(('x', 'y'), ('add',))

The module can be called in place of its function `export`: ``fs.export(model, args)``.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..shapes.dims import Dim, dims
from ..support import require
from .constraints import ConstraintViolationError
from .dynamic_shapes import AdditionalInputs, ShapesCollection
from .errors import ExportError, InputMismatchError, VerificationError
from .exporting import export, export_for_training
from .module_calls import ModuleCallEntry, ModuleCallSignature
from .packages.errors import PackageError
from .program import ExportedProgram
from .ranges import ValueRanges
from .saving.errors import SavedProgramError
from .signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from .suggested_fixes import refine_dynamic_shapes_from_suggested_fixes

if TYPE_CHECKING:
    import torch

    from .packages import Package

__all__ = [
    "AdditionalInputs", "ConstantArgument", "ConstraintViolationError", "Dim", "ExportError", "ExportGraphSignature",
    "ExportedProgram", "InputKind", "InputMismatchError", "InputSpec", "ModuleCallEntry", "ModuleCallSignature",
    "OutputKind", "OutputSpec", "PackageError", "SavedProgramError", "ShapesCollection", "SymBoolArgument",
    "SymFloatArgument", "SymIntArgument", "TensorArgument", "ValueRanges", "VerificationError",
    "default_decompositions", "dims", "draft_export", "export", "export_for_training", "load", "load_package",
    "package", "refine_dynamic_shapes_from_suggested_fixes", "save", "unflatten",
]


def __dir__() -> list[str]:
    return sorted({*__all__, "examples", *(name for name in globals() if name.startswith("__"))})


def default_decompositions() -> dict[Any, Any]:
    """The decompositions to the core operators, as a table that can be changed."""
    from .decompositions import default_decompositions as table

    return table()


def unflatten(program: ExportedProgram) -> torch.nn.Module:
    """A module that runs a program and has the module hierarchy of the exported one."""
    from .unflattening import unflatten as make

    return make(program)


def draft_export(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
                 dynamic_shapes: Any = None, strict: bool = False,
                 preserve_module_call_signature: Sequence[str] = ()) -> ExportedProgram:
    """Export a program as far as it goes, and say all that stands in the way: ``program.report``."""
    from .draft import draft_export as draft

    return draft(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                 preserve_module_call_signature=preserve_module_call_signature)


def save(program: ExportedProgram, path: str | os.PathLike[str], *,
         extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a program to a file, which `load` reads: a zip archive of JSON, safetensors and text.

    ``extra_files`` are kept in it under their names.
    """
    from .saving import save as write

    write(program, path, extra_files=extra_files)


def load(path: str | os.PathLike[str], *, device: str | torch.device | None = None,
         extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """Read a program that `save` wrote. Nothing in the file is executed, so it may come from anywhere.

    Weights go to the device that they were saved from unless ``device`` says another. The keys of ``extra_files`` are
    filled with what was saved under them.
    """
    from .saving import load as read

    return read(path, device=device, extra_files=extra_files)


def package(program: ExportedProgram | Mapping[str, ExportedProgram], path: str | os.PathLike[str], *,
            cpu: str = "native", **options: Any) -> str:
    """Compile programs ahead of time into one file that runs without Python; the path of that file.

    Args:
        program: an exported program, or several under names.
        path: where the file goes.
        cpu: ``"native"`` for CPUs like this one, ``"avx2"`` for all x86-64 CPUs with AVX2.
        options: those of the native backend, such as ``relaxed_libraries``.
    """
    require(machine_code=True)
    from .packages import package as make

    return make(program, path, cpu=cpu, **options)


def load_package(path: str | os.PathLike[str], *, verify: bool = True,
                 device: torch.device | str | int | None = None) -> Package:
    """Open a package that `package` made, to run its models from Python.

    A package contains machine code, so open only those that you trust. Models for a GPU go to ``device``, the current
    one unless it is given.
    """
    require(machine_code=True)
    from .packages import load_package as load

    return load(path, verify=verify, device=device)


class _CallableModule(types.ModuleType):
    """The class of this module."""

    def __call__(self, mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                 **options: Any) -> ExportedProgram:
        """The same as `export`."""
        return export(mod, args, kwargs, **options)


sys.modules[__name__].__class__ = _CallableModule
