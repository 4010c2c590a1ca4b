"""Calls that become operations of the graph: run on fake tensors, recorded as a node, result wrapped."""

from __future__ import annotations

import functools
import math
import operator
import types
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .. import torch_compat
from ..fake import DataDependentError, FakeTensor, FakeUnsupported, refused_values, wants_plain_sizes
from ..fake.agreement import require_of_function
from ..fake.dims import contiguous_strides, known_equal, layout_of
from ..fake.functions import find_function
from ..fake.positions import get_item, has_positions, set_item
from ..fake.rules.data_dependent import new_number
from ..fake.rules.strides import is_contiguous
from ..functional.wrapper_tensors import is_wrapper_class, parts_of
from ..shapes import ContradictionError, Symbol, UndecidableError, as_expr, le, ne, not_
from ..shapes.symnode import expr_of, make_symbolic
from .assertions import MAX_ASSUMPTIONS, assert_assumptions, assume, depends_on_data, plausible, typical
from .break_reasons import hint_for_object, written_name
from .eager_errors import eager_error
from .objects import find_on_class
from .program_state import watched
from .python_warnings import Warns, run_in_c, run_or_warn, warn_at_line
from .signals import GraphBreak, is_about_views
from .source import AttrSource, ConstantSource
from .storages import LOOKING, guard_places
from .tensors_of_arrays import as_number, with_tensors
from .undecidable import SYMBOLIC, Undecidable, static_needed, undecidable
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue, PythonObject, SliceValue
from .values.mappings import DictValue
from .values.objects import ObjectValue
from .values.opaque import OpaqueValue
from .values.ranges import RangeValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue
from .values.wrapper_tensors import WrapperTensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

# Functions of torch's namespaces that are no tensor operations.
NOT_OPERATIONS = frozenset({
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "save", "load", "compile", "is_tensor",
    "is_storage", "set_default_device", "get_default_device", "set_default_dtype", "set_default_tensor_type",
    "get_default_dtype", "set_printoptions", "is_grad_enabled", "is_inference_mode_enabled", "set_num_threads",
    "get_num_threads", "set_num_interop_threads", "get_num_interop_threads", "is_autocast_enabled",
    "set_autocast_enabled", "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "is_autocast_cache_enabled",
    "set_autocast_cache_enabled", "get_autocast_dtype", "set_autocast_dtype", "get_autocast_gpu_dtype",
    "set_autocast_gpu_dtype", "get_autocast_cpu_dtype", "set_autocast_cpu_dtype", "autocast_increment_nesting",
    "autocast_decrement_nesting", "clear_autocast_cache", "use_deterministic_algorithms", "typename",
    "are_deterministic_algorithms_enabled", "is_deterministic_algorithms_warn_only_enabled", "get_file_path",
    "set_float32_matmul_precision", "get_float32_matmul_precision", "set_warn_always", "is_warn_always_enabled",
    "set_deterministic_debug_mode", "get_deterministic_debug_mode", "prepare_multiprocessing_environment", "from_numpy",
    "frombuffer", "from_file", "from_dlpack", "to_dlpack", "set_flush_denormal", "set_vital", "read_vitals", "fork",
    "wait", "is_anomaly_enabled", "set_anomaly_enabled", "vmap", "cond", "while_loop", "classproperty", "sym_int",
    "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sqrt", "sym_sum", "thread_safe_generator",
    "get_device_module",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "handle_torch_function",
    "boolean_dispatch", "assert_int_or_pair", "_get_softmax_dim", "multi_head_attention_forward", "is_warn_always",
    "_pad_packed_sequence",
})
# Functions in which a Python number is only a value: it decides neither shapes nor types.
VALUE_ONLY = frozenset({
    "add", "sub", "mul", "truediv", "div", "pow", "rsub", "eq", "ne", "lt", "le", "gt", "ge", "iadd", "isub", "imul",
    "itruediv", "add_", "sub_", "mul_", "div_", "fill_", "clamp", "clamp_", "lerp", "lerp_", "where", "masked_fill",
    "masked_fill_", "full_like", "addcmul", "addcdiv", "addcmul_", "addcdiv_", "sum_number", "tensor", "as_tensor",
    "scalar_tensor", "new_tensor",
    *(f"_foreach_{name}{end}" for end in ("", "_")
      for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "maximum", "minimum")),
})
# What stands for a number that data decides on where its value does not matter.
PLACEHOLDERS: dict[type, Any] = {int: 2, float: 2.5, bool: True}
# Functions whose result is a truth value that data decides on.
TRUTHS = frozenset({"equal", "allclose"})
# What raises or warns, whatever the device, while deterministic algorithms are asked for, and what gives new memory.
NOT_DETERMINISTIC = frozenset({"put", "put_", "max_unpool1d", "max_unpool2d", "max_unpool3d", "resize_", "resize_as_"})
UNINITIALISED = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})
LAYOUT_QUESTIONS = frozenset({"stride", "is_contiguous", "storage_offset", "dim_order"})
# Views of some sizes, copies of others.
RESHAPES = frozenset({"reshape", "reshape_as", "flatten", "unflatten", "ravel"})
# Functions with sizes among their arguments, in whose places torch takes tensors of one integer too.
TAKES_SIZES = frozenset({
    "view", "reshape", "expand", "repeat", "zeros", "ones", "empty", "full", "rand", "randn", "new_zeros", "new_ones",
    "new_empty", "new_full", "narrow", "unflatten", "arange", "split", "tile", "broadcast_to", "as_strided",
})
FACTORIES = frozenset({"zeros", "ones", "empty", "full", "rand", "randn", "arange"})
LAZINESS = frozenset({"is_conj", "is_neg", "resolve_conj", "resolve_neg"})
ITEM_METHODS = (operator.getitem, operator.setitem)


