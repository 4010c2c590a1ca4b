"""Collectives of ``torch.distributed`` in captured code: operations of the graph, which start and are waited for.

    dist.all_reduce(x)                       started = _c10d_functional.all_reduce(x, 'sum', '0')
                                      ->     there = _c10d_functional.wait_tensor(started)
                                             x.data.copy_(there)

With ``async_op=True`` too: the compiled graph waits where the result is used (`passes.collectives`), and the handle
that the program gets has nothing left to wait for. The group of processes is guarded, and with it the rank and the
number of processes; in graphs it is a name.

A graph with collectives runs once or raises: `pipeline.failing_graphs` runs no program again that has begun a
collective, because the other processes have too.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..fake.dims import known_equal
from ..torch_compat import collectives
from .signals import GraphBreak
from .source import CalledSource, ConstantSource, Source
from .torch_calls import lies_by_rows
from .values.base import Value
from .values.constants import ConstantValue
from .values.methods import NativeMethod
from .values.objects import ObjectValue
from .values.sequences import ListValue, TupleValue
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue
from .values.wrapper_tensors import WrapperTensorValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

Call = Callable[["Tracer", dict[str, Value]], Value]
HANDLED: dict[str, Call] = {}
"""What calls functions of ``torch.distributed``, by their names."""


def handles(*names: str) -> Callable[[Call], Call]:
    """Registers what calls functions of these names, given their arguments by name."""
    def register(call: Call) -> Call:
        HANDLED.update(dict.fromkeys(names, call))
        return call

    return register


def call(tx: Tracer, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a function of ``torch.distributed`` that has an entry in `HANDLED`."""
    real: Any = getattr(function, "real", None) or function.as_constant()
    try:
        bound = inspect.signature(real).bind(*args, **kwargs)
    except TypeError:
        raise GraphBreak(f"{real.__name__}() with wrong arguments") from None
    return HANDLED[real.__qualname__](tx, {name: value.realize() for name, value in bound.arguments.items()})


# ---------------------------------------------------------------------------------------------------------------------
# groups


class GroupValue(Value):
    """A group of processes. It is one and the same object, by a guard; what it is made of never changes."""

    __slots__ = ("real",)

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(source)
        self.real = real

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        return "a group of processes"

    native_methods = True

    def truth(self, tx: Tracer) -> bool:
        return True

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "group_name" and hasattr(self.real, name):
            return ConstantValue(self.real.group_name)
        if name in ("rank", "size", "name"):
            return NativeMethod(self, name)
        self.unsupported(f"attribute {name!r}")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args or kwargs or name not in ("rank", "size", "name"):
            self.unsupported(f"method {name!r}")
        return ConstantValue(getattr(self.real, name)())


def wrap_group(tx: Tracer, real: Any, source: Source) -> Value:
    """A group of processes from outside. Entries must not keep it alive: its threads end with it."""
    tx.guard(source, "process group", "{0} is {k[0]}()", (weakref.ref(real),))
    return GroupValue(real, source)


_DEFAULT = CalledSource(ConstantSource.of(collectives.default_group, "torch.distributed.group.WORLD"))


def default_group(tx: Tracer) -> GroupValue:
    """The group of all processes."""
    group = collectives.default_group()
    if group is None:
        raise GraphBreak("torch.distributed is not initialised", "call torch.distributed.init_process_group() before")
    value = tx.wrap(group, _DEFAULT)
    assert isinstance(value, GroupValue)
    return value


def group_of(tx: Tracer, value: Value | None) -> Any:
    """The group that an argument stands for, guarded; raises a break for what is none."""
    if value is None or value.is_constant() and value.as_constant() is None:
        return default_group(tx).real
    if not isinstance(value, GroupValue):
        raise GraphBreak(f"{value.describe()} as a group of processes")
    return value.real


def _real_mesh(tx: Tracer, value: Value) -> Any:
    """A mesh of devices, which is guarded to be the same object."""
    real = getattr(value, "real", None)
    if not isinstance(value, ObjectValue) or real is None or value.source is None or \
            tx.effects.attributes_set(value):
        raise GraphBreak(f"{value.describe()} as a mesh of devices")
    tx.guard(value.source, "device mesh", "{0} is {k[0]}()", (weakref.ref(real),))
    return real


