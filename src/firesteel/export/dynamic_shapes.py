"""From the `dynamic_shapes` argument to a `ShapeContract`: what is declared about each dimension of each input.

`dynamic_shapes` names the parameters of forward, or follows their order, and has the structure of the arguments below
that. For a tensor stands None (all static), a dict from dimensions to declarations, or one declaration per dimension.
`ShapesCollection` builds it from the tensors themselves, `AdditionalInputs` from further examples.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UserCodeError
from ..shapes.dims import Dim, DimHint, HintKind, as_ours
from ..torch_compat import pytrees
from ..torch_compat.dynamic_specs import read_spec
from .errors import InputMismatchError
from .torch_specs import dynamic_shapes_of

if TYPE_CHECKING:
    from .declared import Declared

Declaration = Dim | DimHint | int | None
"""What can be said of one dimension."""

LARGEST = 1 << 61
"""Integers that vary are smaller: captures take those of more digits as constants."""
SMALLEST = 2
"""The smallest size that a symbol stands for while tracing: operators treat 0 and 1 as cases of their own."""


@dataclass(frozen=True)
class InputSizes:
    """One leaf of the arguments and what is declared about its dimensions."""

    name: str
    """How the program writes it, such as ``x`` or ``batch['mask'][0]``."""
    tensor: torch.Tensor | None
    """The example; None for an input that is no tensor."""
    dims: tuple[Declaration, ...] = ()
    number: int | float | None = None
    """The example of a number that varies; what is declared of it is the only entry of `dims`."""

    def where(self, dim: int) -> str:
        """A dimension as messages name it."""
        return self.name if self.number is not None else f"{self.name}.shape[{dim}]"

    def example(self, dim: int) -> int:
        """The size in the example."""
        assert self.tensor is not None
        return self.tensor.shape[dim]


@dataclass
class ShapeContract:
    """The declared sizes of all inputs, in the order in which ``(args, kwargs)`` is flattened."""

    inputs: tuple[InputSizes, ...]
    roots: dict[str, Dim] = field(default_factory=dict)
    """The named dims that derived ones come from, in the order of their first use."""
    uses: dict[str, list[tuple[int, int, Dim]]] = field(default_factory=dict)
    """For each root the inputs and dimensions that it decides, and how."""
    examples: dict[str, int] = field(default_factory=dict)
    """The value of each root in the example."""

    @property
    def is_static(self) -> bool:
        """Whether no dimension is declared to vary."""
        return not any(varies(dim) for sizes in self.inputs for dim in sizes.dims)

    def of_tensor(self, tensor: torch.Tensor) -> tuple[int, InputSizes] | None:
        """The input that a tensor is, with its position."""
        for position, sizes in enumerate(self.inputs):
            if sizes.tensor is tensor:
                return position, sizes
        return None

    def __str__(self) -> str:
        return "\n".join(f"{sizes.name}: [{', '.join(_text(dim, size) for dim, size in _pairs(sizes))}]"
                         for sizes in self.inputs if sizes.tensor is not None)


def varies(dim: Declaration) -> bool:
    """Whether a declaration makes a symbol."""
    return isinstance(dim, Dim) or (isinstance(dim, DimHint) and dim.kind is not HintKind.STATIC)


def _pairs(sizes: InputSizes) -> Iterator[tuple[Declaration, int]]:
    assert sizes.tensor is not None
    return zip(sizes.dims, sizes.tensor.shape, strict=True)


def _text(dim: Declaration, size: int) -> str:
    return str(dim) if varies(dim) else str(size)


# Reading the argument


def contract_of(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None,
                dynamic_shapes: Any = None) -> ShapeContract:
    """The contract that `dynamic_shapes` declares for these example inputs.

    >>> class Scale(torch.nn.Module):
    ...     def forward(self, x, factor):
    ...         return x * factor
    >>> batch = Dim("batch", max=64)
    >>> print(contract_of(Scale(), (torch.ones(4, 3), torch.ones(3)), None, {"x": {0: batch}, "factor": None}))
    x: [batch, 3]
    factor: [3]
    """
    kwargs = dict(kwargs or {})
    names = parameter_names(module, args, kwargs)
    specs = _by_parameter(names, as_structure(module, args, kwargs, dynamic_shapes))
    leaves: list[InputSizes] = []
    for value, path in zip((*args, *kwargs.values()), names, strict=True):
        leaves.extend(_read(value, _at(specs, path), _path_text(path)))
    contract = ShapeContract(tuple(leaves))
    _collect_roots(contract)
    return contract


def as_structure(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` with the structure of the arguments, where it is an object that has to be asked for it."""
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        return dynamic_shapes.dynamic_shapes(module, tuple(args), dict(kwargs or {}))
    spec = read_spec(dynamic_shapes)
    if spec is None:
        return dynamic_shapes
    values = (*args, *(kwargs or {}).values())
    return dynamic_shapes_of(spec, parameter_names(module, args, kwargs or {}), values)


