"""Everything in torch that is not public API and that firesteel needs, behind small named functions.

No other module of the package touches a name of torch that begins with an underscore, so that a new torch release is a
change in this file alone. Nothing here imports torch's own compiler; :func:`neutralise_dynamo_imports` also keeps torch
from importing it behind our back.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import sys
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "AutocastState",
    "DispatchMode",
    "OpOverload",
    "autocast_state",
    "below_python_key",
    "can_decompose",
    "convolution_memory_format",
    "decompose",
    "disabled_torch_function",
    "dispatch_key_bits",
    "dispatch_keys",
    "dynamo_is_loaded",
    "function_mode_devices",
    "functorch_active",
    "implementation_address",
    "inference_mode_guard",
    "is_data_dependent",
    "is_functional_tensor",
    "is_functorch_tensor",
    "is_zero_tensor",
    "library_function",
    "make_wrapper",
    "mark_as_parameter",
    "mutates_arguments",
    "neutralise_dynamo_imports",
    "operator_name",
    "pop_dispatch_mode",
    "push_dispatch_mode",
    "python_dispatcher",
    "replace_metadata",
    "schema_of",
    "set_autocast_state",
    "set_grad_enabled",
    "share_storage",
    "storage_address",
    "storage_serial",
    "torch_dispatch_stack_length",
    "torch_function_enabled",
    "torch_function_stack_length",
    "view_base",
]

# ---------------------------------------------------------------------------------------------------------------------
# keeping torch._dynamo out of the process


_neutralised = False
_neutralise_lock = threading.Lock()
_MARK = "__dynamo_disable"


def neutralise_dynamo_imports() -> int:
    """Stop torch's own functions from importing ``torch._dynamo`` (and sympy, 0.9 s) on their first call.

    Many Python functions of torch (meta kernels, dispatch modes, optimizers) are wrapped so that torch's compiler does
    not trace into them; the wrapper imports that compiler when first called, unless the wrapped function already
    carries the attribute in which the wrapper caches its result. The attribute is set here on every function wrapped so
    far and on those wrapped later. ``step`` of the optimizers imports the compiler in its own body; its body is
    replaced by one that does the same without the import. Meta kernels also import torch's symbolic shapes, and with
    them sympy (0.7 s), for a few predicates that are trivial on plain sizes; see :class:`_SymbolicShapes`.

    Returns the number of functions treated; later calls do nothing and return 0.
    """
    global _neutralised
    with _neutralise_lock:
        if _neutralised:
            return 0
        _neutralised = True
        from torch.optim import optimizer

        wrapper_code = torch._disable_dynamo(lambda: None).__code__  # type: ignore[attr-defined]
        make_step: Any = optimizer._use_grad_for_differentiable
        step_code = make_step(lambda self: None).__code__
        # One pass in C over the objects the collector knows; filtering gc.get_objects() in Python takes three times as
        # long.
        candidates = [f for f in gc.get_referrers(wrapper_code, step_code) if type(f) is types.FunctionType]
        wrappers = [f for f in candidates if f.__code__ is wrapper_code]
        names = wrapper_code.co_freevars
        for wrapper in wrappers:
            # Not __wrapped__: later decorators overwrite it.
            _mark(wrapper.__closure__[names.index("fn")].cell_contents)  # type: ignore[index]
        _mark_future_functions()
        steps = [f for f in candidates if f.__code__ is step_code]
        _replace_optimizer_steps(make_step, step_code, steps)
        _SymbolicShapes.install()
        _keep_promotion_from_sympy()
        return len(wrappers) + len(steps)


def _mark(fn: Callable[..., Any]) -> None:
    # Also when the attribute is there: functools.wraps copies attributes, so it may name another function.
    try:
        setattr(fn, _MARK, fn)
    except AttributeError:  # a builtin takes no attributes; it keeps torch's behaviour
        pass


def _mark_future_functions() -> None:
    original = torch._compile._disable_dynamo

    @functools.wraps(original)
    def disable_without_import(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
        if fn is None:
            return functools.partial(disable_without_import, recursive=recursive)
        _mark(fn)
        return original(fn, recursive)

    torch._compile._disable_dynamo = disable_without_import  # type: ignore[assignment]
    torch._disable_dynamo = disable_without_import  # type: ignore[attr-defined]


def _step_template(func: Callable[..., Any]) -> Callable[..., Any]:
    # The inner function's code runs with the globals of torch.optim.optimizer, where of this module's names only
    # ``torch`` exists; hence the import inside.
    def _use_grad(*args: Any, **kwargs: Any) -> Any:
        import sys

        from firesteel.control import is_compiling

        # torch's own compiler breaks here; ours has no reason to
        break_graph = None if is_compiling() else getattr(sys.modules.get("torch._dynamo"), "graph_break", None)
        previous = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(args[0].defaults["differentiable"])
            if break_graph is not None:
                break_graph()
            return func(*args, **kwargs)
        finally:
            if break_graph is not None:
                break_graph()
            torch.set_grad_enabled(previous)

    return _use_grad


def _replace_optimizer_steps(
    make_step: types.FunctionType, old: types.CodeType, steps: list[types.FunctionType]
) -> None:
    new: types.CodeType = _step_template(lambda: None).__code__  # type: ignore[attr-defined]
    if old.co_freevars != new.co_freevars or "torch._dynamo" not in old.co_names:
        # Another torch release with another body: leave it, it works, it only imports the compiler.
        return
    for step in steps:
        step.__code__ = new
    # Optimizers written later are decorated by the same factory, which holds the old code among its constants.
    consts = tuple(new if const is old else const for const in make_step.__code__.co_consts)
    make_step.__code__ = make_step.__code__.replace(co_consts=consts)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float))


class _SymbolicShapes(types.ModuleType):
    """Stands in for ``torch.fx.experimental.symbolic_shapes`` until something symbolic is asked of it.

    Torch's meta kernels import predicates from that module inside their bodies. On plain numbers the answers are
    plain Python; they are given here. Any other argument, and any other name, loads the real module, which then takes
    this one's place.
    """

    NAME = "torch.fx.experimental.symbolic_shapes"

    #: name -> the answer for plain arguments
    PLAIN: dict[str, Callable[..., Any]] = {
        "guard_or_false": bool,
        "guard_or_true": bool,
        "guard_size_oblivious": bool,
        "statically_known_true": bool,
        "statically_known_false": lambda value: not value,
        "sym_and": lambda *values: all(values),
        "sym_or": lambda *values: any(values),
        "sym_eq": lambda x, y: x == y,
        "is_nested_int": lambda value: False,
        "has_guarding_hint": lambda value: True,
        "has_static_value": lambda value: True,
        "free_unbacked_symbols": lambda value: set(),
        "guard_int": int,
        "guarding_hint_or_throw": int,
        "expect_true": bool,
    }

    @classmethod
    def install(cls) -> None:
        """Take the module's place unless it is loaded already."""
        if cls.NAME in sys.modules:
            return
        parent = importlib.import_module(cls.NAME.rpartition(".")[0])
        stand_in = cls(cls.NAME, cls.__doc__)
        for name, plain in cls.PLAIN.items():
            setattr(stand_in, name, stand_in._predicate(name, plain))
        sys.modules[cls.NAME] = stand_in
        parent.symbolic_shapes = stand_in  # type: ignore[attr-defined]

    def _predicate(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def predicate(*args: Any, **kwargs: Any) -> Any:
            if not kwargs and _is_plain(args):
                return plain(*args)
            return getattr(self._load(), name)(*args, **kwargs)

        predicate.__name__ = name
        return predicate

    def _load(self) -> types.ModuleType:
        if sys.modules.get(self.NAME) is self:
            del sys.modules[self.NAME]
        return importlib.import_module(self.NAME)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)


