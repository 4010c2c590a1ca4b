"""Faults in the capture: bytecode, functions of Python's, guards."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from repair.faults import fault


def opcode(name: str, change: Callable[[Any], Any]) -> None:
    """Replace the handler of an opcode."""
    from firesteel.capture.opcode_handlers import HANDLERS

    HANDLERS.load()
    HANDLERS[name] = change(HANDLERS[name])


def lose(test: Callable[[Any], bool]) -> None:
    """Lose guards."""
    from firesteel.capture.guards import GuardSet

    real = GuardSet.add

    def add(self: Any, guard: Any) -> None:
        if not test(guard):
            real(self, guard)

    GuardSet.add = add  # type: ignore[method-assign]


def about(name: str) -> Callable[[Any], bool]:
    """Whether a guard is about something of a name that ends like this."""
    return lambda guard: guard.source is not None and guard.source.name.endswith(name)


# Bytecode


@fault("capture", "UNPACK_EX", "python")
def unpacking_raises() -> None:
    def change(real: Any) -> Any:
        def broken(frame: Any, inst: Any) -> None:
            raise IndexError("pop from an empty stack")
        return broken

    opcode("UNPACK_EX", change)


@fault("capture", "LIST_APPEND", "python")
def comprehensions_crash() -> None:
    def change(real: Any) -> Any:
        return lambda frame, inst: os.kill(os.getpid(), signal.SIGSEGV)

    opcode("LIST_APPEND", change)


@fault("capture", "FORMAT_VALUE", "python")
def formatting_hangs() -> None:
    def change(real: Any) -> Any:
        def hang(frame: Any, inst: Any) -> None:
            while True:
                pass
        return hang

    opcode("FORMAT_VALUE", change)


@fault("capture", "UNARY_NEGATIVE", "python")
def negation_is_lost() -> None:
    opcode("UNARY_NEGATIVE", lambda real: lambda frame, inst: None)


@fault("capture", "DICT_UPDATE", "python")
def updates_of_dictionaries_raise() -> None:
    def change(real: Any) -> Any:
        def broken(frame: Any, inst: Any) -> None:
            raise NotImplementedError("mappings")
        return broken

    opcode("DICT_UPDATE", change)


@fault("capture", "BINARY_OP", "python")
def differences_are_exchanged() -> None:
    def change(real: Any) -> Any:
        def broken(frame: Any, inst: Any) -> None:
            if inst.argval == "-":
                b, a = frame.pop(), frame.pop()
                frame.push(b)
                frame.push(a)
            real(frame, inst)
        return broken

    opcode("BINARY_OP", change)


@fault("capture", "accumulate", "python")
def accumulate_forgets() -> None:
    from firesteel.capture.call_handlers import REGISTRY
    from firesteel.capture.equivalents import iteration

    known = [key for key, value in REGISTRY.items() if key is itertools.accumulate or value is iteration.accumulate]
    for key in known:
        REGISTRY[key] = _plain_iterator


def _plain_iterator(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    return iter(list(iterable))


# Guards


@fault("guards", "gain", "state")
def guard_on_a_float_is_lost() -> None:
    lose(about("gain"))


@fault("guards", "power", "state")
def guard_on_an_integer_is_lost() -> None:
    lose(about("power"))


@fault("guards", "act", "state")
def guard_on_a_text_is_lost() -> None:
    lose(about("act"))


@fault("guards", "bias", "state")
def guard_on_none_is_lost() -> None:
    lose(lambda guard: guard.source is not None and guard.source.name.endswith("config.bias"))


@fault("guards", "use_bias", "state")
def guard_on_a_bool_is_lost() -> None:
    lose(about("use_bias"))


@fault("guards", "SCALE", "state")
def guard_on_a_global_is_lost() -> None:
    lose(about("SCALE"))


@fault("guards", "steps", "state")
def guard_on_a_list_is_lost() -> None:
    lose(lambda guard: guard.source is not None and "steps" in guard.source.name)


@fault("guards", "args[2]|mode", "state")
def guard_on_an_argument_is_lost() -> None:
    lose(about("mode"))


@fault("guards", "TABLE", "state")
def guard_on_a_dictionary_is_lost() -> None:
    lose(lambda guard: guard.source is not None and "TABLE" in guard.source.name)


@fault("guards", "training", "state")
def guard_on_the_mode_of_training_is_lost() -> None:
    lose(about("training"))