def _is_mesh(value: Value) -> bool:
    cls = collectives.mesh_class()
    return cls is not None and isinstance(value, ObjectValue) and issubclass(value.python_type(), cls)


def mesh_of(tx: Tracer, value: Value) -> Any:
    """The mesh of devices that a Value is, guarded; None for other Values."""
    return _real_mesh(tx, value) if _is_mesh(value) else None


def _group_of_any(tx: Tracer, value: Value) -> Any:
    """The group of what functional collectives take: a group, its name, a mesh, or a mesh and a dimension."""
    if isinstance(value, GroupValue):
        return value.real
    dim: Any = None
    if isinstance(value, TupleValue):
        parts = value.items
        if len(parts) == 2:
            value, dim = parts[0].realize(), tx.constant_of(parts[1])
    if _is_mesh(value):
        mesh = _real_mesh(tx, value)
        if dim is None and mesh.ndim != 1:
            raise GraphBreak("a collective over a mesh of several dimensions")
        return mesh.get_group(dim)
    if dim is None and value.is_constant() and isinstance(value.as_constant(), str):
        return _named(tx, value.as_constant())
    raise GraphBreak(f"{value.describe()} as a group of processes")


def _named(tx: Tracer, name: str) -> Any:
    try:
        group = collectives.group_of_name(name)
    except Exception as error:
        raise GraphBreak(f"the group of processes {name!r}: {error}") from None
    tx.guard(None, "process group", "{k[0]}({k[1]}, {k[2]})", (collectives.is_named_group, weakref.ref(group), name))
    return group


def _answer(name: str, *names: str) -> None:
    """A question about a group whose answer never changes, by the names of its arguments, the group first."""
    def ask(tx: Tracer, given: dict[str, Value]) -> Value:
        group = group_of(tx, given.pop(names[0], None))
        rest = {key: tx.constant_of(value) for key, value in given.items()}
        function: Any = collectives.public_function(name)
        try:
            return tx.python_object(function(**{names[0]: group}, **rest))
        except Exception as error:
            raise GraphBreak(f"torch.distributed.{name}() raises {type(error).__name__}: {error}") from None

    HANDLED[name] = ask


_answer("get_rank", "group")
_answer("get_world_size", "group")
_answer("get_process_group_ranks", "group")
_answer("get_backend", "group")
_answer("get_group_rank", "group", "global_rank")
_answer("get_global_rank", "group", "group_rank")


@handles("is_initialized")
def is_initialized(tx: Tracer, given: dict[str, Value]) -> Value:
    """Whether there is a group of all processes."""
    if collectives.default_group() is not None:
        default_group(tx)
        return ConstantValue(True)
    tx.guard(None, "process group", "{k[0]}() is None", (collectives.default_group,))
    return ConstantValue(False)


@handles("_get_default_group")
def get_default_group(tx: Tracer, given: dict[str, Value]) -> Value:
    """The group of all processes."""
    return default_group(tx)


@handles("_get_group_size_by_name")
def group_size_by_name(tx: Tracer, given: dict[str, Value]) -> Value:
    """How many processes belong to a group."""
    return ConstantValue(_group_of_any(tx, given["group_name"]).size())


@handles("_resolve_group", "_resolve_group_name")
def resolve_group(tx: Tracer, given: dict[str, Value]) -> Value:
    """The name of a group, which is what operators take."""
    return ConstantValue(collectives.group_name(_group_of_any(tx, given["group"])))


@handles("DeviceMesh.get_group")
def mesh_group(tx: Tracer, given: dict[str, Value]) -> Value:
    """The group of a dimension of a mesh."""
    mesh = _real_mesh(tx, given["self"])
    dim = tx.constant_of(given["mesh_dim"]) if "mesh_dim" in given else None
    try:
        group = mesh.get_group(dim)
    except Exception as error:
        raise GraphBreak(f"DeviceMesh.get_group() raises {type(error).__name__}: {error}") from None
    finder = MeshGroup(mesh, dim)
    return tx.wrap(group, CalledSource(ConstantSource.of(finder, f"mesh.get_group({dim!r})")))


