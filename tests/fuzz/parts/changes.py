"""Small programs that read state of many kinds, and changes of that state between their calls.

A program is made of a few subjects. Each has definitions, an expression over the tensor `x`, and statements that change
something the expression reads. What belongs to the whole process (methods of torch, modes, flags) is changed around one
call and put back, so that it disturbs nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..program import Program
from ..values import Dice

HEAD = '''import abc, collections, contextlib, dataclasses, enum, functools, math, os, sys, types, typing
import numpy
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
'''

TOOLS = '''
@contextlib.contextmanager
def patched(holder, name, value):
    own = vars(holder)
    had, old = name in own, own.get(name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, old) if had else delattr(holder, name)


@contextlib.contextmanager
def setting(setter, new, old):
    setter(new)
    try:
        yield
    finally:
        setter(old)


@contextlib.contextmanager
def hooked(handle):
    try:
        yield
    finally:
        handle.remove()


def shortened(value):
    """What autocast computes with 16 bits in between is no more exact than these, whatever dtype it ends in."""
    if isinstance(value, (tuple, list)):
        return [shortened(part) for part in value]
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return "float32", value.to(torch.bfloat16)
    return value


def times(function, factor):
    def changed(*args, **kwargs):
        result = function(*args, **kwargs)
        return torch.ops.aten.mul.Tensor(result, factor) if isinstance(result, torch.Tensor) else result
    return changed


class Operators(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return torch.ops.aten.add.Tensor(result, 1) if func is torch.ops.aten.mul.Tensor else result


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return torch.add(result, 1) if func in (torch.mul, torch.Tensor.mul) else result
'''


@dataclass(frozen=True)
class Subject:
    """A kind of state. In every text, `@` stands for a number of its own and `%` for a random small number."""

    expressions: tuple[str, ...]
    changes: tuple[str, ...] = ()
    definitions: str = ""
    setup: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    before_expression: tuple[str, ...] = ()


SUBJECTS: dict[str, Subject] = {
    "global number": Subject(
        ("x * G@", "x + G@ * 2", "x * (2 if G@ > 1 else 3)", "x * abs(G@)", "x * float(G@ is not None)"),
        ("globals()['G@'] = %", "globals()['G@'] = -1.5", "globals()['G@'] = %.0", "globals()['G@'] = True",
         "globals()['G@'] = None", "globals().pop('G@', None)", "globals()['G@'] = -0.0",
         "globals()['G@'] = numpy.float32(2)", "globals()['G@'] = torch.tensor(2.0)",
         "globals()['abs'] = lambda value: 7", "globals().pop('abs', None)"),
        "G@ = 2",
    ),
    "nested containers": Subject(
        ("x * T@['a'][2]['k'] + T@['b']", "x * len(T@['a'])", "x * sum(T@['a'][:2])",
         "x * (1 if 'c' in T@ else 2) + len(T@)", "x * next(iter(T@.values()))[0]", "x + sum(map(len, T@))",
         "x * T@.get('missing', 2)"),
        ("T@['a'][2]['k'] = %", "T@['a'].append(1)", "T@['a'][0] += 1", "T@['b'] = %.5", "T@['c'] = 1",
         "T@.pop('c', None)", "T@['a'] = tuple(T@['a'])", "T@['a'].reverse()", "T@.update(dict(reversed(T@.items())))",
         "globals()['T@'] = collections.OrderedDict(T@)", "T@['missing'] = %", "T@['a'][2] = {'k': 1, 'm': 2}",
         "T@['a'].insert(0, %)"),
        "T@ = {'a': [1, 2, {'k': 3}], 'b': 0.5}",
    ),
    "sets and deques": Subject(
        ("x * (2 if 3 in S@ else 5)", "x * len(S@) + len(Q@)", "x * sum(Q@)", "x * sum(sorted(S@))",
         "x * (2 if frozenset({1, 2}) <= S@ else 3)", "x * Q@[0] + Q@.maxlen"),
        ("S@.add(3)", "S@.discard(1)", "Q@.append(%)", "Q@.popleft()", "globals()['S@'] = frozenset(S@)",
         "globals()['Q@'] = collections.deque([1, 2], 7)", "Q@.rotate(1)", "S@.update({%, 9})"),
        "S@ = {1, 2}\nQ@ = collections.deque([1, 2, 3], 5)",
    ),
    "default dict": Subject(
        ("x * D@['new']", "x * len(D@)", "x * (D@['a'] + 1)"),
        ("D@.default_factory = lambda: 4", "D@['new'] = %", "D@.pop('new', None)", "D@.clear()",
         "D@.default_factory = None"),
        setup=("D@ = collections.defaultdict(lambda: 2, a=1)",),
    ),
    "closure": Subject(
        ("x * held@", "x * held@ + table@['n']", "x * get@()"),
        ("set@(%)", "set@(%.5)", "set@(None)", "table@['n'] = %", "get@.__closure__[0].cell_contents = %",
         "table@.clear()"),
        setup=("held@ = 2", "table@ = {'n': 1}", "def set@(value):\n    nonlocal held@\n    held@ = value",
               "def get@():\n    return held@ if held@ is not None else 1"),
    ),
    "object": Subject(
        ("thing@.apply(x)", "x * thing@.shift + thing@.scale", "x * thing@.double", "x * thing@.made(2)",
         "x * Thing@.scale", "x * thing@.twice(3)", "x * getattr(thing@, 'extra', 1)", "x * len(vars(thing@))",
         "x * (2 if thing@ else 3)", "x * (2 if hasattr(thing@, 'extra') else 3)", "thing@(x)", "x * thing@.base_scale",
         "x * (2 if thing@ == 5 else 3)", "x * (1 if isinstance(thing@, Other@) else 2)",
         "x * sum(vars(thing@).values())",
         "x * len(type(thing@).__name__)", "x * (4 if type(thing@) is Thing@ else 3)", "x * thing@.kept"),
        ("thing@.shift = %", "Thing@.scale = %", "thing@.scale = %", "Base@.base_scale = %", "thing@.extra = %",
         "Thing@.extra = %", "vars(thing@).pop('extra', None)", "Thing@.apply = lambda self, t: t - self.shift",
         "thing@.apply = lambda t: t * %", "vars(thing@).pop('apply', None)",
         "Thing@.double = property(lambda self: self.shift * 3)", "Thing@.double = %",
         "Thing@.made = classmethod(lambda cls, n: n + cls.scale * 2)", "Thing@.twice = staticmethod(lambda n: n * %)",
         "Thing@.__bool__ = lambda self: False", "Thing@.__len__ = lambda self: 0", "thing@.__class__ = Other@",
         "thing@.__class__ = Thing@", "Thing@.__getattribute__ = lambda self, name: object.__getattribute__(self, name)"
         " if name.startswith('_') or name in ('apply', 'made', 'twice') else %",
         "Thing@.__eq__ = lambda self, other: True", "Thing@.__call__ = lambda self, t: t * %",
         "Thing@.__getattr__ = lambda self, name: %", "Thing@.__bases__ = (Third@,)", "del thing@.shift",
         "Thing@.base_scale = %", "Thing@.shift = property(lambda self: %)", "thing@.__dict__ = {'shift': %}",
         "Thing@.__name__ = 'Longer@'", "vars(thing@)['kept'] = %", "vars(thing@).pop('kept', None)",
         "Thing@.kept.func = lambda self: %"),
        '''class Base@:
    base_scale = 2


class Third@:
    base_scale = 5


class Thing@(Base@):
    scale = 2

    def __init__(self):
        self.shift = 1

    def apply(self, t):
        return t * self.scale + self.shift

    @property
    def double(self):
        return self.shift * 2

    @classmethod
    def made(cls, n):
        return n * cls.scale

    @staticmethod
    def twice(n):
        return n * 2

    @functools.cached_property
    def kept(self):
        return self.scale * 2

    def __call__(self, t):
        return self.apply(t) * 2


class Other@(Thing@):
    scale = 7

    def apply(self, t):
        return t * 11''',
        ("thing@ = Thing@()",),
    ),
    "slots": Subject(
        ("x * slotted@.a", "x * getattr(slotted@, 'b', 2)"),
        ("slotted@.a = %", "slotted@.b = %", "slotted@.a = %.5", "Slotted@.extra = 1"),
        "class Slotted@:\n    __slots__ = ('a', 'b')\n\n    def __init__(self):\n        self.a = 2",
        ("slotted@ = Slotted@()",),
    ),
    "descriptor": Subject(
        ("x * described@.field", "x * Described@.field", "x * described@.plain"),
        ("vars(Described@)['field'].factor = %", "Field@.__get__ = lambda self, obj, owner: %",
         "described@.__dict__['field'] = %", "described@.__dict__['plain'] = %", "Described@.field = %",
         "Field@.__set__ = lambda self, obj, value: None", "vars(Described@)['plain'].factor = %"),
        '''class Field@:
    def __init__(self, factor):
        self.factor = factor

    def __get__(self, obj, owner):
        return self.factor


class Described@:
    field = Field@(2)
    plain = Field@(3)''',
        ("described@ = Described@()",),
    ),
    "metaclass": Subject(
        ("x * Made@.level", "x * len(Made@)", "x * Made@.named()", "x * Made@[2]", "x * Made@.own"),
        ("Meta@.level = %", "Meta@.__len__ = lambda cls: %", "Meta@.named = lambda cls: %", "Made@.level = %",
         "Meta@.__getitem__ = lambda cls, key: key * %", "Meta@.own = property(lambda cls: %)",
         "Made@.named = staticmethod(lambda: %)"),
        '''class Meta@(type):
    level = 2

    def __len__(cls):
        return 3

    def named(cls):
        return len(cls.__name__)

    def __getitem__(cls, key):
        return key + 1

    @property
    def own(cls):
        return 4


class Made@(metaclass=Meta@):
    pass''',
    ),
    "enum": Subject(
        ("x * Color@.RED.value", "x * len(Color@.RED.name)", "x * Color@.RED.weight()", "x * Level@.LOW",
         "x * (2 if chosen@[0] is Color@.RED else 3)", "x * sum(c.value for c in Color@)", "x * Color@['RED'].value",
         "x * len(Color@)", "x * Color@.RED.note", "x * Color@.RED.bias"),
        ("Color@.RED._value_ = %", "Color@.RED._name_ = 'CRIMSON'", "Color@.weight = lambda self: %",
         "chosen@[0] = Color@.BLUE", "Color@.RED.note = %", "Color@.bias = property(lambda self: %)",
         "Color@.BLUE._value_ = %"),
        '''class Color@(enum.Enum):
    RED = 2
    BLUE = 3

    def weight(self):
        return self.value * 2

    @property
    def bias(self):
        return self.value + 1


class Level@(enum.IntEnum):
    LOW = 2


Color@.RED.note = 3''',
        ("chosen@ = [Color@.RED]",),
    ),
    "module of Python": Subject(
        ("x * mod@.k", "x * mod@.f(2)", "x * (2 if hasattr(mod@, 'late') else 3)", "x * k@", "x * mod@.late_or(2)",
         "x * mod@.dynamic"),
        ("sys.modules['fuzz_mod@'].k = %", "sys.modules['fuzz_mod@'].f = lambda n: n * %",
         "sys.modules['fuzz_mod@'].late = %", "put_module@(%)", "vars(sys.modules['fuzz_mod@']).pop('late', None)",
         # not any name: `inspect` asks all modules for their `__file__`
         "sys.modules['fuzz_mod@'].__getattr__ = lambda name: getattr(None, name) if name[:2] == '__' else %",
         "sys.modules['fuzz_mod@'].base = %", "sys.modules['fuzz_mod@'].dynamic = %"),
        '''MODULE@ = """