Path = tuple[Any, ...]


def parameter_names(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Path]:
    """For each argument, positional first, the path to it: its parameter, and the item of ``*args`` or ``**kwargs``."""
    target = module.forward if isinstance(module, torch.nn.Module) else module
    try:
        signature = inspect.signature(target)
        signature.bind(*args, **kwargs)
    except ValueError:  # a callable that does not tell
        return [("args", i) for i in range(len(args))] + [(name,) for name in kwargs]
    except TypeError as error:
        raise UserCodeError(f"forward does not take these arguments: {error}",
                            "args is a tuple of the positional arguments, kwargs a dict of the others") from None
    result: list[Path] = []
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    for i in range(len(args)):
        result.append((positional[i].name,) if i < len(positional) else (star, i - len(positional)))
    named = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    rest = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    for name in kwargs:
        result.append((name,) if name in named else (rest, name))
    return result


def put_at(specs: dict[str, Any], path: Path, spec: Any) -> None:
    """Add the declaration of one argument to those by parameter; items of ``*args`` come in their order."""
    if len(path) == 1:
        specs[path[0]] = spec
    elif isinstance(path[1], str):
        specs.setdefault(path[0], {})[path[1]] = spec
    else:
        specs.setdefault(path[0], []).append(spec)


def _path_text(path: Path) -> str:
    if len(path) == 1:
        return str(path[0])
    # What was passed by a name of its own is called by that.
    return str(path[1]) if isinstance(path[1], str) else f"{path[0]}[{path[1]}]"


def _by_parameter(paths: list[Path], spec: Any) -> dict[str, Any]:
    """The declarations by parameter name."""
    parameters = list(dict.fromkeys(path[0] for path in paths))
    if spec is None:
        return dict.fromkeys(parameters)
    if isinstance(spec, Mapping):
        free = {path[1] for path in paths if len(path) > 1 and isinstance(path[1], str)}
        unknown = [name for name in spec if name not in parameters and name not in free]
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), [*map(str, parameters), *free], 1)
            raise UserCodeError(
                f"dynamic_shapes speaks of {unknown[0]!r}, which is none of the inputs {_names(parameters)}",
                f"did you mean {close[0]!r}?" if close else "its keys are the names of forward's parameters")
        given = dict(spec)
        for path in paths:
            # An argument that **kwargs takes may stand under its own name.
            if len(path) > 1 and isinstance(path[1], str) and path[1] in given and path[0] not in spec:
                given[path[0]] = {**(given.get(path[0]) or {}), path[1]: given.pop(path[1])}
        missing = [name for name in parameters if name not in given]
        if missing:
            raise UserCodeError(f"dynamic_shapes says nothing about the input {missing[0]!r}",
                                f"add {missing[0]!r}: None if it is static or no tensor")
        return given
    if isinstance(spec, (tuple, list)):
        # One entry for each argument, or for each parameter (with one for *args as a whole).
        if len(spec) == len(parameters):
            return dict(zip(parameters, spec, strict=True))
        if len(spec) == len(paths):
            by_name: dict[str, Any] = {}
            for path, one in zip(paths, spec, strict=True):
                put_at(by_name, path, one)
            return by_name
        raise UserCodeError(f"dynamic_shapes has {len(spec)} entries for {len(parameters)} inputs "
                            f"{_names(parameters)}", "give one for each input, None for those that are static")
    raise UserCodeError(f"dynamic_shapes is a {type(spec).__name__}",
                        "it is a dict by names of forward's parameters, or a tuple in their order")


def _names(names: Iterable[str]) -> str:
    return "(" + ", ".join(map(str, names)) + ")"


def _at(specs: Mapping[str, Any], path: Path) -> Any:
    spec = specs[path[0]]
    if len(path) == 1 or spec is None:
        return spec
    try:
        return spec[path[1]]
    except (KeyError, IndexError, TypeError):
        raise UserCodeError(f"dynamic_shapes[{path[0]!r}] is {spec!r} and has no entry for {_path_text(path)}",
                            "it has one entry for each argument, None for those that are static") from None


