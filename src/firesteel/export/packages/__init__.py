"""Packages: exported programs compiled ahead of time, which run without Python.

    weights.py      one safetensors file for all models
    archive.py      the zip file with its manifest
    packing.py      `package`
    loading.py      `load_package`
    firesteel_model.h   the C and C++ interface of the models in a package
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import PackageError

if TYPE_CHECKING:
    from .loading import Package, PackagedModel, load_package
    from .packing import package

__all__ = ["Package", "PackageError", "PackagedModel", "load_package", "package"]


def __getattr__(name: str) -> Any:
    # Both need the native backend, which is imported when it is used.
    if name in ("Package", "PackagedModel", "load_package"):
        from . import loading

        return getattr(loading, name)
    if name == "package":
        from .packing import package

        return package
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
