"""Custom operators that write to their arguments, as functions: copies are written to, and returned.

    add_into(x, out)        (new_out,) = written_copies("lib::add_into.default", (1,), x, out)
"""

from __future__ import annotations

from typing import Any

import torch

from .. import torch_compat


def written_copies(name: str, targets: tuple[int | str, ...], /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Call an operator on copies of the arguments that it writes to: its own results, then the copies.

    Results that are these arguments are left out.
    """
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    operator = None if space == "aten" else torch_compat.find_operator(space, base, overload)
    if operator is None:
        raise RuntimeError(f"there is no operator {name}: import the library that registers it first")
    given: list[Any] = list(args)
    copies = []
    for at in targets:
        place: Any = given if isinstance(at, int) else kwargs
        place[at] = copied(place[at])
        copies.append(place[at])
    return (*fresh_results(operator, operator(*given, **kwargs)), *copies)


def copied(value: Any) -> Any:
    """Copies of a tensor, or of those in a list."""
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    return value.clone() if isinstance(value, torch.Tensor) else value


def fresh_results(operator: Any, result: Any) -> tuple[Any, ...]:
    """The results of an operator that are no arguments of it."""
    returns = torch_compat.schema_of(operator).returns
    results = () if not returns else (result,) if len(returns) == 1 else tuple(result)
    return tuple([value for value, spec in zip(results, returns, strict=True) if spec.alias_info is None])
