"""What ``torch.compile(module)`` returns under `install`: a module around the one that was given.

    compiled = torch.compile(model)
    compiled._orig_mod is model             yes
    list(compiled.state_dict())             ['_orig_mod.weight', ...], as in checkpoints that torch.compile's wrote
    compiled.anything                       the attribute of the model
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_OWN = frozenset({"_orig_mod", "forward", "__dict__", "_firesteel_how", "_firesteel_twin", "_firesteel_ready"})


class _Meta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        """Modules that torch's own compiler wrapped count too: programs ask what is around a module."""
        return super().__instancecheck__(instance) or type(instance).__qualname__ == "OptimizedModule"


class OptimizedModule(torch.nn.Module, metaclass=_Meta):
    """A compiled module: calls are compiled, everything else is the original's, which is its submodule `_orig_mod`."""

    _orig_mod: torch.nn.Module

    def __init__(self, mod: torch.nn.Module, how: dict[str, Any], twin: torch.nn.Module) -> None:
        # first, for attributes are looked up in it
        object.__setattr__(self, "_modules", {"_orig_mod": mod})
        object.__setattr__(self, "_firesteel_ready", False)
        super().__init__()
        object.__setattr__(self, "_firesteel_ready", True)
        self._orig_mod = mod
        object.__setattr__(self, "_firesteel_how", how)
        object.__setattr__(self, "_firesteel_twin", twin)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled module."""
        return self._firesteel_twin(*args, **kwargs)

    @property
    def dynamo_ctx(self) -> Any:
        """Compiles something else in the same way; libraries that take the module out of this one use it."""
        from .compiling import compile_one

        return functools.partial(compile_one, how=self._firesteel_how)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the original is being trained."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if self._firesteel_ready:
            self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        modules = self.__dict__.get("_modules", {})
        if "_orig_mod" not in modules:
            raise AttributeError(name)
        return modules["_orig_mod"] if name == "_orig_mod" else getattr(modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name) or name in _OWN:
            super().__setattr__(name, value)
        elif not self._firesteel_ready:
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if hasattr(type(self), name) or name in _OWN:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), *super().__dir__()})

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return True  # a module that has no length is not asked for it

    def __reduce__(self) -> Any:
        from .compiling import rebuild

        return rebuild, (self._orig_mod, self._firesteel_how)
