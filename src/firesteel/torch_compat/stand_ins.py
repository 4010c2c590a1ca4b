"""Modules that stand in for those of torch's own compiler, which is not loaded for a program that only speaks to it.

    import torch._dynamo                      the stand-in
    torch._dynamo.reset()                     answered by whoever put it there
    torch._dynamo.config.cache_size_limit     torch's own file of settings: it is data, and light
    torch._dynamo.symbolic_convert            nobody answers this: the real package takes the stand-in's place

A program that needs more than is answered gets what it would get without us, and is as slow to start as that.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import torch

from ..locks import new_rlock
from ..logs import log
from . import patches

Answers = Mapping[str, Mapping[str, Any]]
"""Names and what they are, by module."""


class StandIn(types.ModuleType):
    """A module that has some names of another one, and loads that one when it is asked for any other."""

    def __init__(self, name: str, names: Mapping[str, Any], package: Package) -> None:
        super().__init__(name, f"Stands in for {name} of torch.")
        self.__dict__.update(names)
        self.__dict__["_firesteel_package"] = package
        self.__file__ = None
        self.__spec__ = ModuleSpec(name, None, is_package=name in package.folders)
        if name in package.folders:
            self.__path__: list[str] = []  # submodules are found by the package's finder

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        package: Package = self.__dict__["_firesteel_package"]
        return package.attribute(self, name)


class Package:
    """A package of torch's and the modules that stand in for it and for some of its submodules.

    `real_files` are submodules that are loaded as they are. `after_loading` is called when the real package had to be
    loaded after all.
    """

    def __init__(self, name: str, answers: Answers, real_files: Sequence[str],
                 after_loading: Callable[[], None]) -> None:
        self.name = name
        self._after_loading = after_loading
        self._real_files = frozenset(f"{name}.{file}" for file in real_files)
        self._folder = os.path.join(os.path.dirname(str(torch.__file__)), *name.split(".")[1:])
        self.folders = {name} | {module.rpartition(".")[0] for module in answers if module != name}
        # a submodule is an attribute of the package that it is in
        self.modules = {module: StandIn(module, names, self) for module, names in answers.items()}
        for module, stand_in in self.modules.items():
            parent, _, last = module.rpartition(".")
            if parent in self.modules:
                self.modules[parent].__dict__[last] = stand_in
        self._lock = new_rlock()

    def put_in_place(self, title: str) -> None:
        """Let imports find the stand-ins."""
        for module, stand_in in self.modules.items():
            patches.set_module(title, module, stand_in)
        patches.set_attribute(title, torch, self.name.rpartition(".")[2], self.modules[self.name])
        sys.meta_path.insert(0, self)
        patches.register(title, self._remove)

    def _remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if sys.modules.get(self.name) is self.modules[self.name]:
            for file in self._real_files:  # the real package will load its own
                sys.modules.pop(file, None)

    @property
    def in_place(self) -> bool:
        """Whether imports find the stand-ins now."""
        return sys.modules.get(self.name) is self.modules[self.name]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Asked by imports for what is not loaded yet."""
        if not name.startswith(self.name + ".") or not self.in_place:
            return None
        if name in self._real_files:
            return PathFinder.find_spec(name, [self._folder])
        parent = name.rpartition(".")[0]
        if importlib.util.find_spec("torch") is None or not self._has_file(name):
            return None
        real = self.load(name)
        return PathFinder.find_spec(name, list(getattr(sys.modules.get(parent, real), "__path__", [])))

    def _has_file(self, name: str) -> bool:
        at = os.path.join(self._folder, *name.removeprefix(self.name + ".").split("."))
        return os.path.exists(at + ".py") or os.path.isdir(at)

    def attribute(self, stand_in: StandIn, name: str) -> Any:
        """What a stand-in is asked for and does not have."""
        full = f"{stand_in.__name__}.{name}"
        if full in self._real_files:
            module = importlib.import_module(full)
            stand_in.__dict__[name] = module
            return module
        return getattr(self.load(full, stand_in.__name__), name)

    def load(self, because: str, wanted: str | None = None) -> types.ModuleType:
        """Load the real package in place of the stand-ins; returns it, or its submodule `wanted`."""
        with self._lock:
            if self.in_place:
                log("fallbacks", "%s is not answered by firesteel: torch's own %s is loaded for it", because, self.name)
                settings = {file: sys.modules[file] for file in self._real_files if file in sys.modules}
                for module, stand_in in self.modules.items():
                    if sys.modules.get(module) is stand_in:
                        del sys.modules[module]
                self._execute(settings)
                self._after_loading()
        return importlib.import_module(wanted or self.name)

    def _execute(self, settings: Mapping[str, types.ModuleType]) -> None:
        spec = PathFinder.find_spec(self.name, [os.path.dirname(self._folder)])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self.name] = module
        setattr(torch, self.name.rpartition(".")[2], module)
        for file, loaded in settings.items():  # what the program has set stays set
            setattr(module, file.rpartition(".")[2], loaded)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(self.name, None)
            raise


def loaded_module(name: str) -> types.ModuleType | None:
    """A module of torch's own compiler, if it is loaded; a stand-in is not it."""
    module = sys.modules.get(name)
    return None if isinstance(module, StandIn) else module


def replace_body(title: str, function: types.FunctionType, module: str, name: str) -> None:
    """Have a function of torch's call another with the arguments that it is given, all of them by keyword but the
    first; whoever holds it holds the same object."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount: code.co_argcount + code.co_kwonlyargcount]
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    passed = ", ".join([*positional[:1], *(f"{name}={name}" for name in (*positional[1:], *keywords))])
    text = (f"def {function.__name__}({parameters}):\n"
            f"    from {module} import {name} as firesteels\n"
            f"    return firesteels({passed})\n")
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<firesteel {title}>", "exec"), namespace)  # warnings name who calls it
    patches.set_code(title, function, namespace[function.__name__].__code__)
