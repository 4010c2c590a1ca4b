"""``compile(dynamic_shapes=...)``: what users declare about the sizes of arguments, in torch's classes or in ours.

    dynamic_shapes={"x": {0: Dim("batch", max=64)}, "y": [batch, None], "n": Dim.DYNAMIC}

A dict from parameters to what is declared of them: of a tensor a list with one entry a dimension, or a dict from
dimensions; of a number its own entry; of a list, tuple or dict a list or dict of such. An entry is a `Dim` or an
expression of one, a number for a size that is fixed, or None; a Dim may be torch.export's. ``ShapesSpec`` and
``ParamsSpec`` of ``torch.fx.experimental.dynamic_spec`` mean what they mean there.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import shapes
from .capture.argument_sizes import ArgumentSizes, Bounds, Declared, Place, TensorDeclaration
from .errors import UserCodeError
from .runtime.compiler import Compiler
from .shapes.dims import Dim, DimHint, HintKind, as_ours
from .torch_compat.dynamic_specs import (
    ArgumentSpec,
    Attributes,
    Formula,
    Items,
    TensorSizes,
    attached_spec,
    read_node,
    read_spec,
)

_HINT = 'write {"x": {0: Dim("batch")}}, with the names of parameters and dims from firesteel.export'
ARGS, KEYWORDS = "*args", "**kwargs"


def declare_for(compiler: Compiler, model: Any) -> None:
    """Let a compiler know what is declared for a function or module: its own argument, or what a decorator says."""
    given = compiler.given["dynamic_shapes"]
    attached = attached_spec(model)
    if attached is not None and given is not None:
        raise UserCodeError("dynamic_shapes is given and @dynamic_spec is attached to the function", "give one of them")
    function = function_of(model)
    compiler.declared[function.__code__] = declare_arguments(function, given if attached is None else attached)


def function_of(model: Any) -> types.FunctionType:
    """The Python function whose parameters a declaration names."""
    target = model.forward if isinstance(model, torch.nn.Module) else model
    function = getattr(target, "__func__", target)
    if not isinstance(function, types.FunctionType):
        raise UserCodeError(f"dynamic_shapes of a {type(model).__name__}", "declare sizes for a function or a module")
    return function


def declare_arguments(function: types.FunctionType, given: Any) -> ArgumentSizes:
    """What is declared of the arguments of a function.

    >>> batch = Dim("batch", max=64)
    >>> def f(x, y): ...
    >>> declare_arguments(f, {"x": {0: batch}, "y": [2 * batch]}).tensors[Place("y")]
    TensorDeclaration(dims={0: 2*batch}, rank=1)
    """
    spec = read_spec(given)
    if spec is None:
        spec = _read_dict(given)
    code = function.__code__
    names = code.co_varnames
    plain = names[: code.co_argcount + code.co_kwonlyargcount]
    rest = iter(names[len(plain):])
    several = next(rest) if code.co_flags & 0x04 else None
    by_name = next(rest) if code.co_flags & 0x08 else None
    reader = _Reader()
    for name, node in spec.named.items():
        if name in plain:
            reader.read(Place(name), node)
        elif by_name is not None:
            reader.read(Place(by_name, (("item", name),)), node)
        else:
            raise UserCodeError(f"dynamic_shapes names {name!r}, which is no parameter of {function.__qualname__}",
                                f"its parameters are {', '.join(plain)}")
    for sentinel, parameter, nodes in ((ARGS, several, dict(enumerate(spec.positional))),
                                       (KEYWORDS, by_name, dict(spec.keywords))):
        if nodes and parameter is None:
            raise UserCodeError(f"dynamic_shapes declares {sentinel}, which {function.__qualname__} does not take")
        for key, node in nodes.items():
            reader.read(Place(str(parameter), (("item", key),)), node)
    assumptions = tuple(reader.formula(formula) for formula in spec.assumptions)
    return reader.finish(assumptions)


def _node(node: Any) -> Any:
    """What is declared of one value, in our classes or in plain data."""
    return as_ours(read_node(node))


def _read_dict(given: Any) -> ArgumentSpec:
    if not isinstance(given, Mapping):
        raise UserCodeError(f"dynamic_shapes is a {type(given).__name__}", _HINT)
    named = {name: _node(node) for name, node in given.items() if name not in (ARGS, KEYWORDS)}
    if not all(isinstance(name, str) for name in named):
        raise UserCodeError("dynamic_shapes has keys that are no names of parameters", _HINT)
    return ArgumentSpec(named, tuple(_node(node) for node in given.get(ARGS, ())),
                        {name: _node(node) for name, node in given.get(KEYWORDS, {}).items()})


def _is_leaf(node: Any) -> bool:
    return node is None or isinstance(node, (int, Dim, DimHint, Formula))


class _Reader:
    """Collects what is declared, place by place."""

    def __init__(self) -> None:
        self.tensors: dict[Place, TensorDeclaration] = {}
        self.numbers: dict[Place, Declared] = {}
        self.variables: dict[shapes.Symbol, Bounds] = {}

    def read(self, place: Place, node: Any) -> None:
        node = _node(node)
        if node is None:
            return
        if _is_leaf(node):
            self.numbers[place] = self.leaf(node)
        elif isinstance(node, TensorSizes):
            self.tensor(place, node.dims)
        elif isinstance(node, Attributes):
            for name, part in node.attributes.items():
                self.read(Place(place.parameter, (*place.steps, ("attribute", name))), part)
        elif isinstance(node, Items):
            self.items(place, node.items)
        elif isinstance(node, (list, tuple)):
            if all(_is_leaf(_node(size)) for size in node):
                self.tensor(place, [_node(size) for size in node])
            else:
                self.items(place, dict(enumerate(node)))
        elif isinstance(node, Mapping):
            parts = {key: _node(part) for key, part in node.items()}
            if parts and all(type(key) is int and _is_leaf(part) for key, part in parts.items()):
                self.tensors[place] = TensorDeclaration({key: self.leaf(part) for key, part in parts.items()})
            else:
                self.items(place, node)
        else:
            raise UserCodeError(f"dynamic_shapes has a {type(node).__name__} for {place.source.name}", _HINT)

    def tensor(self, place: Place, sizes: Sequence[Any]) -> None:
        self.tensors[place] = TensorDeclaration({dim: self.leaf(size) for dim, size in enumerate(sizes)}, len(sizes))

    def items(self, place: Place, items: Mapping[Any, Any]) -> None:
        for key, part in items.items():
            self.read(Place(place.parameter, (*place.steps, ("item", key))), part)

    def leaf(self, node: Any) -> Declared:
        if isinstance(node, Formula):
            return self.formula(node)
        if isinstance(node, Dim):
            root = self.variable(node.root.name, Bounds(node.root.min, node.root.max))
            return root * node.scale + node.offset
        if isinstance(node, DimHint):
            if node.kind is HintKind.STATIC:
                return None
            bounds = Bounds(node.min, node.max, node.kind is HintKind.DYNAMIC)
            return self.variable(f"size{len(self.variables)}", bounds)
        if node is None or type(node) is int:
            return node
        raise UserCodeError(f"dynamic_shapes has {node!r} for a size", _HINT)

    def formula(self, formula: Formula) -> shapes.Expr:
        known: dict[str, shapes.Expr] = {
            variable.key: self.variable(variable.key, Bounds(variable.min, variable.max))
            for variable in formula.variables}
        return shapes.parse(formula.text, known)

    def variable(self, name: str, bounds: Bounds) -> shapes.Symbol:
        symbol = shapes.symbol(name)
        known = self.variables.setdefault(symbol, bounds)
        if known != bounds:
            raise UserCodeError(f"dynamic_shapes has two dims named {name} with different bounds",
                                "use one object, or two names")
        return symbol

    def finish(self, assumptions: tuple[shapes.Expr, ...]) -> ArgumentSizes:
        return ArgumentSizes(self.tensors, self.numbers, self.variables, assumptions)

