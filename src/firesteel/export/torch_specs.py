"""``ShapesSpec`` of ``torch.fx.experimental.dynamic_spec`` as the `dynamic_shapes` of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import shapes
from ..errors import UserCodeError
from ..shapes.dims import Dim
from ..shapes.polynomials import parts
from ..torch_compat.dynamic_specs import ArgumentSpec, Attributes, Formula, Items, TensorSizes, Variable

_UNBOUNDED = 2**62
_HINT = "declare the sizes with fs.export.Dim instead"


def dynamic_shapes_of(spec: ArgumentSpec, paths: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> dict[str, Any]:
    """What `spec` declares of the arguments, by parameter; `paths` are those of `parameter_names`.

    Everything that is not declared is static.
    """
    if spec.assumptions:
        raise UserCodeError("dynamic_shapes is a ShapesSpec with assumptions, which exported programs do not have",
                            "state them in forward, with torch._check")
    unknown = sorted(spec.named.keys() - {name for path in paths for name in (path[0], path[-1])})
    if unknown:
        raise UserCodeError(f"dynamic_shapes speaks of {unknown[0]!r}, which is none of the inputs",
                            "its keys are the names of forward's parameters")
    reader = _Reader()
    specs: dict[str, Any] = {}
    for path, value in zip(paths, values, strict=True):
        if len(path) == 1:
            specs[path[0]] = reader.read(spec.named.get(path[0]), value)
        elif isinstance(path[1], int):
            node = spec.positional[path[1]] if path[1] < len(spec.positional) else None
            specs.setdefault(path[0], []).append(reader.read(node, value))
        else:
            node = spec.keywords.get(path[1], spec.named.get(path[1]))
            specs.setdefault(path[0], {})[path[1]] = reader.read(node, value)
    return specs


class _Reader:
    """Knows the dims of variables that it has met."""

    def __init__(self) -> None:
        self.dims: dict[str, Dim] = {}

    def read(self, node: Any, value: Any) -> Any:
        if isinstance(node, Formula):
            return self.size(node)
        if isinstance(node, TensorSizes):
            return tuple(self.size(size) if isinstance(size, Formula) else size for size in node.dims)
        if isinstance(node, Items):
            if isinstance(value, Mapping):
                return {key: self.read(node.items.get(key), item) for key, item in value.items()}
            if isinstance(value, (list, tuple)):
                return [self.read(node.items.get(position), item) for position, item in enumerate(value)]
            raise UserCodeError(f"dynamic_shapes declares items of an argument that is a {type(value).__name__}", _HINT)
        if isinstance(node, Attributes):
            raise UserCodeError("dynamic_shapes declares attributes of an object", _HINT)
        return node

    def size(self, formula: Formula) -> Dim | int:
        by_symbol = {shapes.symbol(variable.key): variable for variable in formula.variables}
        constant, terms = parts(shapes.parse(formula.text, {str(symbol): symbol for symbol in by_symbol}))
        if not terms:
            return constant
        (monomial, scale), *others = terms
        if others or monomial not in by_symbol:
            raise UserCodeError(f"dynamic_shapes declares a size as {formula.text}",
                                "sizes of exported programs are n, 2*n, n + 1 and the like")
        return Dim.derived(self.dim(by_symbol[monomial]), scale, constant)

    def dim(self, variable: Variable) -> Dim:
        if variable.key not in self.dims:
            name, number = variable.name, 1
            while name in {known.name for known in self.dims.values()}:  # another one of the same name
                name, number = f"{variable.name}_{number}", number + 1
            limit = variable.max if variable.max is not None and variable.max < _UNBOUNDED else None
            self.dims[variable.key] = Dim(name, min=variable.min or None, max=limit)
        return self.dims[variable.key]
