"""`check`: a function compiled, called, and compared with eager: results, changed arguments, gradients."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import config
from ..backends.registry import lookup_backend
from ..compiling import compile
from ..errors import AccuracyError
from ..events import note
from ..runtime.compiler import name_of_backend
from ..torch_compat import pytrees
from .referee import Difference, first_difference, in_double, tensors_in

SETTINGS = {"raise_on_internal_error": True, "disk_cache": False, "compile_after": 0.0, "retire_slow": False}
"""What holds while something is checked."""


@dataclass
class Outcome:
    """What one run gave."""

    result: Any = None
    changed: Any = None
    """The arguments afterwards."""
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    error: BaseException | None = None


@dataclass
class CheckedCall:
    """A call that gave something else than eager, with arguments as they were before it."""

    function: Any
    args: Any
    kwargs: Any
    options: dict[str, Any]
    again: bool
    """Whether it was not the first call of the compiled function."""


class Check:
    """A function that is compiled and compared with eager in every call. Made by `check`."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self.function = function
        self.backward = options.pop("backward", True)
        self.options = options
        self.calls = 0
        with config.patch(SETTINGS):
            self.compiled = compile(function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function and eager with copies of the same arguments; returns the compiled one's result."""
        plain = copied((self.function, args, kwargs))
        wide = widened((self.function, args, kwargs))
        self.calls += 1
        given = copied((self.function, args, kwargs))
        with config.patch(SETTINGS), same_random_numbers() as again:
            expected = outcome(plain[0], plain[1], plain[2], self.backward)
            if expected.error is not None:
                note("eager raised", error=expected.error)
            again()
            truth = None if wide is None else outcome(wide[0], wide[1], wide[2], self.backward)
            again()
            here = outcome(self.compiled, args, kwargs, self.backward, self.function)
            difference = compare(here, expected, truth)
        call = CheckedCall(given[0], given[1], given[2], self.options, self.calls > 1)
        if difference is not None:
            backend = _foreign_backend(self.options.get("backend", "native"))
            error = AccuracyError(str(difference), None, backend=backend)
            error.call, error.difference = call, difference  # type: ignore[attr-defined]
            raise error from here.error
        if expected.error is not None:
            raise expected.error
        if here.error is not None:
            here.error.call = call  # type: ignore[attr-defined]
            raise here.error
        return here.result


def check(function: Callable[..., Any], **options: Any) -> Check:
    """``check(f)(*args)`` compiles `f`, calls it, and raises where it fails or differs from eager.

    Results, changed arguments and gradients are compared, floats with a run in float64 as the referee. The object that
    `check` returns stays compiled, so that a second call shows whether guards notice what has changed. Nothing comes
    from caches, and failures inside of firesteel are raised. ``backward=False`` leaves gradients out; all other
    arguments are those of `compile`.

    >>> import torch, firesteel as fs
    >>> fs.check(lambda x: x * 2)(torch.ones(2))
    tensor([2., 2.])
    """
    return Check(function, options)


def _foreign_backend(backend: Any) -> str | None:
    """The name of a backend that is not firesteel's own; None for those that are."""
    function = lookup_backend(backend)
    return None if (getattr(function, "__module__", None) or "").startswith("firesteel.") else name_of_backend(backend)


@contextmanager
def same_random_numbers() -> Iterator[Callable[[], None]]:
    """What it gives makes generators start again from where they were."""
    state = torch.random.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None

    def again() -> None:
        torch.random.set_rng_state(state)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    yield again


def copied(value: Any) -> Any:
    """A copy with tensors and modules of its own; what cannot be copied is shared."""
    memo: dict[int, Any] = {}
    for tensor in tensors_in(value):
        if not tensor.is_leaf and id(tensor) not in memo:
            memo[id(tensor)] = _with_strides(tensor).requires_grad_(tensor.requires_grad)
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        return pytrees.tree_map(lambda leaf: memo.get(id(leaf)) if id(leaf) in memo else _cloned(leaf), value)


def _cloned(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return _with_strides(leaf).requires_grad_(leaf.requires_grad)
    return leaf


def _with_strides(tensor: torch.Tensor) -> torch.Tensor:
    detached = tensor.detach()
    return copy.deepcopy(detached)


def widened(value: Any) -> Any:
    """A copy in float64; None for functions that hold tensors of their own, which stay as they are."""
    function, args, kwargs = copied(value)
    if isinstance(function, types.FunctionType) and any(True for _ in tensors_in(list(_held(function)))):
        return None
    if isinstance(function, types.MethodType):
        return None if not isinstance(function.__self__, torch.nn.Module) else \
            (types.MethodType(function.__func__, function.__self__.double()), in_double(args), in_double(kwargs))
    return in_double(function), in_double(args), in_double(kwargs)


def _held(function: types.FunctionType) -> Iterator[Any]:
    for name in function.__code__.co_names:
        yield function.__globals__.get(name)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass


def outcome(function: Any, args: Any, kwargs: Any, backward: bool, written: Any = None) -> Outcome:
    """A call and, where results have a history, gradients for made-up ones of the results.

    ``written`` is the function as the program has it, where another one stands for it.
    """
    try:
        result = function(*args, **kwargs)
        found = Outcome(result, (args, kwargs))
        if backward:
            found.gradients = gradients(function if written is None else written, args, kwargs, result)
        return found
    except Exception as error:
        return Outcome(error=error)


def gradients(function: Any, args: Any, kwargs: Any, result: Any) -> list[torch.Tensor | None]:
    """Gradients of parameters and arguments, and of what a function reads; the results keep their history."""
    results = [one for one in tensors_in(result) if one.requires_grad and one.grad_fn is not None]
    held = list(_held(function)) if isinstance(function, types.FunctionType) else [getattr(function, "__self__", None)]
    wanted: dict[int, torch.Tensor] = {}
    for tensor in tensors_in(((function, *held), args, kwargs)):
        if tensor.requires_grad:  # copies of arguments with a history are leaves
            wanted.setdefault(id(tensor), tensor)
    if not results or not wanted:
        return []
    given = [_tangent(one, number) for number, one in enumerate(results)]
    return list(torch.autograd.grad(results, list(wanted.values()), given, retain_graph=True, allow_unused=True))


def _tangent(result: torch.Tensor, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(number)
    drawn = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return drawn.to(device=result.device, dtype=result.dtype)


def compare(here: Outcome, expected: Outcome, truth: Outcome | None) -> Difference | None:
    """Where a compiled run differs from eager; its own errors are raised as they are unless eager has the same."""
    if expected.error is not None or here.error is not None:
        if expected.error is None:
            return None  # the caller raises it
        if here.error is None:
            return Difference("call", "return", f"it returns, and eager raises {type(expected.error).__name__}: "
                                              f"{str(expected.error)[:200]}")
        if type(here.error) is not type(expected.error):
            return Difference("call", type(here.error).__name__, f"it raises {type(here.error).__name__}, and eager "
                                              f"{type(expected.error).__name__}: {str(expected.error)[:200]}")
        return None
    judge = truth if truth is not None and truth.error is None else Outcome()
    return first_difference(here.result, expected.result, judge.result) or \
        first_difference(here.changed, expected.changed, judge.changed, "argument", strides=False) or \
        first_difference(here.gradients, expected.gradients, judge.gradients or None, "gradient", strides=False)
