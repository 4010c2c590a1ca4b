"""Attention masks that hold no data: those that hide nothing are dropped, those that hide the future are said in words.

    q, k = torch.arange(64)[:, None], torch.arange(64)
    F.scaled_dot_product_attention(x, y, z, attn_mask=k <= q)    becomes    (x, y, z, is_causal=True)
    F.scaled_dot_product_attention(x, y, z, attn_mask=q >= 0)    becomes    (x, y, z)

Libraries build such masks in every call, from sizes alone. Kernels skip half of the work when they know that a mask is
causal, and the fastest of them take no mask at all. A mask that no input of the graph has a part in is known while
tracing, from the operators that were recorded: as a function of its indices (`index_functions`), also where sizes are
symbols, or because it is computed then, once, and looked at. What only the mask needed is dead code.

With dropout that happens only where the kernel stays the same, for the random numbers are the kernel's.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import Enum
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..devices import KINDS, kind_of
from ..fake import FakeTensor
from ..fake.rules.gpu_attention import kernel_of_attention
from ..shapes import Const, Expr
from ..shapes.expr import ONE
from ..shapes.symnode import expr_of
from ..torch_compat import own_functions
from .graph import needed_for
from .index_functions import LAST, TRUE, IndexFunctions
from .operators import Kind, operator_of
from .recorder import Recorder

FUNCTIONS = frozenset({"scaled_dot_product_attention", "scaled_dot_product_attention.default"})
"""What attention is called in graphs of torch functions, and in those of operators."""
PAST = frozenset({LAST[0] - LAST[1]})
"""Where the last index, that of a column, is at most that of its row."""
MOST_ELEMENTS = 1 << 26
"""Of one tensor that is computed while tracing."""
MOST_WORK = 1 << 29
"""Elements of all tensors that are computed for one mask."""


class Hides(Enum):
    """Which scores a mask takes out."""

    NOTHING = "none"
    FUTURE = "those behind the diagonal, what ``is_causal=True`` means"
    OTHER = "others, or they depend on data"


class KnownMasks:
    """What is known of the masks in one recorded graph."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._functions: IndexFunctions | None = None
        self._found: dict[tuple[torch.fx.Node, Expr, Expr], Hides] = {}

    def attention(self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                  is_causal: bool = False, **kwargs: Any) -> Any:
        """``scaled_dot_product_attention``, without a mask where it can do without one."""
        if not is_causal and _may_be_dropped(query, key, attn_mask):
            rows, columns = expr_of(query.size(-2)), expr_of(key.size(-2))
            hides = self._look_at(attn_mask, rows, columns)
            # Kernels of GPUs do not agree on where the diagonal of other than square scores is.
            known = hides is Hides.NOTHING or (
                hides is Hides.FUTURE and (rows is columns or kind_of(query).is_host))
            if known and (dropout_p == 0.0 or _same_kernel(
                    query, key, value, attn_mask, dropout_p, hides is Hides.FUTURE, **kwargs)):
                attn_mask, is_causal = None, hides is Hides.FUTURE
        return own_functions.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, **kwargs)

    def _look_at(self, mask: FakeTensor, rows: Expr, columns: Expr) -> Hides:
        node = self._recorder.node_of(mask)
        known = self._found.get((node, rows, columns))
        if known is None:
            known = self._from_function(node)
            if known is Hides.OTHER and isinstance(rows, Const) and isinstance(columns, Const):
                known = self._from_elements(node, int(rows), int(columns))
            self._found[node, rows, columns] = known
        return known

    def _from_function(self, node: torch.fx.Node) -> Hides:
        if self._functions is None:
            self._functions = IndexFunctions(self._recorder.shape_env)
        functions = self._functions
        functions.of(node)
        condition = functions.condition(node)
        if condition != TRUE and condition != PAST:
            return Hides.OTHER
        for each in needed_for([node]):
            if functions.of(each) is not None:
                each.meta["never_raises"] = True
        return Hides.NOTHING if condition == TRUE else Hides.FUTURE

    def _from_elements(self, node: torch.fx.Node, rows: int, columns: int) -> Hides:
        nodes = _constants_for(node, self._recorder.literals)
        if not nodes:
            return Hides.OTHER
        order = [each for each in self._recorder.graph.nodes if each in nodes]
        try:
            pattern = _compare(_compute(node, order, self._recorder.constants), rows, columns)
        except RuntimeError:  # no memory, or an operator that is not allowed: the program will say so when it runs
            return Hides.OTHER
        for each in nodes:
            each.meta["never_raises"] = True
        return pattern


