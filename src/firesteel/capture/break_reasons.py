"""What breaks are called: functions by the names under which programs know them, and what to do about whole libraries.

A break may come up deep inside of a library that capture follows into: the lock that the first call of `torch.vmap`
makes says nothing to whoever wrote the program.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..records import dataclass
from .signals import GraphBreak

if TYPE_CHECKING:
    from .frame import Frame

_CUSTOM_OPERATOR = "wrap it into a custom operator (torch.library.custom_op), or accept the break"


@dataclass(frozen=True)
class Library:
    """What is said of the functions of a module that break the graph."""

    does: str
    hint: str


_RANDOM = Library("draws from Python's random numbers",
                  "draw with torch.rand or torch.randint, or draw outside of the compiled function and pass the number "
                  "in")
_TIME = Library("depends on the clock", "call it outside of the compiled function, or accept the break")
_NUMPY = Library("is a function of NumPy", "use torch functions instead of NumPy's here")
_SYSTEM = Library("deals with files or the system", "do that outside of the compiled function, or accept the break")
_THREADS = Library("has to do with threads", "do that outside of the compiled function, or accept the break")
_SCRIPT = Library("is TorchScript, which is compiled already, by another compiler", "call what it was made from")
_PROCESSES = Library("talks to other processes, which runs as plain Python", "accept the break")
_PARALLEL = Library("does things around the call of its module that run as plain Python",
                    "compile the module before it is wrapped, or accept the breaks")
_TRANSFORM = Library("runs as plain Python", "")

# C functions that programs call themselves, by the module that they name
_C_MODULES = {"random": _RANDOM, "_random": _RANDOM, "time": _TIME, "datetime": _TIME, "numpy": _NUMPY,
              "os": _SYSTEM, "io": _SYSTEM, "_io": _SYSTEM, "_thread": _THREADS}
# modules written in Python that capture follows into
_PYTHON_MODULES = {"random": _RANDOM, "torch.jit": _SCRIPT, "torch._functorch": _TRANSFORM,
                   "threading": _THREADS, "torch.nn.parallel": _PARALLEL, "torch.distributed": _PROCESSES,
                   "torch.optim.lbfgs": Library(
                       "decides on the values of tensors in every step",
                       "accept the breaks, or take another optimizer")}
# modules whose functions call one of the program's for all elements of a tensor
_POINTWISE_CALLERS = frozenset({"torch.nn.attention.flex_attention", "torch._higher_order_ops.flex_attention",
                                f"{__package__}.equivalents.flex_attention"})
# where frames may lie between a library's and the break: a function of the user's that it calls breaks for itself
_SURROUNDINGS = frozenset({"torch", "random", "threading", "functools", "contextlib"})
_PUBLIC_MODULES = {"posix": "os", "nt": "os", "_io": "io", "_operator": "operator",
                   "firesteel.capture.distributed_tensors": "torch.distributed.tensor"}

_LOOKUPS = ("__getattr__", "__getattribute__")
_NAMING = ("__qualname__", "__name__", "__module__", "__self__")
_C_DESCRIPTORS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType,
                  types.MemberDescriptorType)


def written_name(function: Any) -> str:
    """The name of a function or operator in messages, as programs write it.

    >>> import random, time, torch
    >>> written_name(time.time), written_name(torch.from_numpy), written_name(random.random)
    ('time.time', 'torch.from_numpy', 'random.random')
    """
    if _answers_itself(type(function)):
        return ""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if not isinstance(name, str):
        return ""
    module = getattr(function, "__module__", None)
    outer, _, last = name.rpartition(".")
    receiver = getattr(function, "__self__", None)
    if not isinstance(module, str):
        if receiver is None or isinstance(receiver, types.ModuleType):
            return name
        cls = receiver if isinstance(receiver, type) else type(receiver)
        module = cls.__module__
    if module.startswith("torch._ops"):
        return f"torch.ops{module.removeprefix('torch._ops')}.{getattr(function, '__name__', last)}"
    if outer.startswith("pybind11_") or outer == "_VariableFunctionsClass" or name == "Random." + last:
        name = last
    return name if module == "builtins" else f"{_PUBLIC_MODULES.get(module, module)}.{name}"


def _answers_itself(cls: type) -> bool:
    """Whether code of the program runs when an object of this class is asked for its name."""
    for base in type.__dict__["__mro__"].__get__(cls):
        if base.__module__.partition(".")[0] == "torch":
            continue
        held = type.__dict__["__dict__"].__get__(base)
        asked = [held[name] for name in _LOOKUPS if name in held]
        asked += [held[name] for name in _NAMING if hasattr(type(held.get(name)), "__get__")]
        if any(not isinstance(member, _C_DESCRIPTORS) for member in asked):
            return True
    return False


def not_known(function: Any, description: str) -> GraphBreak:
    """The break at a call of something that is not written in Python and that capture has no rule for."""
    name = written_name(function) or description
    library = _C_MODULES.get(name.partition(".")[0])
    if name == "torch.from_numpy":
        library = Library("takes an array of NumPy", "make the tensor outside of the compiled function, or accept the "
                                                     "break")
    receiver = getattr(function, "__self__", None)
    if isinstance(receiver, torch.Tensor):
        return GraphBreak(f"{name} is a method of a tensor subclass", hint_for_object(receiver))
    if library is not None and "." in name:
        return GraphBreak(f"{name} {library.does}", library.hint)
    return GraphBreak(f"{name} is implemented outside of Python and not known to firesteel", _CUSTOM_OPERATOR)


def torchscript_break() -> GraphBreak:
    """The break at a call of a scripted or traced module, function or method."""
    return GraphBreak("TorchScript is compiled already, by another compiler", _SCRIPT.hint)


def c_method(cls: type, name: str, description: str) -> GraphBreak:
    """The break at a method that is implemented in C and that capture has no rule for."""
    library = _C_MODULES.get(cls.__module__.partition(".")[0])
    if library is not None:
        return GraphBreak(f"{cls.__module__}.{cls.__qualname__}.{name} {library.does}", library.hint)
    return GraphBreak(f"method {name!r} of {description} is implemented in C")


def hint_for_object(real: Any) -> str:
    """What to do about an object that capture cannot look into."""
    if isinstance(real, torch.Tensor) and type(real) is not torch.Tensor:
        return "use plain tensors here, or accept the break"
    library = _C_MODULES.get((written_name(real) or type(real).__module__).partition(".")[0])
    if library is not None:
        return library.hint
    if isinstance(real, Iterator):
        return "make a list of it outside of the compiled function, or loop over what it was made from"
    return ""


def of_library(cause: GraphBreak, frames: Sequence[Frame]) -> int:
    """Say of a break inside of a library which of its functions the program called.

    Takes all frames, outermost first, and returns how many of them are the program's.
    """
    if cause.hint == _CUSTOM_OPERATOR and any(_module(frame) in _POINTWISE_CALLERS for frame in frames[1:]):
        cause.hint = ("functions given to flex_attention are traced for all positions at once and may only compute: do "
                      "this before the call, and use its result there as a tensor")
    last = max(at for at, frame in enumerate(frames)
               if not at or _module(frame).partition(".")[0] not in _SURROUNDINGS)  # of the program's
    for position, frame in enumerate(frames[last + 1:], last + 1):
        module = _module(frame)
        for prefix, library in _PYTHON_MODULES.items():
            if module == prefix or module.startswith(prefix + "."):
                names = [inner.code.co_qualname.partition(".<locals>")[0] for inner in frames[position:]]
                name = _called(prefix, names)
                why = f": {cause.reason}" if library is _TRANSFORM else ""
                cause.reason, cause.hint = f"{name} {library.does}{why}", library.hint or cause.hint
                return position
    return len(frames)


def _module(frame: Frame) -> str:
    name = frame.globals.get("__name__")
    return name if isinstance(name, str) else ""


def _called(prefix: str, names: Sequence[str]) -> str:
    """The public function behind those of a library that were called, outermost first."""
    name = names[0]
    if prefix == "torch.distributed":
        known = getattr(getattr(torch.distributed, "distributed_c10d", None), "__all__", ())
        public = [one for one in names if one in known]
        return f"torch.distributed.{public[0]}" if public else prefix
    if prefix == "torch._functorch":
        return f"torch.func.{name}" if name in torch.func.__all__ else "torch.func"
    if prefix == "torch.jit":
        return "this"
    if prefix == "torch.nn.parallel":
        return f"torch.nn.parallel.{name.partition('.')[0]}"
    if prefix == "torch.optim.lbfgs":
        return "torch.optim.LBFGS"
    return f"{prefix}.{name.removeprefix('Random.')}"
