"""Every way in which Python calls a function of the program: forms of callees whose bodies are drawn.

A form is source with `$n` for its number, so that names do not meet, and `$body` for statements on a tensor `t`, in
definitions at the top of a module with a namespace `nets`; `use` is an expression with `$a` for the tensor that is
passed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """A way to be called."""

    name: str
    definition: str
    use: str

    def define(self, number: int, body: list[str]) -> list[str]:
        """Its definition around a body."""
        lines = []
        for line in self.definition.replace("$n", str(number)).splitlines():
            before, body_here, _ = line.partition("$body")
            lines += [before + text for text in body] if body_here else [line]
        return lines

    def call(self, number: int, argument: str) -> str:
        """The expression that calls it."""
        return self.use.replace("$n", str(number)).replace("$a", argument)


FUNCTION = """
def f$n(t):
    $body
    return t
"""
NUMBER = """
def key$n(t):
    $body
    return round(float(t.sum()), 3)
"""
MODULE = """
class Net$n(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
    def forward(self, t):
        $body
        return t * self.weight
nets.net$n = Net$n()
"""


def _method(signature: str, value: str = "t") -> str:
    """A class with one method of this signature on what it was made with."""
    return f"""
class Box$n:
    def __init__(self, t):
        self.t = t
    def {signature}:
        t = self.t
        $body
        return {value}
"""


PROPERTY = _method("value(self)").replace("    def value", "    @property\n    def value")


def _decorated(decorator: str) -> str:
    return f"\n{decorator}{FUNCTION}"


FORMS = [
    Form("plain", FUNCTION, "f$n($a)"),
    Form("keywords", FUNCTION, "f$n(t=$a)"),
    Form("star", FUNCTION, "f$n(*[$a])"),
    Form("double star", FUNCTION, "f$n(**{'t': $a})"),
    Form("lambda", FUNCTION, "(lambda u: f$n(u) + 1)($a)"),
    Form("closure", """
def outer$n(scale):
    def f$n(t):
        $body
        return t * scale
    return f$n
""", "outer$n(2)($a)"),
    Form("recursion", """
def f$n(t, depth=2):
    if depth == 0:
        return t
    $body
    return f$n(t, depth - 1)
""", "f$n($a)"),
    # methods
    Form("method", _method("run(self)"), "Box$n($a).run()"),
    Form("kept method", _method("run(self)") + """
def f$n(t):
    run = Box$n(t).run
    return run()
""", "f$n($a)"),
    Form("static method", """
class Box$n:
    @staticmethod
    def run(t):
        $body
        return t
""", "Box$n.run($a)"),
    Form("class method", """
class Box$n:
    @classmethod
    def run(cls, t):
        $body
        return t
""", "Box$n.run($a)"),
    Form("super method", _method("run(self)") + """
class Derived$n(Box$n):
    def run(self):
        return super().run() + 1
""", "Derived$n($a).run()"),
    Form("constructor", """
class Box$n:
    def __init__(self, t):
        $body
        self.t = t
""", "Box$n($a).t"),
    Form("super constructor", """
class Box$n:
    def __init__(self, t):
        $body
        self.t = t
class Derived$n(Box$n):
    def __init__(self, t):
        super().__init__(t * 2)
""", "Derived$n($a).t"),
    Form("post init", """
@dataclasses.dataclass
class Box$n:
    t: torch.Tensor
    def __post_init__(self):
        t = self.t
        $body
        self.t = t
""", "Box$n($a).t"),
    Form("new", """
class Box$n:
    def __new__(cls, t):
        box = object.__new__(cls)
        $body
        box.t = t
        return box
""", "Box$n($a).t"),
    Form("property", PROPERTY, "Box$n($a).value"),
    Form("property setter", """
class Box$n:
    @property
    def value(self):
        return self.t
    @value.setter
    def value(self, t):
        $body
        self.t = t
def f$n(t):
    box = Box$n()
    box.value = t
    return box.value
""", "f$n($a)"),
    Form("cached property", PROPERTY.replace("property", "functools.cached_property"),
         "Box$n($a).value"),
    Form("__getattr__", _method("__getattr__(self, name)"), "Box$n($a).missing"),
    Form("__getattribute__", """
class Box$n:
    def __init__(self, t):
        self.t = t
    def __getattribute__(self, name):
        t = object.__getattribute__(self, 't')
        $body
        return t
""", "Box$n($a).anything"),
    Form("__setattr__", """
class Box$n:
    def __setattr__(self, name, t):
        $body
        self.__dict__[name] = t
def f$n(t):
    box = Box$n()
    box.t = t
    return box.t
""", "f$n($a)"),
    Form("descriptor", """
class Reader$n:
    def __get__(self, box, cls):
        t = box.t
        $body
        return t
class Box$n:
    value = Reader$n()
    def __init__(self, t):
        self.t = t
""", "Box$n($a).value"),
    Form("getattr", PROPERTY,
         "getattr(Box$n($a), 'value')"),
    Form("partial method", """
class Box$n:
    def run(self, scale, t):
        $body
        return t * scale
    twice = functools.partialmethod(run, 2)
""", "Box$n().twice($a)"),
    # operators
    Form("__call__", _method("__call__(self)"), "Box$n($a)()"),
    Form("__add__", _method("__add__(self, other)", "t + other"), "Box$n($a) + 1"),
    Form("__radd__", _method("__radd__(self, other)", "t + other"), "1 + Box$n($a)"),
    Form("__iadd__", """
class Box$n:
    def __init__(self, t):
        self.t = t
    def __iadd__(self, other):
        t = self.t + other
        $body
        self.t = t
        return self
def f$n(t):
    box = Box$n(t)
    box += 1
    return box.t
""", "f$n($a)"),
    Form("__neg__", _method("__neg__(self)"), "-Box$n($a)"),
    Form("__getitem__", _method("__getitem__(self, index)"), "Box$n($a)[0]"),
    Form("__setitem__", """
class Box$n:
    def __setitem__(self, index, t):
        $body
        self.t = t
def f$n(t):
    box = Box$n()
    box[0] = t
    return box.t
""", "f$n($a)"),
    Form("__contains__", _method("__contains__(self, item)", "bool(t.sum() > 0.013)"), "$a + (1 in Box$n($a))"),
    Form("__eq__", _method("__eq__(self, other)"), "Box$n($a) == 1"),
    Form("__lt__", _method("__lt__(self, other)"), "Box$n($a) < 1"),
    Form("__len__", _method("__len__(self)", "int(t.shape[0])"), "$a + len(Box$n($a))"),
    Form("__bool__", _method("__bool__(self)", "bool(t.sum() > 0.013)"), "($a if Box$n($a) else $a + 1)"),
    Form("__str__", _method("__str__(self)", "'x' * t.shape[0]"), "$a + len(str(Box$n($a)))"),
    Form("__format__", _method("__format__(self, spec)", "'x' * t.shape[0]"), "$a + len(f'{Box$n($a)}')"),
    Form("__hash__", _method("__hash__(self)", "int(t.shape[0])"), "$a + hash(Box$n($a))"),
    Form("__float__", _method("__float__(self)", "float(t.sum())"), "$a + float(Box$n($a))"),
    Form("__torch_function__", """
class Box$n:
    def __init__(self, t):
        self.t = t
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        t = func(args[0].t, **(kwargs or {}))
        $body
        return t
""", "torch.sin(Box$n($a))"),
    # iteration
    Form("__iter__", """
class Box$n:
    def __init__(self, t):
        self.t = t
    def __iter__(self):
        t = self.t
        $body
        return iter([t, t + 1])
""", "sum(u for u in Box$n($a))"),
    Form("generator __iter__", """
class Box$n:
    def __init__(self, t):
        self.t = t
    def __iter__(self):
        t = self.t
        for step in range(2):
            $body
            yield t
def f$n(t):
    for u in Box$n(t):
        t = t + u
    return t
""", "f$n($a)"),
    Form("__next__", """
class Box$n:
    def __init__(self, t):
        self.t, self.left = t, 3
    def __iter__(self):
        return self
    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        t = self.t
        $body
        return t
def f$n(t):
    for u in Box$n(t):
        t = t + u
    return t
""", "f$n($a)"),
    Form("generator", """
def gen$n(t):
    for step in range(3):
        $body
        yield t + step
def f$n(t):
    for u in gen$n(t):
        t = t + u
    return t
""", "f$n($a)"),
    Form("sum of a generator", """
def gen$n(t):
    yield t
    $body
    yield t
""", "sum(gen$n($a))"),
    Form("yield from", """
def inner$n(t):
    $body
    yield t
def gen$n(t):
    yield t * 2
    yield from inner$n(t)
""", "sum(gen$n($a))"),
    Form("unpacked generator", """
def gen$n(t):
    $body
    yield t
    yield t + 1
def f$n(t):
    a, b = gen$n(t)
    return a + b
""", "f$n($a)"),
    Form("list comprehension", FUNCTION, "sum([f$n(u) for u in ($a, $a + 1)])"),
    Form("dict comprehension", FUNCTION, "sum({k: f$n($a + k) for k in (1, 2)}.values())"),
    Form("generator expression", FUNCTION, "sum(f$n(u) for u in ($a, $a + 1))"),
    Form("nested comprehension", FUNCTION, "sum([sum([f$n(u + k) for k in range(2)]) for u in ($a, $a + 1)])"),
    Form("filtered comprehension", NUMBER, "sum([u for u in ($a, $a + 1) if key$n(u) > -1e9])"),
    Form("loop", FUNCTION + """
def loop$n(t):
    for step in range(3):
        t = f$n(t) + step
    return t
""", "loop$n($a)"),
    Form("while", FUNCTION + """
def loop$n(t):
    step = 0
    while step < 3:
        t = f$n(t) + 1
        step += 1
    return t
""", "loop$n($a)"),
    # builtins that call back
    Form("map", FUNCTION, "sum(map(f$n, [$a, $a + 1]))"),
    Form("list of map", FUNCTION, "torch.stack(list(map(f$n, [$a, $a + 1]))).sum(0)"),
    Form("map of two", """
def f$n(t, u):
    $body
    return t + u
""", "sum(map(f$n, [$a, $a + 1], [$a, $a]))"),
    Form("loop over map", FUNCTION + """
def loop$n(t):
    for u in map(f$n, [t, t + 1]):
        t = t + u
    return t
""", "loop$n($a)"),
    Form("filter", NUMBER.replace("float(t.sum())", "float(t.sum()) > -1e9"),
         "sum(filter(key$n, [$a, $a + 1]))"),
    Form("reduce", """
def f$n(t, u):
    $body
    return t + u
""", "functools.reduce(f$n, [$a, $a + 1, $a + 2])"),
    Form("max", NUMBER, "max([$a, $a + 1], key=key$n)"),
    Form("min", NUMBER, "min($a, $a + 1, key=key$n)"),
    Form("sorted", NUMBER, "sorted([$a, $a + 1, $a - 1], key=key$n)[0]"),
    Form("list.sort", NUMBER + """
def f$n(t):
    items = [t, t + 1, t - 1]
    items.sort(key=key$n)
    return items[0]
""", "f$n($a)"),
    Form("sorted lambda", FUNCTION, "sorted([$a, $a + 1], key=lambda u: round(float(f$n(u).sum()), 3))[0]"),
    Form("any", NUMBER, "$a + any(key$n(u) > 1e9 for u in [$a, $a + 1])"),
    Form("all of map", NUMBER, "$a + all(map(key$n, [$a, $a + 1]))"),
    Form("accumulate", """
def f$n(t, u):
    $body
    return t + u
""", "sum(itertools.accumulate([$a, $a + 1, $a + 2], f$n))"),
    Form("starmap", """
def f$n(t, u):
    $body
    return t + u
""", "sum(itertools.starmap(f$n, [($a, $a + 1), ($a, $a)]))"),
    Form("takewhile", NUMBER, "sum(itertools.takewhile(lambda u: key$n(u) > -1e9, [$a, $a + 1]))"),
    Form("groupby", NUMBER, "sum(u for k, group in itertools.groupby([$a, $a + 1], key$n) for u in group)"),
    Form("iter of two", """
def f$n(t):
    left = [t, t + 1]
    def step():
        if not left:
            return None
        t = left.pop()
        $body
        return t
    return sum(iter(step, None))
""", "f$n($a)"),
    Form("defaultdict", """
def f$n(t):
    def make():
        t = x
        $body
        return t
    x = t
    table = collections.defaultdict(make)
    return table['a'] + table['b']
""", "f$n($a)"),
    Form("__missing__", """
class Table$n(dict):
    def __missing__(self, t):
        t = self.t
        $body
        return t
def f$n(t):
    table = Table$n()
    table.t = t
    return table['a']
""", "f$n($a)"),
    Form("methodcaller", _method("run(self)"), "operator.methodcaller('run')(Box$n($a))"),
    Form("attrgetter", PROPERTY,
         "operator.attrgetter('value')(Box$n($a))"),
    Form("tree_map", FUNCTION, "sum(torch.utils._pytree.tree_map(f$n, [$a, $a + 1]))"),
    Form("context run", FUNCTION, "contextvars.copy_context().run(f$n, $a)"),
    # functions around functions
    Form("partial", """
def f$n(scale, t):
    $body
    return t * scale
part$n = functools.partial(f$n, 2)
""", "part$n($a)"),
    Form("partial made inside", """
def f$n(scale, t):
    $body
    return t * scale
""", "functools.partial(f$n, 2)($a)"),
    Form("wraps", """
def twice$n(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return wrapper
@twice$n
def f$n(t):
    $body
    return t
""", "f$n($a)"),
    Form("single dispatch", """
@functools.singledispatch
def f$n(t):
    return None
@f$n.register(torch.Tensor)
def _(t):
    $body
    return t
""", "f$n($a)"),
    Form("no_grad", _decorated("@torch.no_grad()"), "f$n($a)"),
    Form("bare no_grad", _decorated("@torch.no_grad"), "f$n($a)"),
    Form("enable_grad", _decorated("@torch.enable_grad()"), "f$n($a)"),
    Form("set_grad_enabled", _decorated("@torch.set_grad_enabled(False)"), "f$n($a)"),
    Form("inference_mode", _decorated("@torch.inference_mode()"), "f$n($a).clone()"),
    Form("autocast", _decorated("@torch.autocast('cpu', torch.bfloat16)"), "f$n($a)"),
    Form("no_grad of a lambda", FUNCTION, "torch.no_grad()(lambda u: f$n(u) + 1)($a)"),
    Form("no_grad method", _method("run(self)").replace("    def run", "    @torch.no_grad()\n    def run"),
         "Box$n($a).run()"),
    Form("no_grad forward", MODULE.replace("    def forward", "    @torch.no_grad()\n    def forward"),
         "nets.net$n($a)"),
    Form("contextmanager decorator", """
@contextlib.contextmanager
def around$n():
    yield
@around$n()
def f$n(t):
    $body
    return t
""", "f$n($a)"),
    Form("ContextDecorator", """
class Around$n(contextlib.ContextDecorator):
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        return False
@Around$n()
def f$n(t):
    $body
    return t
""", "f$n($a)"),
    Form("lru_cache", """
@functools.lru_cache
def f$n(number):
    t = torch.full((3,), float(number))
    $body
    return t
""", "$a + f$n(2)"),
    # context managers
    Form("with", FUNCTION + """
def with$n(t):
    with torch.no_grad():
        t = f$n(t)
    return t + 1
""", "with$n($a)"),
    Form("__enter__", """
class Around$n:
    def __init__(self, t):
        self.t = t
    def __enter__(self):
        t = self.t
        $body
        return t
    def __exit__(self, *exc):
        return False
def f$n(t):
    with Around$n(t) as u:
        t = t + u
    return t
""", "f$n($a)"),
    Form("__exit__", """
class Around$n:
    def __init__(self, t):
        self.t = t
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        t = self.t
        $body
        self.t = t
        return False
def f$n(t):
    with Around$n(t) as around:
        t = t + 1
    return t + around.t
""", "f$n($a)"),
    Form("__exit__ of an error", """
class Around$n:
    def __init__(self, t):
        self.t = t
    def __enter__(self):
        return self
    def __exit__(self, *exc):
        t = self.t
        $body
        self.t = t
        return True
def f$n(t):
    with Around$n(t) as around:
        t = t + 1
        raise ValueError('x')
    return t + around.t
""", "f$n($a)"),
    Form("contextmanager enter", """
@contextlib.contextmanager
def around$n(t):
    $body
    yield t
def f$n(t):
    with around$n(t) as u:
        t = t + u
    return t
""", "f$n($a)"),
    Form("contextmanager exit", """
@contextlib.contextmanager
def around$n(kept, t):
    yield t
    $body
    kept.append(t)
def f$n(t):
    kept = []
    with around$n(kept, t) as u:
        t = t + u
    return t + kept[0]
""", "f$n($a)"),
    Form("inside a contextmanager", FUNCTION + """
@contextlib.contextmanager
def around$n():
    try:
        yield 2
    finally:
        pass
def with$n(t):
    with around$n() as scale:
        t = f$n(t) * scale
    return t
""", "with$n($a)"),
    Form("ExitStack", FUNCTION + """
def with$n(t):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        t = f$n(t)
    return t
""", "with$n($a)"),
    Form("callback of an ExitStack", """
def f$n(kept, t):
    $body
    kept.append(t)
def with$n(t):
    kept = []
    with contextlib.ExitStack() as stack:
        stack.callback(f$n, kept, t)
        t = t + 1
    return t + kept[0]
""", "with$n($a)"),
    Form("finally", FUNCTION + """
def try$n(t):
    try:
        t = t * 2
    finally:
        t = f$n(t)
    return t
""", "try$n($a)"),
    Form("except", FUNCTION + """
def try$n(t):
    try:
        raise ValueError('x')
    except ValueError:
        t = f$n(t)
    return t
""", "try$n($a)"),
    Form("raise through", """
def f$n(t):
    $body
    raise KeyError(t)
def try$n(t):
    try:
        f$n(t)
    except KeyError as error:
        return error.args[0] + 1
""", "try$n($a)"),
    # modules
    Form("module", MODULE, "nets.net$n($a)"),
    Form("forward", MODULE, "nets.net$n.forward($a)"),
    Form("super().__call__", MODULE + """
class Derived$n(Net$n):
    def __call__(self, t):
        return super().__call__(t) * 2
nets.derived$n = Derived$n()
""", "nets.derived$n($a)"),
    Form("super().forward", MODULE + """
class Derived$n(Net$n):
    def forward(self, t):
        return super().forward(t) * 2
nets.derived$n = Derived$n()
""", "nets.derived$n($a)"),
    Form("forward hook", """
nets.net$n = torch.nn.Linear(3, 3)
def hook$n(module, args, t):
    $body
    return t
nets.net$n.register_forward_hook(hook$n)
""", "nets.net$n($a)"),
    Form("pre-hook", """
nets.net$n = torch.nn.Linear(3, 3)
def hook$n(module, args):
    t = args[0]
    $body
    return (t,)
nets.net$n.register_forward_pre_hook(hook$n)
""", "nets.net$n($a)"),
    Form("pre-hook with keywords", """
nets.net$n = torch.nn.Linear(3, 3)
def hook$n(module, args, kwargs):
    t = kwargs['input']
    $body
    return args, {'input': t}
nets.net$n.register_forward_pre_hook(hook$n, with_kwargs=True)
""", "nets.net$n(input=$a)"),
    Form("hooked module", MODULE + """
def hook$n(module, args, t):
    return t + 1
nets.net$n.register_forward_hook(hook$n)
""", "nets.net$n($a)"),
    Form("Sequential", MODULE + """
nets.chain$n = torch.nn.Sequential(torch.nn.Linear(3, 3), nets.net$n, torch.nn.Tanh(), Net$n())
""", "nets.chain$n($a)"),
    Form("ModuleList", MODULE + """
class Chain$n(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Net$n() for _ in range(3)])
    def forward(self, t):
        for layer in self.layers:
            t = layer(t) + 1
        return t
nets.chain$n = Chain$n()
""", "nets.chain$n($a)"),
    Form("ModuleDict", MODULE + """
nets.table$n = torch.nn.ModuleDict({'a': nets.net$n, 'b': torch.nn.Tanh()})
def f$n(t):
    for name, layer in nets.table$n.items():
        t = layer(t)
    return t
""", "f$n($a)"),
    Form("parametrization", """
class Shape$n(torch.nn.Module):
    def forward(self, t):
        $body
        return t
nets.net$n = torch.nn.Linear(3, 3)
torch.nn.utils.parametrize.register_parametrization(nets.net$n, 'bias', Shape$n())
""", "nets.net$n($a)"),
    Form("checkpoint", FUNCTION, "torch.utils.checkpoint.checkpoint(f$n, $a, use_reentrant=False)"),
    Form("autograd function", """
class Same$n(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        t = t * 1
        $body
        return t
    @staticmethod
    def backward(ctx, grad):
        return grad
""", "Same$n.apply($a)"),
]  # fmt: skip
