"""Tensors: a node of the graph under construction together with a fake tensor that knows its metadata."""

from __future__ import annotations

import math
import operator
import types
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ... import torch_compat
from ...shapes import ge, le
from ...torch_compat import inference_mode_guard, view_base
from ..call_signatures import refused
from ..python_warnings import warn_of_float
from ..signals import GraphBreak, SkipFrame
from ..source import AttrSource, ConstantSource, InstanceDictSource, Source, item_source
from .base import LazyValue, Value, identity_key
from .constants import ConstantValue, NumberValue, SliceValue
from .methods import MethodValue, NativeMethod
from .storages import StorageValue, address

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

# Attributes that are plain facts about a tensor, never part of the graph.
METADATA = frozenset(name for name in (
    "dtype", "device", "layout", "ndim", "requires_grad", "is_leaf", "is_cuda", "is_cpu", "is_meta", "is_sparse",
    "is_sparse_csr", "is_quantized", "is_mkldnn", "is_nested", "is_xpu", "is_mps", "is_xla", "is_vulkan", "is_ipu",
    "is_hpu", "is_mtia", "is_maia", "is_ort", "itemsize", "nbytes", "names", "output_nr", "retains_grad",
) if hasattr(torch.Tensor, name))

# Facts about how a tensor came about, which guards on inputs do not tell.
OF_AUTOGRAD = frozenset({"retains_grad", "output_nr"})

# Attributes that torch has a getter for, which function modes are asked about.
GETTERS = frozenset(name for name in dir(torch.Tensor) if isinstance(
    getattr(torch.Tensor, name, None), (types.GetSetDescriptorType, property)) and not name.startswith("__"))

# Attributes that compute a tensor.
COMPUTED = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})

# Methods whose result depends on the data, or which leave PyTorch; the reason shown to the user.
BREAKING_METHODS = {
    "numpy": ("Tensor.numpy() leaves PyTorch", "use torch functions instead of NumPy's here"),
    "__array__": ("conversion of a tensor to a NumPy array", "use torch functions instead of NumPy's here"),
    "__complex__": ("complex() of a tensor needs its data", ""),
    "__repr__": ("the text of a tensor needs its data", ""),
    "__str__": ("the text of a tensor needs its data", ""),
    "__format__": ("the text of a tensor needs its data", ""),
    "__reduce_ex__": ("pickling a tensor", ""),
    "storage": ("the storage of a tensor", ""),
    "set_": ("Tensor.set_()", ""), "resize_": ("Tensor.resize_()", ""), "apply_": ("Tensor.apply_()", ""),
    "map_": ("Tensor.map_()", ""), "share_memory_": ("Tensor.share_memory_()", ""),
    "__dlpack__": ("DLPack conversion of a tensor", ""), "cpu_data": ("", ""),
}


# Methods that ask for the gradient that will come.
GRADIENT_HOOKS = frozenset({"register_hook", "register_post_accumulate_grad_hook", "retain_grad"})
# Methods that give the value of a tensor's only element as a number.
NUMBER_METHODS = frozenset({"item", "__int__", "__float__", "__bool__", "__index__", "is_nonzero"})
# Tensors with more elements than this are not taken apart into numbers.
MAX_LIST = 256

# Operations with a factor, and what is done with the product of the factor and the first operand.
SCALED = {"addcdiv": "div", "addcdiv_": "div", "addcmul": "mul", "addcmul_": "mul"}
# Operations with a factor of the operand.
WITH_ALPHA = frozenset({"add", "add_", "sub", "sub_"})


PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)