def _read(value: Any, spec: Any, name: str) -> Iterator[InputSizes]:
    """The leaves of one argument with their declarations."""
    if isinstance(value, torch.Tensor):
        yield InputSizes(name, value, tensor_dims(value, spec, name))
        return
    children = _children(value)
    if children is None:
        yield _number(value, as_ours(spec), name)
        return
    keys = [key for key, _, _ in children]
    if spec is None:
        specs: list[Any] = [None] * len(children)
    elif isinstance(spec, Mapping):
        if set(spec) != set(keys):
            raise UserCodeError(f"dynamic_shapes has the keys {sorted(map(str, spec))} for {name}, which has "
                                f"{sorted(map(str, keys))}", "it has the structure of the inputs")
        specs = [spec[key] for key in keys]
    elif type(spec) is type(value) and not isinstance(value, (tuple, list)):
        # A dataclass that is registered as a pytree node can be its own declaration.
        specs = [getattr(spec, str(key), None) for key in keys]
    elif isinstance(spec, (tuple, list)):
        specs = list(spec)
    else:
        raise UserCodeError(f"dynamic_shapes gives {spec!r} for {name}, which is a {type(value).__name__} with "
                            f"{len(children)} items", "it has the structure of the inputs")
    if len(specs) != len(children):
        raise UserCodeError(f"dynamic_shapes has {len(specs)} entries for {name}, which has {len(children)} items",
                            "it has the structure of the inputs")
    for (_, text, child), one in zip(children, specs, strict=True):
        yield from _read(child, one, name + text)


def _number(value: Any, spec: Any, name: str) -> InputSizes:
    """A leaf that is no tensor: a number may vary, everything else is a constant."""
    kind = type(value)
    if spec is None or isinstance(spec, DimHint) and spec.kind is HintKind.STATIC or \
            kind is type(spec) is int and value == spec:
        return InputSizes(name, None)
    if kind not in (int, float):
        raise UserCodeError(f"dynamic_shapes gives {spec!r} for {name}, which is a {kind.__name__} and no tensor",
                            f"give None for {name}: what is neither tensor nor number is a constant of the program")
    if not isinstance(spec, DimHint):
        raise UserCodeError(f"dynamic_shapes gives {spec!r} for {name}, which is a number",
                            f"give Dim.DYNAMIC or Dim.AUTO if {name} varies, None if it is a constant")
    if kind is int:
        if (spec.min is not None and value < spec.min) or (spec.max is not None and value > spec.max):
            raise UserCodeError(f"{name} of the example is {value}, outside of the range of {spec!r}",
                                "give an example in the range")
        if not -LARGEST <= value < LARGEST:
            raise UserCodeError(f"{name} of the example is {value}, too large for a number that varies",
                                "give an example of less than 61 bits")
    elif not math.isfinite(value) or value == 0.0:
        raise UserCodeError(f"{name} of the example is {value}, which programs treat as a case of its own",
                            "give an example that is finite and not 0")
    elif spec.min is not None or spec.max is not None:
        raise UserCodeError(f"dynamic_shapes gives {spec!r} for {name}, which is a float", "bounds are for integers")
    return InputSizes(name, None, (spec,), value)


def _children(value: Any) -> list[tuple[Any, str, Any]] | None:
    """The items of a container: key, how it is written, item. None for a leaf."""
    flat, _ = pytrees.tree_flatten_with_path(value, is_leaf=lambda node: node is not value)
    if len(flat) == 1 and not flat[0][0]:
        return None
    result = []
    for path, child in flat:
        key = path[0]
        text = pytrees.keystr((key,))
        plain = next((getattr(key, part) for part in ("key", "idx", "name") if hasattr(key, part)), key)
        result.append((plain, text, child))
    return result


