"""The recorder of exported programs: ATen operators as the program calls them, before autograd takes them apart.

Operators reach a dispatch mode below autograd, which has by then replaced ``linear`` by ``t`` and ``addmm``. With
autograd switched off they arrive as they were called, so the program runs that way here, on fake tensors; what a
composition consists of is run as well, to learn what its result looks like, but not written down. Nothing is made
functional:

    linear = aten.linear.default(x, p_weight, p_bias)
    relu_ = aten.relu_.default(linear)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..capture.assertions import MAX_ASSUMPTIONS, plausible, words_of
from ..errors import UserFrame
from ..fake import DataDependentError, FakeTensor
from ..fake.dims import layout_of, offset_of, shape_of
from ..fake.functions import find_function
from ..fake.mode import dispatch
from ..fake.positions import any_place
from ..fake.rules import find_rule
from ..fake.rules.data_dependent import new_size
from ..fake.tensor import view_of
from ..functional.graph import Unsupported
from ..functional.operators import Kind, Operator, operator_of
from ..functional.recorder import Recorder
from ..shapes import ContradictionError, Expr, UndecidableError
from ..shapes.symnode import expr_of, make_symbolic
from ..torch_compat.below_autograd import set_grad_mode

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LIFTS = frozenset({"aten.lift_fresh.default", "aten.lift.default"})
_READS = frozenset({_ATEN.sym_size.int, _ATEN.sym_stride.int, _ATEN.sym_storage_offset.default})


class PreDispatchRecorder(Recorder):
    """Writes operators down as they are called, writes to tensors included.

    ``lift`` is told of every tensor that the program takes from somewhere else and makes an input of it.
    """

    asserts_checks = True

    def __init__(self, lift: Callable[[torch.Tensor, FakeTensor], torch.fx.Node] | None = None) -> None:
        super().__init__()
        self.lift = lift
        # graphs of control flow operators, by the names of the attributes that hold them
        self.subgraphs: dict[str, torch.fx.GraphModule] = {}
        # how deep we are inside of operators that are written down as a whole
        self._inside = 0
        self._nodes: dict[int, torch.fx.Node] = {}
        self._kept: list[FakeTensor] = []
        # how many of the environment's checks are assertions of the graph
        self.asserted = 0
        self._grad_regions: list[tuple[bool, torch.fx.Node]] = []
        self._last_read: torch.fx.Node | None = None
        # objects of opaque types that operators take, and what makes inputs of those that are none
        self.objects: dict[int, tuple[Any, torch.fx.Node]] = {}
        self.lift_object: Callable[[Any], torch.fx.Node] | None = None
        # where the program stands when it is run by Python and not from a graph
        self.locate: Callable[[], dict[str, Any]] | None = None
        # what nodes say of the function of torch that is being called then
        self.function: Callable[[], dict[str, Any]] | None = None

    # -----------------------------------------------------------------------------------------------------------------
    # tensors and their nodes

    def add_placeholder(self, name: str, value: Any) -> torch.fx.Node:
        """An input of the graph. Its name is its own, and one that Python allows."""
        node = self.graph.placeholder(name)
        node.target = node.name
        node.meta["val"] = value
        if isinstance(value, FakeTensor):
            self.bind(value, node)
            self.sizes.read_from(value, node)
        elif isinstance(value, _SYMBOLIC):
            self.sizes.bind(value, node)
        return node

    def bind(self, fake: FakeTensor, node: torch.fx.Node) -> None:
        """From now on a tensor is what a node gives."""
        if id(fake) not in self._nodes:
            self._kept.append(fake)
        self._nodes[id(fake)] = node

    def knows_tensor(self, value: Any) -> bool:
        """Whether a fake tensor is in the graph."""
        return id(value) in self._nodes

    def has_tensor(self, fake: FakeTensor) -> bool:
        """Whether a fake tensor is in the graph or in one around it."""
        return id(fake) in self._nodes

    def node_of(self, fake: FakeTensor) -> torch.fx.Node:
        """The node of a tensor."""
        node = self._nodes.get(id(fake))
        return self._found_by_storage(fake) if node is None else node

    def _found_by_storage(self, fake: FakeTensor) -> torch.fx.Node:
        """``x.data`` and its like make another tensor of the same memory without calling an operator."""
        storage = torch_compat.storage_address(fake)
        for known in reversed(self._kept):
            if torch_compat.storage_address(known) != storage or known.dtype is not fake.dtype:
                continue
            base = self._nodes[id(known)]
            if _same_place(known, fake):
                node = self.new_node(_ATEN.detach.default, (base,), {}, fake)
            else:
                place = (list(fake.shape), list(fake.stride()), fake.storage_offset())
                node = self.new_node(_ATEN.as_strided.default, (base, *map(self._argument, place)), {}, fake)
            self.bind(fake, node)
            return node
        raise Unsupported("a tensor from outside of the graph")

    # -----------------------------------------------------------------------------------------------------------------
    # nodes

    def new_node(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> torch.fx.Node:
        if self.locate is not None:
            self.origin = self.locate()
        node = super().new_node(target, args, kwargs, value)
        if self.function is not None:
            node.meta.update(self.function())
        return node

    def _new_size_node(self, target: Any, args: tuple[Any, ...], value: Any) -> torch.fx.Node:
        """Sizes of inputs are read at the beginning of the graph, each once."""
        if isinstance(value, Expr):
            assert self.shape_env is not None
            value = make_symbolic(self.shape_env, value)
        if target not in _READS or args[0].op != "placeholder":
            return self.new_node(target, args, {}, value)
        after = self._last_read or next(node for node in reversed(self.graph.nodes) if node.op == "placeholder")
        with self.graph.inserting_after(after):
            node = torch_compat.add_call(self.graph, "sym_size_int" if target is _ATEN.sym_size.int else "sym_read",
                                         target, args, {})
        node.meta["val"] = value
        self._last_read = node
        return node

    def _argument(self, value: Any) -> Any:
        kind = type(value)
        if kind is FakeTensor:
            return self._nodes.get(id(value)) or self.node_of(value)
        if isinstance(value, torch.Tensor):
            raise Unsupported("a tensor from outside of the graph")
        if is_opaque(value) and (id(value) in self.objects or self.lift_object is not None):
            return self._object(value)
        if isinstance(value, torch.ScriptObject):
            raise Unsupported("an operator takes an object that only this process has, such as a process group: "
                              "programs are exported with collectives of torch.distributed._functional_collectives")
        return super()._argument(value)

    def _object(self, value: Any) -> torch.fx.Node:
        if id(value) not in self.objects:
            assert self.lift_object is not None
            self.objects[id(value)] = (value, self.lift_object(value))
        return self.objects[id(value)][1]

    def _argument_tuple(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([arg if isinstance(arg, torch.fx.Node) else self._argument(arg) for arg in args])

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> torch.fx.Node:  # type: ignore[override]
        """Write down an operator; its results get nodes, also those that it was given."""
        if self.shape_env is not None and self.asserted < len(self.shape_env.checks):
            self.assert_checks()
        node = self.new_node(func, tuple([self._argument(value) for value in args]),
                             {key: self._argument(value) for key, value in kwargs.items() if value is not None}, result)
        self.take_results(result, node)
        if self.data_symbols:
            self._find_data_symbols(result, node)
        return node

    def take_results(self, result: Any, node: torch.fx.Node) -> None:
        """Tensors in a result are from now on what the node gives."""
        if type(result) is FakeTensor:
            self.bind(result, node)
        elif isinstance(result, _SYMBOLIC):
            self.sizes.bind(result, node)
        elif isinstance(result, (tuple, list)):
            for position, item in enumerate(result):
                if isinstance(item, (torch.Tensor, tuple, list, *_SYMBOLIC)):
                    self.take_results(item, self.new_node(getitem, (node, position), {}, item))

    # -----------------------------------------------------------------------------------------------------------------
    # operators

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator on fake tensors, and record it unless it is a part of another."""
        if self._inside:
            return dispatch(self, func, args, kwargs)
        operator = operator_of(func)
        if operator.kind is Kind.QUERY:
            return dispatch(self, func, args, kwargs)
        if operator.name in _LIFTS and type(args[0]) is not FakeTensor:
            return self._lift_fresh(args[0])
        args, kwargs = self._with_fakes(args), {key: self._with_fakes(value) for key, value in kwargs.items()}
        if operator.kind is Kind.RESHAPES:
            self._keep_layout(args[0])
        result = self._assuming(operator, args, kwargs)
        if func is _ATEN.detach.default and _is_made_here(self.node_of(args[0])):
            self.bind(result, self.node_of(args[0]))  # ``torch.zeros`` in C++ detaches what the operator returns
            return result
        self.record(func, args, kwargs, result)
        return result

    def _assuming(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator; questions that only data can answer get the answer that fits most programs.

        Each such answer is a check of the shape environment, and becomes an assertion in the graph.
        """
        env = self.shape_env
        for _ in range(MAX_ASSUMPTIONS):
            try:
                return self._run_operator(operator, args, kwargs)
            except UndecidableError as error:
                if operator.func is _ATEN.slice.Tensor:
                    return self._open_slice(*args, **kwargs)
                answer = None if env is None else plausible(env, error)
                if env is None or answer is None:
                    raise
                try:
                    if not env.check(answer):
                        raise
                except ContradictionError:
                    raise error from None
                self.data_symbols.clear()
        raise DataDependentError(operator.func, "it needs to know too much about sizes that depend on data")

    def _run_operator(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._inside += 1
        try:
            if operator.kind is Kind.COMPOSITE and find_rule(operator.name) is None:
                rule = find_function(operator.name.split(".")[1], args, exports=True)
                return self.run(torch_compat.run_composition, (operator.func, args, kwargs)) if rule is None \
                    else self.run(rule, args, kwargs)
            return dispatch(self, operator.func, args, kwargs)
        finally:
            self._inside -= 1

    def assert_checks(self) -> None:
        """Assertions for what was stated or assumed of numbers from data since the last call."""
        env = self.shape_env
        while env is not None and self.asserted < len(env.checks):
            check = env.checks[self.asserted]
            if not all(self.sizes.knows(symbol) for symbol in check.expr.free_symbols):
                return
            self.asserted += 1
            node = self.sizes.expression(check.expr)
            message = f"{words_of(env, check.expr)} does not hold ({check.provenance})"
            self.new_node(torch_compat.assert_number, (node, message), {}, None)

    def select_at(self, x: torch.Tensor, dim: int, index: Any) -> Any:
        """``x.select(dim, index)`` for an index that only data decides: the operator itself checks it when it runs."""
        if isinstance(index, torch.Tensor):
            index = index.item()
        if not isinstance(index, torch.SymInt) or self.shape_env is None \
                or self.shape_env.hint(expr_of(index)) is not None:
            return x.select(dim, index)
        self._inside += 1
        try:
            result = dispatch(self, _ATEN.select.int, (x, dim, any_place(self, index, shape_of(x)[dim])), {})
        finally:
            self._inside -= 1
        self.record(_ATEN.select.int, (x, dim, index), {}, result)
        return result

    def to_list(self, x: torch.Tensor) -> Any:
        """``x.tolist()``: every element as a number."""
        if x.dim() == 0:
            return x.item()
        return [self.to_list(x.select(0, position)) for position in range(int(x.shape[0]))]

    def _open_slice(self, x: FakeTensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> FakeTensor:
        """``x[:n]`` for an n that may be negative or too large: how much is left is known when the program runs."""
        if not (start is None or start == 0) or step != 1:
            raise DataDependentError("aten.slice.Tensor", "the beginning of a slice depends on the values in a tensor")
        sizes, strides = map(list, layout_of(x))
        sizes[dim] = new_size(self, "a slice", sizes[dim])
        return view_of(x, sizes, strides, offset_of(x))

    def _with_fakes(self, value: Any) -> Any:
        """An argument with tensors from outside made inputs."""
        if isinstance(value, (tuple, list)):
            return type(value)(self._with_fakes(item) for item in value) if any(
                isinstance(item, torch.Tensor) and type(item) is not FakeTensor for item in value) else value
        if isinstance(value, torch.Tensor) and type(value) is not FakeTensor:
            return self.outside(value)
        return value

    def outside(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake of a tensor that is neither input nor parameter: a constant of the program."""
        if self.lift is None:
            raise Unsupported("a tensor from outside of the graph")
        fake = self.from_real(tensor)
        if id(fake) not in self._nodes:
            self.bind(fake, self.lift(tensor, fake))
        return fake

    def from_real(self, t: torch.Tensor, layout: Any = None) -> FakeTensor:
        """As of every mode; the steps that make a view of a fake are not steps of the program."""
        self._inside += 1
        try:
            return super().from_real(t, layout)
        finally:
            self._inside -= 1

    def _lift_fresh(self, tensor: torch.Tensor) -> FakeTensor:
        """``torch.tensor([1, 2])``: its contents are a constant, copied in every call."""
        constant = self.outside(tensor)
        result = dispatch(self, _ATEN.clone.default, (constant,), {})
        self.bind(result, self.new_node(_ATEN.lift_fresh_copy.default, (self.node_of(constant),), {}, result))
        return result

    # -----------------------------------------------------------------------------------------------------------------
    # grad mode

    def grad_mode_changed(self, before: bool, now: bool, ends_region: bool = True) -> None:
        """Write down that the program switches gradients on or off.

        The end of a region puts back what was there before it, whatever that is when the program runs.
        """
        if ends_region and self._grad_regions and self._grad_regions[-1][0] == now:
            self.new_node(set_grad_mode, (self._grad_regions.pop()[1],), {}, None)
            return
        self._grad_regions.append((before, self.new_node(torch.is_grad_enabled, (), {}, before)))
        self.new_node(set_grad_mode, (now,), {}, None)

    def _keep_layout(self, fake: FakeTensor) -> None:
        """``t_`` changes the tensor object itself: its node goes on saying what it was."""
        node = self._nodes.get(id(fake))
        if node is not None and node.meta.get("val") is fake:
            node.meta["val"] = view_of(fake, *layout_of(fake), offset_of(fake))


def is_opaque(value: Any) -> bool:
    """Whether a value is of a class that operators take as it is (``torch._library.opaque_object``)."""
    return any(kind.__module__ == "torch._opaque_base" for kind in type(value).__mro__)


def _is_made_here(node: torch.fx.Node) -> bool:
    """Whether a tensor is made from nothing, so that no gradient can flow from it."""
    return node.op == "call_function" and not any(
        isinstance(other.meta.get("val"), torch.Tensor) for other in node.all_input_nodes)


def _same_place(one: FakeTensor, other: FakeTensor) -> bool:
    return str((tuple(one.shape), one.stride(), one.storage_offset())) == str(
        (tuple(other.shape), other.stride(), other.storage_offset()))


def origin_of(frames: tuple[UserFrame, ...]) -> dict[str, Any]:
    """What a node remembers of where it comes from: the user's lines, torch's own inner ones left out."""
    last = max((at for at, frame in enumerate(frames) if not frame.in_torch), default=len(frames) - 1)
    shown = frames[:last + 1]
    text = "".join(f'  File "{f.filename}", line {f.lineno}, in {f.function}\n    {f.source}\n' for f in shown)
    return {"user_frames": frames, "stack_trace": text}
