"""From a functional ATen graph to computations: one node after the other, through the table of lowerings."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
import torch.fx

from ... import logs, shapes, torch_compat
from ...functional.graph import Unsupported
from ...functional.operators import REFUSED
from ...functional.size_nodes import Doubt, symbols_told
from ...shapes import Expr, Facts, Symbol
from ...shapes.symnode import SymNode, expr_of
from . import complex_numbers, policy
from .cleanup import remove_unread
from .context import CPU, Lowering
from .cpu_numbers import input_numbers, number_of, numbers_among, numbers_in_memory, takes_numbers
from .fallback import call_aten
from .graph import LoweredGraph
from .index_checks import assert_early, check_last
from .random_numbers import is_reserve, reserved
from .registry import find_lowering
from .tensors import Computed, Spec, Stored, Tensor, View

_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
DTYPES = frozenset({
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
})  # fmt: skip
"""What values can be."""
_COMPLEX = "dtype complex"


def lower(module: torch.fx.GraphModule, facts: Facts | None = None, device: torch.device = CPU,
          without: Collection[torch.fx.Node] = (), apart: Collection[torch.fx.Node] = (),
          recorded: bool = False) -> LoweredGraph:
    """Lower a functional ATen graph whose nodes have their fake results in ``meta["val"]``.

    ``facts`` are what is known of the symbols in sizes; when not given, those of the symbols' own environment. Kernels
    are for ``device``; what is on another is left to ATen, and so are the nodes ``without`` kernels. The results of the
    nodes ``apart`` are put into memory. Where launches are ``recorded``, numbers on the CPU are too.
    """
    return _Lowerer(module, facts, device, without, apart, recorded).run()


class _Lowerer:
    def __init__(self, module: torch.fx.GraphModule, facts: Facts | None, device: torch.device,
                 without: Collection[torch.fx.Node], apart: Collection[torch.fx.Node], recorded: bool) -> None:
        self.module = module
        self.recorded = recorded
        self.device = device
        self.without = without
        self.apart = apart
        self.ctx = Lowering(facts if facts is not None else _facts_of(module.graph), device)
        conditions = [node.meta["condition"] for node in module.graph.nodes if "condition" in node.meta]
        self.stated = {symbol for condition in conditions for symbol in condition.free_symbols}
        self.values: dict[torch.fx.Node, Any] = {}
        self.exotic: dict[torch.fx.Node, str] = {}
        self.weights: dict[torch.fx.Node, int] = {}
        self.doubts: dict[Symbol, Doubt] = {}
        self.numbers: dict[torch.fx.Node, Tensor] = {}
        """Tensors on the CPU as numbers of kernels on another device."""

    def run(self) -> LoweredGraph:
        graph = self.ctx.graph
        self.ctx._names.update(node.name for node in self.module.graph.nodes)
        for node in self.module.graph.nodes:
            self.ctx.node = node
            match node.op:
                case "placeholder":
                    self.values[node] = self._placeholder(node)
                case "get_attr":
                    self.values[node] = self._attribute(node)
                case "call_function":
                    self.values[node] = self._call(node)
                case "output":
                    graph.outputs = self._outputs(node)
                case _:
                    raise AssertionError(f"{node.op} in a functional graph")
        remove_unread(graph)
        check_last(graph)
        assert_early(graph)
        if graph.fallbacks and logs.enabled("fallbacks"):
            for fallback in graph.fallbacks:
                logs.log("fallbacks", "%s calls %s: %s", fallback.node, fallback.operator, fallback.reason)
        return graph

    # Inputs and constants

    def _placeholder(self, node: torch.fx.Node) -> Any:
        ctx, value = self.ctx, node.meta["val"]
        if isinstance(value, torch.Tensor):
            stored = ctx.new_buffer(ctx.described(value), "input", node.name)
            ctx.graph.inputs.append(ctx.graph.buffers[node.name])
            self._find_input_symbols(stored, node.name)
            # A size that the program states to be a number from its data is still to be compared with that.
            names = [expr if expr in self.stated else None for expr in node.meta.get("size_names", {}).get(0, ())]
            self._find_symbols(node.name, names)
            return stored
        if isinstance(value, _NUMBERS):
            expr = expr_of(value)
            ctx.graph.inputs.append(expr if isinstance(expr, Symbol) else shapes.symbol(node.name, expr.kind))
            return _plain(expr)
        ctx.graph.inputs.append(shapes.symbol(node.name))  # an input that the graph does not use, such as None
        return value

    def _find_symbols(self, name: str, sizes: Sequence[Expr | None]) -> None:
        """Note which symbols the sizes of a tensor tell."""
        for dim, expr in enumerate(sizes):
            if isinstance(expr, Symbol):
                self.ctx.graph.symbols.setdefault(expr, (name, "size", dim))

    def _find_input_symbols(self, stored: Stored, name: str) -> None:
        """Note which symbols an input tells, each by the place that is least in doubt."""
        for symbol, kind, dim, doubt in symbols_told(stored.shape, stored.strides):
            if symbol not in self.doubts or doubt < self.doubts[symbol]:
                self.ctx.graph.symbols[symbol] = (name, kind, dim)
                self.doubts[symbol] = doubt

    def _attribute(self, node: torch.fx.Node) -> Any:
        value: Any = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return value
        self.ctx.graph.constants[node.name] = value
        return self.ctx.new_buffer(Spec.of(node.meta.get("val", value)), "constant", node.name)

    # Operators

    def _call(self, node: torch.fx.Node) -> Any:
        if node.target is operator.getitem:
            source = self.values[node.args[0]]  # type: ignore[index]
            part = source[node.args[1]]
            # Of several results only those that are used show who uses them.
            if isinstance(part, Computed) and part.memory is None and self._belongs_in_memory(node, part, 1):
                self.ctx.realize(part)
            return part
        result = node.meta.get("val")
        if isinstance(result, _NUMBERS):
            expr = expr_of(result)
            # A number that data decides is new here; others are made of sizes and inputs.
            if not (isinstance(node.target, torch_compat.OpOverload) and _reads_data(node)):
                return _plain(expr)
        if is_reserve(node):
            return reserved(self.ctx, node)
        args = [self._argument(arg) for arg in node.args]
        kwargs = {name: self._argument(arg) for name, arg in node.kwargs.items()}
        ctx, name = self.ctx, str(node.target)
        condition = node.meta.get("condition")
        if condition is not None and all(
                symbol in ctx.graph.symbols or symbol in ctx.graph.inputs for symbol in condition.free_symbols):
            args[0] = condition  # the value of its node may be known to be true
        elif condition is not None and not isinstance(args[0], Expr):
            raise Unsupported(f"a condition on a size that kernels are not told: {condition}")
        results = result if isinstance(result, tuple | list) else (result,)
        ctx.outs = tuple([ctx.described(r) if isinstance(r, torch.Tensor) else None for r in results])
        function = find_lowering(name)
        reason = "no lowering" if function is None else self._exotic(node)
        if node in self.without:
            function, reason = None, "no kernel for this device"
        if REFUSED in node.meta:
            function, reason = None, "eager raises an error"
        if function is not None and name in complex_numbers.NAMES and reason.startswith(_COMPLEX):
            reason = ""
        if function is not None and (not reason or name in policy.VIEWS):
            ctx.reason = ""
            counts = len(ctx.graph.operations), len(ctx.graph.fallbacks)
            if self._takes_numbers(node):
                numbered = [self._on_device(node, arg, given) for arg, given in zip(node.args, args, strict=True)]
                lowered = function(ctx, *numbered, **{
                    key: self._on_device(node, node.kwargs[key], given) for key, given in kwargs.items()})
            else:
                lowered = function(ctx, *args, **kwargs)
            if lowered is not NotImplemented and not (reason and _needs_values(lowered)):
                return self._settle(node, lowered)
            # What a lowering put into memory on its way stays useful; computations that nobody reads are dropped later.
            assert counts[1] == len(ctx.graph.fallbacks)
            reason = reason or ctx.reason or "these arguments"
        if isinstance(node.target, torch_compat.OpOverload):
            ctx.fall_back(name, reason)
        return call_aten(ctx, node, args, kwargs, self._find_symbols)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, torch.fx.Node):
            return self.values[arg]
        if isinstance(arg, list | tuple):
            return type(arg)([self._argument(part) for part in arg])
        if isinstance(arg, slice):
            return slice(self._argument(arg.start), self._argument(arg.stop), self._argument(arg.step))
        if isinstance(arg, dict):
            return {key: self._argument(part) for key, part in arg.items()}
        return _plain(expr_of(arg)) if isinstance(arg, torch.SymInt | torch.SymFloat | torch.SymBool) else arg

    def _takes_numbers(self, node: torch.fx.Node) -> bool:
        return not self.ctx.kind.is_host and takes_numbers(node)

    def _on_device(self, node: torch.fx.Node, arg: Any, value: Any) -> Any:
        """An operand, where it is a number on the CPU as a tensor that kernels can compute with."""
        if not isinstance(arg, torch.fx.Node) or arg not in numbers_among(node):
            return value
        if arg not in self.numbers and (not self.recorded or arg.op == "get_attr"):
            self.numbers[arg] = number_of(self.ctx, value)
        elif arg not in self.numbers:
            # With the first of the graph's inputs come all others: they are copied at once.
            together = list(input_numbers(self.module.graph)) if arg.op == "placeholder" else [arg]
            self.numbers.update(zip(together, numbers_in_memory(self.ctx, [self.values[each] for each in together]),
                                    strict=True))
        return self.numbers[arg]

    def _exotic(self, node: torch.fx.Node) -> str:
        """Why none of our lowerings can be used, for reasons of dtype, device and size of numbers."""
        if any(type(arg) is int and not -(2**63) <= arg < 2**63 for arg in (*node.args, *node.kwargs.values())):
            return "a number that 64 bits do not hold, which eager may refuse"
        if any(type(arg) is complex for arg in (*node.args, *node.kwargs.values())):
            return "a complex number"
        numbers = numbers_among(node) if self._takes_numbers(node) else ()
        for source in (node, *node.all_input_nodes):
            if source in numbers:
                continue
            reason = self.exotic.get(source)
            if reason is None:
                reason = self.exotic[source] = _exotic(source.meta.get("val"), self.device)
            if reason:
                return reason
        return ""

    def _settle(self, node: torch.fx.Node, lowered: Any) -> Any:
        """Check a result against eager's description and decide whether it goes to memory now."""
        if isinstance(lowered, tuple | list):
            for part, spec in zip(lowered, self.ctx.outs, strict=True):
                if part is not None:
                    self._check(node, part, spec)
            return lowered
        self._check(node, lowered, self.ctx.outs[0])
        if isinstance(lowered, View) and lowered.memory is None:
            lowered.eager_strides = self.ctx.out.strides
        weight = 1 + sum(self.weights.get(arg, 0) for arg in node.all_input_nodes)
        if isinstance(lowered, Computed) and lowered.memory is None and self._belongs_in_memory(node, lowered, weight):
            self.ctx.realize(lowered)
        self.weights[node] = 0 if lowered.stored() is not None else weight
        return lowered

    def _check(self, node: torch.fx.Node, tensor: Tensor, spec: Spec | None) -> None:
        assert spec is not None and tensor.dtype is spec.dtype, f"{node.target}: {tensor.dtype}, eager {spec}"
        assert len(tensor.shape) == len(spec.shape), f"{node.target}: {tensor.shape}, eager {spec.shape}"

    def _belongs_in_memory(self, node: torch.fx.Node, tensor: Computed, weight: int) -> bool:
        users = set(policy.consumers(node))
        if node in self.apart or any(policy.needs_memory(user) for user in users):
            return True
        if len(users) <= 1 and weight <= policy.SMALL_CHAIN:
            return False
        axes, indices = self.ctx.axes(tensor.shape)
        cost = policy.cost_of(tensor.at(indices), frozenset(axis.symbol for axis in axes))
        return policy.is_too_large(cost) or (len(users) > 1 and not policy.is_cheap(cost))

    # Results

    def _outputs(self, node: torch.fx.Node) -> list[Any]:
        returned = node.args[0]
        wanted = list(returned) if isinstance(returned, tuple | list) else [returned]
        owners: dict[str, torch.fx.Node] = {}
        return [self._output(part, owners) for part in wanted]

    def _output(self, part: Any, owners: dict[str, torch.fx.Node]) -> Any:
        value = self._argument(part)
        if not isinstance(value, Tensor):
            return value
        assert isinstance(part, torch.fx.Node)
        spec, root = Spec.of(part.meta["val"]), _root(part)
        stored = self.ctx.realize_as(value, spec.strides)
        kind = self.ctx.graph.buffers[stored.buffer].kind
        # In eager a result shares memory with an input or another result only if it is a view of it.
        borrowed = root.op not in ("placeholder", "get_attr") and kind in ("input", "constant")
        if borrowed or owners.setdefault(stored.buffer, root) is not root:
            stored = self.ctx.copy(value, spec.strides)
            owners[stored.buffer] = root
        return self.ctx.reference(stored, spec.strides)


