"""What users say about single functions and about all of them: disable, allow_in_graph, graph_break, reset, run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .capture import markers
from .capture.call_handlers import handles
from .capture.graph_functions import is_graph_function
from .capture.signals import GraphBreak
from .errors import UserCodeError
from .function_marks import (
    ALLOWED,
    COMPILED,
    CONSTANT_RESULT,
    DISABLED,
    DISALLOWED,
    END_WAITING,
    ONLY_FRAME,
    UNIT,
    set_own_attributes,
)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run a function uncompiled, with everything it calls (or, with ``recursive=False``, only its own frame).

    Works as a decorator, with or without arguments. Of a function that was compiled before it gives the uncompiled one.
    An nn.Module is marked itself: it stays what it is, and compiled code calls it as plain Python.

    >>> @disable
    ... def untouched(x):
    ...     return x + 1
    >>> untouched(1)
    2
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, torch.nn.Module):
        original = getattr(type(fn), "_firesteel_original", fn)
        setattr(original, DISABLED, True)
        return original
    if isinstance(fn, type):
        raise UserCodeError(f"{fn.__name__} is a class", "disable its methods, or the functions that use it")
    if not callable(fn):
        raise UserCodeError(f"a {type(fn).__name__} object cannot be called", "pass a function, method or nn.Module")
    fn = getattr(fn, "__dict__", {}).get(COMPILED, fn)
    disabled = markers.disable(fn, reason)
    if not recursive:
        set_own_attributes(disabled, **{ONLY_FRAME: fn})
    return disabled


def allow_in_graph(fn: Any) -> Any:
    """Record calls of `fn` (or of each function in a list) as one operation of the graph without looking inside.

    >>> import torch, firesteel as fs
    >>> @fs.allow_in_graph
    ... def scaled(x):
    ...     return x * 2
    >>> graph, _ = fs.capture_graph(lambda x: scaled(x) + 1)(torch.ones(2))
    >>> [node.target.__name__ for node in graph.graph.nodes if node.op == "call_function"]
    ['scaled', 'add']
    """
    for one in _each(fn, "allow_in_graph"):
        markers.unmark(one, DISALLOWED)
        if not is_graph_function(one):
            markers.mark(one, ALLOWED)
    return fn


def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of `fn` (or of each function in a list).

    >>> import torch, firesteel as fs
    >>> def mine(x):
    ...     return x.cos()
    >>> _ = fs.disallow_in_graph(mine)
    >>> fs.explain(lambda x: mine(x.sin()) + 1)(torch.ones(2)).graph_break_count
    1
    """
    for one in _each(fn, "disallow_in_graph"):
        markers.unmark(one, ALLOWED)
        markers.mark(one, DISALLOWED)
    return fn


def _each(fn: Any, name: str) -> Any:
    functions = fn if isinstance(fn, (list, tuple)) else (fn,)
    for one in functions:
        if not callable(one):
            raise UserCodeError(f"{name} got {one!r}, which cannot be called", "pass a function or a list of functions")
    return functions


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Promise that `fn` returns the same for the same arguments: it is called once, while capturing.

    >>> import torch, firesteel as fs
    >>> @fs.assume_constant_result
    ... def factor():
    ...     print("asked")
    ...     return 3.0
    >>> f = fs.compile(lambda x: x * factor(), tier="wait")
    >>> f(torch.ones(2)), f(torch.ones(2))
    asked
    (tensor([3., 3.]), tensor([3., 3.]))
    """
    markers.mark(fn, CONSTANT_RESULT)
    return fn


def graph_break(msg: str = "") -> None:
    """Break the graph here. Does nothing in uncompiled code; `msg` is shown as the reason.

    >>> import torch, firesteel as fs
    >>> def f(x):
    ...     y = x.sin()
    ...     fs.graph_break("on purpose")
    ...     return y + 1
    >>> fs.explain(f)(torch.ones(2)).break_reasons[0].reason
    'graph_break() was called: on purpose'
    """


def restore_torch() -> list[str]:
    """Undo everything that firesteel has changed in torch in this process; returns what that was.

    Compiled functions go on working. The next compilation changes these things again.

    >>> from firesteel import compile
    >>> f = compile(torch.sin)
    >>> "torch.compiler.set_stance" in restore_torch(), restore_torch()
    (True, [])
    """
    from .torch_compat import patches

    return patches.restore()


@handles(graph_break)
def _break_here(tx: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    message = tx.constant_of(args[0] if args else kwargs["msg"]) if args or kwargs else ""
    raise GraphBreak("graph_break() was called" + (f": {message}" if message else ""), "remove the call")




def reset() -> None:
    """Forget everything compiled in this process; the next call of each compiled function captures again.

    >>> import torch, firesteel as fs
    >>> graphs = []
    >>> def counting(gm, example_inputs):
    ...     graphs.append(gm)
    ...     return gm.forward
    >>> f = fs.compile(lambda x: x + 1, backend=counting)
    >>> for _ in range(3):
    ...     _ = f(torch.ones(2))
    >>> fs.reset()
    >>> _ = f(torch.ones(2))
    >>> len(graphs)
    2
    """
    from .runtime.compiler import COMPILERS
    from .stage_times import TIMES

    for compiler in list(COMPILERS):
        compiler.reset()
    TIMES.clear()


def run(fn: Any) -> Any:
    """A version of a compiled function that uses what is compiled and never compiles, nor does what it calls.

    >>> import torch, firesteel as fs
    >>> f = fs.compile(lambda x: x + 1, tier="wait")
    >>> fs.run(f)(torch.ones(1))  # as plain Python: nothing is compiled for it
    tensor([2.])
    """
    if (end_waiting := getattr(fn, END_WAITING, None)) is not None:
        end_waiting()
    unit = getattr(fn, UNIT, None)
    compiler = unit.compiler if unit is not None else getattr(type(fn), "_firesteel_compiler", None)
    if compiler is None:
        return fn
    from .runtime.stance import FROZEN

    @functools.wraps(fn, updated=())
    def frozen(*args: Any, **kwargs: Any) -> Any:
        before, FROZEN.active = FROZEN.active, True
        try:
            return fn(*args, **kwargs)
        finally:
            FROZEN.active = before

    return frozen
