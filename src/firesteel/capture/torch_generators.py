"""``torch.Generator`` in captured code: what is drawn from one is drawn by the entry, in order, before its graph runs.

    noise = torch.randn(2, 3, generator=g)     ->    _fs_draw0 = draw_tensor("randn", g, (2, 3), ...)
    return x + noise                                 (_fs_g0,) = graph(x, _fs_draw0)

So it is with the generators of Python and NumPy (`drawn_numbers`), and for the same reason: generators stay as they are
without compiling. That needs arguments which are known by then, sizes and plain numbers. torch's default generator is
what operations of graphs draw from, and is no argument of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..devices import CPU, kind_of
from ..shapes.symnode import make_symbolic
from .call_handlers import handles
from .drawn_numbers import Size, argument, text_of, value_now
from .signals import GraphBreak
from .source import DrawnSource, Source
from .values.base import Value
from .values.constants import ConstantValue
from .values.generators import RandomGenerator
from .values.methods import NativeMethod
from .values.sequences import SequenceValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

FACTORIES = {"rand": 0, "randn": 0, "randint": 2, "randperm": 1, "normal": 2}
"""Functions that make tensors of random numbers, and how many numbers they may take beside the sizes."""
FILLS = frozenset({"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_",
                   "geometric_"})
OTHERS = "an operation with its own random generator"


class TorchGenerator(RandomGenerator):
    """A ``torch.Generator`` for the CPU that is not the default one."""

    __slots__ = ()

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "device":
            return ConstantValue(torch.device("cpu"))
        if name == "__class__":
            return tx.python_object(torch.Generator)
        return NativeMethod(self, name)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name != "manual_seed" or kwargs or len(args) != 1:
            raise GraphBreak(f"torch.Generator.{name}()")
        given = argument(tx, args[0], "torch.Generator.manual_seed")
        seed = given.number.specialize(tx).value if isinstance(given, Size) else given
        if type(seed) is not int or not -(1 << 63) <= seed < 1 << 64:
            raise GraphBreak("torch.Generator.manual_seed() of something else than an integer of 64 bits")  # raises
        _refuse_inside(tx)
        _keep(tx, self)
        tx.draws.variable(lambda code: f"{self.text(code)}.manual_seed({seed})")
        return self


def wrap_generator(tx: Tracer, real: torch.Generator, source: Source) -> Value | None:
    """The Value of a generator from outside; None for those that nothing is known of."""
    if not kind_of(real.device).is_host or real is torch.default_generator or tx.compiler.exports:
        return None
    tx.guard(source, "generator", f"type({{0}}) is {{k[0]}} and {{0}}.device.type == {CPU.name!r} "
             "and {0} is not {k[1]}", (torch.Generator, torch.default_generator))
    return TorchGenerator(real, source)


@handles(torch.Generator)
def make_generator(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.Generator()``."""
    devices = [tx.constant_of(arg) for arg in (*args, *kwargs.values())]
    if len(devices) > 1 or set(kwargs) - {"device"} or tx.compiler.exports \
            or devices and not kind_of(torch.device(devices[0])).is_host:
        raise GraphBreak("a torch.Generator for another device than the CPU")
    _refuse_inside(tx)
    variable = tx.draws.variable(lambda code: f"{code.constant(torch.Generator)}()")
    return TorchGenerator(torch.Generator(), None, variable)