@functools.cache
def operations() -> dict[int, Any]:
    """All torch functions that are recorded in graphs as they are, by identity."""
    table: dict[int, Any] = {}

    def scan(namespace: Any, names: Any) -> None:
        for name in names:
            if name in NOT_OPERATIONS or (name.startswith("_") and not name.startswith("__") and namespace is torch):
                continue
            obj = getattr(namespace, name, None)
            if obj is None or isinstance(obj, (type, types.ModuleType)) or not callable(obj):
                continue
            if isinstance(obj, types.FunctionType) and not _operation_module(obj):
                continue
            table[id(obj)] = obj

    scan(torch, dir(torch))
    for space in torch_compat.operation_namespaces():
        scan(space, [n for n in dir(space) if not n.startswith("__")])
    for space in (torch.nn.functional, torch.functional, torch.linalg, torch.fft, torch.special):
        scan(space, [n for n in dir(space) if not n.startswith("_")])
    return table


def _operation_module(obj: types.FunctionType) -> bool:
    module = obj.__module__ or ""
    return module.startswith(("torch._C", "torch._jit_internal")) or module in (
        "torch", "torch.functional", "torch.nn.functional", "torch._tensor", "torch._lobpcg", "torch.linalg",
        "torch.fft", "torch.special", "torch._linalg_utils")


def is_graph_function(obj: Any) -> bool:
    """Whether calling `obj` is one operation of the graph."""
    if operations().get(id(obj)) is obj:
        return True
    return isinstance(obj, torch_compat.OPERATOR_TYPES)


_PLAIN: dict[type, Any] = {int: int.__index__, float: float.__float__, str: str.__str__}


def _plain(constant: Any) -> Any:
    """A number or text of a subclass, such as a member of an IntFlag, as torch takes it: its text is no source code."""
    for kind, plain in _PLAIN.items():
        if isinstance(constant, kind) and not isinstance(constant, bool):
            return constant if type(constant) is kind else plain(constant)
    return constant