class _SympyTypes(types.ModuleType):
    """Has ``Basic``: sympy's when sympy is loaded, else a class without instances."""

    NAME = "_firesteel_sympy_types"

    def __getattr__(self, name: str) -> Any:
        if name != "Basic":
            raise AttributeError(name)
        sympy = sys.modules.get("sympy")
        return _NoInstances if sympy is None else getattr(sympy, "Basic", _NoInstances)


class _NoInstances:
    """While sympy is not loaded, nothing can be one of its expressions."""


def _keep_promotion_from_sympy() -> None:
    # The type promotion of meta kernels imports sympy for one isinstance test; point that import at a stand-in.
    from torch import _prims_common

    function: Any = _prims_common.elementwise_dtypes
    code = function.__code__
    if "sympy" in sys.modules or "sympy" not in code.co_names:
        return
    sys.modules[_SympyTypes.NAME] = _SympyTypes(_SympyTypes.NAME)
    function.__code__ = code.replace(
        co_names=tuple(_SympyTypes.NAME if name == "sympy" else name for name in code.co_names)
    )


# ---------------------------------------------------------------------------------------------------------------------
# dispatch


#: The type of ``torch.ops.aten.add.Tensor`` and its like.
OpOverload = torch._ops.OpOverload


class DispatchMode(TorchDispatchMode):
    """Base of our dispatch modes; unlike torch's own base it does not drag in ``torch._dynamo`` when subclassed."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


#: Assigned to ``__torch_function__`` of a tensor subclass, it takes the subclass out of the function protocol.
disabled_torch_function = torch._C._disabled_torch_function_impl


#: The dispatch keys of a tensor: ``dispatch_keys(t).has(key)``. Torch's own function, for guards call it often.
dispatch_keys: Callable[[torch.Tensor], torch._C.DispatchKeySet] = torch._C._dispatch_keys


def dispatch_key_bits(t: torch.Tensor) -> int:
    """The dispatch keys of a tensor as one integer, cheap to compare in a guard.

    >>> dispatch_key_bits(torch.zeros(2)) == dispatch_key_bits(torch.ones(3))
    True
    """
    return torch._C._dispatch_keys(t).raw_repr()


def implementation_address(t: torch.Tensor) -> int:
    """The address of the C++ object behind a tensor."""
    return t._cdata


@functools.cache
def _library() -> ctypes.PyDLL:
    return ctypes.PyDLL(torch._C.__file__)  # a name is looked for in all libraries that it needs


def library_function(name: str) -> Any:
    """A function that torch's shared libraries export, for ctypes; None where they do not."""
    return getattr(_library(), name, None)