class MeshGroup:
    """Finds the group of a dimension of a mesh, which it does not keep alive."""

    def __init__(self, mesh: Any, dim: Any) -> None:
        self.mesh = weakref.ref(mesh)
        self.dim = dim

    def __call__(self) -> Any:
        mesh = self.mesh()
        return None if mesh is None else mesh.get_group(self.dim)


def _ask_mesh(name: str) -> None:
    def ask(tx: Tracer, given: dict[str, Value]) -> Value:
        mesh = _real_mesh(tx, given.pop("self"))
        rest = {key: tx.constant_of(value) for key, value in given.items()}
        try:
            return tx.python_object(getattr(mesh, name)(**rest))
        except Exception as error:
            raise GraphBreak(f"DeviceMesh.{name}() raises {type(error).__name__}: {error}") from None

    HANDLED[f"DeviceMesh.{name}"] = ask


for _name in ("size", "get_rank", "get_local_rank", "get_coordinate"):
    _ask_mesh(_name)


# ---------------------------------------------------------------------------------------------------------------------
# functional collectives


def _operation(tx: Tracer, name: str, *args: Any) -> Value:
    values = [arg if isinstance(arg, Value) else tx.python_object(arg) for arg in args]
    return tx.call_torch(collectives.collective_operator(name), values, {})


@handles("_maybe_wrap_tensor")
def wrap_tensor(tx: Tracer, given: dict[str, Value]) -> Value:
    """Eager puts a tensor in flight into one that waits when it is used. In graphs it is there."""
    return _operation(tx, "wait_tensor", given["self"])


@handles("permute_tensor")
def permute_tensor(tx: Tracer, given: dict[str, Value]) -> Value:
    """Each process gives its tensor to another one."""
    group, tensor = _group_of_any(tx, given["group"]), _plain(given["self"])
    own, count = group.rank(), group.size()
    elements = tensor.call_method(tx, "numel", [], {})
    to_get: list[Value] = [ConstantValue(0)] * count
    to_give: list[Value] = [ConstantValue(0)] * count
    for source, target in enumerate(tx.constant_of(given["src_dst"])):
        if source == own:
            to_give[target] = elements
        if target == own:
            to_get[source] = elements
    started = _operation(tx, "all_to_all_single", tensor, ListValue(to_get), ListValue(to_give),
                         collectives.group_name(group))
    return _operation(tx, "wait_tensor", started)


# ---------------------------------------------------------------------------------------------------------------------
# collectives that write to what they are given


