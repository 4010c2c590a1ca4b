"""`compile`: its arguments, and whether something is compiled in its first call or once that pays.

Nothing of the compiler is imported before something is compiled.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from .tested_versions import plainly_supported
from .waiting import compile_now, plain_until_it_pays

if TYPE_CHECKING:
    from .runtime.compiler import Compiler

MODES = (None, "default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
TIERS = (None, "auto", "wait")


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None,
            disable: bool = False, recompile_limit: int | None = None, isolate_recompiles: bool = True,
            dynamic_shapes: Any = None, shapes_spec: Any = None, nopython: bool | None = None,
            tier: str | None = None) -> Any:
    """Compile a function, method, nn.Module or callable object; also usable as a decorator, with or without arguments.

    Args:
        model: what to compile; left out, a decorator is returned.
        fullgraph: raise `GraphBreakError` at the first graph break instead of continuing in a new graph.
        dynamic: None makes sizes and numbers symbols once they are seen to change, True all at once, False none.
        backend: a name from `list_backends()` ("inductor" is another name of "native") or a callable
            ``(graph_module, example_inputs) -> callable``.
        mode: "default", "reduce-overhead", "max-autotune": a set of options of the native backend.
        options: of the native backend, see `firesteel.kernels.options.Options`; a callable backend gets them if it has
            a parameter `options`.
        name: stands before the names of functions in logs, warnings and compile times; a callable backend gets it if it
            has a parameter `name`.
        disable: return the argument unchanged.
        recompile_limit: how many compiled versions each function may have, in place of ``config.recompile_limit``.
        isolate_recompiles: every call of compile has compiled versions, and a count of them, of its own; it takes over
            those of others that fit. With False it shares all with other calls that say False and the same options.
        dynamic_shapes: which sizes and numbers of the arguments vary, within which bounds, and how they are related;
            everything else is constant. See `size_declarations`.
        shapes_spec: other name of `dynamic_shapes`.
        nopython: old name of `fullgraph`.
        tier: "wait" compiles in the first call, which waits for machine code. "auto" runs plain Python until compiling
            pays, see ``config.compile_after``. None is "auto" unless an argument asks for a graph, a backend, a
            mode or options: then it is "wait".

    >>> import torch
    >>> @compile
    ... def f(x, y):
    ...     return torch.sin(x) + y
    >>> bool((f(torch.ones(3), torch.ones(3)) == torch.sin(torch.ones(3)) + 1).all())
    True
    """
    if nopython is not None:
        fullgraph = nopython
    if shapes_spec is not None:
        if dynamic_shapes is not None:
            refuse("both dynamic_shapes= and shapes_spec= are given", "they are names of the same")
        dynamic_shapes = shapes_spec
    check_arguments(fullgraph, dynamic, mode, options)
    _check_names(name, recompile_limit, tier)
    if isinstance(options, dict) and "guard_filter_fn" in options:
        from .logs import log

        log("guards", "options={'guard_filter_fn': ...} changes nothing: no guard is left out")
        options = {name: value for name, value in options.items() if name != "guard_filter_fn"} or None
    settings: Any = sys.modules.get("firesteel.config")  # imported if somebody changed a setting
    chosen = backend
    if backend is None:
        chosen = "native" if settings is None else settings.default_backend
    if chosen == "inductor":
        chosen = "native"  # what torch calls it
    asks_for_something = (fullgraph, backend is not None, chosen != "native", mode not in (None, "default"),
                          options is not None, dynamic_shapes is not None, not isolate_recompiles)
    at_once = settings is not None and (not settings.compile_after or settings.agree_across_ranks)
    waits = tier == "wait" or tier is None and any(asks_for_something) or at_once or not plainly_supported()
    given = {"fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": options, "name": name,
             "recompile_limit": recompile_limit, "dynamic_shapes": dynamic_shapes}
    apply_to = compile_now if waits else plain_until_it_pays
    how = functools.partial(_make_compiler, chosen, given, isolate_recompiles)
    again = functools.partial(compile, **{**given, "backend": backend, "tier": tier})

    def apply(target: Any) -> Any:
        return target if disable else apply_to(target, how, again)

    return apply if model is None else apply(model)


def refuse(what: str, hint: str) -> NoReturn:
    """Raise the error for arguments that `compile` does not take."""
    from .errors import UserCodeError

    raise UserCodeError(what, hint)


def check_arguments(fullgraph: Any, dynamic: Any, mode: Any, options: Any) -> None:
    """Refuse values that `compile` does not take."""
    if not isinstance(fullgraph, bool):
        refuse(f"fullgraph={fullgraph!r}", "fullgraph takes True or False")
    if dynamic is not None and not isinstance(dynamic, bool):
        refuse(f"dynamic={dynamic!r}", "dynamic takes True, False or None")
    if mode not in MODES:
        refuse(f"unknown mode {mode!r}", f"choose one of {', '.join(repr(m) for m in MODES)}")
    if options is not None and not isinstance(options, dict):
        refuse(f"options={options!r}", "options takes a dict from names to values")
    if options is not None and mode is not None:
        refuse("both mode= and options= are given", "a mode is a set of options: give one of them")


def _check_names(name: Any, recompile_limit: Any, tier: Any) -> None:
    if name is not None and not isinstance(name, str):
        refuse(f"name={name!r}", "name takes a string")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        refuse(f"recompile_limit={recompile_limit!r}", "it takes a number of versions, 1 or more")
    if tier not in TIERS:
        refuse(f"unknown tier {tier!r}", f"choose one of {', '.join(repr(t) for t in TIERS)}")


def _make_compiler(backend: Any, given: dict[str, Any], isolate_recompiles: bool) -> Compiler:
    from .backends.native import native
    from .compiled_functions import shared_compiler
    from .runtime.compiler import Compiler
    from .support import usable_backend

    compiler = (Compiler if isolate_recompiles else shared_compiler)(usable_backend(backend), **given)
    # other options keep something of the parameters: packed weights, recorded launches
    compiler.shares = compiler.backend is native and not given["options"] and given["mode"] in (None, "default")
    return compiler