#: ``push_dispatch_mode(mode)`` and ``pop_dispatch_mode()`` are entering and leaving a dispatch mode without the Python
#: bookkeeping of ``with mode:`` (0.8 us instead of 2.2). They must be paired by the caller.
push_dispatch_mode = torch._C._push_on_torch_dispatch_stack


def pop_dispatch_mode() -> None:
    """Undo the last :func:`push_dispatch_mode`."""
    torch._C._pop_torch_dispatch_stack(None)


def torch_dispatch_stack_length() -> int:
    """How many dispatch modes are entered in this thread."""
    return torch._C._len_torch_dispatch_stack()


def torch_function_stack_length() -> int:
    """How many function modes (``torch.device`` contexts among them) are entered in this thread."""
    return torch._C._len_torch_function_stack()


def function_mode_devices() -> tuple[torch.device, ...] | None:
    """The devices of the ``torch.device`` contexts that are entered in this thread; None when another function mode is.

    >>> function_mode_devices()
    ()
    """
    from torch.utils._device import DeviceContext

    modes = [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]
    if any(type(mode) is not DeviceContext for mode in modes):
        return None
    return tuple([mode.device for mode in modes])


def torch_function_enabled() -> bool:
    """Whether ``__torch_function__`` of subclasses is consulted in this thread."""
    return torch._C._is_torch_function_enabled()


def functorch_active() -> bool:
    """Whether we run inside a transform of ``torch.func`` (vmap, grad, jvp, functionalize).

    >>> functorch_active()
    False
    """
    return torch._C._functorch.peek_interpreter_stack() is not None


#: Context manager: operators called inside prefer kernels and decompositions written in Python.
python_dispatcher = torch._C._EnablePythonDispatcher

#: Context manager: operators called inside skip ``__torch_dispatch__`` of modes and subclasses.
below_python_key = torch._C._DisableTorchDispatch


def operator_name(op: Any) -> str:
    """The full name of an operator, such as ``aten.add.Tensor``.

    >>> operator_name(torch.ops.aten.add.Tensor)
    'aten.add.Tensor'
    """
    return str(op)


def schema_of(op: OpOverload) -> torch._C.FunctionSchema:
    """The declared signature of an operator."""
    return op._schema


def mutates_arguments(op: OpOverload) -> bool:
    """Whether the signature says that the operator writes to an argument."""
    return op._schema.is_mutable


