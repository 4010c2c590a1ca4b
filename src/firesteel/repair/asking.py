"""`repro` and `bisect` for programs: scripts of what fails inside of a block, the fault in one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import config
from ..errors import UserCodeError
from ..repro_scripts.scripts import WRITTEN, script_of_function, versions
from .bisect import Bisection, bisect_apart, source_of_function


@contextmanager
def repro(folder: str = "firesteel_repro") -> Iterator[list[str]]:
    """Write a script for each failure of firesteel's own in a ``with`` block; it gives the list of their paths.

    A script fails in the same way when it is run with plain python, and ``firesteel minify`` makes it small. The same
    for a whole program: ``FIRESTEEL_REPRO=1``, or ``fs.config.repro = "folder"``.

    >>> import torch, firesteel as fs
    >>> with fs.repro() as scripts:
    ...     _ = fs.compile(lambda x: x + 1)(torch.ones(2))
    >>> scripts
    []
    """
    before = len(WRITTEN)
    scripts: list[str] = []
    with config.patch(repro=folder):
        try:
            yield scripts
        finally:
            scripts += WRITTEN[before:]


def bisect(function: Callable[..., Any], *, limit: float = 300.0, out: str = "firesteel_bisect.py",
           guards: bool = True, **options: Any) -> Callable[..., Bisection]:
    """``bisect(f)(*args)`` finds the stage of firesteel, and the operator, kernel or guard, at which `f` goes wrong.

    Everything runs in processes of its own, within ``limit`` seconds. What fails becomes a small script, ``out``.
    ``guards=False`` does not look for missing guards; other arguments are those of `compile`. The function and its
    arguments must have source: use ``firesteel bisect file.py:f --args ...`` where they have not.

    >>> import torch, firesteel as fs
    >>> print(fs.bisect(torch.nn.Linear(2, 2), guards=False)(torch.ones(2)))  # doctest: +ELLIPSIS
    nothing differs from eager on the CPU...
    """
    def run(*args: Any, **kwargs: Any) -> Bisection:
        return bisect_apart(script_of_call(function, args, kwargs, options), out, guards, limit, 60.0, os.getcwd(),
                            threads=1, loaded=sys.modules["__main__"])

    return run


def script_of_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]) -> str:
    """A script that checks a call."""
    import torch

    from ..repro_scripts.functions import FunctionSource, beside, source_of, values_for
    from ..repro_scripts.scripts import assembled, options_source
    from ..repro_scripts.values import Unwritable, Values

    plain = source_of_function(function)
    head = f"a call of {getattr(function, '__qualname__', type(function).__qualname__)}\n{versions()}"
    try:
        if isinstance(function, torch.nn.Module) and type(function).__module__.startswith("torch."):
            values = Values(exact=True)
            values.names |= {"torch", "fs"}
            asked = options_source(options)
            source = asked.source or FunctionSource([], [], "", frozenset(), [])
            late = [f"{name} = {values.write(value, name)}" for name, value in asked.bindings.items()]
            given = [values.write(function, "module"), *_written(values, args, kwargs)]
            return assembled(head, values, source, late,
                             f"fs.check({given[0]}{asked.text(values)})({', '.join(given[1:])})")
        if plain is None:
            raise Unwritable(f"{type(function).__qualname__} is no Python function or module")
        owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
        code = plain.__code__
        is_plain = not code.co_flags & 0x0C and not code.co_kwonlyargcount and code.co_argcount == len(args)
        if owner is None and not kwargs and is_plain:
            held = [*([plain.__closure__] if code.co_freevars else []), *args]
            return script_of_function(code, plain.__globals__, held, head, options, exact=True)
        source, asked = source_of(plain.__code__, plain.__globals__, {}), options_source(options)
        bindings = {**asked.bindings, **{name: plain.__globals__[name] for name in source.late}}
        source = source if asked.source is None else beside(source, asked.source)
        values = values_for(source, exact=True)
        late = [f"{name} = {values.write(value, name)}" for name, value in bindings.items()]
        called = source.name if owner is None else values.write(owner, "module")
        if owner is not None and owner is not function:
            called += f".{plain.__name__}"
        given = _written(values, args, kwargs)
        return assembled(head, values, source, late, f"fs.check({called}{asked.text(values)})({', '.join(given)})")
    except Unwritable as error:
        raise UserCodeError(f"there is no source for this call: {error}",
                            'use firesteel bisect file.py:function --args "..."') from None


def _written(values: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    positional = [values.write(value, f"x{at}") for at, value in enumerate(args)]
    return [*positional, *[f"{name}={values.write(value, name)}" for name, value in kwargs.items()]]
