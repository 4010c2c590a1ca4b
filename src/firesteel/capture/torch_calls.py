"""Calls that become operations of the graph: run on fake tensors, recorded as a node, result wrapped."""

from __future__ import annotations

import functools
import math
import operator
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..fake import DataDependentError, FakeTensor, FakeUnsupported, refused_values, wants_plain_sizes
from ..fake.agreement import require_of_function
from ..fake.dims import contiguous_strides, known_equal, layout_of, offset_of
from ..fake.functions import find_function
from ..fake.positions import get_item, has_positions, set_item
from ..fake.rules.data_dependent import new_number
from ..fake.rules.strides import is_contiguous
from ..functional.jagged_tensors import is_jagged
from ..functional.wrapper_tensors import is_wrapper_class, parts_of
from ..shapes import ContradictionError, Symbol, UndecidableError, as_expr, le, ne, not_
from ..shapes.symnode import expr_of, make_symbolic
from .assertions import MAX_ASSUMPTIONS, assert_assumptions, assume, depends_on_data, plausible, typical
from .break_reasons import written_name
from .eager_errors import eager_error
from .graph import TALKS
from .graph_arguments import to_graph, with_numpy_dtype
from .graph_functions import (
    DEVIATIONS,
    FACTORIES,
    FROM_DATA,
    INTEGERS,
    ITEM_METHODS,
    LAYOUT_QUESTIONS,
    LAZINESS,
    NOT_DETERMINISTIC,
    RESHAPES,
    TAKES_SIZES,
    TRUTHS,
    UNINITIALISED,
    VALUE_ONLY,
)
from .jagged_tensors import find_lengths, jagged_attention
from .program_state import watched
from .python_warnings import Warns, run_in_c, run_or_warn, warn_at_line
from .signals import GraphBreak, is_about_views
from .source import AttrSource, ConstantSource
from .sparse_tensors import SparseValue
from .storages import LOOKING, guard_places
from .tensors_of_arrays import with_tensors
from .undecidable import SYMBOLIC, Undecidable, sizes_in, static_needed, undecidable
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.generators import RandomGenerator
from .values.jagged_tensors import JaggedTensorValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue
from .values.wrapper_tensors import WrapperTensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


_IN_TRY = "in a try block, which may handle that another process is gone"