_DATA_DEPENDENT_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def is_data_dependent(op: OpOverload) -> bool:
    """Whether the operator is marked as having a result, or a result shape, that depends on values.

    >>> is_data_dependent(torch.ops.aten.nonzero.default), is_data_dependent(torch.ops.aten.add.Tensor)
    (True, False)
    """
    return not _DATA_DEPENDENT_TAGS.isdisjoint(op.tags)


def can_decompose(op: OpOverload) -> bool:
    """Whether the operator is only a composition of others (``linear``, ``reshape``), in eager as well."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in op.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


def decompose(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run the composition of an operator for which :func:`can_decompose` holds."""
    return op.decompose(*args, **kwargs)


# ---------------------------------------------------------------------------------------------------------------------
# tensors


TensorType = TypeVar("TensorType", bound=torch.Tensor)
_make_wrapper_subclass = torch.Tensor._make_wrapper_subclass


def make_wrapper(
    cls: type[TensorType],
    size: Sequence[Any],
    stride: Sequence[Any] | None,
    storage_offset: Any,
    dtype: torch.dtype,
    device: torch.device,
    storage_size: Any = None,
) -> TensorType:
    """A tensor of class ``cls`` with the given metadata and no memory behind it. No stride means contiguous."""
    if storage_size is None:
        return _make_wrapper_subclass(cls, size, stride, storage_offset, None, dtype, torch.strided, device)
    return _make_wrapper_subclass(
        cls, size, stride, storage_offset, dtype=dtype, device=device, storage_size=storage_size
    )


_unsafe_set = torch._functionalize_unsafe_set


def share_storage(t: torch.Tensor, other: torch.Tensor) -> None:
    """Make ``t`` use the storage of ``other``; sizes, strides and offset of ``t`` stay."""
    if t.is_inference():
        # Inference tensors have no version counter, which the faster way would set.
        with below_python_key():
            t.set_(other.untyped_storage(), t.storage_offset(), t.shape, t.stride())  # type: ignore[call-overload]
    else:
        _unsafe_set(t, other)


def storage_address(t: torch.Tensor) -> int:
    """Equal for two living tensors exactly when they share storage; cheaper than :func:`storage_serial`."""
    return t.untyped_storage()._cdata


def mark_as_parameter(t: torch.Tensor) -> None:
    """Make ``isinstance(t, torch.nn.Parameter)`` true for a tensor of another class."""
    t._is_param = True  # type: ignore[attr-defined]


_serial_lock = threading.Lock()
_next_serial = 0


def storage_serial(t: torch.Tensor) -> int:
    """A number that is equal for two tensors exactly when they share storage, and is never used again.

    >>> x = torch.zeros(4); y = torch.zeros(4)
    >>> storage_serial(x) == storage_serial(x[1:]), storage_serial(x) == storage_serial(y)
    (True, False)
    """
    global _next_serial
    storage: Any = t.untyped_storage()  # one Python object for as long as the storage lives, so it can carry the number
    serial = getattr(storage, "_firesteel_serial", None)
    if serial is None:
        with _serial_lock:
            serial = getattr(storage, "_firesteel_serial", None)
            if serial is None:
                _next_serial += 1
                serial = storage._firesteel_serial = _next_serial
    return serial


_data = torch.Tensor.data


def replace_metadata(t: torch.Tensor, source: torch.Tensor) -> None:
    """Give ``t`` the sizes, strides, offset, dtype and storage of ``source``, keeping its autograd identity."""
    if t.is_inference():
        # Inference tensors have no version counter for the setter to keep.
        with below_python_key():
            t.set_(  # type: ignore[call-overload]
                source.untyped_storage(), source.storage_offset(), source.shape, source.stride()
            )
    else:
        _data.__set__(t, source)  # type: ignore[attr-defined]


def view_base(t: torch.Tensor) -> torch.Tensor | None:
    """The tensor that ``t`` is a view of, as autograd tracks it."""
    return t._base if t._is_view() else None


def is_functional_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is a wrapper of C++ functionalisation."""
    return torch._is_functional_tensor(t)


def is_functorch_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is a wrapper of a ``torch.func`` transform."""
    return torch._C._functorch.is_functorch_wrapped_tensor(t)


def is_zero_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is one of autograd's zeros without memory."""
    return t._is_zerotensor()