class WorkValue(Value):
    """The handle of a collective: whoever uses what it gives waits for it, so that there is nothing left to do."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: list[TensorValue]) -> None:
        super().__init__(None)
        self.tensors = tensors

    def python_type(self) -> type:
        return collectives.work_class()

    def describe(self) -> str:
        return "the handle of a collective"

    native_methods = True

    def truth(self, tx: Tracer) -> bool:
        return True

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "wait":
            return NativeMethod(self, name)
        self.unsupported(f"attribute {name!r}")

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "wait":
            self.unsupported(f"method {name!r}")
        return ConstantValue(True)

    def emit(self, code: EntryCode) -> str:
        tensors = ", ".join(code.value(tensor) for tensor in self.tensors)
        return code.assign(self, f"{code.constant(collectives.finished_work)}([{tensors}])")


def _plain(value: Value | None) -> TensorValue:
    if not isinstance(value, TensorValue) or isinstance(value, (SubclassTensorValue, WrapperTensorValue)):
        raise GraphBreak("a collective of something else than a plain tensor")
    dtype = value.fake.dtype
    if dtype.is_complex or dtype.itemsize == 1 and dtype.is_floating_point:
        raise GraphBreak(f"a collective of {dtype}")
    if not lies_by_rows(value.fake):
        raise GraphBreak("a collective of a tensor that does not lie by rows")
    return value


def _written(value: Value | None) -> TensorValue:
    tensor = _plain(value)
    if tensor.fake.requires_grad and torch.is_grad_enabled():
        raise GraphBreak("a collective writes to a tensor that requires grad, past autograd",
                         "call it under torch.no_grad(), or take torch.distributed._functional_collectives")
    return tensor


def _read(tx: Tracer, value: Value | None) -> Value:
    """A tensor as the collective reads it: autograd does not see that."""
    tensor = _plain(value)
    return tensor.call_method(tx, "detach", [], {}) if tensor.fake.requires_grad else tensor


def _begin(tx: Tracer, given: dict[str, Value]) -> Any:
    """What all collectives rely on; returns the group."""
    if tx.torch_functions.asked_modes:
        raise GraphBreak("a collective under a mode that is asked about torch functions")
    group = group_of(tx, given.get("group"))
    if collectives.is_coalescing():
        raise GraphBreak("collectives that are put off until the end of a block")
    tx.guard(None, "process group", "not {k[0]}()", (collectives.is_coalescing,))
    return group


def _reduction(tx: Tracer, given: dict[str, Value], group: Any) -> str:
    if "op" not in given:
        return "sum"
    name = collectives.reduction_name(tx.constant_of(given["op"]))
    if name is None:
        raise GraphBreak("a reduction that is no sum, product, average, minimum, maximum or bitwise operation")
    if name == "avg" and collectives.is_gloo(group):
        raise GraphBreak("averages, which this group of processes cannot compute")
    return name


def _finish(tx: Tracer, given: dict[str, Value], written: list[tuple[TensorValue, Value]]) -> Value:
    """Write results where they belong, and return what the function returns."""
    for target, result in written:
        target.get_attr(tx, "data").call_method(tx, "copy_", [result], {})
    if "async_op" in given and tx.truth(given["async_op"]):
        return WorkValue([target for target, _ in written])
    return ConstantValue(None)


def _collective(tx: Tracer, name: str, group: Any, *args: Any) -> TensorValue:
    started = _operation(tx, name, *args, collectives.group_name(group))
    result = _operation(tx, "wait_tensor", started)
    assert isinstance(result, TensorValue)
    return result


def _shaped(tx: Tracer, result: TensorValue, target: TensorValue) -> Value:
    shape = target.get_attr(tx, "shape")
    return result.call_method(tx, "view", [shape], {})


def _flat(tx: Tracer, value: Value | None) -> Value:
    tensor = _read(tx, value)
    return tensor.call_method(tx, "view", [ConstantValue(-1)], {})


def _check_sizes(large: TensorValue, small: TensorValue, group: Any) -> None:
    """One tensor has to be as large as one of the other for each process, and be made like them."""
    count, is_gloo = group.size(), collectives.is_gloo(group)
    whole, part = tuple(large.fake.shape), tuple(small.fake.shape)
    stacked = len(whole) == len(part) + 1 and known_equal(whole[0], count) and all(map(known_equal, whole[1:], part))
    joined = len(whole) == len(part) > 0 and known_equal(whole[0], part[0] * count) \
        and all(map(known_equal, whole[1:], part[1:]))
    flat = len(whole) == 1 and not part and known_equal(whole[0], count)
    if stacked and is_gloo:
        raise GraphBreak("a collective of a stack of tensors, which this group of processes refuses")
    if not (stacked or joined or flat) or large.fake.dtype is not small.fake.dtype or \
            large.fake.device != small.fake.device:
        raise GraphBreak("a collective of tensors whose sizes, dtypes or devices do not fit each other")


@handles("all_reduce")
def all_reduce(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.all_reduce(tensor, op, group, async_op)``."""
    group, target = _begin(tx, given), _written(given["tensor"])
    reduction = _reduction(tx, given, group)
    result = _collective(tx, "all_reduce", group, _read(tx, target), reduction)
    return _finish(tx, given, [(target, result)])


