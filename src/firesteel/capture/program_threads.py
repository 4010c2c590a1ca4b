"""Which threads of a process run code of the program, beside the one that captures.

Progress bars, notebooks, debuggers and data loaders have threads of their own in nearly every process. None of them
touches containers that the program's functions take items from.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .tracer import Tracer
    from .values.base import Value

_HOUSEKEEPING = (
    "tqdm", "ipykernel", "IPython.core.history", "zmq", "debugpy", "_pydevd_bundle", "pydevd", "execnet", "wandb",
    "tensorboard", "tensorboardX", "mlflow", "comet_ml", "neptune", "prometheus_client", "sentry_sdk",
    "torch.utils.data", "multiprocessing.queues", "multiprocessing.resource_sharer",
)
"""Modules, with those inside of them, whose threads run none of the program's functions. Pools are not among them."""


_PREFIXES = tuple(f"{name}." for name in _HOUSEKEEPING)


def several_threads() -> bool:
    """Whether another thread runs code of the program.

    >>> several_threads()
    False
    """
    if threading.active_count() == 1:
        return False
    here = threading.current_thread()
    return any(thread is not here and not _is_housekeeping(thread) for thread in threading.enumerate())


def _is_housekeeping(thread: threading.Thread) -> bool:
    """Whether a thread is one of firesteel's, or its class or the function that it runs is such a package's.

    Threads that Python did not start, such as those of autograd for a GPU, stay in its list once they have run a hook
    of the program's: they count while they run Python.
    """
    if thread.name.startswith("firesteel"):
        return True
    if isinstance(thread, threading._DummyThread):
        return thread.ident not in sys._current_frames()
    target = getattr(thread, "_target", None)
    names = (type(thread).__module__, getattr(target, "__module__", None))
    return any(isinstance(name, str) and f"{name}.".startswith(_PREFIXES) for name in names)


def is_state_of_optimizer(tx: Tracer, container: Value) -> bool:
    """Whether a container is what an optimizer keeps for its parameters, in one of its methods. A step is no single
    operation in eager either: optimizers are not shared by threads that step them at the same time."""
    state = getattr(container, "real", None)
    for frame in reversed(tx.frames):
        owner = frame.locals.get(frame.code.co_varnames[0]) if frame.code.co_argcount else None
        optimizer = getattr(owner, "real", None)
        if isinstance(optimizer, torch.optim.Optimizer) and vars(optimizer).get("state") is state:
            return True
    return False
