"""Makes `import torchvision` and `import timm` work beside a CPU build of torch.

torchvision's published wheel contains one native library, built for CUDA. Beside a CPU torch it does not load, which
torchvision tolerates, except that it attaches shape functions to two operators of that library while it is imported
and fails if they do not exist. Declaring the operators is enough: models use none of them.

Call `prepare()` before the first import of torchvision or timm, or import through `load("timm")`.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import torch

_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_DECLARATIONS = {"nms": _BOXES, "qnms": _BOXES}
_library: torch.library.Library | None = None  # declarations last only as long as the object that made them


def _native_library_loads(package: Path) -> bool:
    for library in sorted(package.glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            continue
        return True
    return False


def prepare() -> None:
    """Declare the operators that importing torchvision needs, unless they exist or torchvision is not installed."""
    global _library
    spec = importlib.util.find_spec("torchvision")
    if _library is not None or spec is None or spec.origin is None:
        return
    if _native_library_loads(Path(spec.origin).parent):
        return
    missing = [name for name in _DECLARATIONS if not hasattr(torch.ops.torchvision, name)]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in missing:
        library.define(name + _DECLARATIONS[name])
    _library = library


def load(name: str) -> ModuleType:
    """Import a module that needs torchvision."""
    prepare()
    return importlib.import_module(name)
