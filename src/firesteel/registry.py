"""Tables to which functions are added by a decorator: rules, lowerings, decompositions, opcodes, equivalents."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Key = TypeVar("Key")
Function = TypeVar("Function")
Registered = TypeVar("Registered", bound=Callable[..., Any])


class Registry(dict[Key, Function]):
    """What does something, by the name or object that it does it for. Nothing is registered twice.

    >>> greetings: Registry[str, Callable[[], str]] = Registry("greeting")
    >>> @greetings.register("en", "en_GB")
    ... def hello() -> str:
    ...     return "hello"
    >>> greetings["en_GB"]()
    'hello'
    >>> greetings.register("en")(hello)
    Traceback (most recent call last):
    ValueError: a second greeting for 'en': hello is registered already

    With a ``package`` its files register themselves when they are imported, which `find` does when it meets a name that
    is not known: those named in ``first`` before the others. So what is added needs no list of files.
    """

    def __init__(self, what: str, package: str = "", first: Sequence[str] = (),
                 others: Sequence[Registry[Any, Any]] = ()) -> None:
        super().__init__()
        self.what = what
        #: tables that must not have the same keys
        self.others = others
        self._package = package
        self._first = first
        self._complete = not package

    def register(self, *keys: Key) -> Callable[[Registered], Registered]:
        """A decorator that makes a function the one for these keys, and returns it as it is."""

        def add(function: Registered) -> Registered:
            for key in keys:
                for table in (self, *self.others):
                    if key in table:
                        name = getattr(table[key], "__name__", table[key])
                        raise ValueError(f"a second {self.what} for {key!r}: {name} is registered already")
                self[key] = function  # type: ignore[assignment]
            return function

        return add

    def find(self, key: Key) -> Function | None:
        """The function for a key, if there is one."""
        entry = self.get(key)
        if entry is None and not self._complete:
            self.load_first()
            entry = self.get(key)
            if entry is None:
                self.load()
                entry = self.get(key)
        return entry

    def load_first(self) -> None:
        """Import the files that most programs need."""
        self._import(self._first)

    def load(self) -> None:
        """Import every file of the package."""
        if not self._complete:
            package = importlib.import_module(self._package)
            self._import(module.name for module in pkgutil.iter_modules(package.__path__))
            self._complete = True

    def _import(self, names: Iterable[str]) -> None:
        for name in names:
            importlib.import_module(f"{self._package}.{name}")
