"""Whole scripts: header, imports, definitions, values, and the call that fails."""

from __future__ import annotations

import ast
import os
import platform
import sys
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from .. import config
from ..logs import log
from ..version import __version__
from .functions import FunctionSource, beside, bound_names, source_of, source_of_operators, values_for
from .graphs import GraphSource
from .values import Unwritable, Values

MOST_SCRIPTS = 20
"""Of one process: what fails every time says nothing new."""
WRITTEN: list[str] = []
"""The scripts that this process has written."""
_OFF = ("", "0", "false", "no", "off")
_ON = ("1", "true", "yes", "on")
_FOLDER = "firesteel_repro"
_HEAD = "what fails"
_CALLS: dict[types.CodeType, str] = {}
_SCRIPT = "_firesteel_script"
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_NO_SETTINGS = frozenset({"repro", "raise_on_internal_error", "disk_cache", "cache_dir", "cache_wait", "cache_secret",
                          "remote_cache", "remote_cache_timeout", "compile_after", "debug_dir", "verify",
                          "retire_slow"})
"""Settings that are not the program's, or that `fs.check` makes."""


def folder() -> str | None:
    """Where scripts are written; None where nobody asked for them."""
    wanted = config.repro.strip()
    if wanted.lower() in _OFF:
        return None
    return _FOLDER if wanted.lower() in _ON else wanted


def graph_script(module: torch.fx.GraphModule, examples: Sequence[Any], error: BaseException,
                 options: Any = None) -> str | None:
    """Write the script of a graph that could not be compiled. The path; None where there is none."""
    return _written(f"graph_{type(module).__name__}", error, lambda: script_of_graph(
        module, examples, headline(f"the graph {type(module).__name__}", error), _options_text(options)))


def remember_call(code: types.CodeType, globals_: Mapping[str, Any], args: Sequence[Any], given: Mapping[str, Any],
                  backend: Any) -> None:
    """Where scripts are asked for: keep what the script of a call would be, should it fail here or behind a break.

    ``args``: as a unit has them, its closure first. ``given``: the arguments of `compile`. ``backend``: its name, or
    the function that is one.
    """
    if folder() is None:
        return
    try:
        _CALLS[code] = script_of_function(code, globals_, args, _HEAD, {**_wanted(given), "backend": backend})
    except Exception as problem:
        log("fallbacks", "there can be no script of %s: %s: %s", code.co_qualname, type(problem).__name__, problem)


def function_script(code: types.CodeType, error: BaseException) -> str | None:
    """Write the script of the last call of a function, which could not be captured or whose code failed. The path, or
    None."""
    text = _CALLS.get(code)
    if text is None:
        return getattr(error, _SCRIPT, None)
    return _written(code.co_name.strip("<>"), error, lambda: text.replace(_HEAD, headline(code.co_qualname, error)))


def headline(what: str, error: BaseException) -> str:
    """The first lines of a script: what fails, how, and with which versions."""
    reason = (str(error).strip().splitlines() or [""])[0]
    lines = [f"firesteel failed while compiling {what}.", "",
             *textwrap.wrap(f"{type(error).__name__}: {reason}", 110)[:3], versions()]
    return "\n".join(lines).replace("\\", "/").replace('"""', "'''")


def versions() -> str:
    """What runs here, in one line."""
    return (f"firesteel {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
            f"{platform.system()} {platform.machine()}")


def script_of_graph(module: torch.fx.GraphModule, examples: Sequence[Any], head: str, options: str = "",
                    exact: bool = False) -> str:
    """The script of a graph with these inputs."""
    values = Values(exact)
    values.names |= {"torch", "fs", "f", "math"}
    graph = GraphSource(values)
    parameters = graph.function(module)
    source = source_of_operators(graph.operators)
    reserved = set(source.late) | {name for text in source.definitions for one in ast.parse(text).body
                                   for name in bound_names(one)}
    values.names |= {*parameters, *reserved} - {"f"}
    arguments = []
    for name, example in zip(parameters, examples, strict=True):
        if name not in reserved:
            values.names.discard(name)
        arguments.append(values.write(example, name))
    late = [f"{name} = {values.write(vars(sys.modules['__main__'])[name], name)}" for name in source.late]
    if any(isinstance(example, torch.Tensor) and any(type(size) is not int for size in example.shape)
           for example in examples):
        options += ", dynamic=True"
    source = FunctionSource(source.imports, [*source.definitions, *graph.functions], "f", source.classes, [])
    return assembled(head, values, source, late, f"fs.check(f{options})({', '.join(arguments)})")


def script_of_function(code: types.CodeType, globals_: Mapping[str, Any], args: Sequence[Any], head: str,
                       options: Mapping[str, Any] = _NOTHING, exact: bool = False) -> str:
    """The script of a function with these arguments. ``options``: the arguments of `compile`."""
    held = list(args)
    cells = held.pop(0) if code.co_freevars else ()
    free = _contents(code, cells)
    source = source_of(code, globals_, free)
    asked = options_source(options)
    bindings = {**{name: globals_[name] for name in source.late}, **free}
    if asked.source is not None:
        if any(name in bindings and bindings[name] is not value for name, value in asked.bindings.items()):
            raise Unwritable("the function and its backend have names in common")
        source = beside(source, asked.source)
    values = values_for(source, exact)
    late = []
    for name, value in {**bindings, **asked.bindings}.items():
        if isinstance(value, types.FunctionType) and value.__code__ is code:
            continue  # it calls itself
        values.names.add(name)
        late.append((name, values.write(value, name)))
    call = f"fs.check({source.name}{asked.text(values)})({', '.join(_arguments(code, held, values))})"
    return assembled(head, values, source, [f"{name} = {text}" for name, text in late if name != text], call)


