"""Results of torch functions that C++ takes apart in ways that need plain sizes, for tensors with symbolic sizes.

The recurrent networks of torch walk over time in C++ before any operator reaches the fake tensors. Here their results
are described as a whole: nothing is known of their inside, only sizes, layouts and what gradients flow from. Their
cells, one step in time, are written out in the operators that they consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from ..devices import kind_of
from ..torch_compat import forward_ad_active, own_functions
from ..torch_compat import pytrees as pytree
from .dims import require_equal, shape_of
from .packed_sequences import PACKING
from .products import adds_in_place, linear, matmul
from .resampling import RESAMPLING, interpolate
from .tensor import FakeUnsupported
from .value_checks import VALUE_CHECKS

FunctionRule = Callable[..., Any]


def find_function(name: str, args: Sequence[Any], exports: bool = False,
                  kwargs: Mapping[str, Any] = MappingProxyType({})) -> FunctionRule | None:
    """The rule of a torch function or operator for these arguments; None when it runs as it is."""
    rule = _RULES.get(short_name(name))
    if rule is max_pool1d:  # torch's own function has no `return_indices`, and that of torch.nn.functional is Python
        return None if exports or len(args) > 6 or "return_indices" in kwargs else rule
    if rule in _ALWAYS:
        return rule
    if rule is None or not (any(is_symbolic(arg) for arg in args[:2]) or _needs_memory(name, args, exports)
                            or rule is linear and _adds_in_place(*args, **kwargs)):
        return None
    return None if torch.is_autocast_enabled(args[0].device.type) else rule


def find_composition(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FunctionRule | None:
    """The rule of an operator of ATen that a graph has in one piece; None where C++ takes it apart."""
    if op is torch.ops.aten.linear.default:
        is_plain = not torch.is_autocast_enabled(args[0].device.type)
        return linear if is_plain and _adds_in_place(*args, **kwargs) else None
    return find_function(op.__name__, args) if op.__name__.endswith(".vec") else None


def short_name(name: str) -> str:
    """The function that an operator stands for.

    >>> short_name("lstm.input"), short_name("upsample_nearest2d.vec"), short_name("linear")
    ('lstm', 'upsample_nearest2d', 'linear')
    """
    short, _, overload = name.partition(".")
    return short if overload in ("vec", "input", "data") else name


def _needs_memory(name: str, args: Sequence[Any], exports: bool) -> bool:
    """Whether a network looks for its parameters in memory, as cuDNN's do. Where gradients are wanted that is left to
    Python, except in programs that are exported."""
    if not is_described(name) or not isinstance(args[0], torch.Tensor) or not kind_of(args[0]).has_cudnn:
        return False
    leaves = pytree.tree_leaves(list(args))
    return exports or not (torch.is_grad_enabled() and any(
        isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves))


def _adds_in_place(x: Any, weight: Any = None, bias: Any = None, **others: Any) -> bool:
    return isinstance(x, torch.Tensor) and isinstance(bias, torch.Tensor) and adds_in_place(x, bias)


def is_described(name: str) -> bool:
    """Whether a function's rule only describes its results; the other rules compute what the function does."""
    return short_name(name) in _NETWORKS