def call_with_generator(tx: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A function of torch's that draws from a generator, which is among its named arguments."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    generator = kwargs["generator"].realize()
    kwargs = {key: value for key, value in kwargs.items() if key != "generator"}
    if not isinstance(generator, TorchGenerator):
        raise GraphBreak(f"torch.{name} with {generator.describe()} as generator")  # which raises
    _refuse_inside(tx)
    if name in FILLS and args and isinstance(filled := args[0].realize(), TensorValue):
        return _fill(tx, name, generator, filled, args[1:], kwargs)
    known = {key: tx.constant_of(kwargs[key]) for key in ("dtype", "device", "layout", "requires_grad", "pin_memory")
             if key in kwargs}
    others = [value for key, value in kwargs.items() if key not in known and key != "size"]
    if name not in FACTORIES or others or known.get("requires_grad") or known.get("pin_memory") \
            or known.get("layout") not in (None, torch.strided):
        raise GraphBreak(OTHERS)
    numbers, sizes = _numbers_and_sizes(tx, name, args, kwargs.get("size"))
    size = tuple([make_symbolic(tx.shape_env, part.number.expr) if isinstance(part, Size) else part for part in sizes])
    try:
        sample = torch.empty(size, dtype=known.get("dtype") or _usual_dtype(name), device=known.get("device"))
    except (RuntimeError, TypeError) as error:
        raise GraphBreak(f"torch.{name} raises {type(error).__name__}") from None
    if not kind_of(sample).is_host:
        raise GraphBreak(OTHERS)
    drawn = _drawn(tx, name, generator, numbers, sizes, sample)
    return tx.call_torch("clone", [drawn], {})


def _fill(tx: Tracer, name: str, generator: TorchGenerator, filled: TensorValue, args: list[Value],
          kwargs: dict[str, Value]) -> Value:
    """``x.normal_(generator=g)``: as many numbers are drawn as a tensor of its sizes has, and copied."""
    fake = filled.fake
    given = [argument(tx, arg, f"Tensor.{name}") for arg in args]
    if kwargs or any(type(number) not in (int, float, bool) for number in given) or not kind_of(fake).is_host \
            or not all(type(size) is int for size in fake.shape) or not fake.is_contiguous():
        raise GraphBreak(OTHERS)
    sample = torch.empty(fake.shape, dtype=fake.dtype, device=fake.device)
    return tx.call_torch("copy_", [filled, _drawn(tx, name, generator, given, list(fake.shape), sample)], {})


def _numbers_and_sizes(tx: Tracer, name: str, args: list[Value], size: Value | None) -> tuple[list[Any], list[Any]]:
    """The plain numbers among the arguments of a factory, and the sizes, which may vary."""
    if size is not None:
        args = [*args, size]
    given = [argument(tx, TupleValue(list(value.elements(tx))) if isinstance(value := arg.realize(), SequenceValue)
                      else value, f"torch.{name}") for arg in args]
    if name == "randperm":
        numbers, sizes = [], given
    elif FACTORIES[name] or given and isinstance(given[0], tuple):
        numbers, sizes = given[:-1], list(given[-1]) if given and isinstance(given[-1], tuple) else [None]
    else:
        numbers, sizes = [], given
    numbers = [number.number.specialize(tx).value if isinstance(number, Size) else number for number in numbers]
    if len(numbers) > FACTORIES[name] or any(type(number) not in (int, float) for number in numbers) \
            or not all(isinstance(part, Size) or type(part) is int for part in sizes) \
            or name == "randperm" and len(sizes) != 1:
        raise GraphBreak(OTHERS)
    return numbers, sizes


def _drawn(tx: Tracer, name: str, generator: TorchGenerator, numbers: list[Any], sizes: list[Any],
           sample: torch.Tensor) -> TensorValue:
    """The input of the graph that the entry draws."""
    try:
        torch_now = draw_tensor(name, torch.Generator(), tuple(numbers), (1,), sample.dtype)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise GraphBreak(f"{name} raises {type(error).__name__}: {error}") from None
    if torch_now.dtype is not sample.dtype or any(type(size := value_now(part)) is int and size < 0 for part in sizes):
        raise GraphBreak(OTHERS)
    _keep(tx, generator)
    variable = tx.draws.variable(lambda code: (
        f"{code.constant(draw_tensor)}({name!r}, {generator.text(code)}, {tuple(numbers)!r}, "
        f"{text_of(code, tuple(sizes))}, {code.constant(sample.dtype)})"))
    source = DrawnSource(variable)
    value = TensorValue(tx.graph.add_input(source, sample), sample, source)
    tx.tensor_of_fake[id(sample)] = value
    tx.kept_alive.append(sample)
    return value


def draw_tensor(name: str, generator: torch.Generator, numbers: tuple[Any, ...], size: tuple[int, ...],
                dtype: torch.dtype) -> torch.Tensor:
    """What a function of torch's draws, as a tensor of its own on the CPU.

    >>> draw_tensor("randint", torch.Generator().manual_seed(0), (0, 1), (3,), torch.int64)
    tensor([0, 0, 0])
    """
    if name in FILLS:
        filled: torch.Tensor = getattr(torch.empty(size, dtype=dtype, device=CPU.name), name)(
            *numbers, generator=generator)
        return filled
    sizes = size if name == "randperm" else (size,)
    factory: Callable[..., torch.Tensor] = getattr(torch, name)
    return factory(*numbers, *sizes, generator=generator, dtype=dtype, device=CPU.name)


def _usual_dtype(name: str) -> torch.dtype:
    return torch.int64 if name in ("randint", "randperm") else torch.get_default_dtype()


def _keep(tx: Tracer, generator: TorchGenerator) -> None:
    """The state of a generator from outside is put back where the graph raises."""
    if generator.variable is None:
        tx.draws.generators[id(generator.real)] = (generator.real, generator.text)


def _refuse_inside(tx: Tracer) -> None:
    """What is drawn before the graph is drawn once, and in the mode that the function is called in."""
    if tx.effects.changes is not None or tx.torch_functions.modes or tx.compiler.exports \
            or torch.is_inference_mode_enabled() != tx.began_in_inference_mode:
        raise GraphBreak(OTHERS)