@handles("broadcast")
def broadcast(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.broadcast(tensor, src, group, async_op, group_src)``."""
    group, target = _begin(tx, given), _written(given["tensor"])
    of_all, of_group = (tx.constant_of(given[name]) if name in given else None for name in ("src", "group_src"))
    if (of_all is None) == (of_group is None):
        raise GraphBreak("broadcast() from no process, or from two")
    try:
        source = of_group if of_all is None else collectives.rank_in_group(group, of_all)
    except Exception as error:
        raise GraphBreak(f"broadcast() raises {type(error).__name__}: {error}") from None
    if not isinstance(source, int) or not 0 <= source < group.size():
        raise GraphBreak("broadcast() from a process that is not in the group")
    result = _collective(tx, "broadcast", group, _read(tx, target), source)
    return _finish(tx, given, [(target, result)])


@handles("all_gather_into_tensor", "all_gather_single", "_all_gather_base")
def all_gather_into_tensor(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)``."""
    target, source = (given.get(f"{name}_tensor", given.get(name)) for name in ("output", "input"))
    group, target, source = _begin(tx, given), _written(target), _plain(source)
    _check_sizes(target, source, group)
    result = _collective(tx, "all_gather_into_tensor", group, _flat(tx, source), group.size())
    return _finish(tx, given, [(target, _shaped(tx, result, target))])


@handles("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base")
def reduce_scatter_tensor(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.reduce_scatter_tensor(output, input, op, group, async_op)``."""
    group, target, source = _begin(tx, given), _written(given["output"]), _plain(given["input"])
    _check_sizes(source, target, group)
    reduction = _reduction(tx, given, group)
    result = _collective(tx, "reduce_scatter_tensor", group, _flat(tx, source), reduction, group.size())
    return _finish(tx, given, [(target, _shaped(tx, result, target))])


@handles("all_to_all_single")
def all_to_all_single(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.all_to_all_single(output, input, output_split_sizes, input_split_sizes, group)``."""
    group, target, source = _begin(tx, given), _written(given["output"]), _plain(given["input"])
    if not target.fake.dim() or target.fake.dim() != source.fake.dim() or \
            target.fake.dtype is not source.fake.dtype or target.fake.device != source.fake.device or \
            not all(map(known_equal, target.fake.shape[1:], source.fake.shape[1:])):
        raise GraphBreak("a collective of tensors whose sizes, dtypes or devices do not fit each other")
    to_get = _splits(tx, given.get("output_split_sizes"), target, group.size())
    to_give = _splits(tx, given.get("input_split_sizes"), source, group.size())
    result = _collective(tx, "all_to_all_single", group, _read(tx, source), to_get, to_give)
    return _finish(tx, given, [(target, result)])


def _splits(tx: Tracer, sizes: Value | None, tensor: TensorValue, count: int) -> Value:
    length = tensor.fake.shape[0]
    if sizes is None or sizes.is_constant() and sizes.as_constant() is None or \
            isinstance(sizes, ListValue) and not sizes.elements(tx):
        if not known_equal(length % count, 0):
            raise GraphBreak("all_to_all_single() of a tensor that cannot be parted evenly")
        return ListValue([tx.python_object(length // count)] * count)
    if not isinstance(sizes, (ListValue, TupleValue)) or len(sizes.elements(tx)) != count:
        raise GraphBreak("all_to_all_single() with unusual sizes")
    numbers = [tx.constant_of(item) for item in sizes.elements(tx)]
    if not all(type(number) is int and number >= 0 for number in numbers) or not known_equal(length, sum(numbers)):
        raise GraphBreak("all_to_all_single() with sizes that do not fit")
    return ListValue([ConstantValue(number) for number in numbers])


@handles("all_gather")
def all_gather(tx: Tracer, given: dict[str, Value]) -> Value:
    """``torch.distributed.all_gather(tensor_list, tensor, group, async_op)`` of tensors of one size."""
    group, source, outputs = _begin(tx, given), _plain(given["tensor"]), given["tensor_list"]
    if not isinstance(outputs, ListValue) or len(outputs.elements(tx)) != group.size():
        raise GraphBreak("all_gather() into something else than a list of one tensor for each process")
    targets = [_written(item.realize()) for item in outputs.elements(tx)]
    for target in targets:
        if len(target.fake.shape) != len(source.fake.shape) or target.fake.dtype is not source.fake.dtype or \
                target.fake.device != source.fake.device or \
                not all(map(known_equal, target.fake.shape, source.fake.shape)):
            raise GraphBreak("all_gather() of tensors of several sizes, dtypes or devices")
    result = _collective(tx, "all_gather_into_tensor", group, _flat(tx, source), group.size())
    parts = result.call_method(tx, "chunk", [ConstantValue(group.size())], {})
    assert isinstance(parts, TupleValue)
    return _finish(tx, given, [(target, _shaped(tx, part.realize(), target))  # type: ignore[arg-type]
                               for target, part in zip(targets, parts.items, strict=True)])