class TensorValue(Value):
    """A tensor of the captured program."""

    __slots__ = ("node", "fake", "cls", "real", "attrs")
    native_methods = True

    def __init__(
        self, node: Any, fake: Any, source: Source | None = None, cls: type = torch.Tensor, real: Any = None
    ) -> None:
        super().__init__(source)
        self.node = node
        self.fake = fake
        self.cls = cls
        self.real = real
        self.attrs: dict[str, Value | None] = {}

    def __repr__(self) -> str:
        return f"TensorValue({self.node}, {tuple(self.fake.shape)}, {self.fake.dtype})"

    def describe(self) -> str:
        return "a tensor"

    def python_type(self) -> type:
        return self.cls

    def known_truth(self) -> bool | None:
        """Its truth where that is the same for all data."""
        from ..data_facts import known_truth  # few programs ask

        single = all(type(size) is int and size == 1 for size in self.fake.shape)
        return known_truth(self.node) if single else None

    def truth(self, tx: Tracer) -> bool:
        from ..assumed_branches import assumed_truth  # few programs ask
        from ..early_numbers import number_of_argument

        known = self.known_truth()
        if known is None:
            known = assumed_truth(tx, self)
        if known is not None:
            return known
        if (number := number_of_argument(tx, self)) is not None:
            return tx.truth(number)
        if tx.frames and tx.frames[-1].user_frame().is_loop:
            raise GraphBreak("a loop depends on the value of a tensor",
                             "use fs.while_loop; otherwise the graph ends in every round")
        raise GraphBreak("a branch depends on the value of a tensor",
                         "use torch.where or fs.cond, or let branches without side effects become one with "
                         "options={'capture_branches': True}; the two branches are compiled separately otherwise")

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name in self.attrs:
            value = self.attrs[name]
            if value is not None:
                return value
        if tx.torch_functions.modes and tx.torch_functions.asked_modes and name in GETTERS:
            return tx.torch_functions.read(tx, self, name)
        return self.plain_attr(tx, name)

    def history(self) -> Any:
        """``grad_fn``. In inference mode, autograd does not find out what that of a changed view without data is."""
        if not torch.is_inference_mode_enabled():
            return self.fake.grad_fn
        with inference_mode_guard(False):
            return self.fake.grad_fn

    def plain_attr(self, tx: Tracer, name: str) -> Value:
        """An attribute that no mode is asked about."""
        if name == "shape":
            return tx.symbols.shape(self.fake)
        if name == "nbytes":
            return tx.symbols.value_of(self.fake.numel() * self.fake.itemsize)
        if name in OF_AUTOGRAD and self.source is not None:
            fact = getattr(self.real, name)
            tx.guard(self.source, name, f"{{0}}.{name} == {fact!r}")
            return tx.constant(fact)
        if name in METADATA:
            return tx.python_object(getattr(self.fake, name) if name != "is_leaf" else self.history() is None)
        if name in COMPUTED:
            return tx.call_torch(getattr, [self, tx.constant(name)], {})
        if name == "__class__":
            return tx.python_object(self.cls)
        if name == "grad":
            return self.grad(tx)
        if name == "grad_fn":
            if self.history() is None:  # for inputs, being a leaf is guarded
                return tx.constant(None)
            raise self.break_for_autograd(tx, "reading Tensor.grad_fn")
        if name == "_version":
            raise GraphBreak("reading Tensor._version")
        if name == "_base" and self.source is None and view_base(self.fake) is None:
            return tx.constant(None)
        if self.source is not None and name in (getattr(self.real, "__dict__", None) or ()):
            return LazyValue(tx, self.real.__dict__[name], item_source(InstanceDictSource(self.source), name)).realize()
        added = torch_compat.TENSOR_METHODS.added(name)
        if added is not None:
            return self.added_member(tx, name, added)
        try:
            found_on_class = getattr(self.cls, name)
        except AttributeError:
            missing_from = self.source or ConstantSource.of(torch.Tensor, "torch.Tensor")
            tx.guard(missing_from, "missing attribute", "not hasattr({0}, {k[0]})", (name,))
            raise tx.raised(AttributeError(f"{self.cls.__name__!r} object has no attribute {name!r}")) from None
        if callable(found_on_class):
            return NativeMethod(self, name)
        raise GraphBreak(f"reading attribute {name!r} of a tensor")

    def added_member(self, tx: Tracer, name: str, member: Any) -> Value:
        """What the program, not torch, has put into ``torch.Tensor``, and may take away again."""
        if type(member) is not types.FunctionType:
            raise GraphBreak(f"reading {name!r}, which was added to torch.Tensor")
        where = AttrSource(ConstantSource.of(torch.Tensor, "torch.Tensor"), name)
        return MethodValue(self, LazyValue(tx, member, where).realize())

    def grad(self, tx: Tracer) -> Value:
        if self.source is None:
            if self.fake.is_leaf and self.fake.grad is None:
                return tx.constant(None)
            raise GraphBreak("reading .grad of a tensor made in the compiled function")
        return LazyValue(tx, self.real.grad, AttrSource(self.source, "grad")).realize()

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        value = value.realize()
        if name == "requires_grad" and value.is_constant():
            tx.call_torch("requires_grad_", [self, value], {})
            return
        if name == "grad" and (self.source is not None or self.fake.is_leaf):
            self.attrs["grad"] = value
            tx.effects.attribute(self, name)
            return
        if name == "data":
            if isinstance(value, TensorValue) and value.fake is self.fake:  # as `module.to(dtype)` does without need
                return
            self.replace_data(tx, value)
            return
        if hasattr(torch.Tensor, name):
            self.unsupported(f"setting attribute {name!r}")
        self.attrs[name] = value
        tx.effects.attribute(self, name)

    def replace_data(self, tx: Tracer, value: Value) -> None:
        """``self.data = value``: other memory from here on, which one from outside gets for real behind the graph."""
        if not isinstance(value, TensorValue) or self.cls not in PLAIN_CLASSES or value.cls not in PLAIN_CLASSES or \
                self.fake.is_inference() or not self.fake.is_leaf:
            raise GraphBreak("assigning to Tensor.data of a tensor that was computed from others, or of another class")
        if self.source is None and self.fake.requires_grad:
            raise GraphBreak("assigning to Tensor.data of a tensor made inside that requires grad", "use copy_()")
        data = tx.call_torch("detach", [value], {})
        assert isinstance(data, TensorValue)
        with_grad = self.fake.requires_grad
        shown = tx.call_torch("requires_grad_", [tx.call_torch("detach", [data], {})], {}) if with_grad else data
        assert isinstance(shown, TensorValue)
        if self.source is not None:
            self.attrs["data"] = data
            tx.effects.attribute(self, "data")
        self.node, self.fake = shown.node, shown.fake
        tx.tensor_of_fake[id(shown.fake)] = self

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "set_" and len(args) == 1 and not kwargs and not self.fake.requires_grad:
            self.replace_data(tx, args[0].realize())
            return self
        if name == "numpy" and not args and not kwargs:
            return tx.arrays.of_tensor(tx, self)
        if name in GRADIENT_HOOKS:
            return tx.register_hook(self, name, args, kwargs)
        if name == "data_ptr" and not args:
            return address(tx, self)
        if name == "_is_view" and not args and self.source is not None:
            fact = torch_compat.is_view(self.real)
            tx.guard(self.source, name, f"{{0}}._is_view() is {fact}")
            return tx.constant(fact)
        if name == "untyped_storage" and not args:
            return StorageValue(self)
        if name == "__deepcopy__" and len(args) == 1:
            return tx.deep_copy(self, args[0].realize())
        if name in BREAKING_METHODS:
            reason, hint = BREAKING_METHODS[name]
            raise GraphBreak(reason, hint)
        if tx.torch_functions.modes and tx.torch_functions.asked_modes and name != "as_subclass":
            return tx.torch_functions.call(tx, name, [self, *args], kwargs)
        if name == "as_subclass":
            return tx.call(tx.python_object(torch.Tensor.as_subclass), [self, *args], kwargs)
        if name == "backward":
            return tx.backward(self, args, kwargs)
        if name in NUMBER_METHODS and not args and not kwargs:
            return self.number(tx, name)
        if name == "tolist" and not args and not kwargs:
            return self.to_list(tx)
        if name == "size":
            sizes = tx.symbols.shape(self.fake)
            if not args and not kwargs:
                return sizes
            given = [*args, *kwargs.values()]
            if len(given) != 1 or not kwargs.keys() <= {"dim"} or given[0].realize().python_type() is not int:
                raise GraphBreak("size() of something else than one dimension")
            dim = tx.constant_of(given[0])
            if not -len(sizes.items) <= dim < len(sizes.items):
                raise refused("size")
            return sizes.items[dim]
        if name == "new" and args and args[0].realize().python_type() is torch.Size:
            if kwargs or len(args) > 1:
                raise GraphBreak("Tensor.new() with unusual arguments", "use Tensor.new_empty()")
            return tx.call_torch("new_empty", [self, args[0]], {})  # a graph keeps sizes as tuples, which are data here
        if name == "__len__":
            return self.length(tx)
        if name == "__iter__":
            return self.iterate(tx)
        if name == "__hash__":
            raise GraphBreak("hash() of a tensor")
        if name == "__getitem__":
            return self.get_item(tx, args[0])
        if name == "__setitem__":
            self.set_item(tx, args[0], args[1])
            return ConstantValue(None)
        if name == "__contains__":
            raise GraphBreak("membership test in a tensor needs its data")
        scale = kwargs["value"].realize() if name in SCALED and "value" in kwargs else None
        if isinstance(scale, TensorValue) and len(args) == 2:
            # optimizers keep this factor in a tensor while compiling; as an argument it would be read
            product = tx.call_torch(SCALED[name], [tx.call_torch("mul", [args[0], scale], {}), args[1]], {})
            return tx.call_torch("add_" if name.endswith("_") else "add", [self, product], {})
        alpha = kwargs["alpha"].realize() if name in WITH_ALPHA and "alpha" in kwargs else None
        if isinstance(alpha, TensorValue) and len(args) == 1:
            return tx.call_torch(name, [self, tx.call_torch("mul", [args[0], alpha], {})], {})
        added = torch_compat.TENSOR_METHODS.added(name)
        if added is not None:
            return tx.call(self.added_member(tx, name, added), args, kwargs)
        return tx.call_torch(name, [self, *args], kwargs)

    def break_for_autograd(self, tx: Tracer, reason: str, hint: str = "") -> GraphBreak | SkipFrame:
        """The signal for a step that asks autograd about this tensor."""
        if self.has_uses_in_history and not tx.compiler.fullgraph:
            return SkipFrame(f"{reason}: the tensor has been used before", this_call=True)
        return GraphBreak(reason, hint)

    @property
    def has_uses_in_history(self) -> bool:
        """Whether autograd would see other gradients of this tensor as a result of the graph: those that come from
        outside only, not from its uses. So it is for arguments that are changed in place."""
        return self.fake.requires_grad and bool(self.node.users) and (
            self.source is None or not self.fake.is_leaf and torch_compat.version_of(self.fake) > 0)

    def item(self, tx: Tracer) -> Value:
        """The value of the only element: a number that the graph reads."""
        if self.fake.dtype.is_complex:
            raise GraphBreak("a complex number in a tensor is read")
        known = self.known_number(tx) or tx.early_numbers.input(tx, self)
        if known is not None:
            return known
        element = tx.number_nodes.element(self)
        if element is None:
            number = tx.call_torch("item", [self], {})
            self._bound(tx, number)
        else:
            number = tx.number_nodes.elements.get(element) or \
                tx.number_nodes.elements.setdefault(element, tx.call_torch("item", [self], {}))
        tx.early_numbers.note(tx, self, (), number)
        return number

    def _bound(self, tx: Tracer, number: Value) -> None:
        """What is known of an integer for all data: where a maximum is, it is inside of its dimension."""
        from ..data_facts import range_of  # few programs ask

        plain = self.fake.dtype is torch.bool or self.fake.dtype.is_floating_point
        bounds = None if plain else range_of(self.node)
        if bounds is not None and isinstance(number, NumberValue) and number.hint is None:
            if math.isfinite(bounds.low):
                tx.shape_env.assume(ge(number.expr, int(bounds.low)))
            if math.isfinite(bounds.high):
                tx.shape_env.assume(le(number.expr, int(bounds.high)))

    def known_number(self, tx: Tracer) -> Value | None:
        """The value of its only element where the program made it of numbers alone."""
        from ..data_facts import known_number, known_size  # few programs ask

        number = known_number(self.node)
        if number is None:
            number = known_size(self.node)
        return None if number is None else tx.python_object(number)

    def number(self, tx: Tracer, method: str) -> Value:
        """A method that converts the only element to a number."""
        dtype = self.fake.dtype
        if method == "__index__" and (dtype.is_floating_point or self.fake.dim() and dtype is not torch.bool):
            raise GraphBreak("a tensor that is no integer as an index")
        if method == "__float__" and self.fake.requires_grad and torch.is_grad_enabled():
            warn_of_float(tx)
        value = self.item(tx).realize()
        if method == "item" or not isinstance(value, (NumberValue, ConstantValue)):
            return value
        if isinstance(value, ConstantValue):
            to = {"__bool__": bool, "is_nonzero": bool, "__float__": float}.get(method, int)
            return tx.call(tx.python_object(to), [value], {})
        if method in ("__bool__", "is_nonzero"):
            return tx.number_rules.truth_value(tx, value)
        if method == "__float__":
            return tx.number_rules.apply(tx, float, [value])
        return tx.number_rules.as_int(tx, value) if dtype is torch.bool else tx.number_rules.apply(tx, int, [value])

    def to_list(self, tx: Tracer) -> Value:
        """All elements as numbers, in nested lists."""
        if self.fake.dim() == 0:
            return self.item(tx)
        shape = [tx.constant_of(size) for size in tx.symbols.shape(self.fake).items]
        if self.fake.dtype.is_complex or math.prod(shape) > MAX_LIST:
            raise GraphBreak(f"Tensor.tolist() of {math.prod(shape)} elements", "keep the values as tensors")
        return tx.tensor_list(self, shape)

    def as_index(self, tx: Tracer) -> Any:
        from ..early_numbers import number_of_argument  # few programs ask

        if number_of_argument(tx, self) is not None:
            return tx.constant_of(self.number(tx, "__index__"))
        raise GraphBreak("a tensor as an index into a Python sequence needs its value",
                         "index with a Python int, or stack the sequence into a tensor and index that")

    def length(self, tx: Tracer) -> Value:
        if self.fake.dim() == 0:
            raise tx.raised(TypeError("len() of a 0-d tensor"))
        return tx.symbols.shape(self.fake).get_item(tx, tx.constant(0))

    def iterate(self, tx: Tracer) -> Value:
        if self.fake.dim() == 0:
            raise tx.raised(TypeError("iteration over a 0-d tensor"))
        rows = tx.symbols.shape(self.fake).items[0].realize()
        if isinstance(rows, NumberValue) and rows.hint is None:
            from ..assumed_branches import assumed_rounds  # few programs ask

            assumed_rounds(tx, rows.expr)
        return tx.call_torch("unbind", [self, tx.constant(0)], {}).iterate(tx)

    def get_item(self, tx: Tracer, key: Value) -> Value:
        key = key.realize()
        if tx.objects.has_special(key, "__index__") and not isinstance(key, (TensorValue, ConstantValue, NumberValue)):
            if tx.objects.has_special(key, "__getitem__") and not issubclass(key.python_type(), (int, dict)):
                raise GraphBreak(f"{key.describe()} as an index, which torch takes for a sequence")
            key = tx.objects.call_special(tx, key, "__index__").realize()
        if key.python_type() is tuple and self.fake.requires_grad and torch.is_grad_enabled():
            key = self._without_whole_slices(tx, key)
        return tx.call_torch(operator.getitem, [self, key], {})

    def _without_whole_slices(self, tx: Tracer, key: Value) -> Value:
        """A subscript where slices by varying numbers that take everything take it by name: for eager they are no
        slices then, and gradients lie in memory as they come."""
        parts = [part for item in tx.to_list(key) if isinstance(part := item.realize(), SliceValue)]
        if not len(parts) == tx.constant_of(key.length(tx)) <= self.fake.dim() \
                or not any(_varies(part) for slices in parts for part in slices.parts):
            return key
        whole: list[Value] = []
        for dim, slices in enumerate(parts):
            start, stop, step = [part.realize() for part in slices.parts]
            if _is_one_of(step, None, 1):
                if _varies(start) and tx.truth(tx.compare("==", start, tx.constant(0))):
                    start = tx.constant(None)
                if _is_one_of(start, None, 0) and _varies(stop) and tx.truth(
                        tx.compare(">=", stop, tx.symbols.shape(self.fake).get_item(tx, tx.constant(dim)))):
                    stop = tx.constant(None)
            whole.append(SliceValue(start, stop, step))
        return tx.make_tuple(whole)

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        kind = value.realize().python_type()
        if issubclass(kind, numpy.inexact) and not issubclass(kind, (float, complex)):
            raise GraphBreak(f"numpy.{kind.__name__} written into a tensor, which torch refuses")
        tx.call_torch(operator.setitem, [self, key, value], {})

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)

    def emit(self, code: EntryCode) -> str:
        name = code.graph_output(self)
        if self.cls is torch.nn.Parameter and not self.fake.requires_grad:
            name = code.assign(self, f"{code.constant(_as_parameter)}({name})")
        if self.attrs:
            name = code.assign(self, name)
            self.emit_attributes(code, name)
        return name

    def emit_attributes(self, code: EntryCode, name: str) -> None:
        """What the program has set on a tensor that it has made."""
        for attribute, value in self.attrs.items():
            if value is None or attribute == "grad" and value.is_constant():  # of a leaf made inside
                continue
            if attribute == "grad":
                code.line(f"{name}.grad = {code.value(value)}")
            else:
                code.line(f"{code.constant(object.__setattr__)}({name}, {attribute!r}, {code.value(value)})")


def _as_parameter(tensor: torch.Tensor) -> torch.nn.Parameter:
    """A Parameter that was made inside and has no gradient: graphs give such results as plain tensors."""
    return tensor if isinstance(tensor, torch.nn.Parameter) else torch.nn.Parameter(tensor, requires_grad=False)


def _varies(value: Value) -> bool:
    """Whether a value is a number that another call may have otherwise, and that is known in this one."""
    value = value.realize()
    return isinstance(value, NumberValue) and value.hint is not None


def _is_one_of(value: Value, *constants: Any) -> bool:
    return isinstance(value, ConstantValue) and any(value.value is constant for constant in constants)
