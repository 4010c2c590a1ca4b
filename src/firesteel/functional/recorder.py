"""The recorder: a mode that runs operators on fake tensors and writes down what they do as a graph without mutation.

Every tensor of the program belongs to a `Memory`, which has one *root*: the tensor that the memory was made for, an
input or the result of an operator. Other tensors of the memory are views, each with a parent and the view operator that
makes it from its parent. A value in the graph never changes; what changes is which node holds the memory's contents:

    y = x[0]      no node; y is remembered as select(x, 0, 0)
    y.add_(1)     select, add, then select_scatter(x, add, 0, 0): the node of x from now on
    x.t()         of the new node; y would be selected from it again

A view is made when it is used, from the contents at that time. Roots keep the strides that they have in eager, so that
every view operator of the program fits the value that stands for its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake import FakeMode, FakeTensor
from ..fake.dims import layout_of, offset_of
from ..fake.functions import find_composition
from ..fake.mode import dispatch
from ..fake.rules.strides import is_dense
from ..fake.tensor import has_wrappers, new_fake, view_of
from ..shapes import Expr
from ..shapes.symnode import make_symbolic
from . import decompositions, views
from .eager_support import is_refused
from .graph import Unsupported
from .operators import REFUSED, Kind, Operator, Writes, operator_of, view_operator
from .overlap import meet, refuse_overlap
from .size_nodes import SizeNodes, raw_sizes

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LIFTS = frozenset({"aten.lift_fresh.default", "aten.lift.default"})
_WHOLE = 2**63 - 1
_ADD = _ATEN.add.Tensor
_TO_COPY = _ATEN._to_copy.default
_SCALAR_TENSOR = _ATEN.scalar_tensor.default
# Views of all elements in the order of the dimensions.
_OF_ALL = frozenset({_ATEN.view.default, _ATEN.unsqueeze.default, _ATEN.squeeze.default, _ATEN.squeeze.dim,
                     _ATEN.squeeze.dims})


class Memory:
    """What one storage holds: ``version`` counts the writes."""

    __slots__ = ("root", "version", "inputs")

    def __init__(self, inputs: tuple[int, ...] = ()) -> None:
        self.root: Tracked
        self.version = 0
        self.inputs = inputs


class Tracked:
    """A tensor of the program, and the node of its value if that is up to date."""

    __slots__ = ("fake", "memory", "node", "version", "parent", "view", "place_of_a_part")

    def __init__(self, fake: FakeTensor, memory: Memory, node: torch.fx.Node | None,
                 parent: Tracked | None = None, view: views.View | None = None) -> None:
        self.fake = fake
        self.memory = memory
        self.node = node
        self.version = memory.version
        self.parent = parent
        self.view = view
        # whether it is a place in the storage that was named by a view of other elements or with another order of
        # dimensions: eager's gradients are those of that view's elements, and lie as they do
        self.place_of_a_part = False

    @property
    def top(self) -> Tracked:
        """The root of its memory, or the input that it is a view of where several have one memory."""
        tracked = self
        while tracked.parent is not None:
            tracked = tracked.parent
        return tracked

    def is_part(self) -> bool:
        """Whether it has not all elements of what it is a view of, or its dimensions lie in another order."""
        tracked: Tracked | None = self
        while tracked is not None:
            if tracked.place_of_a_part or (tracked.view is not None and tracked.view.func not in _OF_ALL):
                return True
            tracked = tracked.parent
        return False


class Recorder(FakeMode):
    """Records operators while it is entered."""

    asserts_checks = False
    """Whether it writes down assertions for what operators assume of numbers from data; otherwise the tracer does."""

    def __init__(self, is_core: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self.graph = torch.fx.Graph()
        self.sizes = SizeNodes(self._new_size_node)
        self.constants: dict[str, torch.Tensor] = {}
        # those of them that the program writes out: nobody else has them, so they never change
        self.literals: set[str] = set()
        # where the program stands, for the nodes being made
        self.origin: dict[str, Any] = {}
        # results whose sizes or values only data decides, since the list was emptied
        self.data_results: list[tuple[Any, torch.fx.Node]] = []
        self._tracked: dict[int, Tracked] = {}
        self._is_core = is_core or decompositions.is_core
        self._decompositions: dict[int, Callable[..., Any] | None] = {}
        self._inside_decomposition = False
        # whether autograd's engine runs, which adds the gradients that reach a tensor from several sides
        self.accumulates = False

    # -----------------------------------------------------------------------------------------------------------------
    # tensors

    def add_input(self, name: str, example: Any, fake: FakeTensor | None, memory: Memory | None) -> torch.fx.Node:
        """A placeholder. Inputs that share storage share their memory."""
        node = self.graph.placeholder(name)
        node.meta["val"] = example if fake is None else fake
        if fake is not None:
            assert memory is not None
            tracked = self._tracked[id(fake)] = Tracked(fake, memory, node)
            if not hasattr(memory, "root"):
                memory.root = tracked
            self.sizes.read_from(fake, node)
        elif isinstance(example, _SYMBOLIC):
            self.sizes.bind(example, node)
        return node

    def add_constant(self, name: str, tensor: torch.Tensor, fake: FakeTensor) -> None:
        """A tensor that the graph holds itself."""
        self.constants[name] = tensor
        node = self.graph.get_attr(name)
        node.meta["val"] = fake
        self._new_root(fake, node)

    def tracked(self, fake: FakeTensor) -> Tracked:
        """What is known of a tensor."""
        tracked = self._tracked.get(id(fake))
        if tracked is not None:
            return tracked
        # Some ways to make another tensor of the same storage never reach the dispatcher.
        storage = torch_compat.storage_address(fake)
        for other in list(self._tracked.values()):
            if torch_compat.storage_address(other.fake) == storage:
                if views.same_layout(other.fake, fake) and other.fake.dtype == fake.dtype \
                        and views.same_numbers((offset_of(other.fake),), (offset_of(fake),)):
                    view: views.View | None = None
                else:
                    other = other.top
                    if other.fake.dtype is not fake.dtype:
                        raise Unsupported("memory that is seen as another dtype")
                    view = views.View(_ATEN.as_strided.default, (*layout_of(fake), offset_of(fake)))
                tracked = self._tracked[id(fake)] = Tracked(fake, other.memory, None, other, view)
                tracked.version = -1
                return tracked
        raise Unsupported("a tensor from outside of the graph")

    def versions(self) -> dict[Memory, int]:
        """How often all memory known by now has been written to."""
        return {tracked.memory: tracked.memory.version for tracked in self._tracked.values()}

    def node_of(self, fake: FakeTensor) -> torch.fx.Node:
        """The node of a tensor's present value."""
        return self.current(self.tracked(fake))

    def current(self, tracked: Tracked) -> torch.fx.Node:
        """The node of a tensor's present value, made from its parent's if that has changed."""
        memory = tracked.memory
        if tracked.node is not None and tracked.version == memory.version:
            return tracked.node
        parent, view = tracked.parent, tracked.view
        if parent is None:
            # Another input with the same memory; the root is its own.
            raise Unsupported("inputs that share memory, one of which is changed in place")
        node = self.current(parent)
        if view is not None:
            node, view = views.source(self, view, parent.fake, node)
            node = self.new_node(view.func, (node, *map(self._argument, view.args)),
                                 {key: self._argument(value) for key, value in view.kwargs.items()}, tracked.fake)
        tracked.node, tracked.version = node, memory.version
        return node

    def _new_root(self, fake: FakeTensor, node: torch.fx.Node) -> Tracked:
        memory = Memory()
        tracked = memory.root = self._tracked[id(fake)] = Tracked(fake, memory, node)
        return tracked

    # -----------------------------------------------------------------------------------------------------------------
    # nodes

    def new_node(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> torch.fx.Node:
        """Write down a call."""
        node = torch_compat.add_call(self.graph, _name(target), target, args, kwargs)
        meta = node.meta
        meta["val"] = value
        if self.origin:
            meta.update(self.origin)
        return node

    def _new_size_node(self, target: Any, args: tuple[Any, ...], value: Any) -> torch.fx.Node:
        if isinstance(value, Expr):
            assert self.shape_env is not None
            value = make_symbolic(self.shape_env, value)
        return self.new_node(target, args, {}, value)

    def _argument(self, value: Any) -> Any:
        """An argument of an operator as an argument of a node."""
        kind = type(value)
        if kind is FakeTensor:
            tracked = self._tracked.get(id(value))
            if tracked is not None and tracked.node is not None and tracked.version == tracked.memory.version:
                return tracked.node
            return self.node_of(value)
        if kind is int or kind is float or kind is bool or value is None:
            return value
        if kind is list or kind is tuple or kind is torch.Size:
            return [self._argument(item) for item in value]
        if isinstance(value, _SYMBOLIC):
            return self.sizes.node_of(value)
        if isinstance(value, torch.Tensor):
            raise Unsupported("a tensor from outside of the graph")
        return value

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> torch.fx.Node:
        """Write down an operator and its new tensors."""
        node_args = tuple([self._argument(value) for value in args])
        node_kwargs = {key: self._argument(value) for key, value in kwargs.items() if not _is_default(key, value)}
        node = self.new_node(func, node_args, node_kwargs, result)
        self._take(result, node)
        if self.data_symbols:
            self._find_data_symbols(result, node)
        return node

    def _take(self, result: Any, node: torch.fx.Node) -> None:
        """Results are tensors with memory of their own."""
        if type(result) is FakeTensor:
            if id(result) not in self._tracked:
                self._new_root(result, node)
        elif isinstance(result, (tuple, list)):
            for position, item in enumerate(result):
                if item is not None:
                    self._take(item, self.new_node(getitem, (node, position), {}, item))

    def _find_data_symbols(self, result: Any, node: torch.fx.Node) -> None:
        self.data_symbols.clear()
        self.data_symbols_known.clear()
        if isinstance(result, _SYMBOLIC):
            self.data_results.append((result, node))
        for fake in result if isinstance(result, (tuple, list)) else (result,):
            if type(fake) is FakeTensor:
                self.data_results.append((fake, self.node_of(fake)))
        self.bind_data_results()

    def bind_data_results(self) -> None:
        """Make the numbers that data decides on known as nodes, under the names that they have now."""
        for value, node in self.data_results:
            if isinstance(value, _SYMBOLIC):
                self.sizes.bind_read(value, node)
            else:
                self.sizes.read_from(value, node)

    # -----------------------------------------------------------------------------------------------------------------
    # operators

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return NotImplemented if types and has_wrappers(types) else self.call(func, args, kwargs or {})

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator on fake tensors and record it."""
        operator = operator_of(func)
        kind = operator.kind
        if kind is Kind.PURE:
            if operator.random and "generator" in kwargs and kwargs["generator"] is None:
                operator, kwargs = _without_generator(operator, kwargs)
            return self._compute(operator, args, kwargs)
        if kind is Kind.VIEW:
            return self._make_view(operator, args, kwargs)
        if kind is Kind.WRITES:
            return self._write(operator, args, kwargs)
        if kind is Kind.COMPOSITE:
            rule = find_composition(func, args, kwargs)
            return self.run(torch_compat.run_composition, (func, args, kwargs)) if rule is None \
                else self.run(rule, args, kwargs)
        if kind is Kind.QUERY:
            return dispatch(self, func, args, kwargs)
        return self._reshape(operator, args, kwargs)

    def _compute(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        func = operator.func
        if func is _TO_COPY and not isinstance(args[0], torch.Tensor):  # a number, which batches are multiplied by
            return self.call(_SCALAR_TENSOR, args, {"dtype": kwargs.get("dtype")})
        try:
            decomposition = self._decompositions[id(func)]
        except KeyError:
            decomposition = self._decompositions[id(func)] = decompositions.find(func, operator.name, self._is_core)
        computed = decomposition is not None or decompositions.is_lowered(operator.name)
        refused = computed and not self._inside_decomposition and is_refused(operator, args, kwargs)
        if decomposition is not None and not refused:
            inside, self._inside_decomposition = self._inside_decomposition, True
            try:
                result = self.run(decomposition, args, kwargs)
            finally:
                self._inside_decomposition = inside
            if result is not NotImplemented:
                return result
        result = dispatch(self, func, args, kwargs)
        if self.accumulates and func is _ADD:
            result = self._accumulated(args, result)
        node = self.record(func, args, kwargs, result)
        if refused:
            node.meta[REFUSED] = True
        return result

    def _accumulated(self, args: tuple[Any, ...], result: FakeTensor) -> FakeTensor:
        """A sum of gradients as the engine makes it in eager: in place of the first, if nobody else has that. So the
        strides of dimensions of size 1, which a new sum would not keep, are the first one's."""
        if len(args) != 2 or type(args[0]) is not FakeTensor or type(args[1]) is not FakeTensor:
            return result
        (shape, stride), (new_shape, new_stride) = layout_of(args[0]), layout_of(result)
        if views.same_numbers(stride, new_stride) or not views.same_numbers(shape, new_shape):
            return result
        node = self.tracked(args[0]).node
        if node is None or node.op != "call_function" or node.users or not is_dense(shape, stride):
            return result
        return new_fake(result.shape, args[0].stride(), result.dtype, result.device)

    def _make_view(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        func, base = operator.func, args[0]
        if operator.name in _LIFTS and type(base) is not FakeTensor:
            return self._lift(base)
        result = dispatch(self, func, args, kwargs)
        parent = self.tracked(base)
        if type(result) is FakeTensor:
            if id(result) not in self._tracked:
                self._add_view(parent, result, views.view(func, args[1:], kwargs, base, result))
            return result
        for part, view in zip(result, views.parts(operator.name, args, kwargs, base, result), strict=True):
            self._add_view(parent, part, view)
        return result

    def _add_view(self, parent: Tracked, result: FakeTensor, view: views.View | None) -> None:
        place_of_a_part = False
        if view is not None and view.func is _ATEN.as_strided.default:
            place_of_a_part = parent.is_part()
            parent = parent.top
            if parent.fake.dtype is not result.dtype:
                raise Unsupported("as_strided of memory that is seen as another dtype")
            if not parent.memory.inputs and not views.fills_its_storage(*layout_of(parent.fake)):
                raise Unsupported("as_strided of a tensor with gaps, of which nothing is known")
        tracked = self._tracked[id(result)] = Tracked(result, parent.memory, None, parent, view)
        tracked.version = -1
        tracked.place_of_a_part = place_of_a_part

    def _lift(self, tensor: torch.Tensor) -> FakeTensor:
        """A constant that the program builds (``torch.tensor([1, 2])``): a new tensor in every call."""
        name = f"_constant{len(self.constants)}"
        fake = dispatch(self, _ATEN.lift_fresh.default, (tensor,), {})
        self.add_constant(name, tensor, fake)
        self.literals.add(name)
        return self._compute(operator_of(_ATEN.clone.default), (fake,), {})

    def _reshape(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``t_`` and its like: what the tensor was stays behind, as the parent of what it becomes."""
        fake = args[0]
        before = self.tracked(fake)
        if before.memory.inputs and before.parent is None:
            raise Unsupported(f"{operator.name} of an input")
        copy = view_of(fake, *layout_of(fake), offset_of(fake))
        for node in self.graph.nodes:  # not only the present value's: after a write another node made the tensor
            _replace_value(node, fake, copy)
        dispatch(self, operator.func, args, kwargs)
        before.fake = copy
        self._tracked[id(copy)] = before
        view = views.view(view_operator(operator.func), args[1:], kwargs, copy, fake)
        self._add_view(before, fake, view)
        return fake

    # -----------------------------------------------------------------------------------------------------------------
    # writes

    def _refuse_overlap(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if operator.writes is None:
            return
        given = [value for value in (*args, *kwargs.values()) if type(value) is FakeTensor]
        for at in operator.writes.targets:
            target = args[at] if isinstance(at, int) else kwargs[at]
            if type(target) is FakeTensor:
                memory = self.tracked(target).memory
                refuse_overlap(operator.name, target, [
                    other for other in given if other is not target and self.tracked(other).memory is memory])

    def _write(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._refuse_overlap(operator, args, kwargs)
        if operator.writes is not None and self._meets_itself(operator.writes, args, kwargs):
            return self._write_one_by_one(operator, args, kwargs)
        special = decompositions.writes(operator.name)
        if special is not None:
            new = special(self, *args, **kwargs)
            if new is not NotImplemented:
                self.assign(args[0], new)
                return args[0]
        writes = operator.writes
        if writes is None:
            raise Unsupported(f"{operator.name}, which changes its arguments in place")
        taken = {key: value for key, value in kwargs.items() if key not in writes.drops}
        result = self.call(writes.functional, (*args, *writes.defaults[len(args):]), taken)
        # one list of new contents belongs to one list of arguments
        several = isinstance(result, (tuple, list)) and not (
            len(writes.targets) == 1 and self._writes_lists(writes, args, kwargs))
        results = list(result) if several else [result]
        targets = [args[at] if isinstance(at, int) else kwargs[at] for at in writes.targets]
        if writes.drops and any(isinstance(target, FakeTensor) and target.dtype is not new.dtype
                                for target, new in zip(targets, results[writes.fresh:], strict=True)):
            raise Unsupported(f"{operator.name} with a result of another dtype, which not all operators convert")
        for target, new in zip(targets, results[writes.fresh:], strict=True):
            if isinstance(target, (list, tuple)):
                for one, value in zip(target, new, strict=True):
                    self.assign(one, value)
                    # autograd itself counts these changes where no mode sees the operator; not those of `_fused_...`
                    if operator.name.startswith("aten._foreach_") and not one.is_inference():
                        torch.autograd.graph.increment_version(one)
            elif target is not None:
                self.assign(target, new)
        returned = [next_fresh if at is None else args[at] if isinstance(at, int) else kwargs[at]
                    for at, next_fresh in _with_fresh(writes, results)]
        return None if not returned else returned[0] if len(returned) == 1 else tuple(returned)

    def _meets_itself(self, writes: Writes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an operator on lists reads or writes at one place of a list what it writes at another."""
        targets = [args[at] if isinstance(at, int) else kwargs[at] for at in writes.targets]
        if not any(isinstance(target, (list, tuple)) for target in targets):
            return False
        places: dict[Memory, list[tuple[int, FakeTensor, bool]]] = {}
        for given in (*args, *kwargs.values()):
            several = isinstance(given, (list, tuple))
            written = any(given is target for target in targets)
            for place, fake in enumerate(given if several else (given,)):
                if type(fake) is FakeTensor:
                    entry = place if several else -1, fake, written
                    places.setdefault(self.tracked(fake).memory, []).append(entry)
        return any(meet(entries) for entries in places.values() if len(entries) > 1)

    def _write_one_by_one(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator on lists as eager computes it: each tensor sees what was written to those before it."""
        if not operator.name.startswith(("aten._foreach_", "aten._fused_")) or not isinstance(args[0], (list, tuple)):
            raise Unsupported(f"{operator.name} with a tensor at several places of its lists")
        count = len(args[0])

        in_tensor = operator.name in ("aten._foreach_addcmul_.Tensor", "aten._foreach_addcdiv_.Tensor")

        def part(value: Any, place: int) -> Any:
            if isinstance(value, (list, tuple)) and len(value) == count:
                return [value[place]]
            if in_tensor and type(value) is FakeTensor:  # its elements are the factors
                return self.call(_ATEN.slice.Tensor, (value, 0, place, place + 1), {})
            return value

        for place in range(count):
            self.call(operator.func, tuple(part(value, place) for value in args),
                      {key: part(value, place) for key, value in kwargs.items()})
        return None if not torch_compat.schema_of(operator.func).returns else args[0]

    @staticmethod
    def _writes_lists(writes: Writes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        at = writes.targets[0]
        return isinstance(args[at] if isinstance(at, int) else kwargs[at], (list, tuple))

    def assign(self, target: FakeTensor, new: FakeTensor) -> None:
        """The contents of ``target`` become those of ``new``, for all views of the memory."""
        if new.dtype is not target.dtype:
            if not torch.can_cast(new.dtype, target.dtype):
                raise Unsupported(f"a result of {new.dtype} is written to {target.dtype}, an error in eager")
            new = self.call(_ATEN._to_copy.default, (new,), {"dtype": target.dtype})
        tracked = self.tracked(target)
        if not views.same_numbers(layout_of(new)[0], layout_of(target)[0]):
            self._resized(tracked, new)
            return
        memory = tracked.memory
        if len(memory.inputs) > 1:
            raise Unsupported("inputs that share memory, one of which is changed in place")
        value, at = new, tracked
        while at.parent is not None:
            if at.view is not None:
                value = views.write_through(self, at.view, at.parent.fake, value)
            at = at.parent
        root = memory.root
        if not views.same_layout(value, root.fake):
            value = self.call(_ATEN.slice_scatter.default, (root.fake, value, 0, 0, _WHOLE), {})
            self.node_of(value).meta["val"] = torch_compat.make_wrapper(
                FakeTensor, *layout_of(root.fake), 0, root.fake.dtype, root.fake.device)
        root.node = self._in_layout_of(root.fake, value)
        memory.version += 1
        root.version = memory.version
        if tracked is not root and views.same_layout(new, target):
            tracked.node, tracked.version = self._in_layout_of(target, new), memory.version

    def _in_layout_of(self, fake: FakeTensor, value: FakeTensor) -> torch.fx.Node:
        """The node of a value, with those strides too that do not matter, of dimensions of size 1."""
        node = self.node_of(value)
        shape, stride = layout_of(fake)
        if views.same_numbers(stride, layout_of(value)[1]):
            return node
        copy = torch_compat.make_wrapper(FakeTensor, shape, stride, 0, fake.dtype, fake.device, 0)
        return self.new_node(_ATEN.view.default, (node, [self._argument(size) for size in shape]), {}, copy)

    def _resized(self, tracked: Tracked, new: FakeTensor) -> None:
        """An ``out=`` argument takes the size of the result. Nobody can see the change of a tensor without elements."""
        fake = tracked.fake
        while tracked.parent is not None and tracked.view is None:
            tracked = tracked.parent
        if tracked.memory.inputs or tracked.parent is not None or fake.numel() != 0:
            raise Unsupported("a tensor is resized in place")
        torch_compat.replace_metadata(fake, view_of(new, *layout_of(new), 0))
        self._new_root(fake, self.node_of(new))


def _without_generator(operator: Operator, kwargs: dict[str, Any]) -> tuple[Operator, dict[str, Any]]:
    """The overload that draws from the default generator, which is meant by ``generator=None``."""
    _, name, overload = operator.name.split(".")
    plain = overload.removesuffix("generator").removesuffix("_") or "default"
    plain_overload = torch_compat.find_operator("aten", name, plain) if overload.endswith("generator") else None
    if plain_overload is None:
        return operator, kwargs
    return operator_of(plain_overload), {key: value for key, value in kwargs.items() if key != "generator"}


_names: dict[int, tuple[Any, str]] = {}


def _name(target: Any) -> str:
    """What nodes of an operator are called: ``add`` for ``aten.add.Tensor``."""
    known = _names.get(id(target))
    if known is None:
        plain = isinstance(target, torch_compat.OpOverload)
        if not plain and hasattr(target, "bodies"):
            return str(target.__name__)  # it belongs to one graph
        name = torch_compat.schema_of(target).name.partition("::")[2] if plain else target.__name__
        known = _names[id(target)] = (target, name)
    return known[1]


def _with_fresh(writes: Writes, results: list[Any]) -> list[tuple[int | str | None, Any]]:
    fresh = iter(results[:writes.fresh])
    return [(at, next(fresh) if at is None else None) for at in writes.returns]


def _is_default(name: str, value: Any) -> bool:
    """Arguments that say nothing: leaving them out makes equal calls look equal."""
    return value is None or (name == "pin_memory" and value is False) or (name == "layout" and value is torch.strided)


def _replace_value(node: torch.fx.Node, fake: FakeTensor, copy: FakeTensor) -> None:
    """Let ``copy`` be what a node, or one of its results, computes.

    The names that sizes have had are noted, since what the program states of them is still to be checked.
    """
    value = node.meta.get("val")
    several = isinstance(value, (tuple, list))
    items: list[Any] = list(value) if isinstance(value, (tuple, list)) else [value]
    if not any(item is fake for item in items):
        return
    node.meta["size_names"] = size_names = node.meta.get("size_names", {})
    for position, item in enumerate(items):
        if item is fake:
            size_names.setdefault(position, raw_sizes(fake))
            items[position] = copy
    node.meta["val"] = tuple(items) if several else copy
