"""What tracing knows of an operator, found once: whether it makes views, writes to arguments, draws random numbers."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Any

import torch

from .. import torch_compat
from ..fake.refused_values import refused_values
from ..records import dataclass
from .graph import Unsupported


class Kind(Enum):
    PURE = "computes new tensors"
    VIEW = "its result shares memory with its first argument"
    WRITES = "writes to arguments"
    RESHAPES = "changes sizes and strides of its first argument"
    COMPOSITE = "made of other operators, in eager as well"
    QUERY = "C++ code asks for the sizes or strides of a tensor"


@dataclass(slots=True)
class Operator:
    """One operator overload."""

    func: Any
    name: str
    kind: Kind
    random: bool
    has_effect: bool
    writes: Writes | None = field(default=None, repr=False)


@dataclass(slots=True)
class Writes:
    """An operator that writes: the functional operator that gives the new contents, and where they go.

    ``targets`` are the arguments written to, by position or name; the functional operator's results are first those of
    the operator that are no aliases, then the new contents in order (``fresh`` counts the former).
    """

    functional: Any
    targets: tuple[int | str, ...]
    drops: tuple[str, ...] = ()
    """Arguments that the functional operator does not take: those named ``out``."""
    fresh: int = 0
    returns: tuple[int | str | None, ...] = ()
    """For each result the argument that it is, or None for a fresh one."""
    defaults: tuple[Any, ...] = ()
    """Values of the arguments that may be left out, but not of the functional operator: those at the end of its own."""


# Operators whose results are views though their signatures do not say so.
_VIEWS = frozenset({
    "aten._unsafe_view.default", "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
    "aten._reshape_alias.default",
})
_QUERIES = frozenset({"aten.size.default", "aten.stride.default"})
_RESHAPES = frozenset({"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_"})
_REFUSED = frozenset({"set_", "resize_", "resize_as_", "_resize_output_", "set_data", "resize"})

REFUSED = "refused"
"""In a node's ``meta``: eager has no kernel for these dtypes or numbers, so the call is left to ATen, which raises."""

# By identity: an operator's own hash is a Python function.
_known: dict[int, Operator] = {}


def operator_of(func: Any) -> Operator:
    """What is known of an operator."""
    operator = _known.get(id(func))
    if operator is None:
        operator = _known[id(func)] = _look_at(func)
    return operator


def _look_at(func: Any) -> Operator:
    if not isinstance(func, torch_compat.OpOverload):
        raise Unsupported(f"the higher-order operator {func}")
    name = torch_compat.operator_name(func)
    if name in _QUERIES:
        return Operator(func, name, Kind.QUERY, False, False)
    schema = torch_compat.schema_of(func)
    space, _, base = schema.name.partition("::")
    random = torch.Tag.nondeterministic_seeded in func.tags
    effect = base in torch_compat.SIDE_EFFECTS or not schema.returns or torch_compat.is_collective(func)
    operator = Operator(func, name, Kind.PURE, random, effect)
    if space == "aten" and base in _RESHAPES:
        operator.kind = Kind.RESHAPES
    elif torch_compat.can_decompose(func):
        operator.kind = Kind.COMPOSITE
    elif torch_compat.mutates_arguments(func):
        operator.kind = Kind.WRITES
        if not (space == "aten" and base in _REFUSED):
            operator.writes = _find_functional(func, space, base)
    elif name in _VIEWS or any(result.alias_info is not None for result in schema.returns):
        operator.kind = Kind.VIEW
    return operator


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node makes a view of its first argument."""
    return isinstance(node.target, torch_compat.OpOverload) and operator_of(node.target).kind is Kind.VIEW


def raises_on_data(node: torch.fx.Node) -> bool:
    """Whether a call may raise an error that depends on values in tensors: an index out of range, a division by 0."""
    func = node.target
    if not isinstance(func, torch_compat.OpOverload) or "never_raises" in node.meta:
        return False
    if REFUSED in node.meta:
        return True
    space, _, base = torch_compat.schema_of(func).name.partition("::")
    if space != "aten":
        return False
    refuses = refused_values(base)
    return refuses is not None and refuses(values_of(node.args), values_of(node.kwargs))


def values_of(argument: Any) -> Any:
    """What an operator was called with: fake tensors and numbers."""
    if isinstance(argument, torch.fx.Node):
        return argument.meta.get("val")
    if isinstance(argument, dict):
        return {name: values_of(part) for name, part in argument.items()}
    return [values_of(part) for part in argument] if isinstance(argument, (list, tuple)) else argument


def view_operator(func: Any) -> Any:
    """The view that an operator of kind `RESHAPES` makes of its argument: ``t`` for ``t_``."""
    schema = torch_compat.schema_of(func)
    space, _, base = schema.name.partition("::")
    for candidate in torch_compat.overloads_of(space, base[:-1]):
        if torch_compat.schema_of(candidate).overload_name == schema.overload_name:
            return candidate
    raise Unsupported(f"{func} has no form that makes a view")


# ---------------------------------------------------------------------------------------------------------------------
# functional forms


def _find_functional(func: Any, space: str, base: str) -> Writes | None:
    schema = torch_compat.schema_of(func)
    written = [arg for arg in schema.arguments if arg.alias_info is not None and arg.alias_info.is_write]
    positions = {arg.name: position for position, arg in enumerate(schema.arguments)}
    where = {arg.name: arg.name if arg.kwarg_only else positions[arg.name] for arg in written}
    returns: list[int | str | None] = []
    for result in schema.returns:
        same = [arg.name for arg in written if arg.alias_info is not None and result.alias_info is not None
                and arg.alias_info.before_set == result.alias_info.before_set]
        returns.append(where[same[0]] if same else None)
    outs = tuple(arg.name for arg in written if arg.is_out)
    wanted = [(arg.name, _plain_type(arg)) for arg in schema.arguments if arg.name not in outs]
    fresh = returns.count(None)
    count = fresh + len(written)
    names = [base] if outs else []
    names += [base[:-1]] if base.endswith("_") else []
    names += [f"{base.rstrip('_')}_functional", base]
    for name in names:
        for candidate in torch_compat.overloads_of(space, name):
            other = torch_compat.schema_of(candidate)
            if torch_compat.mutates_arguments(candidate) or len(other.returns) != count:
                continue
            if [(arg.name, _plain_type(arg)) for arg in other.arguments] == wanted:
                return Writes(candidate, tuple(where.values()), outs, fresh, tuple(returns), _defaults(schema, other))
    return None


def _defaults(schema: Any, functional: Any) -> tuple[Any, ...]:
    """The defaults of all arguments by position, where the functional operator wants a value."""
    own = {arg.name: arg for arg in schema.arguments}
    positional = [arg for arg in functional.arguments if not arg.kwarg_only]
    missing = [own[arg.name].has_default_value() and not arg.has_default_value() for arg in positional]
    if not any(missing):
        return ()
    return tuple([own[arg.name].default_value for arg in positional])


def _plain_type(arg: Any) -> str:
    return str(arg.type).replace("Optional", "")
