"""Questions about the state of a thread as torch's C++ libraries answer them, for machine code that asks in each call.

Asked through Python's own functions, these take 15 to 80 ns more.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..devices import KINDS
from .dispatch import library_function
from .global_state import (
    any_autocast_enabled,
    dispatch_stack_length,
    function_stack_length,
)

_GRAD_MODE, _INFERENCE_MODE = "_ZN3c108GradMode10is_enabledEv", "_ZN3c1013InferenceMode10is_enabledEv"
_KEYS_EXCLUDED = "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE"  # takes 64 bits, says whether all
_DISPATCH_MODES = "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"
_FUNCTION_MODES = "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"
_COUNT_MASK = 0x7FFF


@dataclass(frozen=True, slots=True)
class NativeQuestion:
    """A C function of no or one 64-bit argument whose result under `mask` says what a Python function returns."""

    function: int
    """Its address."""
    argument: int
    mask: int
    negated: bool
    """Whether it says True where Python says False."""

    def result(self, answer: int) -> int:
        """What the C function returns, under the mask, where the Python function returns `answer`."""
        return int(not answer) if self.negated else int(answer)


@functools.cache
def native_questions() -> Mapping[Callable[[], Any], NativeQuestion]:
    """Python's questions that torch's libraries answer too: those for which both agreed when tried."""
    questions: dict[Callable[[], Any], NativeQuestion] = {}
    for question, name, mask in (
        (torch.is_grad_enabled, _GRAD_MODE, 1), (torch.is_inference_mode_enabled, _INFERENCE_MODE, 1),
        (dispatch_stack_length, _DISPATCH_MODES, _COUNT_MASK), (function_stack_length, _FUNCTION_MODES, _COUNT_MASK),
    ):
        address = _address(name)
        if address is not None:
            questions[question] = NativeQuestion(address, 0, mask, negated=False)
    keys, address = _autocast_keys(), _address(_KEYS_EXCLUDED)
    if keys and address is not None:
        questions[any_autocast_enabled] = NativeQuestion(address, keys, 1, negated=True)
    return {question: native for question, native in questions.items() if ask(native) == native.result(question())}


def ask(question: NativeQuestion) -> int:
    """The C function's result under the mask.

    >>> all(ask(native) == native.result(asked()) for asked, native in native_questions().items())
    True
    """
    function = ctypes.PYFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(question.function)
    return int(function(question.argument)) & question.mask


def _address(name: str) -> int | None:
    function = library_function(name)
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def _autocast_keys() -> int:
    """The keys that torch leaves out where no autocast is enabled; 0 where that cannot be told for sure."""
    excluded_keys = getattr(torch._C, "_dispatch_tls_local_exclude_set", None)
    if excluded_keys is None:
        return 0
    excluded: list[int] = []

    def look() -> None:
        excluded.append(excluded_keys().raw_repr())
        for device in KINDS:
            torch.set_autocast_enabled(device, True)
            excluded.append(excluded_keys().raw_repr())

    thread = threading.Thread(target=look)  # a new thread has no autocast enabled
    try:
        thread.start()
    except RuntimeError:  # no thread can be had
        return 0
    thread.join()
    if len(excluded) != 3:
        return 0
    none, cpu, both = excluded
    return none if cpu & ~none == 0 and both & ~cpu == 0 and none > cpu > both else 0
