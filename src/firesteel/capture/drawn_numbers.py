"""Numbers drawn from Python's and NumPy's generators: the entry draws them, in order, before its graph runs.

    x + rng.standard_normal(3)        _fs_draw0 = rng.standard_normal(3)
                                      _fs_draw1 = shared_tensor(_fs_draw0)
                                      (_fs_g0,) = graph(x, _fs_draw1)

So generators stay as they are without compiling, and graphs stay whole. A number that decides on a branch is known only
when the entry runs, and ends the graph there. When the graph raises, the program runs again from its start, with the
generators as they were.
"""

from __future__ import annotations

import math
import random
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .. import shapes
from ..fake.rules.data_dependent import new_number
from ..shapes.symnode import make_symbolic
from .call_handlers import handles
from .generator_states import WITHOUT_NORMAL, restore, states, states_without_normal
from .numpy_calls import shared_tensor, tensor_of_scalar
from .numpy_table.dtypes import TORCH, torch_dtype
from .signals import GraphBreak
from .source import DrawnSource
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.generators import RandomGenerator
from .values.sequences import TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

GENERATORS = frozenset({numpy.random.Generator, numpy.random.RandomState, random.Random})
# Methods of `random.Random` that draw; the others are Python that calls these.
PYTHON_DRAWS = frozenset({"random", "getrandbits", "_randbelow", "seed", "gauss", "normalvariate", "lognormvariate",
                          "expovariate", "vonmisesvariate", "gammavariate", "betavariate"})
# Methods of NumPy's generators that change an argument, or give something else than numbers.
NOT_DRAWS = frozenset({"shuffle", "permuted", "bytes", "get_state", "set_state", "spawn", "bit_generator"})
LARGEST = 1 << 62


