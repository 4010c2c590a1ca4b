"""Constants, stack shuffling, and variables of every kind: locals, cells, globals, imported names."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from ..bytecode.instructions import Instruction
from ..frame import Frame
from ..kept_alive import end_is_noticed
from ..opcode_handlers import opcode
from ..signals import GraphBreak, SkipFrame, UserRaise
from ..source import ConstantSource, LocalSource, item_source
from ..values.base import Value
from ..values.constants import NULL, ConstantValue
from ..values.functions import CellValue


@opcode("LOAD_CONST")
def load_const(frame: Frame, inst: Instruction) -> None:
    value = inst.argval
    frame.push(frame.tx.python_object(value) if isinstance(value, (tuple, frozenset)) else ConstantValue(value))


@opcode("PUSH_NULL")
def push_null(frame: Frame, inst: Instruction) -> None:
    frame.push(NULL)


@opcode("POP_TOP")
def pop_top(frame: Frame, inst: Instruction) -> None:
    frame.stack.pop()


@opcode("COPY")
def copy(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.stack[-inst.argval])


@opcode("SWAP")
def swap(frame: Frame, inst: Instruction) -> None:
    stack, n = frame.stack, inst.argval
    stack[-1], stack[-n] = stack[-n], stack[-1]


@opcode("LOAD_FAST", "LOAD_FAST_CHECK")
def load_fast(frame: Frame, inst: Instruction) -> None:
    try:
        frame.stack.append(frame.locals[inst.argval])
    except KeyError:
        raise frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {inst.argval!r} where it is not associated with a value")) from None


@opcode("LOAD_FAST_AND_CLEAR")
def load_fast_and_clear(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    if name in frame.cells:
        frame.push(frame.cells.pop(name))
    else:
        frame.push(frame.locals.pop(name, NULL))


def refuse_noticed_end(frame: Frame, name: str, value: Value | None) -> None:
    """Break before a variable gets another value, or none, when that runs code: a finalizer of what it holds."""
    held = frame.locals.get(name)
    if held is not None and held is not value and isinstance(held.source, LocalSource) and frame.tx.resumed and \
            end_is_noticed(getattr(held, "real", None)):
        raise GraphBreak(f"letting go of {name!r}, whose end is noticed")


@opcode("STORE_FAST")
def store_fast(frame: Frame, inst: Instruction) -> None:
    value = frame.stack.pop()
    name: Any = inst.argval
    if value is NULL:
        frame.locals.pop(name, None)
        frame.cells.pop(name, None)
    elif isinstance(value, CellValue) and name in frame.code.co_cellvars:
        frame.cells[name] = value
    else:
        refuse_noticed_end(frame, name, value)
        frame.locals[name] = value


@opcode("DELETE_FAST")
def delete_fast(frame: Frame, inst: Instruction) -> None:
    refuse_noticed_end(frame, str(inst.argval), None)
    if frame.locals.pop(inst.argval, None) is None:
        raise frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {inst.argval!r} where it is not associated with a value"))


@opcode("LOAD_GLOBAL")
def load_global(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.load_global(inst.argval))


@opcode("STORE_GLOBAL")
def store_global(frame: Frame, inst: Instruction) -> None:
    frame.tx.globals_of(frame.globals).set_item(frame.tx, ConstantValue(inst.argval), frame.pop())


@opcode("DELETE_GLOBAL")
def delete_global(frame: Frame, inst: Instruction) -> None:
    table = frame.tx.globals_of(frame.globals)
    if table.lookup(frame.tx, ConstantValue(inst.argval)) is None:
        raise frame.tx.raised(NameError(f"name {inst.argval!r} is not defined", name=str(inst.argval)))
    raise GraphBreak("deleting a global variable")


@opcode("MAKE_CELL")
def make_cell(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    cell = CellValue()
    cell.content = frame.locals.pop(name, None)
    frame.cells[name] = cell


@opcode("COPY_FREE_VARS", "RETURN_GENERATOR_MARK")
def nothing(frame: Frame, inst: Instruction) -> None:
    pass


@opcode("LOAD_CLOSURE")
def load_closure(frame: Frame, inst: Instruction) -> None:
    name = str(inst.argval)
    frame.push(frame.cells[name] if name in frame.cells else frame.locals[name])


@opcode("LOAD_DEREF")
def load_deref(frame: Frame, inst: Instruction) -> None:
    value = frame.cells[str(inst.argval)].load(frame.tx)
    if value is None:
        raise _unbound_cell(frame, str(inst.argval))
    frame.push(value)


def _unbound_cell(frame: Frame, name: str) -> UserRaise:
    if name in frame.code.co_cellvars:
        return frame.tx.raised(UnboundLocalError(
            f"cannot access local variable {name!r} where it is not associated with a value"))
    return frame.tx.raised(NameError(
        f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"))


@opcode("STORE_DEREF")
def store_deref(frame: Frame, inst: Instruction) -> None:
    frame.cells[str(inst.argval)].store(frame.tx, frame.pop())


@opcode("DELETE_DEREF")
def delete_deref(frame: Frame, inst: Instruction) -> None:
    cell = frame.cells[str(inst.argval)]
    if cell.load(frame.tx) is None:
        raise _unbound_cell(frame, str(inst.argval))
    cell.store(frame.tx, None)


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.python_object(AssertionError))


@opcode("IMPORT_NAME")
def import_name(frame: Frame, inst: Instruction) -> None:
    tx = frame.tx
    names, level = tx.constant_of(frame.pop()), tx.constant_of(frame.pop())
    name = str(inst.argval)
    if level == 0 and name in sys.modules:
        top = sys.modules[name] if names else sys.modules.get(name.partition(".")[0])
        if top is not None and all(hasattr(top, n) for n in names or ()):
            frame.push(_imported(frame, name if names else name.partition(".")[0], top))
            if not names and "." in name:
                _imported(frame, name, sys.modules[name])
            return
    elif level > 0:
        package = frame.globals.get("__package__") or ""
        parts = package.rsplit(".", level - 1)
        absolute = parts[0] + ("." + name if name else "")
        if absolute in sys.modules and names and all(hasattr(sys.modules[absolute], n) for n in names):
            frame.push(_imported(frame, absolute, sys.modules[absolute]))
            return
    if level == 0 and _is_there(name) and name not in _awaited:
        _awaited.add(name)
        raise SkipFrame(f"importing {name!r}, which this call does for the others", makes_ready=True)
    raise GraphBreak(f"importing {name!r}, which is not imported yet", "import it at the top of the module")


_awaited: set[str] = set()
"""Modules that calls have run as plain Python for, which imports them. What is asked for again cannot be imported."""


def _is_there(name: str) -> bool:
    """Whether a module that is not imported yet can be expected to exist; nothing is imported to find out."""
    package, _, _ = name.rpartition(".")
    if name in sys.modules or package and package not in sys.modules:
        return name not in sys.modules and _is_there(package)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def _imported(frame: Frame, name: str, module: Any) -> Value:
    """The module that `import` finds under a name, which other modules may be put under."""
    where = item_source(ConstantSource.of(sys.modules, "sys.modules"), name)
    frame.tx.guard(where, "identity", "{0} is {k[0]}", (module,))
    return frame.tx.python_object(module)


@opcode("IMPORT_FROM")
def import_from(frame: Frame, inst: Instruction) -> None:
    frame.push(frame.tx.get_attr(frame.stack[-1], str(inst.argval)))