def convolution_memory_format(x: torch.Tensor, weight: torch.Tensor, *arguments: Any) -> torch.memory_format:
    """The memory format of a convolution's result; ``arguments`` are the rest of ``aten.convolution``'s."""
    backend = torch._C._select_conv_backend(x, weight, *arguments)
    return torch._C._conv_determine_backend_memory_format(x, weight, backend)


# ---------------------------------------------------------------------------------------------------------------------
# global state


#: ``set_grad_enabled(bool)`` without the object that the public function makes.
set_grad_enabled = torch._C._set_grad_enabled

#: ``with inference_mode_guard(True):`` is ``torch.inference_mode(True)`` without its decorator machinery.
inference_mode_guard = torch._C._InferenceMode


@dataclass(frozen=True, slots=True)
class AutocastState:
    """What autocast does for one device type."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    cache_enabled: bool


def autocast_state(device_type: str) -> AutocastState:
    """The autocast state of this thread for a device type.

    >>> autocast_state("cpu").enabled
    False
    """
    return AutocastState(
        device_type,
        torch.is_autocast_enabled(device_type),
        torch.get_autocast_dtype(device_type),
        torch.is_autocast_cache_enabled(),
    )


def set_autocast_state(state: AutocastState) -> None:
    """Put back what :func:`autocast_state` returned. Does not touch the nesting count of autocast's cache."""
    torch.set_autocast_enabled(state.device_type, state.enabled)
    torch.set_autocast_dtype(state.device_type, state.dtype)
    torch.set_autocast_cache_enabled(state.cache_enabled)


def dynamo_is_loaded() -> bool:
    """Whether something in this process has imported torch's own compiler."""
    return "torch._dynamo" in sys.modules


# ---------------------------------------------------------------------------------------------------------------------
# what capture must recognise in user code

#: Objects that call one operator each.
OPERATOR_TYPES: tuple[type, ...] = (
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    torch._library.custom_ops.CustomOpDef,
)


#: Sorts lists of tensors by device and dtype of the first list's.
group_tensors = torch._C._group_tensors_by_device_and_dtype


def begin_profiler_region(name: str, args: str | None) -> Any:
    """What ``record_function(name, args).__enter__()`` does; the result keeps the region open."""
    return torch.ops.profiler._record_function_enter_new(name, args)


def end_profiler_region(region: Any) -> None:
    """Close what :func:`begin_profiler_region` opened."""
    torch.ops.profiler._record_function_exit._RecordFunction(region)


def operator_of_definition(target: Any) -> Any:
    """The operator that a function decorated with ``torch.library.custom_op`` calls; anything else is returned as it is."""
    return target._opoverload if isinstance(target, torch._library.custom_ops.CustomOpDef) else target


def operation_namespaces() -> list[Any]:
    """Namespaces of C functions that are tensor operations."""
    spaces: list[Any] = [torch._C._VariableFunctions, torch._C._nn, torch._VF]
    for name in ("_linalg", "_fft", "_special", "_nested", "_sparse"):
        space = getattr(torch._C, name, None)
        if space is not None:
            spaces.append(space)
    return spaces


def state_setters() -> list[Callable[..., Any]]:
    """Functions that change global state which graphs may change as well."""
    return [
        torch._C._set_grad_enabled,
        torch.set_autocast_enabled,
        torch.set_autocast_dtype,
        torch.set_autocast_cache_enabled,
        torch.autocast_increment_nesting,
        torch.autocast_decrement_nesting,
        torch.clear_autocast_cache,
        torch.set_autocast_cpu_enabled,
        torch.set_autocast_cpu_dtype,
        torch.set_autocast_gpu_dtype,
    ]