class Draws:
    """What the entry of one capture draws."""

    primitive = PYTHON_DRAWS

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.calls: list[Callable[[EntryCode], str]] = []
        self.generators: dict[int, tuple[Any, Callable[[EntryCode], str]]] = {}
        self.methods: set[str] = set()
        """Those that are called of generators of NumPy's older kind."""

    def draw(self, generator: RandomGenerator, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Call a method of a generator when the entry runs."""
        return draw(self.tx, generator, name, args, kwargs)

    def variable(self, text: Callable[[EntryCode], str]) -> str:
        """A variable that the entry gives a value to before its graph."""
        name = f"_fs_draw{len(self.calls)}"
        self.calls.append(lambda code: f"{name} = {text(code)}")
        self.tx.effects.version += 1
        return name

    def lines(self, code: EntryCode, with_graph: bool) -> list[str]:
        """The statements that draw; where a graph follows, the states of the generators are kept first."""
        if not self.calls:
            return []
        kept = []
        if with_graph and self.generators:
            texts = [text(code) for _, text in self.generators.values()]
            keep = states_without_normal if self.methods <= WITHOUT_NORMAL else states
            kept = [f"_fs_states = {code.constant(keep)}({', '.join(texts)})"]
        return [*kept, *(call(code) for call in self.calls)]

    def forget(self) -> None:
        """Draw nothing: the entry leaves everything to Python."""
        self.calls.clear()
        self.generators.clear()

    def undoing(self, code: EntryCode) -> list[str]:
        """The statements that put generators back when the graph has raised."""
        return [f"{code.constant(restore)}(_fs_states)"] if self.generators else []


def stand_in(real: Any) -> Any:
    """A generator of the same kind, to see what a method gives."""
    if type(real) is numpy.random.Generator:
        return numpy.random.Generator(type(real.bit_generator)(0))
    return type(real)(0)


def is_draw(obj: Any) -> bool:
    """Whether something is a method of a generator, such as ``random.random`` and ``np.random.rand``."""
    return type(obj) is types.BuiltinFunctionType and type(obj.__self__) in GENERATORS


def call_draw(tx: Tracer, obj: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call ``np.random.rand`` or ``random.random``."""
    generator = RandomGenerator(obj.__self__, None)
    return draw(tx, generator, obj.__name__, args, kwargs)


def draw(tx: Tracer, generator: RandomGenerator, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a method of a generator when the entry runs."""
    real = generator.real
    title = f"{type(real).__module__}.{type(real).__name__}.{name}"
    if name in NOT_DRAWS or isinstance(real, random.Random) and name not in PYTHON_DRAWS:
        raise GraphBreak(f"{title} draws from a generator of random numbers in a way that is not captured")
    given = [argument(tx, arg, title) for arg in args]
    given_named = {word: argument(tx, arg, title) for word, arg in kwargs.items()}

    def sampled(grown: Size | None = None) -> Any:
        return getattr(stand_in(real), name)(*(value_now(arg, grown) for arg in given),
                                             **{word: value_now(arg, grown) for word, arg in given_named.items()})

    try:
        sample = sampled()
    except Exception as error:
        raise GraphBreak(f"{title} raises {type(error).__name__}") from None
    kind = type(sample)
    shape = _shape_of(tx, sample, [*given, *given_named.values()], sampled, title)
    constants = [value_now(arg) for arg in given]
    if not (kind in {int, float, bool, type(None)} or isinstance(sample, (numpy.generic, numpy.ndarray))
            and TORCH.get(sample.dtype.char) is not None):
        raise GraphBreak(f"{title} gives a {kind.__name__}")
    if kind is int and name in ("getrandbits", "_randbelow") and constants and constants[0] > (
            62 if name == "getrandbits" else LARGEST):
        raise GraphBreak(f"{title} of integers that are too large for tensors")
    draws = tx.draws

    def text(code: EntryCode) -> str:
        parts = [text_of(code, value) for value in given]
        parts.extend(f"{word}={text_of(code, value)}" for word, value in given_named.items())
        return f"{generator.text(code)}.{name}({', '.join(parts)})"

    if generator.variable is None:
        draws.generators[id(real)] = (real, generator.text)
        if isinstance(real, numpy.random.RandomState):
            draws.methods.add(name)
    return _value(tx, draws.variable(text), sample, name, shape, None if kwargs else constants)


class Size:
    """An integer among the arguments of a draw that varies from call to call."""

    __slots__ = ("number",)

    def __init__(self, number: NumberValue) -> None:
        self.number = number


def argument(tx: Tracer, value: Value, title: str) -> Any:
    """An argument of a draw: a constant, or one in which integers that vary are `Size`s."""
    value = value.realize()
    if isinstance(value, NumberValue) and value.expr.kind == "int" and value.hint is not None and \
            all(symbol in tx.symbols.sources for symbol in value.expr.free_symbols):
        return Size(value)
    if isinstance(value, TupleValue) and value.cls in {tuple, torch.Size}:
        return tuple(argument(tx, item, title) for item in value.elements(tx))
    if isinstance(value, ArrayValue) and (value.real is None or not value.scalar):
        raise GraphBreak(f"{title} with {value.describe()} as an argument: its numbers are drawn before the graph runs",
                         "draw standard numbers of a size, and compute with the array afterwards")
    if isinstance(value, NumberValue) and not value.is_constant() and value.hint is not None:
        _settle(tx, value, title)
    return tx.constant_of(value)


def value_now(arg: Any, grown: Size | None = None) -> Any:
    """An argument with the values that its sizes have now; `grown` is one larger."""
    if isinstance(arg, tuple):
        return tuple(value_now(item, grown) for item in arg)
    return arg.number.hint + (arg is grown) if isinstance(arg, Size) else arg


def text_of(code: EntryCode, arg: Any) -> str:
    """An argument in the code of an entry."""
    if isinstance(arg, tuple):
        return f"({''.join(f'{text_of(code, item)}, ' for item in arg)})"
    if isinstance(arg, Size):
        known = arg.number.realize()
        return code.expression(arg.number.expr) if known is arg.number else code.constant(known.as_constant())
    return code.constant(arg)


def _sizes(args: Iterable[Any]) -> list[Size]:
    return [size for arg in args for size in (_sizes(arg) if isinstance(arg, tuple) else
                                              [arg] if isinstance(arg, Size) else [])]


def _shape_of(tx: Tracer, sample: Any, args: list[Any], sampled: Callable[[Size], Any],
              title: str) -> tuple[Any, ...]:
    """The shape of a sample, with symbols for what arguments say of it; of others that vary see `_settle`.

    An argument is the size of a dimension when that one, and nothing else, grows with it.
    """
    shape: list[Any] = list(numpy.shape(sample))
    for size in _sizes(args):
        dims: list[int] = []
        if isinstance(sample, numpy.ndarray):
            try:
                larger = numpy.shape(sampled(size))
            except Exception:
                larger = ()
            if len(larger) == len(shape):
                dims = [dim for dim, count in enumerate(larger) if count != sample.shape[dim]]
        number = size.number
        if len(dims) == 1 and sample.shape[dims[0]] == number.hint and not isinstance(shape[dims[0]], torch.SymInt) \
                and tx.symbols.decide(shapes.ge(number.expr, 0)):
            shape[dims[0]] = make_symbolic(tx.shape_env, number.expr)
        else:
            _settle(tx, number, title)
    return tuple(shape)


def _settle(tx: Tracer, number: NumberValue, title: str) -> None:
    """An argument that varies and is no size: NumPy may refuse other values, and may do so only where it is called."""
    if not tx.compiler.fullgraph and not title.startswith("random."):
        raise GraphBreak(f"{title} with a number that varies and is no size",
                         "draw standard numbers of a size, and compute with the number afterwards")
    number.specialize(tx)


# Methods whose numbers are from 0 to below 1, in steps of 2**-53.
OF_UNIT = frozenset({"random", "rand", "random_sample", "sample", "ranf"})


def _bounds(name: str, kind: type, args: list[Any] | None) -> dict[str, Any]:
    """Between which ends the numbers of a method are, whose arguments are known if they come without names."""
    if args is None:
        return {}
    if kind is float and name in OF_UNIT:
        return {"lower": 0.0, "upper": 1 - 2.0**-53}
    if kind is float and name == "uniform" and all(type(arg) in (int, float) and math.isfinite(arg) for arg in args):
        low, high = [*args, *(0.0, 1.0)[len(args):]][:2]
        ends = low, high, low + (high - low)  # which may be rounded
        return {"lower": min(ends), "upper": max(ends)}
    if kind is int and name in ("getrandbits", "_randbelow") and args and type(args[0]) is int:
        return {"lower": 0, "upper": (1 << args[0] if name == "getrandbits" else args[0]) - 1}
    return {}


def _value(tx: Tracer, variable: str, sample: Any, name: str, shape: tuple[Any, ...],
           args: list[Any] | None) -> Value:
    """The Value of what a method called with such arguments has drawn into a variable."""
    if sample is None:
        return ConstantValue(None)
    if isinstance(sample, numpy.ndarray):
        tensor = _input(tx, variable, shared_tensor, shape, torch_dtype(sample.dtype))
        tx.array_state.memories.add(tensor.fake.storage_key)
        return ArrayValue(tensor, sample.dtype, source=DrawnSource(variable))
    if isinstance(sample, numpy.generic):
        return ArrayValue(_input(tx, variable, tensor_of_scalar, (), torch_dtype(sample.dtype)), sample.dtype, True,
                          source=DrawnSource(variable))
    dtype = {int: torch.int64, float: torch.float64, bool: torch.bool}[type(sample)]
    tensor = _input(tx, variable, NUMBER_TENSORS[type(sample)], (), dtype)
    bounds = _bounds(name, type(sample), args)
    symbol = tx.shape_env.new_symbol(None, f"{name}()", kind="int" if type(sample) is int else "float", **bounds) \
        if bounds else new_number(tx.fake, tensor.fake, f"{name}()")
    tx.number_nodes.place(symbol, tensor.node, "item")
    tx.symbols.sources[symbol] = DrawnSource(variable)
    return tx.symbols.number(symbol)


def tensor_of_float(number: float) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64)


NUMBER_TENSORS: dict[type, Callable[[Any], torch.Tensor]] = {
    float: tensor_of_float, int: torch.tensor, bool: torch.tensor,
}


def _input(tx: Tracer, variable: str, convert: Any, shape: tuple[Any, ...], dtype: torch.dtype) -> TensorValue:
    """An input of the graph that the entry makes of what it has drawn."""
    name = tx.draws.variable(lambda code: f"{code.constant(convert)}({variable})")
    fake = torch.empty(shape, dtype=dtype, device=torch.device("cpu"))
    value = TensorValue(tx.graph.add_input(DrawnSource(name), fake), fake, DrawnSource(name))
    tx.tensor_of_fake[id(fake)] = value
    tx.kept_alive.append(fake)
    return value


@handles(numpy.random.seed)
def call_seed(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    own: Any = numpy.random.rand
    return draw(tx, RandomGenerator(own.__self__, None), "seed", args, kwargs)


def _makes_generators(cls: Any) -> None:
    @handles(cls)
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return make_generator(tx, cls, args, kwargs)


for _cls in (numpy.random.default_rng, numpy.random.RandomState, random.Random):
    _makes_generators(_cls)


def make_generator(tx: Tracer, cls: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``np.random.default_rng(seed)``, ``np.random.RandomState(seed)`` or ``random.Random(seed)``."""
    constants = [tx.constant_of(arg) for arg in (*args, *kwargs.values())]
    if kwargs or len(constants) > 1 or not all(type(seed) is int or seed is None for seed in constants):
        raise GraphBreak("a generator of random numbers with an unusual seed")
    real = cls(*constants)
    variable = tx.draws.variable(lambda code: f"{code.constant(cls)}({', '.join(map(repr, constants))})")
    return RandomGenerator(real, None, variable)