def too_few_elements(tx: Tracer, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether std or var has no degree of freedom: torch warns of that, at the line of the call.

    Where data decides, the graph is for the case that it has: backward divides by their number.
    """
    tensor, rest = (args[0], args[1:]) if args else (kwargs.get("input"), [])
    dims = kwargs.get("dim", rest[0] if rest and not isinstance(rest[0], bool) else None)
    unbiased = kwargs.get("unbiased", next((value for value in rest if isinstance(value, bool)), True))
    correction = kwargs.get("correction", 1 if unbiased else 0)
    if isinstance(dims, int):
        dims = (dims,)
    if not isinstance(tensor, torch.Tensor) or not isinstance(correction, (int, float)) or \
            not all(type(dim) is int and -tensor.dim() <= dim < tensor.dim() for dim in dims or ()):
        return False
    count: Any = 1
    for dim in dims or range(tensor.dim()):
        count = count * tensor.shape[dim]
    if not isinstance(count, SYMBOLIC):
        return not tx.compiler.fullgraph and bool(count <= correction)
    condition = le(expr_of(count), as_expr(correction))
    if tx.shape_env.is_backed(tx.shape_env.replace(condition)):
        return not tx.compiler.fullgraph and tx.symbols.decide(condition)
    return not assume(tx, not_(condition)) and not tx.compiler.fullgraph


def call_torch(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Record one operation; a string target is a tensor method."""
    target = torch_compat.operator_of_definition(target)
    if torch_compat.group_called(target, args) is not None and any(frame.is_in_try for frame in tx.frames):
        raise GraphBreak(f"a collective {_IN_TRY}")
    overrides = tx.torch_functions
    # what the first arguments are decides on the way; looking at them may show that a class is to be asked
    is_sparse = bool(args) and isinstance(args[0].realize(), SparseValue)
    draws = "generator" in kwargs and isinstance(kwargs["generator"].realize(), RandomGenerator)
    if (overrides.has_overrides or overrides.modes) and overrides.concern(tx, args, kwargs):
        return overrides.call(tx, target, args, kwargs)
    if is_sparse:
        return tx.call_sparse(target, args, kwargs)
    if draws:
        return tx.draw_tensor(target, args, kwargs)
    if torch.are_deterministic_algorithms_enabled():
        return _call_deterministic(tx, target, args, kwargs)
    return _call(tx, target, args, kwargs)


def _call_deterministic(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An operation while deterministic algorithms are asked for: torch refuses some, and fills new memory."""
    name = (target if isinstance(target, str) else getattr(target, "__name__", "")).partition(".")[0]
    if name in NOT_DETERMINISTIC:
        raise GraphBreak(f"{_title(target)} is refused where deterministic algorithms are asked for")
    result = _call(tx, target, args, kwargs)
    if name in UNINITIALISED and isinstance(result, TensorValue):
        settings: Any = torch.utils.deterministic
        fills = AttrSource(ConstantSource.of(settings, "torch.utils.deterministic"), "fill_uninitialized_memory")
        if tx.truth(tx.wrap(settings.fill_uninitialized_memory, fills)):
            dtype = result.fake.dtype
            plain = dtype is torch.bool or not (dtype.is_floating_point or dtype.is_complex)
            value = (dtype is torch.bool or torch.iinfo(dtype).max) if plain else math.nan
            _call(tx, "fill_", [result.call_method(tx, "detach", [], {}) if result.fake.requires_grad else result,
                                ConstantValue(value)], {})
    return result


def _call(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    keep_numbers = name in VALUE_ONLY
    if isinstance(target, type(operator.add)) and target in _METHOD_OF:
        keep_numbers = keep_numbers or isinstance(args[0].realize(), (ConstantValue, NumberValue))
    if name in FROM_DATA:
        target, args = with_tensors(tx, target, args, kwargs)
        if target == "to":
            asked_for = kwargs.pop("requires_grad", None)
            copy = _call(tx, target, args, kwargs)
            return copy if asked_for is None or not tx.truth(asked_for) else _call(tx, "requires_grad_", [copy], {})
        kwargs = with_numpy_dtype(tx, args, kwargs)
    asked = tx.torch_functions.has_overrides
    if name == "scaled_dot_product_attention":
        kwargs = {key: _decided(tx, value) for key, value in kwargs.items()}
    if name == "copy_" and len(args) > 1 and isinstance(args[1].realize(), (ConstantValue, NumberValue)):
        args = [args[0], _call(tx, torch.tensor, [args[1]], {}), *args[2:]]
    if name == "narrow" and len(args) > 2 and isinstance(start := args[2].realize(), TensorValue) and \
            not start.fake.dim() and start.fake.dtype in INTEGERS:
        args = [*args[:2], start.item(tx), *args[3:]]  # the function itself would read it
    if name in TAKES_SIZES:
        own = 0 if name in FACTORIES else 1  # the tensor that it is done to
        args = [*args[:own], *(_known_size(tx, arg) for arg in args[own:])]
    pairs = [to_graph(tx, arg, keep_numbers) for arg in args]
    named = {key: to_graph(tx, value, keep_numbers) for key, value in kwargs.items()}
    if not asked and tx.torch_functions.has_overrides and tx.torch_functions.concern(tx, args, kwargs):
        return tx.torch_functions.call(tx, target, args, kwargs)  # which only shows when arguments are looked at
    fake_args, fake_kwargs = [p[1] for p in pairs], {k: p[1] for k, p in named.items()}
    node_args, node_kwargs = tuple(p[0] for p in pairs), {k: p[0] for k, p in named.items()}
    if name in TRUTHS and _has_tensor(fake_args):
        return data_truth(tx, target, name, node_args, node_kwargs)
    if name in DEVIATIONS and not tx.compiler.exports and too_few_elements(tx, fake_args, fake_kwargs):
        raise GraphBreak(f"{name}() of fewer elements than its correction warns", "pass a smaller correction")
    if name in LAZINESS and tx.fake.lazy_views:
        raise GraphBreak(f"{_title(target)}: which tensors are conjugated or negated lazily is not captured")
    if name in LOOKING:
        guard_places(tx, name, fake_args, fake_kwargs)
    begun: tuple[str, ...] = ()
    wrappers = wrappers_in([*fake_args, *fake_kwargs.values()])
    if wrappers or isinstance(target, type) and is_wrapper_class(target):
        result, begun = _run_on_wrappers(tx, target, name, fake_args, fake_kwargs, wrappers)
    elif any(is_jagged(arg) for arg in fake_args):
        tensors = [tensor for arg in args if isinstance(tensor := arg.realize(), JaggedTensorValue)]
        if name == "scaled_dot_product_attention":
            return jagged_attention(tx, tensors, args, kwargs)
        try:
            result = run_assuming(tx, target, name, fake_args, fake_kwargs)
        except GraphBreak:
            if not find_lengths(tx, tensors):
                raise
            return _call(tx, target, args, kwargs)
    else:
        result = run_assuming(tx, target, name, fake_args, fake_kwargs)
    assert_assumptions(tx, ready=False)
    if isinstance(result, SYMBOLIC) and isinstance(symbol := expr_of(result), Symbol) and symbol in _new_symbols(tx):
        node = tx.graph.call(target, node_args, node_kwargs, tx.user_frames())
        tx.effects.version += 1
        node.meta["example_value"] = result
        tx.number_nodes.bind(symbol, node)
        assert_assumptions(tx, ready=True)
        return tx.symbols.number(symbol)
    if not _has_tensor(result) and result is not None:
        if not _is_plain_result(result):
            raise GraphBreak(f"{_title(target)} returned a {type(result).__name__}, which is no tensor")
        if not any(_has_tensor(a) for a in fake_args) and _draws_from_outside(name):
            raise GraphBreak(f"{_title(target)} is not captured")
        if name in LAYOUT_QUESTIONS and not layout_is_certain(tx, fake_args[0]):
            raise GraphBreak(f"{_title(target)}: how the tensor lies in memory depends on data")
        return tx.python_object(result)
    node = tx.graph.call(target, node_args, node_kwargs, tx.user_frames())
    tx.effects.version += 1
    node.meta["example_value"] = result
    _note_groups(tx, node, begun)
    value = wrap_result(tx, node, result)
    if tx.fake.data_symbols:
        node.meta["example_sizes"] = _sizes(result)
        place_symbols(tx, node, value)
    assert_assumptions(tx, ready=True)
    _lay_out_data(tx, args)
    return value


def _run_on_wrappers(tx: Tracer, target: Any, name: str, args: list[Any], kwargs: dict[str, Any],
                     wrappers: list[Any]) -> tuple[Any, tuple[str, ...]]:
    """Execute on fake tensors that are made of others: the result, and the groups of processes that were talked to."""
    classes = [*dict.fromkeys([*map(type, wrappers), *([target] if isinstance(target, type) else [])])]
    tx.fake.groups.clear()
    with watched(tx, classes, wrappers):
        result = run_assuming(tx, target, name, args, kwargs)
    if tx.fake.groups and any(frame.is_in_try for frame in tx.frames):
        raise GraphBreak(f"{_title(target)}: a collective {_IN_TRY}")
    return result, tuple(tx.fake.groups)


def _note_groups(tx: Tracer, node: Any, groups: tuple[str, ...]) -> None:
    """Collectives begin inside of an operation, on tensors that are spread over processes."""
    if groups:
        node.meta[TALKS] = True
        tx.graph.groups.update(dict.fromkeys(groups))


def _lay_out_data(tx: Tracer, changed: list[Value]) -> None:
    """What becomes a tensor's data behind the graph lies as the tensor does, after ``x.unsqueeze_(0)`` too."""
    for x in [value.realize() for value in changed]:
        data = x.attrs.get("data") if isinstance(x, TensorValue) and x.attrs else None
        if isinstance(x, TensorValue) and isinstance(data, TensorValue) and not _lie_alike(x.fake, data.fake):
            del x.attrs["data"]
            x.attrs["data"] = _call(tx, "detach", [x], {})


def _lie_alike(one: Any, other: Any) -> bool:
    if one.dim() != other.dim() or torch_compat.storage_address(one) != torch_compat.storage_address(other):
        return False
    places = [(*shape, *stride, offset_of(x)) for x in (one, other) for shape, stride in (layout_of(x),)]
    return all(map(known_equal, *places))


def wrappers_in(values: list[Any]) -> list[Any]:
    """The tensors that are made of others, among arguments; not those whose class is torch's own."""
    wrappers: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            wrappers += wrappers_in(list(value))
        elif type(value) is not FakeTensor and isinstance(value, torch.Tensor) and not is_jagged(value):
            wrappers.append(value)
    return wrappers


def _decided(tx: Tracer, value: Value) -> Value:
    """A flag that sizes decide (`is_causal=q.shape[2] > 1`): where data decides on them, what it is for most."""
    value = value.realize()
    if not isinstance(value, NumberValue) or value.python_type() is not bool or value.hint is not None:
        return value
    answer = typical(tx.shape_env, value.expr)
    if tx.shape_env.decide(value.expr) is None and answer is not None:
        assume(tx, value.expr if answer else not_(value.expr))
    return ConstantValue(tx.truth(value))


def _known_size(tx: Tracer, value: Value) -> Value:
    """An argument of a function that takes sizes, as a number where it is a tensor whose value is known."""
    value = value.realize()
    if isinstance(value, TensorValue):
        dtype = value.fake.dtype
        plain = dtype is torch.bool or dtype.is_floating_point or dtype.is_complex
        return value if plain else value.known_number(tx) or value
    if type(value) is TupleValue and value.cls is tuple and any(
            isinstance(item.realize(), TensorValue) for item in value.items):
        return TupleValue([_known_size(tx, item) for item in value.items])
    return value


def _sizes(result: Any) -> Any:
    """The sizes that tensors have now: operators such as `unsqueeze_` change them later."""
    if isinstance(result, (tuple, list)):
        return [_sizes(item) for item in result]
    return tuple(result.shape) if isinstance(result, torch.Tensor) else result


def run_assuming(tx: Tracer, target: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Execute on fake tensors; questions that only data can answer get the answer that fits most programs.

    Each such answer is a check of the shape environment, and becomes an assertion in the graph.
    """
    tx.fake.data_symbols.clear()
    tx.fake.data_symbols_known.clear()
    if tx.fake.before_late_error is not None and (
            name in refused_values.FUNCTIONS or depends_on_data(tx, [*args, *kwargs.values()])):
        tx.fake.before_late_error((), ())
    if name in ("reshape", "view") and not tx.compiler.exports:
        _assume_elements(tx, name, args[1:])
    reshapes = name in RESHAPES and not tx.compiler.exports
    x = args[0] if args and isinstance(args[0], FakeTensor) else None
    for _ in range(MAX_ASSUMPTIONS):
        tx.shape_env.checks_defaults = reshapes
        tx.shape_env.checks_layouts = not tx.compiler.exports and not (reshapes and x is not None and lies_by_rows(x))
        try:
            if name == "contiguous" and x is not None and torch_compat.has_symbolic_layout(x):
                is_contiguous(*layout_of(x))  # whether it copies: torch itself answers that for most sizes
            return run_fake(tx, target, name, args, kwargs)
        except Undecidable as undecided:
            answer = plausible(tx.shape_env, undecided.error)
            if answer is None:
                assert_assumptions(tx, ready=True)
                raise
            tx.operation = name
            try:
                if not tx.shape_env.check(answer):
                    raise
            except ContradictionError:
                raise undecided from None
            finally:
                tx.operation = ""
            tx.fake.data_symbols.clear()
        finally:
            tx.shape_env.checks_defaults = tx.shape_env.checks_layouts = False
    raise GraphBreak(f"{_title(target)} needs to know too much about sizes that depend on data")


def _assume_elements(tx: Tracer, name: str, sizes: Any) -> None:
    """Without elements any size would do in the place of -1, so eager refuses to choose one."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = sizes[0]
    if not any(type(size) is int and size == -1 for size in sizes):
        return
    for size in sizes:
        if isinstance(size, torch.SymInt) and not tx.shape_env.is_backed(expr_of(size)):
            tx.operation = name
            try:
                assume(tx, ne(expr_of(size), 0))
            finally:
                tx.operation = ""


def layout_is_certain(tx: Tracer, x: Any) -> bool:
    """Whether strides are known for all data; those of operators' results are what they are for most data."""
    if not depends_on_data(tx, (x, x.storage_offset())):
        return True
    return not depends_on_data(tx, (x.storage_offset(),)) and lies_by_rows(x)


def lies_by_rows(x: Any) -> bool:
    """Whether a tensor is contiguous for certain, whatever its sizes are."""
    shape, stride = layout_of(x)
    return all(map(known_equal, stride, contiguous_strides(shape)))


def _new_symbols(tx: Tracer) -> list[Symbol]:
    return [symbol for symbol, _ in tx.fake.data_symbols]


def place_symbols(tx: Tracer, node: Any, value: Value) -> None:
    """Where the graph reads the sizes that this operation found in its data."""
    new_symbols = dict(tx.fake.data_symbols)
    needed: set[Any] = set()
    for tensor in _tensors_in(value):
        for dim, size in enumerate(tensor.fake.shape):
            if isinstance(size, torch.SymInt):
                expr = size.node.raw_expr
                needed |= expr.free_symbols
                if expr in new_symbols and not tx.number_nodes.is_readable(expr):
                    tx.number_nodes.place(expr, tensor.node, "size", dim)
    for symbol, fake in new_symbols.items():
        owner = tx.tensor_of_fake.get(id(fake))
        if owner is not None and symbol in needed and not tx.number_nodes.is_readable(symbol):
            # the operation has read a tensor's value itself; the graph reads it once more, before the operation
            with tx.graph.graph.inserting_before(node):
                item = tx.graph.call("item", (owner.node,), {}, tx.user_frames())
            item.meta["example_value"] = make_symbolic(tx.shape_env, symbol)
            tx.number_nodes.bind(symbol, item)
    if any(symbol in new_symbols and not tx.number_nodes.is_readable(symbol) for symbol in needed):
        raise GraphBreak(f"{_title(node.target)}: a size depends on data that only the operation itself sees")


def _tensors_in(value: Value) -> list[TensorValue]:
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, (TupleValue, ListValue)):
        return [tensor for item in value.items or () for tensor in _tensors_in(item)]
    return []


def tensor_list(tx: Tracer, tensor: TensorValue, shape: list[int]) -> ListValue:
    """``tensor.tolist()``: the graph makes the list, its numbers are read from it where they are needed."""
    node = tx.graph.call("tolist", (tensor.node,), {}, tx.user_frames())
    tx.effects.version += 1

    def part(path: tuple[int, ...]) -> Value:
        if len(path) < len(shape):
            return ListValue([part((*path, index)) for index in range(shape[len(path)])])
        place = "".join(f"[{index}]" for index in path)
        early = tx.early_numbers.input(tx, tensor, path)
        if early is not None:
            return early
        symbol = new_number(tx.fake, tensor.fake, f"{tensor.node.name}{place}.item()")
        tx.number_nodes.place(symbol, node, None, *path)
        number = tx.symbols.number(symbol)
        tx.early_numbers.note(tx, tensor, path, number)
        return number

    return part(())  # type: ignore[return-value]


def data_truth(tx: Tracer, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Value:
    """A comparison of whole tensors: the answer comes out of the graph."""
    if tx.fake.before_late_error is not None:
        tx.fake.before_late_error((), ())
    symbol = tx.shape_env.new_symbol(None, f"{name}()", kind="bool")
    node = tx.graph.call(target, args, kwargs, tx.user_frames())
    tx.effects.version += 1
    node.meta["example_value"] = make_symbolic(tx.shape_env, symbol)
    tx.number_nodes.bind(symbol, node)
    return tx.symbols.number(symbol)


_METHOD_OF = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.pow})


def _draws_from_outside(name: str) -> bool:
    return name in ("seed", "initial_seed")


def _title(target: Any) -> str:
    if isinstance(target, str):
        return f"Tensor.{target}"
    operator_called = torch_compat.operator_of_definition(target)
    return written_name(operator_called) or str(operator_called)


def run_fake(tx: Tracer, target: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Execute on fake tensors; whatever goes wrong is left to Python by a break."""
    tx.operation = name
    try:
        own = torch_compat.name_in_torch(target)
        rule = find_function(own, args, tx.compiler.exports, kwargs)
        require_of_function(own, args, kwargs)
        if isinstance(target, str):
            return _run_in_c(tx, getattr(args[0], target), args[1:], kwargs) if rule is None else rule(*args, **kwargs)
        if target in ITEM_METHODS and has_positions(args[1]):
            return (get_item if target is operator.getitem else set_item)(tx.fake, *args)
        if rule is not None:
            return rule(*args, **kwargs)
        if type(target) is types.FunctionType and not tx.compiler.fullgraph:
            return run_or_warn(target, args, kwargs)
        return _run_in_c(tx, target, args, kwargs)
    except Warns as warning:
        raise GraphBreak(f"{_title(target)} warns: {_first_line(warning)}") from None
    except DataDependentError as error:
        raise GraphBreak(f"{_title(target)}: {error.reason}",
                         "keep shapes independent of data, or accept the break") from None
    except FakeUnsupported as error:
        if wants_plain_sizes(error):
            raise static_needed(tx, [*args, *kwargs.values()], _title(target)) from None
        raise GraphBreak(f"{_title(target)}: {error.reason}", error.hint) from None
    except GraphBreak:
        raise
    except UndecidableError as error:
        raise undecidable(error) from None
    except Exception as error:
        if wants_plain_sizes(error) or "INTERNAL ASSERT FAILED" in str(error) and tx.symbols.sources:
            raise static_needed(tx, [*args, *kwargs.values()], _title(target)) from None
        if "data is not allocated" in str(error):  # C++ that reads an argument before it calls an operator
            raise GraphBreak(f"{_title(target)} needs the values in a tensor", "pass plain numbers instead") from None
        handled = any(frame.current.handler is not None for frame in tx.frames)
        known = None if not tx.compiler.fullgraph or is_about_views(error) else \
            eager_error(target, args, kwargs, differentiated=not handled)
        if known is not None and handled:
            raise tx.raised(known) from None
        message = _first_line(error)
        signal = GraphBreak(f"{_title(target)} raises {type(error).__name__}: {message}{sizes_in(tx, message)}",
                            "the same call outside of the compiled function fails as well")
        signal.refused = is_about_views(error)
        signal.raises = known is not None and not tx.compiler.exports  # an error of the program's, not a break
        raise signal from None
    finally:
        tx.operation = ""


def _run_in_c(tx: Tracer, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    name = getattr(function, "__name__", "")
    if "out" in kwargs or name.endswith("_") or name == "setitem" or type(function) is types.FunctionType:
        return function(*args, **kwargs)
    issue = functools.partial(warn_at_line, tx)
    return run_in_c(function, args, kwargs, issue, not tx.compiler.fullgraph)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0].replace("'FakeTensor'", "'Tensor'") if lines else ""


def _has_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (tuple, list)):
        return any(_has_tensor(item) for item in value)
    if isinstance(value, dict):
        return any(_has_tensor(item) for item in value.values())
    return False


def _is_plain_result(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain_result(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout,
                                               torch.memory_format, torch.finfo, torch.iinfo, *SYMBOLIC))


def wrap_result(tx: Tracer, node: Any, result: Any) -> Value:
    """Values for what an operation returned; parts of a tuple become getitem nodes."""
    if isinstance(result, torch.Tensor):
        known = tx.tensor_of_fake.get(id(result))
        if known is not None:
            known.node = node
            return known
        if is_jagged(result):
            nested_tensor = tx.tensor_of_fake[id(result)] = JaggedTensorValue(node, result, None, type(result))
            tx.kept_alive.append(result)
            return nested_tensor
        if is_wrapper_class(type(result)) and all(isinstance(part, FakeTensor) for part in parts_of(result)):
            wrapper = tx.tensor_of_fake[id(result)] = WrapperTensorValue(node, result, None, type(result))
            tx.kept_alive.append(result)
            return wrapper
        if not isinstance(result, FakeTensor):
            raise GraphBreak("an operation returned a real tensor while capturing")
        cls = torch.nn.Parameter if getattr(result, "is_parameter", False) else torch.Tensor
        value = TensorValue(node, result, None, cls)
        tx.tensor_of_fake[id(result)] = value
        tx.kept_alive.append(result)
        return value
    if isinstance(result, (tuple, list)):
        items: list[Value] = []
        for position, item in enumerate(result):
            if _has_tensor(item):
                part = tx.graph.graph.call_function(operator.getitem, (node, position))
                part.meta["example_value"] = item
                items.append(wrap_result(tx, part, item))
            else:
                items.append(tx.python_object(item))
        return ListValue(items) if isinstance(result, list) else TupleValue(items, type(result))
    if isinstance(result, dict):
        entries = {}
        for key, item in result.items():
            part = tx.graph.graph.call_function(operator.getitem, (node, key))
            part.meta["example_value"] = item
            entries[key] = wrap_result(tx, part, item)
        return tx.make_dict(entries)
    return tx.python_object(result)