def tensor_dims(tensor: torch.Tensor, spec: Any, name: str) -> tuple[Declaration, ...]:
    """One declaration per dimension of a tensor."""
    rank = tensor.dim()
    if spec is None:
        return (None,) * rank
    if isinstance(spec, Mapping):
        dims: list[Declaration] = [None] * rank
        for dim, one in spec.items():
            if type(dim) is not int or not -rank <= dim < rank:
                raise UserCodeError(f"dynamic_shapes speaks of dimension {dim!r} of {name}, "
                                    f"which has {rank} dimensions",
                                    f"dimensions are numbered from 0 to {rank - 1}" if rank else "it is a scalar")
            dims[dim] = _declaration(one, tensor, dim % rank, name)
        return tuple(dims)
    if isinstance(spec, (tuple, list)):
        if len(spec) != rank:
            raise UserCodeError(f"dynamic_shapes has {len(spec)} entries for {name}, which has {rank} dimensions",
                                "give one for each dimension, or a dict with the ones that vary")
        return tuple(_declaration(one, tensor, dim, name) for dim, one in enumerate(spec))
    raise UserCodeError(f"dynamic_shapes gives {spec!r} for the tensor {name}",
                        f"give a dict such as {{0: {spec!r}}}, or a tuple with one entry for each dimension")


def _declaration(spec: Any, tensor: torch.Tensor, dim: int, name: str) -> Declaration:
    spec = as_ours(spec)
    size = tensor.shape[dim]
    where = f"{name}.shape[{dim}]"
    if spec is None:
        return spec
    if type(spec) is int:
        if spec != size:
            raise UserCodeError(f"{where} is declared to be {spec}, but the example has {size}",
                                "give the number that the example has, or another example")
        return spec
    if isinstance(spec, (Dim, DimHint)):
        lower, upper = spec.min, spec.max
        if (lower is not None and size < lower) or (upper is not None and size > upper):
            raise UserCodeError(f"{where} of the example is {size}, outside of the declared range of {spec!r}, "
                                f"[{lower or 0}, {'inf' if upper is None else upper}]", "give an example in the range")
        return spec
    raise UserCodeError(f"dynamic_shapes gives {spec!r} for {where}",
                        "a dimension is a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, an integer or None")


def _collect_roots(contract: ShapeContract) -> None:
    """Note the named dims; each has one range and, in the example, one value."""
    for position, sizes in enumerate(contract.inputs):
        for dim, declared in enumerate(sizes.dims):
            if not isinstance(declared, Dim):
                continue
            size, root = sizes.example(dim), declared.root
            known = contract.roots.setdefault(root.name, root)
            if known != root:
                raise UserCodeError(f"two dims are called {root.name}, with different ranges "
                                    f"(the second at {sizes.where(dim)})", "use one Dim, or two names")
            value = declared.root_for(size)
            if value is None:
                raise UserCodeError(f"{sizes.where(dim)} is declared to be {declared}, but the example has {size}, "
                                    f"for which there is no {root.name}", "give an example that fits the declaration")
            before = contract.examples.setdefault(root.name, value)
            if before != value:
                other, at, how = contract.uses[root.name][0]
                raise UserCodeError(
                    f"{sizes.where(dim)} is declared to be {declared}, which is {declared.size_for(before)} where "
                    f"{contract.inputs[other].where(at)} = {how} is {how.size_for(before)}, but the example has {size}",
                    "give an example that fits the declaration, or separate dims")
            contract.uses.setdefault(root.name, []).append((position, dim, declared))


# Building the argument