base = 2
k = 2
def f(n):
    return n * base
def late_or(n):
    return globals().get('late', n)
def __getattr__(name):
    if name == 'dynamic':
        return base + 1
    raise AttributeError(name)
"""


def put_module@(base):
    made = types.ModuleType('fuzz_mod@')
    exec(MODULE@, vars(made))
    made.base = made.k = base
    sys.modules['fuzz_mod@'] = made''',
        ("put_module@(2)",),
        before_expression=("import fuzz_mod@ as mod@", "from fuzz_mod@ import k as k@"),
    ),
    "callee": Subject(
        ("helper@(x)", "helper@(x, shift=2)", "x * helper@.note", "x * len(helper@.__name__)", "outer@(x)",
         "x * len(helper@.__defaults__ or ())"),
        ("helper@.__defaults__ = (%.0,)", "helper@.__kwdefaults__ = {'shift': %}", "helper@.__code__ = other@.__code__",
         "helper@.note = %", "helper@.__name__ = 'renamed_helper'", "globals()['helper@'] = other@",
         "helper@.__kwdefaults__['shift'] = %", "helper@.__defaults__ = (2.0,)", "outer@.__wrapped__ = other@",
         "outer@.__closure__[0].cell_contents = other@"),
        '''def helper@(t, scale=2.0, *, shift=1):
    return t * scale + shift


def other@(t, scale=3.0, *, shift=4):
    return t - scale * shift


helper@.note = 3


def wrapping@(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return wrapper


outer@ = wrapping@(helper@)''',
    ),
    "partial": Subject(
        ("bound@(x)", "x * len(bound@.keywords)", "x * bound@.args[0]", "method@(x)"),
        ("bound@.keywords['shift'] = %", "bound@.__setstate__((times_@, (%,), {'shift': 1}, None))",
         "bound@.keywords.pop('shift', None)", "method@.__self__['scale'] = %", "method@.__self__.clear()"),
        '''def times_@(scale, t, shift=0):
    return t * scale + shift


def scaled_by_@(table, t):
    return t * table.get('scale', 2)''',
        ("bound@ = functools.partial(times_@, 2, shift=3)", "method@ = types.MethodType(scaled_by_@, {})"),
    ),
    "records": Subject(
        ("x * rec@.a + rec@.b", "x * pair@.left", "x * sum(pair@)", "x * pair@.total()", "x * space@.n",
         "x * (2 if rec@ == Rec@(1) else 3)"),
        ("rec@.a = %", "rec@.b = %.5", "Rec@.b = %", "del rec@.b", "pair@ = pair@._replace(left=%)",
         "Pair@.total = lambda self: %", "Pair@.left = property(lambda self: %)", "space@.n = %", "space@.m = 1",
         "Rec@.__eq__ = lambda self, other: True", "Pair@.__iter__ = lambda self: iter((%, 1))"),
        '''@dataclasses.dataclass
class Rec@:
    a: int
    b: float = 0.5


class Pair@(typing.NamedTuple):
    left: int
    right: int

    def total(self):
        return self.left + self.right''',
        ("rec@ = Rec@(1)", "pair@ = Pair@(2, 3)", "space@ = types.SimpleNamespace(n=2)"),
    ),
    "abstract classes": Subject(
        ("x * (2 if isinstance(plain@, Abstract@) else 3)", "x * (2 if issubclass(Plain@, Abstract@) else 3)",
         "x * (2 if isinstance(plain@, Checked@) else 3)", "single@(plain@, x)"),
        ("Abstract@.register(Plain@)", "CheckedMeta@.__instancecheck__ = lambda cls, obj: True",
         "single@.register(Plain@, lambda obj, t: t * %)", "Plain@.__class__ = property(lambda self: int)"),
        '''class Plain@:
    pass


class Abstract@(abc.ABC):
    pass


class CheckedMeta@(type):
    def __instancecheck__(cls, obj):
        return False


class Checked@(metaclass=CheckedMeta@):
    pass


@functools.singledispatch
def single@(obj, t):
    return t * 2''',
        ("plain@ = Plain@()",),
    ),
    "network": Subject(
        ("net@(x)", "net@.body(x) + 1", "x @ net@.body.weight", "x * net@.factor", "net@.norm(x)",
         "x * (2 if net@.training else 3)", "x * len(list(net@.parameters()))", "x + net@.buffer",
         "x * sum(p.requires_grad for p in net@.parameters())", "net@.layers[0](x)", "x * len(net@.layers)"),
        ("net@.eval()", "net@.train()", "net@.factor = %", "net@.body.weight = torch.nn.Parameter(torch.ones(4, 4))",
         "net@.body.bias = None", "net@.body = torch.nn.Identity()", "net@.body.weight.data.mul_(2)",
         "net@.register_forward_hook(lambda module, args, result: result * %)",
         "net@.body.register_forward_pre_hook(lambda module, args: (args[0] + %,))",
         "net@.body._forward_pre_hooks.clear()", "net@.norm.eps = 0.5", "net@.buffer = torch.ones(4) * %",
         "net@.forward = lambda t: t * %", "vars(net@).pop('forward', None)", "Net@.forward = lambda self, t: t - %",
         "net@.requires_grad_(False)", "net@.layers.append(torch.nn.Tanh())", "net@.layers[0] = torch.nn.Sigmoid()",
         "net@.buffer.add_(1)", "net@.double()", "net@.float()", "net@.register_buffer('more', torch.ones(1))",
         "net@.norm.momentum = 0.5", "del net@.buffer; net@.buffer = torch.full((4,), %.0)",
         "torch.nn.utils.parametrize.register_parametrization(net@.body, 'weight', torch.nn.ReLU())"
         " if hasattr(net@.body, 'weight') else None"),
        '''class Net@(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])
        self.register_buffer('buffer', torch.ones(4))
        self.factor = 2

    def forward(self, t):
        t = self.norm(self.body(t)) * self.factor + self.buffer
        for layer in self.layers:
            t = layer(t)
        return t''',
        ("net@ = Net@()",),
        ("patched(torch.nn.Module, '__call__', lambda self, t: t * 3)",
         "patched(torch.nn.Linear, 'forward', times(torch.nn.Linear.forward, 3.0))",
         "patched(torch.nn.functional, 'linear', times(F.linear, 3.0))",
         "patched(torch.nn.Module, '_call_impl', times(torch.nn.Module._call_impl, 3.0))",
         "hooked(torch.nn.modules.module.register_module_forward_hook(lambda module, args, result: result * 2))"),
    ),
    "functions of torch": Subject(
        ("torch.sin(x)", "x.sin()", "x.mul(2)", "F.relu(x)", "torch.cat([x, x])", "x.sum()", "-x", "x[0]", "x @ x.t()",
         "x.norm()", "2 - x", "x.abs().mean()", "torch.softmax(x, 1)", "x > 0", "len(x) * x", "x.size(0) * x"),
        (),
        around=("patched(torch, 'sin', torch.cos)", "patched(torch.Tensor, 'sin', torch.Tensor.cos)",
                "patched(torch.Tensor, 'mul', times(torch.Tensor.mul, 2.0))", "patched(F, 'relu', torch.tanh)",
                "patched(torch.Tensor, '__mul__', lambda self, other: self - other)",
                "patched(torch.Tensor, '__add__', lambda self, other: self - other)",
                "patched(torch.Tensor, '__matmul__', times(torch.Tensor.__matmul__, 2.0))",
                # not __getitem__: Python keeps its slot, and then takes every tensor for a sequence until it ends
                "patched(torch.Tensor, '__gt__', torch.lt)",
                "patched(torch.Tensor, '__neg__', torch.abs)", "patched(torch.Tensor, 'norm', torch.sum)",
                "patched(torch.Tensor, '__rsub__', torch.add)", "patched(torch, 'cat', lambda parts: parts[0])",
                "patched(torch.Tensor, 'sum', torch.mean)", "patched(torch.Tensor, 'size', lambda self, dim: 7)",
                "patched(torch.Tensor, '__len__', lambda self: 7)", "patched(torch.Tensor, 'helpful', torch.abs)"),
    ),
    "settings of torch": Subject(
        ("x * (2 if torch.backends.mkldnn.enabled else 3)", "x * (2 if torch.backends.cudnn.benchmark else 3)",
         "x * torch.get_num_threads()", "x * (2 if torch.is_grad_enabled() else 3)",
         "x * (2 if torch.get_default_dtype() == torch.float32 else 3)", "x + torch.zeros(4)", "torch.mm(x, x.t())",
         "x * (2 if torch.is_autocast_enabled('cpu') else 3)",
         "x * (2 if torch.get_autocast_dtype('cpu') == torch.bfloat16 else 3)",
         "x * (2 if torch.are_deterministic_algorithms_enabled() else 3)",
         "x * len(torch.get_float32_matmul_precision())", "x * (2 if torch.is_inference_mode_enabled() else 3)",
         "x.clone().put_(torch.tensor([0]), torch.tensor([2.0]))",
         "x * (2 if torch.is_autocast_cache_enabled() else 3)",
         "torch.empty(4).isnan() if torch.are_deterministic_algorithms_enabled() else x",
         "x.new_empty(2, dtype=torch.int64) if torch.are_deterministic_algorithms_enabled() else x",
         "x * (2 if torch.backends.mkldnn.deterministic else 3)", "x * (2 if torch.is_anomaly_enabled() else 3)",
         "x * (2 if torch.backends.cudnn.enabled else 3)", "x.requires_grad_().mul(2).requires_grad + x"),
        (),
        around=("patched_flag(torch.backends.mkldnn, 'enabled')", "patched_flag(torch.backends.cudnn, 'benchmark')",
                "patched_flag(torch.backends.mkldnn, 'deterministic')", "patched_flag(torch.backends.cudnn, 'enabled')",
                "setting(torch.set_num_threads, 2, 1)", "torch.no_grad()", "torch.inference_mode()",
                "torch.autocast('cpu', torch.bfloat16)", "torch.autocast('cpu', torch.float16)",
                "setting(functools.partial(torch.set_autocast_dtype, 'cpu'), torch.float16, torch.bfloat16)",
                "setting(torch.set_default_dtype, torch.float64, torch.float32)", "Operators()", "Functions()",
                "setting(torch.use_deterministic_algorithms, True, False)",
                "setting(torch.set_float32_matmul_precision, 'medium', 'highest')", "torch.device('cpu')",
                "setting(torch.set_autocast_cache_enabled, False, True)", "torch.device('meta')",
                "torch.autograd.set_detect_anomaly(True, False)"),
    ),
    "tensors": Subject(
        ("x + held_tensor@['t']", "x * (2 if held_tensor@['t'].requires_grad else 3)", "x * getattr(W@, 'tag', 2)",
         "x * W@", "x * (2 if W@.grad is None else 3)", "x * W@.dtype.itemsize", "x + held_tensor@['t'].shape[0]",
         "x + held_tensor@['t'].t().reshape(-1)[:4]", "x * (2 if isinstance(W@, torch.nn.Parameter) else 3)",
         "x + held_tensor@['t'].stride(0)", "x * (2 if W@.is_leaf else 3)"),
        ("held_tensor@['t'] = torch.ones(4) * %", "held_tensor@['t'] = torch.ones(2, 4).t()[:4, 0]",
         "held_tensor@['t'].add_(1)", "W@.tag = %", "W@.requires_grad_()", "W@.grad = torch.ones(4)", "W@.grad = None",
         "globals()['W@'] = torch.nn.Parameter(torch.ones(4))", "globals()['W@'] = torch.ones(4).double()",
         "held_tensor@['t'] = torch.ones(4, requires_grad=True)", "held_tensor@['t'] = torch.ones(8)[::2]",
         "held_tensor@['t'] = 3.0", "W@.data = torch.ones(4) * %", "globals()['W@'] = W@ * 1"),
        "W@ = torch.linspace(0.5, 1.5, 4)",
        ("held_tensor@ = {'t': torch.arange(4.0)}",),
    ),
    "environment": Subject(
        ("x * len(os.environ.get('FUZZ_CHANGES', ''))", "x * (2 if 'FUZZ_CHANGES' in os.environ else 3)",
         "x * math.floor(2.5)", "x * (2 if 'fuzz_nothing' in sys.modules else 3)"),
        (),
        around=("patched_item(os.environ, 'FUZZ_CHANGES', 'abc')", "patched(math, 'floor', math.ceil)",
                "patched_item(sys.modules, 'fuzz_nothing', math)"),
    ),
    "overridden containers": Subject(
        ("x * len(bag@)", "x * bag@['a']", "x * (2 if 'a' in bag@ else 3)", "x * sum(row@)", "x * row@[0]",
         "x * len(row@)", "x * (2 if bag@ else 3)"),
        ("Bag@.__len__ = lambda self: %", "Bag@.__getitem__ = lambda self, key: %", "dict.__setitem__(bag@, 'a', %)",
         "Row@.__iter__ = lambda self: iter((%,))", "row@.append(%)", "Row@.__getitem__ = lambda self, key: %",
         "Bag@.__missing__ = lambda self, key: %", "dict.pop(bag@, 'a', None)", "Bag@.__bool__ = lambda self: False",
         "Bag@.__contains__ = lambda self, key: False"),
        "class Bag@(dict):\n    pass\n\n\nclass Row@(list):\n    pass",
        ("bag@ = Bag@(a=2)", "row@ = Row@([2, 3])"),
    ),
}

MORE_TOOLS = '''
@contextlib.contextmanager
def patched_flag(holder, name):
    old = getattr(holder, name)
    setattr(holder, name, not old)
    try:
        yield
    finally:
        setattr(holder, name, old)


@contextlib.contextmanager
def patched_item(table, key, value):
    table[key] = value
    try:
        yield
    finally:
        del table[key]
'''


def generate(seed: int) -> Program:
    """A program of a few subjects, with a change before or around most of its calls."""
    dice = Dice(seed)
    names = dice.sample(list(SUBJECTS), dice.between(1, 3))
    texts = [_Text(SUBJECTS[name], number, dice) for number, name in enumerate(names)]
    lines = [HEAD, TOOLS, MORE_TOOLS]
    for text in texts:
        if text.subject.definitions:
            lines.append("\n" + text.fill(text.subject.definitions) + "\n")
    lines += ["", "def make():"]
    for text in texts:
        lines += _indented([text.fill(line) for line in text.subject.setup], 1)
    lines += ["    def fn(x, y):"]
    body: list[str] = []
    for text in texts:
        body += [text.fill(line) for line in text.subject.before_expression]
    results = []
    for position in range(dice.between(1, 4)):
        text = dice.choice(texts)
        body.append(f"r{position} = {text.fill(dice.choice(text.subject.expressions))}")
        results.append(f"r{position}")
        if dice.chance(0.15):
            body.append("if y.sum() > 1000:\n    return y")  # the graph ends here
    body.append(f"return {', '.join(results)}, y * 2")
    lines += _indented(body, 2)
    calls = dice.between(3, 7)
    lines.append("    calls = [((torch.linspace(-1, 1, 12).reshape(3, 4), torch.ones(4)), {}) for _ in "
                 f"range({calls})]")
    changes = [text.fill(change) for text in texts for change in text.subject.changes]
    around = [text.fill(manager) for text in texts for manager in text.subject.around]
    lines += ["    def before(index):", *_indented(_nonlocals(texts), 2)]
    managers = []
    for index in range(calls):
        if index and changes and dice.chance(0.75):
            chosen = dice.choice(changes)
            lines += _indented([f"if index == {index}:", "    with contextlib.suppress(Exception):",
                                *_indented([chosen], 2)], 2)
        manager = "contextlib.nullcontext()"
        if around and index and dice.chance(0.6):
            manager = dice.choice(around)
        managers.append(manager)
    lines += ["        return None", "    counted = [0]",
              "    around = [" + ", ".join(f"lambda: {manager}" for manager in managers) + "]",
              "    def use(function, args, kwargs):", "        counted[0] += 1",
              "        with around[(counted[0] - 1) % len(around)]():",
              "            result = function(*args, **kwargs)",
              "            return shortened(result) if torch.is_autocast_enabled('cpu') else result",
              "    def observe():", "        return {}", "    return fn, calls, before, observe, use", ""]
    return Program(seed, "\n".join(lines))


def _nonlocals(texts: Sequence[_Text]) -> list[str]:
    """Variables of `make` that a change assigns."""
    return [text.fill("nonlocal pair@") for text in texts if any("pair@ =" in line for line in text.subject.setup)]


def _indented(lines: Sequence[str], depth: int) -> list[str]:
    return ["    " * depth + part for line in lines for part in line.splitlines()]


class _Text:
    """Fills in the texts of one subject."""

    def __init__(self, subject: Subject, number: int, dice: Dice) -> None:
        self.subject = subject
        self.number = number
        self.dice = dice

    def fill(self, text: str) -> str:
        parts = text.replace(" @ ", "\0").replace("@functools", "\1").replace("@property", "\2") \
            .replace("@classmethod", "\3").replace("@staticmethod", "\4").replace("@dataclasses", "\5").split("%")
        filled = parts[0]
        for part in parts[1:]:
            filled += str(self.dice.between(2, 5)) + part
        filled = filled.replace("@", str(self.number))
        for mark, original in zip("\0\1\2\3\4\5", (" @ ", "@functools", "@property", "@classmethod", "@staticmethod",
                                                   "@dataclasses"), strict=True):
            filled = filled.replace(mark, original)
        return filled