def to_graph(tx: Tracer, value: Value, keep_numbers: bool) -> tuple[Any, Any]:
    """A Value as an argument of a node, and as an argument of the fake call."""
    value = value.realize()
    if isinstance(value, TensorValue):
        if value.attrs and "data" in value.attrs and value.fake.requires_grad and torch.is_grad_enabled():
            raise GraphBreak("gradients of a tensor whose data was replaced before",
                             "use copy_() inside torch.no_grad()")
        return value.node, value.fake
    if isinstance(value, ArrayValue):
        return to_graph(tx, as_number(tx, value), keep_numbers)
    if isinstance(value, ConstantValue):
        if isinstance(value.value, numpy.bool_):
            # torch takes it for a float in arithmetic, for a bool in torch.tensor and refuses it as a flag
            raise GraphBreak("a bool of NumPy as an argument of a tensor operation", "write bool(...) around it")
        if isinstance(value.value, numpy.uint64) and value.value >= 2**63:
            # tensors refuse it, and then NumPy computes with the tensor as an array
            raise GraphBreak("an integer of NumPy that is too large for tensors", "use a smaller number")
        if isinstance(value.value, numpy.complexfloating) and not isinstance(value.value, complex):
            # torch takes its real part, and NumPy warns of that
            raise GraphBreak("a complex number of NumPy as an argument of a tensor operation",
                             "write complex(...) around it")
        constant = value.value.item() if isinstance(value.value, numpy.generic) else _plain(value.value)
        return constant, constant
    if isinstance(value, NumberValue):
        return number_to_graph(tx, value, keep_numbers)
    if isinstance(value, TupleValue) or isinstance(value, ListValue) and value.cls is list:
        pairs = [to_graph(tx, item, keep_numbers) for item in value.elements(tx)]
        kind: Any = value.cls if isinstance(value, TupleValue) and value.cls in {tuple, torch.Size} else \
            tuple if isinstance(value, TupleValue) else list
        node_kind = tuple if kind is torch.Size else kind
        return node_kind(p[0] for p in pairs), kind([p[1] for p in pairs])
    if isinstance(value, DictValue):
        entries = {tx.constant_of(k): to_graph(tx, v, keep_numbers) for k, v in value.fill(tx).values()}
        return {k: p[0] for k, p in entries.items()}, {k: p[1] for k, p in entries.items()}
    if isinstance(value, SliceValue):
        # a tensor in a slice is asked for its value
        parts = [known.item(tx) if isinstance(known := part.realize(), TensorValue) else known for part in value.parts]
        pairs = [to_graph(tx, part, keep_numbers) for part in parts]
        return slice(*(p[0] for p in pairs)), slice(*(p[1] for p in pairs))
    if isinstance(value, PythonObject) and isinstance(value.obj, (torch.Generator, *torch_compat.OPERATOR_TYPES)):
        if isinstance(value.obj, torch.Generator):
            raise GraphBreak("an operation with its own random generator")
        return value.obj, value.obj
    if isinstance(value, ObjectValue) and isinstance(
            value.storage, (ListValue, DictValue, TupleValue, ConstantValue)):
        if not isinstance(value.storage, (DictValue, ConstantValue)):
            _refuse_own_protocols(tx, value.python_type())
        return to_graph(tx, value.storage, keep_numbers)
    if isinstance(value, RangeValue):  # of other things than lists and tuples, torch refuses most
        pairs = [to_graph(tx, item, keep_numbers) for item in tx.to_list(value)]
        return [p[0] for p in pairs], [p[1] for p in pairs]
    real = getattr(value, "real", None)
    if tx.compiler.exports and value.source is not None and any(
            kind.__module__ == "torch._opaque_base" for kind in type(real).__mro__):
        return tx.graph.add_input(value.source, real), real  # an object that operators take as it is
    reason = f" ({value.reason})" if isinstance(value, OpaqueValue) and value.reason else ""
    raise UngraphableArgument(f"{value.describe()} as an argument of a tensor operation{reason}",
                              hint_for_object(value.real) if isinstance(value, OpaqueValue) else "")


# What torch asks of a sequence: for its items, or for an array in its place.
_ASKED_OF_SEQUENCES = ("__len__", "__getitem__", "__iter__", "__getattr__", "__getattribute__", "__torch_function__",
                       "__dlpack__", "__cuda_array_interface__", "__array_interface__", "__array__")


def _refuse_own_protocols(tx: Tracer, cls: type) -> None:
    """Leave to torch what a list or tuple of a class with such methods of its own is as an argument."""
    for name in _ASKED_OF_SEQUENCES:
        owner = find_on_class(cls, name, tx)[1]
        if owner is not None and owner not in {list, tuple, object}:
            raise UngraphableArgument(f"an object of {cls.__qualname__}, which has its own {name}, as an argument of a "
                                      "tensor operation", "pass a list or a tuple")