class ShapesCollection:
    """Declarations by tensor object, for inputs whose structure is tedious to repeat.

    >>> x, cache = torch.ones(4, 8), [torch.ones(4, 2), torch.ones(4, 2)]
    >>> sizes = ShapesCollection()
    >>> batch = Dim("batch")
    >>> for tensor in (x, *cache):
    ...     sizes[tensor] = {0: batch}
    >>> sizes.dynamic_shapes(lambda x, cache: x, (x, cache))
    {'x': {0: batch}, 'cache': [{0: batch}, {0: batch}]}
    """

    def __init__(self) -> None:
        self._specs: dict[int, Any] = {}
        self._tensors: dict[int, Any] = {}  # they must stay alive for their ids to mean them

    def __setitem__(self, tensor: Any, spec: Any) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise UserCodeError(f"a ShapesCollection got a {type(tensor).__name__} as a key",
                                "its keys are the tensors among the example inputs")
        known = self._specs.get(id(tensor))
        if known is not None and known != spec:
            raise UserCodeError("a ShapesCollection got two declarations for one tensor", "pass two tensors, or agree")
        self._specs[id(tensor)] = spec
        self._tensors[id(tensor)] = tensor

    def __getitem__(self, tensor: Any) -> Any:
        if id(tensor) not in self._specs:
            self._specs[id(tensor)] = {}
            self._tensors[id(tensor)] = tensor
        return self._specs[id(tensor)]

    def __len__(self) -> int:
        return len(self._specs)

    def dynamic_shapes(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """The declarations in the structure of the arguments."""
        met: set[int] = set()

        def spec_of(leaf: Any) -> Any:
            met.add(id(leaf))
            return self._specs.get(id(leaf)) or None

        result = structure_of(module, args, kwargs or {}, spec_of)
        if unmet := [self._tensors[key] for key in self._specs if key not in met]:
            raise UserCodeError(f"a ShapesCollection has a tensor of shape {tuple(unmet[0].shape)} that is not among "
                                "the inputs", "pass the same tensor objects to the collection and to export")
        return result


class AdditionalInputs:
    """Declarations from further examples: a dimension that differs is dynamic, one that does not is static.

    >>> more = AdditionalInputs()
    >>> more.add((torch.ones(7, 8),))
    >>> more.dynamic_shapes(lambda x: x, (torch.ones(4, 8),))
    {'x': (Dim.DYNAMIC, None)}
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        """One more example."""
        if not isinstance(args, (tuple, list)):
            raise UserCodeError(f"AdditionalInputs.add got a {type(args).__name__}", "args is a tuple of arguments")
        self._examples.append((tuple(args), dict(kwargs or {})))

    def dynamic_shapes(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
        """The declarations in the structure of the arguments."""
        first, layout = pytrees.tree_flatten((tuple(args), dict(kwargs or {})))
        columns: list[list[Any]] = [[leaf] for leaf in first]
        for number, example in enumerate(self._examples):
            leaves, other = pytrees.tree_flatten(example)
            if other != layout:
                raise UserCodeError(f"example {number} of AdditionalInputs has another structure than the inputs",
                                    "examples differ in sizes only")
            for column, leaf in zip(columns, leaves, strict=True):
                column.append(leaf)
        specs = iter([_from_examples(column) for column in columns])
        return structure_of(module, args, kwargs or {}, lambda leaf: next(specs))

    def check_fit(self, program: Any) -> None:
        """Raise where an exported program does not take an example, without running it."""
        module = program.module()
        for number, (args, kwargs) in enumerate(self._examples):
            try:
                module.check(args, kwargs)
            except InputMismatchError as error:
                raise UserCodeError(f"example {number} of AdditionalInputs does not fit the program: {error}",
                                    "the program decides on a size in which the examples differ: make it the same in "
                                    "all, or change the program where it decides") from None

    def verify(self, program: Any) -> None:
        """Run an exported program on every example; raises where it does not take one."""
        module = program.module()
        for args, kwargs in self._examples:
            module(*args, **kwargs)


def _from_examples(column: list[Any]) -> Any:
    first = column[0]
    if not isinstance(first, torch.Tensor):
        if type(first) in (int, float) and all(type(other) is type(first) for other in column):
            return Dim.DYNAMIC if len(set(column)) > 1 else None
        if any(type(other) is not type(first) or other != first for other in column[1:]):
            raise UserCodeError(f"the examples have different values {column!r} for an input that is no tensor",
                                "what is neither tensor nor number is a constant of the program")
        return None
    if any(not isinstance(other, torch.Tensor) or other.dim() != first.dim() for other in column[1:]):
        raise UserCodeError("the examples have tensors of different rank for one input", "examples differ in sizes")
    return tuple(Dim.DYNAMIC if len({tensor.shape[dim] for tensor in column}) > 1 else None
                 for dim in range(first.dim()))


def structure_of(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any],
                 spec_of: Callable[[Any], Any]) -> dict[str, Any]:
    """`dynamic_shapes` by names of parameters, with what a function says of each leaf."""
    result: dict[str, Any] = {}
    for value, path in zip((*args, *kwargs.values()), parameter_names(module, args, kwargs), strict=True):
        put_at(result, path, _mapped(value, spec_of))
    return result


def _mapped(value: Any, spec_of: Callable[[Any], Any]) -> Any:
    children = None if isinstance(value, torch.Tensor) else _children(value)
    if children is None:
        return spec_of(value)
    if isinstance(value, Mapping):
        return {key: _mapped(child, spec_of) for key, _, child in children}
    return [_mapped(child, spec_of) for _, _, child in children]


def declare(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None,
            dynamic_shapes: Any = None) -> Declared:
    """What `dynamic_shapes` declares for these example inputs, ready for tracing."""
    from .declared import Declared

    return Declared(contract_of(module, args, kwargs, dynamic_shapes))