def state_getters() -> list[Callable[..., Any]]:
    """Functions that read global state which every compiled entry guards."""
    return [
        torch.is_grad_enabled,
        torch.is_inference_mode_enabled,
        torch.is_autocast_enabled,
        torch.is_autocast_cache_enabled,
        torch.get_autocast_dtype,
        torch.is_autocast_cpu_enabled,
        torch.get_autocast_cpu_dtype,
        torch.get_autocast_gpu_dtype,
        torch.get_default_dtype,
        torch.get_num_threads,
        torch.are_deterministic_algorithms_enabled,
        torch.is_deterministic_algorithms_warn_only_enabled,
        torch._C._get_deterministic_algorithms,
        torch._C._is_torch_function_mode_enabled,
        torch._C._len_torch_function_stack,
        torch._C._is_torch_function_enabled,
        torch._C._len_torch_dispatch_stack,
        torch._C._are_functorch_transforms_active,
        torch._C._functorch.maybe_current_level,
        torch._C._functorch.peek_interpreter_stack,
        torch.cuda.is_available,
        torch.cuda.device_count,
        torch.backends.cuda.is_built,
        torch.backends.mps.is_available,
        torch.amp.is_autocast_available,
        torch._C._is_autocast_available,
        torch._C._get_privateuse1_backend_name,
        torch._C._get_tracing_state,
        torch._C._is_tracing,
        torch.get_default_device,
        torch.get_float32_matmul_precision,
        torch.distributed.is_available,
        torch._C._get_cudnn_enabled,
        torch._C._log_api_usage_once,
    ]


def always_true_while_compiling() -> list[Callable[..., Any]]:
    """Questions that captured code must see answered with yes."""
    compiler = sys.modules.get("torch.compiler")
    found = [getattr(compiler, name) for name in ("is_compiling", "is_dynamo_compiling") if hasattr(compiler, name)]
    utilities = sys.modules.get("torch._utils")
    if utilities is not None and hasattr(utilities, "is_compiling"):
        found.append(utilities.is_compiling)
    return found


def always_false_while_compiling() -> list[Callable[..., Any]]:
    """Questions about other ways of tracing."""
    scripting = sys.modules["torch._jit_internal"].is_scripting
    found = [scripting, sys.modules["torch.jit._trace"].is_tracing]
    compiler = sys.modules.get("torch.compiler")
    if hasattr(compiler, "is_exporting"):
        found.append(compiler.is_exporting)
    return found


def torch_function_checks() -> list[Callable[..., Any]]:
    """Functions that ask whether ``__torch_function__`` must be consulted."""
    return [torch._C._has_torch_function, torch._C._has_torch_function_unary, torch._C._has_torch_function_variadic]


def rng_state_functions() -> list[Callable[..., Any]]:
    """Functions that read or write the state of random number generators."""
    return [torch.manual_seed, torch.seed, torch.initial_seed, torch.get_rng_state, torch.set_rng_state]


def graph_break_functions() -> list[Callable[..., Any]]:
    """torch's own ``graph_break``, if somebody imported it."""
    decorators = sys.modules.get("torch._dynamo.decorators")
    return [decorators.graph_break] if decorators is not None else []


def guarded_state_getters() -> frozenset[Callable[..., Any]]:
    """Those of :func:`state_getters` whose answers follow from what every compiled entry checks, or never change."""
    return frozenset({
        torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.is_autocast_enabled, torch.get_autocast_dtype,
        torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype, torch.get_autocast_gpu_dtype, torch.get_default_dtype,
        torch.get_num_threads, torch.are_deterministic_algorithms_enabled, torch._C._get_deterministic_algorithms,
        torch._C._is_torch_function_mode_enabled, torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack,
        torch._C._are_functorch_transforms_active, torch._C._functorch.maybe_current_level,
        torch._C._functorch.peek_interpreter_stack, torch.cuda.is_available, torch.cuda.device_count,
        torch.backends.cuda.is_built, torch.backends.mps.is_available, torch.amp.is_autocast_available,
        torch._C._is_autocast_available, torch._C._get_privateuse1_backend_name, torch._C._get_tracing_state,
        torch._C._is_tracing, torch.get_default_device, torch.distributed.is_available, torch._C._log_api_usage_once,
    })


#: Device types whose autocast state compiled code depends on.
AUTOCAST_DEVICES: tuple[str, ...] = ("cpu", "cuda")

#: The same questions as above without a Python frame around them, for guards.
function_stack_length = torch._C._len_torch_function_stack
functorch_interpreter = torch._C._functorch.peek_interpreter_stack
deterministic_enabled = torch._C._get_deterministic_algorithms
any_autocast_enabled = torch._C._is_any_autocast_enabled

#: Questions that run no Python code outside of function modes.
STATE_QUERIES: frozenset[Callable[[], Any]] = frozenset({
    function_stack_length, functorch_interpreter, deterministic_enabled, any_autocast_enabled, torch.is_grad_enabled,
    torch.is_inference_mode_enabled, torch.get_default_dtype, torch.get_num_threads,
})