def _plain(expr: Expr) -> Any:
    """Constants as Python numbers."""
    return expr.value if expr.is_constant else expr  # type: ignore[attr-defined]


def _exotic(value: Any, device: torch.device) -> str:
    for tensor in value if isinstance(value, tuple | list) else (value,):
        if isinstance(tensor, torch.Tensor):
            if tensor.dtype not in DTYPES:
                return f"dtype {str(tensor.dtype).removeprefix('torch.')}"
            # Kernels compute on one device, into memory of that device.
            if tensor.device.type != device.type or (tensor.device.index or 0) != (device.index or 0):
                return f"device {tensor.device}"
    return ""


def _reads_data(node: torch.fx.Node) -> bool:
    return any(isinstance(source.meta.get("val"), torch.Tensor) for source in node.all_input_nodes) and (
        not str(node.target).startswith("aten.sym_")
    )


def _needs_values(lowered: Any) -> bool:
    """Whether a view of a dtype that values cannot have is more than another look at memory."""
    parts = lowered if isinstance(lowered, tuple | list) else (lowered,)
    return any(part.stored() is None for part in parts)


def _root(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory a view looks at."""
    while node.op == "call_function" and (node.target is operator.getitem or str(node.target) in policy.VIEWS):
        source = node.args[0]
        if not isinstance(source, torch.fx.Node):
            break
        node = source
    return node


def _facts_of(graph: torch.fx.Graph) -> Facts | None:
    """What is known of the symbols in a graph: those of its inputs, or of sizes that only data decides on."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for part in value if isinstance(value, tuple | list) else (value,):
            numbers = (*part.shape, *part.stride()) if isinstance(part, torch.Tensor) else (part,)
            for number in numbers:
                if isinstance(number, torch.SymInt | torch.SymFloat) and isinstance(number.node, SymNode):
                    return number.node.shape_env.env.facts
    return None
