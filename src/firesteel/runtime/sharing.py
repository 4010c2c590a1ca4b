"""What is compiled for one instance serves the others: compile calls take over versions of each other that fit.

    for block in model.blocks:
        compiled.append(fs.compile(block))      four compile calls, one class, one compiled version

Each compile call has versions of its own, a count of them and a limit. Before it compiles another one, it looks at what
was compiled of the same code under the same options and settings by others, and takes the version whose guards hold:
what a version depends on, its guards say, so that nothing else distinguishes the instances of a class. Versions that
end in a break are not taken, because what comes behind it is measured and may be given up for one instance alone.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import config
from ..logs import log
from . import stance
from .explain_miss import first_failure

if TYPE_CHECKING:
    from ..capture.entries import Entry
    from .units import Unit

MOST_LOOKED_AT = 16
"""How many versions of others are tried: code such as `nn.Sequential.forward` is compiled for many different things."""

_UNITS: weakref.WeakKeyDictionary[types.CodeType, list[weakref.ref[Unit]]] = weakref.WeakKeyDictionary()
"""Who has compiled a code for itself and lets others have it, in the order of their first versions."""


def settings_now() -> tuple[Any, ...]:
    """What decides besides the options of a compile call what a version looks like."""
    return (stance.STATE.backend, *config.values())


def offer(unit: Unit) -> None:
    """Let others have what is compiled of a unit."""
    if unit.compiler.shares and unit.start.index == 0 and not unit.driven:
        known = _UNITS.setdefault(unit.code, [])
        known[:] = [*(ref for ref in known if ref() is not None and ref() is not unit), weakref.ref(unit)]


def _units(code: types.CodeType) -> list[Unit]:
    return [unit for ref in _UNITS.get(code, ()) if (unit := ref()) is not None]


def take_over(unit: Unit, args: Sequence[Any]) -> bool:
    """Add a version of another compile call that accepts these arguments; False where there is none."""
    if not unit.compiler.shares or unit.start.index or unit.driven or unit.code not in _UNITS:
        return False
    settings = settings_now()
    own = {id(entry) for entry in unit.entries}
    others = {id(entry): entry for other in reversed(_units(unit.code)) if _alike(unit, other)
              for entry in reversed(other.entries)
              if id(entry) not in own and entry.break_reason is None and entry.settings == settings}
    for entry in list(others.values())[:MOST_LOOKED_AT]:
        if _accepts(entry, unit, args):
            unit.add(entry)
            offer(unit)
            log("recompiles", "%s (%s) takes what was compiled for another instance", unit.name, unit.user_frame)
            return True
    return False


def holders_of(entry: Entry, code: types.CodeType) -> list[Unit]:
    """Units that have an entry among theirs."""
    return [unit for unit in _units(code) if any(own is entry for own in unit.entries)]


def _alike(unit: Unit, other: Unit) -> bool:
    """Whether two units are the same code under the same options."""
    one, two = unit.compiler, other.compiler
    return other is not unit and other.globals is unit.globals and other.driven is unit.driven \
        and one.backend is two.backend and not one.declared and not two.declared \
        and all(one.given[name] == two.given[name] for name in ("fullgraph", "dynamic"))


def _accepts(entry: Entry, unit: Unit, args: Sequence[Any]) -> bool:
    try:
        return first_failure(entry, unit, tuple(args)) is None
    except Exception:  # what a guard is about is not there
        return False
