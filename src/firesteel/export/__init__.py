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

import importlib
import os
import sys
import types
from collections.abc import Mapping
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

    from .decompositions import default_decompositions
    from .draft import draft_export
    from .packages.loading import Package
    from .saving.files import load, save
    from .unflattening import unflatten

__all__ = [
    "AdditionalInputs", "ConstantArgument", "ConstraintViolationError", "Dim", "ExportError", "ExportGraphSignature",
    "ExportedProgram", "InputKind", "InputMismatchError", "InputSpec", "ModuleCallEntry", "ModuleCallSignature",
    "OutputKind", "OutputSpec", "PackageError", "SavedProgramError", "ShapesCollection", "SymBoolArgument",
    "SymFloatArgument", "SymIntArgument", "TensorArgument", "ValueRanges", "VerificationError",
    "default_decompositions", "dims", "draft_export", "export", "export_for_training", "load", "load_package",
    "package", "refine_dynamic_shapes_from_suggested_fixes", "save", "to_torch", "unflatten",
]


def __dir__() -> list[str]:
    return sorted({*__all__, "examples", "passes", *(name for name in globals() if name.startswith("__"))})


# Loaded when first used: exporting needs none of them.
_LAZY = {"default_decompositions": "decompositions", "draft_export": "draft", "load": "saving.files",
         "save": "saving.files", "unflatten": "unflattening"}


def __getattr__(name: str) -> Any:
    if name in ("examples", "passes"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def package(program: ExportedProgram | Mapping[str, ExportedProgram], path: str | os.PathLike[str], *,
            cpu: str = "native", **options: Any) -> str:
    """Compile programs ahead of time into one file that runs without Python; the path of that file.

    Args:
        program: an exported program, or several under names.
        path: where the file goes.
        cpu: ``"native"`` for CPUs like this one, ``"avx2"`` for all x86-64 CPUs with AVX2.
        options: those of the native backend, such as ``relaxed_libraries``.

    A program whose tensors are on a GPU becomes a package for GPUs like that one. The weights go along and can be
    changed later. `load_package` runs a package in Python; the file ``firesteel_model.h`` inside shows how C and C++
    programs do.

    >>> import tempfile, torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> path = fs.export.package(program, tempfile.mkdtemp() + "/model.fsp")
    >>> fs.export.load_package(path)(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """
    require(machine_code=True)
    from .packages.packing import package as make

    return make(program, path, cpu=cpu, **options)


def load_package(path: str | os.PathLike[str], *, verify: bool = True,
                 device: torch.device | str | int | None = None) -> Package:
    """Open a package that `package` made, to run its models from Python.

    A package contains machine code, so open only those that you trust. ``verify`` compares checksums of all parts
    first; a damaged file is an error either way, as far as it can be noticed. Models for a GPU go to ``device``, the
    current one unless it is given.

    >>> import tempfile, torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> path = fs.export.package(program, tempfile.mkdtemp() + "/model.fsp")
    >>> fs.export.load_package(path)(torch.ones(3, 2)).shape
    torch.Size([3, 1])
    """
    require(machine_code=True)
    from .packages.loading import load_package as open_package

    return open_package(path, verify=verify, device=device)


def to_torch(program: ExportedProgram) -> Any:
    """The program as an ExportedProgram of `torch.export`, for tools that take those.

    It shares the parameters, buffers and constants. This is the only function of firesteel that uses torch's export,
    which is loaded when it is called. What torch has no form for is a `SavedProgramError`.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    >>> fs.export.to_torch(program).graph_signature.parameters
    ('weight', 'bias')
    """
    from .torch_programs import to_torch as convert

    return convert(program)


class _CallableModule(types.ModuleType):
    """The class of this module."""

    def __call__(self, mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                 **options: Any) -> ExportedProgram:
        """The same as `export`."""
        return export(mod, args, kwargs, **options)


sys.modules[__name__].__class__ = _CallableModule