def is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor some of whose sizes are symbols."""
    return isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape)


def _network(data: torch.Tensor, second: Any, third: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """Of packed sequences: data, batch sizes, state or states, parameters, ...; others come without batch sizes."""
    packed = isinstance(rest[0], (list, tuple))
    state, parameters = (third, rest[0]) if packed else (second, third)
    states = [state] if isinstance(state, torch.Tensor) else list(state)
    _, _, dropout, train, bidirectional = rest[1:6] if packed else rest[:5]
    if packed:
        output = data.new_empty((data.size(0), _width(states[0], bidirectional)))
    else:
        output = _padded_output(data, states[0], bidirectional, batch_first=rest[5])
    return _results(output, states, [data, *states, *parameters], dropout if train else 0.0)


def _width(state: torch.Tensor, bidirectional: bool) -> Any:
    return state.size(-1) * (2 if bidirectional else 1)


def _padded_output(data: torch.Tensor, state: torch.Tensor, bidirectional: bool, batch_first: bool) -> torch.Tensor:
    """Memory is in the order of time, whatever the order of dimensions."""
    width = _width(state, bidirectional)
    if batch_first:
        return data.new_empty((data.size(1), data.size(0), width)).transpose(0, 1)
    return data.new_empty((data.size(0), data.size(1), width))


def _results(output: torch.Tensor, states: Sequence[torch.Tensor], used: Sequence[torch.Tensor],
             dropout: float) -> tuple[torch.Tensor, ...]:
    results = [output, *(torch.empty(state.shape, dtype=state.dtype, device=state.device) for state in states)]
    if dropout:
        results[0] = torch.nn.functional.dropout(output, dropout, True)  # so that random numbers count as drawn
    learned = [t for t in used if t.requires_grad]
    if learned and torch.is_grad_enabled():
        # The results depend on each of these: a sum of single elements says so to autograd.
        link = sum(t[(0,) * t.dim()] for t in learned)
        results = [result + link for result in results]
    return tuple(results)


# ---------------------------------------------------------------------------------------------------------------------
# cells


def _gates(data: torch.Tensor, hidden: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor, b_ih: torch.Tensor | None,
           b_hh: torch.Tensor | None) -> torch.Tensor:
    _check_states(data, hidden)
    return own_functions.linear(hidden, w_hh, b_hh).add_(own_functions.linear(data, w_ih, b_ih))


def _check_states(data: torch.Tensor, hidden: torch.Tensor) -> None:
    """Leave a step to eager that has not one state for each row of data, where sums would repeat it."""
    if data.dim() != 2 or hidden.dim() != 2 or not require_equal(*(shape_of(t)[0] for t in (data, hidden))):
        raise FakeUnsupported("a recurrent cell", "operands that do not fit together, an error in eager")


def _lstm_cell(data: torch.Tensor, states: Sequence[torch.Tensor], w_ih: torch.Tensor, w_hh: torch.Tensor,
               b_ih: torch.Tensor | None = None, b_hh: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    hidden, cell = states
    enter, forget, change, leave = _gates(data, hidden, w_ih, w_hh, b_ih, b_hh).chunk(4, 1)
    cell = (forget.sigmoid() * cell).add_(enter.sigmoid() * change.tanh())
    return leave.sigmoid() * cell.tanh(), cell


def _gru_cell(data: torch.Tensor, hidden: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor,
              b_ih: torch.Tensor | None = None, b_hh: torch.Tensor | None = None) -> torch.Tensor:
    _check_states(data, hidden)
    ours = own_functions.linear(data, w_ih, b_ih).chunk(3, 1)
    theirs = own_functions.linear(hidden, w_hh, b_hh).chunk(3, 1)
    reset, update = (theirs[0] + ours[0]).sigmoid(), (theirs[1] + ours[1]).sigmoid()
    new = (ours[2] + theirs[2] * reset).tanh()
    return (hidden - new).mul_(update).add_(new)


def _tanh_cell(*args: Any) -> torch.Tensor:
    return _gates(*args).tanh()


def _relu_cell(*args: Any) -> torch.Tensor:
    return _gates(*args).relu()


_NETWORKS = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})


def one_hot(x: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    """By rows, as eager fills it; torch compares with a range where tensors have no values, in the order of ``x``."""
    return own_functions.one_hot(x.contiguous() if isinstance(x, torch.Tensor) else x, num_classes)


def max_pool1d(x: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    """By rows where no gradient is wanted: eager has a kernel of its own then, which torch takes for no fake tensor."""
    if (isinstance(x, torch.Tensor) and x.ndim == 3 and kind_of(x).is_host
            and not (x.requires_grad and torch.is_grad_enabled()) and not forward_ad_active()):
        x = x.contiguous()
    arguments = tuple(() if position == 1 and value is None else value for position, value in enumerate(arguments))
    if keywords.get("stride", ()) is None:
        keywords = {**keywords, "stride": ()}
    return own_functions.max_pool1d(x, *arguments, **keywords)


CELLS: dict[str, FunctionRule] = {
    "lstm_cell": _lstm_cell,
    "gru_cell": _gru_cell,
    "rnn_tanh_cell": _tanh_cell,
    "rnn_relu_cell": _relu_cell,
}
"""One step in time, of the data, the state or states, and the parameters."""
_RULES: dict[str, FunctionRule] = {
    "one_hot": one_hot,
    "max_pool1d": max_pool1d,
    **dict.fromkeys(_NETWORKS, _network),
    **CELLS,
    "matmul": matmul,
    "linear": linear,
    "interpolate": interpolate,
    **RESAMPLING,
    **VALUE_CHECKS,
    **PACKING,
}
_ALWAYS = frozenset({one_hot, *VALUE_CHECKS.values(), *PACKING.values()})
"""Those that stand for torch's functions whatever the sizes are."""
