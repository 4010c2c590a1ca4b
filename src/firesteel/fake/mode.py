"""The mode under which programs run on fake tensors, and the way an operator's result is found.

For each operator that reaches us, in this order: a rule of our own; for compositions (``linear`` in inference mode) the
parts they are made of; what was remembered of an earlier call with the same metadata; torch's meta kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from .. import torch_compat
from ..devices import kind_of
from ..records import dataclass
from ..shapes import ShapeEnv, Symbol
from ..torch_compat import has_symbolic_layout
from ..torch_compat.subclasses import has_own_dispatch, is_overriding
from . import agreement, symbolic
from .dims import known_equal, layout_of
from .meta_kernels import MetaRun
from .overlap import refuse_overlap
from .refused_values import Refuses, refused_values
from .rules import Rule, find_rule
from .rules.data_dependent import always, data_result, of_unknown_sum, with_masks
from .rules.elementwise_layouts import Restride, find_layout
from .rules.strides import TOO_LONG
from .symbolic import SYMBOLIC_NUMBERS
from .tensor import DataDependentError, FakeTensor, FakeUnsupported, has_wrappers, new_fake

# Sizes and strides.
Layout = tuple[Sequence[Any], Sequence[Any]]


class FakeMode(torch_compat.DispatchMode):
    """One capture's world of fake tensors: converts real tensors and makes constructors return fakes.

    >>> mode = FakeMode()
    >>> with mode:
    ...     torch.zeros(2) + 1
    FakeTensor((2,), torch.float32, device='cpu')
    """

    def __init__(self) -> None:
        super().__init__()
        torch_compat.neutralise_dynamo_imports()
        # The real tensor is kept so that its id cannot be used again while we live.
        self._fakes: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        self._storages: dict[int, tuple[Any, FakeTensor]] = {}
        # whether an operator that draws random numbers was run
        self.draws_random = False
        # whether a tensor was conjugated or negated lazily, of which fake tensors know nothing
        self.lazy_views = False
        # the storage keys of tensors that were written to, also past autograd's counts: through ``.data``, in inference
        # mode, by batch norm
        self.written: set[int] = set()
        # the symbols of the capture
        self.shape_env: ShapeEnv | None = None
        # symbols for what data decides, and the tensor that has one as its element
        self.data_symbols: list[tuple[Symbol, FakeTensor | None]] = []
        # the same in the order they were made, also by an attempt that failed: another attempt makes the same ones
        self.data_symbols_known: list[Symbol] = []
        # how many elements of masks are true: the mask, the number of changes to it until then, the symbol
        self.mask_counts: dict[int, tuple[FakeTensor, int, Symbol]] = {}
        # the groups of processes that were talked to, by their names, since somebody emptied this
        self.groups: dict[str, None] = {}
        # what buffers of masks hold in this trace, with the buffers, see `torch_compat.distributed_tensors`
        self.mask_buffers: dict[int, tuple[Any, dict[str, Any]]] = {}
        # what a tensor is called in messages
        self.name_of: Callable[[FakeTensor], str] | None = None
        # called ahead of an operator that may raise because of its tensors' values, with the tensors that it may have
        # changed by then, and those that it may have given elements that do not depend on what they were
        self.before_late_error: Callable[[Sequence[FakeTensor], Sequence[FakeTensor]], None] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return NotImplemented if types and has_wrappers(types) else dispatch(self, func, args, kwargs or {})

    def run(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call ``fn`` with this mode entered, at less cost than ``with mode:``."""
        torch_compat.push_dispatch_mode(self)
        try:
            return fn(*args, **kwargs) if kwargs else fn(*args)
        except (RuntimeError, _PlainSizesNeeded) as error:
            # C++ above the dispatcher tried to read memory, for instance of an index tensor.
            if "data is not allocated" in str(error):
                raise DataDependentError(getattr(fn, "__name__", fn)) from error
            if not wants_plain_sizes(error):
                raise
        finally:
            torch_compat.pop_dispatch_mode()
        return self._run_in_python(fn, args, kwargs or {})

    def _run_in_python(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call ``fn`` where torch prefers its Python versions of compositions, which take symbolic sizes."""
        torch_compat.push_dispatch_mode(self)
        try:
            with torch_compat.python_dispatcher():
                return fn(*args, **kwargs)
        except RuntimeError as error:
            if wants_plain_sizes(error):
                name = getattr(fn, "__name__", fn)
                raise FakeUnsupported(name, "its C++ code needs sizes that are numbers") from error
            raise
        finally:
            torch_compat.pop_dispatch_mode()

    def forget(self) -> None:
        """Let go of the real tensors that were converted."""
        self._fakes.clear()
        self._storages.clear()
        self.data_symbols.clear()
        self.mask_counts.clear()
        self.mask_buffers.clear()
        self.name_of = None

    def knows(self, t: torch.Tensor) -> bool:
        """Whether a tensor has been converted, by itself or as the base of a view."""
        return id(t) in self._fakes

    def from_real(self, t: torch.Tensor, layout: Layout | None = None) -> FakeTensor:
        """The fake version of a real tensor, the same one for the same tensor.

        ``layout`` gives sizes and strides in the place of the tensor's own, with symbols in them.

        Aliasing between real tensors becomes aliasing between their fakes, views become views. A tensor in the middle
        of an autograd graph becomes one that requires grad and is not a leaf.
        """
        known = self._fakes.get(id(t))
        if known is not None:
            return known[1]
        if type(t) is FakeTensor:
            return t
        reason = unsupported_reason(t)
        if reason is not None:
            raise FakeUnsupported("from_real", reason)
        try:
            fake = self._convert(t, layout)
        except RuntimeError as error:
            if "inplace" not in str(error):
                raise
            raise FakeUnsupported("from_real", "a view whose base was changed in a way that autograd forbids") from None
        if isinstance(t, torch.nn.Parameter):
            fake.is_parameter = True
            torch_compat.mark_as_parameter(fake)
        self._fakes[id(t)] = (t, fake)
        return fake

    def _convert(self, t: torch.Tensor, layout: Layout | None) -> FakeTensor:
        inference = t.is_inference()
        with torch_compat.inference_mode_guard(inference):
            if inference:
                fake = self._on_storage_of(t, layout)
                fake.requires_grad_(t.requires_grad)
                return fake
            grad_enabled = torch.is_grad_enabled()
            base = torch_compat.view_base(t)
            try:
                # `data` may have given a view other memory than its base has
                if base is not None and base.dtype == t.dtype and unsupported_reason(base) is None \
                        and torch_compat.storage_address(base) == torch_compat.storage_address(t):
                    # A view that requires grad and is no leaf was made with grad mode on.
                    torch_compat.set_grad_enabled(not t.is_leaf)
                    fake = self._view(self.from_real(base), t, layout)
                    torch_compat.created_as(fake, torch_compat.creation_of(t))
                    if fake.requires_grad == t.requires_grad and fake.is_leaf == t.is_leaf:
                        return fake
                    if t.requires_grad and not fake.requires_grad:
                        # It, or a leaf before it, was told to require grad, and its base was not.
                        fake.requires_grad_()
                        return fake if t.is_leaf else self._view(fake, t, layout)
                fake = self._on_storage_of(t, layout)
                if not t.requires_grad:
                    return fake
                fake.requires_grad_()
                if t.is_leaf:
                    return fake
                torch_compat.set_grad_enabled(True)
                inner = self.run(torch.clone, (fake,))
                torch_compat.replace_metadata(inner, self._on_storage_of(t, layout))
                return inner
            finally:
                torch_compat.set_grad_enabled(grad_enabled)

    def _view(self, base: FakeTensor, t: torch.Tensor, layout: Layout | None) -> FakeTensor:
        sizes, strides = layout or (t.shape, t.stride())
        base.unbounded = layout is not None  # in another call the base has another size
        try:
            return self.run(torch.as_strided, (base, sizes, strides, t.storage_offset()))
        finally:
            base.unbounded = False

    def _on_storage_of(self, t: torch.Tensor, layout: Layout | None) -> FakeTensor:
        storage = t.untyped_storage()
        sizes, strides = layout or (t.shape, t.stride())
        offset = t.storage_offset()
        room: Any = storage.nbytes()
        if layout is not None and not any(type(size) is int and size == 0 for size in sizes):
            elements: Any = 1 + offset
            for size, stride in zip(sizes, strides, strict=True):
                elements = elements + (size - 1) * stride
            room = elements * t.dtype.itemsize
        fake = torch_compat.make_wrapper(FakeTensor, sizes, strides, offset, t.dtype, t.device, room)
        known = self._storages.setdefault(torch_compat.storage_serial(t), (storage, fake))[1]
        if known is not fake:
            torch_compat.share_storage(fake, known)
        return fake


def unsupported_reason(t: torch.Tensor) -> str | None:
    """Why a real tensor has no fake version, or None when it has one."""
    if type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter and (
            is_overriding(type(t)) or has_own_dispatch(type(t)) or type(t).__module__.startswith("torch.")):
        return f"a tensor of the subclass {type(t).__qualname__}"
    if t.layout is not torch.strided:
        return f"a tensor of layout {t.layout}"
    if t.is_quantized:
        return "a quantized tensor"
    if t.is_nested:
        return "a nested tensor"
    if t.is_conj() or t.is_neg():
        return "a lazily conjugated or negated tensor"
    if torch_compat.is_functorch_tensor(t) or torch_compat.is_functional_tensor(t):
        return "a tensor inside a torch.func transform"
    if torch_compat.is_zero_tensor(t):
        return "a zero tensor without memory"
    if not t.is_leaf and t.is_inference():
        return "an inference tensor with an autograd history"
    if t.requires_grad and not t.is_floating_point() and not t.is_complex():
        return "a tensor of integers that requires grad"
    if any(step >= TOO_LONG for step in t.stride()):
        return "a tensor with strides that are too long in bytes"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# one operator


@dataclass(slots=True)
class _Operator:
    """What is known of an operator, looked up once."""

    name: str
    rule: Rule | None
    decomposes: bool
    data_dependent: Callable[..., bool] | None
    mutates: bool
    writes: tuple[tuple[int, str], ...]
    untrusted: Callable[..., bool] | None
    random: bool
    lazy_view: bool
    talks: bool
    raises_late: Refuses | None
    restride: Restride | None
    check: agreement.Check | None


_operators: dict[Any, _Operator] = {}

# Operators that write to running statistics in training, of which their signatures say nothing.
_UPDATES_STATISTICS = frozenset({"aten.native_batch_norm.default", "aten.cudnn_batch_norm.default",
                                 "aten.miopen_batch_norm.default"})
_STATISTICS = (3, "running_mean"), (4, "running_var")

# Marked as data dependent because of some of their arguments only.
_SOMETIMES: dict[str, Callable[..., bool]] = {
    "aten.index.Tensor": with_masks,
    "aten.repeat_interleave.Tensor": of_unknown_sum,
}
# Values are looked at, but only to raise an error for bad ones, which eager will do when the graph runs.
_CHECKS = frozenset({"aten._linalg_check_errors.default", "aten._assert_async.default", "aten._assert_async.msg"})
# Those that give elements values which do not depend on what was there, unless told to accumulate.
_OVERWRITE = frozenset({"index_put_", "_index_put_impl_", "_unsafe_index_put_", "put_", "index_copy_", "index_fill_",
                        "scatter_", "masked_scatter_", "bernoulli_", "normal_"})
# Views whose elements differ from those of their base.
LAZY_VIEWS = frozenset({"aten._conj.default", "aten._neg_view.default"})
_LIFTS = frozenset({"aten.lift_fresh.default", "aten.lift.default"})
# Meta kernels that give results another layout than the CPU kernels do, and for which arguments.
_UNTRUSTED: dict[str, Callable[..., bool]] = {
    "aten._fft_r2c.default": lambda x, dims, *rest: x.dim() > 1 and (len(dims) > 1 or not x.is_contiguous()),
    "aten._fft_c2r.default": lambda x, dims, *rest: x.dim() > 1 and (len(dims) > 1 or not x.is_contiguous()),
    "aten._batch_norm_with_update.default": lambda x, *rest: x.dtype is not torch.float32 or not x.is_contiguous(),
    "aten.max_unpool2d.default": lambda x, *rest: not x.is_contiguous(),
}
# Those of them whose kernel is asked for the layout, on zeros in memory of the same layout, and on how many at most.
_ASKED = frozenset({"aten._fft_r2c.default", "aten._fft_c2r.default"})
_MOST_ASKED = 1 << 22


def _look_up(func: Any) -> _Operator:
    if not isinstance(func, torch_compat.OpOverload):
        raise FakeUnsupported(func, "a higher-order operator")
    name = torch_compat.operator_name(func)
    rule = find_rule(name)
    if name in _CHECKS:
        rule = _no_result
    elif name in _PLAIN:
        rule = _PLAIN[name]
    decomposes = rule is None and torch_compat.can_decompose(func)
    data_dependent = _SOMETIMES.get(name)
    if data_dependent is None and torch_compat.is_data_dependent(func) and rule is None and not decomposes:
        data_dependent = always
    operator = _Operator(
        name=name,
        rule=rule,
        decomposes=decomposes,
        data_dependent=data_dependent,
        mutates=torch_compat.mutates_arguments(func),
        writes=_STATISTICS if name in _UPDATES_STATISTICS else torch_compat.written_arguments(func),
        untrusted=_UNTRUSTED.get(name),
        random=torch.Tag.nondeterministic_seeded in func.tags,
        lazy_view=name in LAZY_VIEWS,
        talks=torch_compat.starts_collective(func),
        raises_late=_raises_late(name, torch_compat.mutates_arguments(func)),
        restride=find_layout(func),
        check=agreement.find_check(name),
    )
    _operators[func] = operator
    return operator


def _raises_late(name: str, mutates: bool) -> Refuses | None:
    space, base = name.split(".")[:2]
    if torch_compat.is_collective_space(space):
        return None  # what goes wrong between processes is nothing to start again from
    if space not in ("aten", "prims"):
        return lambda args, kwargs: True
    return refused_values(base) or (_reads_what_it_writes if mutates else None)


def _reads_what_it_writes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an argument shares memory with the first one, which is changed, in another layout: mostly an error."""
    changed = args[0] if args else None
    if type(changed) is not FakeTensor:
        return False
    memory = torch_compat.storage_address(changed)
    return any(type(other) is FakeTensor and other is not changed and torch_compat.storage_address(other) == memory
               and not _same_elements(other, changed) for other in args[1:])


def _same_elements(a: FakeTensor, b: FakeTensor) -> bool:
    """Whether two views of one memory are the same for certain."""
    offsets = a.storage_offset(), b.storage_offset()
    if a.ndim != b.ndim or any(type(offset) is not int for offset in offsets) or offsets[0] != offsets[1]:
        return False
    pairs = zip(layout_of(a), layout_of(b), strict=True)
    return all(type(x) is type(y) and known_equal(x, y) for old, new in pairs for x, y in zip(old, new, strict=True))


def _no_result(*args: Any, **kwargs: Any) -> None:
    return None


class _PlainSizesNeeded(FakeUnsupported):
    """C++ above the dispatcher asked a tensor for plain sizes; in Python, torch often has another way."""


# What torch says when C++ code meets symbolic sizes where it wants numbers.
_PLAIN_SIZE_ERRORS = ("symbolic sizes/strides", "only concrete integers", "called with NO overloaded args")


def wants_plain_sizes(error: Exception) -> bool:
    """Whether an error means that an operation cannot work with symbolic sizes."""
    return isinstance(error, _PlainSizesNeeded) or any(text in str(error) for text in _PLAIN_SIZE_ERRORS)


def _plain(numbers: Callable[[FakeTensor], Sequence[Any]]) -> Rule:
    def plain(x: FakeTensor) -> list[int]:
        if not torch_compat.python_dispatcher_enabled():
            raise _PlainSizesNeeded("Tensor.sizes()", "C++ code needs plain sizes")
        return [int(number) for number in numbers(x)]

    return plain


_PLAIN = {"aten.size.default": _plain(lambda x: x.shape), "aten.stride.default": _plain(lambda x: x.stride())}


def dispatch(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one operator on fake tensors."""
    operator = _operators.get(func)
    if operator is None:
        operator = _look_up(func)
    if operator.random and mode is not None:
        mode.draws_random = True
    if operator.lazy_view and mode is not None:
        mode.lazy_views = True
    if operator.talks and mode is not None:
        mode.groups[str(args[-1])] = None
    if operator.raises_late is not None and mode is not None and mode.before_late_error is not None \
            and operator.raises_late(args, kwargs):
        mode.before_late_error(*_half_done(operator, args, kwargs))
    if operator.writes and mode is not None:
        _note_writes(mode, operator, args, kwargs)
    with_symbols = False
    for value in args:
        kind = type(value)
        if kind is FakeTensor:
            if has_symbolic_layout(value):
                with_symbols = True
        elif kind is int:
            continue
        elif kind is list or kind is tuple:
            for item in value:
                if isinstance(item, torch.Tensor):
                    if type(item) is not FakeTensor:
                        return _with_real_tensor(func, item)
                    if has_symbolic_layout(item):
                        with_symbols = True
                elif isinstance(item, SYMBOLIC_NUMBERS):
                    with_symbols = True
        elif isinstance(value, torch.Tensor):
            return _with_real_tensor(func, value)
        elif isinstance(value, SYMBOLIC_NUMBERS):
            with_symbols = True
    for value in kwargs.values():
        if isinstance(value, torch.Tensor):
            if type(value) is not FakeTensor:
                return _with_real_tensor(func, value)
            if has_symbolic_layout(value):
                with_symbols = True
        elif isinstance(value, SYMBOLIC_NUMBERS):
            with_symbols = True
    if operator.data_dependent is not None and operator.data_dependent(*args, **kwargs):
        return data_result(mode, func, args, kwargs)
    if with_symbols:
        return _with_symbols(mode, func, operator, args, kwargs)
    if operator.check is not None:
        agreement.require(func, operator.check, args, kwargs)
    if operator.rule is not None:
        result = operator.rule(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return _without_rule(mode, func, operator, args, kwargs)


FakeTensor.run_operator = staticmethod(dispatch)


def _note_writes(mode: FakeMode, operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if operator.writes is _STATISTICS and not (args[5] if len(args) > 5 else kwargs.get("training")):
        return
    refuse_overlap(operator.name, operator.writes, args, kwargs)
    for item in _written(operator, args, kwargs):
        mode.written.add(item.storage_key)


def _half_done(
    operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Sequence[FakeTensor], Sequence[FakeTensor]]:
    """What an operator may have changed when it raises, and what it may have overwritten."""
    if not operator.writes:
        return (), ()
    written = _written(operator, args, kwargs)
    base = operator.name.split(".")[1]
    if base in _OVERWRITE and not kwargs.get("accumulate") and "reduce" not in kwargs \
            and not any(type(value) is bool and value for value in args):
        return (), written
    return written, ()


def _written(operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[FakeTensor]:
    """The tensors that an operator writes to."""
    written: list[FakeTensor] = []
    for position, name in operator.writes:
        given = args[position] if position < len(args) else kwargs.get(name)
        written += [item for item in (given if isinstance(given, (list, tuple)) else (given,))
                    if type(item) is FakeTensor]
    return written


def _with_symbols(
    mode: FakeMode | None, func: Any, operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    call = symbolic.Call(func, args, kwargs)
    table = call.table
    if table is not None and not operator.mutates:
        recipe = table.results.get(call.key)
        if recipe is not None:
            return symbolic.follow(recipe, args)
    if operator.check is not None:
        agreement.require(func, operator.check, call.args, call.kwargs)
    result = NotImplemented if operator.rule is None else operator.rule(*call.args, **call.kwargs)
    if result is NotImplemented:
        result = _without_rule(mode, func, operator, args, kwargs, with_symbols=True)
        if operator.decomposes:
            return result
    if table is not None and not operator.mutates:
        table.results[call.key] = symbolic.recipe_of(result, args)
    return result


def _without_rule(
    mode: FakeMode | None,
    func: Any,
    operator: _Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    with_symbols: bool = False,
) -> Any:
    if operator.decomposes:
        # In inference mode no autograd layer above us takes compositions apart.
        if mode is not None:
            return mode.run(torch_compat.decompose, (func, args, kwargs))
        return torch_compat.decompose(func, args, kwargs)
    if operator.untrusted is not None and operator.untrusted(*args):
        if operator.name not in _ASKED or with_symbols:
            raise FakeUnsupported(func, "the layout of the result is not known")
        return _as_kernel_lays_out(func, args, kwargs)
    try:
        return _through_meta(func, operator, args, kwargs, with_symbols)
    except DataDependentError:
        from ..torch_compat.fake_kernels import fake_kernel

        kernel = fake_kernel(func)
        if kernel is None or mode is None or mode.shape_env is None:
            raise
        return _with_sizes_from_data(mode, mode.shape_env, func, kernel, args, kwargs)


def _as_kernel_lays_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeTensor:
    """The single result of an operator of one tensor, laid out as its kernel for the CPU does it."""
    x = args[0]
    if not kind_of(x.device).is_host or x.numel() > _MOST_ASKED:
        raise FakeUnsupported(func, "the layout of the result is not known")
    key = (func, _key_of(args), tuple([(k, _key_of(v)) for k, v in kwargs.items()]))
    recipe = _memo.get(key)
    if recipe is None:
        with torch_compat.below_python_key():
            zeros = torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype).zero_()
            result = func(zeros, *args[1:], **kwargs)
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        recipe = _memo[key] = _Recipe(tuple(result.shape), result.stride(), result.dtype, x.device)
    return new_fake(*recipe)  # type: ignore[no-any-return]


def _with_sizes_from_data(mode: FakeMode, env: ShapeEnv, func: Any, kernel: Any, args: tuple[Any, ...],
                          kwargs: dict[str, Any]) -> Any:
    """A user's fake kernel that asks for sizes which only data decide (``torch.library.get_ctx``): they are symbols."""
    from ..shapes.symnode import make_symbolic
    from ..torch_compat.fake_kernels import answering_get_ctx
    from .dims import dim_of
    from .rules.data_dependent import new_size

    class Sizes:
        def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
            at_most = max if max is None or type(max) is int else dim_of(max)
            size = new_size(mode, torch_compat.operator_name(func), at_most, int(min))
            return make_symbolic(env, size.expr)

        create_unbacked_symint = new_dynamic_size

    with answering_get_ctx(Sizes()):
        return kernel(*args, **kwargs)


def _with_real_tensor(func: Any, t: torch.Tensor) -> Any:
    name = torch_compat.operator_name(func)
    if name in _LIFTS and unsupported_reason(t) is None:
        # torch.tensor(...) and its like build the constant for real, then announce it.
        return new_fake(t.shape, t.stride(), t.dtype, t.device)
    raise FakeUnsupported(func, f"a real tensor of shape {tuple(t.shape)} met fake tensors")


class _Recipe(NamedTuple):
    """Metadata of one result tensor."""

    shape: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device


_memo: dict[Any, Any] = {}
_MEMO_LIMIT = 20_000


def _key_of(value: Any) -> Any:
    """A hashable stand-in of an argument. Numbers carry their type: 1, 1.0 and True promote differently."""
    if type(value) is FakeTensor:
        return value.shape, value.stride(), value.dtype, value.device
    if isinstance(value, (list, tuple)):
        return tuple([_key_of(item) for item in value])
    if isinstance(value, (int, float, complex)):
        return type(value), value, str(value) if value == 0 else None
    if isinstance(value, torch.Generator):
        return None
    return value


def _through_meta(
    func: Any, operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any], with_symbols: bool
) -> Any:
    key = None
    if not with_symbols:
        key = (func, torch.get_default_dtype(), _key_of(args), tuple([(k, _key_of(v)) for k, v in kwargs.items()]))
        recipe = _memo.get(key)
        if recipe is not None:
            return _follow(recipe)
    if operator.mutates and args and type(args[0]) is FakeTensor and _shares_memory_with_itself(args[0]):
        # Most operators refuse to write to expanded tensors, their meta kernels do not know.
        raise FakeUnsupported(func, "several elements of an argument share memory")
    run = MetaRun(func, with_symbols)
    result = run(args, kwargs)
    if operator.restride is not None and not run.aliases:
        result = operator.restride(result, args, kwargs)
    if key is not None and not operator.mutates and not run.aliases:
        if len(_memo) >= _MEMO_LIMIT:
            _memo.clear()
        _memo[key] = _recipe_of(result)
    return result


def _shares_memory_with_itself(t: FakeTensor) -> bool:
    shape, stride = layout_of(t)
    return any(type(step) is int and step == 0 and size > 1 for size, step in zip(shape, stride, strict=True))


def _recipe_of(result: Any) -> Any:
    if isinstance(result, FakeTensor):
        return _Recipe(tuple(result.shape), tuple(result.stride()), result.dtype, result.device)
    if isinstance(result, (list, tuple)):
        return [type(result), *(_recipe_of(item) for item in result)]
    return result


def _follow(recipe: Any) -> Any:
    if type(recipe) is _Recipe:
        return new_fake(*recipe)
    if type(recipe) is list:
        return recipe[0](_follow(item) for item in recipe[1:])
    return recipe