@dataclass
class OptionsSource:
    """Arguments of `compile` as part of a script."""

    options: Mapping[str, Any]
    source: FunctionSource | None = None
    """The function that is the backend, where the script has to define it."""
    bindings: dict[str, Any] = field(default_factory=dict)
    """What that function reads, by its name."""

    def text(self, values: Values) -> str:
        """The arguments, behind others."""
        parts = [f"{name}={self.source.name if name == 'backend' and self.source is not None else text}"
                 for name, value in self.options.items()
                 for text in ["" if name == "backend" and self.source is not None else values.write(value, name)]]
        return "".join(f", {part}" for part in parts)


def options_source(options: Mapping[str, Any]) -> OptionsSource:
    """The source of arguments of `compile`; raises `Unwritable` where a backend has none."""
    wanted = {name: value for name, value in options.items() if name != "backend" or value != "native"}
    backend = wanted.get("backend")
    if not isinstance(backend, types.FunctionType) or _can_be_imported(backend):
        return OptionsSource(wanted)
    free = _contents(backend.__code__, backend.__closure__ or ())
    source = source_of(backend.__code__, backend.__globals__, free, "backend")
    return OptionsSource(wanted, source, {**{name: backend.__globals__[name] for name in source.late}, **free})


def _can_be_imported(function: types.FunctionType) -> bool:
    return function.__module__ not in ("__main__", None) and "<" not in function.__qualname__ \
        and function.__module__ in sys.modules


def _contents(code: types.CodeType, cells: Sequence[types.CellType]) -> dict[str, Any]:
    """What the free variables of a function hold, by their names."""
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)
            if not _is_empty(cell)}


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _arguments(code: types.CodeType, held: list[Any], values: Values) -> list[str]:
    """The arguments of a call, as source."""
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    positional = [values.write(value, name) for name, value in zip(names[:count], held, strict=False)]
    keywords = [f"{name}={values.write(value, name)}"
                for name, value in zip(names[count:count + only], held[count:count + only], strict=True)]
    position = count + only
    if code.co_flags & 0x04:
        positional += [values.write(value, f"{names[position]}_{at}") for at, value in enumerate(held[position])]
        position += 1
    if code.co_flags & 0x08:
        keywords += [f"{key}={values.write(value, key)}" for key, value in held[position].items()]
    return [*positional, *keywords]


def assembled(head: str, values: Values, source: FunctionSource, late: Sequence[str], call: str) -> str:
    """A script: its header, what it imports, the functions, the values, and the call."""
    settings = [f"fs.config.{name} = {getattr(config, name)!r}" for name in _changed_settings()]
    imports = [f"import {name}" for name in sorted({*values.imports, "torch"} - {"firesteel"})]
    more = [line for line in source.imports if line not in imports and line != "import firesteel as fs"]
    drawn = any("torch.rand" in line or "torch.nn." in line for line in values.lines)
    lines = ['"""' + head, '"""', "", *imports, "", "import firesteel as fs", *settings, *more, "", "",
             *source.definitions, "", *["torch.manual_seed(0)"][:drawn], *values.lines, *late, call, ""]
    text = "\n".join(lines)
    while "\n\n\n\n" in text:
        text = text.replace("\n\n\n\n", "\n\n\n")
    return text


def _changed_settings() -> list[str]:
    return [name for name in config.names() if not config.is_default(name) and name not in _NO_SETTINGS]


def _options_text(options: Any) -> str:
    """Options of the native backend, as arguments of `compile`."""
    if options is None:
        return ""
    changed = {name: value for name, value in vars(options).items()
               if value != getattr(type(options)(), name) and name != "background"}
    return f", options={changed!r}" if changed else ""


def _wanted(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `compile` that say something."""
    arguments = {name: value for name, value in given.items() if value and name not in ("name", "dynamic_shapes")}
    if given.get("dynamic") is False:
        arguments["dynamic"] = False
    return arguments


def _written(name: str, error: BaseException, make: Callable[[], str]) -> str | None:
    """The path of a new script. What cannot be written is no reason for anything else to fail."""
    where = folder()
    known = getattr(error, _SCRIPT, None)
    if where is None or known is not None or len(WRITTEN) >= MOST_SCRIPTS:
        return known
    try:
        text = make()
        os.makedirs(where, exist_ok=True)
        path = os.path.join(where, f"{name}_{os.getpid()}_{len(WRITTEN)}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        WRITTEN.append(path)
        error.add_note(f"firesteel: {path} fails in the same way; firesteel minify makes it smaller")
        setattr(error, _SCRIPT, path)
    except Exception as problem:
        log("fallbacks", "no script is written for %s: %s: %s", name, type(problem).__name__, problem)
        return None
    return path
