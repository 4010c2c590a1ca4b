"""What a whole capture relied on, guarded when it ends: that objects are distinct, and what classes define.

A capture that found two arguments to be different lists and appended to one of them would be wrong for a call that
passes the same list twice. Objects found to be the same are guarded at once, where the second path to them is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..records import dataclass
from ..torch_compat.subclasses import plain_alias
from .dynamism import in_module
from .signals import SkipFrame
from .source import ConstantSource, DrawnSource, PlainSource, Source, class_is_permanent, written_in_python
from .values.base import LazyValue, Value
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .graph import GraphInput
    from .guards import Guard
    from .tracer import Tracer


@dataclass
class Reliance:
    """What a capture has relied on so far."""

    #: classes of which members were looked for
    classes: dict[type, None] = field(default_factory=dict)
    #: what lookups that might have failed have found
    looked_up: list[LazyValue] = field(default_factory=list)
    hashed_by_identity: list[Value] = field(default_factory=list)
    #: objects whose ``id`` was a key
    numbers_of: list[Value] = field(default_factory=list)
    #: numbers that were keys and may be what ``id`` said of an object
    numbers_hashed: dict[int, None] = field(default_factory=dict)
    #: what was said about whole classes of torch's
    stamps: list[torch_compat.Stamp] = field(default_factory=list)


def guard_reliance(tx: Tracer) -> None:
    """Add the guards that can only be known at the end of a capture."""
    for value in tx.reliance.looked_up:
        if value.known is None:
            # found and not used, but the program may have gone another way had it been missing
            tx.guard(value.source, "presence", "True")
    _guard_classes(tx)
    _guard_distinct_objects(tx)
    _guard_distinct_keys(tx)
    _guard_distinct_tensors(tx)


def _guard_classes(tx: Tracer) -> None:
    """No name was added to a class or taken away, and its bases are the same.

    Members that were read are guarded one by one; this is for names that were looked for and not found: special methods
    that would run, descriptors that would go before an instance attribute, definitions in a nearer base.
    """
    counted: set[type] = set()
    for cls in tx.reliance.classes:
        if not written_in_python(cls):
            continue
        where: Source = ConstantSource.of(cls, cls.__qualname__)
        if class_is_permanent(cls):
            tx.guard(where, "class", "{0}.__mro__ is {k[0]}", (cls.__mro__,))
        else:  # its order of bases would keep it alive
            bases = cls.__mro__[1:-1]
            same = "".join(f" and {{0}}.__mro__[{i + 1}] is {{k[{i}]}}" for i in range(len(bases)))
            tx.guard(where, "class", f"len({{0}}.__mro__) == {len(bases) + 2}{same}", bases)
        for base in cls.__mro__:
            if base in counted or not written_in_python(base) or base in tx.made_classes:
                continue
            counted.add(base)
            names = repr(list(vars(base))).replace("{", "{{").replace("}", "}}")
            changed = tx.classes.get(base)
            if not class_is_permanent(base):
                tx.guard(ConstantSource.of(base, base.__qualname__), "class", f"[*{{0}}.__dict__] == {names}")
            elif changed is not None and changed.attrs:  # its version changes in every call
                where = ConstantSource.of(vars(base), f"{base.__qualname__}.__dict__")
                tx.guard(where, "class", f"[*{{0}}] == {names}")
            else:
                tx.guard_stamp(torch_compat.NamesStamp(base), f"the names in class {base.__qualname__} are the same")


def _guard_distinct_objects(tx: Tracer) -> None:
    """What the captured program changed is none of the other objects of its kind that it looked at."""
    changed = {id(value) for value in tx.effects.changed_values()}
    if not changed:
        return
    groups: dict[type, dict[Source, bool]] = {}
    for value in tx.known.values():
        if value.source is not None and not isinstance(value, TensorValue):
            is_changed = id(value) in changed or id(getattr(value, "storage", None)) in changed
            groups.setdefault(value.python_type(), {})[value.source] = is_changed
    for members in groups.values():
        if len(members) > 1 and any(members.values()):
            guard_distinct(tx, list(members))


def _guard_distinct_keys(tx: Tracer) -> None:
    """Objects that were looked up in dictionaries or sets by identity and not found to be one are different."""
    groups: dict[type, dict[Source, None]] = {}
    for value in tx.reliance.hashed_by_identity:
        if value.source is not None:
            groups.setdefault(value.python_type(), {})[value.source] = None
    for members in groups.values():
        guard_distinct(tx, list(members))
    if tx.reliance.numbers_hashed:
        for value in dict.fromkeys(tx.reliance.numbers_of):
            others = frozenset(tx.reliance.numbers_hashed) - {id(getattr(value, "real", None))}
            if value.source is not None and others:
                tx.guard(value.source, "distinct objects", "id({0}) not in {k[0]}", (others,))


def guard_distinct(tx: Tracer, sources: list[Source]) -> None:
    """Rely on all these being different objects."""
    if len(sources) == 2:
        tx.guard(sources[0], "distinct objects", "{0} is not {1}", (), (sources[1],))
    elif len(sources) > 2:
        names = ", ".join(f"id({{{i}}})" for i in range(len(sources)))
        tx.guard(sources[0], "distinct objects", f"len({{{{{names}}}}}) == {len(sources)}", (), tuple(sources[1:]))


def _guard_distinct_tensors(tx: Tracer) -> None:
    """Tensors passed as arguments are distinct, and what the graph writes to shares memory with the same others as now.

    Two paths to one parameter need no guard while nothing writes to it: the graph then only reads it twice.
    """
    inputs = [item for item in tx.graph.inputs if isinstance(item.example, torch.Tensor)
              and not isinstance(item.source, DrawnSource)]
    passed = [item for item in inputs if not in_module(item.source)]
    changed = any(_attributes_set(tx, item) for item in inputs)
    guard_distinct(tx, [item.source.parent if isinstance(item.source, PlainSource) else item.source
                        for item in (inputs if changed else passed)])
    if len(inputs) > 1:
        _guard_memory(tx, inputs)


def guard_untouched(tx: Tracer, untouched: Mapping[Source, LazyValue]) -> list[Guard]:
    """What the program returns without having looked at it may be a tensor that the graph changes, or lie in its
    memory: the guards that it does not, where it does not."""
    known = len(tx.guards.guards)
    for entry in tx.graph.changed_with_history():
        changed = tx.tensor_of_fake[id(entry.example)].real
        for source, value in untouched.items():
            if isinstance(value.real, torch.Tensor) and _lie_together(changed, value.real):
                entry.node.meta["is_result"] = True
            elif isinstance(value.real, torch.Tensor):
                tx.guard(entry.source, "shared memory", "not {k[0]}({0}, {1})", (_lie_together,), (source,))
    return tx.guards.guards[known:]


def _lie_together(one: Any, other: Any) -> bool:
    """Whether two values are tensors in one memory."""
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and torch_compat.has_storage(one) \
        and torch_compat.has_storage(other) \
        and torch_compat.storage_address(one) == torch_compat.storage_address(other)


def _guard_memory(tx: Tracer, inputs: list[GraphInput]) -> None:
    """Of tensors that share memory while the graph writes to it, the others are compared with the first."""
    groups: dict[int, list[GraphInput]] = {}
    reals: dict[Source, torch.Tensor] = {}
    foreign = False  # whether an argument is made of memory that torch did not allocate
    for item in inputs:
        real = tx.tensor_of_fake[id(item.example)].real
        if isinstance(item.source, PlainSource):
            real = plain_alias(real)
        if real is not None and torch_compat.has_storage(real):
            groups.setdefault(torch_compat.storage_address(real), []).append(item)
            reals[item.source] = real
            foreign = foreign or not (torch_compat.is_allocated(real) or in_module(item.source))
    written: list[Source] = []
    others: list[Source] = []
    for members in groups.values():
        sources = [item.source for item in members]
        if any(item.mutated or item.example.storage_key in tx.fake.written for item in members):
            written.append(sources[0])
            for source in sources[1:]:
                tx.guard(sources[0], "shared memory", "{k[0]}({0}) == {k[0]}({1})", (torch_compat.storage_address,),
                         (source,))
        else:
            others.extend(sources)
    if written and len(written) + len(others) > 1:
        names = [f"{{{position}}}" for position in range(len(written) + len(others))]
        passed = [name for name, source in zip(names, (*written, *others), strict=True) if not in_module(source)]
        parts = [names[:len(written)], names[len(written):], *([] if foreign else [passed])]
        arguments = ", ".join([f"({', '.join(part)}{',' if len(part) == 1 else ''})" for part in parts])
        check = torch_compat.lie_apart if foreign else torch_compat.share_no_memory
        if foreign and not torch_compat.lie_apart(*[tuple([reals[source] for source in part])
                                                    for part in (written, others)]):
            raise SkipFrame("arguments lie in one memory, which torch does not know to be one", this_call=True)
        tx.guard(written[0], "shared memory", f"{{k[0]}}({arguments})", (check,), (*written[1:], *others))


def _attributes_set(tx: Tracer, item: GraphInput) -> bool:
    return bool(tx.tensor_of_fake[id(item.example)].attrs)