def _may_be_dropped(query: Any, key: Any, mask: Any) -> bool:
    """Whether the mask is one that attention accepts for these tensors, and nothing but a mask."""
    if not all(type(each) is FakeTensor for each in (query, key, mask)) or torch_compat.functorch_active():
        return False
    if mask.requires_grad or mask.dtype not in (torch.bool, query.dtype) or mask.device != query.device:
        return False
    if query.ndim < 3 or key.ndim != query.ndim or not 2 <= mask.ndim <= query.ndim:
        return False
    scores = (*query.shape[:-1], key.size(-2))
    # A mask with more in it than the scores would make the result larger.
    return all(expr_of(size) in (ONE, expr_of(of))
               for size, of in zip(reversed(mask.shape), reversed(scores), strict=False))


def _same_kernel(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool, **kwargs: Any) -> bool:
    """Whether a GPU's kernel is the same with the mask and without: what it drops is the same then, mask or not."""
    with torch_compat.below_python_key():
        kernel = kernel_of_attention(query, key, value, mask, dropout_p, False, **kwargs)
        return isinstance(kernel, int) and kernel == kernel_of_attention(
            query, key, value, None, dropout_p, is_causal, **kwargs)


def _constants_for(result: torch.fx.Node, literals: Container[str]) -> set[torch.fx.Node]:
    """All nodes that a result depends on, with it; none if data has a part in it, or if it is much work."""
    constants: set[torch.fx.Node] = set()
    work = 0
    open_nodes = [result]
    while open_nodes:
        node = open_nodes.pop()
        if node not in constants:
            work += _elements(node)
            if not _is_constant(node, literals) or work > MOST_WORK:
                return set()
            constants.add(node)
            open_nodes.extend(node.all_input_nodes)
    return constants


def _is_constant(node: torch.fx.Node, literals: Container[str]) -> bool:
    """Whether a node may be computed now, given that all it needs may be."""
    if node.op == "get_attr":
        return node.target in literals
    if node.op != "call_function":
        return False
    if node.target is not getitem:
        if not isinstance(node.target, torch_compat.OpOverload):
            return False
        operator = operator_of(node.target)
        # What new memory holds is nobody's business.
        if operator.kind not in (Kind.PURE, Kind.VIEW) or operator.random or operator.has_effect or \
                "empty" in operator.name or not operator.name.startswith("aten."):
            return False
    return 0 < _elements(node) <= MOST_ELEMENTS


def _elements(node: torch.fx.Node) -> int:
    """How many elements a node's value has; 0 for what is not known."""
    values = node.meta.get("val")
    total = 0
    for value in values if isinstance(values, (tuple, list)) else (values,):
        if not isinstance(value, torch.Tensor) or torch_compat.has_symbolic_layout(value):
            return 0
        total += value.numel()
    return total


def _compute(wanted: torch.fx.Node, nodes: Sequence[torch.fx.Node],
             constants: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The value of a node. On its own device, or on the CPU where the device is not there."""
    values: dict[torch.fx.Node, Any] = {}

    def plain(argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return values[argument]
        if isinstance(argument, (tuple, list)):
            return [plain(item) for item in argument]
        if isinstance(argument, torch.device) and argument.type in KINDS and not kind_of(argument).is_there():
            return torch.device("cpu")
        return argument

    last_use = {source: node for node in nodes for source in node.all_input_nodes}
    with torch_compat.below_python_key(), torch.no_grad(), torch_compat.autocast_disabled():
        for node in nodes:
            if node.op == "get_attr":
                values[node] = constants[str(node.target)]
                continue
            target: Any = node.target
            values[node] = target(*plain(node.args), **{key: plain(item) for key, item in node.kwargs.items()})
            for source in node.all_input_nodes:
                if last_use[source] is node:
                    values.pop(source, None)
        result: torch.Tensor = values[wanted]
    return result


def _compare(mask: torch.Tensor, rows: int, columns: int) -> Hides:
    with torch_compat.below_python_key(), torch.no_grad():
        visible = mask if mask.dtype is torch.bool else mask == 0
        if bool(visible.all()):
            return Hides.NOTHING
        past = torch.ones(rows, columns, dtype=torch.bool, device=mask.device).tril()
        # A row that is hidden altogether, or one that shows more than the past, differs here.
        if not bool((visible == past).all()):
            return Hides.OTHER
        if mask.dtype is torch.bool or bool(torch.logical_or(visible, mask == -torch.inf).all()):
            return Hides.FUTURE
        return Hides.OTHER


__all__ = ["FUNCTIONS", "Hides", "KnownMasks"]
