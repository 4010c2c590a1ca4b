"""Functions that are not worth capturing when they are called between two graphs: libraries outside of models."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

# Parts of torch that are written in Python and do tensor work.
TORCH_MODELS = ("torch.nn.modules", "torch.nn.init", "torch.nn.attention", "torch.optim", "torch.distributions",
                "torch.utils.checkpoint", "torch.nn.utils", "torch.ao", "torch.testing")
NUMERIC_LIBRARIES = frozenset({
    "numpy", "scipy", "pandas", "sklearn", "PIL", "cv2", "matplotlib", "tqdm", "rich", "pytest", "_pytest",
    "hypothesis", "sympy", "numba", "llvmlite", "triton", "tokenizers", "safetensors",
})
EQUIVALENTS = "firesteel.capture.equivalents."
"""Functions of the standard library in Python, which call what the program has given them."""
PLAIN_FUNCTIONS: set[Callable[..., Any]] = set()
"""Functions that run uncompiled whatever module they are in."""


@functools.lru_cache(maxsize=4096)
def plain_module(name: str) -> bool:
    """Whether functions of a module run uncompiled."""
    root = name.partition(".")[0]
    if root == "torch":
        return not name.startswith(TORCH_MODELS)
    if root == "firesteel":
        return not name.startswith(EQUIVALENTS)
    return root in NUMERIC_LIBRARIES or root in sys.stdlib_module_names


def runs_plain(function: types.FunctionType) -> bool:
    """Whether a function runs uncompiled because of what it is, or of where it is defined."""
    return function in PLAIN_FUNCTIONS or plain_module(function.__globals__.get("__name__") or "")


@functools.lru_cache(maxsize=4096)
def opaque_module(name: str) -> bool:
    """Whether calls into a module are never followed while capturing."""
    return name.partition(".")[0] in NUMERIC_LIBRARIES