FROM_DATA = frozenset({"tensor", "as_tensor", "asarray"})


def with_numpy_dtype(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> dict[str, Value]:
    """The keywords of torch.tensor with the dtype that NumPy's scalars in the data ask for: nodes hold plain ones."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype", ConstantValue(None))
    if data is None or getattr(dtype.realize(), "value", dtype) is not None or not _has_numpy_scalar(tx, data):
        return kwargs
    if len(args) > 1:
        raise GraphBreak("a tensor of scalars of NumPy with None as dtype", "leave dtype out")
    return {**kwargs, "dtype": ConstantValue(torch.tensor(_like_data(tx, data)).dtype)}


def _has_numpy_scalar(tx: Tracer, data: Value) -> bool:
    data = data.realize()
    if isinstance(data, ConstantValue):
        return isinstance(data.value, numpy.number)
    return isinstance(data, (TupleValue, ListValue)) and any(_has_numpy_scalar(tx, item) for item in data.elements(tx))


def _like_data(tx: Tracer, data: Value) -> Any:
    """Data of the same types."""
    data = data.realize()
    if isinstance(data, ConstantValue):
        return data.value
    if isinstance(data, NumberValue):
        return PLACEHOLDERS[data.python_type()]
    if isinstance(data, (TupleValue, ListValue)):
        return [_like_data(tx, item) for item in data.elements(tx)]
    raise GraphBreak("a tensor of scalars of NumPy and others", "pass dtype= to torch.tensor")


def number_to_graph(tx: Tracer, value: NumberValue, keep: bool) -> tuple[Any, Any]:
    """A number as an argument of a node and of the fake call.

    Where an operation uses it as a value only (`keep`), the fake call gets the present value, or any of its type where
    data decides on it: that costs nothing. Integers go in as symbols, because they may become sizes; other floats
    decide something and become constants.
    """
    if keep:
        return tx.number_nodes.of(value), PLACEHOLDERS[value.python_type()] if value.hint is None else value.hint
    if value.hint is None or value.python_type() is int:
        return tx.number_nodes.of(value), make_symbolic(tx.shape_env, value.expr)
    constant = value.specialize(tx).value
    return constant, constant


class UngraphableArgument(GraphBreak):
    """An argument that no node of a graph can have."""


DEVIATIONS = frozenset({"std", "var", "std_mean", "var_mean"})


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
    overrides = tx.torch_functions
    if (overrides.has_overrides or overrides.modes) and overrides.concern(tx, args, kwargs):
        return overrides.call(tx, target, args, kwargs)
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
    if isinstance(target, type(operator.add)) and target in _METHOD_OF and \
            isinstance(args[0].realize(), (ConstantValue, NumberValue)):
        keep_numbers = True
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
    wrappers = wrappers_in([*fake_args, *fake_kwargs.values()])
    if wrappers or isinstance(target, type) and is_wrapper_class(target):
        classes = [*dict.fromkeys([*map(type, wrappers), *([target] if isinstance(target, type) else [])])]
        with watched(tx, classes, wrappers):
            result = run_assuming(tx, target, name, fake_args, fake_kwargs)
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
    value = wrap_result(tx, node, result)
    if tx.fake.data_symbols:
        node.meta["example_sizes"] = _sizes(result)
        place_symbols(tx, node, value)
    assert_assumptions(tx, ready=True)
    return value


def wrappers_in(values: list[Any]) -> list[Any]:
    """The tensors that are made of others, among arguments."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            found += wrappers_in(list(value))
        elif type(value) is not FakeTensor and isinstance(value, torch.Tensor):
            found.append(value)
    return found


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
        symbol = new_number(tx.fake, tensor.fake, f"{tensor.node.name}{place}.item()")
        tx.number_nodes.place(symbol, node, None, *path)
        return tx.symbols.number(symbol)

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
        signal = GraphBreak(f"{_title(target)} raises {type(error).__name__}: {_first_line(error)}",
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
    return lines[0] if lines else ""


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
