"""Functions that are not worth capturing when they are called between two graphs: libraries outside of models."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

# Parts of torch that are written in Python and do tensor work.
TORCH_MODELS = ("torch.nn.modules", "torch.nn.init", "torch.nn.attention", "torch.optim", "torch.distributions",
                "torch.utils.checkpoint", "torch.nn.utils", "torch.ao", "torch.testing",
                "torch.distributed.algorithms._checkpoint")
NUMERIC_LIBRARIES = frozenset({
    "numpy", "scipy", "pandas", "sklearn", "PIL", "cv2", "matplotlib", "tqdm", "rich", "pytest", "_pytest",
    "hypothesis", "sympy", "numba", "llvmlite", "triton", "tokenizers", "safetensors",
})
EQUIVALENTS = "firesteel.capture.equivalents."
"""Functions of the standard library in Python, which call what the program has given them."""
PLAIN_FUNCTIONS: set[Callable[..., Any]] = set()
"""Functions that run uncompiled whatever module they are in."""

AROUND_MODULES = {
    ("torch.nn.parallel.distributed", "DistributedDataParallel.forward"):
        "torch.nn.parallel.DistributedDataParallel runs as it is, and its module is compiled for itself",
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel.forward"):
        "torch.distributed.fsdp.FullyShardedDataParallel runs as it is, and its module is compiled for itself",
}
"""Functions, by module and name, that talk to other processes before and behind the call of a module."""


def around_module(code: types.CodeType, globals_: dict[str, Any]) -> str | None:
    """Why a function runs as plain Python that calls compiled code, if it is one of `AROUND_MODULES`."""
    return AROUND_MODULES.get((globals_.get("__name__", ""), code.co_qualname)) if code.co_name == "forward" else None


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
